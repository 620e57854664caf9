"""Work that is done once, for asyncio. Nothing here blocks the event loop, and a call that waits costs no thread."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect as inspection
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ParamSpec, Protocol, TypeVar, cast

from . import _failure, _invoke, _memo
from ._call import Call, Found, Step, StepFuture, WorkRequest
from ._frames import brief
from ._held import HeldThing
from ._host_interface import Host
from ._hosts import AnyStore, host_of, known_host
from ._invoke import Keep, Outcome, Run, WorkOutput, asking, beginning, content, remoting, under
from ._loop import Lost, outcome, wrapped
from ._memo import MEMO, Memo, MemoOptions, looking, offered, unread
from ._options import RELEASE, InvokeOptions, RemoteOptions, spelled
from .errors import MopslockError, NoResult, RememberedFailure

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Work(_invoke.Work):
    """mopslock.Work, whose ``lost`` can be awaited."""

    _home = "mopslock.aio"
    lost: Lost

    def __init__(self, held: HeldThing) -> None:
        super().__init__(held)
        self.lost = Lost(held)


class Result(Outcome):
    """mopslock.Result, whose waits can be awaited."""

    async def open(self) -> BinaryIO:
        """As mopslock.Result.open. Reads of the stream wait for the store: read it by asyncio.to_thread."""
        return await asyncio.to_thread(self._open)

    async def read(self) -> bytes:
        """As mopslock.Result.read."""
        return await asyncio.to_thread(self._read)

    async def failure(self) -> RememberedFailure | None:
        """As mopslock.Result.failure."""
        return await asyncio.to_thread(self._failure)


Launch = Callable[[Work], Coroutine[Any, Any, WorkOutput]]


@brief
@spelled(InvokeOptions)
async def invoke(store: AnyStore, name: str, launch: Launch, **options: Unpack[InvokeOptions]) -> Result:
    """As mopslock.invoke; launch is a coroutine function.

    One thread keeps all leases and serves all calls that wait. So thousands can be awaited at once. A call that is
    cancelled, or whose loop is closed, waits no more and holds nothing. If it is cancelled while launch runs, launch is
    cancelled first, and then the lease is released.
    """
    return await invoked(store, asking("invoke", name, options), launch, _failure.dump)


async def invoked(store: AnyStore, request: WorkRequest, launch: Launch, keep: Keep) -> Result:
    """As invoke, for callers that store failures in their own way."""
    return Result(*await _Loop(store, Run(request, keep), launch).until_found())


@brief
@spelled(RemoteOptions)
async def remote(
    store: AnyStore | None, lease_text: str | None, launch: Launch, **options: Unpack[RemoteOptions]
) -> Result | None:
    """As mopslock.remote; launch is a coroutine function."""
    where, request = remoting(store, lease_text, options)
    run = Run(request, _failure.dump)
    try:
        return Result(*await _Loop(where, run, launch).until_found())
    except MopslockError as error:
        if run.late(error):
            return None
        raise


async def _host(store: AnyStore) -> Host:
    """The host of a store. The first call loads the library and opens the store."""
    host = known_host(store)
    return host if host is not None else await asyncio.to_thread(host_of, store)


class _Loop:
    """One call, in its caller's task."""

    def __init__(self, store: AnyStore, run: Run, launch: Launch) -> None:
        self._store, self._run, self._launch = store, run, launch
        self._begun = False

    async def until_found(self) -> tuple[Call, Found]:
        host = await _host(self._store)
        request = beginning(host, self._run.request, awaits=True)
        next_step = StepFuture()
        call = host.begin_invocation(request, next_step)
        try:
            while True:
                step = await self._next(call, next_step)
                if isinstance(step, Found):
                    return call, step
                next_step = StepFuture()
                await self._work(call, step.held, next_step)
        except GeneratorExit:  # the loop is closed, so nothing can wait
            call.cancel()
            raise
        except BaseException:
            over = call.cancel()
            if self._begun:  # release what was held before the error is raised, but wait only so long
                with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                    await asyncio.wait_for(wrapped(over), RELEASE)
            raise

    async def _next(self, call: Call, next_step: StepFuture) -> Step:
        came: Step | BaseException
        try:
            came = await asyncio.wait_for(outcome(next_step, call.cancel), self._run.patience)
        except (asyncio.TimeoutError, TimeoutError, MopslockError) as error:
            came = error
        return self._run.judge(came)

    async def _work(self, call: Call, held: HeldThing, next_step: StepFuture) -> None:
        if held.failure() is not None:
            call.complete(next_step, well=True, body=None)
            return
        self._begun = True
        try:
            with under(Work(held), self._run.request) as work:
                body = content(await self._launch(work))
            if isinstance(body, Path):
                await asyncio.to_thread(call.complete, next_step, well=True, body=body)
            else:
                call.complete(next_step, well=True, body=body)
        except Exception as error:
            well, kept = self._run.failed(held, error)
            call.complete(next_step, well=well, body=kept)


class Memoized(Protocol[P, R_co]):
    """A coroutine function whose results stay. Call it as before."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...

    def __get__(self, instance: Any, owner: Any = None, /) -> Callable[..., Coroutine[Any, Any, R_co]]:
        """A method, if the function belongs to a class."""

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """As mopslock.Memoized.key."""

    async def cached(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """As mopslock.Memoized.cached."""


@spelled(MemoOptions, MEMO)
def memoize(
    store: AnyStore, version: str = "1", **options: Unpack[MemoOptions]
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Memoized[P, R]]:
    """As mopslock.memoize, for coroutine functions. Both find each other's results."""
    request = asking("memoize", "memo", options, MemoOptions)

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Memoized[P, R]:
        if not inspection.iscoroutinefunction(function):
            raise TypeError("mopslock: aio.memoize() decorates coroutine functions; use mopslock.memoize() for others")
        memo = Memo.of(function, version, request, options)

        @brief
        @functools.wraps(function)
        async def memoized(*args: P.args, **kwargs: P.kwargs) -> R:
            work = memo.request(args, kwargs)

            async def launch(_: Work) -> WorkOutput:
                return memo.dumps(await function(*args, **kwargs))

            with memo.once(work.name):
                result = await invoked(store, work, launch, memo.keep)
                return cast(R, memo.loads(result.name, await result.read(), failed=result.failed))

        async def cached(*args: P.args, **kwargs: P.kwargs) -> bool:
            return await _is_there(store, memo.request(args, kwargs))

        made: Memoized[P, R] = offered(memoized, memo, cached)
        return made

    return decorate


async def _is_there(store: AnyStore, request: WorkRequest) -> bool:
    """As is_there of the package."""
    host = await _host(store)
    next_step = StepFuture()
    call = host.begin_invocation(looking(request), next_step)
    try:
        step: Step = await asyncio.wait_for(outcome(next_step, call.cancel), _memo.LOOK)
        if not isinstance(step, Found):
            next_step = StepFuture()
            call.complete(next_step, well=True, body=None)
            step = await asyncio.wait_for(outcome(next_step, call.cancel), _memo.LOOK)
        return isinstance(step, Found)
    except NoResult:
        return False
    except (asyncio.TimeoutError, TimeoutError) as error:
        if isinstance(error, MopslockError):
            raise
        raise unread(request.name) from error
    finally:
        call.cancel()

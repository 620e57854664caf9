"""Work that is done once, for asyncio: nothing here blocks the event loop, and a call that waits costs no thread."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect as inspection
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, BinaryIO, Literal, ParamSpec, Protocol, TypeVar, cast

from . import _failure, _invoke, _memo
from ._duration import Duration
from ._frames import brief
from ._hosts import AnyStore, host_of, known_host
from ._invoke import CameTo, Doing, Keep, Outcome, asking, beginning, content, remoting, under
from ._lease import RELEASE
from ._loop import Lost, outcome, wrapped
from ._held import Host, HeldThing, Waits
from ._memo import JSON, Memo, Naming, Serializer, looking, offered, unread
from ._ongoing import Found, Ongoing, Turn, Turns, Wanted
from .errors import MopslockError, NoResult, RememberedFailure
from .terms import Expiry, Renewal, Terms
from .terms import Protocol as Kept

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
    """mopslock.Result, with what waits to be awaited."""

    async def open(self) -> BinaryIO:
        """As mopslock.Result.open. What is read of the stream waits for the store: read it by asyncio.to_thread."""
        return await asyncio.to_thread(self._open)

    async def read(self) -> bytes:
        """As mopslock.Result.read."""
        return await asyncio.to_thread(self._read)

    async def failure(self) -> RememberedFailure | None:
        """As mopslock.Result.failure."""
        return await asyncio.to_thread(self._failure)


Launch = Callable[[Work], Coroutine[Any, Any, CameTo]]


@brief
async def invoke(
    store: AnyStore,
    name: str,
    launch: Launch,
    *,
    wait: Duration | None = None,
    ttl: Duration | None = None,
    margin: Duration | None = None,
    acquire_margin: Duration | None = None,
    fleet_expire: Duration | Literal["none"] | None = None,
    renewal: Renewal = "checked",
    expiry: Expiry = "wall",
    protocol: Kept = "auto",
    session: bool = False,
    label: str = "",
    memo_failures: bool = False,
    on_waiting: Waits | None = None,
) -> Result:
    """As mopslock.invoke; launch is a coroutine function.

    A call that waits is a machine on the one thread that keeps all leases, and no thread of its own: thousands can be
    awaited at once. One that is cancelled, or whose loop is closed, waits no more, and holds nothing: while launch runs
    it is cancelled in launch, and the lease is released after that.
    """
    terms = Terms(ttl, margin, acquire_margin, fleet_expire, renewal, expiry, protocol, session, label)
    wanted = asking(name, terms, wait, on_waiting, memo_failures=memo_failures)
    return await invoked(store, wanted, launch, _failure.dump)


async def invoked(store: AnyStore, wanted: Wanted, launch: Launch, keep: Keep) -> Result:
    """Does what invoke does, for those who keep failures in a way of their own."""
    return Result(*await _Loop(store, Doing(wanted, keep), launch).run())


@brief
async def remote(
    store: AnyStore | None,
    lease_text: str | None,
    launch: Launch,
    *,
    without_lease: bool = False,
    memo_failures: bool = False,
    name: str | None = None,
    margin: Duration | None = None,
) -> Result | None:
    """As mopslock.remote; launch is a coroutine function."""
    where, wanted = remoting(
        store, lease_text, without_lease=without_lease, memo_failures=memo_failures, name=name, margin=margin
    )
    doing = Doing(wanted, _failure.dump)
    try:
        return Result(*await _Loop(where, doing, launch).run())
    except MopslockError as error:
        if doing.late(error):
            return None
        raise


async def _host(store: AnyStore) -> Host:
    """The first time it loads the library, and opens the store."""
    host = known_host(store)
    return host if host is not None else await asyncio.to_thread(host_of, store)


class _Loop:
    """One call, in its caller's task."""

    def __init__(self, store: AnyStore, doing: Doing, launch: Launch) -> None:
        self._store, self._doing, self._launch = store, doing, launch
        self._begun = False

    async def run(self) -> tuple[Ongoing, Found]:
        host = await _host(self._store)
        wanted = beginning(host, self._doing.wanted, awaits=True)
        turn = Turns()
        call = host.begin_invocation(wanted, turn)
        try:
            while True:
                come = await self._next(call, turn)
                if isinstance(come, Found):
                    return call, come
                turn = Turns()
                await self._work(call, come.held, turn)
        except GeneratorExit:  # of a loop that is closed there is nothing to wait with
            call.cancel()
            raise
        except BaseException:
            over = call.cancel()
            if self._begun:  # what was held is released before anybody hears of the error; not for ever, though
                with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                    await asyncio.wait_for(wrapped(over), RELEASE)
            raise

    async def _next(self, call: Ongoing, turn: Turns) -> Turn:
        came: Turn | BaseException
        try:
            came = await asyncio.wait_for(outcome(turn, call.cancel), self._doing.patience)
        except (asyncio.TimeoutError, TimeoutError, MopslockError) as error:
            came = error
        return self._doing.judge(came)

    async def _work(self, call: Ongoing, held: HeldThing, turn: Turns) -> None:
        if held.failure() is not None:
            call.came_to(turn, well=True, body=None)
            return
        self._begun = True
        try:
            with under(Work(held), self._doing.wanted) as work:
                body = content(await self._launch(work))
            if isinstance(body, Path):
                await asyncio.to_thread(call.came_to, turn, well=True, body=body)
            else:
                call.came_to(turn, well=True, body=body)
        except Exception as error:
            well, kept = self._doing.failed(held, error)
            call.came_to(turn, well=well, body=kept)


class Memoized(Protocol[P, R_co]):
    """A coroutine function whose results stay; called as ever."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...

    def __get__(self, instance: Any, owner: Any = None, /) -> Callable[..., Coroutine[Any, Any, R_co]]:
        """A method, where it is one of a class's."""

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """As mopslock.Memoized.key."""

    async def cached(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """As mopslock.Memoized.cached."""


def memoize(
    store: AnyStore,
    version: str = "1",
    *,
    serializer: Serializer = JSON,
    key: Callable[..., Any] | None = None,
    prefix: str = "memo",
    name: str | None = None,
    memo_failures: bool = False,
    wait: Duration | None = None,
    ttl: Duration | None = None,
    margin: Duration | None = None,
    acquire_margin: Duration | None = None,
    fleet_expire: Duration | Literal["none"] | None = None,
    renewal: Renewal = "checked",
    expiry: Expiry = "wall",
    protocol: Kept = "auto",
    session: bool = False,
    label: str = "",
    on_waiting: Waits | None = None,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Memoized[P, R]]:
    """As mopslock.memoize, for coroutine functions; both find each other's results."""
    terms = Terms(ttl, margin, acquire_margin, fleet_expire, renewal, expiry, protocol, session, label)
    wanted = asking("memo", terms, wait, on_waiting, memo_failures=memo_failures)

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Memoized[P, R]:
        if not inspection.iscoroutinefunction(function):
            raise TypeError("mopslock: aio.memoize() decorates coroutine functions; use mopslock.memoize() for others")
        memo = Memo(function, wanted, serializer, Naming.of(function, prefix, name, version, key))

        @brief
        @functools.wraps(function)
        async def memoized(*args: P.args, **kwargs: P.kwargs) -> R:
            asked = memo.wanted(args, kwargs)

            async def launch(_: Work) -> CameTo:
                return memo.dumps(await function(*args, **kwargs))

            with memo.once(asked.name):
                result = await invoked(store, asked, launch, memo.keep)
                return cast(R, memo.loads(result.name, await result.read(), failed=result.failed))

        async def cached(*args: P.args, **kwargs: P.kwargs) -> bool:
            return await _is_there(store, memo.wanted(args, kwargs))

        made: Memoized[P, R] = offered(memoized, memo, cached)
        return made

    return decorate


async def _is_there(store: AnyStore, wanted: Wanted) -> bool:
    """As that of the package."""
    host = await _host(store)
    turn = Turns()
    call = host.begin_invocation(looking(wanted), turn)
    try:
        come: Turn = await asyncio.wait_for(outcome(turn, call.cancel), _memo.LOOK)
        if not isinstance(come, Found):
            turn = Turns()
            call.came_to(turn, well=True, body=None)
            come = await asyncio.wait_for(outcome(turn, call.cancel), _memo.LOOK)
        return isinstance(come, Found)
    except NoResult:
        return False
    except (asyncio.TimeoutError, TimeoutError) as error:
        if isinstance(error, MopslockError):
            raise
        raise unread(wanted.name) from error
    finally:
        call.cancel()

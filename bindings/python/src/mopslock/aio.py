"""The asyncio twins: nothing here blocks the event loop, and nothing in the event loop delays a renewal.

::

    async with mopslock.aio.lease("gs://bucket/locks", "nightly") as lease:
        await work()
        lease.check()

Names, arguments and errors are those of the package itself. A task that is cancelled while it waits leaves nothing
held. A task that is cancelled in the block releases.

With ``on_loss="cancel"`` a loss stops the block, as asyncio.timeout does at its time: the task is cancelled at the
deadline, or when the loss is known, and the block raises LeaseLost. What the block raises itself goes first, and a
cancellation by another stays one. Of nested blocks, the outermost whose lease is lost raises.
"""

from __future__ import annotations

import asyncio
import functools
import inspect as inspection
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, BinaryIO, ParamSpec, Protocol, TypeVar, cast

from . import _api, _inside, _invoke, _lease, _memo
from ._aio_limiter import Limiter, LimiterHolder, LimiterPermitting
from ._api import accompanying, lease_request, shared_permit_request, under
from ._duration import Duration
from ._frames import brief
from ._hosts import AnyStore
from ._invoke import Invoking, WorkOutput, asking, joining
from ._loop import TASK, Cancelling, Lost, threaded
from ._memo import MEMO, Memo, MemoOptions, offered
from ._options import (
    RELEASE,
    Block,
    CompanionOptions,
    InvokeOptions,
    LeaseOptions,
    PermitOptions,
    RemoteOptions,
    TryOptions,
    TryPermitOptions,
    Unpack,
    spelled,
)
from ._own.claims import HeldThing
from ._request import Acquiring, Use
from .errors import Full, Held, LeaseLost, RememberedFailure
from .status import Status

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Companion", "Lease", "Leasing", "Limiter", "LimiterHolder", "LimiterPermitting", "Lost", "Memoized", "Permit",
    "Permitting", "Result", "Work", "accompany", "acquire", "acquire_permit", "break_lease", "inspect", "invoke",
    "lease", "ls", "memoize", "permit", "remote", "set_limit", "try_acquire", "try_acquire_permit",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A", bound="OfTask")


class OfTask(_lease.HeldLease):
    _caller = TASK
    _home = "mopslock.aio"
    _lost = Lost
    lost: Lost

    def __init__(self, held: HeldThing, block: Block) -> None:
        super().__init__(held, block)
        self._stops: list[Cancelling] = []  # of the blocks that are entered

    def _enter(self) -> None:
        super()._enter()
        if self._block.on_loss == "cancel":
            self._stops.append(stop := Cancelling(self._held))
            stop.__enter__()

    async def _end_block(self, error: BaseException | None) -> None:
        task = asyncio.current_task()
        for stop in ([stop for stop in self._stops if stop.task is task] or self._stops)[-1:]:
            self._stops.remove(stop)
            try:
                stop.__exit__(None, error, None)
            except LeaseLost:
                self._carry_on()  # there is nothing to wait for
                raise
        await super()._end_block(error)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        await self._end_block(error)


class Lease(OfTask, _lease.AcquiredLease):
    """mopslock.Lease, whose waits can be awaited."""

    async def release(self, timeout: Duration | None = RELEASE) -> None:
        """As mopslock.Lease.release."""
        await self._end(timeout)


class Companion(OfTask):
    """mopslock.Companion, whose waits can be awaited."""

    async def leave(self, timeout: Duration | None = RELEASE) -> None:
        """As mopslock.Companion.leave."""
        await self._end(timeout)


class Permit(OfTask, _lease.Shared):
    """mopslock.Permit, whose waits can be awaited."""

    async def release(self, timeout: Duration | None = RELEASE) -> None:
        """As mopslock.Permit.release."""
        await self._end(timeout)


class TaskAcquiring(Acquiring[A]):
    @brief
    async def acquire(self) -> A:
        """Acquires what is independent of this object, and returns it."""
        return await self._request.acquire(self._kind)

    @brief
    async def __aenter__(self) -> A:
        use: Use[A] = Use()
        try:
            return await self._enter(use)
        except BaseException:
            self._give_back(use)
            raise

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        use = self._use()
        try:
            await self._leave(use, error)
        except BaseException:
            self._give_back(use)
            raise


@spelled(LeaseOptions)
def lease(store: AnyStore, name: str, **options: Unpack[LeaseOptions]) -> Leasing:
    """As mopslock.lease, for ``async with`` and for coroutine functions."""
    return Leasing(lease_request(store, name, options, is_task=True))


class Leasing(TaskAcquiring[Lease]):
    """What lease() returns: enter it, or decorate with it."""

    _kind = Lease

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Each call of the coroutine function acquires, and releases."""
        if not inspection.iscoroutinefunction(function):
            raise TypeError("mopslock: aio.lease() decorates coroutine functions; use mopslock.lease() for others")

        @brief
        @functools.wraps(function)
        async def leased(*args: P.args, **kwargs: P.kwargs) -> R:
            with _inside.once(self, under(self._request.name)):
                async with Leasing(self._request):
                    return await function(*args, **kwargs)

        return leased


@spelled(LeaseOptions)
async def acquire(store: AnyStore, name: str, **options: Unpack[LeaseOptions]) -> Lease:
    """As mopslock.acquire."""
    return await lease(store, name, **options).acquire()


@spelled(TryOptions)
async def try_acquire(store: AnyStore, name: str, **options: Unpack[TryOptions]) -> Lease | None:
    """As mopslock.try_acquire."""
    try:
        return await lease(store, name, wait=0, **options).acquire()
    except Held:
        return None


@spelled(CompanionOptions)
async def accompany(text: str | None = None, **options: Unpack[CompanionOptions]) -> Companion:
    """As mopslock.accompany: ``async with await mopslock.aio.accompany() as companion``."""
    return await accompanying(text, options, is_task=True).acquire(Companion)


@spelled(PermitOptions)
def permit(store: AnyStore, name: str, *, capacity: int, **options: Unpack[PermitOptions]) -> Permitting:
    """As mopslock.permit, for ``async with``."""
    return Permitting(shared_permit_request(store, name, capacity, options, is_task=True))


class Permitting(TaskAcquiring[Permit]):
    """What permit() returns: enter it, or acquire with it."""

    _kind = Permit


@spelled(PermitOptions)
async def acquire_permit(store: AnyStore, name: str, *, capacity: int, **options: Unpack[PermitOptions]) -> Permit:
    """As mopslock.acquire_permit."""
    return await permit(store, name, capacity=capacity, **options).acquire()


@spelled(TryPermitOptions)
async def try_acquire_permit(
    store: AnyStore, name: str, *, capacity: int, **options: Unpack[TryPermitOptions]
) -> Permit | None:
    """As mopslock.try_acquire_permit."""
    try:
        return await permit(store, name, capacity=capacity, wait=0, **options).acquire()
    except Full:
        return None


class Work(_invoke.Work):
    """mopslock.Work, whose ``lost`` can be awaited."""

    _caller = TASK
    _home = "mopslock.aio"
    _lost = Lost
    lost: Lost


class Result(_invoke.Result):
    """mopslock.Result, whose waits can be awaited."""

    async def open(self) -> BinaryIO:  # type: ignore[override]
        """As mopslock.Result.open. Reads of the stream wait for the store: read it by asyncio.to_thread."""
        return await asyncio.to_thread(super().open)

    async def read(self) -> bytes:  # type: ignore[override]
        """As mopslock.Result.read."""
        return await asyncio.to_thread(super().read)

    async def failure(self) -> RememberedFailure | None:  # type: ignore[override]
        """As mopslock.Result.failure."""
        return await asyncio.to_thread(super().failure)


Launch = Callable[[Work], Coroutine[Any, Any, WorkOutput]]


@spelled(InvokeOptions)
async def invoke(store: AnyStore, name: str, launch: Launch, **options: Unpack[InvokeOptions]) -> Result:
    """As mopslock.invoke; launch is a coroutine function.

    One thread keeps all leases and serves all calls that wait. So thousands can be awaited at once. A call that is
    cancelled, or whose loop is closed, waits no more and holds nothing. If it is cancelled while launch runs, launch is
    cancelled first, and then the lease is released.
    """
    request = asking("invoke", name, options, is_task=True)
    return Result(*await Invoking(Work, store, request, launch).until_found())


@spelled(RemoteOptions)
async def remote(
    store: AnyStore | None, lease_text: str | None, launch: Launch, **options: Unpack[RemoteOptions]
) -> Result | None:
    """As mopslock.remote; launch is a coroutine function."""
    found = await joining(Work, store, lease_text, launch, options)
    return Result(*found) if found is not None else None


class Memoized(_memo.Memoized[P, Coroutine[Any, Any, R_co]], Protocol[P, R_co]):
    """A coroutine function whose results stay. Call it as before."""

    async def cached(self, *args: P.args, **kwargs: P.kwargs) -> bool:  # type: ignore[override]
        """As mopslock.Memoized.cached."""


@spelled(MemoOptions, **MEMO)
def memoize(
    store: AnyStore, version: str = "1", **options: Unpack[MemoOptions]
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Memoized[P, R]]:
    """As mopslock.memoize, for coroutine functions. Both find each other's results."""
    request = asking("memoize", "memo", options, MemoOptions, is_task=True)

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Memoized[P, R]:
        if not inspection.iscoroutinefunction(function):
            raise TypeError("mopslock: aio.memoize() decorates coroutine functions; use mopslock.memoize() for others")
        memo = Memo(function, version, request, options)

        @brief
        @functools.wraps(function)
        async def memoized(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast(R, await memo.call(Work, store, args, kwargs))

        async def cached(*args: P.args, **kwargs: P.kwargs) -> bool:
            return await memo.is_there(Work, store, args, kwargs)

        made: Memoized[P, R] = offered(memoized, memo, cached)
        return made

    return decorate


inspect = threaded(_api.inspect)
break_lease = threaded(_api.break_lease)
set_limit = threaded(_api.set_limit)


async def ls(store: AnyStore, prefix: str = "", *, timeout: Duration = 30.0) -> AsyncIterator[Status]:
    """As mopslock.ls."""
    found = await asyncio.to_thread(_api.ls, store, prefix, timeout=timeout)
    while (status := await asyncio.to_thread(next, found, None)) is not None:
        yield status

"""The asyncio twins: nothing here blocks the event loop, and nothing in the event loop delays a renewal.

::

    async with mopslock.aio.lease("gs://bucket/locks", "nightly") as lease:
        await work()
        lease.check()

Names, arguments and errors are those of the package itself. A task that is cancelled while it waits leaves nothing
held. A task that is cancelled in the block releases.
"""

from __future__ import annotations

import asyncio
import functools
import inspect as inspection
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import _api, _inside, _lease, _permit
from ._aio_invoke import Memoized, Result, Work, invoke, memoize, remote
from ._aio_lease import Async, enter, leave
from ._aio_limiter import Limiter, LimiterHolder, LimiterPermitting
from ._aio_permit import Permit, Permitting, acquire_permit, permit, try_acquire_permit
from ._api import _Once, accompanying, lease_request
from ._duration import Duration
from ._frames import brief
from ._held import Entered, logged
from ._hosts import AnyStore, host_of
from ._loop import Lost, take, threaded
from ._options import RELEASE, CompanionOptions, LeaseOptions, TryOptions, spelled
from .errors import Held
from .status import Status

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Companion",
    "Lease",
    "Leasing",
    "Limiter",
    "LimiterHolder",
    "LimiterPermitting",
    "Lost",
    "Memoized",
    "Permit",
    "Permitting",
    "Result",
    "Work",
    "accompany",
    "acquire",
    "acquire_permit",
    "break_lease",
    "inspect",
    "invoke",
    "lease",
    "ls",
    "memoize",
    "permit",
    "remote",
    "set_limit",
    "try_acquire",
    "try_acquire_permit",
]

P = ParamSpec("P")
R = TypeVar("R")


class Lease(Async, _lease.AcquiredLease):
    """mopslock.Lease, whose waits can be awaited."""

    async def release(self, timeout: Duration | None = RELEASE) -> None:
        """As mopslock.Lease.release."""
        await self._finish_async(timeout)

    async def __aenter__(self) -> Lease:
        _inside.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._leave_async(error)


class Companion(Async):
    """mopslock.Companion, whose waits can be awaited."""

    async def leave(self, timeout: Duration | None = RELEASE) -> None:
        """As mopslock.Companion.leave."""
        await self._finish_async(timeout)

    async def __aenter__(self) -> Companion:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._leave_async(error)


@spelled(LeaseOptions)
def lease(store: AnyStore, name: str, **options: Unpack[LeaseOptions]) -> Leasing:
    """As mopslock.lease, for ``async with`` and for coroutine functions."""
    return Leasing(lease_request(store, name, options))


class Leasing:
    """What lease() returns: enter it, or decorate with it."""

    def __init__(self, request: _api.LeaseRequest) -> None:
        self._request = request
        self._entered: Entered[Lease] = Entered()
        self._inside: ContextVar[bool] = ContextVar("mopslock-inside", default=False)

    @brief
    async def acquire(self) -> Lease:
        """Acquires a lease that is independent of this object."""
        w = self._request
        host = await asyncio.to_thread(host_of, w.store)  # the first time it loads the library
        if w.block.wait != 0:
            _inside.refuse(host, w.name, w.terms.protocol, awaits=True)
        waits = logged("lease", w.name, w.block.on_waiting)
        return await take(
            lambda future: host.begin_acquire(w.name, w.terms, w.block.wait_ns(), waits, future),
            lambda held: Lease(held, w.block),
        )

    @brief
    async def __aenter__(self) -> Lease:
        return await enter(self._entered, self.acquire, f"lease {self._request.name!r}", _inside.enter)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await leave(self._entered, error)

    def __reduce__(self) -> Any:
        raise TypeError(_api.OWN_LEASING)

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Each call of the coroutine function acquires, and releases."""
        if not inspection.iscoroutinefunction(function):
            raise TypeError("mopslock: aio.lease() decorates coroutine functions; use mopslock.lease() for others")

        @brief
        @functools.wraps(function)
        async def leased(*args: P.args, **kwargs: P.kwargs) -> R:
            with _Once(self._inside, self._request.name):
                async with Leasing(self._request):
                    return await function(*args, **kwargs)

        return leased


@brief
@spelled(LeaseOptions)
async def acquire(store: AnyStore, name: str, **options: Unpack[LeaseOptions]) -> Lease:
    """As mopslock.acquire."""
    return await lease(store, name, **options).acquire()


@brief
@spelled(TryOptions)
async def try_acquire(store: AnyStore, name: str, **options: Unpack[TryOptions]) -> Lease | None:
    """As mopslock.try_acquire."""
    try:
        return await lease(store, name, wait=0, **options).acquire()
    except Held:
        return None


@brief
@spelled(CompanionOptions)
async def accompany(text: str | None = None, **options: Unpack[CompanionOptions]) -> Companion:
    """As mopslock.accompany: ``async with await mopslock.aio.accompany() as companion``."""
    handle, request = accompanying(text, options)
    host = await asyncio.to_thread(host_of, request.store)
    return await take(
        lambda future: host.begin_accompany(handle, request.terms, future),
        lambda held: Companion(held, request.block),
    )


inspect = threaded(_api.inspect)
break_lease = threaded(_api.break_lease)
set_limit = threaded(_permit.set_limit)


async def ls(store: AnyStore, prefix: str = "", *, timeout: Duration = 30.0) -> AsyncIterator[Status]:
    """As mopslock.ls."""
    found = await asyncio.to_thread(_api.ls, store, prefix, timeout=timeout)
    while (status := await asyncio.to_thread(next, found, None)) is not None:
        yield status

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
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from . import _api, _inside, _lease
from ._aio_invoke import Memoized, Result, Work, invoke, memoize, remote
from ._aio_lease import Async, enter, leave
from ._aio_limiter import Limiter, LimiterHolder, LimiterPermitting
from ._aio_permit import Permit, Permitting, acquire_permit, permit, set_limit, try_acquire_permit
from ._api import _Once, accompanying, lease_request
from ._duration import Duration
from ._frames import brief
from ._held import Entered, OnWaiting, logged
from ._hosts import AnyStore, host_of
from ._lease import RELEASE, OnLost
from ._loop import Lost, take
from .errors import Held
from .status import Status
from .terms import Expiry, Protocol, Renewal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._api import AcquireOptions, TryOptions

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


def lease(
    store: AnyStore,
    name: str,
    *,
    ttl: Duration | None = None,
    wait: Duration | None = None,
    margin: Duration | None = None,
    acquire_margin: Duration | None = None,
    fleet_expire: Duration | Literal["none"] | None = None,
    renewal: Renewal = "checked",
    expiry: Expiry = "wall",
    protocol: Protocol = "auto",
    session: bool = False,
    label: str = "",
    on_waiting: OnWaiting | None = None,
    on_lost: OnLost | None = None,
    raise_if_lost: bool = True,
    release_timeout: Duration = RELEASE,
) -> Leasing:
    """As mopslock.lease, for ``async with`` and for coroutine functions."""
    return Leasing(
        lease_request(
            store, name, ttl=ttl, wait=wait, margin=margin, acquire_margin=acquire_margin, fleet_expire=fleet_expire,
            renewal=renewal, expiry=expiry, protocol=protocol, session=session, label=label, on_waiting=on_waiting,
            on_lost=on_lost, raise_if_lost=raise_if_lost, release_timeout=release_timeout,
        )
    )  # fmt: skip


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
        if w.wait_ns:
            _inside.refuse(host, w.name, w.terms.protocol, awaits=True)
        waits = logged("lease", w.name, w.waits)
        return await take(
            lambda future: host.begin_acquire(w.name, w.terms, w.wait_ns, waits, future),
            lambda held: w.lease(held, Lease),
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
async def acquire(store: AnyStore, name: str, **options: Unpack[AcquireOptions]) -> Lease:
    """As mopslock.acquire."""
    return await lease(store, name, **options).acquire()


@brief
async def try_acquire(store: AnyStore, name: str, **options: Unpack[TryOptions]) -> Lease | None:
    """As mopslock.try_acquire."""
    try:
        return await lease(store, name, wait=0, **options).acquire()
    except Held:
        return None


@brief
async def accompany(
    text: str | None = None,
    *,
    store: AnyStore | None = None,
    margin: Duration | None = None,
    on_lost: OnLost | None = None,
    raise_if_lost: bool = True,
    release_timeout: Duration = RELEASE,
) -> Companion:
    """As mopslock.accompany: ``async with await mopslock.aio.accompany() as companion``."""
    handle, request = accompanying(
        text, store, margin=margin, on_lost=on_lost, raise_if_lost=raise_if_lost, release_timeout=release_timeout
    )
    host = await asyncio.to_thread(host_of, request.store)
    return await take(
        lambda future: host.begin_accompany(handle, request.terms, future),
        lambda held: request.lease(held, Companion),
    )


async def inspect(store: AnyStore, name: str, *, timeout: Duration = 30.0) -> Status:
    """As mopslock.inspect."""
    return await asyncio.to_thread(_api.inspect, store, name, timeout=timeout)


async def break_lease(
    store: AnyStore,
    name: str,
    why: str,
    *,
    now: bool = False,
    holder: str = "",
    protocol: Protocol = "auto",
    timeout: Duration = 30.0,
) -> Status:
    """As mopslock.break_lease."""
    return await asyncio.to_thread(
        _api.break_lease, store, name, why, now=now, holder=holder, protocol=protocol, timeout=timeout
    )


async def ls(store: AnyStore, prefix: str = "", *, timeout: Duration = 30.0) -> AsyncIterator[Status]:
    """As mopslock.ls."""
    found = await asyncio.to_thread(_api.ls, store, prefix, timeout=timeout)
    while (status := await asyncio.to_thread(next, found, None)) is not None:
        yield status

"""Shared semaphores' asyncio twins."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _permit
from ._aio_lease import Async, enter, leave
from ._duration import Duration
from ._frames import brief
from ._held import Entered, logged
from ._hosts import AnyStore, host_of
from ._loop import take
from ._options import RELEASE, PermitOptions, TryPermitOptions, spelled
from ._permit import SharedPermitRequest, shared_permit_request
from .errors import Full

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Permit(Async, _permit.Shared):
    """mopslock.Permit, whose waits can be awaited."""

    async def release(self, timeout: Duration | None = RELEASE) -> None:
        """As mopslock.Permit.release."""
        await self._finish_async(timeout)

    async def __aenter__(self) -> Permit:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._leave_async(error)


@spelled(PermitOptions)
def permit(store: AnyStore, name: str, *, capacity: int, **options: Unpack[PermitOptions]) -> Permitting:
    """As mopslock.permit, for ``async with``."""
    return Permitting(shared_permit_request(store, name, capacity, options))


class Permitting:
    """What permit() returns: enter it, or acquire with it."""

    def __init__(self, request: SharedPermitRequest) -> None:
        self._request = request
        self._entered: Entered[Permit] = Entered()

    @brief
    async def acquire(self) -> Permit:
        """Acquires a permit that is independent of this object."""
        w = self._request
        host = await asyncio.to_thread(host_of, w.store)  # the first time it loads the library
        waits = logged("permit of", w.name, w.block.on_waiting)
        return await take(
            lambda future: host.begin_permit(w.name, w.terms, w.request, w.block.wait_ns(), waits, into=future),
            lambda held: w.permit(held, Permit),
        )

    @brief
    async def __aenter__(self) -> Permit:
        return await enter(self._entered, self.acquire, f"permit of {self._request.name!r}")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await leave(self._entered, error)

    def __reduce__(self) -> Any:
        raise TypeError(_permit.OWN_PERMIT)


@brief
@spelled(PermitOptions)
async def acquire_permit(store: AnyStore, name: str, *, capacity: int, **options: Unpack[PermitOptions]) -> Permit:
    """As mopslock.acquire_permit."""
    return await permit(store, name, capacity=capacity, **options).acquire()


@brief
@spelled(TryPermitOptions)
async def try_acquire_permit(
    store: AnyStore, name: str, *, capacity: int, **options: Unpack[TryPermitOptions]
) -> Permit | None:
    """As mopslock.try_acquire_permit."""
    try:
        return await permit(store, name, capacity=capacity, wait=0, **options).acquire()
    except Full:
        return None

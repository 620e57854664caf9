"""Shared semaphores for users: permits for ``with``, and the limit in the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._caller import run
from ._duration import Duration, nanoseconds
from ._hosts import AnyStore, host_of
from ._lease import HeldLease, OfThread
from ._options import RELEASE, PermitOptions, TryPermitOptions, Unpack, asked, part, spelled
from ._request import SharedPermitRequest, ThreadAcquiring
from .errors import Full
from .terms import PermitRequest, limit_of


class Shared(HeldLease):
    """What Permit and its asyncio twin have in common."""

    _held: Any  # a permit of a host's

    @property
    def request(self) -> PermitRequest:
        """What was asked for."""
        request: PermitRequest = self._held.request
        return request

    @property
    def weight(self) -> int:
        """How many permits it takes."""
        return self.request.weight

    @property
    def total(self) -> int:
        """How many permits were held on the name when it was let in, counting it and those let in together with it."""
        total: int = self._held.total
        return total

    def __reduce__(self) -> Any:
        raise TypeError(SharedPermitRequest.own)

    def _state(self) -> str:
        return f"{self.weight} of {self.request.limit} {super()._state()}"


class Permit(OfThread, Shared):
    """A share of a semaphore's capacity, held until release, mopslock.close(), the end of the process, or its loss.

    It depends on this process's session, one heartbeat for everything on it, and is lost with the session: LeaseLost,
    as for a lease. It cannot stop code that never checks: look at ``lost`` or call ``check()``. ``holder`` is its id,
    fresh for each permit. ``fencing_token`` grows from one to the next, but is the same for those let in together. A
    permit object that is forgotten without a release is given back, and that is logged as a warning.
    """

    def release(self, timeout: Duration | None = RELEASE) -> None:
        """Gives it back. It returns when the store has confirmed; a second call returns at once. LeaseLost: the permit
        had been lost before. NotReleased: the store has not confirmed within ``timeout`` seconds (None: no limit). We
        go on trying until the session's deadline."""
        run(self._end(timeout))


def shared_permit_request(
    store: AnyStore, name: str, capacity: int, options: Mapping[str, Any], *, is_task: bool = False
) -> SharedPermitRequest:
    """The arguments of permit and its asyncio twin."""
    terms, block = asked("permit", PermitOptions, options, is_task=is_task, protocol="strict")
    return SharedPermitRequest(store, name, terms, block, PermitRequest(capacity, **part(PermitRequest, options)))


@spelled(PermitOptions)
def permit(store: AnyStore, name: str, *, capacity: int, **options: Unpack[PermitOptions]) -> Permitting:
    """A permit of the semaphore on a name, for ``with``: at most so many at once, of all processes that share a store.
    Making the object does no I/O::

        with mopslock.permit("s3://bucket/locks", "gpu", capacity=4, wait=60) as permit:
            for part in parts:
                permit.check()         # raises LeaseLost
                work(part)

    A name has no size. Each caller brings a view: ``capacity`` permits in each of ``width`` buckets. It is let in if
    all permits held, plus its own ``weight``, are no more than capacity x width. So no caller exceeds a limit that it
    knows. Views may differ and change at any time, and a smaller view evicts no holder. A caller that spares ``spare``
    permits is let in only if that many more would still fit. ``set_limit`` stores a limit that caps every view.

    Entering acquires: it waits at most ``wait`` seconds (None: until there is room; 0: it tries once), and then raises
    Full, with ``held``, ``limit`` and ``seen``. Leaving gives the permit back, and waits at most ``release_timeout``
    seconds. If the permit was lost meanwhile, leaving raises LeaseLost, unless the block itself raised or
    ``raise_if_lost`` is false. The object can be entered again and again, but not nested.

    ``store`` is as in ``lease``. It must honour create-if-absent, and a store of your own needs ``create``, ``list``
    and ``delete`` (Incompatible otherwise, or if the name is a lease's). ``ttl`` (60 s) and ``margin`` are those of
    this process's session, which all permits and leases with the same two share. ``label`` is shown to people. A thread
    of ours calls ``on_waiting(status)``, whose status says who holds the permits, and ``on_lost(error)`` after a loss.

    BadArgument: an argument is invalid. WeightExceedsLimit: weight and spare are more than capacity x width.
    """
    return Permitting(shared_permit_request(store, name, capacity, options))


@spelled(PermitOptions)
def acquire_permit(store: AnyStore, name: str, *, capacity: int, **options: Unpack[PermitOptions]) -> Permit:
    """Acquires at once, with permit's options, and returns the Permit. Call its ``release()``, or use it in ``with``.

    Full, RecordFull, WaitOver or StoreError: nothing is held.
    """
    return permit(store, name, capacity=capacity, **options).acquire()


@spelled(TryPermitOptions)
def try_acquire_permit(
    store: AnyStore, name: str, *, capacity: int, **options: Unpack[TryPermitOptions]
) -> Permit | None:
    """Tries once, and returns None if there is no room. It takes permit's options except ``wait``."""
    try:
        return permit(store, name, capacity=capacity, wait=0, **options).acquire()
    except Full:
        return None


def set_limit(store: AnyStore, name: str, limit: int | None, *, timeout: Duration = 30.0) -> None:
    """Stores a limit: no view of the semaphore counts for more. None removes it. It evicts no holder.

    Unreachable: the store has not confirmed within ``timeout`` seconds, and may have the limit or not.
    Incompatible: the store does not honour create-if-absent, or the name is a lease's.
    """
    host_of(store).set_limit(name, limit_of(limit), nanoseconds("timeout", timeout))


class Permitting(ThreadAcquiring[Permit]):
    """What permit() returns: enter it, or acquire with it."""

    _kind = Permit

"""The functions that users call, and the object between ``with`` and the lease."""

from __future__ import annotations

import functools
import inspect as inspection
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from . import _inside, _texts
from ._caller import run
from ._duration import Duration, nanoseconds
from ._frames import brief
from ._held import Handle
from ._hosts import AnyStore, host_of
from ._lease import Companion, Lease, Permit
from ._options import (
    CompanionOptions,
    LeaseOptions,
    PermitOptions,
    TryOptions,
    TryPermitOptions,
    Unpack,
    asked,
    part,
    spelled,
)
from ._request import CompanionRequest, LeaseRequest, SharedPermitRequest, ThreadAcquiring
from .errors import BadArgument, Full, Held
from .status import Status
from .terms import PermitRequest, Protocol, Terms, _limit_of

P = ParamSpec("P")
R = TypeVar("R")

ENVIRONMENT = "MOPSLOCK_LEASE"


def lease_request(store: AnyStore, name: str, options: Mapping[str, Any], *, is_task: bool = False) -> LeaseRequest:
    return LeaseRequest(store, name, *asked("lease", LeaseOptions, options, is_task=is_task))


@spelled(LeaseOptions)
def lease(store: AnyStore, name: str, **options: Unpack[LeaseOptions]) -> Leasing:
    """The lease on a name, for ``with`` and as a decorator. Making it does no I/O::

        with mopslock.lease("s3://bucket/locks", "nightly", ttl=60) as lease:
            for part in parts:
                lease.check()          # raises LeaseLost
                work(part)

        @mopslock.lease(pathlib.Path("/var/lib/leases"), "nightly")
        def nightly(): ...

    Entering acquires: it waits at most ``wait`` seconds (None: until it is held; 0: it tries once and raises Held).
    Leaving releases, whatever ended the block, and waits at most ``release_timeout`` seconds. If the lease was lost
    meanwhile, leaving raises LeaseLost, unless the block itself raised or ``raise_if_lost`` is false. A thread is only
    told of a loss. Tasks of asyncio can be cancelled by one: see mopslock.aio.

    The object can be entered again and again, but not nested: leave it before you enter it again. HeldByOneself: this
    thread is in another block that holds the lease, and would wait for itself.

    Under lastwriter, if several may ask at the same moment, give an ``acquire_margin`` longer than two requests take,
    such as 0.2. Without it a host that is much slower than the others can be let in beside one of them. Both then think
    that they hold the lease until the slower one looks again.

    ``store`` is a gocloud URL, a directory's path, or an object with get and put (mopslock.stores). Durations are
    seconds or timedelta. Under protocol strict there is at most one holder, and ``fencing_token`` grows from one to the
    next; ``ttl`` is 60 s there by default, and 88 s under lastwriter. Terms explains these and the options that follow
    from them. A thread of ours calls ``on_waiting(status)``, whose status says for whom we wait, and ``on_lost(error)``
    after a loss.

    BadArgument: an argument is invalid. Entering checks names and durations, before any I/O.
    """
    return Leasing(lease_request(store, name, options))


@spelled(LeaseOptions)
def acquire(store: AnyStore, name: str, **options: Unpack[LeaseOptions]) -> Lease:
    """Acquires at once, with lease's options, and returns the Lease. Call its ``release()``, or use it in ``with``.

    Held, WaitOver or StoreError: nothing is held.
    """
    return lease(store, name, **options).acquire()


@spelled(TryOptions)
def try_acquire(store: AnyStore, name: str, **options: Unpack[TryOptions]) -> Lease | None:
    """Tries once, and returns None if another holds the lease. It takes lease's options except ``wait``."""
    try:
        return lease(store, name, wait=0, **options).acquire()
    except Held:
        return None


class Leasing(ThreadAcquiring[Lease]):
    """What lease() returns: enter it, or decorate with it."""

    _kind = Lease

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Each call of the function acquires and releases. Calls in several threads wait for each other."""
        if inspection.iscoroutinefunction(function) or inspection.isasyncgenfunction(function):
            raise TypeError("mopslock: lease() would release before the coroutine runs; use mopslock.aio.lease()")
        if inspection.isgeneratorfunction(function):
            raise TypeError("mopslock: lease() would release before the generator runs; use with inside of it")

        @brief
        @functools.wraps(function)
        def leased(*args: P.args, **kwargs: P.kwargs) -> R:
            with _inside.once(self, under(self._request.name)), Leasing(self._request):
                return function(*args, **kwargs)

        return leased


def under(name: str) -> str:
    """The text of the error for a decorated function that calls itself."""
    return f"mopslock: a function under lease {name!r} calls itself, and would wait for itself"


@spelled(CompanionOptions)
def accompany(text: str | None = None, **options: Unpack[CompanionOptions]) -> Companion:
    """Joins another process's lease and keeps it alive, until ``leave()`` or the end of a ``with`` block::

        with mopslock.accompany() as companion:      # the lease of MOPSLOCK_LEASE
            work()

    ``text`` is Lease.text; None is the text in the environment. Give ``store`` if the text's own store is no URL: the
    same object that the holder uses. The companion has the text's TTL.

    LeaseLost: the lease belongs to another tenure, or was released. NothingToJoin: there is nothing to keep alive, or
    the store could not be read for a TTL.
    """
    return run(accompanying(text, options).acquire(Companion))


def accompanying(text: str | None, options: Mapping[str, Any], *, is_task: bool = False) -> CompanionRequest:
    """The arguments of accompany and its twin."""
    terms, block = asked("accompany", CompanionOptions, options, is_task=is_task)
    if text is None:
        text = os.environ.get(ENVIRONMENT)
        if not text:
            raise BadArgument(f"mopslock: there is no lease to accompany: give its text, or set {ENVIRONMENT}")
    handle = Handle.parse(text)
    store = store_of(handle, options.get("store"))
    return CompanionRequest(store, handle.name, replace(terms, protocol=handle.protocol), block, handle)


def store_of(handle: Handle, given: AnyStore | None) -> AnyStore:
    """The store of another process's lease: what is given, or the text's own if that is a URL."""
    if given is None and "://" not in handle.store:
        raise BadArgument(
            f"mopslock: the lease lies on a store of Python's own, {handle.store}: give that object as store="
        )
    return handle.store if given is None else given


def inspect(store: AnyStore, name: str, *, timeout: Duration = 30.0) -> Status:
    """Reads which process holds a name, and takes no part in it. An unused name is ``vacant``.

    StoreError: the store could not be read within ``timeout`` seconds.
    """
    timeout_ns = nanoseconds("timeout", timeout)
    return host_of(store).inspect(name, timeout_ns)


def ls(store: AnyStore, prefix: str = "", *, timeout: Duration = 30.0) -> Iterator[Status]:
    """Every lease whose name begins with ``prefix``, in the order of the names; ``timeout`` seconds for all of them."""
    timeout_ns = nanoseconds("timeout", timeout)
    return host_of(store).list(prefix, timeout_ns)


def break_lease(
    store: AnyStore, name: str, why: str, *, now: bool = False, holder: str = "", protocol: Protocol = "auto",
    timeout: Duration = 30.0,
) -> Status:  # fmt: skip
    """Ends another process's lease, on the record, and returns the status of the name after that.

    The holder loses the lease at its next renewal, with LeaseBroken (under lastwriter LeaseReleased). On a ``file://``
    URL a strict holder loses it at once. Others can take the name when its last beat is a TTL old. With ``now`` they
    can take it at once, even while its holder may still believe that it holds the lease: that is the one way to two
    holders of a strict lease. ``why`` is stored with the break, for people; lastwriter has no room for it. ``protocol``
    says which lease; "auto" is the one that is there.

    ``holder`` is the holder whose lease is broken, by ``Status.holder``, and no other: pass the one that you have seen.
    "" breaks the holder of the moment. Lastwriter reads the record just before it writes it: a process that acquires
    between the two loses the lease all the same.

    Vacant: the lease has no holder. Held: another than ``holder`` holds it, and nothing was done; ``seen`` says which.
    StoreError: the store could not be used. Nothing was done, unless the error is an Unreachable.
    """
    Terms(protocol=protocol)._check()
    timeout_ns = nanoseconds("timeout", timeout)
    for what, text in (("holder", holder), ("why", why)):
        _texts.encode(what, text)
    return host_of(store).break_lease(name, timeout_ns, protocol=protocol, holder=holder, why=why, now=now)


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
    limit, timeout_ns = _limit_of(limit), nanoseconds("timeout", timeout)
    host_of(store).set_limit(name, limit, timeout_ns)


class Permitting(ThreadAcquiring[Permit]):
    """What permit() returns: enter it, or acquire with it."""

    _kind = Permit

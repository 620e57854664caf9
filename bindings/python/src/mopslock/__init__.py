"""Leases (expiring exclusive claims) kept in any blob store.

::

    import mopslock

    with mopslock.lease("s3://bucket/locks", "nightly") as lease:
        ...                     # only one of us, on all machines that share the bucket
        lease.check()           # raises LeaseLost once it is lost

What decides is a pure core in a shared library, the same for every language. Who talks to the store is your choice:
a URL (file, s3, gs, azblob) leaves it to the library; an object with get, put and exists does it itself.

A piece of work that is to be done once, and whose result stays::

    result = mopslock.invoke("s3://bucket/runs", "report/2026-11", lambda work: make_report())

    @mopslock.memoize("s3://bucket/memo")
    def digits(n): ...

What is promised is the protocol's: ``lease(…, protocol="strict")`` has at most one holder and a fencing token,
``"lastwriter"`` is what mops speaks, and ``"auto"``, the default, takes the first where it can. ``Guarded`` writes
objects that only the newest tenure can write.

Logging goes to the logger ``mopslock``. ``mopslock.aio`` has the twins for asyncio, ``mopslock.mops`` what mops calls
its lease package, ``mopslock.stores`` the adapters, ``mopslock.errors`` the tree of exceptions.
"""

from ._api import Leasing, accompany, acquire, break_lease, inspect, lease, ls, try_acquire
from ._hosts import close
from ._invoke import Result, Work, invoke, remote
from ._lease import Companion, Lease, Lost
from ._memo import JSON, PICKLE, Memoized, Serializer, memoize
from .errors import (
    BadArgument,
    Cancelled,
    CannotMaintain,
    Closed,
    EngineFailed,
    Forked,
    Held,
    LeaseBroken,
    LeaseEnded,
    LeaseExpired,
    LeaseLost,
    LeaseReleased,
    LeaseTaken,
    LeaseUnreachable,
    MopslockError,
    NoResult,
    NoSuchStore,
    NotAcquired,
    NotReleased,
    Raced,
    ReadOnly,
    RememberedFailure,
    Stale,
    StoreError,
    StoreFull,
    Throttled,
    Unauthorized,
    Unfit,
    Unreachable,
    Unsettled,
    Vacant,
    WaitOver,
)
from .guard import Guarded, Slot, create_once, read_once
from .status import Status
from .terms import Terms

__all__ = [
    "BadArgument",
    "Cancelled",
    "CannotMaintain",
    "Closed",
    "Companion",
    "EngineFailed",
    "Forked",
    "Guarded",
    "Held",
    "JSON",
    "Lease",
    "LeaseBroken",
    "LeaseEnded",
    "LeaseExpired",
    "LeaseLost",
    "LeaseReleased",
    "LeaseTaken",
    "LeaseUnreachable",
    "Leasing",
    "Lost",
    "Memoized",
    "MopslockError",
    "NoResult",
    "NoSuchStore",
    "NotAcquired",
    "NotReleased",
    "PICKLE",
    "Raced",
    "ReadOnly",
    "RememberedFailure",
    "Result",
    "Serializer",
    "Slot",
    "Stale",
    "Status",
    "StoreError",
    "StoreFull",
    "Terms",
    "Throttled",
    "Unauthorized",
    "Unfit",
    "Unreachable",
    "Unsettled",
    "Vacant",
    "WaitOver",
    "Work",
    "accompany",
    "acquire",
    "break_lease",
    "close",
    "create_once",
    "inspect",
    "invoke",
    "lease",
    "ls",
    "memoize",
    "read_once",
    "remote",
    "try_acquire",
]

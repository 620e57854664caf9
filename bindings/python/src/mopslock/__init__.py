"""Leases (expiring exclusive claims) kept in any blob store.

::

    import mopslock

    with mopslock.lease("s3://bucket/locks", "nightly") as lease:
        ...                     # only one of us, on all machines that share the bucket
        lease.check()           # raises LeaseLost once it is lost

What decides is a pure core in a shared library, the same for every language. Who talks to the store is your choice:
a URL (file, s3, gs, azblob) leaves it to the library; an object with get, put and exists does it itself.

What is promised is the protocol's: ``lease(…, protocol="strict")`` has at most one holder and a fencing token,
``"lastwriter"`` is what mops speaks, and ``"auto"``, the default, takes the first where it can. ``Guarded`` writes
objects that only the newest tenure can write.

Logging goes to the logger ``mopslock``. ``mopslock.aio`` has the twins for asyncio, ``mopslock.mops`` what mops calls
its lease package, ``mopslock.stores`` the adapters, ``mopslock.errors`` the tree of exceptions.
"""

from ._api import Leasing, accompany, acquire, break_lease, inspect, lease, ls, try_acquire
from ._hosts import close
from ._lease import Companion, Lease, Lost
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
    NoSuchStore,
    NotAcquired,
    NotReleased,
    Raced,
    ReadOnly,
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
    "MopslockError",
    "NoSuchStore",
    "NotAcquired",
    "NotReleased",
    "Raced",
    "ReadOnly",
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
    "accompany",
    "acquire",
    "break_lease",
    "close",
    "create_once",
    "inspect",
    "lease",
    "ls",
    "read_once",
    "try_acquire",
]

"""Leases (expiring exclusive claims) kept in any blob store.

::

    import mopslock

    with mopslock.lease("s3://bucket/locks", "nightly") as lease:
        ...                     # only one of us, on all machines that share the bucket
        lease.check()           # raises LeaseLost once it is lost

A pure core decides, the same for every language. You choose what talks to the store: for a URL (file, s3, gs, azblob) a
keeper does it, a process of its own that no GIL can stop; an object with get and put does it itself.

At most so many at once, of all processes or in this one::

    with mopslock.permit("s3://bucket/locks", "gpu", capacity=4): ...
    with mopslock.Limiter().permit("db", capacity=50, width=3): ...

A piece of work that is done once, and whose result stays::

    result = mopslock.invoke("s3://bucket/runs", "report/2026-11", lambda work: make_report())

    future = mopslock.submit("s3://bucket/runs", "report/2026-12", make_report)

    @mopslock.memoize("s3://bucket/memo")
    def digits(n): ...

The protocol makes the promises. ``lease(…, protocol="strict")`` has at most one holder and a fencing token;
``"lastwriter"`` is the protocol of mops; ``"auto"``, the default, is strict where the store supports it. ``Guarded``
writes objects that only the newest tenure can write.

The logger is ``mopslock``: losses are warnings, and at INFO it says for whom a wait begins. ``mopslock.aio`` has the
twins for asyncio, ``mopslock.mops`` the names of mops' lease package, ``mopslock.stores`` the adapters, and
``mopslock.errors`` the tree of exceptions.
"""

# ruff: noqa: F405 - __all__ has names of errors

import importlib as _importlib
import typing as _typing

from . import _version
from ._api import (
    Leasing,
    Permitting,
    accompany,
    acquire,
    acquire_permit,
    break_lease,
    inspect,
    lease,
    ls,
    permit,
    set_limit,
    try_acquire,
    try_acquire_permit,
)
from ._hosts import close
from ._invoke import Result, Work, invoke, remote, submit
from ._lease import Companion, Lease, Lost, Permit
from ._limiter import Limiter, LimiterHolder, LimiterPermit, LimiterPermitting
from ._memo import JSON, PICKLE, Memoized, Serializer, memoize
from ._metrics import metrics
from ._run import process, run
from .errors import *  # noqa: F403 - it says what it offers
from .guard import Guarded, Slot, create_once, read_once
from .status import PermitHolder, Status
from .terms import Terms

__version__ = _version.VERSION

if _typing.TYPE_CHECKING:
    from . import aio as aio
    from . import mops as mops
else:

    def __getattr__(name: str) -> object:
        """aio and mops take a while, so they are imported when they are first used."""
        if name not in ("aio", "mops"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _importlib.import_module(f".{name}", __name__)


__all__ = [
    "BadArgument", "Cancelled", "Closed", "Companion", "EngineFailed", "Forked", "Full", "Guarded", "Held",
    "HeldByOneself", "Incompatible", "JSON", "Lease", "LeaseBroken", "LeaseEnded", "LeaseExpired", "LeaseLost",
    "LeaseReleased", "LeaseTaken", "LeaseUnreachable", "Leasing", "Limiter", "LimiterHolder", "LimiterPermit",
    "LimiterPermitting", "Lost", "Memoized", "MopslockError", "NoResult", "NoSuchStore", "NotAcquired", "NotReleased",
    "NothingToJoin", "OutOfBuckets", "PICKLE", "Permit", "PermitHolder", "Permitting", "Raced", "ReadOnly",
    "RecordFull", "RememberedFailure", "Result", "Serializer", "Slot", "Stale", "Status", "StoreError", "StoreFull",
    "Terms", "Throttled", "Unauthorized", "Unreachable", "Unsettled", "Vacant", "WaitOver", "WeightExceedsLimit",
    "Work", "accompany", "acquire", "acquire_permit", "break_lease", "close", "create_once", "inspect", "invoke",
    "lease", "ls", "memoize", "metrics", "permit", "process", "read_once", "remote", "run", "set_limit", "submit",
    "try_acquire", "try_acquire_permit",
]  # fmt: skip

"""What can go wrong: one class for each thing that a caller acts on.

::

    MopslockError
    ├── NotAcquired              nothing is held; what a claim left is released, or expires
    │   ├── Held                 another holds the lease, or was faster, and the wait is over
    │   │   └── HeldByOneself    this thread or task holds it, and would wait for itself (it is a RuntimeError too)
    │   ├── Full                 there is no room for a permit, and the wait is over
    │   ├── RecordFull           a semaphore has no room for another holder
    │   ├── WaitOver             the wait is over, and the store was failing
    │   └── Cancelled            the wait was cancelled
    ├── LeaseLost                the lease or permit is no longer ours: stop what it guards
    │   ├── LeaseTaken           the record now belongs to another tenure
    │   ├── LeaseBroken          the lease was broken
    │   ├── LeaseReleased        another process released it
    │   ├── LeaseUnreachable     it could not be renewed before its deadline
    │   └── LeaseExpired         this process was paused past its deadline
    ├── LeaseEnded               this process has released it, or left it, itself
    ├── OutOfBuckets             what was to be released is not held
    ├── NotReleased              not released in the time given; it expires by itself
    ├── NoResult                 the work has ended, and there is no result
    ├── RememberedFailure        the work has failed before, and the failure was stored
    ├── NothingToJoin            there is nothing that a companion could keep alive
    ├── StoreError               the store cannot be used
    │   ├── Unauthorized         it refuses us
    │   ├── NoSuchStore          there is no such bucket, container or directory
    │   ├── Unreachable          it does not answer
    │   ├── Throttled            it asks us to wait
    │   ├── ReadOnly             it takes no writes
    │   ├── StoreFull            it has no room
    │   └── Incompatible         the store, or what is in it, cannot serve the request
    ├── Vacant                   there is nothing: no holder to break, no result to read
    ├── Stale                    a newer tenure has written the object: stop what the lease guarded
    ├── Unsettled                a guarded write may have been applied, may be applied later, or never
    ├── Raced                    a guarded object had changed, or others were faster
    ├── Closed                   mopslock.close() was called, or the process is ending
    ├── Forked                   a lease of the parent process, used in a forked child
    ├── EngineFailed             the library under us failed
    └── BadArgument              a name, URL or duration is invalid (it is a ValueError too)
        └── WeightExceedsLimit   a permit that its view never has room for

Act on the class and on ``reason``; the text is for people.
"""

from __future__ import annotations

from .status import Status

__all__ = [
    "BadArgument", "Cancelled", "Closed", "EngineFailed", "Forked", "Full", "Held", "HeldByOneself", "Incompatible",
    "LeaseBroken", "LeaseEnded", "LeaseExpired", "LeaseLost", "LeaseReleased", "LeaseTaken", "LeaseUnreachable",
    "MopslockError", "NoResult", "NoSuchStore", "NotAcquired", "NothingToJoin", "NotReleased", "OutOfBuckets", "Raced",
    "ReadOnly", "RecordFull", "RememberedFailure", "Stale", "StoreError", "StoreFull", "Throttled", "Unauthorized",
    "Unreachable", "Unsettled", "Vacant", "WaitOver", "WeightExceedsLimit",
]  # fmt: skip


class MopslockError(Exception):
    """The base class of all errors here. ``reason`` is the core's word for why, or ""; ``seen`` is the record that
    decided it, or None."""

    reason = ""

    def __init__(self, text: str = "", *, reason: str = "", seen: Status | None = None) -> None:
        super().__init__(text)
        self.reason = reason or self.reason
        self.seen = seen


class BadArgument(MopslockError, ValueError):
    """An argument is invalid. Nothing was done; the text lists every bad one."""


class WeightExceedsLimit(BadArgument):
    """Weight and spare are more than capacity x width, so there would never be room. Nothing was asked."""


class OutOfBuckets(MopslockError):
    """What was to be released is not held: it was released before, or its holder, thread or task has ended. Nothing
    has changed."""


class Closed(MopslockError):
    """The store was closed, or the interpreter is ending. What was held is released, or expires."""


class Forked(MopslockError):
    """A forked child used a lease that its parent process holds. It stays the parent's. A child that needs a lease of
    its own acquires one."""


class EngineFailed(MopslockError):
    """The library under us could not be loaded, or failed."""


class NotReleased(MopslockError, TimeoutError):
    """The lease was not released in the time given. We go on trying, or it expires a TTL after its last renewal."""


class LeaseEnded(MopslockError):
    """This process has released the lease, or has left it as a companion."""


class NotAcquired(MopslockError):
    """The lease was not acquired, and nothing is held."""


class Held(NotAcquired):
    """Another holds the lease (reason ``held``) or was faster (``raced``)."""


class HeldByOneself(Held, RuntimeError):
    """This very thread, or task, is in a block that holds the lease, and would wait for itself (reason ``oneself``)."""


class Full(NotAcquired):
    """There is no room for a permit, and the wait is over. Nothing is held that was not before.

    ``held`` is how many permits all callers hold. ``limit`` is how many may be held by the caller's view, or by the
    limit in the store of a shared semaphore if that is less. ``weight`` is how many this caller wanted.
    """

    reason = "full"

    def __init__(
        self, text: str = "", *, held: int = 0, limit: int = 0, weight: int = 1, reason: str = "",
        seen: Status | None = None,
    ) -> None:  # fmt: skip
        super().__init__(text, reason=reason, seen=seen)
        self.held, self.limit, self.weight = held, limit, weight

    def for_request(self, limit: int, weight: int) -> Full:
        """The same error, for a caller that wanted weight permits of limit."""
        stored = self.seen.limit if self.seen is not None else 0
        self.limit, self.weight = min(limit, stored) if stored else limit, weight
        return self


class RecordFull(NotAcquired):
    """A semaphore's record has no room for another holder; it has room for about a thousand. Or this process has asked
    for that many on one name. Use several names, or permits with a weight."""


class WaitOver(NotAcquired, TimeoutError):
    """The wait ended while the store was failing (reason ``limit``)."""


class Cancelled(NotAcquired):
    """The wait was cancelled."""


class LeaseLost(MopslockError):
    """The lease is no longer ours, and we write nothing to it from now on. ``reason`` is ``taken``, ``broken``,
    ``released``, ``unreachable`` or ``expired``, each with a class of its own; ``seen`` is the record that was found,
    or None."""


class LeaseTaken(LeaseLost):
    """The record now belongs to another tenure."""

    reason = "taken"


class LeaseBroken(LeaseLost):
    """The lease was broken, on the record."""

    reason = "broken"


class LeaseReleased(LeaseLost):
    """Another process released the lease."""

    reason = "released"


class LeaseUnreachable(LeaseLost):
    """The lease could not be renewed before its deadline."""

    reason = "unreachable"


class LeaseExpired(LeaseLost):
    """This process was paused past the deadline."""

    reason = "expired"


class NoResult(MopslockError):
    """The work has ended, and there is no result. The lease is given back.

    ``reason`` is ``none`` (the work succeeded, but no process stored a result, and none goes on with it), ``failed``,
    ``taken`` or ``broken`` (the lease was lost before there was a result), ``released``, or ``unreachable`` and
    ``unusable``: the store did not take the result.
    """


class RememberedFailure(MopslockError):
    """The work was not done, because it has failed before and the failure was stored (``memo_failures``).

    ``type`` and ``text`` describe the exception ("" if it was a command). ``status`` is the exit status of a command,
    or 0. ``stderr`` is the end of the command's stderr, or of the traceback. ``at`` is when, as RFC 3339, and ``host``
    where. Another process wrote these texts: escape them before you show them.
    """

    def __init__(
        self, message: str = "", *, type: str = "", text: str = "", status: int = 0, at: str = "",  # noqa: A002
        host: str = "", stderr: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.type, self.text, self.status, self.at, self.host, self.stderr = type, text, status, at, host, stderr


class NothingToJoin(MopslockError):
    """There is nothing that a companion could keep alive. ``reason`` is ``absent``, ``no_expiry``, ``never_acquired``
    or ``unreadable``."""


class StoreError(MopslockError):
    """The store cannot be used. After a request for a lease nothing is held."""


class Unauthorized(StoreError):
    """The store refuses us: check the credentials and their rights to read and write."""


class NoSuchStore(StoreError):
    """There is no such bucket, container or directory: make it first, or correct its name."""


class Unreachable(StoreError):
    """The store does not answer: check its URL and the network."""


class Throttled(StoreError):
    """The store asks us to wait. ``retry_after`` is for how many seconds, or 0."""

    def __init__(
        self, text: str = "", *, retry_after: float = 0.0, reason: str = "", seen: Status | None = None
    ) -> None:
        super().__init__(text, reason=reason, seen=seen)
        self.retry_after = retry_after


class ReadOnly(StoreError):
    """The store takes no writes; a lease needs them."""


class StoreFull(StoreError):
    """The store has no room."""


class Incompatible(StoreError):
    """The store, or what is in it, cannot serve the request.

    The store does not honour create-if-absent, which protocol strict and Guarded need. Or ``reason`` is ``newer`` (a
    newer mopslock has written there) or ``kind`` (the name is in use for something other than a lease).
    """


class Vacant(MopslockError):
    """There is nothing: the lease to break has no holder, or there is no result to read."""


class Stale(MopslockError):
    """A newer tenure has written the guarded object. Nothing of ours was written, or will be: stop. ``token`` and
    ``holder`` are the newer tenure's, if they are known."""

    def __init__(self, text: str = "", *, token: int = 0, holder: str = "") -> None:
        super().__init__(text)
        self.token, self.holder = token, holder


class Unsettled(MopslockError):
    """A guarded write may have been applied, may be applied later, or never. Read the object: it was applied if its
    newest slot has this ``nonce``. Any later write ends the doubt."""

    def __init__(self, text: str = "", *, number: int = 0, nonce: str = "") -> None:
        super().__init__(text)
        self.number, self.nonce = number, nonce


class Raced(MopslockError):
    """A guarded object had changed by the time of the write, or others were faster again and again."""


LOST: dict[str, type[LeaseLost]] = {
    kind.reason: kind for kind in (LeaseTaken, LeaseBroken, LeaseReleased, LeaseUnreachable, LeaseExpired)
}
"""The class of each reason for which a lease is lost."""

CLASSES: dict[str, type[StoreError]] = {
    "unauthorized": Unauthorized, "no_such_store": NoSuchStore, "unreachable": Unreachable, "throttled": Throttled,
    "read_only": ReadOnly, "full": StoreFull,
}  # fmt: skip
"""The class of each way in which a store fails, by the core's name for it."""


def error_class(name: str) -> type[StoreError]:
    """The class for the core's name of how a store failed."""
    return CLASSES.get(name, StoreError)

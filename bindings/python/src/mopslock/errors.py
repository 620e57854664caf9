"""What can go wrong, one class for each thing that a caller acts on.

::

    MopslockError
    ├── NotAcquired              nothing is held; what a claim left is released, or expires
    │   ├── Held                 another holds the lease, or was faster, and the wait is over
    │   │   └── HeldByOneself    this thread or task holds it, and would wait for itself (it is a RuntimeError too)
    │   ├── Full                 there is no room for a permit, and the wait is over
    │   ├── RecordFull           a semaphore has no room for another holder
    │   ├── WaitOver             the wait is over, and the store was failing
    │   └── Cancelled            somebody cancelled the wait
    ├── LeaseLost                lease or permit is not ours any more: stop what it guards
    │   ├── LeaseTaken           the record is another's now
    │   ├── LeaseBroken          somebody broke it
    │   ├── LeaseReleased        somebody else released it
    │   ├── LeaseUnreachable     it could not be renewed before its deadline
    │   └── LeaseExpired         this process was paused past its deadline
    ├── LeaseEnded               this process has released it, or left it, itself
    ├── OutOfBuckets             what was to be released is not held
    ├── NotReleased              not released in the time given; it expires by itself
    ├── NoResult                 the work has ended, and there is no result
    ├── RememberedFailure        the work has failed before, for somebody who kept that
    ├── NothingToJoin            there is nothing that a companion could keep alive
    ├── StoreError               the store cannot be used
    │   ├── Unauthorized         it refuses us
    │   ├── NoSuchStore          there is no such bucket, container or directory
    │   ├── Unreachable          it does not answer
    │   ├── Throttled            it asks for patience
    │   ├── ReadOnly             it takes no writes
    │   ├── StoreFull            it has no room
    │   └── Incompatible         it, or what is in it, cannot serve what was asked
    ├── Vacant                   there is nothing: nobody to break, no result to read
    ├── Stale                    a newer tenure has written the object: stop what the lease guarded
    ├── Unsettled                a guarded write may have been applied, may be applied later, or never
    ├── Raced                    a guarded object was another by then, or others were faster
    ├── Closed                   mopslock.close() was called, or the process is ending
    ├── Forked                   a lease of the parent process, asked for in a forked child
    ├── EngineFailed             the library under us failed
    └── BadArgument              a name, URL or duration cannot be so (it is a ValueError too)
        └── WeightExceedsLimit   a permit that its view never has room for

Act on the class and on ``reason``; the text is for people.
"""

from __future__ import annotations

from .status import Status


class MopslockError(Exception):
    """The root of them all."""


class BadArgument(MopslockError, ValueError):
    """An argument cannot be so. Nothing was done; the text lists every bad one."""


class WeightExceedsLimit(BadArgument):
    """Weight and spare are more than capacity x width, so there would never be room. Nothing was asked."""


class OutOfBuckets(MopslockError):
    """What was to be released is not held: it was released before, or its holder, thread or task has ended. Nothing
    has changed."""


class Closed(MopslockError):
    """The store was closed, or the interpreter is ending. What was held is released, or expires."""


class Forked(MopslockError):
    """A lease that the parent process holds was asked for in a forked child.

    It stays the parent's. A child that needs a lease of its own acquires one.
    """


class EngineFailed(MopslockError):
    """The library that decides could not be loaded, or failed."""


class NotReleased(MopslockError, TimeoutError):
    """The lease was not released in the time given. It is tried on; else it expires, a TTL after its last renewal."""


class LeaseEnded(MopslockError):
    """This process has released the lease, or has left it as a companion."""


class NotAcquired(MopslockError):
    """The lease was not acquired, and nothing is held.

    ``reason`` is the core's word for why; ``seen`` is the record that decided it, or None.
    """

    def __init__(self, text: str = "", *, reason: str = "", seen: Status | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.seen = seen


class Held(NotAcquired):
    """Another holds the lease (reason ``held``) or was faster (``raced``)."""


class HeldByOneself(Held, RuntimeError):
    """This very thread, or task, is in a block that holds the lease, and would wait for itself (reason ``oneself``)."""


class Full(NotAcquired):
    """There is no room for a permit, and the wait is over. Nothing is held that was not before.

    ``held`` is how many permits are held by everybody, ``limit`` how many may be by the caller's view (of a shared
    semaphore, or by the limit in the store, where that is less), ``weight`` how many were wanted.
    """

    def __init__(
        self, text: str = "", *, reason: str = "full", seen: Status | None = None, held: int = 0, limit: int = 0,
        weight: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(text, reason=reason, seen=seen)
        self.held, self.limit, self.weight = held, limit, weight

    def for_request(self, limit: int, weight: int) -> Full:
        """The same error, for one who has asked so."""
        stored = self.seen.limit if self.seen is not None else 0
        self.limit, self.weight = min(limit, stored) if stored else limit, weight
        return self


class RecordFull(NotAcquired):
    """A semaphore's record has no room for another holder, which it has for about a thousand; or this process has
    asked for as many on one name. Use several names, or weigh permits."""


class WaitOver(NotAcquired, TimeoutError):
    """The wait was over while the store was failing (reason ``limit``)."""


class Cancelled(NotAcquired):
    """The wait was cancelled."""


class LeaseLost(MopslockError):
    """The lease is not ours any more, and nothing of ours is written to it from now on.

    ``reason`` is ``taken``, ``broken``, ``released``, ``unreachable`` or ``expired``, each with a class of
    its own; ``seen`` is the record that was found, or None.
    """

    reason = ""

    def __init__(self, text: str = "", *, reason: str = "", seen: Status | None = None) -> None:
        super().__init__(text)
        self.reason = reason or self.reason
        self.seen = seen


class LeaseTaken(LeaseLost):
    """The record is another's now."""

    reason = "taken"


class LeaseBroken(LeaseLost):
    """Somebody broke the lease, on the record."""

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

    ``reason`` is ``none`` (it ended well, but nobody stored one, and nobody goes on with it), ``failed``,
    ``taken`` or ``broken`` (the lease was lost before there was one), ``released``, or ``unreachable`` and
    ``unusable``: the store did not take it.
    """

    def __init__(self, text: str = "", *, reason: str = "", seen: Status | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.seen = seen


class RememberedFailure(MopslockError):
    """The work was not done, because it has failed before, for somebody who kept that (``memo_failures``).

    ``type`` and ``text`` are what it raised there ("" of a command), ``status`` the exit status of a command, or 0,
    ``stderr`` the end of what it said there, or of the traceback; ``at`` is when, as RFC 3339, and ``host`` where.
    These texts are somebody else's: escape them before you show them.
    """

    def __init__(
        self, message: str = "", *, type: str = "", text: str = "", status: int = 0, at: str = "",  # noqa: A002
        host: str = "", stderr: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.type, self.text, self.status, self.at, self.host, self.stderr = type, text, status, at, host, stderr


class NothingToJoin(MopslockError):
    """There is nothing that a companion could keep alive.

    ``reason`` is ``absent``, ``no_expiry``, ``never_acquired`` or ``unreadable``.
    """

    def __init__(self, text: str = "", *, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class StoreError(MopslockError):
    """The store cannot be used. If it was a lease that was asked for, nothing is held."""

    def __init__(self, text: str = "", *, reason: str = "", seen: Status | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.seen = seen


class Unauthorized(StoreError):
    """The store refuses us: check the credentials and their rights to read and write."""


class NoSuchStore(StoreError):
    """There is no such bucket, container or directory: make it first, or mend its name."""


class Unreachable(StoreError):
    """The store does not answer: check its URL and the network."""


class Throttled(StoreError):
    """The store asks for patience."""


class ReadOnly(StoreError):
    """The store takes no writes; a lease needs them."""


class StoreFull(StoreError):
    """The store has no room."""


class Incompatible(StoreError):
    """The store, or what is in it, cannot serve what was asked.

    It does not honour create-if-absent, which protocol strict and Guarded need; or ``reason`` is ``newer`` (a newer
    mopslock has written there) or ``kind`` (the name is in use for something else than a lease).
    """


class Vacant(MopslockError):
    """There is nothing: nobody holds the lease that was to be broken, or nobody has made the result."""

    def __init__(self, text: str = "", *, reason: str = "", seen: Status | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.seen = seen


class Stale(MopslockError):
    """A newer tenure has written the guarded object. Nothing of ours was written, nor will be: stop.

    ``token`` and ``holder`` are the newer tenure's, where they are known.
    """

    def __init__(self, text: str = "", *, token: int = 0, holder: str = "") -> None:
        super().__init__(text)
        self.token = token
        self.holder = holder


class Unsettled(MopslockError):
    """A guarded write may have been applied, may be applied later, or never. Read the object: it was applied if its
    newest slot has this ``nonce``. Any later write puts an end to the doubt."""

    def __init__(self, text: str = "", *, number: int = 0, nonce: str = "") -> None:
        super().__init__(text)
        self.number = number
        self.nonce = nonce


class Raced(MopslockError):
    """A guarded object was another than expected by the time of the write, or others were faster again and again."""


LOST: dict[str, type[LeaseLost]] = {
    kind.reason: kind for kind in (LeaseTaken, LeaseBroken, LeaseReleased, LeaseUnreachable, LeaseExpired)
}
"""The class of each reason for which a lease is lost."""

CLASSES: dict[str, type[StoreError]] = {
    "unauthorized": Unauthorized,
    "no_such_store": NoSuchStore,
    "unreachable": Unreachable,
    "throttled": Throttled,
    "read_only": ReadOnly,
    "full": StoreFull,
}
"""The class of each way in which a store fails, by the core's names."""


def error_class(name: str) -> type[StoreError]:
    """The class of the core's word for how a store failed."""
    return CLASSES.get(name, StoreError)

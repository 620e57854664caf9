"""What acquire and make_remote_lease_writer return: plain data that pickles, with a lazy handle to this engine.

Nothing renews such an object by itself. Each of its verbs is one claim of the client's, which ends with it. It also
works on a copy in another process: both may maintain, either may release.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from .._duration import nanoseconds
from .._future import Future
from .._log import log
from .._own import claims
from .._own.host import OwnHost
from .._own.verbs import Action, Event
from .._units import SECOND
from ..errors import LeaseLost, LeaseTaken, MopslockError, NothingToJoin, NotReleased, Unreachable, error_class
from ._engine import Engine, Place, engine

if TYPE_CHECKING:

    class _TheirCannot(ValueError): ...

    class _TheirLost(ValueError): ...
else:
    try:
        from thds.mops.pure.core.lease.maintain import CannotMaintainLease as _TheirCannot
        from thds.mops.pure.core.lease.maintain import LeaseLostError as _TheirLost
    except ImportError:
        _TheirCannot = _TheirLost = ValueError

PATIENCE = 10.0
"""Seconds, and never more than a third of expire: how long a failing store is tried before its error is raised."""

RELEASE_WAIT = 10.0
"""Seconds that a release is waited for. One that is not answered by then is tried on until the lease expires."""


class Claim(claims.Lease):
    """A claim that acquires a lease, joins it, renews it once, or releases it.

    One that has acquired or joined is left before it is renewed, unless the maintenance goes on with it.
    """

    __slots__ = ("_by", "_place", "body", "doubtful", "failing", "maintained", "once")

    answers = True

    def __init__(
        self, place: Place, kept: tuple[OwnHost, str] | None = None, *, guarded: bool, once: bool = False
    ) -> None:
        """kept is the host in a keeper, and the name there."""
        self._by, name = kept or (place.host, place.name)
        super().__init__(self._by.client, name, title=place.uri, guarded=guarded)
        self._place = place  # whose record it needs
        self.once = once
        self.maintained = False
        self.body = b""  # the record that was put last
        self.doubtful = False  # a put of unknown fate
        self.failing = ""  # how the store failed last, if it did

    def held(self, action: Action) -> None:
        """One that joins has written nothing yet."""
        if self.guarded or self.once:
            super().held(action)
        else:
            self.believe_held(action)

    def renewed(self, action: Action) -> None:
        """Now it has."""
        super().renewed(action)
        self.settled.settle(self)

    def contact_lost(self, action: Action) -> None:
        super().contact_lost(action)
        self.settled.settle(self)

    def leave(self) -> None:
        """Nothing renews what is not maintained."""
        if not self.maintained:
            self.client.command(self, "leave")

    def answered(self, action: Action, answer: Event) -> None:
        """What is known of its record."""
        said = answer["outcome"] != "unknown"
        self.failing = "" if said else answer["class"]
        if action["kind"] == "put":
            self.doubtful = self.doubtful or not said
            self.body = action["body"] if said else self.body

    def begin(self, kind: str, expire_s: float, margin_s: float = 0.0, wait_ns: int = 0, **more: str) -> Claim:
        """Begins it. The keys of more stand in the core's order."""
        terms: Event = {"protocol": "lastwriter", "name": self.name, "ttl_ns": nanoseconds("expire", expire_s)}
        if margin_s:
            terms["acquire_margin_ns"] = nanoseconds("acquire_margin", margin_s)
        self._by.begin(self, kind, {**terms, **more}, wait_ns)
        return self


class LeaseAcquired(Protocol):
    """What mops' runner needs of a lease."""

    writer_id: str
    expire_s: float

    def maintain(self) -> None:
        """Renews it now, once."""

    def release(self) -> None:
        """Lets the next one have it."""


@dataclass(eq=False, repr=False)
class Lease:
    """A lease that this process, or the one that pickled it, has acquired. Its fields go to another process.

    It is not renewed unless it is maintained, and expires ``expire_s`` seconds after its last renewal.
    """

    lease_dir_uri: str
    writer_id: str
    expire_s: float
    acquire_margin_s: float = 0.0
    first_written_at: str = ""  # as the record has them
    first_acquired_at: str = ""
    write_count: int = 0  # when it was acquired, or last maintained by this very object
    role = "owner"

    def __post_init__(self) -> None:
        self._verbs = (os.getpid(), threading.RLock())
        self._place: tuple[Engine, Place] | None = None
        self._claim: tuple[Engine, Claim] | None = None  # that acquired or joined it, for the maintenance to go on with
        self._doubt = 0.0  # Mono until which a renewal of unknown fate can bring it back to life

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lease_dir_uri!r}, {self.writer_id!r}, expire_s={self.expire_s!r})"

    def maintain(self) -> None:
        """Renews it now, once: reads that it is still ours, then writes.

        It revives an expired lease that no other holder has taken. LeaseLostError: another holder has it, or it was
        released; nothing is written. CannotMaintainLease: there is no record, or none that can be kept alive. A
        StoreError, chained from the store's own: the store failed for PATIENCE; the renewal may have been applied.
        """
        on = engine()
        with self._alone():
            claim = self.take(on)
            if claim is not None:
                claim.leave()
            renewal = self.renew(on)
            try:
                answered = renewal.settled.wait(patience(self.expire_s))
            finally:
                renewal.client.command(renewal, "leave")
                if renewal.doubtful:
                    self._doubt = on.clock.mono() / SECOND + self.expire_s
            failure = renewal.settled.exception() if answered else gave_up(renewal, self.lease_dir_uri)
            if failure is None:
                self.noted(renewal.body)
                return
        raise translated(failure, self.lease_dir_uri) from renewal.cause

    def release(self) -> None:
        """Releases it if it is still ours. Otherwise it overwrites nothing, and logs a warning.

        A lease that is released already, or gone, is fine. Its maintenance in this process stops first. NotReleased:
        the store has not answered within RELEASE_WAIT; we go on trying until the lease expires.
        """
        on = engine()
        kept = on.kept.get((self.writer_id, False))
        if kept is not None:
            kept()
            return
        with self._alone():
            claim = self.take(on)
            awaited(claim.finish() if claim is not None else self.begin_release(on), self)
            if self._doubt > on.clock.mono() / SECOND:
                self.look_again(on)

    def _alone(self) -> threading.RLock:
        """One verb at a time. A forked child may have got the lock while a thread of the parent held it."""
        pid = os.getpid()
        if self._verbs[0] != pid:
            self._verbs = (pid, threading.RLock())
        return self._verbs[1]

    # For others.

    def place(self, on: Engine) -> Place:
        """Where it lies; found once for each process."""
        if self._place is None or self._place[0] is not on:
            self._place = (on, on.place(self.lease_dir_uri))
        return self._place[1]

    def begin_release(self, on: Engine) -> Future[None]:
        released = Claim(self.place(on), guarded=True)
        return released.begin("release", self.expire_s, self.acquire_margin_s, holder=self.writer_id, role="owner").over

    def renew(self, on: Engine) -> Claim:
        renewal = Claim(self.place(on), guarded=False, once=True)
        return renewal.begin("resume", self.expire_s, self.acquire_margin_s, holder=self.writer_id, role=self.role)

    def join(self, on: Engine, kept: tuple[OwnHost, str] | None = None) -> Claim:
        companion = Claim(self.place(on), kept, guarded=False)
        return companion.begin("accompany", self.expire_s, self.acquire_margin_s, holder=self.writer_id, role=self.role)

    def keep(self, on: Engine, claim: Claim) -> None:
        """Keeps the claim that has acquired or joined it, for the maintenance, until just before it is renewed."""
        self.place(on)
        self.noted(claim.body)
        self._claim = (on, claim)
        on.after(self.expire_s / 4, claim.leave)

    def take(self, on: Engine) -> Claim | None:
        """The claim that acquired or joined it, once; a fork's child has nothing of the parent's."""
        kept, self._claim = self._claim, None
        return kept[1] if kept is not None and kept[0] is on and kept[1].failure() is None else None

    def look_again(self, on: Engine) -> None:
        """Releases once more a second and a third of the TTL later: a late renewal may lie on top."""
        for after in {1.0, self.expire_s / 3}:
            on.after(after, lambda: self.begin_release(on))

    def noted(self, body: bytes) -> None:
        if body:
            record = json.loads(body)
            self.write_count = record["write_count"]
            self.first_written_at, self.first_acquired_at = record["first_written_at"], record["first_acquired_at"]


class RemoteLease(Lease):
    """Another process's lease, which this one helps to keep alive. It is released by its owner."""

    role = "remote"

    @property
    def writer_name(self) -> str:
        return "remote"

    def release(self) -> None:
        """Does nothing: only the owner releases."""


def gave_up(renewal: Claim, uri: str) -> MopslockError:
    if renewal.failing:
        return error_class(renewal.failing)(
            f"mopslock: lease {uri} could not be renewed ({renewal.failing}): {renewal.cause!r}; try again"
        )
    return CannotMaintainLease(
        f"mopslock: lease {uri} cannot be maintained (unreadable): its record cannot be read, or is in other hands "
        "for the moment; it may be tried again",
        reason="unreadable",
    )


def awaited(over: Future[None], lease: Lease) -> None:
    """Waits for a release. Another's record is left alone, which is no error for the caller."""
    try:
        if not over.wait(RELEASE_WAIT):
            raise NotReleased(
                f"mopslock: lease {lease.lease_dir_uri} was not released within {RELEASE_WAIT:g}s; "
                "tried on, or it expires"
            )
        over.result()
    except LeaseTaken as taken:
        log.warning(
            "mopslock: lease %s was not released, since it is not ours any more: %s", lease.lease_dir_uri, taken
        )
    except LeaseLost as lost:
        raise Unreachable(f"mopslock: lease {lease.lease_dir_uri} was not released, and expires: {lost}") from lost


def patience(expire_s: float) -> float:
    return min(PATIENCE, expire_s / 3)


# mops' two exceptions. If mops is installed, ours are subclasses of its own: code that catches theirs catches ours.


class CannotMaintainLease(NothingToJoin, _TheirCannot):
    """There is nothing to keep alive. ``reason`` is ``absent``, ``no_expiry``, ``never_acquired`` or ``unreadable``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _portable(self, _TheirCannot)


class LeaseLostError(LeaseLost, _TheirLost):
    """The lease is another's, or was released. ``reason`` is ``taken`` or ``released``; ``seen`` the record."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _portable(self, _TheirLost)


def _portable(error: Exception, theirs: type[Exception]) -> tuple[Any, ...]:
    """A remote of mops hands its exception to an orchestrator, which may know only mops' own."""
    if theirs is ValueError:
        return (type(error), error.args, error.__dict__)
    return (theirs, error.args)


FINAL: tuple[type[Exception], ...] = (LeaseLost, NothingToJoin)
"""What a renewal may raise that no other renewal will mend."""
if _TheirLost is not ValueError:
    FINAL = (*FINAL, _TheirCannot, _TheirLost)


def translated(error: BaseException, uri: str) -> BaseException:
    """The core's word for it in mops' classes; whatever mops has no class for stays as it is."""
    if isinstance(error, LeaseLost):
        return LeaseLostError(f"{error} ({uri})", reason=error.reason, seen=error.seen)
    if isinstance(error, NothingToJoin):
        return CannotMaintainLease(f"{error} ({uri})", reason=error.reason)
    return error

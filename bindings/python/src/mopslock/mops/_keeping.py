"""The maintenance of leases: what mops' daemon does, done by the clients that all leases of the process share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .. import errors
from .._future import Future
from .._log import log
from .._units import SECOND
from ._engine import Engine, engine
from ._leases import FINAL, RELEASE_WAIT, Claim, Lease, LeaseAcquired, RemoteLease, awaited


def add_lease_to_maintenance_daemon(lease_acq: LeaseAcquired) -> Callable[[], None]:
    """Keeps a lease alive from now on, and returns the function that ends that and releases it.

    Any object with writer_id, expire_s, maintain and release will do. If it is not ours, a thread for such objects
    calls maintain every third of expire_s. A renewal that fails does not end the maintenance; only the loss of the
    lease does, and that is logged as an error. A second call for the same writer_id returns the same releaser, until
    that is called. It can be called from any thread, and does no I/O.

    The releaser of a remote's lease only stops: the lease is its owner's. A releaser called again does nothing. In a
    forked child it does nothing either: the parent keeps the lease, and the child may add its copy of the lease.
    """
    on = engine()
    remote = isinstance(lease_acq, RemoteLease)
    fresh = OwnReleaser(on, lease_acq) if isinstance(lease_acq, Lease) else ForeignReleaser(on, lease_acq)
    with fresh.lock:  # another caller that finds it waits until it has begun
        kept = on.kept.setdefault((lease_acq.writer_id, remote), fresh)
        if kept is fresh:
            try:
                fresh.begin()
            except BaseException:
                fresh.forget()
                raise
    return kept


class Releaser(ABC):
    """Ends the maintenance of a lease, and releases it. It is called without arguments."""

    def __init__(self, on: Engine, lease: Any) -> None:
        self.on, self.lease = on, lease
        self.lock = threading.RLock()
        self.stopped = False

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    def __call__(self) -> None:
        if self.on is not engine():
            log.debug("mopslock: %r is kept by the parent process, and not released in its child", self.lease)
            return
        with self.lock:
            if self.stopped:
                return
            self.stopped = True
            self.forget()
        self.end()

    def forget(self) -> None:
        """A later registration starts afresh."""
        key = (self.lease.writer_id, isinstance(self.lease, RemoteLease))
        if self.on.kept.get(key) is self:
            del self.on.kept[key]

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process nothing is maintained, and either may release."""
        return getattr, (self.lease, "release")


class OwnReleaser(Releaser):
    """A lease of ours, kept by the claim that acquired or joined it, or by one that comes back to it."""

    def __init__(self, on: Engine, lease: Lease) -> None:
        super().__init__(on, lease)
        self._kept_by: Claim | None = None
        self._joining: Claim | None = None  # in a keeper
        self._left: list[Future[None]] = []  # what has kept it before: a put of theirs may be in flight
        self._told = False

    def begin(self) -> None:
        self._keep(self.lease.take(self.on) or self.lease.join(self.on))
        self.on.submit(self._to_keeper)

    def _keep(self, claim: Claim) -> None:
        """It leaves what has kept the lease before."""
        before, self._kept_by = self._kept_by, claim
        if before is not None:
            before.maintained = False
            before.leave()
            self._note_left(before.over)
        claim.maintained = True
        claim.when_ended(lambda failure: self._ended(claim, failure))

    def _note_left(self, over: Future[None]) -> None:
        self._left = [*(other for other in self._left if not other.done()), over]

    def _to_keeper(self) -> None:
        """A keeper joins, which no GIL can stop, and when it has written the claim here is left."""
        kept = self.on.keeps(self.lease.place(self.on))
        with self.lock:
            if kept is None or self.stopped or self._kept_by is None:
                return
            if self._joining is not None:  # since before the one here was lost, and begun again
                self._note_left(self._joining.finish())
            joined = self._joining = self.lease.join(self.on, kept)
            joined.settled.add_done_callback(lambda _: self.on.submit(lambda: self._handed_over(joined)))

    def _handed_over(self, joined: Claim) -> None:
        with self.lock:
            if self.stopped or joined is not self._joining:
                return  # the end, or the next to join, leaves it
            self._joining = None
            if joined.failure() is not None:
                return  # the one here goes on, and says why
            self._keep(joined)

    def _ended(self, claim: Claim, failure: errors.MopslockError) -> None:
        """On the notifier's thread. A lease is given up only if another has taken or released it."""
        with self.lock:
            if self.stopped or claim is not self._kept_by:
                return
            if isinstance(failure, (errors.LeaseUnreachable, errors.LeaseExpired)):
                self.begin()
            elif isinstance(failure, errors.NothingToJoin) and failure.reason == "unreadable":
                self._later(failure)
            else:
                log.error(
                    "mopslock: lease %s is no longer maintained; another may do its work meanwhile: %s",
                    self.lease.lease_dir_uri, failure,
                )  # fmt: skip

    def _later(self, failure: errors.MopslockError) -> None:
        if not self._told:
            self._told = True
            log.warning("mopslock: lease %s: tried again every third of expire: %s", self.lease.lease_dir_uri, failure)

        def again() -> None:
            with self.lock:
                if not self.stopped:
                    self.begin()

        self.on.after(self.lease.expire_s / 3, again)

    def end(self) -> None:
        """A put that is in flight is waited for before the release, which it could undo."""
        claim = self._kept_by
        assert claim is not None
        ended: Future[None] = Future()
        with self.lock:
            before = [*self._left, *([self._joining.finish()] if self._joining is not None else [])]

        def finish() -> None:
            if before:
                before.pop().add_done_callback(lambda _: finish())
            else:
                claim.finish().add_done_callback(lambda over: self._after(claim, over, ended))

        finish()
        if isinstance(self.lease, RemoteLease):
            if not ended.wait(RELEASE_WAIT):
                log.warning("mopslock: lease %s: its last renewal has not been answered yet", self.lease.lease_dir_uri)
            return
        awaited(ended, self.lease)

    def _after(self, claim: Claim, over: Future[None], ended: Future[None]) -> None:
        """It has released, or left, or was lost before."""
        failure = over.exception()
        free = isinstance(failure, (errors.LeaseTaken, errors.LeaseReleased)) or (claim.guarded and failure is None)
        if free or isinstance(self.lease, RemoteLease):
            ended.settle(None)
            return
        self.lease.begin_release(self.on).add_done_callback(lambda over: ended.settle(over.exception()))
        if claim.cause is not None:
            self.lease.look_again(self.on)


class ForeignReleaser(Releaser):
    """A lease that is not ours: mops' own, or a user's object."""

    def __init__(self, on: Engine, lease: LeaseAcquired) -> None:
        super().__init__(on, lease)
        self._verbs = threading.Lock()  # held while maintain or release runs
        self._good = on.clock.mono()

    def begin(self) -> None:
        self._in(self.lease.expire_s / 3)

    def _in(self, seconds: float) -> None:
        self.on.after(seconds, lambda: self.on.submit(self._maintain))

    def _maintain(self) -> None:
        with self._verbs:
            if self.stopped:
                return
            sent = self.on.clock.mono()
            try:
                self.lease.maintain()
            except BaseException as error:
                self._failed(error)
                return
        self._good = sent
        self._in(self.lease.expire_s / 3)

    def _failed(self, error: BaseException) -> None:
        """One failing renewal never drops a lease."""
        past = (self.on.clock.mono() - self._good) / SECOND
        if issubclass(type(error), FINAL) or past >= self.lease.expire_s:
            log.error("mopslock: %r is no longer maintained", self.lease, exc_info=error)
            return
        log.warning("mopslock: %r could not be maintained just now: %r", self.lease, error)
        self._in(min(5.0, self.lease.expire_s / 12))

    def end(self) -> None:
        """Waits for a renewal under way. If that takes too long, the release follows the renewal by itself."""
        if self._verbs.acquire(timeout=RELEASE_WAIT):
            try:
                self.lease.release()
            finally:
                self._verbs.release()
            return
        self.on.submit(self._release_late)
        raise errors.NotReleased(f"mopslock: {self.lease!r} is not released yet: its renewal has not come back")

    def _release_late(self) -> None:
        with self._verbs:
            try:
                self.lease.release()
            except Exception:
                log.exception("mopslock: %r was not released", self.lease)

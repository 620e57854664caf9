"""The maintenance of leases: what mops' daemon does, done by the event loop that all leases of the process share."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .._future import Future
from .._lease_runner import LeaseRunner
from .._units import SECOND
from ..errors import (
    LeaseExpired,
    LeaseReleased,
    LeaseTaken,
    LeaseUnreachable,
    MopslockError,
    NothingToJoin,
    NotReleased,
)
from ._engine import Engine, engine
from ._errors import FINAL
from ._leases import RELEASE_WAIT, Lease, LeaseAcquired, RemoteLease, awaited, wait

log = logging.getLogger("mopslock")


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

    lease: Any

    def __init__(self, on: Engine) -> None:
        self.on = on
        self.lock = threading.RLock()
        self.stopped = False

    @abstractmethod
    def begin(self) -> None:
        """Has it kept alive."""

    @abstractmethod
    def end(self) -> None:
        """Stops, and releases."""

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
        return (releaser_elsewhere, (self.lease,))


def releaser_elsewhere(lease: LeaseAcquired) -> Any:
    """A releaser in another process: nothing is maintained there, and either may release."""
    return lease.release


class OwnReleaser(Releaser):
    """A lease of ours, kept by the claim that acquired or joined it, or by a machine that comes back to it."""

    lease: Lease

    def __init__(self, on: Engine, lease: Lease) -> None:
        super().__init__(on)
        self.lease = lease
        self._lease_runner: LeaseRunner | None = None
        self._told = False

    def begin(self) -> None:
        runner = self.lease.take(self.on)
        if runner is None or runner.left_ns() <= 0:
            self.on.discard(runner)
            self._join()
            return
        self._lease_runner = runner
        runner.when_ended(self._ended)
        runner.adopt()

    def _join(self) -> None:
        runner = self._lease_runner = self.lease.companion(self.on)
        runner.when_ended(self._ended)
        self.on.host.loop.post(lambda: runner.feed({"kind": "accompany"}))

    def _ended(self, failure: MopslockError) -> None:
        """On the notifier's thread. A lease is given up only if another has taken or released it."""
        with self.lock:
            if self.stopped:
                return
            if isinstance(failure, (LeaseUnreachable, LeaseExpired)):
                self._join()
            elif isinstance(failure, NothingToJoin) and failure.reason == "unreadable":
                self._later(failure)
            else:
                log.error(
                    "mopslock: lease %s is no longer maintained; another may do its work meanwhile: %s",
                    self.lease.lease_dir_uri, failure,
                )  # fmt: skip

    def _later(self, failure: MopslockError) -> None:
        """The store cannot be used just now."""
        if not self._told:
            self._told = True
            log.warning("mopslock: lease %s: tried again every third of expire: %s", self.lease.lease_dir_uri, failure)
        host = self.on.host

        def again(_: int) -> None:
            with self.lock:
                if not self.stopped:
                    self._join()

        at = host.clock.mono() + int(self.lease.expire_s / 3 * SECOND)
        host.loop.post(lambda: host.loop.at(at, again))

    def end(self) -> None:
        """A put that is in flight is waited for before the release, which it could undo."""
        runner = self._lease_runner
        assert runner is not None
        ended: Future[None] = Future()
        runner.finish().add_done_callback(lambda over: self._after(runner, over, ended))
        if isinstance(self.lease, RemoteLease):
            if not wait(ended, RELEASE_WAIT):
                log.warning("mopslock: lease %s: its last renewal has not been answered yet", self.lease.lease_dir_uri)
            return
        awaited(ended, self.lease)

    def _after(self, runner: LeaseRunner, over: Future[None], ended: Future[None]) -> None:
        """It has released, or left, or was lost before."""
        failure = over.exception()
        released = runner.guarded and failure is None
        if released or isinstance(self.lease, RemoteLease) or isinstance(failure, (LeaseTaken, LeaseReleased)):
            ended.settle(None)
        else:
            self._release(ended)
            if runner.cause is not None:
                self.lease.look_again(self.on)

    def _release(self, ended: Future[None]) -> None:
        """What may still be ours there is released by another machine."""
        place = self.lease.place(self.on)
        released = self.on.host.begin_release(place.name, self.lease.writer_id, self.lease.terms(), store=place.store)
        released.add_done_callback(lambda over: ended.settle(over.exception()))


class ForeignReleaser(Releaser):
    """A lease that is not ours: mops' own, or a user's object."""

    def __init__(self, on: Engine, lease: LeaseAcquired) -> None:
        super().__init__(on)
        self.lease = lease
        self._verbs = threading.Lock()  # held while maintain or release runs
        self._good = on.host.clock.mono()

    def begin(self) -> None:
        self._in(self.lease.expire_s / 3)

    def _in(self, seconds: float) -> None:
        loop = self.on.host.loop
        at = self.on.host.clock.mono() + int(seconds * SECOND)
        loop.post(lambda: loop.at(at, lambda _: self.on.submit(self._maintain)))

    def _maintain(self) -> None:
        with self._verbs:
            if self.stopped:
                return
            sent = self.on.host.clock.mono()
            try:
                self.lease.maintain()
            except Exception as error:
                self._failed(error)
                return
        self._good = sent
        self._in(self.lease.expire_s / 3)

    def _failed(self, error: Exception) -> None:
        """One failing renewal never drops a lease."""
        past = (self.on.host.clock.mono() - self._good) / SECOND
        if isinstance(error, FINAL) or past >= self.lease.expire_s:
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
        raise NotReleased(f"mopslock: {self.lease!r} is not released yet: its renewal has not come back")

    def _release_late(self) -> None:
        with self._verbs:
            try:
                self.lease.release()
            except Exception:
                log.exception("mopslock: %r was not released", self.lease)

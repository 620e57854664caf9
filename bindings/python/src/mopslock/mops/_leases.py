"""What acquire and make_remote_lease_writer return: plain data that pickles, with a lazy handle to this engine.

Nothing renews such an object by itself. Each of its verbs is one short machine of the core, stepped on the caller's
thread. It also works on a copy in another process: both may maintain, either may release.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from typing import Any, Protocol

from .._future import Future
from .._inline_driver import InlineDriver
from .._lease_runner import LeaseRunner
from .._units import SECOND
from .._verbs import Event
from ..errors import LeaseLost, LeaseTaken, MopslockError, NotReleased, Unreachable, error_class
from ._engine import Engine, Place, engine, terms
from ._errors import CannotMaintainLease, translated

log = logging.getLogger("mopslock")

PATIENCE = 10.0
"""Seconds, and never more than a third of expire: how long a failing store is tried before its error is raised."""

RELEASE_WAIT = 10.0
"""Seconds that a release is waited for. One that is not answered by then is tried on until the lease expires."""


PLAIN = (
    "lease_dir_uri", "writer_id", "expire_s", "acquire_margin_s", "first_written_at", "first_acquired_at",
    "write_count",
)  # fmt: skip
"""The fields of a lease that go to another process."""


class LeaseAcquired(Protocol):
    """What mops' runner needs of a lease."""

    writer_id: str
    expire_s: float

    def maintain(self) -> None:
        """Renews it once."""

    def release(self) -> None:
        """Lets the next one have it."""


class Lease:
    """A lease that this process, or the one that pickled it, has acquired.

    It is not renewed unless it is maintained, and expires ``expire_s`` seconds after its last renewal.
    """

    role = "owner"

    __slots__ = (
        "__weakref__", "_doubt", "_lease_runner", "_place", "_verbs", "acquire_margin_s", "expire_s",
        "first_acquired_at", "first_written_at", "lease_dir_uri", "write_count", "writer_id",
    )  # fmt: skip

    def __init__(self, lease_dir_uri: str, writer_id: str, expire_s: float, *, acquire_margin_s: float = 0.0) -> None:
        self.lease_dir_uri, self.writer_id, self.expire_s = lease_dir_uri, writer_id, expire_s
        self.acquire_margin_s = acquire_margin_s
        self.first_written_at = self.first_acquired_at = ""  # as the record has them
        self.write_count = 0  # when it was acquired, or last maintained by this very object
        self._bare()

    def _bare(self) -> None:
        self._verbs = (os.getpid(), threading.RLock())
        self._place: tuple[Engine, Place] | None = None
        self._lease_runner: LeaseRunner | None = None  # that acquired or joined it, for the event loop to go on with
        self._doubt = 0  # Mono until which a renewal of unknown fate can bring it back to life

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PLAIN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in PLAIN:
            setattr(self, name, state[name])
        self._bare()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lease_dir_uri!r}, {self.writer_id!r}, expire_s={self.expire_s!r})"

    def maintain(self) -> None:
        """Renews it now, once: reads that it is still ours, then writes.

        It revives an expired lease that no other holder has taken. LeaseLostError: another holder has it, or it was
        released; nothing is written. CannotMaintainLease: there is no record, or none that can be kept alive. A
        StoreError, chained from the store's own: the store failed for PATIENCE; the renewal may have been applied.
        """
        on = engine()
        runner = self.companion(on)
        until = on.host.clock.mono() + patience_ns(self.expire_s)
        with self._alone():
            driver = InlineDriver(runner)
            try:
                driver.run({"kind": "accompany"}, until=until, put=True)
            finally:
                if driver.doubtful:
                    self._doubt = on.host.clock.mono() + runner.ttl_ns
                if not runner.gone:
                    runner.step({"kind": "leave"})
            if driver.written:
                self._noted(driver.body)
                return
        failure = runner.settled.exception() if runner.settled.done() else None
        if isinstance(failure, MopslockError):
            raise translated(failure, self.lease_dir_uri) from runner.cause
        raise gave_up(driver, self.lease_dir_uri) from runner.cause

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
            on.discard(self.take(on))
            runner = on.host.runner(
                self.place(on).name, self.terms(), holder=self.writer_id, role="owner", store=self.place(on).store
            )
            InlineDriver(runner).run({"kind": "release", "brief": True}, until=0)
            if not runner.gone:  # the store fails
                runner.adopt()
            awaited(runner.over, self)
            if self._doubt > on.host.clock.mono():
                self.look_again(on)

    def _alone(self) -> threading.RLock:
        """One verb at a time. A forked child may have got the lock while a thread of the parent held it."""
        pid = os.getpid()
        if self._verbs[0] != pid:
            self._verbs = (pid, threading.RLock())
        return self._verbs[1]

    # For the event loop.

    def place(self, on: Engine) -> Place:
        """Where it lies; found once for each process."""
        if self._place is None or self._place[0] is not on:
            self._place = (on, on.place(self.lease_dir_uri))
        return self._place[1]

    def terms(self) -> Event:
        """What the core is told of it."""
        return terms(self.expire_s, self.acquire_margin_s)

    def companion(self, on: Engine) -> LeaseRunner:
        """A machine that comes back to it, and has not begun."""
        place = self.place(on)
        return on.host.runner(
            place.name, self.terms(), holder=self.writer_id, role=self.role, machine="companion", store=place.store
        )

    def take(self, on: Engine) -> LeaseRunner | None:
        """The claim that acquired or joined it, once; a fork's child has nothing of the parent's."""
        runner, self._lease_runner = self._lease_runner, None
        return runner if runner is not None and runner.host is on.host else None

    def leave(self, on: Engine, driver: InlineDriver) -> None:
        """Leaves the claim that has just acquired or joined it for the event loop to go on with."""
        self.place(on)
        self._noted(driver.body)
        self._lease_runner = driver.runner

    def look_again(self, on: Engine) -> None:
        """Releases once more a second and a third of the TTL later: a late renewal may lie on top."""
        host, place, fields = on.host, self.place(on), self.terms()

        def look(_: int) -> None:
            host.begin_release(place.name, self.writer_id, fields, store=place.store)

        now = host.clock.mono()
        for after in {SECOND, int(self.expire_s / 3 * SECOND)}:
            host.loop.post(lambda at=now + after: host.loop.at(at, look))  # type: ignore[misc]

    def _noted(self, body: bytes) -> None:
        if body:
            record = json.loads(body)
            self.write_count = record["write_count"]
            self.first_written_at, self.first_acquired_at = record["first_written_at"], record["first_acquired_at"]

    def __del__(self) -> None:
        runner, place = getattr(self, "_lease_runner", None), getattr(self, "_place", None)
        if runner is not None and place is not None:
            place[0].litter.append(runner)  # a finalizer runs within anything, and may take no lock


class RemoteLease(Lease):
    """Another process's lease, which this one helps to keep alive. It is released by its owner."""

    role = "remote"

    __slots__ = ()

    @property
    def writer_name(self) -> str:
        """What its records say beside the holder's id."""
        return "remote"

    def release(self) -> None:
        """Does nothing: only the owner releases."""


def gave_up(driver: InlineDriver, uri: str) -> MopslockError:
    """Why there was no renewal."""
    if driver.failing:
        return error_class(driver.failing)(
            f"mopslock: lease {uri} could not be renewed ({driver.failing}): {driver.runner.cause!r}; try again"
        )
    return CannotMaintainLease(
        f"mopslock: lease {uri} cannot be maintained (unreadable): its record cannot be read, or is in other hands "
        "for the moment; it may be tried again",
        reason="unreadable",
    )


def awaited(over: Future[None], lease: Lease) -> None:
    """Waits for a release. Another's record is left alone, which is no error for the caller."""
    try:
        if not wait(over, RELEASE_WAIT):
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


def wait(over: Future[None], seconds: float) -> bool:
    """Waits until it is done, at most so many seconds, and returns whether it is."""
    return over.wait(seconds)


def patience_ns(expire_s: float) -> int:
    """For how long a failing store is tried."""
    return int(min(PATIENCE, expire_s / 3) * SECOND)

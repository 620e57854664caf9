"""Each thing that mops' leases were hurt by, against ours, in fake time: one process here, others elsewhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from mopslock import mops
from mopslock._future import Future
from mopslock._units import SECOND
from mopslock.errors import NotReleased, StoreError, Unauthorized, Unreachable
from mopslock.mops import _engine, _leases
from mopslock.stores import Mops
from world import Blobs, World, stamp

URI = "world://memo/n"
TTL = timedelta(seconds=88)
THIRD = 88 / 3
Step = Callable[[], Any]


class Fleet:
    """Some processes of ours in one world. What blocks in one of them lets the others go on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.here = self.process()

    def process(self) -> _engine.Engine:
        return _engine.Engine(self.world.host, self.world.clock, self.world.share())

    def as_of(self, other: _engine.Engine, do: Step) -> Any:
        """What do returns in another process."""
        _engine._current.engine, before = other, _engine._current.engine
        try:
            return do()
        finally:
            _engine._current.engine = before

    @property
    def record(self) -> dict[str, Any]:
        return self.world.store.record("n")


@pytest.fixture
def fleet(world: World, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    fleet = Fleet(world)

    def wait(over: Future[Any], seconds: float | None = None) -> bool:
        world.run(1e6 if seconds is None else seconds, over.done)
        return over.done()

    monkeypatch.setattr(_engine._current, "engine", fleet.here)
    monkeypatch.setattr(_engine, "_lookup", lambda uri: Blobs(world.store))
    monkeypatch.setattr(mops, "_lookup", lambda uri: Blobs(world.store))
    monkeypatch.setattr(_engine, "_store", lambda uri: Mops(Blobs(world.store), uri))
    monkeypatch.setattr(mops, "time", SimpleNamespace(sleep=world.run))
    monkeypatch.setattr(Future, "wait", wait)
    return fleet


def acquired(expire: timedelta = TTL) -> _leases.Lease:
    lease = mops.acquire(URI, expire=expire)
    assert isinstance(lease, _leases.Lease)
    return lease


def age(fleet: Fleet) -> float:
    """Seconds since the record was written."""
    now = datetime.fromisoformat(stamp(fleet.world.clock.wall()))
    return (now - datetime.fromisoformat(fleet.record["written_at"])).total_seconds()


def test_daemon_goes_on_with_the_claim_that_acquired_and_asks_nothing_more(fleet: Fleet) -> None:
    """What nobody maintains nobody renews; what its maker lets go of is swept."""
    acquired()
    fleet.world.run(88.1)
    assert fleet.record["write_count"] == 2
    fleet.world.store.asked()
    lease = acquired()
    assert fleet.world.store.asked() == ["get", "put", "get", "put"]
    release = mops.add_lease_to_maintenance_daemon(lease)
    fleet.world.run(0.9)
    assert fleet.world.store.asked() == []
    fleet.world.run(1)
    assert fleet.world.store.asked() == ["get"], "the later look of a release that may have waited too little"
    fleet.world.run(300)
    assert age(fleet) <= THIRD + 1
    away, copy = fleet.process(), _leases.Lease(URI, lease.writer_id, lease.expire_s)
    there = fleet.as_of(away, lambda: mops.add_lease_to_maintenance_daemon(copy))
    fleet.world.run(300)
    fleet.as_of(away, release)  # as in a forked child
    assert fleet.record["writer_id"] == lease.writer_id
    assert not fleet.record["released_at"]
    fleet.as_of(away, there)
    assert fleet.record["released_at"], "both may maintain, and either may release"
    fleet.world.run(100)
    release()
    assert not fleet.here.kept


def test_a_caller_that_is_interrupted_leaves_nothing_held(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is held, or joined, in that instant."""
    waits = Future.wait

    def interrupted(over: Future[Any], seconds: float | None = None) -> bool:
        waits(over, seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        acquired()
    fleet.world.run(10)
    assert fleet.record["released_at"]
    monkeypatch.setattr(Future, "wait", waits)
    lease = acquired()
    monkeypatch.setattr(Future, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fleet.as_of(fleet.process(), lambda: mops.make_remote_lease_writer(URI))
    monkeypatch.setattr(Future, "wait", waits)
    fleet.world.run(200)
    assert age(fleet) > 150, "nobody renews it"
    lease.release()


def test_one_failing_renewal_does_not_drop_the_lease(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """mops takes a lease out of its maintenance at the first exception."""
    release = mops.add_lease_to_maintenance_daemon(acquired())
    fleet.world.store.fail(ConnectionError("reset"))
    fleet.world.run(60)
    fleet.world.store.mend()
    fleet.world.run(15)
    assert age(fleet) < 20
    fleet.world.run(500)
    assert age(fleet) <= THIRD + 1
    fleet.world.store.fail(ConnectionError("reset"))
    fleet.world.run(400)
    fleet.world.store.mend()
    fleet.world.run(60)
    assert age(fleet) <= THIRD + 1, "nor does an outage longer than the TTL"
    fleet.world.jump(200)
    fleet.world.run(60)
    assert age(fleet) <= THIRD + 1, "nor a pause"
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    release()
    assert fleet.record["released_at"]


@pytest.mark.parametrize("verb", ["maintain", "release", "daemon", "releaser"])
def test_thiefs_record_is_never_overwritten(fleet: Fleet, verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """mops' maintain and release write blindly."""
    lease = acquired()
    release = mops.add_lease_to_maintenance_daemon(lease) if verb in ("daemon", "releaser") else lease.release
    fleet.world.run(20 if verb == "releaser" else 0)
    fleet.world.store.write("n", fleet.world.clock.wall())
    before = dict(fleet.world.store.objects)
    if verb == "maintain":
        with pytest.raises(mops.LeaseLostError) as lost:
            lease.maintain()
        assert lost.value.reason == "taken"
        assert isinstance(lost.value, ValueError)
    else:
        fleet.world.run(60 if verb == "daemon" else 0)
        release()
        release()
    assert fleet.world.store.objects == before
    assert verb == "maintain" or any(entry.levelno >= logging.WARNING for entry in caplog.records)
    errors = [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert len(errors) == (1 if verb == "daemon" else 0)
    fleet.world.run(300)
    assert fleet.world.store.objects == before


def test_late_renewal_of_unknown_fate_is_released_again(fleet: Fleet) -> None:
    """The store applies a put that it never answered, after the release."""
    lease = acquired()
    fleet.world.store.fail(ConnectionError("reset"), "put")
    with pytest.raises(StoreError) as failed:
        lease.maintain()
    assert isinstance(failed.value.__cause__, ConnectionError)
    fleet.world.store.mend()
    zombie = json.dumps({**fleet.record, "written_at": stamp(fleet.world.clock.wall()), "write_count": 3}).encode()
    lease.release()
    assert fleet.record["released_at"]
    fleet.world.store.objects["n/lock.json"] = zombie
    fleet.world.run(1.5)
    assert fleet.record["released_at"]


def test_remote_does_not_bring_a_released_lease_back(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """A heartbeat of a remote of mops' does."""
    lease = acquired()
    here = mops.add_lease_to_maintenance_daemon(lease)
    away = fleet.process()
    remote = fleet.as_of(away, lambda: mops.make_remote_lease_writer(URI, lease.writer_id))
    leave = fleet.as_of(away, lambda: mops.add_lease_to_maintenance_daemon(remote))
    fleet.world.run(200)
    assert fleet.record["writer_name"] == "remote"
    assert age(fleet) <= THIRD + 1
    lease.release()
    assert fleet.record["released_at"]
    assert not fleet.here.kept, "the release of the lease itself ends its maintenance"
    released = dict(fleet.world.store.objects)
    here()
    fleet.world.run(200)
    with pytest.raises(mops.LeaseLostError):
        fleet.as_of(away, remote.maintain)
    fleet.as_of(away, leave)
    assert fleet.world.store.objects == released
    assert len([entry for entry in caplog.records if entry.levelno >= logging.ERROR]) == 1, "the remote's alone"


@pytest.mark.parametrize("pause", [0.0, 0.015])
def test_nothing_renews_on_of_a_maintenance_that_began_again(fleet: Fleet, pause: float) -> None:
    """Its claim is lost while its keeper joins, or once it has joined: the next one joins there, too."""
    lease, away, keeper = acquired(), fleet.process(), fleet.world.host()
    away.keeps = lambda _: (keeper, "n")  # type: ignore[method-assign, assignment, return-value]
    remote = fleet.as_of(away, lambda: mops.make_remote_lease_writer(URI, lease.writer_id))
    stop = fleet.as_of(away, lambda: mops.add_lease_to_maintenance_daemon(remote))
    fleet.world.run(pause)
    stop.begin()
    fleet.world.run(200)
    assert age(fleet) <= THIRD + 1
    fleet.as_of(away, stop)
    fleet.world.store.asked()
    fleet.world.run(400)
    assert fleet.world.store.asked() == []


def test_a_blocking_caller_waits_so_long_and_for_a_release(fleet: Fleet) -> None:
    release = mops.add_lease_to_maintenance_daemon(acquired())
    away, began = fleet.process(), fleet.world.clock.now
    assert fleet.as_of(away, lambda: mops.acquire(URI, expire=TTL, block=timedelta(seconds=30))) is None
    assert 30 * SECOND <= fleet.world.clock.now - began < 31 * SECOND
    assert fleet.as_of(away, lambda: mops.acquire(URI, expire=TTL, block=timedelta(seconds=-5))) is None
    at = fleet.world.clock.now + 20 * SECOND
    fleet.world.at(at, lambda: fleet.as_of(fleet.here, release))
    assert fleet.as_of(away, lambda: mops.acquire(URI, expire=TTL, block=timedelta(seconds=40))) is not None
    fleet.world.run(100)
    first = acquired()
    at = fleet.world.clock.now + 40 * SECOND
    fleet.world.at(at, first.release)
    second = mops.acquire(URI + "/", expire=TTL, block=timedelta(seconds=80))
    assert second is not None
    assert fleet.world.clock.now - at < SECOND, "polls are seconds apart: a release of the same process wakes it"
    second.release()
    began = fleet.world.clock.now
    assert mops.acquire(URI, expire=TTL, acquire_margin=TTL / 2) is not None
    assert fleet.world.clock.now - began >= 44 * SECOND


def test_failing_store_is_raised_with_its_own_exception(fleet: Fleet) -> None:
    began = fleet.world.clock.now
    fleet.world.store.fail(ConnectionError("reset"))
    with pytest.raises(Unreachable) as failed:
        mops.acquire(URI, expire=TTL)
    assert isinstance(failed.value.__cause__, ConnectionError)
    assert 9 * SECOND < fleet.world.clock.now - began < 12 * SECOND
    fleet.world.store.fail(PermissionError("no"))
    began = fleet.world.clock.now
    with pytest.raises(Unauthorized):
        mops.acquire(URI, expire=TTL)
    assert fleet.world.clock.now - began < SECOND, "it is not tried again"
    fleet.world.store.mend()
    assert mops.acquire(URI, expire=TTL) is not None


def test_release_of_a_failing_store_is_tried_on(fleet: Fleet) -> None:
    for maintained in (False, True):
        lease = acquired()
        release = mops.add_lease_to_maintenance_daemon(lease) if maintained else lease.release
        fleet.world.store.fail(ConnectionError("reset"))
        with pytest.raises(NotReleased):
            release()
        fleet.world.store.mend()
        fleet.world.run(10)
        assert fleet.record["released_at"]


def test_remote_waits_for_a_store_that_fails_and_then_cannot_maintain(fleet: Fleet) -> None:
    """A remote of mops' goes on without a lease after one error."""
    lease = acquired()
    away = fleet.process()
    until = fleet.world.clock.now + 20 * SECOND

    def fault(verb: str, key: str) -> None:
        if fleet.world.clock.now < until:
            raise ConnectionError("reset")

    fleet.world.store.fault = fault
    remote = fleet.as_of(away, lambda: mops.make_remote_lease_writer(URI, lease.writer_id))
    assert remote.writer_id == lease.writer_id
    fleet.world.store.fail(ConnectionError("reset"))
    with pytest.raises(mops.CannotMaintainLease) as cannot:
        fleet.as_of(away, lambda: mops.make_remote_lease_writer(URI, lease.writer_id))
    assert cannot.value.reason == "unreadable"


class Foreign:
    """Somebody else's lease object."""

    expire_s = 88.0

    def __init__(self, writer_id: str = "theirs") -> None:
        self.writer_id = writer_id
        self.asked: list[str] = []
        self.error: Exception | None = None

    def maintain(self) -> None:
        self.asked.append("maintain")
        if self.error is not None:
            raise self.error

    def release(self) -> None:
        self.asked.append("release")


def test_foreign_lease_is_maintained_until_its_ttl_is_over(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    lease = Foreign()
    release = mops.add_lease_to_maintenance_daemon(lease)
    assert mops.add_lease_to_maintenance_daemon(lease) is release
    fleet.world.run(89)
    assert lease.asked == ["maintain"] * 3
    lease.error = ConnectionError("reset")
    fleet.world.run(60)
    lease.error = None
    fleet.world.run(60)
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    lease.error = ConnectionError("reset")
    lease.asked.clear()
    fleet.world.run(200)
    assert len(lease.asked) > 5
    assert len([entry for entry in caplog.records if entry.levelno >= logging.ERROR]) == 1
    lease.asked.clear()
    fleet.world.run(200)
    release()
    release()
    assert lease.asked == ["release"]
    lease.error = mops.LeaseLostError("gone")
    assert mops.add_lease_to_maintenance_daemon(lease) is not release
    fleet.world.run(300)
    assert lease.asked == ["release", "maintain"], "one that is lost is not asked again"

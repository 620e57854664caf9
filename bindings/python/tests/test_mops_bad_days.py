"""Each thing that mops' leases were hurt by, against ours, in fake time: one process here, others elsewhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import IO, Any, cast

import pytest

from mopslock import _claim, mops
from mopslock._duration import SECOND
from mopslock.errors import NotReleased, StoreError, Unauthorized, Unreachable
from mopslock.mops import _engine, _keeping, _leases
from world import FaultyStore, World, stamp

URI = "world://memo/n"
TTL = timedelta(seconds=88)
THIRD = 88 / 3
Step = Callable[[], Any]


class Blobs:
    """A world's store as mops sees one."""

    def __init__(self, store: FaultyStore) -> None:
        self.store = store

    def readbytesinto(self, uri: str, stream: IO[bytes], /, *, type_hint: str = "bytes") -> None:
        found = self.store.get(uri.removeprefix("world://memo/"))
        if found is None:
            raise LookupError(uri)
        stream.write(found)

    def putbytes(self, uri: str, data: Any, /, *, type_hint: str = "bytes") -> None:
        assert type_hint == "application/mops-lease"
        self.store.put(uri.removeprefix("world://memo/"), data)

    def exists(self, uri: str, /) -> bool:
        return self.store.exists(uri)

    def join(self, *parts: str) -> str:
        return "/".join(parts)

    def is_blob_not_found(self, error: Exception, /) -> bool:
        return isinstance(error, LookupError)


class Fleet:
    """Some processes of ours in one world. What blocks in one of them lets the others go on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.here = self.process()

    def process(self) -> _engine.Engine:
        return _engine.Engine(self.world.host(), self.world.submit)

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

    def outcome(future: Future[None], seconds: float) -> None:
        world.run(seconds, future.done)
        future.result(0)

    monkeypatch.setattr(_engine._current, "engine", fleet.here)
    monkeypatch.setattr(_engine, "lookup", lambda uri: Blobs(world.store))
    monkeypatch.setattr(mops, "lookup", lambda uri: Blobs(world.store))
    monkeypatch.setattr(_engine, "_store", lambda uri: _engine._Blob(Blobs(world.store), uri))
    monkeypatch.setattr(world.clock, "sleep", lambda ns: world.run(ns / SECOND))
    monkeypatch.setattr(mops, "time", SimpleNamespace(sleep=world.run))
    monkeypatch.setattr(_leases, "outcome", outcome)
    monkeypatch.setattr(_keeping, "outcome", outcome)
    monkeypatch.setattr(_claim, "notifier", SimpleNamespace(call=lambda do: do()))
    return fleet


def acquired(expire: timedelta = TTL) -> _leases.Lease:
    lease = mops.acquire(URI, expire=expire)
    assert isinstance(lease, _leases.Lease)
    return lease


def age(fleet: Fleet) -> float:
    """Seconds since the record was written."""
    now = datetime.fromisoformat(stamp(fleet.world.clock.wall()))
    return (now - datetime.fromisoformat(fleet.record["written_at"])).total_seconds()


def test_nobody_renews_what_nobody_maintains(fleet: Fleet) -> None:
    acquired()
    assert fleet.record["write_count"] == 2
    fleet.world.run(88.1)
    assert fleet.record["write_count"] == 2
    assert fleet.as_of(fleet.process(), lambda: mops.acquire(URI, expire=TTL)) is not None


def test_daemon_goes_on_with_the_claim_that_acquired_and_asks_nothing_more(fleet: Fleet) -> None:
    lease = acquired()
    assert fleet.world.store.asked() == ["get", "put", "get", "put"]
    release = mops.add_lease_to_maintenance_daemon(lease)
    fleet.world.run(0.9)
    assert fleet.world.store.asked() == []
    fleet.world.run(1)
    assert fleet.world.store.asked() == ["get"], "the later look of whoever may have waited too little"
    fleet.world.run(300)
    assert age(fleet) <= THIRD + 1
    release()
    assert fleet.record["released_at"]
    assert not fleet.here.kept


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
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    release()
    assert fleet.record["released_at"]


def test_outage_or_pause_longer_than_the_ttl_does_not_give_up_what_nobody_took(fleet: Fleet) -> None:
    release = mops.add_lease_to_maintenance_daemon(acquired())
    first = fleet.record["writer_id"]
    fleet.world.store.fail(ConnectionError("reset"))
    fleet.world.run(400)
    fleet.world.store.mend()
    fleet.world.run(60)
    assert age(fleet) <= THIRD + 1
    fleet.world.jump(200)
    fleet.world.run(60)
    assert age(fleet) <= THIRD + 1
    assert fleet.record["writer_id"] == first
    release()
    assert fleet.record["released_at"]


@pytest.mark.parametrize("verb", ["maintain", "release", "daemon", "releaser"])
def test_thiefs_record_is_never_overwritten(fleet: Fleet, verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """mops' maintain and release write blindly."""
    lease = acquired()
    release = mops.add_lease_to_maintenance_daemon(lease) if verb in ("daemon", "releaser") else None
    fleet.world.run(20 if verb == "releaser" else 0)
    fleet.world.store.write("n", fleet.world.clock.wall())
    before = dict(fleet.world.store.objects)
    if verb == "maintain":
        with pytest.raises(mops.LeaseLostError) as lost:
            lease.maintain()
        assert lost.value.reason == "taken"
        assert isinstance(lost.value, ValueError)
    elif verb == "release":
        lease.release()
    else:
        assert release is not None
        fleet.world.run(60 if verb == "daemon" else 0)
        release()
        release()
    assert fleet.world.store.objects == before
    assert verb == "maintain" or any(entry.levelno >= logging.WARNING for entry in caplog.records)
    errors = [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert len(errors) == (1 if verb == "daemon" else 0)
    fleet.world.run(300)
    assert fleet.world.store.objects == before


def test_renewal_in_flight_does_not_undo_the_release(fleet: Fleet) -> None:
    """A heartbeat of mops' that lands after its release holds the name for another 88 s."""
    release = mops.add_lease_to_maintenance_daemon(acquired())
    fleet.world.store.asked()
    fleet.world.latency = lambda: 2 * SECOND
    fleet.world.run(40, lambda: len(fleet.world._jobs) == 1 and fleet.world.store.log[-1:] == ["get"])
    fleet.world.settle()
    assert not fleet.world.quiet, "its put is under way"
    release()
    fleet.world.run(200)
    assert fleet.record["released_at"]


def test_late_renewal_of_unknown_fate_is_released_again(fleet: Fleet) -> None:
    """The store applies a put that it never answered, after the release."""
    lease = acquired()
    late: list[bytes] = []

    def lose(verb: str, key: str) -> None:
        if verb == "put":
            late.append(b"")
            raise ConnectionError("reset")

    fleet.world.store.fault = lose
    with pytest.raises(StoreError) as failed:
        lease.maintain()
    assert isinstance(failed.value.__cause__, ConnectionError)
    fleet.world.store.mend()
    zombie = json.dumps({**fleet.record, "written_at": stamp(fleet.world.clock.wall()), "write_count": 3}).encode()
    lease.release()
    assert late
    assert fleet.record["released_at"]
    fleet.world.store.objects["n/lock.json"] = zombie
    fleet.world.run(1.5)
    assert fleet.record["released_at"]


def test_remote_does_not_bring_a_released_lease_back(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """A heartbeat of a remote of mops' does."""
    lease = acquired()
    away = fleet.process()
    remote = fleet.as_of(away, lambda: mops.make_remote_lease_writer(URI, lease.writer_id))
    leave = fleet.as_of(away, lambda: mops.add_lease_to_maintenance_daemon(remote))
    fleet.world.run(200)
    assert fleet.record["writer_name"] == "remote"
    assert age(fleet) <= THIRD + 1
    lease.release()
    assert fleet.record["released_at"]
    released = dict(fleet.world.store.objects)
    fleet.world.run(200)
    with pytest.raises(mops.LeaseLostError):
        fleet.as_of(away, remote.maintain)
    fleet.as_of(away, leave)
    assert fleet.world.store.objects == released
    assert len([entry for entry in caplog.records if entry.levelno >= logging.ERROR]) == 1


def test_remote_keeps_it_alive_when_the_orchestrator_dies(fleet: Fleet) -> None:
    lease = acquired()
    away = fleet.process()
    remote = fleet.as_of(away, lambda: mops.make_remote_lease_writer(URI))
    assert remote.expire_s == 88.0
    leave = fleet.as_of(away, lambda: mops.add_lease_to_maintenance_daemon(remote))
    fleet.world.run(1000)
    assert fleet.as_of(fleet.process(), lambda: mops.acquire(URI, expire=TTL)) is None
    fleet.as_of(away, leave)
    assert not fleet.record["released_at"], "it is its owner's"
    assert fleet.record["writer_id"] == lease.writer_id
    fleet.world.run(89)
    assert fleet.as_of(fleet.process(), lambda: mops.acquire(URI, expire=TTL)) is not None


def test_expiry_goes_by_the_records_own_ttl(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """mops judges by its own expire, so that a reader of 30 s takes a lease of 88 s after 30."""
    acquired()
    fleet.world.run(45)
    away = fleet.process()
    assert fleet.as_of(away, lambda: mops.acquire(URI, expire=timedelta(seconds=30))) is None
    assert "should use one" in caplog.text
    fleet.world.run(44)
    assert fleet.as_of(away, lambda: mops.acquire(URI, expire=timedelta(seconds=30))) is not None


def test_leases_that_are_due_at_one_instant_are_all_renewed(fleet: Fleet) -> None:
    """A tie in the heap of mops' daemon compares leases, which raises TypeError and ends it."""
    uris = [f"world://memo/n{i}" for i in range(50)]
    for uri in uris:
        lease = mops.acquire(uri, expire=TTL)
        assert lease is not None
        mops.add_lease_to_maintenance_daemon(lease)
    foreign = [Foreign(f"f{i}") for i in range(50)]
    for one in foreign:
        mops.add_lease_to_maintenance_daemon(one)
    fleet.world.run(300)
    assert all(fleet.world.store.record(uri.rpartition("/")[2])["write_count"] > 8 for uri in uris)
    assert all(len(one.asked) >= 10 for one in foreign)


def test_one_network_error_does_not_fail_who_acquires(fleet: Fleet) -> None:
    """mops' waiter fails its caller's future with the first exception of the store."""
    fleet.world.store.fail(ConnectionError("reset"))
    mend_at = fleet.world.clock.now + 3 * SECOND

    def fault(verb: str, key: str) -> None:
        if fleet.world.clock.now < mend_at:
            raise ConnectionError("reset")

    fleet.world.store.fault = fault
    assert mops.acquire(URI, expire=TTL) is not None


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
    assert fleet.world.clock.now == began
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
    assert mops.add_lease_to_maintenance_daemon(lease) is not release


def test_foreign_lease_that_is_lost_is_not_asked_again(fleet: Fleet) -> None:
    lease = Foreign()
    lease.error = mops.LeaseLostError("gone")
    mops.add_lease_to_maintenance_daemon(lease)
    fleet.world.run(300)
    assert lease.asked == ["maintain"]


def test_both_may_maintain_and_either_may_release(fleet: Fleet) -> None:
    lease = acquired()
    away = fleet.process()
    copy = _leases.Lease(lease.lease_dir_uri, lease.writer_id, lease.expire_s)
    here = mops.add_lease_to_maintenance_daemon(lease)
    there = fleet.as_of(away, lambda: mops.add_lease_to_maintenance_daemon(copy))
    fleet.world.run(300)
    assert fleet.record["writer_id"] == lease.writer_id
    assert "writer_name" not in fleet.record
    fleet.as_of(away, there)
    assert fleet.record["released_at"]
    fleet.world.run(100)
    here()
    assert fleet.record["released_at"]


def test_release_of_the_lease_itself_ends_its_maintenance(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    lease = acquired()
    release = mops.add_lease_to_maintenance_daemon(lease)
    lease.release()
    assert not fleet.here.kept
    released = dict(fleet.world.store.objects)
    assert fleet.record["released_at"]
    fleet.world.run(200)
    release()
    lease.release()
    assert fleet.world.store.objects == released
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR], "nobody thinks that it was lost"


def test_all_of_one_uri_share_a_store_by_which_waiters_are_woken(fleet: Fleet) -> None:
    first, second = fleet.here.place(URI), fleet.here.place(URI + "/")
    assert first.store is second.store
    assert fleet.here.place(URI + "2").store is not first.store


def test_releaser_of_the_parent_does_nothing_in_a_child(fleet: Fleet) -> None:
    lease = acquired()
    release = mops.add_lease_to_maintenance_daemon(lease)
    before = dict(fleet.world.store.objects)
    child = fleet.process()
    fleet.as_of(child, cast(Step, release))
    assert fleet.world.store.objects == before
    own = fleet.as_of(child, lambda: mops.add_lease_to_maintenance_daemon(lease))
    assert own is not release
    fleet.as_of(child, own)
    assert fleet.record["released_at"]


def test_leases_that_nobody_has_any_more_are_swept(fleet: Fleet) -> None:
    for i in range(10):
        mops.acquire(f"world://memo/n{i}", expire=TTL)
    assert len(fleet.here.host._claims) <= 2

"""What a host that Python steps asks of its store, and when, and what ends a lease: on a clock of ours."""

from __future__ import annotations

import os
import queue

import pytest

from mopslock import _stepped, errors
from mopslock._duration import SECOND
from mopslock.terms import Terms
from world import ACQUIRE, LATENCY, MARGIN, RELEASE, RENEW, TTL, World, seconds, stamp

# What is asked for, and when.


def test_a_lease_costs_so_many_requests_and_no_more(world: World) -> None:
    """Four to acquire, one to look once more, two for each renewal, two to release."""
    lease = world.lease()
    assert world.store.asked() == ACQUIRE
    world.run(2)
    assert world.store.asked() == ["get"]
    world.run(300)
    assert world.store.asked() == RENEW * 11
    world.result(lease.finish())
    assert world.store.asked() == RELEASE
    world.run(300)
    assert world.store.asked() == []
    assert world.store.holder("n") is None


def test_renewals_come_between_five_sixths_of_a_third_and_a_third_of_the_ttl(world: World) -> None:
    world.lease()
    world.run(2)
    world.store.asked()
    last = world.clock.now - 2 * SECOND - LATENCY
    for _ in range(20):
        world.run(100, lambda: world.store.log == ["get"])
        assert TTL / 3 * 5 / 6 - 0.1 <= seconds(world.clock.now - last) <= TTL / 3 + 0.1
        last = world.clock.now
        world.run(1, lambda: world.store.log == RENEW)
        assert world.store.asked() == RENEW


def test_the_deadline_counts_from_before_the_write_was_sent(world: World) -> None:
    lease = world.lease()
    assert lease.left_ns() == round((TTL - MARGIN) * SECOND) - LATENCY


def test_renewals_move_the_deadline_and_release_ends_it(world: World) -> None:
    lease = world.lease()
    world.run(20)
    before = lease.left_ns()
    world.run(20)
    assert lease.left_ns() > before - 20 * SECOND
    over = lease.finish()
    assert lease.left_ns() <= 0
    assert isinstance(lease.failure(), errors.LeaseEnded)
    assert not over.done()
    world.result(over)
    assert isinstance(lease.failure(), errors.LeaseEnded)


def test_belief_ends_before_anything_is_written_that_lets_others_in(world: World) -> None:
    lease = world.lease()
    world.store.asked()
    lease.finish()
    assert lease.failure() is not None
    assert world.store.asked() == []


def test_a_release_is_asked_for_once(world: World) -> None:
    lease = world.lease()
    world.store.asked()
    assert lease.finish() is lease.finish()
    world.result(lease.finish())
    world.result(lease.finish())
    assert world.store.asked() == RELEASE


def test_trying_costs_one_read(world: World) -> None:
    world.lease()
    world.store.asked()
    error = world.error(world.host().begin_acquire("n", Terms(), 0, None))
    assert isinstance(error, errors.Held)
    assert error.reason == "held"
    assert error.seen
    assert error.seen.holder == world.store.holder("n")
    assert world.store.asked() == ["get"]


def test_nothing_is_left_of_what_has_ended(world: World) -> None:
    """No machine, no waiter, no timer that does anything."""
    host = world.host()
    world.result(world.lease(host).finish())
    world.result(world.lease(host, "other").finish())
    world.run(100)
    assert host._claims == set()
    assert dict(host._waiters) == {}
    assert world.next() == 1 << 62


# What ends a lease.


def test_taken(world: World) -> None:
    lease = world.lease()
    world.run(2)
    world.store.write("n", world.clock.wall(), writer_id="thief")
    thief = world.store.objects["n/lock.json"]
    error = world.error(lease.over)
    assert isinstance(error, errors.LeaseTaken)
    assert error.reason == "taken"
    assert error.seen
    assert error.seen.holder == "thief"
    assert lease.failure() is error
    assert lease.left_ns() <= 0
    world.run(200)
    assert world.store.objects["n/lock.json"] == thief


def test_taken_by_the_later_look(world: World) -> None:
    """A second after it was held, one more read finds a writer who was too slow to be seen before."""
    lease = world.lease()
    world.store.write("n", world.clock.wall(), writer_id="late")
    world.run(1.1)
    assert isinstance(lease.failure(), errors.LeaseTaken)


def test_released_by_somebody(world: World) -> None:
    lease = world.lease()
    now = stamp(world.clock.wall())
    world.store.write("n", world.clock.wall(), writer_id=lease.holder, written_at="", released_at=now)
    error = world.error(lease.over)
    assert isinstance(error, errors.LeaseReleased)


def test_unreachable(world: World) -> None:
    """While the store fails it is believed until its deadline, to the nanosecond, and not after."""
    lease = world.lease()
    world.run(2)
    world.store.fail(ConnectionError())
    deadline = world.clock.now + lease.left_ns()
    world.run(seconds(lease.left_ns()) - 1e-9)
    assert lease.failure() is None
    assert lease.left_ns() == 1
    world.run(1e-9)
    assert world.clock.now == deadline
    error = lease.failure()
    assert isinstance(error, errors.LeaseUnreachable)
    world.store.asked()
    world.store.mend()
    world.run(200)
    assert world.store.asked() == []


def test_expired(world: World) -> None:
    """The machine slept past the deadline, and no renewal was tried."""
    lease = world.lease()
    world.run(2)
    world.store.asked()
    world.jump(100)
    assert isinstance(lease.failure(), errors.LeaseExpired)
    world.run(100)
    assert world.store.asked() == []


@pytest.mark.parametrize("verb", ["get", "put"])
@pytest.mark.parametrize("late", ["fails", "answer_lost"])
def test_one_failing_renewal_loses_nothing(world: World, verb: str, late: str) -> None:
    lease = world.lease()
    world.run(2)
    faults = [ConnectionResetError()]

    def fault(asked: str, _: str) -> None:
        if asked == verb and faults:
            raise faults.pop()

    setattr(world.store, "fault" if late == "fails" else "after", fault)
    world.run(31)
    assert not faults
    assert lease.failure() is None
    assert seconds(lease.left_ns()) > TTL - MARGIN - TTL / 3
    world.run(200)
    assert lease.failure() is None


def test_past_its_deadline_a_lease_is_lost_though_its_keeper_never_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stepped, "LOOK", 0.0)
    lease = world.lease()
    host = world.hosts[0]
    host.paused = True
    world.run(seconds(lease.left_ns()) - 1e-9)
    assert lease.failure() is None
    world.run(1e-9)
    assert isinstance(lease.failure(), errors.LeaseLost)
    assert lease.left_ns() <= 0


def test_a_renewal_that_is_heard_of_past_the_deadline_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was applied in time, but nobody could rely on it meanwhile: lost once is lost for good, and left to expire."""
    monkeypatch.setattr(_stepped, "LOOK", 0.0)
    lease = world.lease()
    host = world.hosts[0]

    def stop(verb: str, _: str) -> None:
        host.paused = verb == "put"

    world.store.after = stop
    world.run(40, lambda: host.paused)
    world.store.mend()
    world.run(80)
    lost = lease.failure()
    assert isinstance(lost, errors.LeaseExpired)
    host.paused = False
    world.store.asked()
    world.run(300)
    assert lease.failure() is lost
    assert world.store.asked() == []


def test_who_asks_past_the_deadline_is_told_the_reason_that_the_keeper_knows(world: World) -> None:
    """Also if the keeper has not come to say so itself."""
    lease = world.lease()
    world.store.fail(ConnectionError())
    world.run(60)
    world.jump(30)
    assert isinstance(lease.failure(), errors.LeaseUnreachable)


def test_callbacks_are_told_once_why(world: World) -> None:
    lease = world.lease()
    told: queue.SimpleQueue[errors.MopslockError] = queue.SimpleQueue()
    lease.when_ended(told.put)
    world.store.write("n", world.clock.wall())
    world.run(40)
    assert told.get(timeout=10) is lease.failure()
    world.run(400)
    lease.when_ended(told.put)  # too late, and told at once
    assert told.get(timeout=10) is lease.failure()
    assert told.empty()


def test_a_fork_of_the_holder_holds_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = world.lease()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert isinstance(lease.failure(), errors.Forked)
    assert lease.left_ns() <= 0
    monkeypatch.undo()
    assert lease.failure() is None

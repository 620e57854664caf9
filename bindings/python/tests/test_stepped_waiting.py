"""Who waits for a lease, and who keeps somebody else's alive, on a clock of ours."""

from __future__ import annotations

import errno
import queue
from concurrent.futures import CancelledError
from typing import Any

import pytest

from mopslock import errors
from mopslock._duration import FOREVER, SECOND
from mopslock.status import Status
from mopslock.terms import Terms
from world import ACQUIRE, LATENCY, MARGIN, RELEASE, TTL, FaultyStore, World, seconds

# Waiting.


def test_a_waiter_in_the_same_process_needs_no_poll(world: World) -> None:
    """The release itself wakes it, so it holds the lease one claim later, and asks for no more than a claim."""
    host = world.host()
    lease = world.lease(host)
    waiter = host.begin_acquire("n", Terms(), FOREVER, None)
    world.run(30)  # polls are seconds apart by now
    world.result(lease.finish())
    world.store.asked()
    released = world.clock.now
    world.result(waiter)
    assert world.store.asked() == ACQUIRE
    assert world.clock.now - released == 8 * LATENCY


def test_waiters_of_other_names_and_stores_sleep_on(world: World) -> None:
    host, elsewhere = world.host(), world.host(FaultyStore())
    lease, _, _ = world.lease(host), world.lease(host, "other"), world.lease(elsewhere)
    other = host.begin_acquire("other", Terms(), FOREVER, None)
    world.run(30)
    before = len(world.store.log)
    world.result(lease.finish())
    world.run(0.1)
    assert not other.done()
    assert world.store.log[before:] == RELEASE


def test_a_waiter_polls_ever_more_slowly_and_at_most_every_six_seconds(world: World) -> None:
    world.lease()
    world.run(2)
    world.host().begin_acquire("n", Terms(), FOREVER, None)
    world.run(20)
    world.store.asked()
    world.run(60)
    renewals = world.store.log.count("put")
    assert 10 <= world.store.log.count("get") - renewals <= 15
    assert renewals in (2, 3)


def test_a_waiter_takes_a_dead_lease_a_ttl_after_its_last_renewal(world: World) -> None:
    dead = world.host()
    world.lease(dead)
    died = world.clock.now
    dead.paused = True
    waiter = world.host().begin_acquire("n", Terms(), FOREVER, None)
    world.result(waiter)
    assert TTL <= seconds(world.clock.now - died) <= TTL + 0.5


def test_who_waits_is_told_for_whom(world: World) -> None:
    lease = world.lease()
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    world.host().begin_acquire("n", Terms(), FOREVER, told.put)
    world.run(1)
    status = told.get(timeout=10)
    assert (status.name, status.state, status.holder) == ("n", "held", lease.holder)


def test_a_wait_that_is_over_is_held(world: World) -> None:
    world.lease()
    begun = world.clock.now
    error = world.error(world.host().begin_acquire("n", Terms(), 7 * SECOND, None))
    assert isinstance(error, errors.Held)
    assert seconds(world.clock.now - begun) <= 7.1


def test_of_two_at_once_one_is_too_slow(world: World) -> None:
    first = world.host().begin_acquire("n", Terms(), 0, None)
    second = world.host().begin_acquire("n", Terms(), 0, None)
    error = world.error(first)
    assert isinstance(error, errors.Held)
    assert error.reason == "raced"
    assert world.result(second).holder == world.store.holder("n")


def test_a_waiter_that_was_too_slow_tries_again(world: World) -> None:
    first = world.host().begin_acquire("n", Terms(), FOREVER, None)
    second = world.host().begin_acquire("n", Terms(), FOREVER, None)
    world.run(5)
    winner, loser = (first, second) if first.done() else (second, first)
    assert not loser.done()
    world.result(winner.result().finish())
    assert world.result(loser).holder == world.store.holder("n")


@pytest.mark.parametrize("after", range(5))
def test_who_cancels_holds_nothing(world: World, after: int) -> None:
    """Whatever was asked of the store before: the record is not his in the end."""
    future = world.host().begin_acquire("n", Terms(), FOREVER, None)

    def cancel(_: str, __: str) -> None:
        if len(world.store.log) == after:
            assert future.cancel()

    world.store.after = cancel
    if not after:
        future.cancel()
    world.run(300)
    assert world.store.holder("n") is None
    assert world.hosts[0]._claims == set()
    assert world.store.log.count("put") <= 4
    with pytest.raises(CancelledError):
        future.result(0)


def test_who_cancels_a_wait_wakes_nobody_and_writes_nothing(world: World) -> None:
    lease = world.lease()
    world.run(2)
    waiter = world.host().begin_acquire("n", Terms(), FOREVER, None)
    world.run(1)
    world.store.asked()
    waiter.cancel()
    world.run(10)
    assert world.store.asked() == []
    assert lease.failure() is None


# Companions.


def test_a_companion_keeps_a_lease_alive_whose_holder_is_dead(world: World) -> None:
    holder = world.host()
    lease = world.lease(holder)
    companion = world.result(world.host().begin_accompany(lease.handle(), Terms()))
    holder.paused = True
    world.run(1000)
    assert companion.failure() is None
    assert seconds(companion.left_ns()) > TTL - MARGIN - TTL / 3 - 1
    assert world.store.holder("n") == lease.holder
    assert world.store.record("n")["writer_name"] == "remote"


def test_a_companion_that_leaves_writes_nothing_more(world: World) -> None:
    lease = world.lease()
    companion = world.result(world.host().begin_accompany(lease.handle(), Terms()))
    world.run(0.1)
    world.hosts[0].paused = True
    world.store.asked()
    world.result(companion.finish())
    world.run(100)
    assert world.store.asked() == []
    assert isinstance(companion.failure(), errors.LeaseEnded)


def test_a_companion_that_loses_contact_tries_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It is not lost, only not to be relied on; and once there is contact again it is."""
    lease = world.lease()
    companion = world.result(world.host().begin_accompany(lease.handle(), Terms()))
    world.store.fail(ConnectionError())
    world.run(200)
    assert isinstance(lease.failure(), errors.LeaseUnreachable)
    assert companion.failure() is None
    assert companion.left_ns() < 0
    assert [record.message for record in caplog.records if "trying on" in record.message] == [
        'mopslock: lease "n": the store cannot be reached; trying on'
    ]
    world.store.mend()
    world.run(60)
    assert companion.failure() is None
    assert companion.left_ns() > 0
    world.run(200)
    assert companion.left_ns() > 0


def test_a_companion_is_told_of_a_release(world: World) -> None:
    lease = world.lease()
    companion = world.result(world.host().begin_accompany(lease.handle(), Terms()))
    world.result(lease.finish())
    world.run(40)
    assert isinstance(companion.failure(), errors.LeaseReleased)


def test_a_companion_of_another_tenure_is_lost(world: World) -> None:
    lease = world.lease()
    world.store.write("n", world.clock.wall())
    error = world.error(world.host().begin_accompany(lease.handle(), Terms()))
    assert isinstance(error, errors.LeaseTaken)


@pytest.mark.parametrize(
    ("reason", "fields"),
    [("absent", None), ("no_expiry", {"expire_s": None}), ("never_acquired", {"first_acquired_at": ""})],
    ids=["absent", "no_expiry", "never_acquired"],
)
def test_a_companion_of_nothing_cannot_maintain(world: World, reason: str, fields: dict[str, Any] | None) -> None:
    lease = world.lease()
    world.hosts[0].paused = True
    del world.store.objects["n/lock.json"]
    if fields is not None:
        world.store.write("n", world.clock.wall(), writer_id=lease.holder, **fields)
    error = world.error(world.host().begin_accompany(lease.handle(), Terms()))
    assert isinstance(error, errors.CannotMaintain)
    assert error.reason == reason


def test_a_companion_that_cannot_read_for_a_ttl_cannot_maintain(world: World) -> None:
    lease = world.lease()
    world.store.fail(OSError(errno.EIO, "broken disk"), "get")
    begun = world.clock.now
    error = world.error(world.host().begin_accompany(lease.handle(), Terms()))
    assert isinstance(error, errors.CannotMaintain)
    assert error.reason == "unreadable"
    assert "broken disk" in str(error)
    assert TTL - 1 <= seconds(world.clock.now - begun) <= TTL + 11

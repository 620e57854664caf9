"""Stores that fail, hang or have nonsense in them, on a clock of ours."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mopslock import errors
from mopslock._duration import FOREVER, SECOND
from mopslock._texts import said
from mopslock.terms import Terms
from world import MARGIN, TTL, FaultyStore, World, seconds, stamp

# Stores that fail.


@pytest.mark.parametrize("name", ["unauthorized", "no_such_store", "read_only", "full"])
@pytest.mark.parametrize("verb", ["get", "put"])
def test_a_store_that_cannot_be_used_is_said_at_once(world: World, name: str, verb: str) -> None:
    """By the class of what it raised, with what it said, and what to do."""
    cause = errors.CLASSES[name]("said by the store")
    world.store.fail(cause, verb)
    begun = world.clock.now
    error = world.error(world.host().begin_acquire("n", Terms(), FOREVER, None))
    assert type(error) is errors.CLASSES[name]
    assert error.reason == "unusable"
    assert said(name, cause) in str(error)
    assert seconds(world.clock.now - begun) < 1


def test_a_store_that_was_never_reached_is_unreachable(world: World) -> None:
    world.store.fail(ConnectionRefusedError("no route"))
    begun = world.clock.now
    error = world.error(world.host().begin_acquire("n", Terms(), FOREVER, None))
    assert type(error) is errors.Unreachable
    assert "no route" in str(error)
    assert 4.9 <= seconds(world.clock.now - begun) <= 10.1


def test_a_wait_that_is_over_while_the_store_fails_is_waited_over(world: World) -> None:
    world.lease()
    future = world.host().begin_acquire("n", Terms(), 20 * SECOND, None)
    world.run(5)
    world.store.fail(errors.Throttled("slow down"))
    error = world.error(future)
    assert isinstance(error, errors.WaitOver)
    assert isinstance(error, TimeoutError)
    assert "slow down" in str(error)


def test_one_failing_request_does_not_end_a_wait(world: World) -> None:
    lease = world.lease()
    future = world.host().begin_acquire("n", Terms(), FOREVER, None)
    world.run(2)
    world.store.fail(ConnectionError())
    world.run(20)
    world.store.mend()
    world.result(lease.finish())
    assert world.result(future).failure() is None


@pytest.mark.parametrize("verb", ["get", "put"])
@pytest.mark.parametrize("nth", range(2))
def test_an_answer_that_is_lost_while_acquiring_is_found_out_by_reading(world: World, verb: str, nth: int) -> None:
    """Whichever it is, the lease is held in the end, once."""
    count = 0

    def lose(asked: str, _: str) -> None:
        nonlocal count
        if asked == verb:
            count += 1
            if count == nth + 1:
                raise TimeoutError

    world.store.after = lose
    lease = world.lease()
    assert count > nth
    assert lease.failure() is None
    assert lease.holder == world.store.holder("n")


def test_a_request_that_is_never_answered_is_unknown_at_its_limit(world: World) -> None:
    """And asked for again; the answer that comes at last changes nothing."""
    host = world.host()
    world.hold()
    future = host.begin_acquire("n", Terms(), FOREVER, None)
    world.run(1)
    assert world.held is not None
    assert len(world.held) == 1
    world.run(4.1)
    error = future.exception(0)
    assert type(error) is errors.Unreachable
    world.let_go()
    world.run(100)
    assert world.store.holder("n") is None


def test_a_renewal_that_hangs_is_given_up_and_made_again(world: World) -> None:
    """At most ten seconds, or a third of what is left; requests behind it are not held up by it."""
    lease = world.lease()
    world.run(2)
    world.hold()
    assert world.held is not None
    world.run(30, lambda: len(world.held or ()) == 1)
    begun = world.clock.now
    world.run(20, lambda: len(world.held or ()) == 2)
    assert 10 <= seconds(world.clock.now - begun) <= 12
    world.let_go()
    world.run(30)
    assert lease.failure() is None
    assert seconds(lease.left_ns()) > TTL - MARGIN - TTL / 3


def test_a_put_that_has_waited_past_its_limit_is_never_begun(world: World) -> None:
    """By then the name may be another's."""
    lease = world.lease()
    world.run(2)
    world.store.asked()
    world.store.after = lambda _, __: world.hold()
    world.run(32)
    assert world.held is not None
    assert len(world.held) == 1
    world.run(100)
    assert isinstance(lease.failure(), errors.LeaseUnreachable)
    before = dict(world.store.objects)
    world.store.mend()
    world.let_go()
    world.run(100)
    assert "put" not in world.store.asked()
    assert world.store.objects == before


def test_another_ttl_is_warned_of_once_and_renewed_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A shorter one brings the deadline nearer."""
    lease = world.lease()
    record = world.store.record("n")
    by_companion = {**record, "expire_s": 30.0, "write_count": 3, "written_at": stamp(world.clock.wall())}
    world.store.write("n", world.clock.wall(), **by_companion)
    world.run(2)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warned == [
        'mopslock: lease "n": the record has a TTL of 30 s, ours is 88 s; everybody on a name should use one'
    ]
    assert seconds(lease.left_ns()) <= 0.9 * 30
    world.store.asked()
    world.run(100)
    assert lease.failure() is None
    assert 9 <= world.store.log.count("put") <= 13
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"{}", b"x" * 70_000, b'{"expire_s": "NaN"}'], ids=len)
def test_a_corrupt_record_is_held_by_somebody_unknown(world: World, body: bytes) -> None:
    """Who tries is refused; who waits takes it once nothing has changed for long enough, and the log says so."""
    world.store.objects["n/lock.json"] = body
    error = world.error(world.host().begin_acquire("n", Terms(), 0, None))
    assert isinstance(error, errors.Held)
    assert error.seen
    assert error.seen.state == "corrupt"
    begun = world.clock.now
    assert world.result(world.host().begin_acquire("n", Terms(), FOREVER, None)).failure() is None
    assert 60 <= seconds(world.clock.now - begun) <= 100


def test_a_corrupt_record_that_is_taken_is_warned_of_by_its_key(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.store.objects["n/lock.json"] = b"{"
    world.lease()
    assert [r.getMessage() for r in caplog.records] == ['mopslock: lease "n": corrupt_taken of n/lock.json']


def test_a_corrupt_record_does_not_end_a_lease(world: World) -> None:
    """It is written over if nobody takes it meanwhile, or lost at the deadline: never before."""
    lease = world.lease()
    world.run(2)
    world.store.objects["n/lock.json"] = b"{"
    world.run(seconds(lease.left_ns()) - 1)
    assert lease.failure() is None


def test_a_store_whose_answers_are_nonsense_ends_nothing(world: World) -> None:
    """A bug in a verb is unknown, like everything that a store does not say."""
    lease = world.lease()
    world.run(2)

    class Nonsense(FaultyStore):
        def get(self, key: str) -> Any:
            return object()

    lease.store_object = Nonsense()
    world.run(40)
    assert lease.failure() is None
    lease.store_object = world.store
    world.run(40)
    assert lease.failure() is None
    assert seconds(lease.left_ns()) > 40

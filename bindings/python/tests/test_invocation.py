"""Calls of a piece of work on a store of one's own, on a clock of ours: requests, waits, losses, and who is woken."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mopslock import errors
from mopslock._call import Begin, Found, Step, WorkRequest, give_up
from mopslock._future import Future
from mopslock._own.claims import HeldThing
from mopslock._own.work import Invocation
from mopslock._units import FOREVER
from mopslock.terms import Terms
from world import FakeStore, Host, PlainStore, World

KEPT = ("strict", "lastwriter")


def heard(store: PlainStore, name: str = "n") -> list[str]:
    """What was asked since the last time about a name, in words."""
    said, store.lines = store.lines, []
    register, words = f"{name}/_mopslock/", []
    for line in said:
        verb, _, key = line.partition(" ")
        if key in (f"{name}/result", f"{name}/lock.json"):
            words.append(verb + (" result" if key.endswith("result") else " lock"))
        elif key.startswith(register):
            words.append(verb + (" beat" if "/b." in key else ""))
    return words


@pytest.fixture
def world() -> World:
    store = FakeStore()
    store.creates = True
    return World(store)


class Call:
    """A call under way, and its first turn."""

    def __init__(self, host: Host, request: WorkRequest) -> None:
        self.next_step: Future[Step] = Future()
        self.call = host.begin_invocation(request, self.next_step)
        self.cancel, self.open = self.call.cancel, self.call.open

    def complete(self, *, well: bool, body: bytes | None) -> Future[Step]:
        """And the turn that follows."""
        next_step: Future[Step] = Future()
        self.call.complete(next_step, well=well, body=body)
        return next_step


def ask(host: Host, kept: Any = "strict", *, name: str = "n", wait: int = FOREVER, **more: Any) -> Call:
    """With a store of which it is known what it can."""
    terms = Terms(protocol=kept, session=more.pop("session", False))
    return Call(host, WorkRequest(name, terms, wait, **more))


def begun(world: World, next_step: Future[Step]) -> HeldThing:
    """What is held while the work is done."""
    step = world.result(next_step)
    assert isinstance(step, Begin)
    return step.held


def found(world: World, next_step: Future[Step]) -> Found:
    """What there is."""
    step = world.result(next_step)
    assert isinstance(step, Found)
    return step


def quiet(host: Host) -> bool:
    """Nothing is left of any call."""
    return not host.client.claims


# Requests.


@pytest.mark.parametrize(
    ("kept", "before", "after"),
    [
        ("strict", "exists lock, exists result, list, create, exists result", "create result, create"),
        ("lastwriter", "exists result, get lock, put lock, get lock, put lock, exists result",
         "create result, get lock, put lock"),
    ],
)  # fmt: skip
def test_what_a_call_asks_for(world: World, kept: str, before: str, after: str) -> None:
    """A fresh one, and one that finds its result."""
    host, store = world.host(), world.store
    call = ask(host, kept)
    begun(world, call.next_step)
    assert ", ".join(heard(store)) == before
    assert found(world, call.complete(well=True, body=b"x")) == Found("n/result", False, True)
    world.run(1)
    assert ", ".join(heard(store)) == after
    assert quiet(host)
    assert call.open().read() == b"x"
    heard(store)
    found(world, ask(world.host(), kept).next_step)
    assert heard(store) == ["exists lock"] * (kept == "strict") + ["exists result"]


def test_a_store_without_create_is_looked_at_before_the_result_is_put(world: World) -> None:
    world.store = PlainStore()
    call = Call(world.host(), WorkRequest("n", Terms(), FOREVER))
    begun(world, call.next_step)
    world.store.asked()
    assert found(world, call.complete(well=True, body=b"x")).own
    assert world.store.asked() == ["exists", "put"]
    second = Call(world.host(), WorkRequest("n", Terms(), FOREVER))
    assert found(world, second.next_step) == Found("n/result", False, False)


@pytest.mark.parametrize("error", [TimeoutError("not now"), errors.StoreFull("no room")])
@pytest.mark.parametrize("kept", KEPT)
def test_a_store_that_takes_no_result(world: World, kept: str, error: Exception) -> None:
    """Renewals go on meanwhile, and what is only late it takes at last."""
    call = ask(world.host(), kept)
    held = begun(world, call.next_step)

    def fails(verb: str, key: str) -> None:
        if key == "n/result" and verb != "exists":
            raise error

    world.store.fault = fails
    next_step = call.complete(well=True, body=b"x")
    if isinstance(error, errors.StoreFull):
        said = world.error(next_step)
        assert isinstance(said, errors.NoResult)
        assert (said.reason, said.__cause__) == ("unusable", error)
        assert "make room" in str(said)
        return
    world.run(300)
    assert not next_step.done()
    assert held.failure() is None
    assert held.left_ns() > 0
    world.store.mend()
    assert found(world, next_step).own


# Waiting.


@pytest.mark.parametrize("kept", KEPT)
def test_all_waiters_of_this_process_are_woken_by_the_result(world: World, kept: str) -> None:
    """With one look each, and at once; but for one that has given up."""
    host, store = world.host(), world.store
    call = ask(host, kept)
    begun(world, call.next_step)
    given_up, *waiting = [ask(host, kept) for _ in range(6)]
    world.run(40)
    world.result(given_up.cancel())
    assert isinstance(world.error(given_up.next_step), errors.Cancelled)
    world.run(1)  # one of the others has looked whether it is next
    assert not any(one.next_step.done() for one in waiting)
    heard(store)
    now = world.clock.now
    next_step = call.complete(well=True, body=b"x")
    world.run(1, lambda: all(one.next_step.done() for one in waiting))
    assert world.clock.now - now < 100_000_000
    assert [found(world, one.next_step).own for one in waiting] == [False] * 5
    assert Counter(heard(store))["exists result"] == 5
    assert found(world, next_step).own
    world.run(1)
    assert quiet(host)


def test_one_waiter_is_woken_if_there_is_no_result(world: World) -> None:
    host = world.host()
    call = ask(host)
    begun(world, call.next_step)
    waiting = [ask(host) for _ in range(5)]
    world.run(40)
    now = world.clock.now
    error = world.error(call.complete(well=False, body=None))
    assert isinstance(error, errors.NoResult)
    assert error.reason == "failed"
    world.run(1, lambda: any(one.next_step.done() for one in waiting))
    assert world.clock.now - now < 500_000_000
    world.run(20)
    assert sum(one.next_step.done() for one in waiting) == 1
    next_one = next(one for one in waiting if one.next_step.done())
    begun(world, next_one.next_step)
    found(world, next_one.complete(well=True, body=b"x"))
    assert len([found(world, one.next_step) for one in waiting if one is not next_one]) == 4


@pytest.mark.parametrize("how", ["soon", "begun", "cancel"])
def test_work_without_a_caller_is_given_up(world: World, how: str) -> None:
    """Its caller was interrupted before it had the call in hand, or knew that it was to begin; or gives it up."""
    host = world.host()
    call = ask(host)
    if how != "soon":
        held = begun(world, call.next_step)
    if how == "cancel":
        call.cancel()
        assert isinstance(held.failure(), errors.LeaseEnded)
    else:
        give_up(call.next_step)
    world.run(5)
    assert quiet(host)
    begun(world, ask(world.host(), wait=0).next_step)
    if how == "cancel":
        assert isinstance(world.error(call.complete(well=True, body=b"late")), errors.Cancelled)
    assert "n/result" not in world.store.objects
    assert world.close(host, 1) is None
    with pytest.raises(errors.Closed):
        ask(host)


# Losing, and beginning again.


def test_a_lease_that_was_taken_and_released_again_is_a_new_attempt(world: World) -> None:
    """With a new tenure; the old one stays lost."""
    host, store = world.host(), world.store
    call = ask(host, "lastwriter")
    first = begun(world, call.next_step)
    store.write("n", world.clock.wall())
    world.run(60)
    assert isinstance(first.failure(), errors.LeaseTaken)
    next_step = call.complete(well=True, body=b"of the first attempt")
    world.run(5)
    assert not next_step.done()
    assert "n/result" not in store.objects
    wall = world.clock.wall()
    store.write("n", wall, released_at=store.record("n")["written_at"])
    second = begun(world, next_step)
    assert second.holder != first.holder
    assert second.failure() is None
    assert isinstance(first.failure(), errors.LeaseTaken)
    assert found(world, call.complete(well=True, body=b"second")).own


# Sessions.


def test_a_session_that_fails_ends_waiters_and_not_finished_work(world: World) -> None:
    host = world.host()
    call = ask(host, session=True)
    held = begun(world, call.next_step)
    assert held.session
    world.store.fail(errors.Unauthorized("no more"))
    world.run(120)
    assert held.failure() is not None
    patient = ask(host, name="m", session=True)  # there was a session of these terms before
    world.run(30)
    assert not patient.next_step.done()
    patient.cancel()
    world.run(30)
    world.store.mend()
    next_step = call.complete(well=True, body=b"x")
    assert found(world, next_step).own
    world.run(30)
    assert quiet(host)


# What the core is told.


def test_an_error_of_ours_strands_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    host = world.host()
    call = ask(host)
    begun(world, call.next_step)

    def broken(*_: Any) -> None:
        raise RuntimeError("of ours")

    monkeypatch.setattr(Invocation, "hear", broken)
    assert isinstance(world.error(call.complete(well=True, body=b"x")), errors.EngineFailed)
    assert quiet(host)

"""Calls of a piece of work on a store of one's own, on a clock of ours: stores that fail, losses, and lost callers.

What a call asks for, who waits and who is woken is the core's to say: core/testdata has it, and host/invoke_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from mopslock import errors
from mopslock._call import Begin, Found, Step, WorkRequest, give_up
from mopslock._future import Future
from mopslock._own.claims import HeldThing
from mopslock._own.work import Invocation
from mopslock._units import FOREVER
from mopslock.terms import Terms
from world import FakeStore, Host, World


@pytest.fixture
def world() -> World:
    store = FakeStore()
    store.creates = True
    return World(store)


class Call:
    """A call under way, and its first turn."""

    def __init__(self, host: Host, kept: Any = "strict", wait: int = FOREVER) -> None:
        self.next_step: Future[Step] = Future()
        self.call = host.begin_invocation(WorkRequest("n", Terms(protocol=kept), wait), self.next_step)

    def complete(self, *, well: bool, body: bytes | None) -> Future[Step]:
        """And the turn that follows."""
        next_step: Future[Step] = Future()
        self.call.complete(next_step, well=well, body=body)
        return next_step


def begun(world: World, next_step: Future[Step]) -> HeldThing:
    """What is held while the work is done."""
    step = world.result(next_step)
    assert isinstance(step, Begin)
    return step.held


@pytest.mark.parametrize("error", [TimeoutError("not now"), errors.StoreFull("no room")])
@pytest.mark.parametrize("kept", ["strict", "lastwriter"])
def test_a_store_that_takes_no_result(world: World, kept: str, error: Exception) -> None:
    """Renewals go on meanwhile, and what is only late it takes at last."""
    call = Call(world.host(), kept)
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
    assert world.result(next_step) == Found("n/result", False, True)
    assert kept == "strict" or world.store.holder("n") == held.holder, "nobody waits for the release"


@pytest.mark.parametrize("how", ["soon", "begun", "cancel"])
def test_work_without_a_caller_is_given_up(world: World, how: str) -> None:
    """Its caller was interrupted before it had the call in hand, or knew that it was to begin; or gives it up."""
    host = world.host()
    call = Call(host)
    if how != "soon":
        held = begun(world, call.next_step)
    if how == "cancel":
        call.call.cancel()
        assert isinstance(held.failure(), errors.LeaseEnded)
    else:
        give_up(call.next_step)
    world.run(5)
    assert not host.client.claims
    begun(world, Call(world.host(), wait=0).next_step)
    if how == "cancel":
        assert isinstance(world.error(call.complete(well=True, body=b"late")), errors.Cancelled)
    assert "n/result" not in world.store.objects
    assert world.close(host, 1) is None
    with pytest.raises(errors.Closed):
        Call(host)


def test_a_lease_that_was_taken_and_released_again_is_a_new_attempt(world: World) -> None:
    """With a new tenure; the old one stays lost."""
    store, call = world.store, Call(world.host(), "lastwriter")
    first = begun(world, call.next_step)
    store.write("n", world.clock.wall())
    world.run(60)
    assert isinstance(first.failure(), errors.LeaseTaken)
    next_step = call.complete(well=True, body=b"of the first attempt")
    world.run(5)
    assert not next_step.done()
    assert "n/result" not in store.objects
    store.write("n", world.clock.wall(), released_at=store.record("n")["written_at"])
    second = begun(world, next_step)
    assert second.holder != first.holder
    assert second.failure() is None
    assert isinstance(first.failure(), errors.LeaseTaken)
    assert world.result(call.complete(well=True, body=b"second")) == Found("n/result", False, True)


def test_an_error_of_ours_strands_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    host = world.host()
    call = Call(host)
    begun(world, call.next_step)

    def broken(*_: Any) -> None:
        raise RuntimeError("of ours")

    monkeypatch.setattr(Invocation, "hear", broken)
    assert isinstance(world.error(call.complete(well=True, body=b"x")), errors.EngineFailed)
    assert not host.client.claims

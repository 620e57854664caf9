"""Shared semaphores: what a permit says, who is let in, what others see, and what ends with a session or a process."""

from __future__ import annotations

import os
from typing import Any

import pytest

import mopslock
from mopslock._future import Future
from mopslock._machine import Machine
from mopslock._own.claims import HeldThing
from mopslock._units import FOREVER, SECOND
from mopslock.terms import PermitRequest, Terms
from ways import SOON, Place, forked, waiting
from world import FakeStore, Host, PlainStore, World


def held(place: Place) -> int:
    """What anybody sees of it."""
    return mopslock.inspect(place.store, "pool").permits


def test_a_permit_from_acquire_to_release(either: Place) -> None:
    with either.api.permit(either.store, "pool", capacity=2, width=2, weight=3, label="backup") as permit:
        assert (permit.name, permit.weight, permit.total) == ("pool", 3, 3)
        assert (permit.fencing_token, permit.epoch, permit.protocol) == (1, 1, "strict")
        assert len(permit.holder) == 36
        assert permit.session
        assert 0 < permit.left <= 54
        assert not permit.lost.is_set()
        permit.check()
        other = either.api.acquire_permit(either.other().store, "pool", capacity=2, width=2)
        assert (other.total, other.fencing_token) == (4, 2)
        assert other.holder != permit.holder
        other.release()
        other.release()
        with pytest.raises(mopslock.LeaseEnded, match='permit of "pool"'):
            other.check()
        assert other.lost.is_set()
    assert held(either) == 0
    with pytest.raises(mopslock.LeaseEnded):
        permit.check()


def test_what_others_see(place: Place) -> None:
    vacant = mopslock.inspect(place.store, "pool")
    assert (vacant.is_semaphore, vacant.state) == (False, "vacant")
    with (
        mopslock.permit(place.store, "pool", capacity=3, width=2, weight=2, label="one") as first,
        mopslock.permit(place.store, "pool", capacity=4, label="two"),
        mopslock.lease(place.store, "leased", protocol="strict"),
    ):
        for store in (place.store, place.other().store):
            status = mopslock.inspect(store, "pool")
            assert (status.is_semaphore, status.state, status.held) == (True, "held", True)
            assert (status.capacity, status.width, status.permits, status.limit) == (4, 1, 3, 0)
            assert [(h.weight, h.label, h.stale) for h in status.holders] == [(2, "one", False), (1, "two", False)]
            assert status.holders[0].id == first.holder
            assert status.label == ""  # each permit has its own
            assert {h.session for h in status.holders} == {first.session}
            assert {h.pid for h in status.holders} == {str(os.getpid())}
            seen = [(s.name, s.permits, len(s.holders)) for s in mopslock.ls(store)]
            assert seen == [("leased", 0, 0), ("pool", 3, 2)]
    status = mopslock.inspect(place.store, "pool")
    assert (status.state, status.permits, status.holders, status.is_semaphore) == ("vacant", 0, (), True)
    assert [s.name for s in mopslock.ls(place.store, "p")] == ["pool"]


def test_full_says_how_full(either: Place) -> None:
    with either.api.permit(either.store, "pool", capacity=2) as permit:
        with pytest.raises(mopslock.Full) as caught:
            either.api.acquire_permit(either.other().store, "pool", capacity=2, weight=2, wait=0)
        error = caught.value
        assert (error.reason, error.held, error.limit, error.weight) == ("full", 1, 2, 2)
        assert error.seen is not None
        assert error.seen.permits == 1
        assert 'permit of "pool" not acquired: full, with 1 held' in str(error)
        assert permit.holder in str(error)
        assert either.api.try_acquire_permit(either.store, "pool", capacity=1) is None
        assert either.api.try_acquire_permit(either.store, "pool", capacity=3, spare=2) is None
        with either.api.acquire_permit(either.store, "pool", capacity=3, spare=1, wait=0) as second:
            assert second.total == 2


def test_a_waiter_is_told_and_let_in_or_closed(either: Place) -> None:
    permit = either.api.acquire_permit(either.store, "pool", capacity=1)
    with waiting(either.api.acquire_permit, either.store, "pool", capacity=1) as (waits, seen):
        assert seen.permits == 1
        with pytest.raises(mopslock.Full):
            either.api.acquire_permit(either.store, "pool", capacity=1, wait=0)
        permit.release()
        permit = waits.result(SOON)
    assert permit.fencing_token > 1
    assert held(either) == 1
    with waiting(either.api.acquire_permit, either.store, "pool", capacity=1) as (waits, _):
        mopslock.close(either.store)
        assert isinstance(waits.exception(SOON), mopslock.Closed)
    assert permit.lost.is_set()
    assert held(either) == 0


def test_a_limit_in_the_store_caps_everybody(either: Place) -> None:
    either.api.set_limit(either.store, "pool", 1)
    with either.api.permit(either.other().store, "pool", capacity=5, wait=0):
        with pytest.raises(mopslock.Full) as caught:
            either.api.acquire_permit(either.store, "pool", capacity=5, wait=0)
        assert (caught.value.held, caught.value.limit) == (1, 1)
        either.api.set_limit(either.store, "pool", None)
        either.api.acquire_permit(either.store, "pool", capacity=5, wait=0).release()
    assert either.api.inspect(either.store, "pool").limit == 0
    for limit in (0, -1, True, 1.5, 1 << 37):
        with pytest.raises(mopslock.BadArgument):
            either.api.set_limit(either.store, "pool", limit)


def test_a_name_is_a_leases_or_a_semaphores(place: Place) -> None:
    with (
        mopslock.lease(place.store, "leased", protocol="strict"),
        pytest.raises(mopslock.Incompatible, match="the name is that of a lease") as caught,
    ):
        mopslock.acquire_permit(place.store, "leased", capacity=1)
    assert caught.value.reason == "kind"
    with pytest.raises(mopslock.Incompatible, match="limit of"):
        mopslock.set_limit(place.store, "leased", 1)
    with mopslock.permit(place.store, "pool", capacity=1), pytest.raises(mopslock.Incompatible) as caught:
        mopslock.acquire(place.store, "pool", wait=0, protocol="strict")
    assert caught.value.reason == "kind"
    assert "semaphore" in str(caught.value)


def test_what_cannot_be_so_is_said_before_any_store() -> None:
    given: list[dict[str, Any]] = [
        {"capacity": 0}, {"capacity": 1, "width": 0}, {"capacity": 1, "spare": -1}, {"capacity": "1"},
        {"capacity": 1, "label": 7}, {"capacity": 1, "on_lost": 7}, {"capacity": 1, "wait": -1},
        {"capacity": 1, "release_timeout": -1}, {"capacity": 2, "weight": 2, "spare": 1},
    ]  # fmt: skip
    for one in given:
        with pytest.raises(mopslock.BadArgument) as caught:
            mopslock.permit("nowhere", "pool", **one)
        assert isinstance(caught.value, mopslock.WeightExceedsLimit) == ("weight" in one)
    named: list[tuple[str, Any]] = [("a//b", {}), ("n", {"ttl": 0}), ("n", {"ttl": 0.01}), ("n", {"label": "a\nb"})]
    for name, terms in named:
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire_permit(mopslock.stores.Memory(), name, capacity=1, **terms)


def test_the_core_tells_too_much_weight_from_other_faults() -> None:
    machine = Machine({"machine": "client", "seed": bytes(range(16))})
    try:
        for asked, heavy in (({"capacity": 2, "width": 1, "weight": 3}, True), ({"weight": 3}, False)):
            with pytest.raises(mopslock.BadArgument) as caught:
                machine.step({"mono": 1, "wall": 1, "kind": "permit", **asked, "claim": 1, "terms": {"name": "pool"}})
            assert isinstance(caught.value, mopslock.WeightExceedsLimit) == heavy
    finally:
        machine.drop()


@pytest.mark.parametrize("store", [PlainStore(), FakeStore(careless=True)])
def test_a_store_without_create_is_unfit(store: PlainStore) -> None:
    with pytest.raises(mopslock.Incompatible, match="a semaphore needs"):
        mopslock.acquire_permit(store, "pool", capacity=1)
    with pytest.raises(mopslock.Incompatible):
        mopslock.set_limit(store, "pool", 1)
    assert not [key for key in store.objects if key.startswith("pool")]


TTL = 60.0


def test_a_permit_is_believed_as_long_as_its_session() -> None:
    world, terms = World(FakeStore()), Terms(TTL, protocol="strict")
    host = world.host()

    def asked(host: Host = host) -> Future[HeldThing]:
        return host.begin_permit("n", terms, PermitRequest(2), FOREVER, None)

    permit = world.result(asked())
    world.run(10 * TTL)
    assert permit.failure() is None
    assert 0 < permit.left_ns() <= 0.9 * TTL * SECOND
    world.store.fail(PermissionError("no"), "put", "create")
    refused = world.error(asked(world.host()))
    assert isinstance(refused, mopslock.Unauthorized)
    assert 'permit of "n" not acquired' in str(refused)
    world.store.fail(ConnectionError("gone"))
    world.run(TTL)
    assert isinstance(permit.failure(), mopslock.LeaseUnreachable)
    assert 'permit of "n" lost (unreachable)' in str(permit.failure())
    assert "stop what the permit allows" in str(permit.failure())
    world.store.mend()
    world.run(TTL)
    assert isinstance(world.error(permit.finish()), mopslock.LeaseUnreachable)
    again = world.result(asked())
    assert again.session != permit.session
    world.jump(TTL)
    assert isinstance(again.failure(), mopslock.LeaseExpired)
    world.run(1)


def test_a_childs_parent_keeps_its_permit(place: Place) -> None:
    pool = mopslock.permit(place.store, "pool", capacity=2)
    with pool as permit:

        def child() -> int:
            for ask in (permit.check, permit.release):
                with pytest.raises(mopslock.Forked, match='permit of "pool" is held by the parent.*in this process$'):
                    ask()
            pool.__exit__(None, None, None)
            with mopslock.permit(place.store, "pool", capacity=2) as own:
                return own.total

        assert forked(child) == 2
        permit.check()
        assert held(place) == 1

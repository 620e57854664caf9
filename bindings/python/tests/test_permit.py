"""Shared semaphores, by both ways to a store: what a permit says, who is let in, and what others see. And on a store of
one's own and a clock of ours: what they cost, and what becomes of permits when the session, the store, or the caller's
patience ends."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import aio
from mopslock._future import Future
from mopslock._machine import Machine
from mopslock._own.claims import HeldThing, Permit
from mopslock._permit_request import PermitRequest
from mopslock._units import FOREVER, SECOND
from mopslock.terms import Terms
from ways import SOON, WAYS, Place, forked, opened, until
from world import FakeStore, Host, PlainStore, World

PROTOCOLS_OPEN = True


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store", "strict") as place:
        yield place


def held(place: Place, name: str = "pool") -> int:
    """What anybody sees of it."""
    return mopslock.inspect(place.store, name).permits


# One permit.


def test_a_permit_from_acquire_to_release(place: Place) -> None:
    with mopslock.permit(place.store, "pool", capacity=2, width=2, weight=3, label="backup") as permit:
        assert (permit.name, permit.weight, permit.total) == ("pool", 3, 3)
        assert (permit.fencing_token, permit.epoch, permit.protocol) == (1, 1, "strict")
        assert len(permit.holder) == 36
        assert permit.session
        assert 0 < permit.left <= 54
        assert not permit.lost.is_set()
        permit.check()
        assert "<mopslock.Permit 'pool' 3 of 4 held" in repr(permit)
        other = mopslock.acquire_permit(place.other().store, "pool", capacity=2, width=2)
        assert (other.total, other.fencing_token) == (4, 2)
        assert other.holder != permit.holder
        other.release()
        other.release()
        with pytest.raises(mopslock.LeaseEnded, match='permit of "pool"'):
            other.check()
        assert other.lost.is_set()
    assert held(place) == 0
    with pytest.raises(mopslock.LeaseEnded):
        permit.check()


def test_what_others_see(place: Place) -> None:
    vacant = mopslock.inspect(place.store, "pool")
    assert (vacant.is_semaphore, vacant.state) == (False, "vacant")
    with (
        mopslock.permit(place.store, "pool", capacity=3, width=2, weight=2, label="one") as first,
        mopslock.permit(place.store, "pool", capacity=4, label="two"),
        mopslock.lease(place.store, "leased"),
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
            assert [(s.name, s.permits, len(s.holders)) for s in mopslock.ls(store)] == [
                ("leased", 0, 0),
                ("pool", 3, 2),
            ]
    status = mopslock.inspect(place.store, "pool")
    assert (status.state, status.permits, status.holders, status.is_semaphore) == ("vacant", 0, (), True)
    assert [s.name for s in mopslock.ls(place.store, "p")] == ["pool"]


def test_full_says_how_full(place: Place) -> None:
    with mopslock.permit(place.store, "pool", capacity=2) as permit:
        with pytest.raises(mopslock.Full) as caught:
            mopslock.acquire_permit(place.other().store, "pool", capacity=2, weight=2, wait=0)
        error = caught.value
        assert (error.reason, error.held, error.limit, error.weight) == ("full", 1, 2, 2)
        assert error.seen is not None
        assert error.seen.permits == 1
        assert 'permit of "pool" not acquired: full, with 1 held' in str(error)
        assert permit.holder in str(error)
        assert mopslock.try_acquire_permit(place.store, "pool", capacity=1) is None
        assert mopslock.try_acquire_permit(place.store, "pool", capacity=3, spare=2) is None
        with mopslock.acquire_permit(place.store, "pool", capacity=3, spare=1, wait=0) as second:
            assert second.total == 2


def test_a_waiter_is_told_and_let_in_or_closed(place: Place) -> None:
    told: list[mopslock.Status] = []

    def wait(capacity: int) -> int:
        with mopslock.permit(place.store, "pool", capacity=capacity, on_waiting=told.append) as permit:
            return permit.fencing_token

    with ThreadPoolExecutor(2) as pool:
        with mopslock.permit(place.store, "pool", capacity=1):
            waits = pool.submit(wait, 1)
            until(lambda: told)
            assert told[0].permits == 1
            with pytest.raises(mopslock.Full):
                mopslock.acquire_permit(place.store, "pool", capacity=1, wait=0)
        assert waits.result(SOON) > 1
        assert held(place) == 0
        permit = mopslock.acquire_permit(place.store, "pool", capacity=1)
        told.clear()
        waits = pool.submit(wait, 1)
        until(lambda: told)
        mopslock.close(place.store)
        assert isinstance(waits.exception(SOON), mopslock.Closed)
    assert permit.lost.is_set()
    assert held(place) == 0


def test_a_limit_in_the_store_caps_everybody(place: Place) -> None:
    mopslock.set_limit(place.store, "pool", 1)
    with mopslock.permit(place.other().store, "pool", capacity=5, wait=0):
        with pytest.raises(mopslock.Full) as caught:
            mopslock.acquire_permit(place.store, "pool", capacity=5, wait=0)
        assert (caught.value.held, caught.value.limit) == (1, 1)
        mopslock.set_limit(place.store, "pool", None)
        mopslock.acquire_permit(place.store, "pool", capacity=5, wait=0).release()
    assert mopslock.inspect(place.store, "pool").limit == 0
    for limit in (0, -1, True, 1.5, 1 << 37):
        with pytest.raises(mopslock.BadArgument):
            mopslock.set_limit(place.store, "pool", limit)  # type: ignore[arg-type]


def test_a_name_is_a_leases_or_a_semaphores(place: Place) -> None:
    with (
        mopslock.lease(place.store, "leased"),
        pytest.raises(mopslock.Incompatible, match="the name is that of a lease") as caught,
    ):
        mopslock.acquire_permit(place.store, "leased", capacity=1)
    assert caught.value.reason == "kind"
    with pytest.raises(mopslock.Incompatible, match="limit of"):
        mopslock.set_limit(place.store, "leased", 1)
    with mopslock.permit(place.store, "pool", capacity=1), pytest.raises(mopslock.Incompatible) as caught:
        mopslock.acquire(place.store, "pool", wait=0)
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


def test_the_core_tells_too_much_weight_from_other_faults() -> None:
    machine = Machine({"machine": "client", "seed": bytes(range(16))})
    try:
        for asked, heavy in (({"capacity": 2, "width": 1, "weight": 3}, True), ({"weight": 3}, False)):
            with pytest.raises(mopslock.BadArgument) as caught:
                machine.step({"mono": 1, "wall": 1, "kind": "permit", **asked, "claim": 1, "terms": {"name": "pool"}})
            assert isinstance(caught.value, mopslock.WeightExceedsLimit) == heavy
    finally:
        machine.drop()


def test_it_can_be_entered_again_and_not_nested(place: Place) -> None:
    pool = mopslock.permit(place.store, "pool", capacity=2)
    for _ in range(2):
        with pool, pytest.raises(RuntimeError), pool:
            pass
    with pytest.raises(TypeError):
        mopslock.acquire_permit(place.store, "pool", capacity=2).__reduce__()
    for name, given in (("a//b", {}), ("n", {"ttl": 0}), ("n", {"ttl": 0.01}), ("n", {"label": "a\nb"})):
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire_permit(place.store, name, capacity=1, **given)


@pytest.mark.parametrize("store", [PlainStore(), FakeStore(careless=True)])
def test_a_store_without_create_is_unfit(store: PlainStore) -> None:
    with pytest.raises(mopslock.Incompatible, match="a semaphore needs"):
        mopslock.acquire_permit(store, "pool", capacity=1)
    with pytest.raises(mopslock.Incompatible):
        mopslock.set_limit(store, "pool", 1)
    assert not [key for key in store.objects if key.startswith("pool")]


# asyncio.


async def test_the_twins(place: Place) -> None:
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        async with aio.permit(place.store, "pool", capacity=2, width=2) as permit:
            inside += 1
            most = max(most, inside)
            permit.check()
            await asyncio.sleep(0)  # a turn of the loop, in which another could come in
            inside -= 1

    await asyncio.gather(*[work() for _ in range(40)])
    assert most <= 4
    permit = await aio.acquire_permit(place.store, "pool", capacity=1)
    assert await aio.try_acquire_permit(place.store, "pool", capacity=1) is None
    waits = asyncio.create_task(aio.acquire_permit(place.store, "pool", capacity=1))
    await asyncio.sleep(0)  # a turn of the loop, in which it begins to wait
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await permit.release()
    assert await permit.lost.wait(SOON)
    await aio.set_limit(place.store, "pool", 3)
    status = await aio.inspect(place.store, "pool")
    assert (status.permits, status.limit) == (0, 3)


def test_a_permit_that_is_cancelled_is_given_back(place: Place) -> None:
    """After any number of turns of the loop."""

    async def main() -> None:
        for turns in range(12):
            task = asyncio.create_task(aio.acquire_permit(place.store, "pool", capacity=1))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled():
                await task.result().release()

    asyncio.run(asyncio.wait_for(main(), 2 * SOON))
    with mopslock.permit(place.store, "pool", capacity=1, wait=SOON) as permit:
        assert permit.total == 1


# Processes.


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


TTL = 60.0
TERMS = Terms(TTL, protocol="strict")


class Register(FakeStore):
    """It says that it honours create-if-absent."""

    creates = True

    def held(self) -> int:
        """What all permits of the newest version weigh."""
        newest = json.loads(self.objects[min(key for key in self.objects if key.startswith("n/"))])
        return sum(permit.get("weight", 1) for permit in newest["permits"])


class Shared(World):
    """A world whose store can serve semaphores."""

    def __init__(self) -> None:
        self.store: Register
        super().__init__(Register())

    def begin(self, host: Host, request: PermitRequest) -> Future[HeldThing]:
        """Asks for a permit."""
        return host.begin_permit("n", TERMS, request, FOREVER, None)

    def permit(self, host: Host, request: PermitRequest) -> Permit:
        """One that is held."""
        made = self.result(self.begin(host, request))
        assert isinstance(made, Permit)
        return made

    def give_back(self, share: Permit) -> None:
        """The store has said so."""
        self.result(share.finish())


@pytest.fixture
def shared() -> Shared:
    return Shared()


def test_a_permit_is_believed_as_long_as_its_session(shared: Shared) -> None:
    host = shared.host()
    permit = shared.permit(host, PermitRequest(2))
    shared.run(10 * TTL)
    assert permit.failure() is None
    assert 0 < permit.left_ns() <= 0.9 * TTL * SECOND
    shared.store.fail(ConnectionError("gone"))
    shared.run(TTL)
    assert isinstance(permit.failure(), mopslock.LeaseUnreachable)
    assert 'permit of "n" lost (unreachable)' in str(permit.failure())
    assert "stop what the permit allows" in str(permit.failure())
    shared.store.mend()
    shared.run(TTL)
    assert isinstance(shared.error(permit.finish()), mopslock.LeaseUnreachable)
    again = shared.permit(host, PermitRequest(1))
    assert again.session != permit.session
    assert shared.store.held() == 1  # what had been lost was taken out, since its room was needed
    shared.jump(TTL)
    assert isinstance(again.failure(), mopslock.LeaseExpired)
    shared.run(1)


def test_one_that_is_cancelled_is_taken_out(shared: Shared) -> None:
    """Also while its create is under way."""
    host = shared.host()
    keeps = shared.permit(host, PermitRequest(5))
    shared.hold()
    asked = shared.begin(host, PermitRequest(5))
    shared.settle()
    assert asked.cancel()
    shared.settle()
    shared.invalidate()
    shared.run(30)
    assert shared.store.held() == 1
    waits = shared.begin(host, PermitRequest(1))
    shared.run(1)
    assert waits.cancel()
    shared.settle()
    assert list(host.client.claims.values()) == [keeps]
    assert keeps.failure() is None
    shared.give_back(keeps)
    shared.run(1)
    assert host.client.claims == {}


@pytest.mark.parametrize(
    ("fails", "verbs", "error"),
    [
        (PermissionError(errno.EACCES, "no"), (), mopslock.Unauthorized),
        (PermissionError(errno.EACCES, "no"), ("put", "create"), mopslock.Unauthorized),  # of the session
        (ConnectionError(), (), mopslock.Unreachable),
    ],
)
@pytest.mark.parametrize("trial", [False, True])
def test_a_store_that_fails_ends_it(
    shared: Shared, fails: Exception, verbs: tuple[str, ...], error: type[Exception], trial: bool
) -> None:
    """For all who ask, also where create-if-absent is only being tried."""
    shared.store.creates = not trial
    shared.store.fail(fails, *verbs)
    host = shared.host()
    for future in [shared.begin(host, PermitRequest(2)) for _ in range(3)]:
        found = shared.error(future, 60)
        assert isinstance(found, error)
        assert 'permit of "n" not acquired' in str(found)
    assert host.client.claims == {}
    shared.store.mend()
    shared.permit(host, PermitRequest(2))


def test_other_terms_are_another_machine_and_share_the_name(shared: Shared) -> None:
    host = shared.host()
    first = shared.permit(host, PermitRequest(1))
    other = host.begin_permit("n", Terms(TTL / 2, protocol="strict"), PermitRequest(1), FOREVER, None)
    shared.run(1)
    shared.run(60)
    shared.give_back(first)
    shared.run(0.1, other.done)  # it is told, and need not poll
    held = other.result()
    assert held.session != first.session
    shared.give_back(held)  # type: ignore[arg-type]
    assert shared.close(host, 30) is None
    with pytest.raises(mopslock.Closed):
        shared.begin(host, PermitRequest(1))

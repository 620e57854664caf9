"""Shared semaphores, by both ways to a store: what a permit says, who is let in, and what others see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import aio, stores
from ways import SOON, WAYS, Place, ended, forked, opened, program, until

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
        with mopslock.acquire_permit(place.store, "pool", capacity=2) as second:
            assert second.total == 2


def test_who_waits_is_told_and_let_in(place: Place) -> None:
    told: list[mopslock.Status] = []
    got: list[int] = []
    waits = mopslock.permit(place.store, "pool", capacity=1, on_waiting=told.append)

    def wait() -> None:
        with waits as permit:
            got.append(permit.fencing_token)

    with mopslock.permit(place.store, "pool", capacity=1):
        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: told)
        assert told[0].permits == 1
        with pytest.raises(mopslock.Full):
            mopslock.acquire_permit(place.store, "pool", capacity=1, wait=0.05)
    waiting.join(SOON)
    assert len(got) == 1
    assert held(place) == 0


def test_a_share_is_spared_for_others(place: Place) -> None:
    with mopslock.permit(place.store, "pool", capacity=3):
        assert mopslock.try_acquire_permit(place.store, "pool", capacity=3, spare=2) is None
        with mopslock.acquire_permit(place.store, "pool", capacity=3, spare=1, wait=0) as second:
            assert second.total == 2


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
        pytest.raises(mopslock.Unfit, match="the name is that of a lease") as caught,
    ):
        mopslock.acquire_permit(place.store, "leased", capacity=1)
    assert caught.value.reason == "kind"
    with pytest.raises(mopslock.Unfit, match="limit of"):
        mopslock.set_limit(place.store, "leased", 1)
    with mopslock.permit(place.store, "pool", capacity=1), pytest.raises(mopslock.Unfit) as caught:
        mopslock.acquire(place.store, "pool", wait=0)
    assert caught.value.reason == "kind"
    assert "semaphore" in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{"capacity": 0}, {"capacity": 1, "width": 0}, {"capacity": 1, "spare": -1}, {"capacity": "1"},
     {"capacity": 1, "label": 7}, {"capacity": 1, "on_lost": 7}, {"capacity": 1, "wait": -1},
     {"capacity": 1, "release_timeout": -1}, {"capacity": 2, "weight": 2, "spare": 1}],
)  # fmt: skip
def test_what_cannot_be_so_is_said_before_any_store(given: dict[str, Any]) -> None:
    with pytest.raises(mopslock.BadArgument) as caught:
        mopslock.permit("nowhere", "pool", **given)
    assert isinstance(caught.value, mopslock.TooHeavy) == ("weight" in given)


def test_names_and_terms_are_said_when_entering(place: Place) -> None:
    for name, given in (("a//b", {}), ("", {}), ("n", {"ttl": 0}), ("n", {"ttl": 0.01}), ("n", {"label": "a\nb"})):
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire_permit(place.store, name, capacity=1, **given)


def test_it_can_be_entered_again_and_not_nested(place: Place) -> None:
    pool = mopslock.permit(place.store, "pool", capacity=2)
    for _ in range(2):
        with pool, pytest.raises(RuntimeError), pool:
            pass
    with pytest.raises(TypeError):
        mopslock.acquire_permit(place.store, "pool", capacity=2).__reduce__()


def test_closing_gives_back_and_ends_what_waits(place: Place) -> None:
    said: list[BaseException] = []
    told = threading.Event()

    def wait() -> None:
        try:
            mopslock.acquire_permit(place.store, "pool", capacity=1, on_waiting=lambda _: told.set())
        except mopslock.MopslockError as error:
            said.append(error)

    permit = mopslock.acquire_permit(place.store, "pool", capacity=1)
    waiting = threading.Thread(target=wait)
    waiting.start()
    assert told.wait(SOON)
    mopslock.close(place.store)
    waiting.join(SOON)
    assert [type(error) for error in said] == [mopslock.Closed]
    assert permit.lost.is_set()
    assert held(place) == 0


def test_a_store_without_create_is_unfit() -> None:
    class Old:
        """Three verbs."""

        def get(self, key: str) -> None:
            return None

        def put(self, key: str, body: bytes) -> None:
            raise AssertionError

        def exists(self, key: str) -> bool:
            return False

    with pytest.raises(mopslock.Unfit, match="a semaphore needs"):
        mopslock.acquire_permit(Old(), "pool", capacity=1)
    with pytest.raises(mopslock.Unfit):
        mopslock.set_limit(Old(), "pool", 1)


def test_a_store_that_takes_everything_twice_is_found_out() -> None:
    class Liar(stores.Memory):
        """It says yes to every create."""

        creates = False

        def create(self, key: str, body: bytes) -> bool:
            self.put(key, body)
            return True

    with pytest.raises(mopslock.Unfit, match="a semaphore needs"):
        mopslock.acquire_permit(Liar(), "pool", capacity=1)


# asyncio.


def test_the_twins(place: Place) -> None:
    async def main() -> None:
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

    asyncio.run(asyncio.wait_for(main(), 2 * SOON))


def test_a_permit_that_is_cancelled_is_given_back(place: Place) -> None:
    async def main() -> None:
        for spins in range(12):
            task = asyncio.create_task(aio.acquire_permit(place.store, "pool", capacity=1))
            for _ in range(spins):
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled():
                await task.result().release()

    asyncio.run(asyncio.wait_for(main(), 2 * SOON))
    with mopslock.permit(place.store, "pool", capacity=1, wait=SOON) as permit:
        assert permit.total == 1


# Processes.

WORKER = """
from pathlib import Path
inside = Path({inside!r})
for n in range(8):
    with mopslock.permit({store}, "pool", capacity=1, width=2, wait=25) as permit:
        mark = inside / f"{me}-{{n}}"
        mark.touch()
        seen = len(os.listdir(inside))
        mark.unlink()
        permit.check()
        assert seen <= 2 and permit.total <= 2, (seen, permit.total)
print("done")
"""


def test_processes_are_never_more_than_capacity_times_width(place: Place, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    codes = [
        WORKER.format(inside=str(inside), store=store.code, me=me)
        for me, store in enumerate((place, place, place.other(), place.other()))
    ]
    with contextlib.ExitStack() as stack:
        for process in [stack.enter_context(program(code, stop=60)) for code in codes]:
            status, out, err = ended(process, 60)
            assert (status, out) == (0, "done\n"), err
    assert held(place) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_childs_parent_keeps_its_permit(place: Place) -> None:
    pool = mopslock.permit(place.store, "pool", capacity=2)
    with pool as permit:

        def child() -> Any:
            said = []
            for ask in (permit.check, permit.release):
                try:
                    ask()
                    said.append("nothing")
                except mopslock.Forked as error:
                    said.append("accompany" if "accompany" in str(error) else "Forked")
            pool.__exit__(None, None, None)
            with mopslock.permit(place.store, "pool", capacity=2) as own:
                said.append(str(own.total))
            return said

        assert forked(child) == ["Forked", "Forked", "2"]
        permit.check()
        assert held(place) == 1

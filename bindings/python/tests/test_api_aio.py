"""mopslock.aio: the twins for asyncio behave as the package does, cost no thread each, and survive a busy loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import held_up
import mopslock
from mopslock import _keeper, aio
from ways import LIVES, NOTICES, SOON, WAYS, Failing, Gated, Place, burn, opened


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


async def until(what: Any) -> None:
    """As that of ways, and lets the loop run."""
    for _ in range(int(SOON / 0.01)):
        if what():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not in time")


# As the package does.


def test_async_with_holds_and_then_releases(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.store, "a/b", ttl=LIVES) as lease:
            lease.check()
            record = place.record("a/b")
            assert (lease.name, lease.holder, lease.ttl) == ("a/b", record["writer_id"], record["expire_s"])
            assert lease.acquired == datetime.fromisoformat(record["first_acquired_at"])
            assert (lease.epoch, lease.fencing_token) == (0, 0)
            assert lease.left > 0
            assert lease.holder in lease.text
            assert not place.released("a/b")
            assert await aio.try_acquire(place.other().store, "a/b", ttl=LIVES) is None
            with pytest.raises(mopslock.Held):
                await aio.acquire(place.other().store, "a/b", ttl=LIVES, wait=0)
        assert place.released("a/b")
        with pytest.raises(mopslock.LeaseEnded):
            lease.check()
        await lease.release()

    asyncio.run(main())


def test_a_body_that_raises_releases(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.store, "n", ttl=LIVES):
            raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        asyncio.run(main())
    assert place.released("n")


def test_one_object_can_be_entered_again_and_not_nested(place: Place) -> None:
    async def main() -> None:
        leasing = aio.lease(place.store, "n", ttl=LIVES)
        for _ in range(2):
            async with leasing as lease:
                with pytest.raises(RuntimeError, match="entered already"):
                    await leasing.__aenter__()
                lease.check()
            assert place.released("n")

    asyncio.run(main())


def test_bad_arguments_are_those_of_the_package(place: Place) -> None:
    async def main() -> None:
        with pytest.raises(mopslock.BadArgument, match="ttl"):
            aio.lease(place.store, "n", ttl=-1)
        with pytest.raises(mopslock.BadArgument, match=r'name "a/\.\./b".*ttl 1ms'):
            await aio.acquire(place.store, "a/../b", ttl=0.001)
        lease = await aio.acquire(place.store, "n", ttl=LIVES)
        with pytest.raises(mopslock.BadArgument):
            await lease.release(timeout=-1)
        lease.check()
        await lease.release()

    asyncio.run(main())


def test_the_decorator_leases_each_call_of_a_coroutine_function(place: Place) -> None:
    @aio.lease(place.store, "n", ttl=LIVES, acquire_margin=0.1)
    async def work(depth: int, deeper: bool = False) -> int:
        """Works."""
        assert not place.released("n")
        return await work(depth + 1) if deeper else depth

    async def main() -> None:
        assert await work(1) == 1
        assert place.released("n")
        with pytest.raises(RuntimeError, match="calls itself"):
            await work(1, deeper=True)
        assert sorted(await asyncio.gather(*(work(i) for i in range(4)))) == [0, 1, 2, 3]

    asyncio.run(main())
    assert (work.__name__, work.__doc__) == ("work", "Works.")


def test_only_coroutine_functions_can_be_decorated(place: Place) -> None:
    async def generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, lambda: None):
        with pytest.raises(TypeError, match="coroutine functions"):
            aio.lease(place.store, "n")(function)  # type: ignore[arg-type]


def test_a_loss_wakes_its_waiters_and_is_raised_on_leaving(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.store, "n", ttl=NOTICES) as lease:
            assert not await lease.lost.wait(0.01)
            waiting = [asyncio.create_task(lease.lost.wait(SOON)) for _ in range(3)]
            await asyncio.to_thread(place.steal, "n")
            assert await asyncio.gather(*waiting) == [True] * 3
            assert lease.lost.is_set()
            assert await lease.lost.wait()

    with pytest.raises(mopslock.LeaseTaken) as caught:
        asyncio.run(main())
    assert caught.value.reason == "taken"


def test_waiting_for_a_loss_again_and_again_leaves_nothing_behind(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.store, "n", ttl=30) as lease:
            for _ in range(20):
                assert not await lease.lost.wait(0.001)
            assert len(lease._member._calls) <= 1  # type: ignore[attr-defined]

    asyncio.run(main())


def test_a_loss_does_not_hide_what_the_body_raised(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.store, "n", ttl=NOTICES) as lease:
            await asyncio.to_thread(place.steal, "n")
            await lease.lost.wait(SOON)
            raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        asyncio.run(main())


def test_a_release_that_takes_too_long_says_so_and_goes_on(tmp_path: Path) -> None:
    store = Gated(tmp_path)

    async def main() -> None:
        lease = await aio.acquire(store, "n", ttl=30)
        store.puts.clear()
        with pytest.raises(mopslock.NotReleased):
            await lease.release(timeout=0.1)
        store.puts.set()
        await lease.release()
        assert Place("own", tmp_path, store).released("n")

    asyncio.run(main())


def test_companions_inspect_and_ls(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.other().store, "n", ttl=LIVES) as lease:
            async with await aio.accompany(lease.text, store=place.store) as companion:
                companion.check()
                assert companion.holder == lease.holder
            companion = await aio.accompany(lease.text, store=place.store)
            await companion.leave()
            assert (await aio.inspect(place.store, "n")).holder == lease.holder
            assert [status.name async for status in aio.ls(place.store)] == ["n"]
            lease.check()
        with pytest.raises(mopslock.LeaseReleased):
            await aio.accompany(lease.text, store=place.store)

    asyncio.run(main())


def test_a_store_that_fails_raises_as_the_package_does(tmp_path: Path) -> None:
    with pytest.raises(mopslock.StoreFull):
        asyncio.run(aio.acquire(Failing(tmp_path, put=mopslock.StoreFull("no room")), "n", ttl=LIVES))


# Cancellation.


def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing_held(place: Place) -> None:
    async def main() -> None:
        waits = threading.Event()
        async with aio.lease(place.other().store, "n", ttl=30) as held:
            task = asyncio.create_task(aio.acquire(place.store, "n", ttl=30, on_waiting=lambda _: waits.set()))
            await until(waits.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            held.check()
        await asyncio.sleep(0.1)  # in which one that still waits would have taken it
        async with aio.lease(place.store, "n", ttl=30, wait=0):
            pass

    asyncio.run(main())


def test_a_task_that_is_cancelled_at_any_moment_leaves_nothing_held(place: Place) -> None:
    async def main() -> None:
        for turn in range(30):
            task = asyncio.create_task(aio.acquire(place.store, f"n{turn}", ttl=30))
            await asyncio.sleep(turn * 0.0002)
            task.cancel()
            try:
                lease = await task
            except asyncio.CancelledError:
                continue
            await lease.release()
        for turn in range(30):
            if place.path(f"n{turn}").exists():
                await until(lambda turn=turn: place.released(f"n{turn}"))

    asyncio.run(main())


def test_a_task_that_is_cancelled_once_it_is_held_and_before_it_knows_releases(place: Place) -> None:
    async def main() -> None:
        for turn in range(5):
            task = asyncio.create_task(aio.acquire(place.store, f"n{turn}", ttl=30, acquire_margin=0.05))
            while not place.path(f"n{turn}").exists():
                await asyncio.sleep(0)  # others get their turn
            time.sleep(0.15)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda turn=turn: place.released(f"n{turn}"))

    asyncio.run(main())


def test_a_task_that_is_cancelled_in_the_body_releases(place: Place) -> None:
    async def main() -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with aio.lease(place.store, "n", ttl=30):
                inside.set()
                await asyncio.sleep(60)  # until it is cancelled

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert place.released("n")

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_releases_releases(tmp_path: Path) -> None:
    store = Gated(tmp_path)
    place = Place("own", tmp_path, store)

    async def main() -> None:
        lease = await aio.acquire(store, "n", ttl=30)
        store.puts.clear()
        task = asyncio.create_task(lease.release())
        await asyncio.sleep(0.05)  # until the release hangs
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.puts.set()
        await until(lambda: place.released("n"))

    asyncio.run(main())


def test_a_timeout_around_an_acquire_is_a_cancellation(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.other().store, "n", ttl=30):
            with pytest.raises((asyncio.TimeoutError, TimeoutError)):
                await asyncio.wait_for(aio.acquire(place.store, "n", ttl=30), 0.1)
        async with aio.lease(place.store, "n", ttl=30, wait=SOON):
            pass

    asyncio.run(main())


def test_a_loop_that_ends_under_a_release_is_no_trouble(place: Place) -> None:
    async def main() -> aio.Lease:
        return await aio.acquire(place.store, "n", ttl=30)

    lease = asyncio.run(main())
    asyncio.run(lease.release())
    assert place.released("n")


# What it costs.

CROWD = 300
MOST = _keeper.MOST_WORKERS + 8 + 2
"""Workers of a host, asyncio's own, and a keeper or listener and the notifier."""


@pytest.mark.parametrize("names", ["many", "one"])
def test_waiting_tasks_cost_no_thread_each(place: Place, names: str) -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        def name(i: int) -> str:
            return f"n{i}" if names == "many" else "n"

        others = [name(i) for i in range(CROWD if names == "many" else 1)]
        for other in others:
            place.write(other)
        first: set[int] = set()

        def noted(i: int, _: object) -> None:
            first.add(i)

        tasks = [
            asyncio.create_task(aio.acquire(place.store, name(i), ttl=60, on_waiting=partial(noted, i)))
            for i in range(CROWD)
        ]
        await until(lambda: len(first) == CROWD)
        begun = sorted(thread.name for thread in threading.enumerate() if thread not in before)
        assert len(begun) <= MOST, begun
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
        )
        assert all(place.record(other)["writer_id"] == "stranger" for other in others)

    asyncio.run(main())


MARGIN = 0.15
"""Of lastwriter, which excludes only where nobody is held up for longer between a read and a write of its own."""


def test_tasks_take_turns_on_one_name(place: Place, tmp_path: Path) -> None:
    inside = most = calls = 0

    async def work() -> None:
        nonlocal inside, most, calls
        async with aio.lease(place.store, "n", ttl=LIVES, acquire_margin=MARGIN):
            inside += 1
            most, calls = max(most, inside), calls + 1
            await asyncio.sleep(0)  # others get their turn
            inside -= 1

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(8)))

    with held_up.measured(tmp_path / "held-up") as measured:
        begin = time.monotonic()
        asyncio.run(main())
        assert calls == 8
        assert most == 1 or measured.at_once(begin) > MARGIN / 2


def test_a_loop_that_is_blocked_for_longer_than_the_ttl_loses_no_lease(tmp_path: Path) -> None:
    """By both ways at once: the TTL is one that a machine which stands still does not exceed."""

    async def main() -> None:
        async with (
            aio.lease(Place.of("url", tmp_path).store, "url", ttl=NOTICES) as one,
            aio.lease(Place.of("own", tmp_path).store, "own", ttl=NOTICES) as other,
        ):
            burn(1.2 * NOTICES)
            one.check()
            other.check()
            time.sleep(1.2 * NOTICES)  # in the loop itself
            one.check()
            other.check()

    asyncio.run(main())
    assert all(Place.of("own", tmp_path).released(way) for way in WAYS)

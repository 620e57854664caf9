"""The limiter's asyncio twin: permits of tasks, waits that cost no thread, and cancellation at any instant."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from typing import Any

import pytest

import mopslock
from mopslock import aio
from ways import until


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 60))


async def waiting(limiter: aio.Limiter, name: str, count: int) -> None:
    """Until so many tasks wait."""
    while limiter.waiting(name) != count:
        await asyncio.sleep(0)


def test_tasks_never_exceed_their_own_view_while_views_change() -> None:
    async def main() -> None:
        limiter, inside, chance = aio.Limiter(), 0, random.Random(1)

        async def work(capacity: int, width: int) -> None:
            nonlocal inside
            async with limiter.permit("n", capacity=capacity, width=width, wait=None) as permit:
                inside += 1
                assert inside <= permit.total <= capacity * width
                await asyncio.sleep(0)  # a turn of the loop, in which another could come in
                inside -= 1

        await asyncio.gather(*[work(chance.randint(1, 3), chance.randint(1, 2)) for _ in range(1000)])
        assert (limiter.held("n"), limiter.waiting("n")) == (0, 0)

    run(main())


def test_thousands_of_tasks_that_wait_cost_no_threads() -> None:
    async def main() -> None:
        limiter = aio.Limiter()

        async def work() -> int:
            async with limiter.permit("n", capacity=1, wait=None) as permit:
                return permit.total

        async with limiter.permit("n", capacity=1):
            few = asyncio.create_task(work())
            await waiting(limiter, "n", 1)
            threads = threading.active_count()
            tasks = [asyncio.create_task(work()) for _ in range(2000)]
            await waiting(limiter, "n", 2001)
            assert threading.active_count() <= threads
        assert await asyncio.gather(few, *tasks) == [1] * 2001

    run(main())


def test_a_cancelled_task_leaves_nothing_held_and_nobody_waiting() -> None:
    async def main() -> None:
        limiter = aio.Limiter()
        holder = limiter.holder()  # which lives on, as the tasks' own would not
        async with limiter.permit("n", capacity=1):
            tasks = [asyncio.create_task(holder.acquire("n", capacity=1)) for _ in range(20)]
            await waiting(limiter, "n", 20)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await waiting(limiter, "n", 0)
            assert limiter.held("n") == 1
        assert limiter.held("n") == 0

    run(main())


def test_cancelling_in_the_instant_of_a_grant_loses_nothing() -> None:
    """The permit is granted on another thread, between the cancel and the task's next turn, or before, or after."""

    async def main() -> None:
        limiter = aio.Limiter()
        holder = limiter.holder()
        for spins in range(60):
            first = await limiter.acquire("n", capacity=1)
            task = asyncio.create_task(holder.acquire("n", capacity=1))
            await waiting(limiter, "n", 1)
            first.release()
            for _ in range(spins % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled():
                task.result().release()
            while limiter.held("n"):  # it may be on its way still
                await asyncio.sleep(0)
            assert limiter.waiting("n") == 0

    run(main())


def test_what_a_task_holds_ends_with_it() -> None:
    async def main() -> None:
        limiter = aio.Limiter()
        kept: list[mopslock.LimiterPermit] = []

        async def work() -> None:
            kept.append(await limiter.acquire("n", capacity=9, weight=2))
            kept.append(await limiter.acquire("n", capacity=9))
            assert limiter.held("n") == 4

        mine = await limiter.acquire("n", capacity=9)
        await asyncio.create_task(work())
        while limiter.held("n") != 1:
            await asyncio.sleep(0)
        with pytest.raises(mopslock.OutOfBuckets):
            kept[0].release()
        assert limiter.down() == 1
        with pytest.raises(mopslock.OutOfBuckets):
            limiter.release(mine)
        assert limiter.down() == 0

    run(main())


def test_a_holder_outlives_the_tasks_that_use_it() -> None:
    async def main() -> None:
        limiter = aio.Limiter()
        async with limiter.holder() as holder:
            permit = await asyncio.create_task(holder.acquire("n", capacity=2))
            assert await holder.try_acquire("n", capacity=2) is not None
            with pytest.raises(mopslock.Full):
                async with holder.permit("n", capacity=2):
                    pass
            waits = asyncio.create_task(holder.acquire("n", capacity=2))
            await waiting(limiter, "n", 1)
            permit.release()
            (await waits).release()
            assert limiter.held("n") == 1
            waits = asyncio.create_task(holder.acquire("n", capacity=1))
            await waiting(limiter, "n", 1)
        with pytest.raises(mopslock.Cancelled):
            await waits
        assert limiter.held("n") == 0
        assert holder.down() == 0
        with pytest.raises(mopslock.Cancelled):
            await holder.acquire("n", capacity=2)
        never = limiter.holder()
        assert never.down() == 0
        with pytest.raises(mopslock.Cancelled):
            await never.acquire("n", capacity=2)

    run(main())


def test_a_limiter_of_threads_can_be_shared_with_tasks() -> None:
    async def main() -> None:
        threads = mopslock.Limiter()
        tasks = aio.Limiter(of=threads)
        with threads.permit("n", capacity=2):
            async with tasks.permit("n", capacity=2) as permit:
                assert (permit.total, threads.held("n"), tasks.held("n")) == (2, 2, 2)
                assert tasks.counters("n") == threads.counters("n") == [2]
                assert await tasks.try_acquire("n", capacity=2) is None

    run(main())


def test_a_permit_can_be_entered_within_itself_and_in_many_tasks() -> None:
    async def main() -> None:
        limiter = aio.Limiter()
        db = limiter.permit("db", capacity=6)

        async def work() -> None:
            async with db, db:
                await asyncio.sleep(0)  # a turn of the loop, in which another could come in

        await asyncio.gather(work(), work(), work())
        assert limiter.held("db") == 0

    run(main())


def test_a_loop_that_is_closed_while_tasks_wait_strands_nothing() -> None:
    limiter = mopslock.Limiter()
    tasks = aio.Limiter(of=limiter)
    with limiter.permit("n", capacity=1):
        loop = asyncio.new_event_loop()
        try:
            stranded = loop.create_task(tasks.acquire("n", capacity=1))

            async def begin() -> None:
                await waiting(tasks, "n", 1)

            loop.run_until_complete(begin())
        finally:
            loop.close()
        assert limiter.waiting("n") == 1
    until(lambda: limiter.held("n") == 0)  # it was granted, and nobody is there
    assert limiter.waiting("n") == 0
    stranded._log_destroy_pending = False  # type: ignore[attr-defined]
    del stranded
    gc.collect()

"""The limiter in this process and its asyncio twin: ends of threads and tasks, and forgotten releases.

core (buckets_test.go) and host/limiter hold its rules to oracles. These tests show what Python adds. A story that both
twins have is told once.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock import aio
from mopslock._limiter import ThreadBell
from mopslock._limits import LEAST_SWEEP, Engine, Grant, PermitOwner
from mopslock.terms import PermitRequest
from ways import SOON, forked, thread, until

Limiter = mopslock.Limiter


@pytest.fixture
def limiter() -> Limiter:
    return Limiter()


async def waiting(limiter: Any, count: int, what: str = "waiting") -> None:
    """Until so many wait for n, or hold it."""
    while getattr(limiter, what)("n") != count:
        await asyncio.sleep(0)


# What one permit says.


def test_a_permit_from_acquire_to_release(limiter: Limiter) -> None:
    with limiter.permit("many", capacity=1, width=100, weight=100):
        assert limiter.counters("many") == [2] * 99 + [1]
    permit = limiter.acquire("n", capacity=2, width=2, weight=3)
    assert (permit.name, permit.weight, permit.total, limiter.held("n")) == ("n", 3, 3, 3)
    assert repr(permit) == "<mopslock.LimiterPermit 'n' 3 of 4>"
    assert limiter.try_acquire("n", capacity=2, weight=2) is None
    big = limiter.try_acquire("n", capacity=2, width=3)  # a view is the caller's own
    assert big is not None
    assert big.total == 4
    limiter.release(permit)
    with pytest.raises(mopslock.OutOfBuckets):
        permit.release()
    with big:
        big.release()  # the block's end finds nothing, and says nothing
    assert (limiter.held("n"), limiter.counters("n"), limiter.counters("never used")) == (0, [0, 0], [])
    for wait in (0.001, 0):
        with limiter.permit("n", capacity=1), pytest.raises(mopslock.Full) as caught:
            limiter.acquire("n", capacity=1, wait=wait)
        assert (caught.value.held, caught.value.limit, caught.value.weight) == (1, 1, 1)
        assert str(caught.value) == 'mopslock: "n" is full: 1/1 held'
        assert limiter.waiting("n") == 0


def test_a_block_can_be_entered_within_itself_and_by_many_at_once(limiter: Limiter) -> None:
    n, all_in = limiter.permit("n", capacity=8), threading.Barrier(4, timeout=SOON)

    def work(_: int) -> int:
        with pytest.raises(KeyError), n, n:
            all_in.wait()
            held = limiter.held("n")
            all_in.wait()
            raise KeyError
        return held

    async def main() -> None:
        tasks = aio.Limiter(of=limiter)  # shared with threads
        permits = tasks.permit("n", capacity=6)

        async def within() -> None:
            async with permits, permits as permit:
                assert tasks.held("n") >= permit.total
                assert tasks.counters("n") == limiter.counters("n")
                await asyncio.sleep(0)  # a turn of the loop, in which another could come in

        await asyncio.gather(within(), within(), within())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [8] * 4
        asyncio.run(asyncio.wait_for(main(), SOON))
    assert limiter.held("n") == 0


BAD: list[tuple[dict[str, Any], str]] = [
    ({"capacity": 0}, "capacity 0"), ({"capacity": True}, "capacity True"), ({"capacity": 1 << 32}, "capacity"),
    ({"capacity": 1, "width": 65537}, "width 65537"), ({"capacity": 1, "weight": 0}, "weight 0"),
    ({"capacity": 1.5, "width": -1}, "capacity 1.5.*width -1"),
    ({"capacity": 1 << 20, "width": 1 << 16, "weight": 1 << 32}, "weight 4294967296"),
]  # fmt: skip


def test_what_cannot_be_so_is_said_at_once(limiter: Limiter) -> None:
    for options, said in BAD:
        for ask in (limiter.permit, limiter.acquire, limiter.try_acquire, limiter.holder().acquire):
            with pytest.raises(mopslock.BadArgument, match=said):
                ask("n", **options)
    names: list[Any] = ["a\0b", "\ud800", 7]
    for make in (limiter, aio.Limiter(of=limiter)):
        for name in names:
            with pytest.raises(mopslock.BadArgument):
                make.permit(name, capacity=1)
        with pytest.raises(mopslock.WeightExceedsLimit, match="never room"):
            make.permit("n", capacity=2, width=2, weight=5)
        with pytest.raises(mopslock.BadArgument):
            make.permit("n", capacity=1, wait=-1)
    for thing in (limiter, limiter.holder(), limiter.acquire("n", capacity=1), make, make.holder()):
        with pytest.raises(TypeError):
            thing.__reduce__()


# Many at once.


async def test_a_thousand_tasks_that_wait_cost_no_threads() -> None:
    limiter = aio.Limiter()
    holder, first = limiter.holder(), await limiter.acquire("n", capacity=1)
    tasks = [asyncio.create_task(holder.acquire("n", capacity=1))]
    await waiting(limiter, 1)
    threads = threading.active_count()
    tasks += [asyncio.create_task(holder.acquire("n", capacity=1)) for _ in range(1000)]
    await waiting(limiter, 1001)
    assert threading.active_count() <= threads
    first.release()
    for done in asyncio.as_completed(tasks):
        permit = await done
        assert (permit.total, limiter.held("n")) == (1, 1)
        permit.release()


# Whose permits are.


def test_what_a_thread_holds_ends_with_it_and_lets_waiters_in(
    limiter: Limiter, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[mopslock.LimiterPermit] = []

    def work() -> None:
        kept.append(limiter.acquire("n", capacity=6, weight=6))
        until(lambda: limiter.waiting("n") == 1)

    with thread(work):
        until(lambda: limiter.held("n") == 6)
        limiter.acquire("n", capacity=1, wait=None).release()
    with pytest.raises(mopslock.OutOfBuckets):
        kept[0].release()
    assert caplog.records == []  # it is how it is meant


async def test_what_a_task_holds_ends_with_it() -> None:
    limiter = aio.Limiter()
    mine = await limiter.acquire("n", capacity=9)
    theirs = await asyncio.create_task(limiter.acquire("n", capacity=9, weight=2))
    await waiting(limiter, 1, "held")
    assert (limiter.down(), limiter.down()) == (1, 0)
    for permit in (theirs, mine):
        with pytest.raises(mopslock.OutOfBuckets):
            limiter.release(permit)


def test_down_gives_back_what_this_thread_or_holder_has_and_no_other(limiter: Limiter) -> None:
    with limiter.holder() as holder, holder.permit("n", capacity=9):
        mine = limiter.acquire("n", capacity=9, weight=3)
        assert (limiter.down(), limiter.down(), limiter.held("n")) == (3, 0, 1)
        with pytest.raises(mopslock.OutOfBuckets):
            mine.release()
        limiter.acquire("n", capacity=9).release()  # there is a new one
        holder.try_acquire("ü/m", capacity=2, width=3, weight=4)  # the holder keeps what nobody else does
        assert (limiter.held("n"), limiter.held("ü/m")) == (1, 4)
        assert (holder.down(), holder.down(), limiter.held("n"), limiter.held("ü/m")) == (5, 0, 0, 0)
        with pytest.raises(mopslock.Cancelled):
            holder.try_acquire("n", capacity=9)
    assert limiter.held("n") == 0


async def test_a_holder_outlives_its_users_and_ends_its_waits() -> None:
    limiter = aio.Limiter()
    threads = limiter._of.holder()
    async with limiter.holder() as holder:
        permit = await asyncio.create_task(holder.acquire("n", capacity=2))
        assert await holder.try_acquire("n", capacity=2) is not None
        with pytest.raises(mopslock.Full):
            async with holder.permit("n", capacity=2):
                raise AssertionError("it must not be entered")
        waits = asyncio.create_task(holder.acquire("n", capacity=2))
        await waiting(limiter, 1)
        permit.release()
        (await waits).release()
        asked = [
            asyncio.create_task(holder.acquire("n", capacity=1)),
            asyncio.create_task(asyncio.to_thread(threads.acquire, "n", capacity=1)),
        ]
        await waiting(limiter, 2)
        assert threads.down() == 0
    asked.append(asyncio.create_task(holder.acquire("n", capacity=2)))
    never = limiter.holder()
    assert (holder.down(), never.down(), limiter.held("n")) == (0, 0, 0)
    asked.append(asyncio.create_task(never.acquire("n", capacity=2)))
    ends = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(end) for end in ends] == [mopslock.Cancelled] * 4


# In line.

VIEWS = st.builds(PermitRequest, capacity=st.integers(3, 4), width=st.integers(1, 2), weight=st.integers(1, 3))
ASKS = st.tuples(st.just("ask"), st.integers(0, 2), VIEWS, st.booleans())
ENDS = st.tuples(st.just("give_back"), st.integers(0, 9)) | st.tuples(st.just("down"), st.integers(0, 2))


class Beside:
    """An engine beside an oracle: what is held, and a line, in two lists."""

    def __init__(self, fifo: bool) -> None:
        self.engine, self.fifo = Engine(fifo=fifo), fifo
        self.owners = [PermitOwner(self.engine) for _ in range(3)]
        self.held, self.line, self.told, self.telling = list[Grant](), list[Grant](), list[Grant](), list[Grant]()

    def has_room(self, grant: Grant) -> bool:
        return weight(self.held) + grant.request.weight <= grant.request.limit

    def ask(self, owner: int, request: PermitRequest, waits: bool) -> None:
        grant = Grant(self.owners[owner].grants, "n", request)
        let_in = self.has_room(grant) and not (self.fifo and self.line)
        tell = (lambda: self.told.append(grant)) if waits else None
        assert self.engine.attempt(self.owners[owner], grant, tell) == let_in
        if let_in or waits:
            (self.held if let_in else self.line).append(grant)
        else:
            assert self.engine.give_back(grant) == 0

    def over(self, gone: list[Grant]) -> int:
        freed = weight(self.held) - weight(one for one in self.held if one not in gone)
        self.telling += [grant for grant in gone if grant in self.line]
        self.held, self.line = ([one for one in some if one not in gone] for some in (self.held, self.line))
        for grant in list(self.line):
            if self.has_room(grant):
                self.line.remove(grant)
                self.held.append(grant)
                self.telling.append(grant)
            elif self.fifo:
                break
        return freed

    def give_back(self, number: int) -> None:
        for grant in (self.held + self.line)[number : number + 1]:
            assert self.engine.give_back(grant) == self.over([grant])
            assert self.engine.give_back(grant) == 0

    def down(self, number: int) -> None:
        owner, self.owners[number] = self.owners[number], PermitOwner(self.engine)
        assert owner.down() == self.over([one for one in self.held + self.line if one.among is owner.grants])

    def look(self) -> None:
        name = self.engine.look("n")
        if name is not None:
            assert (list(name.line), name.held, name.holds) == (self.line, weight(self.held), weight(self.held))
        assert all(grant.held == (grant in self.held) for grant in self.held + self.line)
        assert set(self.told) == set(self.telling)


def weight(grants: Iterable[Grant]) -> int:
    return sum(grant.request.weight for grant in grants)


@given(st.booleans(), st.lists(ASKS | ENDS, max_size=40))
def test_who_holds_and_who_waits_is_as_an_oracle_says(fifo: bool, steps: list[Any]) -> None:
    beside = Beside(fifo)
    for what, *asked in steps:
        getattr(beside, what)(*asked)
        beside.look()


def test_holders_are_as_many_as_there_are(limiter: Limiter) -> None:
    """A machine of the core knows 1,024."""
    holders = [limiter.holder() for _ in range(1100)]
    for holder in holders:
        holder.acquire("n", capacity=1100, wait=0)
    assert [holder.down() for holder in holders] == [1] * 1100


# Giving up.


def test_an_interrupted_wait_leaves_nothing_held_and_no_waiter(limiter: Limiter) -> None:
    """The interrupt comes in the very instant of a grant, or before."""
    holder = limiter.holder()  # which lives on
    for taker, granted in itertools.product((limiter, holder), (False, True)):
        with limiter.permit("n", capacity=1) as first:

            def interrupted(*_: object, granted: bool = granted, first: Any = first) -> None:
                assert limiter.waiting("n") == 1
                if granted:
                    first.release()
                    assert limiter.held("n") == 1
                raise KeyboardInterrupt

            with mock.patch.object(ThreadBell, "rung", interrupted), pytest.raises(KeyboardInterrupt):
                taker.acquire("n", capacity=1)
            assert (limiter.waiting("n"), limiter.held("n")) == (0, 0 if granted else 1)


async def test_a_task_that_is_cancelled_in_the_instant_of_a_grant_leaves_nothing() -> None:
    """The permit is granted on another thread, between the cancel and the task's next turn, or before, or after."""
    limiter = aio.Limiter()
    holder = limiter.holder()  # which lives on, as the tasks' own would not
    for spins in range(60):
        first = await limiter.acquire("n", capacity=1)
        task = asyncio.create_task(holder.acquire("n", capacity=1))
        await waiting(limiter, 1)
        if spins:
            first.release()
        for _ in range(spins % 5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result().release()
        if not spins:
            await waiting(limiter, 0)
            first.release()
        await waiting(limiter, 0, "held")  # it may be on its way still
        assert limiter.waiting("n") == 0


def test_a_loop_that_is_closed_while_tasks_wait_strands_nothing(limiter: Limiter) -> None:
    tasks = aio.Limiter(of=limiter)
    with limiter.permit("n", capacity=1):
        loop = asyncio.new_event_loop()
        try:
            stranded = loop.create_task(tasks.acquire("n", capacity=1))
            loop.run_until_complete(waiting(tasks, 1))
        finally:
            loop.close()
        assert limiter.waiting("n") == 1
    until(lambda: limiter.held("n") == 0)  # it was granted, and nobody is there
    assert limiter.waiting("n") == 0
    stranded._log_destroy_pending = False  # type: ignore[attr-defined]
    del stranded
    gc.collect()


# What is forgotten.


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="elsewhere nobody knows when it is collected")
def test_what_vanishes_is_given_back_and_said_aloud(limiter: Limiter, caplog: pytest.LogCaptureFixture) -> None:
    def said_of() -> list[Any]:
        return [(r.mopslock_event, r.mopslock_name, r.mopslock_permits) for r in caplog.records]  # type: ignore[attr-defined]

    with caplog.at_level(logging.WARNING, "mopslock"):
        limiter.acquire("n", capacity=9, weight=2)
        gc.collect()
        assert limiter.held("n") == 0
        holder = limiter.holder()
        holder.acquire("n", capacity=9)
        permit = holder.acquire("web", capacity=9, weight=4)
        del holder
        gc.collect()
        assert limiter.held("n") == 1  # of a permit that somebody has
        del permit
        gc.collect()
        assert (limiter.held("n"), limiter.held("web")) == (0, 0)
        until(lambda: len(caplog.records) == 2)
        limiter.holder()  # one that holds nothing says nothing
        with limiter.holder() as other:
            other.acquire("n", capacity=9)
        gc.collect()
    assert said_of() == [("permit_vanished", "n", 2), ("holder_vanished", "", 5)]
    assert 'permit of "n" has vanished' in caplog.text


def test_names_are_forgotten_of_which_nothing_is_held(limiter: Limiter) -> None:
    kept = limiter.acquire("kept", capacity=2)
    for n in range(2 * LEAST_SWEEP):
        limiter.acquire(f"n{n}", capacity=1).release()
    assert (limiter.counters("kept"), limiter.counters("n0"), limiter.counters(f"n{n}")) == ([1], [], [0])
    assert len(limiter._engine.names) <= LEAST_SWEEP
    kept.release()


# fork.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_limiter_that_was_used_before_a_fork_is_the_parents() -> None:
    limiter, unused = Limiter(), Limiter()
    with limiter.permit("n", capacity=2) as permit, limiter.holder() as holder:
        held = holder.acquire("n", capacity=2)

        def child() -> Any:
            for ask in (
                lambda: limiter.held("n"), lambda: limiter.acquire("n", capacity=9), permit.release, holder.down,
                lambda: limiter.counters("n"), limiter.permit("n", capacity=9).__enter__,
            ):  # fmt: skip
                with pytest.raises(mopslock.Forked, match="make another"):
                    ask()
            with permit, holder:
                pass
            with unused.permit("n", capacity=1) as own:
                return own.total

        assert forked(child) == 1
        assert limiter.held("n") == 2
        held.release()

"""The limiter in this process: canal_lock's cases, an oracle, threads that end, and permits that somebody forgets.

Nothing here sleeps, and nothing waits for a time to pass but where that is what is tested.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import mopslock
from mopslock import _limits
from ways import SOON, forked, until


@pytest.fixture
def limiter() -> mopslock.Limiter:
    return mopslock.Limiter()


def thread(run: Callable[[], Any]) -> threading.Thread:
    """Begun, and to be joined."""
    made = threading.Thread(target=run, daemon=True)
    made.start()
    return made


def join(*threads: threading.Thread) -> None:
    for made in threads:
        made.join(SOON)
        assert not made.is_alive()


# What one permit says.


def test_a_block_holds_a_permit_and_gives_it_back(limiter: mopslock.Limiter) -> None:
    with limiter.permit("db", capacity=2, width=2, weight=3) as permit:
        assert (permit.name, permit.weight, permit.total) == ("db", 3, 3)
        assert repr(permit) == "<mopslock.LimiterPermit 'db' 3 of 4>"
        assert limiter.held("db") == 3
    assert limiter.held("db") == 0
    with pytest.raises(KeyError), limiter.permit("db", capacity=1):
        raise KeyError
    assert limiter.held("db") == 0


def test_making_takes_nothing_and_entering_takes_each_time(limiter: mopslock.Limiter) -> None:
    db = limiter.permit("db", capacity=2)
    assert limiter.held("db") == 0
    with db, db:
        assert limiter.held("db") == 2
        with pytest.raises(mopslock.Full) as caught, db:
            pass
        assert (caught.value.held, caught.value.limit, caught.value.weight) == (2, 2, 1)
        assert str(caught.value) == 'mopslock: "db" is full: 2/2 held'
        assert limiter.held("db") == 2
    assert limiter.held("db") == 0


def test_a_view_is_the_callers_own(limiter: mopslock.Limiter) -> None:
    big = [limiter.acquire("db", capacity=4) for _ in range(4)]
    assert limiter.try_acquire("db", capacity=2) is None
    assert limiter.try_acquire("db", capacity=4) is None
    with limiter.permit("db", capacity=2, width=3) as more:
        assert more.total == 5
    for permit in big[:3]:
        permit.release()
    assert limiter.try_acquire("db", capacity=2) is not None


def test_a_second_release_is_out_of_buckets(limiter: mopslock.Limiter) -> None:
    first, second = limiter.acquire("db", capacity=2), limiter.acquire("db", capacity=2)
    limiter.release(first)
    with pytest.raises(mopslock.OutOfBuckets):
        first.release()
    assert limiter.held("db") == 1
    with second:
        second.release()  # the block's end finds nothing, and says nothing
    assert limiter.held("db") == 0


def test_a_wait_that_is_over_is_full(limiter: mopslock.Limiter) -> None:
    with limiter.permit("db", capacity=1):
        with pytest.raises(mopslock.Full):
            limiter.acquire("db", capacity=1, wait=0.001)
        with pytest.raises(mopslock.Full):
            limiter.acquire("db", capacity=1, wait=0)
        assert limiter.waiting("db") == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [({"capacity": 0}, "capacity 0"), ({"capacity": True}, "capacity True"), ({"capacity": 1 << 32}, "capacity"),
     ({"capacity": 1, "width": 65537}, "width 65537"), ({"capacity": 1, "weight": 0}, "weight 0"),
     ({"capacity": 1.5, "width": -1}, "capacity 1.5.*width -1")],
)  # fmt: skip
def test_what_cannot_be_so_is_said_at_once(limiter: mopslock.Limiter, given: dict[str, Any], said: str) -> None:
    for ask in (limiter.permit, limiter.acquire, limiter.try_acquire, limiter.holder().acquire):
        with pytest.raises(mopslock.BadArgument, match=said):
            ask("db", **given)
    for name in ("a\0b", "\ud800", 7):
        with pytest.raises(mopslock.BadArgument):
            limiter.permit(name, capacity=1)  # type: ignore[arg-type]
    with pytest.raises(mopslock.TooHeavy, match="never room"):
        limiter.permit("db", capacity=2, width=2, weight=5)
    with pytest.raises(mopslock.BadArgument):
        limiter.permit("db", capacity=1, wait=-1)


def test_nothing_of_it_can_be_pickled(limiter: mopslock.Limiter) -> None:
    for thing in (limiter, limiter.holder(), limiter.acquire("db", capacity=1)):
        with pytest.raises(TypeError):
            thing.__reduce__()


# canal_lock's cases, in sequence: a(capacity, width) -> how many are held, or None; r releases.

TIMELINE = [
    ("a", 3, 1, 1, [1]),
    ("a", 3, 1, 2, [2]),
    ("a", 3, 2, 3, [3]),
    ("a", 3, 1, None, [4]),
    ("a", 3, 2, 4, [4, 1]),
]
CASES: dict[str, list[tuple[Any, ...]]] = {
    "timeline": TIMELINE,
    "usage": [
        ("a", 3, 1, 1, [1]), ("a", 3, 1, 2, [2]), ("a", 3, 1, 3, [3]), ("a", 3, 1, None, [4]), ("a", 3, 2, 4, [4, 1]),
        ("a", 3, 1, None, [4, 1]), ("r", 1, [4, 0]), ("a", 3, 1, None, [4, 0]), ("r", 1, [2, 0]),
        ("a", 3, 1, 3, [3, 0]),
        ("a", 3, 1, None, [4, 0]),
    ],
    "upsize": [
        *[("a", 5, 1, n, [n]) for n in range(1, 6)], ("a", 5, 2, 6, [6, 1]), ("r", 1, [6, 0]),
        ("a", 5, 1, None, [6, 0]), ("a", 5, 2, 6, [6, 1]),
    ],
    "seen full twice": [
        ("a", 2, 1, 1, [1]), ("a", 2, 1, 2, [2]), ("a", 2, 1, None, [3]), ("a", 2, 1, None, [3]), ("r", 1, [1]),
        ("r", 1, [0]), ("r", None, [0]),
    ],
    "capacity 1": [
        ("a", 1, 2, 1, [1]), ("a", 1, 2, 2, [2, 1]), ("a", 1, 2, None, [2, 2]), ("r", 1, [2, 0]),
        ("a", 1, 1, None, [2, 0]), ("r", 1, [0, 0]), ("a", 1, 1, 1, [1, 0]),
    ],
    "mixed capacities": [
        *[("a", 5, 1, n, [n]) for n in range(1, 6)], ("a", 2, 1, None, [6]), ("a", 5, 1, None, [6]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_canal_locks_cases(limiter: mopslock.Limiter, case: str) -> None:
    held: list[mopslock.LimiterPermit] = []
    released: list[mopslock.LimiterPermit] = []
    for verb, *rest in CASES[case]:
        if verb == "a":
            capacity, width, total, counters = rest
            permit = limiter.try_acquire("n", capacity=capacity, width=width)
            assert (permit.total if permit is not None else None) == total
            held += [permit] if permit is not None else []
        else:
            good, counters = rest
            if good is None:
                with pytest.raises(mopslock.OutOfBuckets):
                    released[-1].release()
            else:
                released.append(held.pop())
                released[-1].release()
        assert limiter.counters("n") == counters
    assert limiter.counters("never used") == []


def test_the_counters_of_many_buckets_are_told(limiter: mopslock.Limiter) -> None:
    with limiter.permit("n", capacity=1, width=100, weight=100):
        assert limiter.counters("n") == [2] * 99 + [1]


# Against an oracle.


class Oracle:
    """All that a limiter is: how many are held of a name, and by whom."""

    def __init__(self) -> None:
        self.by: Counter[tuple[str, int]] = Counter()

    def held(self, name: str) -> int:
        return sum(weight for (of, _), weight in self.by.items() if of == name)

    def acquire(self, name: str, capacity: int, width: int, weight: int, holder: int) -> int | None:
        if self.held(name) + weight > capacity * width:
            return None
        self.by[name, holder] += weight
        return self.held(name)

    def release(self, name: str, weight: int, holder: int) -> None:
        self.by[name, holder] -= weight

    def down(self, holder: int) -> int:
        freed = sum(weight for (_, by), weight in self.by.items() if by == holder)
        self.by = Counter({key: weight for key, weight in self.by.items() if key[1] != holder})
        return freed


NAMES, HOLDERS = ["a", "b", "ü/x"], 3


class LimiterMachine(RuleBasedStateMachine):
    """Holders that acquire, release, and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter, self.oracle = mopslock.Limiter(), Oracle()
        self.holders = {n: self.limiter.holder() for n in range(HOLDERS)}
        self.permits: list[tuple[int, mopslock.LimiterPermit]] = []
        self.last = HOLDERS

    @rule(
        name=st.sampled_from(NAMES), which=st.integers(0, HOLDERS - 1), capacity=st.integers(1, 4),
        width=st.integers(1, 3), weight=st.integers(1, 3),
    )  # fmt: skip
    def acquire(self, name: str, which: int, capacity: int, width: int, weight: int) -> None:
        number = sorted(self.holders)[which]
        if weight > capacity * width:
            with pytest.raises(mopslock.TooHeavy):
                self.holders[number].try_acquire(name, capacity=capacity, width=width, weight=weight)
            return
        permit = self.holders[number].try_acquire(name, capacity=capacity, width=width, weight=weight)
        assert (permit.total if permit else None) == self.oracle.acquire(name, capacity, width, weight, number)
        self.permits += [(number, permit)] if permit else []

    @precondition(lambda self: self.permits)
    @rule(which=st.integers(0, 99))
    def release(self, which: int) -> None:
        number, permit = self.permits.pop(which % len(self.permits))
        if number in self.holders:
            permit.release()
            self.oracle.release(permit.name, permit.weight, number)
        with pytest.raises(mopslock.OutOfBuckets):
            permit.release()

    @rule(which=st.integers(0, HOLDERS - 1))
    def down(self, which: int) -> None:
        number = sorted(self.holders)[which]
        holder = self.holders.pop(number)
        assert holder.down() == self.oracle.down(number)
        assert holder.down() == 0
        with pytest.raises(mopslock.Cancelled):
            holder.try_acquire("a", capacity=9)
        self.holders[self.last] = self.limiter.holder()
        self.last += 1

    @invariant()
    def agrees(self) -> None:
        for name in NAMES:
            assert self.limiter.held(name) == self.oracle.held(name)


TestAgainstTheOracle = LimiterMachine.TestCase
TestAgainstTheOracle.settings = settings(max_examples=40, stateful_step_count=40)


# Threads.


def test_threads_never_exceed_their_own_view_while_views_change() -> None:
    limiter, inside, lock = mopslock.Limiter(), [0], threading.Lock()
    wrong: list[str] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(300):
            capacity, width = chance.randint(1, 3), chance.randint(1, 2)
            with limiter.permit("n", capacity=capacity, width=width, wait=None) as permit:
                with lock:
                    inside[0] += 1
                    if not inside[0] <= permit.total <= capacity * width:
                        wrong.append(f"{inside[0]} inside, {permit.total} of {capacity * width}")
                with lock:
                    inside[0] -= 1

    join(*[thread(lambda seed=seed: work(seed)) for seed in range(8)])  # type: ignore[misc]
    assert wrong == []
    assert (limiter.held("n"), limiter.waiting("n")) == (0, 0)


def test_one_object_serves_many_threads_at_once(limiter: mopslock.Limiter) -> None:
    db, all_in, done = limiter.permit("db", capacity=8), threading.Barrier(8), []

    def work() -> None:
        with db:
            all_in.wait(SOON)
            done.append(limiter.held("db"))
            all_in.wait(SOON)

    join(*[thread(work) for _ in range(8)])
    assert done == [8] * 8
    assert limiter.held("db") == 0


def test_what_a_thread_holds_ends_with_it(limiter: mopslock.Limiter, caplog: pytest.LogCaptureFixture) -> None:
    kept: list[mopslock.LimiterPermit] = []
    mine = limiter.acquire("db", capacity=9)
    join(thread(lambda: kept.extend(limiter.acquire("db", capacity=9, weight=2) for _ in range(3))))
    until(lambda: limiter.held("db") == 1)
    with pytest.raises(mopslock.OutOfBuckets):
        kept[0].release()
    assert caplog.records == []  # it is how it is meant
    mine.release()


def test_a_thread_that_ends_lets_those_in_who_wait(limiter: mopslock.Limiter) -> None:
    taken, go_on = threading.Event(), threading.Event()
    kept: list[mopslock.LimiterPermit] = []

    def work() -> None:
        kept.append(limiter.acquire("db", capacity=1))
        taken.set()
        go_on.wait(SOON)

    worker = thread(work)
    assert taken.wait(SOON)
    waiting = thread(lambda: limiter.acquire("db", capacity=1, wait=None).release())
    until(lambda: limiter.waiting("db") == 1)
    go_on.set()
    join(worker, waiting)


def test_down_gives_back_what_this_thread_has_and_no_other(limiter: mopslock.Limiter) -> None:
    with limiter.holder() as holder:
        others = holder.acquire("db", capacity=9)
        mine = limiter.acquire("db", capacity=9, weight=3)
        assert limiter.down() == 3
        assert limiter.down() == 0
        assert limiter.held("db") == 1
        with pytest.raises(mopslock.OutOfBuckets):
            mine.release()
        limiter.acquire("db", capacity=9).release()  # there is a new one
    with pytest.raises(mopslock.OutOfBuckets):
        others.release()


def test_a_holder_ends_what_waits_on_it(limiter: mopslock.Limiter) -> None:
    said: list[BaseException] = []
    holder = limiter.holder()

    def wait() -> None:
        try:
            holder.acquire("db", capacity=1)
        except mopslock.Cancelled as error:
            said.append(error)

    with limiter.permit("db", capacity=1):
        waiting = thread(wait)
        until(lambda: limiter.waiting("db") == 1)
        assert holder.down() == 0
        join(waiting)
    assert len(said) == 1
    with pytest.raises(mopslock.Cancelled), holder.permit("db", capacity=1):
        pass


def test_fifo_lets_nobody_overtake() -> None:
    limiter, order = mopslock.Limiter(fifo=True), []

    def wait(number: int) -> None:
        with limiter.permit("n", capacity=2, weight=1 + number % 2, wait=None):
            order.append(number)

    with limiter.permit("n", capacity=2, weight=2) as first:
        threads = []
        for number in range(5):
            threads.append(thread(lambda number=number: wait(number)))  # type: ignore[misc]
            until(lambda: limiter.waiting("n") == len(threads))
        assert limiter.try_acquire("n", capacity=9) is None
        first.release()
    join(*threads)
    assert sorted(order) == list(range(5))
    assert order[:2] == [0, 1]


def test_an_interrupt_leaves_nothing_held_and_nobody_waiting(limiter: mopslock.Limiter) -> None:
    """As an interrupt does: what the waiter has in hand raises, in the very instant of a grant or before."""
    begin = _limits.Waits.begin
    for granted in (False, True):
        with limiter.permit("db", capacity=1) as first:

            def interrupted(waits: Any, *given: Any, granted: bool = granted, first: Any = first) -> None:
                begin(waits, *given)
                if granted:
                    first.release()
                    given[-1].result(SOON)
                else:
                    until(lambda: limiter.waiting("db") == 1)
                raise KeyboardInterrupt

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_limits.Waits, "begin", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    limiter.acquire("db", capacity=1)
            until(lambda: limiter.waiting("db") == 0)
            gc.collect()
        until(lambda: limiter.waiting("db") == 0)
        until(lambda: limiter.held("db") == 0)


def test_what_is_granted_to_nobody_is_given_back(limiter: mopslock.Limiter) -> None:
    """The event was on its way when the waiter gave up."""
    engine, holder = limiter._engine(), limiter.holder()
    permit = holder.acquire("db", capacity=1)
    grant = mopslock.LimiterPermit(engine, "db", permit.demand, holder)
    event, _ = engine.api.event()
    event.member, event.held = permit._handle.value, 1
    into = _limits.Granted()
    into.cancel()
    engine.waits._heard(event, grant, into)
    assert limiter.held("db") == 0
    with pytest.raises(mopslock.OutOfBuckets):
        permit.release()


def test_races_of_giving_up_and_being_let_in_lose_nothing(limiter: mopslock.Limiter) -> None:
    """Waits as short as what they wait for takes: each comes to one end, and nothing stays held."""
    over, ends = threading.Event(), Counter[str]()

    def hold() -> None:
        while not over.is_set():
            with limiter.permit("db", capacity=1, wait=None):
                pass

    def wait() -> None:
        for n in range(300):
            try:
                with limiter.permit("db", capacity=1, wait=n % 7 * 1e-5):
                    ends["in"] += 1
            except mopslock.Full:
                ends["full"] += 1

    holding, waiting = [thread(hold) for _ in range(2)], [thread(wait) for _ in range(3)]
    join(*waiting)
    over.set()
    join(*holding)
    assert sum(ends.values()) == 900
    assert (limiter.held("db"), limiter.waiting("db")) == (0, 0)


# What is forgotten.


def said_of(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, int]]:
    return [(r.mopslock_event, r.mopslock_name, r.mopslock_permits) for r in caplog.records]  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="elsewhere nobody knows when it is collected")
def test_a_permit_that_vanishes_is_given_back_and_said_aloud(
    limiter: mopslock.Limiter, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mopslock"):
        limiter.acquire("db", capacity=9, weight=2)
        gc.collect()
        assert limiter.held("db") == 0
        until(lambda: len(caplog.records) == 1)
    assert said_of(caplog) == [("permit_vanished", "db", 2)]
    assert 'permit of "db" has vanished' in caplog.text


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="elsewhere nobody knows when it is collected")
def test_a_holder_that_vanishes_gives_all_back(limiter: mopslock.Limiter, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mopslock"):
        holder = limiter.holder()
        holder.acquire("db", capacity=9)
        permit = holder.acquire("web", capacity=9, weight=4)
        del holder
        gc.collect()
        assert limiter.held("db") == 1  # of a permit that somebody has
        del permit
        gc.collect()
        assert (limiter.held("db"), limiter.held("web")) == (0, 0)
        until(lambda: len(caplog.records) == 1)
        limiter.holder()  # one that holds nothing says nothing
        with limiter.holder() as other:
            other.acquire("db", capacity=9)
        gc.collect()
    assert said_of(caplog) == [("holder_vanished", "", 5)]


def test_a_limiter_that_vanishes_leaves_no_thread() -> None:
    def threads() -> int:
        return sum(made.name == "mopslock-limiter" for made in threading.enumerate())

    gc.collect()
    until(lambda: threads() == 0)
    limiter: Any = mopslock.Limiter()
    with limiter.permit("db", capacity=1), pytest.raises(mopslock.Full):
        limiter.acquire("db", capacity=1, wait=0.001)
    assert threads() == 1
    del limiter
    gc.collect()
    until(lambda: threads() == 0)


# fork.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_limiter_that_was_used_before_a_fork_is_the_parents() -> None:
    limiter, unused = mopslock.Limiter(), mopslock.Limiter()
    with limiter.permit("db", capacity=2) as permit, limiter.holder() as holder:
        held = holder.acquire("db", capacity=2)

        def child() -> Any:
            said = []
            for ask in (
                lambda: limiter.held("db"), lambda: limiter.acquire("db", capacity=9), permit.release, holder.down,
                lambda: limiter.counters("db"), limiter.permit("db", capacity=9).__enter__,
            ):  # fmt: skip
                try:
                    ask()
                    said.append("nothing")
                except mopslock.Forked as error:
                    said.append("Forked" if "make another" in str(error) else str(error))
            with permit, holder:
                pass
            with unused.permit("db", capacity=1) as own:
                said.append(str(own.total))
            return said

        assert forked(child) == ["Forked"] * 6 + ["1"]
        assert limiter.held("db") == 2
        held.release()

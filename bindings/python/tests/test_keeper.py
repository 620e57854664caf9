"""The thread that wakes machines, the threads that ask stores, and the one that calls back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mopslock import _keeper
from mopslock._duration import SECOND
from mopslock._keeper import Keeper, Workers
from mopslock._lease import Lease
from mopslock._notify import Notifier
from world import FakeClock

LONG = 45.0
"""Seconds of patience for what happens at once; nothing depends on how long it takes."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def keeper(clock: FakeClock) -> Keeper:
    """One that the test turns."""
    return Keeper(clock, threaded=False)


@given(st.lists(st.integers(0, 20), max_size=30), st.lists(st.integers(1, 7), min_size=1, max_size=10))
def test_timers_come_in_their_order_never_early_and_each_once(instants: list[int], steps: list[int]) -> None:
    """Those of one instant in the order in which they were set."""
    clock = FakeClock()
    clock.now = 0
    keeper = Keeper(clock, threaded=False)
    told: list[tuple[int, int]] = []
    for number, instant in enumerate(instants):

        def due(at: int, number: int = number) -> None:
            assert at <= clock.now
            told.append((at, number))

        keeper.at(instant, due)
    for step in steps:
        keeper.turn()
        assert told == sorted((at, n) for n, at in enumerate(instants) if at <= clock.now)
        clock.now += step


def test_what_is_posted_comes_before_timers_and_in_order(keeper: Keeper, clock: FakeClock) -> None:
    """An answer that is there is heard before its request is given up."""
    told: list[str] = []
    keeper.at(clock.now, lambda _: told.append("timer"))
    keeper.post(lambda: told.append("first"))
    keeper.post(lambda: told.append("second"))
    keeper.turn()
    assert told == ["first", "second", "timer"]


def test_a_turn_says_how_long_there_is_nothing_to_do(keeper: Keeper, clock: FakeClock) -> None:
    """A second at most, since Python's waits do not count the time that the machine sleeps."""
    assert keeper.turn() is None
    keeper.at(clock.now + SECOND // 4, lambda _: None)
    assert keeper.turn() == 0.25
    clock.now += SECOND // 4
    assert keeper.turn() is None
    keeper.at(clock.now + 100 * SECOND, lambda _: None)
    assert keeper.turn() == _keeper.LONGEST_PAUSE == 1.0


def test_what_a_turn_posts_is_done_in_the_next(keeper: Keeper) -> None:
    """So one who posts for ever cannot keep timers from their turn."""
    told: list[int] = []

    def again() -> None:
        told.append(1)
        keeper.post(again)

    keeper.post(again)
    assert keeper.turn() == 0.0
    assert told == [1]


def test_a_timer_may_set_timers(keeper: Keeper, clock: FakeClock) -> None:
    told: list[int] = []

    def due(at: int) -> None:
        told.append(at)
        if len(told) < 3:
            keeper.at(clock.now, due)

    keeper.at(clock.now, due)
    keeper.turn()
    assert told == [clock.now] * 3


@pytest.mark.parametrize("where", ["post", "at"])
def test_one_members_trouble_is_not_the_others(
    keeper: Keeper, clock: FakeClock, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fail(*_: object) -> None:
        raise KeyError("a bug")

    if where == "post":
        keeper.post(fail)
        keeper.post(lambda: told.append("next"))
    else:
        keeper.at(clock.now, fail)
        keeper.at(clock.now, lambda _: told.append("next"))
    keeper.turn()
    assert told == ["next"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def threads(name: str) -> int:
    """How many have a name."""
    return [thread.name for thread in threading.enumerate()].count(name)


def test_its_thread_does_what_is_posted_and_ends_when_it_has_nothing_to_do(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_keeper, "IDLE", 0.5)
    before = threads("mopslock-keeper")
    keeper = Keeper(clock)
    assert threads("mopslock-keeper") == before  # nothing to do, no thread
    told: list[str] = []
    done = threading.Event()
    for word in ("a", "b", "c"):
        keeper.post(lambda word=word: told.append(word))  # type: ignore[misc]
    keeper.post(lambda: told.append(threading.current_thread().name))
    keeper.post(done.set)
    assert done.wait(LONG)
    thread = keeper._thread
    assert thread is not None
    assert thread.daemon
    keeper.post(lambda: told.append("last"))
    thread.join(LONG)
    assert not thread.is_alive()
    assert told == ["a", "b", "c", "mopslock-keeper", "last"]


def test_its_thread_is_one_whoever_posts(clock: FakeClock) -> None:
    keeper = Keeper(clock)
    threads: set[int] = set()
    count = threading.Semaphore(0)
    start = threading.Barrier(8)

    def note() -> None:
        threads.add(threading.get_ident())
        count.release()

    def post() -> None:
        start.wait()
        for _ in range(50):
            keeper.post(note)

    posters = [threading.Thread(target=post) for _ in range(8)]
    for poster in posters:
        poster.start()
    for _ in range(400):
        assert count.acquire(timeout=LONG)
    for poster in posters:
        poster.join()
    assert len(threads) == 1


class Gate:
    """Jobs that wait until they are let through, and how many are in it."""

    def __init__(self) -> None:
        self.inside, self.most, self.done = 0, 0, 0
        self.threads: list[threading.Thread] = []
        self.changed = threading.Condition()
        self.open = False

    def job(self) -> None:
        with self.changed:
            self.threads.append(threading.current_thread())
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.open, LONG)
            self.inside -= 1
            self.done += 1
            self.changed.notify_all()

    def until(self, true: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(true, LONG)

    def let_through(self) -> None:
        with self.changed:
            self.open = True
            self.changed.notify_all()


def test_no_more_workers_than_the_bound() -> None:
    """What is too much waits for its turn, and gets it."""
    workers, gate = Workers(3), Gate()
    for _ in range(10):
        workers.submit(gate.job)
    gate.until(lambda: gate.inside == 3)
    assert workers._count == 3
    gate.let_through()
    gate.until(lambda: gate.done == 10)
    assert gate.most == 3
    assert len(set(gate.threads)) == 3


def test_a_worker_that_hangs_holds_up_nobody() -> None:
    workers, gate = Workers(8), Gate()
    workers.submit(gate.job)
    gate.until(lambda: gate.inside == 1)
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(LONG)
    gate.let_through()


def test_a_worker_that_is_idle_is_used_again() -> None:
    workers = Workers(8)
    used: set[threading.Thread] = set()
    for _ in range(20):
        gate = Gate()
        gate.let_through()
        workers.submit(gate.job)
        gate.until(lambda gate=gate: gate.done == 1)  # type: ignore[misc]
        idle(workers, 1)
        used.update(gate.threads)
    assert len(used) == 1


def idle(workers: Workers, count: int) -> None:
    """Until so many wait for work: a worker says so a moment after its job has ended."""
    pause = threading.Event()
    for _ in range(10_000):
        with workers._lock:
            if workers._waiting == count:
                return
        pause.wait(0.001)
    raise AssertionError(f"{workers._waiting} idle, not {count}")


def test_workers_that_have_nothing_to_do_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """And later work gets new ones."""
    monkeypatch.setattr(_keeper, "IDLE", 0.001)
    workers, gate = Workers(8), Gate()
    for _ in range(4):
        workers.submit(gate.job)
    gate.until(lambda: gate.inside == 4)
    gate.let_through()
    for thread in gate.threads:
        thread.join(LONG)
    assert (workers._count, workers._waiting) == (0, 0)
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(LONG)


def test_no_work_is_lost_while_workers_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them ends after no time at all, just as the next work comes."""
    monkeypatch.setattr(_keeper, "IDLE", 0.0)
    workers, done = Workers(2), threading.Semaphore(0)
    for _ in range(500):
        workers.submit(done.release)
    for _ in range(500):
        assert done.acquire(timeout=LONG)
        workers.submit(done.release)
    for _ in range(500):
        assert done.acquire(timeout=LONG)
    assert workers._count <= 2


def test_workers_are_daemons() -> None:
    """One that hangs on a dead store does not keep the process alive."""
    workers, gate = Workers(1), Gate()
    workers.submit(gate.job)
    gate.until(lambda: gate.inside == 1)
    assert gate.threads[0].daemon
    gate.let_through()


def test_callbacks_come_in_order_on_one_thread_and_what_they_raise_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notifier = Notifier()
    told: list[tuple[int, int]] = []
    done = threading.Event()
    for number in range(10):
        notifier.call(lambda number=number: told.append((number, threading.get_ident())))  # type: ignore[misc]
        if number == 4:
            notifier.call(lambda: int("a bug"))
    notifier.call(done.set)
    assert done.wait(LONG)
    assert [number for number, _ in told] == list(range(10))
    assert len({thread for _, thread in told} | {threading.get_ident()}) == 2
    assert ["a callback failed" in record.message for record in caplog.records] == [True]


def test_a_callback_that_blocks_delays_no_renewal() -> None:
    """Nor anything else of the keeper's: callbacks have a thread of their own."""
    from world import World  # noqa: PLC0415

    world = World()
    host = world.host()
    stuck, seen, end = threading.Event(), threading.Event(), threading.Event()
    lost, kept = world.lease(host, "lost"), world.lease(host, "kept")

    def block(_: object) -> None:
        stuck.set()
        end.wait(LONG)
        seen.set()

    Lease(lost, raise_if_lost=False, on_lost=block, release_timeout=1)
    world.store.write("lost", world.clock.wall())
    world.run(40)
    assert stuck.wait(LONG)
    world.run(600)
    assert not seen.is_set()
    assert kept.failure() is None
    assert world.store.record("kept")["write_count"] > 20
    end.set()
    assert seen.wait(LONG)

"""The thread that wakes machines, the threads that ask stores, and the one that calls back."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mopslock import _event_loop
from mopslock._event_loop import EventLoop, Lane, Workers
from mopslock._lease import Lease
from mopslock._notify import Notifier
from mopslock._units import SECOND
from ways import SOON, until
from world import FakeClock, World


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def loop(clock: FakeClock) -> EventLoop:
    """One that the test turns."""
    return EventLoop(clock, threaded=False)


@given(st.lists(st.integers(0, 20), max_size=30), st.lists(st.integers(1, 7), min_size=1, max_size=10))
def test_timers_come_in_their_order_never_early_and_each_once(instants: list[int], steps: list[int]) -> None:
    """Those of one instant in the order in which they were set."""
    clock = FakeClock()
    clock.now = 0
    loop = EventLoop(clock, threaded=False)
    told: list[tuple[int, int]] = []
    for number, instant in enumerate(instants):

        def due(at: int, number: int = number) -> None:
            assert at <= clock.now
            told.append((at, number))

        loop.at(instant, due)
    for step in steps:
        loop.turn()
        assert told == sorted((at, n) for n, at in enumerate(instants) if at <= clock.now)
        clock.now += step


def test_what_is_posted_comes_before_timers_and_in_order(
    loop: EventLoop, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer that is there is heard before its request is given up. A failure of one is not the others'."""
    told: list[str] = []

    def fail(*_: object) -> None:
        raise KeyError("a bug")

    loop.at(clock.now, fail)
    loop.at(clock.now, lambda _: told.append("timer"))
    loop.post(lambda: told.append("first"))
    loop.post(fail)
    loop.post(lambda: told.append("second"))
    loop.turn()
    assert told == ["first", "second", "timer"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2

    def again(*_: object) -> None:
        told.append("again")
        loop.post(again)

    loop.post(again)
    assert (loop.turn(), told[3:]) == (0.0, ["again"]), "timers get their turn, however much is posted"


def test_a_turn_says_how_long_there_is_nothing_to_do(loop: EventLoop, clock: FakeClock) -> None:
    """A second at most, since Python's waits do not count the time that the machine sleeps."""
    assert loop.turn() is None
    loop.at(clock.now + SECOND // 4, lambda _: None)
    assert loop.turn() == 0.25
    clock.now += SECOND // 4
    assert loop.turn() is None
    loop.at(clock.now + 100 * SECOND, lambda _: None)
    assert loop.turn() == _event_loop.LONGEST_PAUSE == 1.0


def test_its_thread_does_what_is_posted_and_ends_when_it_has_nothing_to_do(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_event_loop, "IDLE", 0.05)
    loop = EventLoop(clock)
    assert vars(loop)["_thread"] is None, "nothing to do, no thread"
    told: list[str] = []
    done = threading.Event()
    for word in ("a", "b", "c"):
        loop.post(lambda word=word: told.append(word))  # type: ignore[misc]
    loop.post(lambda: told.append(threading.current_thread().name))
    loop.post(done.set)
    assert done.wait(SOON)
    thread = loop._thread
    assert thread is not None
    assert thread.daemon
    thread.join(SOON)
    assert not thread.is_alive()
    loop.post(lambda: told.append("last"))
    until(lambda: told == ["a", "b", "c", "mopslock-loop", "last"])


def test_its_thread_is_one_for_all_that_post(clock: FakeClock) -> None:
    loop, told, start = EventLoop(clock), list[int](), threading.Barrier(8)

    def post(_: int) -> None:
        start.wait(SOON)
        for _ in range(50):
            loop.post(lambda: told.append(threading.get_ident()))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(post, range(8)))
    until(lambda: len(told) == 400)
    assert len(set(told)) == 1


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
            assert self.changed.wait_for(lambda: self.open, SOON)
            self.inside -= 1
            self.done += 1
            self.changed.notify_all()

    def until(self, true: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(true, SOON)

    def let_through(self) -> None:
        with self.changed:
            self.open = True
            self.changed.notify_all()


@pytest.mark.parametrize("most", [3, 8])
def test_no_more_workers_than_the_bound_and_none_that_has_nothing_to_do(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too much waits for its turn, and gets it. One that hangs keeps neither others nor the process."""
    workers, gate = Workers(most), Gate()
    submit = workers.submit if most == 3 else Lane(workers, 3).submit
    for _ in range(10):
        submit(gate.job)
    gate.until(lambda: gate.inside == 3)
    assert workers._count == 3
    assert all(thread.daemon for thread in gate.threads)
    monkeypatch.setattr(_event_loop, "IDLE", 0.001)
    gate.let_through()
    gate.until(lambda: gate.done == 10)
    assert gate.most == 3
    for thread in gate.threads:
        thread.join(SOON)
    assert (workers._count, workers._waiting) == (0, 0)
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(SOON)


def test_no_work_is_lost_while_workers_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them ends after no time at all, just as the next work comes."""
    monkeypatch.setattr(_event_loop, "IDLE", 0.0)
    workers, done = Workers(2), threading.Semaphore(0)
    for _ in range(500):
        workers.submit(done.release)
    for _ in range(500):
        assert done.acquire(timeout=SOON)
        workers.submit(done.release)
    for _ in range(500):
        assert done.acquire(timeout=SOON)
    assert workers._count <= 2


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
            notifier.call(lambda: sys.exit(3))
    notifier.call(done.set)
    assert done.wait(SOON)
    assert [number for number, _ in told] == list(range(10))
    assert len({thread for _, thread in told} | {threading.get_ident()}) == 2
    assert ["a callback failed" in record.message for record in caplog.records] == [True, True]


def test_a_callback_that_blocks_delays_no_renewal(world: World) -> None:
    """Nor anything else of the event loop's: callbacks have a thread of their own."""
    host = world.host()
    stuck, seen, end = threading.Event(), threading.Event(), threading.Event()
    lost, kept = world.lease(host, "lost"), world.lease(host, "kept")

    def block(_: object) -> None:
        stuck.set()
        end.wait(SOON)
        seen.set()

    Lease(lost, raise_if_lost=False, on_lost=block, release_timeout=1)
    world.store.write("lost", world.clock.wall())
    world.run(40)
    assert stuck.wait(SOON)
    world.run(600)
    assert not seen.is_set()
    assert kept.failure() is None
    assert world.store.record("kept")["write_count"] > 20
    end.set()
    assert seen.wait(SOON)

"""The thread that waits for time to pass, the threads that ask stores, and the one that calls back."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mopslock import _workers
from mopslock._lease import Lease
from mopslock._notify import Notifier
from mopslock._options import Block
from mopslock._own import threads
from mopslock._own.client import Client
from mopslock._own.clock import Clock
from mopslock._own.host import OwnHost
from mopslock._own.threads import Sleeper, Threads
from mopslock._own.verbs import NEVER
from mopslock._units import SECOND
from mopslock._workers import Do, Workers
from mopslock.terms import Terms
from ways import SOON, until
from world import FakeClock, FakeStore, World, claim


class Alarm:
    """Something that waits for its instants."""

    def __init__(self, clock: FakeClock, *instants: int) -> None:
        self.clock: Clock = clock
        self.expected = NEVER
        self.instants = [clock.now + instant for instant in sorted(instants)]
        self.told: list[int] = []

    def due(self) -> int:
        """The next one."""
        return self.instants[0] if self.instants else NEVER

    def pass_time(self) -> None:
        """It has come."""
        assert self.due() <= self.clock.mono()
        self.told.append(self.instants.pop(0))


@given(st.lists(st.lists(st.integers(0, 20), max_size=9), max_size=9), st.lists(st.integers(1, 7), min_size=1))
def test_what_is_due_is_woken_never_early_and_as_often(instants: list[list[int]], steps: list[int]) -> None:
    """Also what wants to be woken earlier than it said before."""
    sleeper, clock = Sleeper(Workers().submit), FakeClock()
    sleeper._thread = threading.current_thread()  # so that it begins none
    begin, alarms = clock.now, [Alarm(clock, *each) for each in instants]
    for alarm in alarms:
        late = alarm.instants
        alarm.instants = late[1:]
        sleeper.expect(alarm)
        alarm.instants = late
        sleeper.expect(alarm)
    for step in steps:
        sleeper.look()
        passed = clock.now - begin
        assert [len(alarm.told) for alarm in alarms] == [sum(at <= passed for at in each) for each in instants]
        clock.now += step


def test_the_sleeper_says_how_long_nothing_is_due(caplog: pytest.LogCaptureFixture) -> None:
    """A second at most, since Python's waits do not count the time that the machine sleeps. A failure of one is not the
    others'."""
    sleeper, clock = Sleeper(Workers().submit), FakeClock()
    sleeper._thread = threading.current_thread()
    bad, early, late = Alarm(clock, 0), Alarm(clock, 0, SECOND // 4), Alarm(clock, 100 * SECOND)

    def fail() -> None:
        bad.instants.clear()
        raise KeyError("a bug")

    bad.pass_time = fail  # type: ignore[method-assign]
    for alarm in (bad, early, late):
        sleeper.expect(alarm)
    assert (sleeper.look(), len(early.told)) == (0.25, 1)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    clock.now += SECOND // 4
    assert (sleeper.look(), len(early.told)) == (1.0, 2)
    late.instants.clear()
    sleeper._prune()
    assert sleeper.look() is None
    assert not sleeper._heap


def test_its_thread_begins_with_what_is_due_and_ends_when_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE", 0.05)
    sleeper = Sleeper(Workers().submit)
    sleeper.expect(Alarm(FakeClock()))
    assert vars(sleeper)["_thread"] is None, "nothing to do, no thread"
    for _ in range(2):
        alarm = Alarm(FakeClock(), 0)
        sleeper.expect(alarm)
        until(lambda: len(alarm.told) == 1)  # noqa: B023
        thread = sleeper._thread
        assert thread is None or thread.daemon
        until(lambda: sleeper._thread is None)


def test_a_renewal_is_made_by_the_thread_that_finds_it_due() -> None:
    """From the beat to the last answer: each change of threads can take as long as a C call that keeps the GIL. While
    that thread hangs the other one watches, and what is due is made by workers."""
    asked: list[tuple[str, threading.Thread]] = []
    handed: list[Do] = []
    clock, store, workers = FakeClock(), FakeStore(), Workers()

    def soon(job: Do) -> None:
        handed.append(job)
        workers.submit(job)

    store.creates = True
    store.fault = lambda verb, _: asked.append((verb, threading.current_thread()))
    sleeper = Sleeper(soon)
    share = Threads(workers, sleeper)
    share.soon = soon
    client = Client(store, clock, share, bytes(range(16)))
    host = OwnHost(store, client)
    lease = claim(host.begin_acquire("n", Terms(protocol="strict", ttl=60), 0, None).result())

    def begin_renewal() -> None:
        """When it is due, to the nanosecond: a thread that is late takes it that it was held up."""
        until(lambda: sleeper._spare)
        asked.clear()
        handed.clear()
        pass_until_due()

    def pass_until_due() -> None:
        clock.now = max(clock.now, client.due())
        sleeper.poke()

    def is_renewed_from(before: int) -> bool:
        if lease.until() == before:
            pass_until_due()
        return lease.until() > before

    for _ in range(4):
        before = lease.until()
        begin_renewal()
        until(lambda: lease.until() > before)  # noqa: B023
        until(lambda: sleeper._spare)
        assert [verb for verb, _ in asked] in (["put", "exists"], ["put", "exists", "get", "exists"])
        assert len({thread for _, thread in asked}) == 1
        assert not handed
    over = threading.Event()
    note = store.fault

    def hang(verb: str, key: str) -> None:
        note(verb, key)
        over.wait(SOON)

    store.fault = hang
    begin_renewal()
    until(lambda: len(asked) == 1)
    store.fault = note
    before = lease.until()
    until(lambda: is_renewed_from(before))
    over.set()
    assert asked[0][1] is not asked[1][1]
    host.close(SECOND)


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


def test_no_more_workers_than_the_bound_and_none_that_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much waits for its turn, and gets it. One that hangs keeps neither others nor the process."""
    workers, gate = Workers(3), Gate()
    for _ in range(10):
        workers.submit(gate.job)
    gate.until(lambda: gate.inside == 3)
    assert workers._count == 3
    assert all(thread.daemon for thread in gate.threads)
    monkeypatch.setattr(_workers, "IDLE", 0.001)
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
    monkeypatch.setattr(_workers, "IDLE", 0.0)
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

    held = Lease(lost, Block(on_lost=block))  # one that nobody has is given back, and loses nothing
    world.store.write("lost", world.clock.wall())
    world.run(40)
    assert stuck.wait(SOON)
    world.run(600)
    assert not seen.is_set()
    assert kept.failure() is None
    assert world.store.record("kept")["write_count"] > 20
    end.set()
    assert seen.wait(SOON)
    assert held.lost.is_set()

"""The thread that waits for time to pass, the threads that ask stores, and the one that calls back."""

from __future__ import annotations

import logging
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mopslock import _workers
from mopslock._own import threads
from mopslock._own.client import Client
from mopslock._own.clock import Clock
from mopslock._own.host import OwnHost
from mopslock._own.threads import Sleeper, Threads
from mopslock._own.verbs import NEVER
from mopslock._units import SECOND
from mopslock._workers import Do, Notifier, Workers
from mopslock.terms import Terms
from ways import SOON, until
from world import FakeClock, FakeStore, claim


class Alarm:
    """Something that waits for its instants."""

    def __init__(self, clock: FakeClock, *instants: int) -> None:
        self.clock: Clock = clock
        self.expected = NEVER
        self.instants = [clock.now + instant for instant in sorted(instants)]
        self.told: list[int] = []

    def due(self) -> int:
        return self.instants[0] if self.instants else NEVER

    def pass_time(self) -> None:
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
    over, hangs = threading.Event(), False
    clock, store, workers = FakeClock(), FakeStore(), Workers()

    def soon(job: Do) -> None:
        handed.append(job)
        workers.submit(job)

    def note(verb: str, _: str) -> None:
        asked.append((verb, threading.current_thread()))
        if hangs and len(asked) == 1:
            over.wait(SOON)

    store.creates, store.fault = True, note
    sleeper = Sleeper(soon)
    share = Threads(workers, sleeper)
    share.soon = soon
    client = Client(store, clock, share, bytes(range(16)))
    host = OwnHost(store, client)
    lease = claim(host.begin_acquire("n", Terms(protocol="strict", ttl=60), 0, None).result())

    def renew() -> None:
        """When it is due, to the nanosecond: a thread that is late takes it that it was held up."""
        until(lambda: sleeper._spare)
        asked.clear()
        handed.clear()
        before = lease.until()

        def is_renewed() -> bool:
            due = client.due()  # of nothing, while a step is under way
            if lease.until() == before and (not asked or hangs) and due < NEVER:
                clock.now = max(clock.now, due)
                sleeper.poke()
            return lease.until() > before

        until(is_renewed)

    for _ in range(4):
        renew()
        until(lambda: sleeper._spare)
        assert [verb for verb, _ in asked] in (["put", "exists"], ["put", "exists", "get", "exists"])
        assert len({thread for _, thread in asked}) == 1
        assert not handed
    hangs = True
    renew()
    over.set()
    assert asked[0][1] is not asked[1][1]
    host.close(SECOND)


def test_no_more_workers_than_the_bound_and_none_that_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much waits for its turn, and gets it. One that hangs keeps neither others nor the process."""
    workers, go_on = Workers(3), threading.Event()
    began, done, seen, counts = threading.Semaphore(0), threading.Semaphore(0), set[threading.Thread](), list[int]()

    def job() -> None:
        seen.add(threading.current_thread())
        counts.append(workers._count)
        began.release()
        assert go_on.wait(SOON)
        done.release()

    for _ in range(10):
        workers.submit(job)
    for _ in range(3):
        assert began.acquire(timeout=SOON)
    assert (len(seen), all(thread.daemon for thread in seen)) == (3, True)
    monkeypatch.setattr(_workers, "IDLE", 0.001)
    go_on.set()
    for _ in range(10):
        assert done.acquire(timeout=SOON)
    for thread in seen:
        thread.join(SOON)
    assert (max(counts), workers._count, workers._waiting) == (3, 0, 0)
    workers.submit(done.release)
    assert done.acquire(timeout=SOON)


def test_no_work_is_lost_while_workers_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them ends after no time at all, just as the next work comes."""
    monkeypatch.setattr(_workers, "IDLE", 0.0)
    workers, done = Workers(2), threading.Semaphore(500)
    for _ in range(1000):
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
    assert {record.filename for record in caplog.records} == {"_workers.py"}, "a line of the log says where it is from"

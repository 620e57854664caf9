"""Many threads and many leases: nothing costs a thread each, and nothing is lost."""

from __future__ import annotations

import collections
import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any
from unittest import mock

import pytest

import mopslock
from mopslock import _workers
from mopslock._future import Future
from mopslock._own import client
from mopslock._own import threads as own_threads
from ways import LIVES, SOON, Place, later, program, said, until
from world import FakeStore

MANY = 300


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_many_leases_cost_no_thread_each(place: Place) -> None:
    before, before_os = set(threading.enumerate()), len(os.listdir("/proc/self/task"))
    with ThreadPoolExecutor(4) as pool:
        leases = list(pool.map(lambda i: mopslock.acquire(place.store, f"n{i}", ttl=LIVES), range(MANY)))
    written = [lease.left for lease in leases]
    later(LIVES / 3)
    if place.way == "own":
        until(lambda: all(lease.left > left - 1 for lease, left in zip(leases, written, strict=True)))  # renewed
    kinds = collections.Counter(thread.name for thread in threading.enumerate() if thread not in before)
    most: Any = {"mopslock-notifier": 1}
    if place.way == "own":
        most |= {"mopslock-sleeper": 2, "mopslock-store": client.IN_FLIGHT + 4}  # four callers have asked, too
    else:
        most |= {"mopslock-keeper-in": 1, "mopslock-keeper-out": 1, "mopslock-store": 4}
    assert kinds == kinds & collections.Counter(most), kinds
    assert len(os.listdir("/proc/self/task")) - before_os <= 64 + 32, "64 requests by URL, and a runtime's few"
    for lease in leases:
        lease.check()
    mopslock.close(place.store, timeout=SOON)
    assert all(place.released(f"n{i}") for i in range(MANY))


def test_hosts_of_unused_stores_cost_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "IDLE", 0.05)
    monkeypatch.setattr(own_threads, "IDLE", 0.05)
    before = set(threading.enumerate())
    for i in range(10):
        with mopslock.lease(Place.of("own", place.root).store, f"own{i}", ttl=LIVES):
            pass
        mopslock.acquire(place.store, f"n{i}", ttl=LIVES)
        mopslock.close(place.store)
        assert place.released(f"n{i}")
    until(lambda: {t.name for t in threading.enumerate() if t not in before} <= {"mopslock-notifier"})


def test_a_store_that_hangs_on_some_names_loses_no_other() -> None:
    store = FakeStore()

    def acquired(kind: str) -> list[mopslock.Lease]:
        return [mopslock.acquire(store, f"{kind}{i}", ttl=LIVES, raise_if_lost=False) for i in range(12)]

    bad, good = acquired("bad"), acquired("good")
    over = store.silence("bad")
    for _ in range(4):
        later(LIVES / 3)
        until(lambda: min(lease.left for lease in good) > LIVES / 2)
    assert all(lease.lost.wait(SOON) for lease in bad)
    for lease in good:
        lease.release()
    over.set()


def test_acquire_release_and_close_under_each_other_never_hang_or_leave_anything_held(place: Place) -> None:
    over = threading.Event()

    def work(i: int) -> None:
        while not over.is_set():
            try:
                with mopslock.lease(place.store, f"n{i}", ttl=LIVES, wait=SOON):
                    pass
            except (mopslock.Closed, mopslock.Held):
                continue

    with ThreadPoolExecutor(6) as pool:
        working = [pool.submit(work, i) for i in range(6)]
        for _ in range(20):
            mopslock.close(place.store, timeout=SOON)
        over.set()
        assert [future.result(SOON) for future in working] == [None] * 6
    mopslock.close(place.store, timeout=SOON)
    until(lambda: all(place.released(f"n{i}") for i in range(6) if place.path(f"n{i}").exists()))


def test_the_callers_thread_takes_no_lock_that_is_written_in_python(place: Place) -> None:
    """A KeyboardInterrupt between two lines of such a lock leaves it locked forever. If the thread that keeps all
    leases needs it, all leases expire."""
    taken: list[str] = []

    def watch(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code is threading.Condition.__enter__.__code__:
            taken.append("".join(traceback.format_stack(frame)))

    mopslock.inspect(place.store, "n")  # opens the store: what an interrupt leaves behind then is known to nobody
    limiter = mopslock.Limiter()
    sys.settrace(watch)
    try:
        lease = mopslock.acquire(place.store, "n", ttl=LIVES)
        lease.lost.wait(0)
        never = (mopslock.NotAcquired, mopslock.StoreError)  # a slow store may not have answered
        with pytest.raises(never), mopslock.accompany(lease.text, store=place.store):
            mopslock.acquire(place.store, "n", wait=0.01)
        lease.release()
        with mopslock.permit(place.store, "p", capacity=1, ttl=LIVES):
            pass
        with pytest.raises(mopslock.Full), limiter.permit("l", capacity=1), limiter.permit("l", capacity=1, wait=0.01):
            pass
        mopslock.set_limit(place.store, "p", 2)
        assert mopslock.invoke(place.store, "i", lambda work: work.name.encode()).read() == b"i"
    finally:
        sys.settrace(None)
    assert not taken, taken[0]


def test_all_are_told_although_the_teller_is_interrupted() -> None:
    told: list[object] = []

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    begun, settled, calls = Future[int](), Future[int](), [interrupt, told.append]
    for future in (begun, settled):
        for call in calls:
            future.add_done_callback(call)
    with mock.patch.object(Future, "_tell", interrupt), pytest.raises(KeyboardInterrupt):
        begun.settle(1)
    for tell in (begun.cancel, lambda: settled.settle(1)):
        with pytest.raises(KeyboardInterrupt):
            tell()
    assert (told, begun.result()) == ([begun, settled], 1)


def test_a_wait_whose_time_is_over_as_it_begins_ends() -> None:
    for _ in range(20_000):
        assert not Future[None]().wait(1e-6)


def test_a_signal_that_no_wait_is_broken_by_is_heard() -> None:
    """Such as one that comes just before the wait, or that the system gives to another thread, as here."""
    code = """
import os, signal, sys, threading
from mopslock._future import Bell
def interrupt():
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
try:
    print("waits", flush=True)
    Bell().wait(None)
except KeyboardInterrupt:
    print("heard", flush=True)
"""
    with program(code) as process:
        assert said(process) == "waits"
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
        assert said(process) == "heard"

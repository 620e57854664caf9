"""Stores of users on their worst days, slow or silent: none of them strands a caller or costs another its lease.

Whether they come in time is no question here: what must not hang has a minute.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _stepped, _verbs, stores
from mopslock._asks import MOST_OF_ONE_KEY, Asks
from mopslock._clock import System
from mopslock._event_loop import MOST_THREADS, MOST_WORKERS, Do, Lane, Workers
from mopslock._units import SECOND
from test_stores import fsspec_local
from ways import LIVES, SOON, ended, program, until
from world import FakeClock, FakeStore, PlainStore

THREADS = 8


# Silence.


def test_no_call_waits_for_a_store_that_is_silent_longer_than_it_was_told() -> None:
    store = FakeStore()
    over = store.silence()
    with ThreadPoolExecutor(3) as pool:
        calls: list[Future[Any]] = [
            pool.submit(lambda: mopslock.acquire(store, "n", ttl=0.5, wait=0.1)),
            pool.submit(lambda: mopslock.inspect(store, "n", timeout=0.05)),
            pool.submit(lambda: list(mopslock.ls(store, timeout=0.05))),
        ]
        assert all(isinstance(call.exception(SOON), (mopslock.Unreachable, mopslock.WaitOver)) for call in calls)
        over.set()


def test_what_is_not_released_in_time_is_tried_on() -> None:
    store = PlainStore()
    mopslock.acquire(store, "n", ttl=30)
    over = store.silence()
    with pytest.raises(mopslock.NotReleased):
        mopslock.close(store, timeout=0.1)
    over.set()
    until(lambda: store.holder("n") is None)


def test_callers_of_a_silent_key_take_no_worker_from_a_lease() -> None:
    store = FakeStore()
    over = store.silence("bad")
    before = [thread.name for thread in threading.enumerate()].count("mopslock-store")
    try:
        for _ in range(40):
            with pytest.raises(mopslock.StoreError):  # Unreachable if it was asked before the time was over
                mopslock.inspect(store, "bad", timeout=0.01)
        mopslock.acquire(store, "good", ttl=LIVES).release()
        assert [thread.name for thread in threading.enumerate()].count("mopslock-store") - before <= 4
    finally:
        over.set()


# What is left behind.


def test_released_leases_are_let_go_of_at_once() -> None:
    """And not kept, with all they hold, until the instants at which they would have been renewed."""
    store, timers = stores.Memory(), _stepped._shared.loop._timers
    before = len(timers)
    for _ in range(500):
        mopslock.acquire(store, "n").release()
    until(lambda: sum(entry[2].due is not None for entry in _stepped._shared.loop._timers) <= before + 8)
    assert len(_stepped._shared.loop._timers) < 500


def test_what_is_no_time_and_no_duration_is_refused_or_unknown() -> None:
    store = PlainStore()
    for duration in (1e300, 10**400):
        with mopslock.lease(store, "n", wait=duration):
            pass
    for url in ("file:///tmp\0/elsewhere", "file:///tmp/\udc80"):
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire(url, "n")
    stamps: list[Any] = [None, -1, 1 << 63, 10**30, "noon"]
    store.get = lambda key: stores.Blob(b"{}", stamps[0])  # type: ignore[method-assign, return-value, assignment]
    assert mopslock.inspect(store, "n").state == "corrupt"
    while len(stamps) > 1:
        stamps.pop(0)
        with pytest.raises(mopslock.StoreError):
            mopslock.inspect(store, "n", timeout=0.1)


def test_credentials_that_the_program_sets_itself_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Go library would know only those that the process was started with."""
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    code = """
from mopslock._hosts import host_of
os.environ["AZURE_STORAGE_ACCOUNT"], os.environ["AZURE_STORAGE_KEY"] = "account", "a2V5"
host_of("azblob://container/x")
"""
    with program(code) as process:
        status, _, error = ended(process)
        assert status == 0, error


# Many threads on one name of a store whose verbs take their time: each of them is served.


def own(_: Path) -> stores.Store:
    """A store whose verbs run on workers, as those of a cloud do."""
    return FakeStore()


def slow(store: Any) -> None:
    """The first request of each thread is answered once all threads have made theirs."""
    together, met = threading.Barrier(THREADS), threading.Event()

    def slowly(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if not met.is_set():
                together.wait(SOON)
                met.set()
            return verb(*given)

        return call

    for verb in _verbs.VERBS:
        setattr(store, verb, slowly(getattr(store, verb)))


def threads(do: Callable[[], Any]) -> list[Any]:
    """What the call comes to in each of them."""
    with ThreadPoolExecutor(THREADS) as pool:
        return [future.result(SOON) for future in [pool.submit(do) for _ in range(THREADS)]]


@pytest.mark.parametrize("make", [own, fsspec_local], ids=lambda make: make.__name__)
def test_all_threads_on_one_name_are_served(make: Callable[[Path], Any], tmp_path: Path) -> None:
    def hold(name: str, protocol: Any) -> int:
        # Under lastwriter a thread that is held up may lose the lease to the next one. It was served all the same.
        held = mopslock.lease(store, name, ttl=LIVES, protocol=protocol)
        with contextlib.suppress(mopslock.LeaseTaken), held as lease:
            token = lease.fencing_token
        return token

    store = make(tmp_path)
    slow(store)
    assert threads(lambda: hold("old", "lastwriter")) == [0] * THREADS
    slow(store)
    assert len(set(threads(lambda: hold("new", "strict")))) == THREADS
    with mopslock.lease(store, "seen", ttl=LIVES) as lease:
        slow(store)
        assert [seen.holder for seen in threads(lambda: mopslock.inspect(store, "seen"))] == [lease.holder] * THREADS
    together = threading.Barrier(THREADS)

    def share() -> int:
        with mopslock.permit(store, "p", capacity=THREADS, ttl=LIVES) as permit:
            together.wait(SOON)
            return permit.weight

    assert sum(threads(share)) == THREADS


# Requests of callers who wait on threads of their own.


def get(asks: Asks, store: stores.Store, key: str, request: int = 1, seconds: float = 60) -> dict[str, Any]:
    return asks.ask(store, {"kind": "get", "request": request, "key": key}, round(seconds * SECOND))


def test_what_is_asked_for_while_two_requests_hang_is_done_when_one_comes_back() -> None:
    """A request hangs once its caller has stopped waiting. A third for the same key is not begun meanwhile."""
    store, asks = PlainStore(), Asks(System(), Lane(Workers(8)).submit)
    over = store.silence("bad")
    until(lambda: get(asks, store, "bad", seconds=0.05)["outcome"] == "unknown" and len(store.log) == 2)
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(get, asks, store, "bad")
        until(lambda: asks._held_back)
        assert get(asks, store, "good")["outcome"] == "no"
        assert store.lines == ["get bad", "get bad", "get good"]
        over.set()
        assert third.result(SOON)["outcome"] == "no"
    until(lambda: not asks._under_way)
    assert not asks._held_back


def test_bursts_on_three_keys_that_hang_leave_workers_for_a_fourth_key() -> None:
    store, burst = PlainStore(), MOST_WORKERS + 1
    asks = Asks(FakeClock(), Lane(Workers(MOST_THREADS)).submit)
    bad, over = ["bad1", "bad2", "bad3"] * burst, store.silence("bad")
    with ThreadPoolExecutor(len(bad)) as pool:
        try:
            hanging = [pool.submit(get, asks, store, key) for key in bad]
            until(lambda: len(asks._held_back) == 3 * (burst - MOST_OF_ONE_KEY))
            assert get(asks, store, "good")["outcome"] == "no"
        finally:
            over.set()
        assert [one.result(SOON)["outcome"] for one in hanging] == ["no"] * len(bad)


def test_callers_of_one_slow_key_are_served_in_their_order() -> None:
    """Except a caller that left before its request was begun. What is begun goes into jobs, for the test to run."""
    jobs, count, store = list[Do](), MOST_WORKERS + 8, PlainStore()
    asks, callers = Asks(FakeClock(), jobs.append), list[Future[dict[str, Any]]]()
    with ThreadPoolExecutor(count) as pool:
        for number in range(count):
            callers.append(pool.submit(get, asks, store, "slow", number))
            until(lambda: len(jobs) + len(asks._held_back) == len(callers))
            if number == MOST_OF_ONE_KEY:
                assert get(asks, store, "slow", count, seconds=0)["outcome"] == "unknown"
        for number, caller in enumerate(callers):
            assert len(jobs) == min(number + MOST_OF_ONE_KEY, count)
            jobs[number]()
            answer = caller.result(SOON)
            assert (answer["request"], answer["outcome"]) == (number, "no")
    assert len(jobs) == count

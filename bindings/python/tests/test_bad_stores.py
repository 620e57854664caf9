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
from mopslock import _hosts, stores
from mopslock._own import verbs
from mopslock._own.threads import MOST_ASKING, MOST_LATE, Lane
from test_stores import fsspec_local
from ways import LIVES, SOON, ended, program, until
from world import FakeStore, PlainStore

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
    store = stores.Memory()
    for _ in range(500):
        mopslock.acquire(store, "n").release()
    client = _hosts.host_of(store).client  # type: ignore[attr-defined]
    until(lambda: not client.claims and not client._under_way)


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

    for verb in verbs.VERBS:
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


# The threads of one store.


class Asked:
    """A request, as a lane sees it."""

    def __init__(self, key: str) -> None:
        self.key, self.late = key, False

    def perform(self) -> None:
        """Nobody asks this of it."""
        raise AssertionError


def test_a_third_request_of_a_key_whose_two_others_hang_waits_for_one_of_them() -> None:
    """A request hangs when it was answered for the store, which is still at it."""
    lane, bad = Lane(), [Asked("bad") for _ in range(MOST_LATE + 2)]
    hanging, third, fourth = bad[:MOST_LATE], bad[-2], bad[-1]
    for request in hanging:
        assert lane.take(request)
        lane.overdue(request)
    assert not lane.take(third)
    assert not lane.take(fourth)
    good = Asked("good")
    assert lane.take(good)
    assert lane.leave(good) is None
    lane.overdue(third)  # it has waited too long
    assert lane.leave(hanging[0]) is fourth
    assert lane.leave(hanging[1]) is lane.leave(fourth) is None
    assert not lane._asking
    assert not lane._late


def test_no_more_than_so_many_are_asked_at_once_and_the_others_in_their_order() -> None:
    lane, asked = Lane(), [Asked(str(number)) for number in range(MOST_ASKING + 2)]
    assert [lane.take(request) for request in asked] == [True] * MOST_ASKING + [False] * 2
    assert [lane.leave(request) for request in asked[:3]] == [*asked[-2:], None]

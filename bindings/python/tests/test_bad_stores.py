"""Stores and callbacks of users on their worst days: none of them strands a caller or costs another its lease."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import stores
from ways import LIVES, NOTICES, SOON, until

SHORT = SOON
"""Seconds within which what must not hang has come back."""


class Odd:
    """A memory whose verbs run on workers, as those of a cloud do, and first do what they are told to."""

    def __init__(self) -> None:
        self.memory = stores.Memory()
        self.first: Callable[[str, str], object] = lambda verb, key: None

    def get(self, key: str) -> stores.Blob | None:
        self.first("get", key)
        return self.memory.get(key)

    def put(self, key: str, body: bytes) -> None:
        self.first("put", key)
        self.memory.put(key, body)

    def exists(self, key: str) -> bool:
        return self.memory.exists(key)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        self.first("list", prefix)
        return self.memory.list(prefix)


class Hang:
    """Hangs until the test is over."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, verb: str, key: str) -> None:
        self.over.wait(60)


def within(seconds: float, do: Callable[[], object]) -> Any:
    """What a call on another thread has come to, or a failure if it has not come back."""
    came: list[object] = []

    def run() -> None:
        try:
            came.append(do())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert came, "it hangs"
    return came[0]


def test_no_call_waits_for_a_store_that_hangs_longer_than_it_was_told() -> None:
    store, hang = Odd(), Hang()
    store.first = hang
    try:
        for call in (
            lambda: mopslock.acquire(store, "n", ttl=3, wait=1),
            lambda: mopslock.try_acquire(store, "n", ttl=3),
            lambda: mopslock.inspect(store, "n", timeout=0.5),
            lambda: list(mopslock.ls(store, timeout=0.5)),
        ):
            assert isinstance(within(SHORT, call), (mopslock.Unreachable, mopslock.WaitOver))
    finally:
        hang.over.set()


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_store_raises_ends_no_worker(kind: type[BaseException]) -> None:
    store = Odd()
    bad = [mopslock.acquire(store, f"bad{i}", ttl=0.5) for i in range(8)]

    def fail(verb: str, key: str) -> None:
        if key.startswith("bad"):
            raise kind

    store.first = fail
    with mopslock.acquire(store, "good", ttl=NOTICES) as good:
        for lease in bad:
            assert lease.lost.wait(SOON)
        good.check()
        store.first = lambda verb, key: None
        mopslock.acquire(store, "bad0", ttl=LIVES).release()


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit])
def test_a_lease_outlives_whatever_its_store_raises_for_a_while(kind: type[BaseException]) -> None:
    store, left = Odd(), [None] * 4

    def fail(verb: str, key: str) -> None:
        if left:
            left.pop()
            raise kind

    with mopslock.acquire(store, "n", ttl=6) as lease:
        store.first = fail
        until(lambda: not left)
        written = store.memory.get("n/lock.json")
        until(lambda: store.memory.get("n/lock.json") != written)
        lease.check()


def test_a_callback_that_exits_or_hangs_keeps_nobody_else_from_hearing() -> None:
    store, over = stores.Memory(), threading.Event()
    told: list[str] = []
    try:
        hanging = mopslock.acquire(store, "hangs", ttl=30, on_lost=lambda _: over.wait(60))
        exiting = mopslock.acquire(store, "exits", ttl=30, on_lost=lambda _: sys.exit(3))
        heard = mopslock.acquire(store, "heard", ttl=30, on_lost=lambda _: told.append("heard"))
        for lease in (exiting, heard, hanging):
            steal(store, lease.name, lease.holder)
        for lease in (exiting, heard, hanging):
            assert lease.lost.wait(SOON * 4)
            assert isinstance(within(SHORT, lease.check), mopslock.LeaseTaken)
    finally:
        over.set()
    until(lambda: told == ["heard"])


def steal(store: stores.Memory, name: str, holder: str) -> None:
    key = f"{name}/lock.json"
    found = store.get(key)
    assert found is not None
    store.put(key, found.body.replace(holder.encode(), b"thief"))


def test_closing_without_time_strands_nobody_who_waits() -> None:
    store = stores.Memory()
    held = mopslock.acquire(store, "n", ttl=30)
    result: list[object] = []
    waits = threading.Event()

    def wait() -> None:
        try:
            result.append(mopslock.acquire(store, "n", ttl=30, on_waiting=lambda _: waits.set()))
        except mopslock.MopslockError as error:
            result.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    assert waits.wait(SOON)
    with pytest.raises(mopslock.NotReleased):
        mopslock.close(store, timeout=0)
    waiter.join(SHORT)
    assert [type(one) for one in result] == [mopslock.Closed]
    within(SHORT, lambda: held.release(timeout=None))
    until(lambda: mopslock.inspect(store, "n").state == "released")


def test_what_is_not_released_in_time_is_tried_on() -> None:
    store, hang = Odd(), Hang()
    mopslock.acquire(store, "n", ttl=30)
    store.first = hang
    with pytest.raises(mopslock.NotReleased):
        mopslock.close(store, timeout=0.1)
    hang.over.set()
    until(lambda: b'"released_at": "2' in (store.memory.get("n/lock.json") or stores.Blob(b"")).body)


def test_released_leases_are_let_go_of_at_once() -> None:
    """And not kept, with all they hold, until the instants at which they would have been renewed."""
    from mopslock import _stepped  # noqa: PLC0415

    store, timers = stores.Memory(), _stepped._shared.keeper._timers
    before = len(timers)
    for _ in range(500):
        mopslock.acquire(store, "n").release()
    until(lambda: sum(entry[2].due is not None for entry in _stepped._shared.keeper._timers) <= before + 8)
    assert len(_stepped._shared.keeper._timers) < 500


def test_many_store_objects_cost_no_thread_each(tmp_path: Path) -> None:
    before = threading.active_count()
    for number in range(100):
        with mopslock.lease(stores.Directory(tmp_path / str(number)), "n"):
            pass
    assert threading.active_count() <= before + 16


def test_what_is_no_time_and_no_duration_is_refused_or_unknown() -> None:
    store = Odd()
    for duration in (1e300, 10**400):
        with mopslock.lease(store, "n", wait=duration):
            pass
    with pytest.raises(mopslock.BadArgument):
        mopslock.acquire("file:///tmp\0/elsewhere", "n")
    with pytest.raises(mopslock.BadArgument):
        mopslock.acquire("file:///tmp/\udc80", "n")
    stamps: list[Any] = [None, -1, 1 << 63, 10**30, "noon"]
    store.memory.get = lambda key: stores.Blob(b"{}", stamps[0])  # type: ignore[method-assign]
    assert mopslock.inspect(store, "n").state == "corrupt"
    while len(stamps) > 1:
        stamps.pop(0)
        with pytest.raises(mopslock.StoreError):
            mopslock.inspect(store, "n", timeout=0.1)


def test_credentials_that_the_program_sets_itself_are_found() -> None:
    """A Go library would know only those that the process was started with."""
    code = """
import os, mopslock
from mopslock._hosts import host_of
os.environ["AZURE_STORAGE_ACCOUNT"], os.environ["AZURE_STORAGE_KEY"] = "account", "a2V5"
host_of("azblob://container/x")
print("opened")
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AZURE_")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("opened\n", 0), done.stderr


def test_those_who_ask_for_what_hangs_take_no_worker_from_a_lease() -> None:
    store, hang = Odd(), Hang()
    store.first = lambda verb, key: hang(verb, key) if key.startswith("bad") else None
    before = len([thread for thread in threading.enumerate() if thread.name == "mopslock-store"])
    with mopslock.acquire(store, "good", ttl=NOTICES) as good:
        for _ in range(40):
            with pytest.raises(mopslock.StoreError):  # Unreachable if it was asked before the time was over
                mopslock.inspect(store, "bad", timeout=0.05)
        believed = good.deadline
        until(lambda: good.lost or good.deadline > believed)
        good.check()
        workers = [thread for thread in threading.enumerate() if thread.name == "mopslock-store"]
        assert len(workers) - before <= 4
        hang.over.set()


def test_a_put_that_lands_after_its_claim_was_given_up_is_released_too() -> None:
    """The interrupt reaches whoever waits, and not the worker that is about to put."""
    code = """
import os, signal, sys, threading, time, mopslock
from mopslock import stores
memory, late = stores.Memory(), threading.Event()
class Late:
    get, exists = memory.get, memory.exists
    def put(self, key, body):
        if not late.is_set():
            late.set()
            os.kill(os.getpid(), signal.SIGINT)  # of the process, so that it wakes the main thread
            time.sleep(0.3)  # and gives the claim up meanwhile
        memory.put(key, body)
try: mopslock.acquire(Late(), "n", ttl=60)
except KeyboardInterrupt: print("interrupted")
end = time.monotonic() + 20
released = lambda: b'"released_at": "2' in (memory.get("n/lock.json") or [b""])[0]
while time.monotonic() < end and not released(): time.sleep(0.01)  # bounded
print(mopslock.inspect(memory, "n").state)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50)
    assert done.stdout == "interrupted\nreleased\n", done.stderr

"""File events of a Directory, beyond the rule of storetest: where there are none, and how their thread ends."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _watcher, stores
from mopslock._own.client import Client
from mopslock._own.clock import System
from ways import LIVES, SOON, ended, forked, program, said, until
from world import Turned, World

pytestmark = pytest.mark.skipif(not _watcher.is_there(), reason="watchfiles is not installed")


def told(store: stores.Directory, key: str) -> threading.Event:
    """Set at each change."""
    assert store.watch
    event = threading.Event()
    store.watch(key, event.set)
    return event


def test_without_watchfiles_there_is_no_such_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores.Directory(tmp_path)
    assert Client(store, System(), Turned(World()))._config()["watches"] is True
    monkeypatch.setattr(stores, "is_there", lambda: False)
    assert store.watch is None
    assert "watches" not in Client(store, System(), Turned(World()))._config()


def test_where_nothing_can_be_watched_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system has no watches left. Those that there are go on."""
    store = stores.Directory(tmp_path)
    store.put("a/k", b"1")
    first = told(store, "a/k")
    store.put("b/k", b"1")

    def refused(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refused)
    with pytest.raises(OSError, match="no space left"):
        told(store, "b/k")
    store.put("a/k", b"2")
    assert first.wait(SOON)


def test_the_thread_ends_when_it_has_nothing_to_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watcher, "IDLE", 0.0)
    store, unregistered, forget = stores.Directory(tmp_path), list[bool](), atexit.unregister

    def unregister(end: Any) -> None:
        if end == store._watcher._end:  # and not that of another test's store
            unregistered.append(store._watcher._thread is threading.current_thread())
        forget(end)

    monkeypatch.setattr(atexit, "unregister", unregister)
    assert store.watch
    for _ in range(2):
        stop = store.watch("n/k", lambda: None)
        assert store._watcher._thread
        stop()
        until(lambda: store._watcher._thread is None)
    assert unregistered == [True] * 2, "before another thread can begin, whose end would be forgotten"


def test_who_waits_is_told_across_processes_and_ends_well(tmp_path: Path) -> None:
    """The lease that another process gives back is taken without a poll, and nothing is left that keeps it alive."""
    store = stores.Directory(tmp_path)
    held = mopslock.acquire(store, "n", protocol="strict", ttl=LIVES)
    code = f"""
from mopslock._own import watches
store, begun = mopslock.stores.Directory({str(tmp_path)!r}), watches.Watches._made
def made(self, watch, stop):
    begun(self, watch, stop)
    print("watches")
watches.Watches._made = made
lease = mopslock.acquire(store, "n", protocol="strict", wait=60)
print("held", store._watcher._thread.name)
"""
    with program(code) as process:
        assert said(process) == "watches"
        held.release()
        until(lambda: said(process) == "held mopslock-watcher")
        assert ended(process)[0] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_watches_by_itself(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path)
    store.put("n/k", b"1")
    parents = told(store, "n/k")

    def child() -> bool:
        own = told(store, "n/k")
        store.put("n/k", b"2")
        return own.wait(SOON)

    assert forked(child) is True
    assert parents.wait(SOON)
    parents.clear()
    store.put("n/k", b"3")
    assert parents.wait(SOON)


def test_many_names_are_watched_by_one_thread(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path)
    events = [told(store, f"n{number}/_mopslock/ff/v") for number in range(30)]
    for number in range(30):
        assert store.create(f"n{number}/_mopslock/ff/v", b"") is True
    assert all(event.wait(SOON) for event in events)
    names = [thread.name for thread in threading.enumerate() if thread is store._watcher._thread]
    assert names == ["mopslock-watcher"]

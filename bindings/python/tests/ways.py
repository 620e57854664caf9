"""The two ways to a store, for tests that hold one API against both: a URL, and an object of one's own.

What is waited for is an event: a record, a line of a child, its end. SOON is the one bound on all of it, there to end a
test that hangs. Time that a host of Python's is to see go by is moved on by ``later``, and takes none.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

import mopslock
from mopslock import _options
from mopslock._own import host, keeper
from mopslock._own.clock import System
from mopslock._own.threads import shared
from mopslock._units import SECOND
from mopslock.stores import Directory
from mopslock.terms import Terms

T = TypeVar("T")
WAYS = ("url", "own")
SOON = 60.0
"""Seconds after which what is waited for hangs."""
NOTICES = 2.5
"""The TTL of a lease that is to notice something: within a third of it."""
LIVES = 30.0
"""The TTL of a lease that is only held."""


class Movable(System):
    """This machine's clocks, moved on by all that ``later`` was told."""

    moved = 0

    def mono(self) -> int:
        return super().mono() + Movable.moved

    def wall(self) -> int:
        return super().wall() + Movable.moved


@contextlib.contextmanager
def movable() -> Iterator[None]:
    """Within, the hosts that Python steps have a clock that ``later`` moves."""
    with mock.patch.object(host, "System", Movable):
        try:
            yield
        finally:
            Movable.moved = 0


def later(seconds: float) -> None:
    """So much time has passed, and what was due in it is done now."""
    Movable.moved += round(seconds * SECOND)
    shared.sleeper.poke()


@dataclass(frozen=True)
class Place:
    """A directory with leases, and one way to it."""

    way: str
    root: Path
    store: Any
    protocol: Any = "lastwriter"
    api: Any = mopslock

    @classmethod
    def of(cls, way: str, root: Path) -> Place:
        """A place with a store object, and so a host, of its own."""
        return cls(way, root, root.as_uri() if way == "url" else Directory(root))

    def other(self) -> Place:
        """The same directory by the other way."""
        way = "own" if self.way == "url" else "url"
        return replace(Place.of(way, self.root), protocol=self.protocol)

    @property
    def code(self) -> str:
        """The store as a program of Python has it."""
        return repr(self.store) if self.way == "url" else f"mopslock.stores.{self.store!r}"

    def holder(self, name: str) -> str:
        """Whose the record is."""
        return str(self.record(name)["tenure" if self.protocol == "strict" else "writer_id"])

    def path(self, name: str) -> Path:
        """Where a name's record is: under strict its newest version, or where the first one will be."""
        if self.protocol == "lastwriter":
            return self.root / name / "lock.json"
        register = self.root / name / "_mopslock"
        return min(register.glob("*/v"), default=register / "fffffffffffffffe" / "v")

    def record(self, name: str) -> dict[str, Any]:
        """A name's record, as its bytes say."""
        record: dict[str, Any] = json.loads(self.path(name).read_bytes())
        return record

    def released(self, name: str) -> bool:
        """Whether the record says so."""
        record = self.record(name)
        return bool(record["state"] == "released" if self.protocol == "strict" else record["released_at"])

    def freed(self, name: str) -> bool:
        """Whether there is a record, and it says so."""
        return self.path(name).exists() and self.released(name)

    def write(self, name: str, **fields: Any) -> None:
        """Puts a record of lastwriter's behind everybody's back, made of the one that is there or a live stranger's."""
        now = stamp(0)
        record = {
            "writer_id": "stranger", "written_at": now, "expire_s": 60.0, "write_count": 2, "hostname": "elsewhere",
            "pid": "7", "tid": 7, "first_written_at": now, "first_acquired_at": now, "released_at": "",
        }  # fmt: skip
        if self.path(name).exists():
            record = self.record(name)
        Directory(self.root).put(f"{name}/lock.json", json.dumps({**record, **fields}).encode())

    def steal(self, name: str) -> None:
        """A stranger overwrites the record, or makes the next version, as a client without manners would."""
        if self.protocol == "strict":
            version = self.record(name)
            n, thief = version["n"] + 1, dict.fromkeys(("tenure", "owner", "nonce"), "thief")
            body = {**version, **thief, "n": n, "state": "held", "origin": n, "owners": ["thief"], "host": "elsewhere"}
            key = f"{name}/_mopslock/{(1 << 64) - 1 - n:016x}/v"
            assert Directory(self.root).create(key, json.dumps(body, indent=2).encode())
            return
        self.write(name, writer_id="thief", written_at=stamp(0), hostname="elsewhere", write_count=2)

    def lose(self, kept: Any) -> None:
        """Steals what is held for LIVES seconds, and returns when its holder knows: by URL a file event tells it, and
        else its next renewal. Each is done again, since nobody may watch yet, and a put may be under way."""
        self.steal(kept.name)
        later(LIVES / 3)
        path = self.path(kept.name)

        def told() -> Any:
            if self.protocol == "strict":
                Directory(self.root).put(str(path.relative_to(self.root)), path.read_bytes())
            else:
                self.steal(kept.name)
            return kept.lost.is_set()

        until(told)


class Tasks:
    """mopslock.aio, and what comes of it, as a thread has mopslock, so that one test tells of both. What can be awaited
    is awaited on the loop of another thread, and a function of the test is called beside it."""

    def __init__(self, it: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._it, self._loop, self.__doc__ = it, loop, it.__doc__

    def __getattr__(self, name: str) -> Any:
        return self._of(getattr(self._it, name))

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._of(self._it(*[self._task(one) if callable(one) else one for one in given], **named))

    def __enter__(self) -> Any:
        return self._of(self._it.__aenter__())

    def __exit__(self, *error: Any) -> None:
        self._of(self._it.__aexit__(*error))

    def __bool__(self) -> bool:
        return bool(self._it)

    def __repr__(self) -> str:
        return repr(self._it)

    def _of(self, value: Any) -> Any:
        if inspect.isasyncgen(value):
            return self._of(_all(value))
        if inspect.iscoroutine(value):
            value = asyncio.run_coroutine_threadsafe(value, self._loop).result(2 * SOON)
        ours = inspect.isroutine(value) or type(value).__module__ in ("mopslock.aio", "mopslock._loop")
        return Tasks(value, self._loop) if ours else value

    def _task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def task(*given: Any, **named: Any) -> Any:
            return await asyncio.to_thread(function, *map(self._of, given), **named)

        return task


async def _all(values: AsyncIterator[Any]) -> list[Any]:
    return [value async for value in values]


@contextlib.contextmanager
def tasks() -> Iterator[Tasks]:
    """mopslock.aio on a loop that ends with the block."""
    loop = asyncio.new_event_loop()
    with thread(loop.run_forever):
        try:
            yield Tasks(mopslock.aio, loop)
        finally:
            asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(SOON)
            loop.call_soon_threadsafe(loop.stop)
    loop.close()


@contextlib.contextmanager
def opened(way: str, root: Path, protocol: str = "lastwriter") -> Iterator[Place]:
    """A place whose hosts, of both ways, are closed afterwards, and where nobody who does not say so uses another
    protocol."""
    root.mkdir(exist_ok=True)
    try:
        with kept_by(protocol):
            yield replace(Place.of(way, root), protocol=protocol)
    finally:
        with contextlib.suppress(mopslock.NotReleased):
            mopslock.close(timeout=2)


@contextlib.contextmanager
def kept_by(protocol: str) -> Iterator[None]:
    """A caller that leaves the protocol open gets this one, also in programs."""

    class Kept(Terms):
        def __init__(self, **named: Any) -> None:
            if named.get("protocol", "auto") == "auto":
                named["protocol"] = protocol
            super().__init__(**named)

    with mock.patch.dict(os.environ, {OPEN: protocol}), mock.patch.object(_options, "Terms", Kept):
        yield


OPEN = "MOPSLOCK_TEST_PROTOCOL"
IMPORTS = """
import mopslock, mopslock.stores, os, sys, time, threading, signal
if "MOPSLOCK_TEST_PROTOCOL" in os.environ:
    import mopslock._options as options
    class Terms(options.Terms):
        def __init__(self, **named):
            if named.get("protocol", "auto") == "auto":
                named["protocol"] = os.environ["MOPSLOCK_TEST_PROTOCOL"]
            super().__init__(**named)
    options.Terms = Terms
"""


def stamp(seconds: float) -> str:
    """An instant so many seconds from now, as records have it."""
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def until(what: Callable[[], Any], seconds: float = SOON) -> None:
    """Looks until it is so, and fails when that takes too long."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


@contextlib.contextmanager
def thread(run: Callable[[], object]) -> Iterator[threading.Thread]:
    """A thread beside the block, which has ended when it is left."""
    made = threading.Thread(target=run, daemon=True)
    made.start()
    yield made
    made.join(SOON)
    assert not made.is_alive(), "it hangs"


@contextlib.contextmanager
def waiting(call: Callable[..., T], *given: Any, **named: Any) -> Iterator[tuple[Future[T], mopslock.Status]]:
    """A call in another thread, which waits already, and for what. It has ended when the block is left."""
    told: queue.SimpleQueue[mopslock.Status] = queue.SimpleQueue()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call, *given, **named, on_waiting=told.put)
        yield future, told.get(timeout=SOON)


@contextlib.contextmanager
def program(code: str, *, stop: float = 2 * SOON, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A program of Python's with pipes, which does not outlive the block. If it hangs, its threads say where."""
    process = subprocess.Popen(
        [sys.executable, "-c", IMPORTS + code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **environment},
    )  # fmt: skip
    timer = threading.Timer(stop, process.send_signal, [signal.SIGABRT])
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    """The program's next line."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        assert process.stderr is not None
        raise AssertionError(f"it ended: {process.stderr.read()}")
    return line


def ended(process: subprocess.Popen[str], seconds: float = SOON) -> tuple[int, str, str]:
    """Its status and what it has written, once it ends by itself."""
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def forked(do: Callable[[], Any]) -> Any:
    """What do returns in a forked child, which ends without leaving any block of its parent's. One that hangs is
    killed."""
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    report, write = os.pipe()
    with warnings.catch_warnings():  # Python 3.12 warns of a fork beside threads
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            try:
                outcome = {"value": do()}
            except BaseException:
                outcome = {"error": traceback.format_exc()}
            os.write(write, json.dumps(outcome).encode())
        finally:
            os._exit(0)
    os.close(write)
    ready = select.select([report], [], [], SOON)[0]
    said = os.read(report, 1 << 16) if ready else b""
    os.close(report)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert said, "the child hangs"
    outcome = json.loads(said)
    assert "error" not in outcome, outcome["error"]
    return outcome["value"]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Within, this process has no keeper yet."""
    mopslock.close(timeout=SOON)
    with mock.patch.object(keeper._current, "keepers", {}):
        yield

"""The two ways to a store, for tests that hold one API against both: a URL, and an object of one's own.

Nothing here sleeps: what is waited for is an event, a record or a child, each for a bounded time.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import mopslock
from mopslock import _api
from mopslock.stores import Blob, Directory
from mopslock.terms import Terms

WAYS = ("url", "own")
KEPT = ("lastwriter", "strict")
SOON = 45.0
"""Seconds in which anything must have happened, also on a machine that stands still again and again."""
NOTICES = 2.5
"""The TTL of who is to notice something: within a third of it. Half of it is what a machine may stand still for."""
LIVES = 30.0
"""The TTL of who has only to hold it."""


@dataclass(frozen=True)
class Place:
    """A directory with leases, and one way to it."""

    way: str
    root: Path
    store: Any
    protocol: Any = "lastwriter"

    @classmethod
    def of(cls, way: str, root: Path) -> Place:
        """A place with a store object, and so a host, of its own."""
        return cls(way, root, root.as_uri() if way == "url" else Directory(root))

    def other(self) -> Place:
        """The same directory by the other way."""
        return replace(Place.of("own" if self.way == "url" else "url", self.root), protocol=self.protocol)

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
        if self.protocol == "strict":
            return bool(self.record(name)["state"] == "released")
        return bool(self.record(name)["released_at"])

    def write(self, name: str, **fields: Any) -> None:
        """Changes a name's record behind everybody's back; one that is not there begins as that of a live stranger."""
        now = stamp(0)
        record = {
            "writer_id": "stranger", "written_at": now, "expire_s": 60.0, "write_count": 2, "hostname": "elsewhere",
            "pid": "7", "tid": 7, "first_written_at": now, "first_acquired_at": now, "released_at": "",
        }  # fmt: skip
        live = self.path(name).exists()
        while True:
            if live:
                record = self.record(name)
            body = json.dumps({**record, **fields}).encode()
            Directory(self.root).put(f"{name}/lock.json", body)
            if not live:
                return
            time.sleep(0.05)  # a renewal that had read before may be writing over it
            if self.path(name).read_bytes() == body:
                return

    def steal(self, name: str) -> None:
        """A stranger overwrites the record, or makes the next version, as a client without manners would."""
        if self.protocol == "strict":
            thief = "thief"
            version = self.record(name)
            n = version["n"] + 1
            fields = {"n": n, "state": "held", "tenure": thief, "origin": n, "owner": thief, "owners": [thief]}
            body = json.dumps({**version, **fields, "nonce": thief, "host": "elsewhere"}, indent=2).encode()
            assert Directory(self.root).create(f"{name}/_mopslock/{(1 << 64) - 1 - n:016x}/v", body)
            return
        self.write(name, writer_id="thief", written_at=stamp(0), hostname="elsewhere", write_count=2)


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
    """Whoever leaves the protocol open gets this one, in programs too."""
    made: Any = Terms
    before = os.environ.get(OPEN)

    def terms(*given: Any, **named: Any) -> Any:
        return made(*(protocol if value == "auto" else value for value in given), **named)

    os.environ[OPEN] = protocol
    try:
        with mock.patch.object(_api, "Terms", terms):
            yield
    finally:
        os.environ.pop(OPEN)
        if before is not None:
            os.environ[OPEN] = before


OPEN = "MOPSLOCK_TEST_PROTOCOL"
IMPORTS = """
import mopslock, mopslock.stores, os, sys, time, threading, signal
if "MOPSLOCK_TEST_PROTOCOL" in os.environ:
    import mopslock._api as api
    def terms(*given, made=api.Terms, **named):
        return made(*(os.environ["MOPSLOCK_TEST_PROTOCOL"] if value == "auto" else value for value in given), **named)
    api.Terms = terms
"""


class Gated(Directory):
    """A directory whose puts, or gets, hang while they are told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.puts, self.gets = threading.Event(), threading.Event()
        self.puts.set()
        self.gets.set()

    def get(self, key: str) -> Blob | None:
        self.gets.wait(60)
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        self.puts.wait(60)
        super().put(key, body)


class Failing(Directory):
    """A directory that raises on demand."""

    def __init__(self, root: Path, *, get: BaseException | None = None, put: BaseException | None = None) -> None:
        super().__init__(root)
        self.on_get, self.on_put = get, put

    def get(self, key: str) -> Blob | None:
        if self.on_get is not None:
            raise self.on_get
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        if self.on_put is not None:
            raise self.on_put
        super().put(key, body)


def stamp(seconds: float) -> str:
    """An instant so many seconds from now, as records have it."""
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def until(what: Callable[[], Any], seconds: float = SOON) -> None:
    """Looks until it is so, and fails when that takes too long."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


def both(*calls: Callable[[Any], object]) -> Callable[[Any], None]:
    """A callback that makes several calls of one."""

    def call(said: Any) -> None:
        for one in calls:
            one(said)

    return call


def burn(seconds: float) -> int:
    """Computes in pure Python, and lets go of the GIL only when it is made to."""
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(1000):
            rounds += 1
    return rounds


@contextlib.contextmanager
def program(code: str, *, stop: float = 120.0, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A program of Python's with pipes, which does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", IMPORTS + code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )  # fmt: skip
    timer = threading.Timer(stop, process.kill)
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


def forked(do: Callable[[], Any], seconds: float = SOON) -> Any:
    """What do returns in a forked child, which ends without leaving any block of its parent's."""
    pid, report = fork(do)
    return heard(pid, report, seconds)


def fork(do: Callable[[], Any]) -> tuple[int, int]:
    """Begins a forked child: its pid, and where it reports."""
    report, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, report
    try:
        os.close(report)
        try:
            outcome = {"value": do()}
        except BaseException:
            outcome = {"error": traceback.format_exc()}
        os.write(write, json.dumps(outcome).encode())
    finally:
        os._exit(0)


def heard(pid: int, report: int, seconds: float = SOON) -> Any:
    """What a child reports; one that hangs is killed, and an error."""
    said = b""
    end = time.monotonic() + seconds
    try:
        while select.select([report], [], [], max(0.0, end - time.monotonic()))[0]:
            more = os.read(report, 1 << 16)
            if not more:
                break
            said += more
        else:
            raise AssertionError(f"the child hangs, after {said!r}")
    finally:
        os.close(report)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    outcome = json.loads(said)
    assert "error" not in outcome, outcome["error"]
    return outcome["value"]

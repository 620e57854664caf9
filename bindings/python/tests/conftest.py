"""Fixtures that all tests share. What is held is let go after every test, so that none can disturb the next."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import mopslock
from mopslock import _hosts, stores
from ways import SOON, Place, kept_by, movable, opened, tasks
from world import World

# The same examples every time, so that a run says something about the code and not about luck; no timing.
settings.register_profile(
    "mopslock",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("mopslock")

for _ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
    # A program inherits what its parent ignores, as under nohup or in the background of a shell. What the parent
    # catches is the default in what it starts, so a test can end a program with Ctrl-C, however the tests were started.
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, lambda *_: None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine function has an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    asyncio.run(asyncio.wait_for(test(**given), 2 * SOON))
    return True


CHECKOUT = Path(__file__).resolve().parents[3]
"""What bindings/python is part of; the tests that look at more than the package fail without it."""


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout."""
    assert (CHECKOUT / "bindings" / "c" / "mopslock.h").exists(), f"{CHECKOUT} is no checkout of mopslock"
    return CHECKOUT


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is left open is lastwriter, unless the test's module is about protocols."""
    with movable(), contextlib.nullcontext() if hasattr(request.module, "PROTOCOLS_OPEN") else kept_by("lastwriter"):
        yield
        if _hosts._hosts.urls or _hosts._hosts.objects:
            mopslock.close(timeout=SOON)


@pytest.fixture(params=[("url", "strict"), ("own", "lastwriter")], ids="-".join)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each way once, and each protocol: what differs by both is in the tests of the protocols."""
    way, protocol = request.param
    with opened(way, tmp_path / "store", protocol) as place:
        yield place


@pytest.fixture(params=[False, True], ids=["threads", "tasks"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """What threads call, and what tasks do, as threads would: place.api."""
    way, protocol = ("own", "strict") if request.param else ("url", "lastwriter")
    with (
        opened(way, tmp_path / "store", protocol) as place,
        tasks() if request.param else contextlib.nullcontext(mopslock) as api,
    ):
        yield replace(place, api=api)


@pytest.fixture(params=["native", "wasm"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each engine that can decide."""
    if request.param == "wasm":
        pytest.importorskip("wasmtime")
    monkeypatch.setenv("MOPSLOCK_ENGINE", request.param)
    return str(request.param)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty store, which the library reads and writes itself."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder.as_uri()


@pytest.fixture
def store() -> stores.Memory:
    """An empty store of one's own."""
    return stores.Memory()


@pytest.fixture
def world() -> World:
    """A fake clock, a store with faults, and hosts that do nothing by themselves."""
    return World()

"""Fixtures that all tests share. What is held is let go after every test, so that none can disturb the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import mopslock
from mopslock import _hosts, _library, stores
from ways import kept_by
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

CHECKOUT = Path(__file__).resolve().parents[3]
"""What bindings/python is part of; the tests that look at more than the package fail without it."""


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout."""
    assert (CHECKOUT / "bindings" / "c" / "mopslock.h").exists(), f"{CHECKOUT} is no checkout of mopslock"
    return CHECKOUT


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The folder with the shared libraries."""
    return Path(os.environ.get(_library.FOLDER) or _library.HERE)


@pytest.fixture(autouse=True)
def _kept_by_lastwriter(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is left open is lastwriter, unless the test's module is about protocols."""
    if getattr(request.module, "PROTOCOLS_OPEN", False):
        yield
        return
    with kept_by("lastwriter"):
        yield


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    yield
    if _hosts._hosts.urls or _hosts._hosts.objects:
        mopslock.close(timeout=30)


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

"""How long a stress test runs: MOPSLOCK_STRESS, written as for Go (30s, 2m, 1m30s), and 4 s without it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def asked() -> float:
    text = os.environ.get("MOPSLOCK_STRESS") or "4s"
    parts = re.findall(r"(\d+(?:\.\d+)?)(h|ms|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        raise pytest.UsageError(f"MOPSLOCK_STRESS={text} is no duration, such as 30s or 1m30s")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


@dataclass(frozen=True)
class Stress:
    """How long a test may go on, and how it says what it measured."""

    seconds: float
    long: bool
    figures: Callable[[str], None]


@pytest.fixture
def stress(request: pytest.FixtureRequest) -> Stress:
    """Figures are seen with -s, also those of a test that passes."""
    return Stress(asked(), asked() >= 20, lambda text: print(f"\n    {request.node.name}: {text}", end=""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test here is given its time and some minutes before it counts as hung."""
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.timeout(300 + 2 * asked()))

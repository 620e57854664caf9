"""How long a stress test runs: MOPSLOCK_STRESS, written as for Go (30s, 2m, 1m30s), and 4 s without it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

DEFAULT = "4s"
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(text: str) -> float:
    parts = re.findall(r"(\d+(?:\.\d+)?)(h|ms|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise pytest.UsageError(f"MOPSLOCK_STRESS={text} is no duration, such as 30s or 1m30s")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def asked() -> float:
    return seconds(os.environ.get("MOPSLOCK_STRESS") or DEFAULT)


@dataclass(frozen=True)
class Stress:
    """How long a test may go on, and how it says what it measured."""

    seconds: float
    long: bool
    figures: Callable[[str], None]


@pytest.fixture
def stress(request: pytest.FixtureRequest) -> Stress:
    """Figures are seen with -s, also those of a test that passes."""

    def figures(text: str) -> None:
        print(f"\n    {request.node.name}: {text}", end="")

    return Stress(asked(), asked() >= 20, figures)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test here is given its time and two minutes before it counts as hung."""
    limit = 120 + 2 * asked()
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limit))

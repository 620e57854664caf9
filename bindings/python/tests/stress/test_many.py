"""Thousands of leases of one process, beside a thread that never lets go of the GIL by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stress import many_worker
from stress.conftest import Stress

LEASES = {"url": 5000, "own": 1000}
"""That Go renews, and that Python does: a third of what Python kept on two cores that had nothing else to do."""

TTL = 10.0
"""So long that a machine that stands still for some seconds loses none."""

SHORT = 5
"""A short run has fewer leases, by this factor."""


@pytest.mark.parametrize("way", ["url", "own"])
def test_none_is_lost_beside_a_computing_thread(way: str, tmp_path: Path, stress: Stress) -> None:
    """Each is renewed at a third of its TTL, by as many threads however many leases there are."""
    leases = LEASES[way] // (1 if stress.long else SHORT)
    seen = _held(way, tmp_path, leases, TTL, stress.seconds if stress.long else stress.seconds - 1)
    grown = (seen["after_kib"] - seen["before_kib"]) / leases
    stress.figures(
        f"{leases} leases of {TTL:g} s in {seen['watched_s']:.0f} s: {seen['lost']} lost, "
        f"{seen['renewals']} renewals, at least {seen['least_renewals']} each, "
        f"least left {seen['worst_left_s']:.2f} s, {seen['threads']} threads, {grown:.1f} KiB a lease, "
        f"then {seen['end_kib'] - seen['after_kib']:+d} KiB in all, acquired in {seen['acquired_s']:.1f} s"
    )
    assert seen["lost"] == 0
    assert seen["leases"] == leases
    assert seen["least_renewals"] >= max(1, seen["watched_s"] / TTL - 1), "renewed less than once a TTL"
    assert seen["threads"] <= 128
    assert grown <= 64


def _held(way: str, folder: Path, leases: int, ttl: float, seconds: float) -> dict[str, Any]:
    """What a process of its own says of itself; one without other tests' threads and memory."""
    done = subprocess.run(
        [sys.executable, many_worker.__file__, way, str(folder), str(leases), str(ttl), str(seconds)],
        check=False, capture_output=True, text=True, timeout=60 + 2 * seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen

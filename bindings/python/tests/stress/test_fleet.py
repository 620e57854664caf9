"""mops' own lease and ours, by URL, through mops' blob store and by mops' names, on one lock file.

Between two turns a process pauses, as one that works does. Without that the protocol is not fair to anybody: who
releases claims again before others look, also in a fleet of mops alone, and who is told by file events is always
before those that poll.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from stress import fleet_worker
from stress.conftest import Stress
from stress.fleet_worker import HoldUps, Plan, Turn, by_kinds

TTL = 3.0
MARGIN = 0.2
"""What mops and we wait between claim and verification: as long as a process may be held up between read and put."""

KINDS = ("mops", "url", "adapter", "shim")
STARTS = 0.6
"""Seconds that it takes to import mops."""


def test_mixed_fleet_excludes_as_mops_does(tmp_path: Path, stress: Stress) -> None:
    """Where no process was held up for longer than the protocol bears, turns overlap at most as often as those of as
    many processes of mops alone in the same run, and everybody gets turns."""
    count = 20 if stress.long else 6
    mixed = [KINDS[number % len(KINDS)] for number in range(count)]
    fleets = {"mixed/lock": mixed, "alone/lock": ["mops"] * count}
    plan = _planned(tmp_path, stress.seconds - STARTS, stress.long, count, fleets)
    status = subprocess.run(
        [sys.executable, "-m", fleet_worker.__name__, fleet_worker.write(plan)],
        cwd=Path(__file__).parents[1],
        check=False, capture_output=True, text=True,
        timeout=stress.seconds + plan.patience + 3 * fleet_worker.GRACE,
    )  # fmt: skip
    assert status.returncode == 0, status.stderr

    ours, alone = fleet_worker.turns(plan, "mixed/lock"), fleet_worker.turns(plan, "alone/lock")
    late = {name: fleet_worker.hold_ups(plan, name) for name in fleets}
    stress.figures(f"{_told('mixed', ours, late['mixed/lock'])}; {_told('mops alone', alone, late['alone/lock'])}")
    found = by_kinds(_unexplained(ours, late["mixed/lock"]))
    assert found["all"] - found["mops+mops"] <= by_kinds(_unexplained(alone, late["alone/lock"]))["all"], found
    assert {turn.kind for turn in ours} == set(KINDS)
    if stress.long:
        assert len({turn.process for turn in ours}) == count, Counter(turn.process for turn in ours)


def _planned(folder: Path, seconds: float, long: bool, count: int, fleets: dict[str, list[str]]) -> Plan:
    """With pauses so long that a fleet is about as busy as one lease can keep it. A short run is too short to turn
    away who has had no turn yet."""
    for name in ("store", "logs"):
        (folder / name).mkdir()
    return Plan(
        root=(folder / "store").as_uri(), logs=str(folder / "logs"), seconds=seconds, ttl=TTL, margin=MARGIN,
        pause=2 * count * MARGIN, patience=0.0 if long else 20.0, long_turns=0.03 if long else 0.0, fleets=fleets,
    )  # fmt: skip


def _unexplained(turns: Sequence[Turn], late: HoldUps) -> list[tuple[Turn, Turn]]:
    """The turns that overlap although neither process was held up, as far as it could measure that, from when the
    earlier one claimed until the later one began.

    ::

        A       get ── put ──── MARGIN ──── get: ours ── held ──────────────
        B  get: free ═══════ held up ═══════════════════ put ── get: ours ── held
    """

    def held_up(process: str, begin: float, end: float) -> float:
        return sum(max(0.0, min(end, after) - max(begin, before)) for before, after in late[process])

    return [
        (one, other) for one, other in fleet_worker.overlaps(turns)
        if all(held_up(turn.process, one.begin - 2 * MARGIN, other.begin) < MARGIN / 2 for turn in (one, other))
    ]  # fmt: skip


def _told(what: str, turns: Sequence[Turn], late: HoldUps) -> str:
    kinds = Counter(turn.kind for turn in turns)
    each = Counter(turn.process for turn in turns).values()
    waits = [later.begin - turn.end for turn, later in pairwise(turns)]
    held_up = [end - begin for times in late.values() for begin, end in times]
    noticed = sum(turn.noticed for turn in turns)
    return (
        f"{what} {len(turns)} turns {dict(kinds)}, {min(each, default=0)} to {max(each, default=0)} of "
        f"{len(each)} processes, {median(waits or [0]) * 1000:.0f} ms between two, "
        f"overlaps {dict(by_kinds(fleet_worker.overlaps(turns)))}, of which unexplained "
        f"{dict(by_kinds(_unexplained(turns, late)))}, {noticed} noticed losses, held up {len(held_up)} times, "
        f"at most {max(held_up, default=0) * 1000:.0f} ms"
    )

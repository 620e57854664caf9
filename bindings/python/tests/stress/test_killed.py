"""Holders that are killed, and holders that are stopped for longer than their lease lives."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import pytest

import held_up
import mopslock
from stress.conftest import Stress
from ways import WAYS, Place, ended, program, said

TTL = 1.0
POLL = 0.6
"""A waiter's longest poll at this TTL."""
CLAIM = 1.0
"""What a claim may take on a machine that does much else."""

NAME = "stress/killed"
HOLDER = """
lease = mopslock.acquire({store}, "{name}", ttl={ttl}, fleet_expire={ttl})
print(lease.holder)
sys.stdin.readline()
try:
    lease.check()
    print("still held")
except mopslock.LeaseLost as lost:
    print(lost.reason)
try:
    lease.release()
    print("released")
except mopslock.LeaseLost:
    print("left alone")
"""


@contextlib.contextmanager
def _holder(place: Place) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease until it reads a line."""
    with program(HOLDER.format(store=place.code, name=NAME, ttl=TTL)) as process:
        assert said(process) == place.record(NAME)["writer_id"]
        yield process


def _take_over(place: Place) -> tuple[mopslock.Lease, float]:
    """Waits until the lease is ours, not before its record has expired; and the seconds that it took."""
    begin = time.monotonic()
    expires = datetime.fromisoformat(place.record(NAME)["written_at"]) + timedelta(seconds=TTL)
    lease = mopslock.acquire(place.store, NAME, ttl=TTL, fleet_expire=TTL, wait=30)
    assert lease.acquired >= expires
    return lease, time.monotonic() - begin


def _released(lease: mopslock.Lease, place: Place, held_up_s: float) -> None:
    """It was ours until now, and nobody else's: we gave it up by ourselves only if this process was held up for most
    of the time that a renewal has."""
    assert place.record(NAME)["writer_id"] == lease.holder
    try:
        lease.check()
        lease.release()
    except (mopslock.LeaseExpired, mopslock.LeaseUnreachable):
        assert held_up_s > TTL / 3


@pytest.mark.parametrize("way", WAYS)
def test_killed_holder_is_followed(way: str, tmp_path: Path, stress: Stress) -> None:
    """The next has it a TTL after the last renewal, plus a poll, by either way."""
    place = Place.of(way, tmp_path)
    took: list[float] = []
    late: list[float] = []
    end = time.monotonic() + stress.seconds
    with held_up.measured(tmp_path / "held-up") as measured:
        while not took or time.monotonic() + 2 * (TTL + POLL) < end:
            with _holder(place) as process:
                time.sleep(TTL / 2)  # so that it has renewed
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                begin = time.monotonic()
                lease, seconds = _take_over(place.other() if len(took) % 2 else place)
            took.append(seconds)
            late.append(measured.in_all(begin))
            _released(lease, place, late[-1])
    stress.figures(
        f"{len(took)} killed, followed after {median(took):.2f} s, at most {max(took):.2f} s, "
        f"held up for {max(late):.2f} s at most"
    )
    assert max(seconds - held_up.COSTS * more for seconds, more in zip(took, late, strict=True)) <= TTL + POLL + CLAIM


@pytest.mark.parametrize("way", WAYS)
def test_stopped_holder_knows_that_it_lost(way: str, tmp_path: Path, stress: Stress) -> None:
    """A holder that is stopped beyond its deadline says so before it does anything, and leaves its successor alone.

    ::

        A  held ── SIGSTOP ═══════════════════════ SIGCONT ─ check(): lost ─ release(): lost
        B                   TTL … held ────────────────────────────────────────────── held
    """
    place = Place.of(way, tmp_path)
    reasons: list[str] = []
    end = time.monotonic() + stress.seconds
    with held_up.measured(tmp_path / "held-up") as measured:
        while not reasons or time.monotonic() + 2 * (TTL + POLL) < end:
            with _holder(place) as process:
                os.kill(process.pid, signal.SIGSTOP)
                begin = time.monotonic()
                lease, _ = _take_over(place.other() if len(reasons) % 2 else place)
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()
                os.kill(process.pid, signal.SIGCONT)
                status, out, err = ended(process)
            assert status == 0, err
            reason, end_of_it = out.split("\n")[:2]
            reasons.append(reason)
            assert reason in ("taken", "expired", "unreachable")
            assert end_of_it == "left alone"
            time.sleep(TTL / 2)  # a renewal of ours
            _released(lease, place, measured.in_all(begin))
    stress.figures(f"{len(reasons)} stopped: {', '.join(sorted(set(reasons)))}")

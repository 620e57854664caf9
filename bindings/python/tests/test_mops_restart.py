"""mops' orchestrator on our leases, killed half-way and started again: every result is there, every function ran once.

Real processes: the orchestrator is mops' own runner, and each job a remote that goes on without it. Who ran is counted
by the functions themselves. No lease expires while the test waits: that of the dead is made old by hand.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from mopsjob import GATE, RAN
from ways import SOON, program, said, until

pytest.importorskip("thds.mops")


Remotes = dict[int, int]
"""Pid to pidfd: they are not our children, and a pid alone may be another's by then."""


@pytest.fixture
def remotes() -> Iterator[Remotes]:
    """None is left behind."""
    found: Remotes = {}
    yield found
    for remote in found.values():
        kill(remote)
        os.close(remote)


def kill(remote: int) -> None:
    """A remote is gone when this returns."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(remote, signal.SIGKILL)
    assert ended(remote)


def ended(remote: int) -> bool:
    """Whether a remote ends by itself."""
    return bool(select.select([remote], [], [], SOON)[0])


def orchestrator(folder: Path, *jobs: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """One run of the program."""
    code = f"import mopsjob\nos.chdir({str(folder)!r})\nmopsjob.orchestrate({str(folder)!r}, *{jobs!r})"
    return program(code, PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))


def began(folder: Path, count: int, by: subprocess.Popen[str], remotes: Remotes) -> list[tuple[str, int]]:
    """Name and process, for each time that a function ran, once they are so many. All live while the gate is shut."""
    file = folder / RAN
    until(lambda: by.poll() is not None or (file.exists() and file.read_text().count("\n") >= count))
    ran = [(name, int(pid)) for name, pid in (line.split() for line in file.read_text().splitlines())]
    assert len(ran) == count, ran
    remotes.update({pid: os.pidfd_open(pid) for _, pid in ran if pid not in remotes})
    return ran


def leases(folder: Path) -> dict[Path, dict[str, Any]]:
    """All records, by where they are."""
    return {path: json.loads(path.read_bytes()) for path in folder.glob("**/lock/lock.json")}


def test_killed_orchestrator_is_started_again(tmp_path: Path, remotes: Remotes) -> None:
    """It waits for those that run, starts those that do not, does again what the dead had, and has all results.

    ::

        orchestrator   start 0 1 ── SIGKILL                  again: waits for 0, starts 1 2 ── 3 results
        remote 0             run ──────────────────────────────────────────── end
        remote 1             run ─────────── SIGKILL                  run ─── end
        remote 2                                                      run ─── end
    """
    with (tmp_path / GATE).open("wb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        with orchestrator(tmp_path, "job0", "job1") as first:
            half = began(tmp_path, 2, first, remotes)
            first.kill()
            first.wait(SOON)
        killed = datetime.now(timezone.utc).isoformat()
        until(lambda: all(one["written_at"] > killed for one in leases(tmp_path).values()))
        kept = leases(tmp_path)
        assert {(one["writer_name"], int(one["pid"])) for one in kept.values()} == {("remote", pid) for _, pid in half}
        victim = dict(half)["job1"]
        kill(remotes[victim])
        (dead,) = (path for path, record in kept.items() if record["pid"] == str(victim))
        dead.write_text(json.dumps({**kept[dead], "written_at": "2026-01-01T00:00:00+00:00"}))
        with orchestrator(tmp_path, "job0", "job1", "job2") as again:
            ran = began(tmp_path, 4, again, remotes)
            assert ran[:2] == half
            assert sorted(name for name, _ in ran[2:]) == ["job1", "job2"]
            assert said(again) == "waits job0"
            gate.close()
            word, _, results = said(again).partition(" ")
    assert (word, json.loads(results)) == ("results", {name: f"{name} by {pid}" for name, pid in dict(ran).items()})
    assert all(ended(remote) for remote in remotes.values())
    assert (tmp_path / RAN).read_text().count("\n") == 4, "nobody ran again"
    last = leases(tmp_path)
    assert {path for path, record in kept.items() if last[path]["writer_id"] != record["writer_id"]} == {dead}
    assert sum(bool(record["released_at"]) for record in last.values()) == 2, "its own; the other's expires"

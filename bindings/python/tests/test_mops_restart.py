"""mops' orchestrator on our leases, killed half-way and started again: every result is there, every function ran once.

Real processes throughout: the orchestrator is mops' own runner, and each job a remote that goes on without it. Who ran
is counted by the functions themselves. Nothing is asked of time but that a lease of EXPIRE seconds has expired, or has
not, long after nobody was left who could have renewed it but the remotes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mops_restart_jobs import GATE, RAN, result
from ways import SOON, until

pytest.importorskip("thds.mops")

HERE = Path(__file__).parent
EXPIRE = timedelta(seconds=5)
JOBS = [f"job{i}" for i in range(6)]
HALF = len(JOBS) // 2
REMOTES = {"mopslock": "mops_restart_remote", "mops": "thds.mops.pure.core.entry.main"}
"""By whose maintenance a remote keeps its lease alive."""

Ran = list[tuple[str, int]]
"""Name and process, for each time that a function ran."""


class Orchestrator:
    """One run of the program, whose lines are read from a file: its remotes live on, and a pipe would bind them."""

    def __init__(self, folder: Path, remote: str, jobs: list[str], out: Path) -> None:
        self.out = out
        width = str(min(HALF, len(jobs)))
        arguments = [str(folder), REMOTES[remote], str(EXPIRE.total_seconds()), width, *jobs]
        with out.open("wb") as said, out.with_suffix(".err").open("wb") as error:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "mops_restart_orchestrator.py"), *arguments],
                stdout=said, stderr=error, cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
            )  # fmt: skip

    def said(self, what: str) -> list[str]:
        """What follows a word in the lines that begin with it."""
        lines = (line.partition(" ") for line in self.out.read_text().splitlines())
        return [rest for word, _, rest in lines if word == what]

    def waits(self, remotes: Ran) -> None:
        """Returns once it has found the leases of all these held."""
        until(lambda: {name for name, _ in remotes} <= set(self.said("waits")))

    def kill(self) -> None:
        """By SIGKILL; it is gone when this returns."""
        self.process.kill()
        self.process.wait(SOON)

    def results(self) -> dict[str, str]:
        """What it has at its end."""
        error = self.out.with_suffix(".err")
        assert self.process.wait(2 * SOON) == 0, error.read_text()
        (said,) = self.said("results")
        found: dict[str, str] = json.loads(said)
        return found


class Fleet:
    """A directory, its gate, and the processes that work there."""

    def __init__(self, folder: Path, remote: str) -> None:
        self.folder, self.remote = folder, remote
        self._gate = (folder / GATE).open("wb")
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        self._orchestrators: list[Orchestrator] = []
        self._remotes: dict[int, int] = {}  # pid to pidfd: not our children, and a pid alone may be another's by then

    def orchestrator(self, jobs: list[str]) -> Orchestrator:
        """Starts one."""
        out = self.folder / f"orchestrator{len(self._orchestrators)}.out"
        self._orchestrators.append(Orchestrator(self.folder, self.remote, jobs, out))
        return self._orchestrators[-1]

    def ran(self) -> Ran:
        """Every time that a function ran, in order."""
        with contextlib.suppress(FileNotFoundError):
            words = [line.split() for line in (self.folder / RAN).read_text().splitlines()]
            return [(name, int(pid)) for name, pid in words]
        return []

    def began(self, count: int) -> Ran:
        """All that ran, once they are so many; to be asked while the gate is shut, so that they are all alive."""
        by = self._orchestrators[-1]
        until(lambda: len(self.ran()) >= count or by.process.poll() is not None, 2 * SOON)
        ran = self.ran()
        assert len(ran) == count, (ran, by.out.with_suffix(".err").read_text())
        for _, pid in ran:
            if pid not in self._remotes:
                self._remotes[pid] = os.pidfd_open(pid)
        return ran

    def kill(self, pid: int) -> None:
        """Kills a remote; it is gone when this returns."""
        signal.pidfd_send_signal(self._remotes[pid], signal.SIGKILL)
        assert self.ended(pid)

    def ended(self, pid: int) -> bool:
        """Whether a remote ends by itself."""
        return bool(select.select([self._remotes[pid]], [], [], SOON)[0])

    def open(self) -> None:
        """Lets every function end."""
        self._gate.close()

    def leases(self) -> dict[Path, dict[str, Any]]:
        """All records, by where they are."""
        return {path: json.loads(path.read_bytes()) for path in self.folder.glob("**/lock/lock.json")}

    def kept(self, remotes: Ran, beyond: timedelta = timedelta(0)) -> dict[Path, dict[str, Any]]:
        """Waits until each of these has renewed its lease, so long after now; returns their records as they are then.

        To be asked when the orchestrator is dead: until then one cannot tell which lease is whose.
        """
        after = datetime.now(timezone.utc) + beyond
        pids = {str(pid) for _, pid in remotes}

        def renewed() -> dict[Path, dict[str, Any]]:
            return {
                path: record for path, record in self.leases().items()
                if record["pid"] in pids and datetime.fromisoformat(record["written_at"]) > after
            }  # fmt: skip

        until(lambda: len(renewed()) == len(pids), 2 * SOON)
        return renewed()

    def close(self) -> None:
        """Leaves no process behind."""
        self.open()
        for orchestrator in self._orchestrators:
            orchestrator.kill()
        for pid, remote in self._remotes.items():
            if not self.ended(pid):
                self.kill(pid)
            os.close(remote)


@pytest.fixture(params=sorted(REMOTES, reverse=True))
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, request.param)
    yield fleet
    fleet.close()


only_our_remotes = pytest.mark.parametrize("fleet", ["mopslock"], indirect=True)


def holders(records: dict[Path, dict[str, Any]]) -> dict[Path, str]:
    return {path: record["writer_id"] for path, record in records.items()}


def test_killed_orchestrator_is_started_again(fleet: Fleet) -> None:
    """It waits for those that run, starts those that do not, and has all results.

    ::

        orchestrator   start 0 1 2 ── SIGKILL                  again: waits for 0 1 2, starts 3 4 5 ── 6 results
        remotes 0 1 2         run ──────────── for more than EXPIRE ──────────────────────── end
        remotes 3 4 5                                                              run ───── end
    """
    first = fleet.orchestrator(JOBS)
    half = fleet.began(HALF)
    first.kill()
    kept = fleet.kept(half, beyond=EXPIRE)
    assert all(record["writer_name"] == "remote" for record in kept.values())

    again = fleet.orchestrator(JOBS)
    ran = fleet.began(len(JOBS))
    assert ran[:HALF] == half
    assert sorted(name for name, _ in ran) == JOBS
    again.waits(half)
    assert sorted(again.said("waits")) == sorted(name for name, _ in half)
    assert not again.said("results")

    fleet.open()
    assert again.results() == {name: result(name, pid) for name, pid in ran}
    assert all(fleet.ended(pid) for _, pid in ran)
    assert fleet.ran() == ran, "exactly once"
    leases = fleet.leases()
    assert {path: holder for path, holder in holders(leases).items() if path in kept} == holders(kept)
    assert {path for path, record in leases.items() if record["released_at"]} == leases.keys() - kept.keys()


@only_our_remotes
def test_orchestrator_is_killed_as_often_as_one_likes(fleet: Fleet) -> None:
    """While it starts the first ones, while it waits for these and starts others, and while it waits for all."""
    for count in (HALF, len(JOBS), len(JOBS)):
        orchestrator = fleet.orchestrator(JOBS)
        before = fleet.ran()
        ran = fleet.began(count)
        orchestrator.waits(before)
        orchestrator.kill()
    last = fleet.orchestrator(JOBS)
    last.waits(ran)
    fleet.open()
    results = last.results()
    assert results == {name: result(name, pid) for name, pid in ran}
    memoised = fleet.orchestrator(JOBS)
    assert memoised.results() == results
    assert not memoised.said("waits")
    assert fleet.ran() == ran, "exactly once"


@only_our_remotes
def test_remote_that_is_killed_with_its_orchestrator_runs_again(fleet: Fleet) -> None:
    """Once its lease has expired, and it alone: those whose remotes live are waited for as ever."""
    jobs = JOBS[:HALF]
    first = fleet.orchestrator(jobs)
    ran = fleet.began(HALF)
    first.kill()
    kept = fleet.kept(ran)
    victim, pid = ran[0]
    (path,) = (path for path, record in kept.items() if record["pid"] == str(pid))
    fleet.kill(pid)
    dead = fleet.leases()[path]

    again = fleet.orchestrator(jobs)
    *before, (name, fresh) = fleet.began(HALF + 1)
    assert before == ran
    assert name == victim
    taken = fleet.leases()[path]
    assert taken["writer_id"] != dead["writer_id"]
    expired = datetime.fromisoformat(dead["written_at"]) + EXPIRE
    assert datetime.fromisoformat(taken["first_written_at"]) >= expired
    again.waits(ran[1:])

    fleet.open()
    assert again.results() == {name: result(name, pid) for name, pid in [*ran[1:], (victim, fresh)]}
    assert fleet.ran() == [*ran, (victim, fresh)], "once more, and nobody else"
    leases = holders(fleet.leases())
    assert leases == {**holders(kept), path: taken["writer_id"]}

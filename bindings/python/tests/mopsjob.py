"""What mops runs elsewhere for the tests: it refuses functions of a program's own file. And the orchestrator of
test_mops_restart, on our leases."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any


def told(folder: str, name: str) -> dict[str, object]:
    """Counts that it was run, and returns the record of the lease that it runs under."""
    with open(Path(folder) / f"{name}.ran", "a") as file:
        file.write(f"{os.getpid()}\n")
    found = list(Path(folder).glob("**/lock/lock.json"))
    records: list[dict[str, object]] = [json.loads(one.read_bytes()) for one in found]
    return next(one for one in records if not one["released_at"])


RAN = "ran"
"""The file with a line for each time that a function's body ran: its name, and the process."""

GATE = "gate"
"""The file that the test keeps locked for as long as no function may end."""

EXPIRE = timedelta(seconds=15)
"""A lease's; a remote renews it three times as often. mops' runner has 88 s, and no way to ask for less."""

POLL = 1.0
"""Seconds between two looks of mops' for a result of another, at most. It has 22."""

REMOTE = "from mopslock import mops; mops.install(); from thds.mops.pure.core.entry.main import main; main()"
"""The program of a remote that keeps its lease alive by our means."""


def work(folder: str, name: str) -> str:
    """Counts that it runs, waits until it may end, and says who it was.

    The line is one write with O_APPEND, so that several at once cannot lose one. The lock goes with the test's process:
    however that ends, no remote waits forever.
    """
    ran = os.open(Path(folder, RAN), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(ran, f"{name} {os.getpid()}\n".encode())
    os.close(ran)
    with Path(folder, GATE).open("rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    return f"{name} by {os.getpid()}"


def orchestrate(folder: str, width: int, jobs: Sequence[str]) -> None:
    """Memoises in the folder, and starts a process for each job, so many at a time.

    It says, a line each: ``waits JOB`` where it found a lease held and waits for another's result, and at last
    ``results`` with a JSON object. What the remotes say goes to the file ``remotes``.
    """
    from thds.mops.pure.core.pipeline_id import set_pipeline_id  # noqa: PLC0415
    from thds.mops.pure.pickling.mprunner import MemoizingPicklingRunner  # noqa: PLC0415
    from thds.mops.pure.runner import lease_waiter  # noqa: PLC0415

    from mopslock import mops  # noqa: PLC0415

    mops.install()
    theirs: Any = importlib.import_module("thds.mops.pure.core.lease")
    theirs.acquire = lambda uri, **_: mops.acquire(uri, expire=EXPIRE)
    lease_waiter._MAX_BACKOFF_S = POLL
    set_pipeline_id("restart")  # mops makes a new one for each process, and then finds nothing of the last one's

    def shim(args: Sequence[str]) -> None:
        """In a POSIX session of its own: a remote is no part of its orchestrator, and goes on when that is gone."""
        with Path(folder, "remotes").open("ab") as log:
            command = [sys.executable, "-c", REMOTE, *args]
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, start_new_session=True
            )

    runner = MemoizingPicklingRunner(shim, Path(folder).as_uri())

    def submit(job: str) -> Any:
        """A future, which is done unless somebody else works on the job."""
        future = runner.submit(work, folder, job)
        if not future.done():
            os.write(sys.stdout.fileno(), f"waits {job}\n".encode())  # one write, since several threads speak
        return future

    with ThreadPoolExecutor(width) as pool:
        futures = list(pool.map(submit, jobs))
        results = {job: future.result() for job, future in zip(jobs, futures, strict=True)}
        os.write(sys.stdout.fileno(), f"results {json.dumps(results)}\n".encode())

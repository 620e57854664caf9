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
    records: list[dict[str, object]] = [json.loads(one.read_bytes()) for one in Path(folder).glob("**/lock/lock.json")]
    return next(one for one in records if not one["released_at"])


RAN, GATE = "ran", "gate"
"""Files: a line for each time that a function's body ran, its name and the process; and one that the test keeps locked
for as long as no function may end."""

EXPIRE = timedelta(seconds=15)
"""A lease's; a remote renews it three times as often. mops' runner has 88 s, and no way to ask for less."""

REMOTE = "from mopslock import mops; mops.install(); from thds.mops.pure.core.entry.main import main; main()"
"""The program of a remote that keeps its lease alive by our means."""


def work(folder: str, name: str) -> str:
    """Counts that it runs, waits until it may end, and says who it was. The lock goes with the test's process: however
    that ends, no remote waits forever."""
    ran = os.open(Path(folder, RAN), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(ran, f"{name} {os.getpid()}\n".encode())  # one write, so that several at once cannot lose one
    os.close(ran)
    with Path(folder, GATE).open("rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    return f"{name} by {os.getpid()}"


def orchestrate(folder: str, *jobs: str) -> None:
    """Memoises in the folder, and starts a process for each job, all at once.

    It says, a line each: ``waits JOB`` where it found a lease held and waits for another's result, and at last
    ``results`` with a JSON object.
    """
    from thds.mops.pure.core.pipeline_id import set_pipeline_id  # noqa: PLC0415
    from thds.mops.pure.pickling.mprunner import MemoizingPicklingRunner  # noqa: PLC0415
    from thds.mops.pure.runner import lease_waiter  # noqa: PLC0415

    from mopslock import mops  # noqa: PLC0415

    mops.install()
    theirs: Any = importlib.import_module("thds.mops.pure.core.lease")
    theirs.acquire = lambda uri, **_: mops.acquire(uri, expire=EXPIRE)
    lease_waiter._MAX_BACKOFF_S = 1.0  # between two looks for a result of another; it has 22
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

    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = dict(zip(jobs, pool.map(submit, jobs), strict=True))
        results = {job: future.result() for job, future in futures.items()}
    os.write(sys.stdout.fileno(), f"results {json.dumps(results)}\n".encode())

"""An orchestrator of mops' on our leases, which starts a process for each job; test_mops_restart kills it.

usage: mops_restart_orchestrator.py FOLDER REMOTE EXPIRE WIDTH JOB...

It memoises in FOLDER, starts remotes of the module REMOTE, WIDTH at a time, under leases of EXPIRE seconds, and says
what it does, a line each: ``waits JOB`` where it found a lease held and waits for another's result, and at last
``results`` with a JSON object. What the remotes say goes to the file ``remotes`` in FOLDER.
"""

from __future__ import annotations

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

from thds.mops.pure.core.pipeline_id import set_pipeline_id
from thds.mops.pure.pickling.mprunner import MemoizingPicklingRunner
from thds.mops.pure.runner import lease_waiter

import mops_restart_jobs
from mopslock import mops

POLL = 1.0
"""Seconds between two looks of mops' for a result of another, at most. It has 22."""


def install(expire: timedelta) -> None:
    """Our leases, but of so long; mops' runner has 88 s, and no way to ask for less."""
    mops.install()
    theirs: Any = importlib.import_module("thds.mops.pure.core.lease")
    theirs.acquire = lambda uri, **_: mops.acquire(uri, expire=expire)
    lease_waiter._MAX_BACKOFF_S = POLL


def say(line: str) -> None:
    """One write, since several threads speak."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main() -> None:
    """See the head of this file."""
    folder, remote, expire, width, *jobs = sys.argv[1:]
    install(timedelta(seconds=float(expire)))
    set_pipeline_id("restart")  # mops makes a new one for each process, and then finds nothing of the last one's

    def shim(args: Sequence[str]) -> None:
        """In a POSIX session of its own: a remote is no part of its orchestrator, and goes on when that is gone."""
        with Path(folder, "remotes").open("ab") as log:
            command = [sys.executable, "-m", remote, *args]
            subprocess.run(command, stdout=log, stderr=log, check=True, start_new_session=True)

    runner = MemoizingPicklingRunner(shim, Path(folder).as_uri())

    def submit(job: str) -> Any:
        """A future, which is done unless somebody else works on the job."""
        future = runner.submit(mops_restart_jobs.work, folder, job)
        if not future.done():
            say(f"waits {job}")
        return future

    with ThreadPoolExecutor(int(width)) as pool:
        futures = list(pool.map(submit, jobs))
        say("results " + json.dumps({job: future.result() for job, future in zip(jobs, futures, strict=True)}))


if __name__ == "__main__":
    main()

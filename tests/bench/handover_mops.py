"""Prints the nanoseconds of hand-overs from one process to another that waits as mops' runner does, one a line.

usage: handover_mops.py NAMES LEAST MOST

The waiter is mops' own: it tries, and then again after 1, 2, 4, 8, 16, 22, 22 … s. NAMES leases are held by another
process, each released after a random time between LEAST and MOST seconds.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

from thds.core import futures
from thds.mops.pure import _futures
from thds.mops.pure.core import lease
from thds.mops.pure.runner import lease_waiter

LIMIT = 120  # seconds, for all of it
EXPIRE = timedelta(seconds=88)  # as the runner has it


def hold(root: str, names: int, least: float, most: float) -> None:
    """The other process: prints how many leases it holds, and for each when it began to release it."""
    held = [lease.acquire(f"file://{root}/{name}/lock", expire=EXPIRE) for name in range(names)]
    releases = [lease.maintain_to_release(one) for one in held if one]
    print(len(releases), flush=True)
    sys.stdin.readline()  # now the other process waits for them
    begin = time.monotonic()
    for due, name in sorted((random.uniform(least, most), name) for name in range(names)):
        time.sleep(max(0.0, begin + due - time.monotonic()))
        begun = time.time_ns()
        releases[name]()
        print(name, begun, flush=True)


def wait(root: str, names: int, go) -> dict[int, int]:
    """Returns when mops' own waiter acquired each. It calls go once it waits for all."""
    got: dict[int, int] = {}
    all_there = threading.Event()

    def register(name: int) -> None:
        def take(owned):
            at = time.time_ns()
            owned.release()
            got[name] = at
            if len(got) == names:
                all_there.set()
            return _futures.MopsFuture(futures.resolved(None), f"file://{root}/{name}")

        lease_waiter.future_awaiting_lease(
            f"file://{root}/{name}",
            what="value",
            check_result=lambda: None,
            unwrap=lambda result: (result, None),
            acquire_lease=lambda: lease.acquire(f"file://{root}/{name}/lock", expire=EXPIRE),
            invoke_with_lease=take,
        )

    for name in range(names):
        register(name)
    go()
    if not all_there.wait(LIMIT):
        raise SystemExit(f"only {len(got)} of {names} were handed over")
    return got


def main(names: int, least: str, most: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception, so that all is cleaned up
    with tempfile.TemporaryDirectory() as root:
        command = [sys.executable, os.path.abspath(__file__), "hold", root, str(names), least, most]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            try:
                if int(other.stdout.readline() or 0) != names:
                    raise SystemExit("the other process does not hold them all")
                got = wait(root, names, lambda: print(file=other.stdin, flush=True))
                for line in other.stdout:
                    name, begun = map(int, line.split())
                    print(got[name] - begun)
            finally:
                other.kill()


if sys.argv[1] == "hold":
    hold(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
else:
    main(int(sys.argv[1]), *sys.argv[2:])

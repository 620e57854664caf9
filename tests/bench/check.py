"""Prints the nanoseconds of check() on a lease that is held.

usage: check.py WAY

WAY is url or own, as the store is kept in a keeper or is an object of one's own.
"""

import sys
import tempfile
import time

import mopslock
from mopslock.stores import Directory

import renewals

CALLS = 20_000


def main(way: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        lease = mopslock.acquire(f"file://{root}" if way == "url" else Directory(root), "check")
        check, spent = lease.check, []
        for _ in range(renewals.ROUNDS):
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                check()
            spent.append((time.perf_counter_ns() - begin) / CALLS)
        lease.release()
    print(renewals.median(spent))


main(*sys.argv[1:])

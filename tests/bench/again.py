"""Prints the 99th percentile of the nanoseconds of an acquire and release of one name, in the last thousand of its rounds.

usage: again.py WAY ROUNDS

WAY is url or own, as the store is kept in a keeper or is an object of one's own.
"""

import sys
import tempfile
import time

import mopslock
from mopslock.stores import Directory

THOUSAND = 1000


def main(way: str, rounds: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        store = f"file://{root}" if way == "url" else Directory(root)
        spent = []
        for _ in range(int(rounds)):
            begin = time.perf_counter_ns()
            mopslock.acquire(store, "again", wait=0).release()
            spent.append(time.perf_counter_ns() - begin)
        mopslock.close()
    print(sorted(spent[-THOUSAND:])[THOUSAND * 99 // 100])


main(*sys.argv[1:])

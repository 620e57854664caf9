"""Prints what a Python program costs that keeps its leases by URL, in a keeper.

usage: keeper.py WHAT [URL]

WHAT is one of these. Times are in nanoseconds, and all leases strict.

    import     the import of mopslock
    first      the first acquire of a process, by URL; first-own: on a store of its own; first-wasm: the same by WASM
    acquire    an acquire and a release of a name that was never used, the median
    handover   from a release in this process until another one, which waits, holds the name, the median
    session    of a processor, in percent, for 1,000 leases on a session, of the keeper and of this process
    rest       bytes of memory that the keeper takes while it holds a lease
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import renewals

ACQUIRES, UNTIMED = 100, 5
HANDED = 20
ON_A_SESSION = 1000
WINDOW = 20.0
HELD = []


def timed(do) -> int:
    begin = time.perf_counter_ns()
    do()
    return time.perf_counter_ns() - begin


def importing(url: str) -> float:
    return timed(lambda: __import__("mopslock"))


def first(store) -> float:
    import mopslock

    return timed(lambda: HELD.append(mopslock.acquire(store, "first", protocol="strict")))


def own(url: str):
    from mopslock.stores import Directory

    return Directory(url.removeprefix("file://"))


def first_wasm(url: str) -> float:
    os.environ["MOPSLOCK_ENGINE"] = "wasm"
    warm = f"import keeper; keeper.first(keeper.own({url!r} + '/warm'))"
    subprocess.run([sys.executable, "-c", warm], check=True, cwd=Path(__file__).parent)
    return first(own(url))


def acquire(url: str) -> float:
    import mopslock

    def one(number: int) -> None:
        mopslock.acquire(url, f"{os.getpid()}/{number}", protocol="strict").release()

    return statistics.median([timed(lambda: one(i)) for i in range(UNTIMED + ACQUIRES)][UNTIMED:])


WAITER = """
import mopslock, sys, time
url, names = sys.argv[1], int(sys.argv[2])
for name in range(names):
    print("waits", flush=True)
    with mopslock.lease(url, f"handed/{name}", protocol="strict"):
        print(time.monotonic_ns(), flush=True)
"""


def handover(url: str) -> float:
    import mopslock

    held = [mopslock.acquire(url, f"handed/{name}", protocol="strict") for name in range(HANDED)]
    took = []
    with subprocess.Popen([sys.executable, "-c", WAITER, url, str(HANDED)], stdout=subprocess.PIPE, text=True) as other:
        for lease in held:
            other.stdout.readline()
            time.sleep(0.3)  # until it waits for an event
            begin = time.monotonic_ns()
            lease.release()
            took.append(int(other.stdout.readline()) - begin)
    return statistics.median(took)


def session(url: str) -> float:
    import mopslock

    held = [mopslock.acquire(url, f"held/{i}", protocol="strict", session=True) for i in range(ON_A_SESSION)]
    begin, spent = time.monotonic(), renewals.spent()
    time.sleep(WINDOW)
    used = (renewals.spent() - spent) / 1e9 / (time.monotonic() - begin)
    for lease in held:
        lease.check()
    return 100 * used


def rest(url: str) -> float:
    import mopslock
    from mopslock._own.keeper import keepers

    HELD.append(mopslock.acquire(url, "held", protocol="strict"))
    (keeper,) = keepers()
    return 1024 * next(int(line.split()[1]) for line in open(f"/proc/{keeper.pid}/status") if line.startswith("VmRSS"))


def main(what: str, url: str = "") -> None:
    measures = {
        "import": importing, "first": first, "first-own": lambda url: first(own(url)), "first-wasm": first_wasm,
        "acquire": acquire, "handover": handover, "session": session, "rest": rest,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as root:
        print(measures[what](url or f"file://{root}"))
        if "mopslock" in sys.modules:
            sys.modules["mopslock"].close()


if __name__ == "__main__":
    main(*sys.argv[1:])

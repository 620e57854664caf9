"""Prints the median of the nanoseconds of an acquire in a directory in which no lease was ever held.

usage: acquire.py WHAT

WHAT is theirs (mops' own acquire), bare (the same without its traces for people), ours (the same call of ours), url
(ours by URL), or floor: the same reads, writes and wait, by the system's calls alone.
"""

import os
import sys
import tempfile
import time

import renewals

ACQUIRES = 60
UNTIMED = 5


def theirs():
    from thds.mops.pure.core import lease

    return lambda directory: lease.acquire(f"file://{directory}")


def bare():
    from thds.mops.pure.core import lease

    return lambda directory: lease.acquire(f"file://{directory}", debug=False)


def ours():
    from mopslock import mops

    return lambda directory: mops.acquire(f"file://{directory}")


def url():
    import mopslock

    def acquire(directory: str) -> object:
        root, _, name = directory.rpartition("/")
        return mopslock.lease(f"file://{root}", name, wait=0).acquire()

    return acquire


def floor():
    return claim


def get(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    body = os.read(file, 65537)
    os.close(file)
    return body


def put(path: str, body: bytes) -> None:
    fresh = path + ".new"
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileNotFoundError:
        os.mkdir(os.path.dirname(path))
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(file, body)
    os.close(file)
    os.replace(fresh, path)


def claim(directory: str, body: bytes = b"." * 400) -> bytes:
    path = directory + "/lock.json"
    begin = time.perf_counter()
    get(path)
    put(path, body)
    time.sleep(2 * (time.perf_counter() - begin))
    found = get(path)
    put(path, body)
    return found


def main(what: str) -> None:
    acquire = {"theirs": theirs, "bare": bare, "ours": ours, "url": url, "floor": floor}[what]()
    spent, held = [], []
    with tempfile.TemporaryDirectory() as root:
        for number in range(UNTIMED + ACQUIRES):
            begin = time.perf_counter_ns()
            held.append(acquire(f"{root}/{number}"))
            spent.append(time.perf_counter_ns() - begin)
        if not all(held):
            raise SystemExit("a lease was not acquired")
        if what == "url":
            import mopslock

            mopslock.close()
    print(renewals.median(spent[UNTIMED:]))


main(*sys.argv[1:])

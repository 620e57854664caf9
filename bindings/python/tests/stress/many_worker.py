"""Holds thousands of leases beside a thread that computes, and says what that took.

usage: many_worker.py WAY DIRECTORY LEASES TTL SECONDS
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mopslock
from mopslock import aio, stores

AT_ONCE = 64


def resident_kib() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def threads() -> int:
    """All of this process's, Go's too."""
    return len(list(Path("/proc/self/task").iterdir()))


def burn(over: threading.Event) -> None:
    """Computes in pure Python, and lets go of the GIL only when it is made to."""
    number = 0
    while not over.is_set():
        number = (number * 31 + 7) % 1_000_003


async def acquire(store: Any, count: int, ttl: float, lost: list[Any]) -> list[aio.Lease]:
    """Many leases, a bounded number of them at once."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> aio.Lease:
        async with turn:
            return await aio.acquire(
                store, f"many/{number:05}", protocol="lastwriter", ttl=ttl, fleet_expire=ttl, on_lost=lost.append
            )

    return list(await asyncio.gather(*map(one, range(count))))


def main(way: str, directory: str, count: int, ttl: float, seconds: float) -> None:
    lost: list[Any] = []
    store: Any = stores.Directory(directory) if way == "own" else Path(directory).as_uri()
    mopslock.acquire(store, "first").release()  # loads the library
    before = resident_kib()
    begin = time.monotonic()
    leases = asyncio.run(acquire(store, count, ttl, lost))
    acquired = time.monotonic() - begin
    after = resident_kib()

    written, over = writes(directory), threading.Event()

    def renewals() -> list[int]:
        return [now - before for now, before in zip(writes(directory), written, strict=True)]

    threading.Thread(target=burn, args=(over,), daemon=True).start()
    begin, worst, most = time.monotonic(), ttl, threads()
    while time.monotonic() < begin + seconds or (time.monotonic() < begin + ttl and not min(renewals())):
        time.sleep(0.1)
        worst, most = min(worst, *(lease.left for lease in leases)), max(most, threads())
    failed = sum(lease.lost.is_set() for lease in leases)
    watched = time.monotonic() - begin
    over.set()
    renewed = renewals()
    print(
        json.dumps(
            {
                "leases": len(leases), "lost": max(failed, len(lost)), "acquired_s": acquired,
                "renewals": sum(renewed), "least_renewals": min(renewed),
                "worst_left_s": worst, "threads": most, "before_kib": before, "after_kib": after,
                "end_kib": resident_kib(), "watched_s": watched,
            }
        )
    )  # fmt: skip
    sys.stdout.flush()
    mopslock.close(timeout=30)


def writes(directory: str) -> list[int]:
    """How often each record was written."""
    paths = sorted(Path(directory, "many").glob("*/lock.json"))
    return [json.loads(path.read_bytes())["write_count"] for path in paths]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))

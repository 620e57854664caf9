"""Thousands of leases of one process, beside a thread that never lets go of the GIL by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stress.conftest import Stress
from ways import SOON, WAYS, Place, ended, program

LEASES = {"url": 5000, "own": 1000}
"""That Go renews, and that Python does. A short run has a fifth of them."""

HOLDER = """
import asyncio, json, pathlib, threading
from mopslock import aio
store, root, ttl = {store}, pathlib.Path({root!r}), 10.0

def taken():
    "Resident KiB, and threads with those of Go."
    resident = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    return resident, len(list(pathlib.Path("/proc/self/task").iterdir()))

def writes():
    return [json.loads(path.read_bytes())["write_count"] for path in sorted((root / "many").glob("*/lock.json"))]

async def acquire():
    turn = asyncio.Semaphore(64)
    async def one(number):
        async with turn:
            return await aio.acquire(store, f"many/{{number:05}}", protocol="lastwriter", ttl=ttl, fleet_expire=ttl)
    return await asyncio.gather(*map(one, range({count})))

def burn():
    number = 0
    while True: number = (number * 31 + 7) % 1_000_003

mopslock.acquire(store, "first").release()  # loads the library
before, begin = taken()[0], time.monotonic()
leases = asyncio.run(acquire())
acquired, after = time.monotonic() - begin, taken()[0]
threading.Thread(target=burn, daemon=True).start()
written, begin, worst, most = writes(), time.monotonic(), ttl, 0
while True:
    time.sleep(0.1)
    worst, most = min(worst, *(lease.left for lease in leases)), max(most, taken()[1])
    renewals = [now - before for now, before in zip(writes(), written)]
    if time.monotonic() > begin + {seconds} and min(renewals) or worst <= 0: break
lost = sum(lease.lost.is_set() for lease in leases)
print(json.dumps(dict(lost=lost, renewals=sum(renewals), least=min(renewals), worst=worst, threads=most,
                      kib=(after - before) / len(leases), acquired=acquired)))
os._exit(0)
"""


@pytest.mark.parametrize("way", WAYS)
def test_each_is_renewed_beside_a_computing_thread(way: str, tmp_path: Path, stress: Stress) -> None:
    """By as many threads however many leases there are. A machine that stands still for longer than a TTL loses some;
    that is a figure."""
    leases = LEASES[way] // (1 if stress.long else 5)
    place = Place.of(way, tmp_path)
    code = HOLDER.format(store=place.code, root=str(tmp_path), count=leases, seconds=stress.seconds)
    with program(code, stop=stress.seconds + 3 * SOON) as process:
        status, out, err = ended(process, stress.seconds + 3 * SOON)
    assert status == 0, err
    seen = json.loads(out)
    stress.figures(f"{leases} leases: {seen}")
    assert seen["least"] > 0 or seen["lost"]
    assert seen["threads"] <= 128
    assert seen["kib"] <= 64

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
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
terms = dict(protocol="lastwriter", ttl=10.0, fleet_expire=10.0)

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

def renewals():
    return min(json.loads(path.read_bytes())["write_count"] for path in Path({root!r}).glob("many/*/lock.json")) - 2

def burn():
    number = 0
    while True: number = (number * 31 + 7) % 1_000_003

def acquire(number):
    return mopslock.acquire({store}, f"{{'many' if number >= 0 else 'first'}}/{{number}}", **terms)

with ThreadPoolExecutor(16) as pool:
    for lease in pool.map(acquire, range(-64, 0)): lease.release()  # which begins all threads
    before = resident()
    leases = list(pool.map(acquire, range({count})))
    kib = (resident() - before) / len(leases)
threading.Thread(target=burn, daemon=True).start()
end, threads, lost, least = time.monotonic() + {seconds}, 0, 0, 0
while not lost and (time.monotonic() < end or not least):
    time.sleep(0.1)
    threads = max(threads, len(os.listdir("/proc/self/task")))
    lost, least = sum(lease.left <= 0 for lease in leases), renewals()
print(json.dumps(dict(lost=lost, renewals=least, threads=threads, kib=kib)))
os._exit(0)
"""


@pytest.mark.parametrize("way", WAYS)
def test_each_is_renewed_beside_a_computing_thread(way: str, tmp_path: Path, stress: Stress) -> None:
    """By as many threads however many leases there are. A machine that stands still for longer than a TTL loses some;
    that is a figure."""
    leases = LEASES[way] // (1 if stress.long else 5)
    code = HOLDER.format(store=Place.of(way, tmp_path).code, root=str(tmp_path), count=leases, seconds=stress.seconds)
    with program(code, stop=stress.seconds + 3 * SOON) as process:
        status, out, err = ended(process, stress.seconds + 3 * SOON)
    assert status == 0, err
    seen = json.loads(out)
    stress.figures(f"{leases} leases: {seen}")
    assert seen["renewals"] > 0 or seen["lost"]
    assert seen["threads"] <= 128
    assert seen["kib"] <= 64

"""mops' own lease and ours, by URL, through mops' blob store and by mops' names, on one lock file.

lastwriter does not exclude processes that are held up between a read and a write, so how often two were in at once is
a figure here. That it excludes all others is proved in virtual time (tests/explore, tests/simulate).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mopslock
from stress.conftest import Stress
from ways import SOON, Place, ended, program

KINDS = ("mops", "url", "adapter", "shim")
FLEET = """
import random
from datetime import timedelta
from thds.mops.pure.core import lease as theirs
from thds.mops.pure.core.uris import lookup_blob_store
import mopslock.mops
root, ledger, ttl, margin = {root!r}, {ledger!r}, 30.0, 0.2

def by_mops_names(module):
    wait = timedelta(seconds=margin)
    held = module.acquire(root + "/n", expire=timedelta(seconds=ttl), acquire_margin=wait, block=wait)
    if held is not None:
        release = module.add_lease_to_maintenance_daemon(held)
        yield
        release()

def ours(store):
    lease = mopslock.try_acquire(
        store, "n", ttl=ttl, fleet_expire=ttl, acquire_margin=margin, protocol="lastwriter", raise_if_lost=False)
    if lease is not None:
        with lease: yield

def work(kind):
    store = root if kind == "url" else mopslock.stores.Mops(lookup_blob_store(root), root)
    end, had = time.monotonic() + {seconds}, 0
    while time.monotonic() < end + (0 if had else {patience}):  # who has had no turn is patient
        module = theirs if kind == "mops" else mopslock.mops
        for _ in ours(store) if kind in ("url", "adapter") else by_mops_names(module):
            had += 1
            for sign in "+-":
                with open(ledger, "a") as file: file.write(f"{{sign}} {{kind}} {{os.getpid()}}\\n")
                time.sleep(random.uniform(0.005, 0.02))
        time.sleep(random.uniform(0.1, 0.5))

pids = []
for kind in {kinds}:
    pids.append(os.fork())
    if pids[-1] == 0:
        try: work(kind)
        except BaseException: sys.excepthook(*sys.exc_info()); os._exit(1)
        os._exit(0)
sys.exit(sum(os.waitpid(pid, 0)[1] != 0 for pid in pids))
"""


def test_a_mixed_fleet_takes_turns(tmp_path: Path, stress: Stress) -> None:
    """Everybody gets turns, nobody fails, and what the last one leaves is free for all."""
    place, ledger = Place.of("url", tmp_path / "store"), tmp_path / "ledger"
    place.root.mkdir()
    kinds = [KINDS[number % len(KINDS)] for number in range(20 if stress.long else 6)]
    code = FLEET.format(root=place.store, ledger=str(ledger), seconds=stress.seconds, patience=SOON, kinds=kinds)
    with program(code, stop=stress.seconds + 3 * SOON) as process:
        status, _, err = ended(process, stress.seconds + 3 * SOON)
    assert status == 0, err
    turns, overlaps = Counter[str](), 0
    inside: set[str] = set()
    for line in ledger.read_text().splitlines():
        sign, kind, pid = line.split()
        if sign == "+":
            turns[kind] += 1
            overlaps += bool(inside)
            inside.add(pid)
        else:
            inside.remove(pid)
    stress.figures(f"{turns.total()} turns {dict(turns)}, {overlaps} begun beside another")
    assert set(turns) == set(KINDS)
    assert inside == set()
    assert place.released("n")
    with mopslock.lease(place.store, "n", protocol="lastwriter", wait=0):
        pass

"""Holders that are killed, and holders that are stopped for longer than their lease lives.

Nothing here is judged by a clock. A process that takes a turn reads first which token was in last, and asks then
whether it still holds the lease: if it does, no greater token can have been in before.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import pytest

import mopslock
from stress.conftest import Stress
from ways import SOON, WAYS, Place, ended, program, said, until

TTL = 1.0
KEEPERS = "from mopslock._own.keeper import keepers; print(json.dumps([one.pid for one in keepers()]))"
HOLDER = """
import json
lease = mopslock.acquire({store}, "n", ttl={ttl}, fleet_expire={ttl}, protocol="lastwriter")
print(lease.holder)
{keepers}
sys.stdin.readline()
successor = open({seen!r}).read()
try:
    lease.check()
    print("still held beside", successor)
except mopslock.LeaseLost as lost:
    print(lost.reason)
try: lease.release()
except mopslock.LeaseLost: print("left alone")
"""


def stop(process: subprocess.Popen[str], keepers: list[int]) -> None:
    """With its keepers: they keep the leases of one that is stopped alone."""
    for pid in (*keepers, process.pid):
        os.kill(pid, signal.SIGSTOP)
        until(lambda pid=pid: ") T " in Path(f"/proc/{pid}/stat").read_text())  # type: ignore[misc]


def go_on(process: subprocess.Popen[str], keepers: list[int]) -> None:
    for pid in (*keepers, process.pid):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_or_killed_holder_is_followed_and_knows(way: str, tmp_path: Path, stress: Stress) -> None:
    """One that is stopped beyond its deadline says so before it does anything, and leaves its successor alone.

    ::

        A  held ── SIGSTOP ═══════════════════════ SIGCONT ─ check(): lost ─ release(): lost
        B                   TTL … held ────────────────────────────────────────────── held
    """
    place, seen = Place.of(way, tmp_path / "store"), tmp_path / "seen"
    took: list[float] = []
    reasons = Counter[str]()
    place.root.mkdir(exist_ok=True)  # a Directory has made it
    end = time.monotonic() + stress.seconds
    while len(took) < 2 or time.monotonic() < end:
        with program(HOLDER.format(keepers=KEEPERS, store=place.code, ttl=TTL, seen=str(seen))) as process:
            assert said(process) == place.holder("n")
            keepers = json.loads(said(process))
            stopped = len(took) % 2 == 1
            if stopped:
                stop(process, keepers)
            else:
                process.kill()
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            began = time.monotonic()
            expires = datetime.fromisoformat(place.record("n")["written_at"]) + timedelta(seconds=TTL)
            next_ = place.other() if len(took) % 4 < 2 else place
            lease = mopslock.acquire(next_.store, "n", ttl=TTL, fleet_expire=TTL, wait=SOON)
            took.append(time.monotonic() - began)
            assert lease.acquired >= expires
            seen.write_text(lease.holder)
            if stopped:
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()
                go_on(process, keepers)
                status, out, err = ended(process)
                assert status == 0, err
                reason, left = out.split("\n")[:2]
                assert reason in ("taken", "expired", "unreachable")
                assert left == "left alone"
                reasons[reason] += 1
            assert place.holder("n") == lease.holder
            with contextlib.suppress(mopslock.LeaseLost):  # this process may have been held up as well
                lease.release()
    stress.figures(f"{len(took)} followed after {median(took):.2f} s, at most {max(took):.2f} s; {dict(reasons)}")


WORKER = """
import gc, json, random
root, way = {root!r}, {way}
own, url = mopslock.stores.Directory(root), "file://" + root
mopslock.inspect(own, "n"), mopslock.inspect(url, "n")  # the core is loaded, and the keeper has begun
counter = mopslock.Guarded(url, "counter")

def more(old):
    count, token = json.loads(old or b"[0, 0]")
    assert token <= lease.fencing_token, "a token has gone back"
    return json.dumps([count + 1, lease.fencing_token]).encode()

{keepers}
sys.stdout = open({out!r}, "a", buffering=1)
while True:
    way = not way
    try:
        with mopslock.lease(own if way else url, "n", ttl={ttl}, protocol="strict") as lease:
            before = counter.read()
            lease.check()
            assert before.token <= lease.fencing_token, "told that it holds what is another's"
            print(counter.update(lease, more).number)
        with mopslock.permit(own if way else url, "pool", capacity=2, ttl={ttl}) as permit:
            permit.check()
            time.sleep(0.2)  # in which the others want one
    except (mopslock.LeaseLost, mopslock.Stale) as error: print(type(error).__name__)
    except mopslock.Unsettled: print("Unsettled")
    gc.collect()
"""


def test_a_storm_of_stops_and_kills_leaves_one_holder(tmp_path: Path, stress: Stress) -> None:
    """The object that the lease guards is the ledger: each update is of the newest tenure, and counts once. Of the
    permits that they take in turns no more are ever held than there are."""
    store = tmp_path / "store"
    store.mkdir()
    end, done = time.monotonic() + stress.seconds, Counter[str]()
    with contextlib.ExitStack() as stack:

        def begin(number: int) -> tuple[subprocess.Popen[str], list[int]]:
            code = WORKER.format(
                keepers=KEEPERS, root=str(store), way=number % 2 == 0, ttl=TTL, out=str(tmp_path / f"{number}.out")
            )
            begun = stack.enter_context(program(code, stop=stress.seconds + 2 * SOON))
            return begun, json.loads(said(begun))

        workers = [begin(number) for number in range(4)]
        while time.monotonic() < end:
            time.sleep(random.uniform(0.1, 0.5))
            victim = random.randrange(4)
            if random.random() < 0.5:
                workers[victim][0].kill()
                workers[victim] = begin(victim)
            else:
                stop(*workers[victim])
                time.sleep(random.uniform(0.5, 1.5) * TTL)
                go_on(*workers[victim])
            assert mopslock.inspect(store, "pool").permits <= 2
        for worker, _ in workers:
            assert worker.poll() is None, worker.communicate()[1]
    counter = mopslock.Guarded(store.as_uri(), "counter")
    with mopslock.lease(store, "n", ttl=TTL, protocol="strict", wait=SOON):
        last = counter.read()
    with mopslock.permit(store, "pool", capacity=2, weight=2, ttl=TTL, wait=SOON) as all_of_them:
        assert all_of_them.fencing_token > 1
    done.update(word for path in tmp_path.glob("*.out") for word in path.read_text().splitlines())
    updates = [word for word in done if word.isdigit()]
    stress.figures(f"{last.number} updates, {[(word, n) for word, n in done.items() if not word.isdigit()]}")
    assert {done[word] for word in updates} == {1}, "two updates made one state"
    assert json.loads(last.body or b"[0, 0]") == [last.number, last.token]
    assert last.number >= max(map(int, updates))

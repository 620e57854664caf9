"""Processes that are idle for about as long as a session waits for its next user.

A process without leases and permits on a session leaves it after 10 s. What is asked for in that moment must not be put
on what is being left. So each process here lets its session idle for about 10 s, asks again, and holds what it gets for
about a TTL, on a store whose verbs take as long as across a network. Another process asks for the same all the time.

::

    A  held ─ released ─────── 10 s ─────── leaves: list … delete … ─ gone
    A                                               asks ────────────── held, on what?
    B   asks · asks · asks · asks · asks · asks · asks · asks · asks · asks · asks: refused
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import mopslock
from stress.conftest import Stress
from ways import SOON, ended, program

IDLE = 10.0
"""Seconds after which a session without users is left."""
KINDS = {"permit": 4, "lease": 3}
"""How many processes hold one of each. In a long run there are twice as many."""
JOBS = 2
"""How many jobs are done at a time, each by two processes."""

WORLD = """
import random
from pathlib import Path
ledger, ttl, begun = Path({ledger!r}), {ttl}, time.monotonic()

class Slow(mopslock.stores.Directory):
    "Each verb takes its time, and most what a session is left with."
    def take(self, key=""): time.sleep(random.uniform(0.02, 0.5 if key.startswith("_mopslock/s/") else 0.04))
    def get(self, key): self.take(); return super().get(key)
    def put(self, key, body): self.take(); return super().put(key, body)
    def create(self, key, body): self.take(); return super().create(key, body)
    def exists(self, key): self.take(); return super().exists(key)
    def list_page(self, prefix, *page): self.take(prefix); return super().list_page(prefix, *page)
    def delete(self, key): self.take(key); return super().delete(key)

store, lines = Slow({root!r}), os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(*words): os.write(lines, (" ".join(map(str, words)) + "\\n").encode())
def left(): return {seconds} - (time.monotonic() - begun)
def idle(): note("idle"); time.sleep(random.uniform({idle} - 0.05, {idle} + 0.6))

def hold(kind, name, seconds, wait):
    "Holds it for so long, if nobody else does. It reads the ledger's length first, and then asks whether it is sure."
    told = threading.Event()
    terms = dict(ttl=ttl, wait=wait, on_lost=lambda _: told.set())
    try:
        if kind == "permit": held = mopslock.acquire_permit(store, name, capacity=1, **terms)
        else: held = mopslock.acquire(store, name, session=True, protocol="strict", **terms)
    except (mopslock.Full, mopslock.Held, mopslock.WaitOver): return
    tenure, until = f"{{os.getpid()}}.{{time.monotonic_ns()}}", time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            at = ledger.stat().st_size
            held.check()
            note("sure", name, tenure, held.fencing_token, at)
            time.sleep(0.05)
        held.release()
    except mopslock.LeaseLost as lost: note("lost", lost.reason + (", told" if told.wait({soon}) else ", untold"))
    except mopslock.NotReleased: note("unreleased")

def idler(kind, name):
    hold(kind, name, 0.2, {soon})
    while left() > 0:
        idle()
        hold(kind, name, random.uniform(0.5, 1.5) * ttl, {soon})

def asker(names):
    while left() > -2 * ttl:
        for kind, name in names:
            hold(kind, name, 0.1, 0)
            time.sleep(random.uniform(0, 0.1))

def worker(name, number=0):
    def work(_): time.sleep(random.uniform(0, 0.3)); return str(os.getpid()).encode()
    while left() > 0:
        job, number = f"{{name}}/{{number}}", number + 1
        result = mopslock.invoke(store, job, work, session=True, ttl=ttl, protocol="strict")
        note("got", job, result.read().decode())
        idle()
"""


def test_nothing_is_put_on_an_idle_session_that_is_left(tmp_path: Path, stress: Stress) -> None:
    """No two hold the same, tokens grow, every loss is told to its caller, and each job has one result."""
    root, ledger = tmp_path / "store", tmp_path / "ledger"
    root.mkdir()
    seconds, many = max(stress.seconds, IDLE + 1), 2 if stress.long else 1
    bound = seconds + 3 * SOON
    world = WORLD.format(root=str(root), ledger=str(ledger), seconds=seconds, ttl=3.0, soon=SOON, idle=IDLE)
    names = [(kind, f"{kind}/{n}") for kind, count in KINDS.items() for n in range(many * count)]
    calls = [f"idler{name}" for name in names] + [f"asker({names})"]
    calls += [f"worker('job{n}')" for n in range(many * JOBS) for _ in "ab"]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(program(world + call, stop=bound)) for call in calls]
        for process in processes:
            status, _, err = ended(process, bound)
            assert status == 0, err
    judge(ledger, stress, len(processes))
    store = mopslock.stores.Directory(root)
    for kind, name in names:
        if kind == "permit":
            mopslock.acquire_permit(store, name, capacity=1, wait=SOON).release()
        else:
            mopslock.acquire(store, name, wait=SOON, protocol="strict").release()


@dataclass
class Tenure:
    """One claim: a token, and the first and the last point of the ledger at which it was sure."""

    token: int
    first: int
    last: int


def judge(ledger: Path, stress: Stress, processes: int) -> None:
    """Two tenures that share only one point of the ledger need not have been held at once."""
    tenures: dict[str, dict[str, Tenure]] = defaultdict(dict)
    idle, losses, got = 0, Counter[str](), defaultdict[str, set[str]](set)
    for line in ledger.read_text().splitlines():
        what, _, words = line.partition(" ")
        if what == "sure":
            name, tenure, token, at = words.split()
            tenures[name].setdefault(tenure, Tenure(int(token), int(at), int(at))).last = int(at)
        elif what == "lost":
            losses[words] += 1
        elif what == "got":
            got[words.split()[0]].add(words.split()[1])
        idle += what == "idle"
    held, overlaps = sum(map(len, tenures.values())), []
    for name, of in tenures.items():
        longest = Tenure(0, 0, 0)
        for now in sorted(of.values(), key=lambda tenure: (tenure.first, tenure.token)):
            if longest.last > now.first or longest.token >= now.token:
                overlaps.append(f"{name}: {now} beside {longest}")
            longest = max(now, longest, key=lambda tenure: tenure.last)
    stress.figures(f"{processes} processes, {idle} times idle, {held} tenures, {len(got)} jobs, lost {dict(losses)}")
    assert not overlaps
    assert not [loss for loss in losses if loss.endswith("untold")]
    assert {len(results) for results in got.values()} == {1}

"""A fleet of processes that take one lease in turns: the program, and what it wrote down.

usage: python -m stress.fleet_worker PLAN

Of four kinds: mops' own lease, ours by mops' names (shim), ours on mops' blob store (adapter), and ours by URL. One
process imports mops, which takes half a second, and forks the others. Each of them ends by itself when its time is
over, and is ended by an alarm if it does not.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from thds.mops.pure.core import lease as theirs
from thds.mops.pure.core.uris import lookup_blob_store

import held_up
import mopslock.mops
from mopslock import stores

GRACE = 15
"""Seconds after which a process that has not ended by itself is hung."""


@dataclass(frozen=True)
class Plan:
    """All that a fleet is told: for each name on the store the kind of each process on it."""

    root: str
    logs: str
    seconds: float
    ttl: float
    margin: float
    pause: float
    patience: float
    """Seconds more that a process without a turn goes on."""
    long_turns: float
    """The share of turns in which the lease has to be renewed."""
    fleets: dict[str, list[str]]


class Turn(NamedTuple):
    """When a process believed that it held the lease, by CLOCK_MONOTONIC."""

    begin: float
    end: float
    kind: str
    process: str
    noticed: bool
    """That it was lost, in time."""


HoldUps = dict[str, list[tuple[float, float]]]
"""From when to when a process was held up, for each process."""


class Worker:
    """One process of a fleet."""

    def __init__(self, plan: Plan, name: str, kind: str, log: TextIO, until: float) -> None:
        self.plan, self.name, self.kind, self.log, self.until = plan, name, kind, log, until
        self.patience = plan.patience

    def run(self) -> None:
        {"mops": self.mops, "shim": self.shim, "url": self.url, "adapter": self.adapter}[self.kind]()

    def note(self, word: str) -> None:
        self.patience = 0.0
        print(word, time.clock_gettime(time.CLOCK_MONOTONIC), file=self.log, flush=True)

    def length(self) -> float:
        return self.plan.ttl * 0.4 if random.random() < self.plan.long_turns else random.uniform(0.01, 0.04)

    def pause(self) -> None:
        time.sleep(max(0.0, min(random.uniform(0.75, 1.25) * self.plan.pause, self.left())))

    def left(self) -> float:
        return self.until + self.patience - time.monotonic()

    def mops(self) -> None:
        self.by_mops_names(theirs)

    def shim(self) -> None:
        self.by_mops_names(mopslock.mops)

    def by_mops_names(self, module: Any) -> None:
        while self.left() > 0:
            held = module.acquire(
                f"{self.plan.root}/{self.name}",
                expire=timedelta(seconds=self.plan.ttl),
                acquire_margin=timedelta(seconds=self.plan.margin),
                block=timedelta(seconds=self.left()),
            )
            if held is None:
                return
            self.note("begin")
            release = module.add_lease_to_maintenance_daemon(held)
            time.sleep(self.length())
            self.note("end")
            release()
            self.pause()

    def url(self) -> None:
        self.ours(self.plan.root)

    def adapter(self) -> None:
        self.ours(stores.Mops(lookup_blob_store(self.plan.root), self.plan.root))

    def ours(self, store: Any) -> None:
        plan = self.plan
        terms: dict[str, Any] = {"ttl": plan.ttl, "fleet_expire": plan.ttl, "acquire_margin": plan.margin}
        while self.left() > 0:
            try:
                lease = mopslock.acquire(store, self.name, wait=self.left(), **terms)
            except mopslock.NotAcquired:
                return
            self.note("begin")
            lease.lost.wait(self.length())  # until it is lost, if it is
            try:
                self.note_end(lease)
                lease.release()
            except mopslock.LeaseLost:
                self.note("lost")
            self.pause()

    def note_end(self, lease: mopslock.Lease) -> None:
        """The instant is taken before the question, so that the answer is about all of the turn."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        lease.check()
        print("end", now, file=self.log, flush=True)


def serve(plan: Plan) -> int:
    """Forks a process for each kind of each fleet, and waits for them. Returns how many failed."""
    until = time.monotonic() + plan.seconds
    signal.alarm(int(plan.seconds + plan.patience) + 2 * GRACE)
    pids = []
    for name, kinds in plan.fleets.items():
        for number, kind in enumerate(kinds):
            pid = os.fork()
            if pid == 0:
                signal.alarm(int(plan.seconds + plan.patience) + GRACE)
                child(plan, name, kind, _log(plan, name, f"{kind}={number}.turns"), until)
            pids.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


def child(plan: Plan, name: str, kind: str, path: Path, until: float) -> None:
    """Never returns."""
    status = 1
    try:
        late = path.with_suffix(".late").open("w", buffering=1)
        held_up.watch(path.with_suffix(".tick"), lambda begin, end: print(begin, end, file=late))
        with path.open("w") as log:
            Worker(plan, name, kind, log, until).run()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _log(plan: Plan, name: str, process: str) -> Path:
    """Where a process on a name writes, or with a pattern all do."""
    return Path(plan.logs, f"{name.replace('/', '+')}={process}")


def turns(plan: Plan, name: str) -> list[Turn]:
    """What the processes on a name wrote down, by their beginnings."""
    found = []
    for path in sorted(Path(plan.logs).glob(_log(plan, name, "*.turns").name)):
        kind = path.stem.split("=")[1]
        begin = None
        for line in path.read_text().splitlines():
            word, at = line.split()
            if word == "begin":
                begin = float(at)
            elif begin is not None:
                found.append(Turn(begin, float(at), kind, path.stem, word == "lost"))
                begin = None
    return sorted(found)


def hold_ups(plan: Plan, name: str) -> HoldUps:
    """What the processes on a name wrote down of these."""
    found: HoldUps = {}
    for path in Path(plan.logs).glob(_log(plan, name, "*.late").name):
        lines = [line.split() for line in path.read_text().splitlines()]
        found[path.stem] = [(float(begin), float(end)) for begin, end in lines]
    return found


def overlaps(found: Iterable[Turn]) -> list[tuple[Turn, Turn]]:
    """The pairs of turns that overlap, the earlier one first."""
    pairs: list[tuple[Turn, Turn]] = []
    active: list[Turn] = []
    for turn in found:
        active = [other for other in active if other.end > turn.begin]
        pairs += [(other, turn) for other in active]
        active.append(turn)
    return pairs


def by_kinds(pairs: Iterable[tuple[Turn, Turn]]) -> Counter[str]:
    """How many pairs there are of which two kinds; "all" is their sum."""
    counted = Counter("+".join(sorted((one.kind, other.kind))) for one, other in pairs)
    return counted + Counter({"all": counted.total()})


def write(plan: Plan) -> str:
    """The argument."""
    return json.dumps(asdict(plan))


if __name__ == "__main__":
    sys.exit(min(serve(Plan(**json.loads(sys.argv[1]))), 100))

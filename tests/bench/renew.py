"""Prints the nanoseconds of a renewal on a directory.

usage: renew.py WHAT

WHAT is theirs (mops' maintain, one after the other), theirs-cpu (its time on processors), ours (on a store of one's
own, stepped one after the other by a clock that jumps from timer to timer), own-cpu and url-cpu: the time on
processors, of all threads and of the keeper, while many leases are kept as they always are.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import renewals

RENEWALS = 5000
LEASES = 50
KEPT = 500
TTL = 3.0
WINDOW = 4.0


def theirs(root: str, clock) -> float:
    from thds.mops.pure.core import lease

    held = [lease.acquire(f"file://{root}/{number}") for number in range(LEASES)]
    begin = clock()
    for _ in range(RENEWALS // LEASES):
        for one in held:
            one.maintain()
    return (clock() - begin) / RENEWALS


class Jumps:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now, self.start = 1, time.time_ns()

    def mono(self) -> int:
        return self.now

    def wall(self) -> int:
        return self.start + self.now


def ours(root: str) -> float:
    from mopslock._own.client import Client
    from mopslock._own.host import OwnHost
    from mopslock._own.threads import Lane
    from mopslock.stores import Directory
    from mopslock.terms import Terms

    clock, jobs = Jumps(), []

    class Turned:
        """What the threads of a client would do is done here."""

        naps = False
        lanes = Lane(), Lane()
        soon = staticmethod(jobs.append)

        def expect(self, client: object) -> None:
            """It is asked below."""

        def lane(self, *, transfer: bool) -> Lane:
            return self.lanes[transfer]

    client = Client(Directory(root), clock, Turned())
    host = OwnHost(client.store, client)
    terms = Terms(ttl=60, protocol="lastwriter")
    held = [host.begin_acquire(f"l/{number}", terms, 0, None) for number in range(LEASES)]
    written = begin = 0
    while not written or writes(root) < written + RENEWALS:
        for _ in range(LEASES * 20):  # so seldom that counting costs little
            while jobs:
                jobs.pop()()
            clock.now = max(clock.now + 1, client.due())
            client.turn()
        if not written and all(lease.done() for lease in held):
            written, begin = writes(root), time.perf_counter_ns()
    spent = time.perf_counter_ns() - begin
    return spent / (writes(root) - written)


def kept(store: object, root: str) -> float:
    import mopslock

    leases = [mopslock.acquire(store, f"l/{number}", ttl=TTL, fleet_expire=TTL, protocol="lastwriter") for number in range(KEPT)]
    written, begin = writes(root), renewals.spent()
    time.sleep(WINDOW)
    spent = renewals.spent() - begin
    renewed = writes(root) - written
    for lease in leases:
        lease.check()
    mopslock.close()
    return spent / renewed


def writes(root: str) -> int:
    """How often all records were written."""
    return sum(json.loads(path.read_bytes())["write_count"] for path in Path(root).glob("l/*/lock.json"))


def main(what: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        if what == "theirs":
            figure = theirs(root, time.perf_counter_ns)
        elif what == "theirs-cpu":
            figure = theirs(root, time.process_time_ns)
        elif what == "ours":
            figure = ours(root)
        elif what == "url-cpu":
            figure = kept(f"file://{root}", root)
        else:
            from mopslock.stores import Directory

            figure = kept(Directory(root), root)
    print(figure)


main(*sys.argv[1:])

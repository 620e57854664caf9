"""What test_fork has other processes do; a module of its own, so that those that are spawned can import it."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any

import mopslock
from ways import NOTICES, SOON, until

inherited: dict[str, Any] = {}
"""Leases of the parent, for children that are forked."""


def take(store: Any, name: str) -> list[Any]:
    """Holds a lease in this process until it is renewed."""
    with mopslock.lease(store, name, ttl=NOTICES, wait=SOON, protocol="lastwriter") as lease:
        first = lease.deadline
        until(lambda: lease.lost or lease.deadline > first + timedelta(seconds=NOTICES / 5))
        lease.check()
        seen = mopslock.inspect(store, name)
        return [seen.state, seen.pid == str(os.getpid()), lease.holder == seen.holder]


TAKEN = ["held", True, True]


def report(queue: Any, store: Any, name: str) -> None:
    """Take, for a process of multiprocessing."""
    queue.put(take(store, name))


def judge(lease: mopslock.Lease) -> list[str]:
    """What a lease of the parent's says in a child to all that one may ask."""
    said = []
    told = threading.Event()
    for ask in (lease.check, lease.release, lambda: lease.on_lost(lambda _: told.set())):
        try:
            ask()
            said.append("nothing")
        except mopslock.Forked as error:
            said.append("Forked" if "acquire another" in str(error) and "accompany" in str(error) else str(error))
    said.append(str(lease.lost.is_set()))
    said.append(str(lease.lost.wait(SOON)))
    said.append(str(lease.left <= 0))
    said.append("Forked" if "Forked" in repr(lease) else repr(lease))
    with lease:
        pass
    return said


JUDGED = ["Forked", "Forked", "Forked", "True", "True", "True", "Forked"]

"""What test_fork has other processes do; a module of its own, so that those that are spawned can import it."""

from __future__ import annotations

import os
import threading
from typing import Any

import mopslock
from ways import LIVES, SOON


def take(*stores: Any) -> list[list[Any]]:
    """Holds leases in this process, one after the other."""
    said = []
    for number, store in enumerate(stores):
        with mopslock.lease(store, f"child{number}", ttl=LIVES, wait=SOON) as lease:
            lease.check()
            seen = mopslock.inspect(store, f"child{number}")
            said.append([seen.state, seen.pid == str(os.getpid()), lease.holder == seen.holder])
    return said


TAKEN = ["held", True, True]


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
    said += [str(lease.lost.is_set()), str(lease.lost.wait(SOON)), str(lease.left <= 0)]
    said.append("Forked" if "Forked" in repr(lease) else repr(lease))
    with lease:
        pass
    return said


JUDGED = ["Forked", "Forked", "Forked", "True", "True", "True", "Forked"]

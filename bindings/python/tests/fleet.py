"""Processes that take turns on a lease: mops' own, ours in its place, or ours by URL.

usage: fleet.py KIND[,KIND...] URI SECONDS OUT

A KIND is mops, adapter or url, and each is one process. It takes the lease at URI over and over, for SECONDS, and
appends to the file OUT when it was held, a line for each turn: two instants of CLOCK_MONOTONIC; and to OUT.late in the
same way when it was held up. The files of several are OUT.0, OUT.1 and so on.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import held_up

EXPIRE = 10.0
MARGIN = 0.2
TURN = 0.05
PAUSE = 0.02
PATIENCE = 20
"""Seconds more that a process without a turn goes on."""


def mops(uri: str) -> Iterator[None]:
    """mops' own."""
    lease: Any = importlib.import_module("thds.mops.pure.core.lease")
    held = lease.acquire(uri, expire=timedelta(seconds=EXPIRE), acquire_margin=timedelta(seconds=MARGIN))
    if held is not None:
        yield
        held.release()


def adapter(uri: str) -> Iterator[None]:
    """Ours by the same names."""
    from mopslock.mops import acquire, add_lease_to_maintenance_daemon  # noqa: PLC0415

    held = acquire(uri, expire=timedelta(seconds=EXPIRE), acquire_margin=timedelta(seconds=MARGIN))
    if held is not None:
        release = add_lease_to_maintenance_daemon(held)
        yield
        release()


def url(uri: str) -> Iterator[None]:
    """Ours, by the library's own store."""
    import mopslock  # noqa: PLC0415

    root, _, name = uri.rpartition("/")
    try:
        with mopslock.lease(root, name, ttl=EXPIRE, acquire_margin=MARGIN, wait=0):
            yield
    except mopslock.Held:
        return


KINDS: dict[str, Callable[[str], Iterator[None]]] = {"mops": mops, "adapter": adapter, "url": url}


def turns(kind: str, uri: str, seconds: float, out: Path) -> None:
    """Takes the lease until the time is over."""
    late = out.with_name(out.name + ".late").open("a", buffering=1)
    held_up.watch(out.with_name(out.name + ".tick"), lambda begin, end: print(begin, end, file=late))
    end, had = time.monotonic() + seconds, 0
    with out.open("a") as file:
        while time.monotonic() < (end if had else end + PATIENCE):
            for _ in KINDS[kind](uri):
                had += 1
                begin = time.monotonic()
                time.sleep(TURN)
                print(begin, time.monotonic(), file=file, flush=True)
            time.sleep(PAUSE)


def main() -> None:
    """See the head of this file. What is imported is imported once; our library is loaded in each."""
    kinds, uri, seconds, out = sys.argv[1:]
    names = kinds.split(",")
    if set(names) - {"url"}:
        import mopslock.mops  # noqa: F401, PLC0415
    if len(names) == 1:
        turns(names[0], uri, float(seconds), Path(out))
        return
    children = []
    for i, kind in enumerate(names):
        child = os.fork()
        if not child:
            turns(kind, uri, float(seconds), Path(f"{out}.{i}"))
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children) and 1)


if __name__ == "__main__":
    main()

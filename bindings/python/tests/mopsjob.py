"""Functions that mops runs elsewhere: it refuses those of a program's own file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def told(folder: str, name: str) -> dict[str, object]:
    """Counts that it was run, and returns the record of the lease that it runs under."""
    with open(Path(folder) / f"{name}.ran", "a") as file:
        file.write(f"{os.getpid()}\n")
    found = list(Path(folder).glob("**/lock/lock.json"))
    records: list[dict[str, object]] = [json.loads(one.read_bytes()) for one in found]
    return next(one for one in records if not one["released_at"])


def fails(folder: str) -> None:
    """Raises."""
    raise KeyError(folder)


def keep(lease: Any) -> int:
    """Takes the maintenance of a lease over, renews it, and releases it; returns how often it was written by then."""
    from mopslock import mops  # noqa: PLC0415 - what runs under mops has no need of it

    release = mops.add_lease_to_maintenance_daemon(lease)
    lease.maintain()
    count: int = lease.write_count
    release()
    return count

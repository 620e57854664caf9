"""What test_mops_restart has remotes do; a module of its own, since mops refuses functions of a program's own file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

RAN = "ran"
"""The file with a line for each time that a function's body ran: its name, and the process."""

GATE = "gate"
"""The file that the test keeps locked for as long as no function may end."""


def work(folder: str, name: str) -> str:
    """Counts that it runs, waits until it may end, and says who it was.

    The line is one write with O_APPEND, so that several at once cannot lose one. The lock goes with the test's process:
    however that ends, no remote waits for ever.
    """
    ran = os.open(Path(folder, RAN), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(ran, f"{name} {os.getpid()}\n".encode())
    os.close(ran)
    with Path(folder, GATE).open("rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    return result(name, os.getpid())


def result(name: str, pid: int) -> str:
    """What work returns in that process."""
    return f"{name} by {pid}"

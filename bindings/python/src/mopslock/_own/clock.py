"""The two clocks that the core gets."""

from __future__ import annotations

import os
import time
from typing import Protocol

from .._units import SECOND

BOOT_ID, NAMESPACE = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/time"

_SUSPENDED: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; other systems have only the monotonic clock

OVERSLEPT = 100_000
"""Nanoseconds by which the system may wake us too late. For so long a sleep looks at the clock instead."""


class Clock(Protocol):
    """Where the time comes from."""

    def mono(self) -> int:
        """Nanoseconds that never go back, and count the time that the machine sleeps."""

    def wall(self) -> int:
        """Nanoseconds since 1970."""

    def sleep(self, ns: int) -> None:
        """Blocks this thread for ns nanoseconds."""


def this_boot() -> str:
    """Names the start of CLOCK_BOOTTIME: this boot of this kernel, and our time namespace. The Go host uses the same
    name (host/internal/clock), so both judge strict leases by one clock. "" if the kernel does not say."""
    if _SUSPENDED is None:
        return ""
    try:
        with open(BOOT_ID) as file:
            boot = file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if not boot:
        return ""
    try:
        return f"{boot}-{os.readlink(NAMESPACE).strip('time:[]')}"  # of time:[4026531834]
    except FileNotFoundError:  # a kernel that has only one
        return boot
    except OSError:
        return ""


class System:
    """This machine's clocks."""

    def __init__(self) -> None:
        self.boot = this_boot()

    if _SUSPENDED is not None:

        def mono(self) -> int:
            """CLOCK_BOOTTIME."""
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    else:

        def mono(self) -> int:
            """The monotonic clock."""
            return time.monotonic_ns()

    def wall(self) -> int:
        """The system's time."""
        return time.time_ns()

    def sleep(self, ns: int) -> None:
        """Exact to some microseconds: on a directory a claim waits only a fraction of a millisecond."""
        until = self.mono() + ns
        if ns > OVERSLEPT:
            time.sleep((ns - OVERSLEPT) / SECOND)
        while self.mono() < until:
            pass

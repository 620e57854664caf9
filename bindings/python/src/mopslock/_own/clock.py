"""The two clocks that the core gets."""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from typing import Protocol

from .._units import SECOND

BOOT_ID, NAMESPACE = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/time"

_SUSPENDED: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; other systems have only the monotonic clock

OVERSLEPT = 100_000  # nanoseconds by which the system may wake us too late: for so long a sleep looks at the clock


class Clock(Protocol):
    """Where the time comes from, in nanoseconds. mono never goes back, and counts the time that the machine sleeps;
    wall counts since 1970; sleep blocks this thread."""

    def mono(self) -> int: ...
    def wall(self) -> int: ...
    def sleep(self, ns: int) -> None: ...


def this_boot() -> str:
    """Names the start of CLOCK_BOOTTIME: this boot of this kernel, and our time namespace. The Go host uses the same
    name (host/internal/clock), so both judge strict leases by one clock. "" if the kernel does not say."""
    try:
        with open(BOOT_ID) as file:
            boot = file.read().strip() if _SUSPENDED is not None else ""
        if boot:
            with contextlib.suppress(FileNotFoundError):  # of a kernel that has only one namespace
                boot += "-" + os.readlink(NAMESPACE).strip("time:[]")  # of time:[4026531834]
        return boot
    except (OSError, UnicodeDecodeError):
        return ""


class System:
    """This machine's clocks."""

    def __init__(self) -> None:
        self.boot = this_boot()

    mono = staticmethod(time.monotonic_ns if _SUSPENDED is None else partial(time.clock_gettime_ns, _SUSPENDED))
    wall = staticmethod(time.time_ns)

    def sleep(self, ns: int) -> None:
        """Exact to some microseconds: on a directory a claim waits only a fraction of a millisecond."""
        until = self.mono() + ns
        if ns > OVERSLEPT:
            time.sleep((ns - OVERSLEPT) / SECOND)
        while self.mono() < until:
            pass

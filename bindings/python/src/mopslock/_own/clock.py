"""The two clocks that the core gets."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from .._units import SECOND

BOOT_ID, NAMESPACE = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/time"

_SUSPENDED: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux

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


def _monotonic() -> Callable[[], int]:
    """The clock that counts the time asleep, which is also that of a keeper in Go (host/internal/clock). That of
    time.monotonic does not count it on macOS, and on Windows it is another one since Python 3.13."""
    if sys.platform == "darwin":
        return partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
    if sys.platform == "win32":
        ticks = ctypes.WinDLL("kernel32").GetTickCount64
        ticks.restype = ctypes.c_uint64
        return lambda: int(ticks()) * 1_000_000
    return time.monotonic_ns if _SUSPENDED is None else partial(time.clock_gettime_ns, _SUSPENDED)


class System:
    """This machine's clocks."""

    def __init__(self) -> None:
        self.boot = this_boot()

    mono = staticmethod(_monotonic())
    wall = staticmethod(time.time_ns)

    def sleep(self, ns: int) -> None:
        """Exact to some microseconds: on a directory a claim waits only a fraction of a millisecond."""
        until = self.mono() + ns
        if ns > OVERSLEPT:
            time.sleep((ns - OVERSLEPT) / SECOND)
        while self.mono() < until:
            pass

"""When a process was held up: which is what lastwriter does not bear, and what no bound in seconds foresees."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TICK = 0.02
LATE = 2 * TICK
"""A turn that takes longer was held up."""
COSTS = 3
"""What a hold-up costs a claim of lastwriter at most, in its own length: itself, and then twice what read and put
took."""


def watch(file: Path, tell: Callable[[float, float], None]) -> threading.Event:
    """Begins a thread that writes a small file each TICK, as a claim does, and tells from when to when each turn took
    that was held up, by time.monotonic: because the machine stood still, or was busy, or its disk was. The event ends
    it."""
    over = threading.Event()

    def run() -> None:
        last = time.monotonic()
        while not over.wait(TICK):
            part = file.with_suffix(".part")
            part.write_bytes(b"tick")
            os.replace(part, file)
            now = time.monotonic()
            if now - last > LATE:
                tell(last, now)
            last = now

    threading.Thread(target=run, daemon=True).start()
    return over


class Measured:
    """For how many seconds this process was held up since an instant of time.monotonic."""

    def __init__(self) -> None:
        self.turns: list[tuple[float, float]] = []

    def in_all(self, instant: float) -> float:
        """What must come in time has done so if it was not."""
        return sum(self._since(instant))

    def at_once(self, instant: float) -> float:
        """At most. What must exclude by a margin has done so if it was not for as long."""
        return max(self._since(instant), default=0.0)

    def _since(self, instant: float) -> list[float]:
        time.sleep(LATE)  # in which a turn that is held up right now ends
        return [end - max(begin, instant) for begin, end in self.turns if end > instant]


@contextlib.contextmanager
def measured(folder: Path) -> Iterator[Measured]:
    """Measures while the block runs."""
    found = Measured()
    folder.mkdir()
    over = watch(folder / "tick", lambda begin, end: found.turns.append((begin, end)))
    try:
        yield found
    finally:
        over.set()


@contextlib.contextmanager
def promptly(folder: Path, seconds: float) -> Iterator[None]:
    """What is done within takes no longer, but for what this machine stands still."""
    with measured(folder / "held-up") as found:
        begin = time.monotonic()
        yield
        assert time.monotonic() - begin - found.in_all(begin) < seconds

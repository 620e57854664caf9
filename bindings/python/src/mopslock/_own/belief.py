"""Until when claims in a keeper may be relied on: memory that the keeper writes and this process reads."""

from __future__ import annotations

import contextlib
import glob
import mmap
import os
import tempfile
import time
from typing import IO

from . import wire

WORDS = 1 << 20
"""Claims that can be held at once. A page of words takes memory when one of them is used."""

PREFIX = "mopslock-belief-"

LEFT = 3600.0
"""Seconds, longer than a keeper takes to begin, after which a file was left."""


def _above_streams(fd: int) -> int:
    """Another descriptor of a file: where stdin is closed it is no stdin."""
    import fcntl  # noqa: PLC0415 - Windows has none

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _sweep() -> None:
    """Removes what other processes have left. Windows refuses to remove what is in use; what is new may be
    in no use yet, as long as its keeper has not opened it."""
    for left in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), PREFIX + "*")):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(left).st_mtime > LEFT:
                os.unlink(left)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


class Belief:
    """Until when claims may be relied on: memory that the keeper writes, in words of 8 bytes."""

    def __init__(self) -> None:
        size = 8 * WORDS
        with self._file() as file:
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)
            self.fd = -1 if wire.PIPES else _above_streams(file.fileno())
        self.path = file.name if wire.PIPES else f"/dev/fd/{self.fd}"
        """How the keeper opens it."""
        self.words = memoryview(self._map).cast("q")
        self._free: list[int] = []
        self._next = 1

    def _file(self) -> IO[bytes]:
        if wire.PIPES:
            _sweep()
            return tempfile.NamedTemporaryFile(prefix=PREFIX, delete=False)  # nothing else can be opened there
        memfd = getattr(os, "memfd_create", None)
        if memfd is None:
            return tempfile.TemporaryFile(prefix=PREFIX)
        return open(memfd("mopslock", 0), "r+b", buffering=0)  # no file anywhere, and no /dev/shm

    @property
    def passed(self) -> tuple[int, ...]:
        """What a child inherits."""
        return (self.fd,) if self.fd >= 0 else ()

    def opened(self) -> None:
        """The keeper has it, or there is none. What is mapped stays."""
        if self.fd >= 0:
            os.close(self.fd)
        else:
            _remove(self.path)  # Windows refuses, as long as it is mapped

    def take(self) -> int:
        """A word of one's own, or 0 if there is none left: what has none hears of its renewals."""
        if self._free:
            return self._free.pop()
        if self._next == WORDS:
            return 0
        self._next += 1
        return self._next - 1

    def give_back(self, slot: int) -> None:
        """Its claim has ended, and was told."""
        if slot:
            self._free.append(slot)


class Word:
    """What a claim stands on: a word, as long as it is that of the same tenure."""

    __slots__ = ("_slot", "_tenure", "_words")

    def __init__(self, words: memoryview, slot: int, tenure: int) -> None:
        self._words, self._slot, self._tenure = words, slot, tenure & 0xFF

    def until(self) -> int:
        """One read: the keeper writes it in the order of what happens."""
        word: int = self._words[self._slot]
        return word & ~0xFF if word & 0xFF == self._tenure else 0

    def renewed(self, _: int) -> Word:
        """The keeper has written that."""
        return self

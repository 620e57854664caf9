"""Until when claims in a keeper may be relied on: memory that the keeper writes and this process reads."""

from __future__ import annotations

import mmap
import os
import tempfile

WORDS = 1 << 20
"""Claims that can be held at once. A page of words takes memory when one of them is used."""


class Belief:
    """Until when claims may be relied on: memory that the keeper writes, in words of 8 bytes."""

    def __init__(self) -> None:
        import fcntl  # noqa: PLC0415 - Windows, which has no keepers yet, has none

        size = 8 * WORDS
        memfd = getattr(os, "memfd_create", None)
        with (
            open(memfd("mopslock", 0), "r+b", buffering=0)  # no file anywhere, and no /dev/shm
            if memfd is not None
            else tempfile.TemporaryFile(prefix="mopslock-")
        ) as file:
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)
            self.fd = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)  # where stdin is closed it is no stdin
        self.words = memoryview(self._map).cast("q")
        self._free: list[int] = []
        self._next = 1

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

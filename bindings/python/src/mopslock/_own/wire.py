"""Two descriptors, by which this process speaks to a keeper and hears of it: one socket, or on Windows two pipes."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading

from .._workers import begin_thread

PIPES = sys.platform == "win32"
"""Whether a child can have no socket as its stdin, and nothing but a thread can wait for bytes."""

PIECE = 1 << 16


class Wire:
    """Ours of both ends."""

    def __init__(self, hears: int, says: int) -> None:
        self._hears, self._says = hears, says
        self._same = self._files()
        self._come: queue.SimpleQueue[bytes] | None = None
        self._piece: bytes | None = None
        self._reader: threading.Thread | None = None
        if PIPES:
            self._come = queue.SimpleQueue()
            begin_thread(self._read_all, "mopslock-keeper-pipe", self._begun)

    def _begun(self, thread: threading.Thread | None) -> None:
        self._reader = thread
        if thread is None and self._come is not None:
            self._come.put(b"")

    def _files(self) -> list[tuple[int, int]]:
        return [(about.st_dev, about.st_ino) for about in map(os.fstat, (self._hears, self._says))]

    def is_ours(self) -> bool:
        """A user that becomes a daemon closes all descriptors, and these may be the user's own by now."""
        try:
            return self._files() == self._same
        except OSError:
            return False

    def say(self, said: bytes) -> None:
        """All of it."""
        left = memoryview(said)
        while left:
            left = left[os.write(self._says, left) :]

    def wait(self, seconds: float, ends: int = -1) -> bool | None:
        """Whether something can be read. None: no, and a process has ended, by its descriptor."""
        if self._come is not None:
            with contextlib.suppress(queue.Empty):
                self._piece = self._come.get(timeout=seconds)
            return self._piece is not None
        poll = select.poll()  # what waits in a read would keep a closed socket open
        for fd in (self._hears, ends):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(seconds * 1000)]
        return self._hears in ready or (None if ready else False)

    def read(self) -> bytes:
        """What wait has seen. Empty: it has ended."""
        if self._come is None:
            return os.read(self._hears, PIECE)
        piece, self._piece = self._piece, None
        return piece or b""

    def _read_all(self) -> None:
        piece = b"?"
        while piece and self._come is not None:
            try:
                piece = os.read(self._hears, PIECE)
            except OSError:
                piece = b""
            self._come.put(piece)

    def close(self) -> None:
        """Which ends the keeper. What a thread still reads is closed by the end of that, in this process."""
        with contextlib.suppress(OSError):
            os.close(self._says)
        if self._hears == self._says:
            return
        if self._reader is not None and self._reader.is_alive():
            self._reader.join(0 if self._reader is threading.current_thread() else CLOSING)
        if self._reader is None or not self._reader.is_alive():
            with contextlib.suppress(OSError):
                os.close(self._hears)


CLOSING = 1.0
"""Seconds that a keeper may take to end after its messages have. One that hangs leaves a descriptor open."""

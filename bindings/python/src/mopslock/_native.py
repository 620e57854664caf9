"""A machine of the core in libmopslock-core, by ctypes."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from . import _library
from .errors import EngineFailed, Forked


class _AnswerBuffer:
    """The memory that answers are written to. It is reused for the next one."""

    def __init__(self) -> None:
        buffer = ctypes.create_string_buffer(_library.MAX_MESSAGE)
        number = (ctypes.c_uint64 * 2)()
        self.view = memoryview(buffer).cast("B")
        self.numbers = number
        self.at = ctypes.addressof(buffer)
        self.handle_at = ctypes.addressof(number)
        self.length_at = self.handle_at + 8
        self.keep = buffer

    def answer(self, code: int) -> bytes:
        """What was written. EngineFailed: the library has failed."""
        if code in (_library.OK, _library.ECONTRACT):
            return bytes(self.view[: self.numbers[1]])
        if code == _library.EFORKED:
            raise Forked("mopslock: the library was loaded before this process was forked")
        raise EngineFailed(f"mopslock: the core refused a message (code {code}); this is an error in mopslock")


class _AnswerBuffers(threading.local):
    """Each thread's free buffers. A thread needs a second one when a signal's handler makes a step in between."""

    def __init__(self) -> None:
        self.free: list[_AnswerBuffer] = []

    def take(self) -> _AnswerBuffer:
        return self.free.pop() if self.free else _AnswerBuffer()


_buffers = _AnswerBuffers()


class Native:
    """Room for one machine in the library."""

    __slots__ = ("_handle", "_library", "_pid")

    def __init__(self) -> None:
        self._library: Any = _library.core()
        self._handle, self._pid = 0, os.getpid()

    def new(self, config: bytes) -> bytes:
        """Makes the machine, if the answer has no error."""
        buffer = _buffers.take()
        try:
            buffer.numbers[0] = 0
            code = self._library.new(
                config, len(config), buffer.handle_at, buffer.at, _library.MAX_MESSAGE, buffer.length_at
            )
            self._handle = buffer.numbers[0]
            return buffer.answer(code)
        finally:
            _buffers.free.append(buffer)

    def step(self, given: bytes) -> bytes:
        """Gives the machine an input."""
        buffer = _buffers.take()
        try:
            code = self._library.step(
                self._handle, given, len(given), buffer.at, _library.MAX_MESSAGE, buffer.length_at
            )
            return buffer.answer(code)
        finally:
            _buffers.free.append(buffer)

    def drop(self) -> None:
        """Forgets the machine. A second call, and a call in a forked child, does nothing."""
        handle, self._handle = self._handle, 0
        if handle and self._pid == os.getpid():
            self._library.drop(handle)

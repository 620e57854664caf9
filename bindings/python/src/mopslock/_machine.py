"""One machine of the core: dictionaries in, dictionaries out."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from typing import Any

import msgpack

from . import _library
from .errors import BadArgument, EngineFailed, Forked, WeightExceedsLimit

Answer = dict[str, Any]
"""A machine's answer: ``state``, ``idle``, and ``actions``, as bindings/README.md describes them."""


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

    def answer(self, code: int) -> Answer:
        """What was written, if there was anything."""
        if code not in (_library.OK, _library.ECONTRACT):
            return {}
        answer: Answer = msgpack.unpackb(self.view[: self.numbers[1]])
        return answer


class _AnswerBuffers(threading.local):
    """Each thread's free buffers. A thread needs a second one when a signal's handler makes a step in between."""

    def __init__(self) -> None:
        self.free: list[_AnswerBuffer] = []

    def take(self) -> _AnswerBuffer:
        return self.free.pop() if self.free else _AnswerBuffer()


_buffers = _AnswerBuffers()


class Machine:
    """A machine. Only one thread at a time may step it. Drop it when it is idle and no longer needed."""

    __slots__ = ("_handle", "_library", "_pid", "idle", "state")

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Makes a machine from a Config. BadArgument lists every bad field."""
        library, buffer, message = _library.core(), _buffers.take(), pack(config)
        try:
            code = library.new(
                message, len(message), buffer.handle_at, buffer.at, _library.MAX_MESSAGE, buffer.length_at
            )
            handle, answer = buffer.numbers[0], buffer.answer(code)
        finally:
            _buffers.free.append(buffer)
        if code != _library.OK:
            raise refused(code, answer)
        self._library, self._handle, self._pid = library, handle, os.getpid()
        self.state: str = answer["state"]
        self.idle = True

    def step(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Gives the machine an Input, whose keys stand in the core's order, and returns its actions."""
        library, buffer, message = self._library, _buffers.take(), pack(given)
        try:
            code = library.step(self._handle, message, len(message), buffer.at, _library.MAX_MESSAGE, buffer.length_at)
            answer = buffer.answer(code)
        finally:
            _buffers.free.append(buffer)
        if code != _library.OK:
            raise refused(code, answer)
        self.state, self.idle = answer["state"], answer.get("idle", False)
        actions: list[dict[str, Any]] = answer.get("actions", [])
        return actions

    def drop(self) -> None:
        """Forgets the machine. A second call, and a call in a forked child, does nothing."""
        handle, self._handle = self._handle, 0
        if handle and self._pid == os.getpid():
            self._library.drop(handle)


pack: Any = msgpack.packb


_FAULTS = {"config": BadArgument, "too_heavy": WeightExceedsLimit}
"""What a caller may have said: a Config, or the terms of a client's command."""


def refused(code: int, answer: Answer) -> Exception:
    """The error for a step that was refused."""
    fault = _FAULTS.get(answer.get("error", ""))
    return fault("mopslock: " + answer["text"]) if fault else broken(code, answer)


def broken(code: int, answer: Answer) -> Exception:
    """The error for a code that a correct host never sees."""
    if code == _library.EFORKED:
        return Forked("mopslock: the library was loaded before this process was forked")
    said = f": {answer['text']}" if "text" in answer else ""
    return EngineFailed(f"mopslock: the core refused a message (code {code}){said}; this is an error in mopslock")

"""A machine of the core in libmopslock-core, by ctypes: when it is loaded, and what happens to it in a fork.

A Go runtime does not survive fork(): the child has only one of the threads that it needs. The child never calls a
library that was loaded before the fork. It loads a private copy of the file when it needs one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from .errors import EngineFailed, Forked

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
FOLDER = "MOPSLOCK_LIB"  # the environment variable that names another folder with the libraries
BUILD = (
    "it comes with a wheel: install one, or build it: "
    "pip install ./bindings/command ./bindings/python of a checkout, with Go"
)
ABI = 6

OK, EFORKED, ECONTRACT = 0, -4, -16
MAX_MESSAGE = 98304

u64, size_t, text, address = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p


def folder() -> Path:
    """Where the library and the module are."""
    return Path(os.environ.get(FOLDER) or Path(__file__).parent / "_lib")


def library_path() -> Path:
    """Where the library is, if it is there."""
    return folder() / f"libmopslock-core{SUFFIX}"


class Library:
    """The loaded library: its functions, with their types."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.PyDLL(str(path))  # it keeps the GIL: its calls are quick and wait for nothing
        except OSError as error:
            raise EngineFailed(f"mopslock: {path.name} cannot be loaded: {error}; {BUILD}") from error
        try:
            self.new = declare(library.mopslock_new, text, size_t, address, address, size_t, address)
            self.step = declare(library.mopslock_step, u64, text, size_t, address, size_t, address)
            self.drop = declare(library.mopslock_drop, u64)
            library.mopslock_abi_version.restype = ctypes.c_uint32
        except AttributeError as error:
            raise EngineFailed(f"mopslock: {path} is no libmopslock-core: {error}; {BUILD}") from error
        version = library.mopslock_abi_version()
        if version < ABI:
            raise EngineFailed(f"mopslock: {path} is too old (ABI {version}, not {ABI}); build or install it again")


def declare(function: Any, *arguments: Any) -> Any:
    """Gives a C function the types of its arguments. All of them return an int."""
    function.argtypes, function.restype = arguments, ctypes.c_int
    return function


class _Loaded:
    """What this process has loaded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.core: Library | None = None
        self.dead = False  # it was loaded before a fork, and is unusable in this child


_loaded = _Loaded()


def core() -> Library:
    """The library, loaded when it is first needed."""
    with _loaded.lock:
        if _loaded.core is None:
            _loaded.core = _load()
        return _loaded.core


def _load() -> Library:
    path = library_path()
    if not path.exists():
        raise EngineFailed(f"mopslock: there is no {path}; {BUILD}")
    if not _loaded.dead:
        return Library(path)
    # The dynamic linker identifies a file by its inode, and would return the dead one.
    with tempfile.TemporaryDirectory(prefix="mopslock-") as scratch:
        return Library(Path(shutil.copyfile(path, Path(scratch) / path.name)))


def _in_child() -> None:
    dead = _loaded.dead or _loaded.core is not None
    _loaded.__init__()  # type: ignore[misc]
    _loaded.dead = dead


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class _Buffer:
    """The memory that an answer is written to. It is reused for the next one."""

    def __init__(self) -> None:
        self.keep, self.numbers = ctypes.create_string_buffer(MAX_MESSAGE), (ctypes.c_uint64 * 2)()
        self.view = memoryview(self.keep).cast("B")
        self.handle_at = ctypes.addressof(self.numbers)
        self.answer = ctypes.addressof(self.keep), MAX_MESSAGE, self.handle_at + 8

    def read(self, code: int) -> bytes:
        """What was written. EngineFailed: the library has failed."""
        if code in (OK, ECONTRACT):
            return bytes(self.view[: self.numbers[1]])
        if code == EFORKED:
            raise Forked("mopslock: the library was loaded before this process was forked")
        raise EngineFailed(f"mopslock: the core refused a message (code {code}); this is an error in mopslock")


class _Buffers(threading.local):
    """Each thread's free buffers. A thread needs a second one when a signal's handler makes a step in between."""

    def __init__(self) -> None:
        self.free: list[_Buffer] = []


_buffers = _Buffers()


class Native:
    """Room for one machine in the library, as an Engine."""

    __slots__ = ("_handle", "_library", "_pid")

    def __init__(self) -> None:
        self._library = core()
        self._handle, self._pid = 0, os.getpid()

    def new(self, config: bytes) -> bytes:
        buffer = _buffers.free.pop() if _buffers.free else _Buffer()
        try:
            buffer.numbers[0] = 0
            code = self._library.new(config, len(config), buffer.handle_at, *buffer.answer)
            self._handle = buffer.numbers[0]
            return buffer.read(code)
        finally:
            _buffers.free.append(buffer)

    def step(self, given: bytes) -> bytes:
        buffer = _buffers.free.pop() if _buffers.free else _Buffer()
        try:
            return buffer.read(self._library.step(self._handle, given, len(given), *buffer.answer))
        finally:
            _buffers.free.append(buffer)

    def drop(self) -> None:
        handle, self._handle = self._handle, 0
        if handle and self._pid == os.getpid():
            self._library.drop(handle)

"""libmopslock-core under ctypes: when it is loaded, and what happens to it in a fork.

The package uses ctypes, and no compiled extension. So one wheel serves every Python, and the steps can keep the GIL. A
step takes less than a microsecond and waits for nothing. If it released the GIL, as cffi always does, each step beside
a thread that computes would wait up to the switch interval (5 ms) to get it back, and renewals would starve. make bench
measures that.

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

from .errors import EngineFailed

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
HERE = Path(__file__).parent / "_lib"
FOLDER = "MOPSLOCK_LIB"
"""The environment variable that names another folder with the libraries."""

ABI = 6

OK, EFORKED, ECONTRACT = 0, -4, -16
MAX_MESSAGE = 98304

u64, size_t, text, address = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p


def folder() -> Path:
    """Where the library and the module are."""
    return Path(os.environ.get(FOLDER) or HERE)


def library_path() -> Path:
    """Where the library is, if it is there."""
    return folder() / f"libmopslock-core{SUFFIX}"


class Library:
    """The loaded library: its functions, with their types."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.PyDLL(str(path))  # it keeps the GIL: its calls are quick and wait for nothing
        except OSError as error:
            raise EngineFailed(f"mopslock: {path.name} cannot be loaded: {error}. {BUILD}") from error
        self.new: Any = declare(library.mopslock_new, text, size_t, address, address, size_t, address)
        self.step: Any = declare(library.mopslock_step, u64, text, size_t, address, size_t, address)
        self.drop: Any = declare(library.mopslock_drop, u64)
        library.mopslock_abi_version.restype = ctypes.c_uint32
        version = library.mopslock_abi_version()
        if version < ABI:
            raise EngineFailed(f"mopslock: {path} is too old (ABI {version}, not {ABI}); build or install it again")


BUILD = (
    "It comes with the wheel for this system; install one, or build it: pip install ./bindings/python of a checkout, "
    "with Go"
)


def declare(function: Any, *arguments: Any) -> Any:
    """Gives a C function the types of its arguments. All of them return an int."""
    function.argtypes = arguments
    function.restype = ctypes.c_int
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
        raise EngineFailed(f"mopslock: there is no {path}. {BUILD}")
    if not _loaded.dead:
        return Library(path)
    # The dynamic linker identifies a file by its inode, and would return the dead one.
    with tempfile.TemporaryDirectory(prefix="mopslock-") as scratch:
        copy = Path(scratch) / path.name
        shutil.copyfile(path, copy)
        return Library(copy)


def _in_child() -> None:
    """After fork, in the child, while it has one thread."""
    dead = _loaded.dead or _loaded.core is not None
    _loaded.__init__()  # type: ignore[misc]
    _loaded.dead = dead


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

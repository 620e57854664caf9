"""The shared libraries under ctypes: which one is loaded when, and what happens to them in a fork.

Two libraries come with the package. libmopslock-core only decides (2 MB); libmopslock also talks to stores (59 MB).
Each is loaded when it is first needed. The small one is never loaded after the big one, which contains it.

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

OK, ESHORT, EFORKED = 0, -3, -4
ECONTRACT = -16
MAX_MESSAGE = 98304

u64, i64, size_t, text, address = (
    ctypes.c_uint64, ctypes.c_int64, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p,
)  # fmt: skip


def folder() -> Path:
    """Where the libraries are."""
    return Path(os.environ.get(FOLDER) or HERE)


def is_there() -> bool:
    """Whether there is a libmopslock-core."""
    return (folder() / f"libmopslock-core{SUFFIX}").exists()


class Library:
    """One loaded library: its functions, with their types."""

    def __init__(self, path: Path, *, full: bool) -> None:
        self.path, self.full = path, full
        try:
            keeps_gil = ctypes.PyDLL(str(path))  # for calls that are quick and wait for nothing
            lets_go = ctypes.CDLL(str(path))
        except OSError as error:
            raise EngineFailed(
                f"mopslock: {path.name} cannot be loaded: {error}. It comes with the wheel for this system; "
                "install one, or build it: pip install ./bindings/python of a checkout, with Go"
            ) from error
        self.new: Any = declare(keeps_gil.mopslock_new, text, size_t, address, address, size_t, address)
        self.step: Any = declare(keeps_gil.mopslock_step, u64, text, size_t, address, size_t, address)
        self.drop: Any = declare(keeps_gil.mopslock_drop, u64)
        self.lets_go, self.keeps_gil = lets_go, keeps_gil
        keeps_gil.mopslock_abi_version.restype = ctypes.c_uint32
        version = keeps_gil.mopslock_abi_version()
        if version < ABI:
            raise EngineFailed(f"mopslock: {path} is too old (ABI {version}, not {ABI}); build or install it again")


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
        self.full: Library | None = None
        self.dead: set[Path] = set()  # loaded before a fork, and unusable in this child


_loaded = _Loaded()


def core() -> Library:
    """A library with the core in it: the big one if it is loaded, otherwise the small one."""
    library = _loaded.full or _loaded.core
    if library is not None:
        return library
    with _loaded.lock:
        if _loaded.full is None and _loaded.core is None:
            _loaded.core = _load("libmopslock-core", full=False)
        return _loaded.full or _loaded.core  # type: ignore[return-value]


def full() -> Library:
    """The library that talks to stores."""
    library = _loaded.full
    if library is not None:
        return library
    with _loaded.lock:
        if _loaded.full is None:
            _loaded.full = _load("libmopslock", full=True)
        return _loaded.full


def _load(name: str, *, full: bool) -> Library:
    path = folder() / (name + SUFFIX)
    if not path.exists():
        raise EngineFailed(
            f"mopslock: there is no {path}. It comes with the wheel for this system; install one, "
            "or build it: pip install ./bindings/python of a checkout, with Go"
        )
    if path not in _loaded.dead:
        return Library(path, full=full)
    # The dynamic linker identifies a file by its inode, and would return the dead one.
    with tempfile.TemporaryDirectory(prefix="mopslock-") as scratch:
        copy = Path(scratch) / path.name
        shutil.copyfile(path, copy)
        return Library(copy, full=full)


def _in_child() -> None:
    """After fork, in the child, while it has one thread."""
    dead = _loaded.dead | {library.path for library in (_loaded.core, _loaded.full) if library is not None}
    _loaded.__init__()  # type: ignore[misc]
    _loaded.dead = {folder() / path.name for path in dead}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

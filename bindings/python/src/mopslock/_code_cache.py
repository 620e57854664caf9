"""Compiled modules that are kept in the user's cache directory.

What lies there is machine code: a user who can write it runs code in our process. So a file is believed only if it and
its directory belong to this user, no other user may write them, and it begins with the SHA-256 of its name and the
rest. The digest finds damage, not an attacker: that is what owner and mode are for. A file is read whole before it is
used, since a mapped one could change below us, or vanish from a network's file system.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

MOST = 4
"""Files that are kept: those of so many versions and environments."""

DIGEST = hashlib.sha256().digest_size


def folder() -> Path:
    """Where they are kept. OSError: there can be no such directory that is this user's alone."""
    cache = _users_cache()
    if not cache.is_absolute():
        raise FileNotFoundError("this user has no cache directory")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        above = next(path for path in (cache, *cache.parents) if path.exists())
        if above.stat().st_uid != 0:
            raise PermissionError(f"{above} is another user's, and root leaves nothing there")
    own = cache / "mopslock" / "wasmtime"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not stat.S_ISDIR(own.lstat().st_mode) or not _is_ours(own.lstat()):
        raise PermissionError(f"{own} is no directory that only this user may write")
    return own


def read(name: str) -> bytes | None:
    """A compiled module; None if there is none that can be believed."""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(folder() / name, flags), "rb") as file:
            if not _is_ours(os.fstat(file.fileno())):
                return None
            digest, image = file.read(DIGEST), file.read()
    except (OSError, RuntimeError):
        return None
    return image if digest == _digest(name, image) else None


def keep(name: str, image: bytes) -> Path:
    """Puts a compiled module there, whole and at once. OSError or RuntimeError: it cannot be kept."""
    own = folder()
    file, fresh = tempfile.mkstemp(prefix=".new-", dir=own)
    try:
        with open(file, "wb") as stream:
            stream.write(_digest(name, image))
            stream.write(image)
        os.replace(fresh, own / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
    with contextlib.suppress(OSError):
        for old in sorted(own.iterdir(), key=lambda path: path.stat().st_mtime)[:-MOST]:
            old.unlink()
    return own / name


def _digest(name: str, image: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + image).digest()


def _is_ours(about: os.stat_result) -> bool:
    """Windows has no owner here: there the user's own directory is what protects."""
    return not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)


def _users_cache() -> Path:
    """RuntimeError: the user has no home."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return asked if asked.is_absolute() else Path.home() / ".cache"

"""Compiled modules that are kept in the user's cache directory.

What lies there is machine code: a user who can write it runs code in our process. So a file is believed only if it and
its directory belong to this user, no other user may write them, and it begins with the SHA-256 of its name and the
rest. The digest finds damage, not an attacker: that is what owner and mode are for. A file is read whole before it is
used, since a mapped one could change below us, or vanish from a network's file system.

*Rejected:* wasmtime's own cache. It runs what is damaged, and ends the process where there can be no more threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

MOST = 4  # files that are kept: those of so many versions and environments
DIGEST = hashlib.sha256().digest_size


def read(name: str) -> bytes | None:
    """A compiled module; None if there is none that can be believed."""
    try:
        path = _folder() / name
        if not _is_ours(path.lstat(), stat.S_IFREG):
            return None
        with open(path, "rb") as file:
            digest, image = file.read(DIGEST), file.read()
    except (OSError, RuntimeError):
        return None
    return image if digest == _digest(name, image) else None


def keep(name: str, image: bytes) -> Path:
    """Puts a compiled module there, whole and at once. OSError or RuntimeError: it cannot be kept."""
    own = _folder()
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


def _folder() -> Path:
    cache = _users_cache()
    if not cache.is_absolute():
        raise FileNotFoundError("this user has no cache directory")
    above = next((path for path in (cache, *cache.parents) if path.exists()), None)
    if above is None:  # as on a drive that is not there
        raise FileNotFoundError(f"{cache} has no root")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and above.stat().st_uid != 0:
        raise PermissionError(f"{above} is another user's, and root leaves nothing there")
    own = cache / "mopslock" / "wasmtime"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(own.lstat(), stat.S_IFDIR):
        raise PermissionError(f"{own} is no directory that only this user may write")
    return own


def _digest(name: str, image: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + image).digest()


def _is_ours(about: os.stat_result, kind: int) -> bool:
    """Windows has no owner here: there the user's own directory is what protects."""
    ours = not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)
    return ours and stat.S_IFMT(about.st_mode) == kind


def _users_cache() -> Path:
    """RuntimeError: the user has no home."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return asked if asked.is_absolute() else Path.home() / ".cache"

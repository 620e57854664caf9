"""The files of stores in a directory: whole or not at all, and only where the directory is the one that was opened."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TypeVar

from .errors import NoSuchStore, Unreachable

T = TypeVar("T")

MOST = (64 << 10) + 1
"""How many bytes of an object are read: one more than a record may have."""


class Blob(NamedTuple):
    """An object, with the store's own modification time if the store has one."""

    body: bytes
    modified_ns: int = 0
    """Nanoseconds since 1970, or 0."""


class Root:
    """The directory of a store. It is made once, and every answer is believed only if its path leads to it still: the
    same device and inode, or after a remount the nonce in its ``_mopslock/store.json``. file:// has the same rule.

    A beat, which overwrites, does not look for a nonce that it does not know: that costs it the GIL once more.

    A write looks right before it is applied, too. If the directory goes between the two, the temporary file is not in
    the other place.
    """

    def __init__(self, path: str, make: bool = True) -> None:
        self.path, self.make = path, make
        self._known: tuple[int, int, int, str] | None = None  # device, inode, time of the last entry, nonce
        with contextlib.suppress(OSError, NoSuchStore):
            self.enter()

    def ask(self, verb: Callable[..., T], *args: Any) -> T:
        """What a verb answers, if the directory is the same afterwards."""
        self.enter()
        try:
            return verb(*args)
        finally:
            self.check()

    def look(self, verb: Callable[..., T], *args: Any) -> T:
        """The same of a list, with which a look at a name begins, if the directory is the same before it as well: where
        a mount is away, and back right after, there is an empty store. What follows has been preceded by a check."""
        self.enter()
        self.check()
        return self.ask(verb, *args)

    def write(self, verb: Callable[..., T], path: str, body: bytes) -> T:
        """The same of a write, which also learns the nonce once there is one."""
        answer = self.ask(verb, path, body, self)
        if self._known and not self._known[3] and (nonce := self._nonce()):
            self._known = (*self._known[:3], nonce)
        return answer

    def enter(self) -> None:
        """Finds the directory or makes it, once."""
        if self._known:
            return
        try:
            about = os.stat(self.path)
        except FileNotFoundError:
            if not self.make:
                raise NoSuchStore(
                    f"mopslock: there is no directory {self.path}, and create=False says to make none: mount it, or "
                    "make it"
                ) from None
            os.makedirs(self.path, exist_ok=True)
            about = os.stat(self.path)
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path)
        self._known = (about.st_dev, about.st_ino, about.st_mtime_ns, self._nonce())

    def check(self) -> None:
        """Raises Unreachable if another directory is at the path, or none."""
        known = self._known
        try:
            about = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            known = None
        if known and stat.S_ISDIR(about.st_mode):
            device, inode, changed, nonce = known
            same = (about.st_dev, about.st_ino) == (device, inode)
            if same and (not nonce or about.st_mtime_ns == changed):
                return
            # The inode of a directory that was removed may be used again: the nonce decides.
            now = self._nonce()
            if now == nonce if nonce else same:
                self._known = (about.st_dev, about.st_ino, about.st_mtime_ns, now)
                return
        raise Unreachable(
            f"mopslock: the store's directory was removed, moved or unmounted, or another is in its place "
            f"({self.path}): mount it or move it back; if what is there now is meant, start again"
        )

    def make_folders(self, folder: str) -> None:
        """Makes a directory and those above it, but not the root. Another process may remove one meanwhile."""
        if folder != self.path:
            self.make_folders(os.path.dirname(folder))
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.mkdir(folder)

    def _nonce(self) -> str:
        found = read_file(os.path.join(self.path, "_mopslock", "store.json"))
        try:
            nonce = json.loads(found.body)["nonce"] if found else ""
        except (ValueError, TypeError, KeyError):
            return ""
        return nonce if isinstance(nonce, str) else ""


MOST_TRIES = 64
"""How often a write makes its directory again where deletes elsewhere keep removing it."""

TEMPORARY = ".mopslock-tmp-"
"""The same prefix as file:// uses. It leaves such files out of its listings and removes old ones."""

_chance = random.Random()
"""Unlike os.urandom it keeps the GIL. Users seed another one."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def read_file(path: str) -> Blob | None:
    """A record's file, or None if there is none."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    try:
        about = os.fstat(file)
        body = os.read(file, MOST)
        while 0 < len(body) < MOST and len(body) != about.st_size and (more := os.read(file, MOST - len(body))):
            body += more
        return Blob(body, about.st_mtime_ns)
    finally:
        os.close(file)


def open_file(path: str) -> BinaryIO | None:
    """A file's stream, or None if there is none."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        return None


def write_file(path: str, body: bytes, root: Root | None = None, make: bool = True) -> None:
    """Replaces the whole file. Readers see the old one or the new one."""
    fresh = ""
    try:
        fresh = _fresh_file(path, body, root, make)
        if root:
            root.check()
        os.replace(fresh, path)
    except BaseException:
        _remove(fresh)
        raise


def overwrite_file(path: str, body: bytes, root: Root | None = None) -> bool:
    """Replaces a file that was there, and makes no directory. False: the directory is gone."""
    try:
        write_file(path, body, root, make=False)
    except FileNotFoundError:
        if os.path.isdir(os.path.dirname(path)):
            raise
        return False
    return True


def create_file(path: str, body: bytes, root: Root | None = None) -> bool:
    """Makes a whole file if there is none. If several calls try at once, exactly one succeeds. False: there is one."""
    if os.path.lexists(path):
        return False
    fresh = ""
    try:
        fresh = _fresh_file(path, body, root)
        if root:
            root.check()
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        _remove(fresh)
    return True


def remove_file(path: str, root: Root) -> None:
    """Removes a file if there is one, and the directories that it leaves empty."""
    root.check()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with contextlib.suppress(OSError):  # not empty, or not ours to remove
        while len(path := os.path.dirname(path)) > len(root.path):
            os.rmdir(path)


def list_files(root: str, prefix: str, after: str, count: int | None) -> list[tuple[str, int]]:
    """The first keys that begin with prefix and come after a key, in their order, and when each was written."""
    return list(islice(_files_below(root, prefix.rpartition("/")[0], prefix, after), count))


def _files_below(root: str, folder: str, prefix: str, after: str) -> Iterator[tuple[str, int]]:
    """It reads the names of whole directories, but only of those that can hold such keys."""
    keys = []
    try:
        with os.scandir(os.path.join(root, *folder.split("/"))) as entries:
            for entry in entries:
                key = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    key += "/"  # so it stands where the keys below it do
                    if (key.startswith(prefix) or prefix.startswith(key)) and (key > after or after.startswith(key)):
                        keys.append(key)
                elif key.startswith(prefix) and key > after and not entry.name.startswith(TEMPORARY):
                    keys.append(key)
    except (FileNotFoundError, NotADirectoryError):
        return
    for key in sorted(keys):
        if key.endswith("/"):
            yield from _files_below(root, key[:-1], prefix, after)
        else:
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(os.path.join(root, *key.split("/")))
                if stat.S_ISREG(about.st_mode):
                    yield key, about.st_mtime_ns


def _fresh_file(path: str, body: bytes, root: Root | None = None, make: bool = True) -> str:
    """A file beside path with this body. Makes its directory, and again if another process has just removed it."""
    folder = os.path.dirname(path)
    fresh = os.path.join(folder, f"{TEMPORARY}{_chance.getrandbits(64):016x}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    for left in range(MOST_TRIES if make else 0, -1, -1):
        try:
            file = os.open(fresh, flags, 0o666)
            break
        except FileNotFoundError:
            if not left:
                raise
            if root:
                root.check()
                root.make_folders(folder)
            else:
                os.makedirs(folder, exist_ok=True)
    try:
        try:
            while body:
                body = body[os.write(file, body) :]
        finally:
            os.close(file)
    except BaseException:
        _remove(fresh)
        raise
    return fresh


def _remove(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):
            os.unlink(path)

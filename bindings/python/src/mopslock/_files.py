"""The files of stores in a directory: whole or not at all, and only where the directory is the one that was opened."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TypeVar

from .errors import NoSuchStore, Unreachable

T = TypeVar("T")

MOST = (64 << 10) + 1  # how many bytes of an object are read: one more than a record may have


class Blob(NamedTuple):
    """An object, with the store's own modification time if the store has one."""

    body: bytes
    modified_ns: int = 0
    """Nanoseconds since 1970, or 0."""


class Limit(threading.local):
    """Until when this thread's write may be applied. The host says, and a write asks right before it is."""

    over: Callable[[], bool] | None = None


limit = Limit()


class Root:
    """The directory of a store. It is made once, and every answer is believed only if its path leads to it still: the
    same device and inode, or after a remount the nonce in its ``_mopslock/store.json``. file:// has the same rule.

    A beat, which overwrites, does not look for a nonce that it does not know: that costs it the GIL once more.

    A write looks right before it is applied, too. If the directory goes between the two, the temporary file is not in
    the other place.
    """

    def __init__(self, path: str, make: bool = True) -> None:
        self.path, self.make = path, make
        self.is_local = self.is_fine = False
        """Only this kernel writes it; its times have fractions of a second."""
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
        self.is_local = _is_local(self.path)
        self.is_fine = bool(about.st_mtime_ns % 1_000_000_000 or about.st_ctime_ns % 1_000_000_000)
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

    def make_folders(self, folder: str, made: list[str] | None = None) -> None:
        """Makes a directory and those above it, but not the root. Another process may remove one meanwhile. made gets
        the directories in which there are new ones."""
        if folder != self.path:
            above = os.path.dirname(folder)
            self.make_folders(above, made)
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.mkdir(folder)
                if made is not None:
                    made.append(above)

    def _nonce(self) -> str:
        found = read_file(os.path.join(self.path, "_mopslock", "store.json"))
        try:
            nonce = json.loads(found.body)["nonce"] if found else ""
        except (ValueError, TypeError, KeyError):
            return ""
        return nonce if isinstance(nonce, str) else ""


LONGEST = 1024  # bytes of a key
MOST_TRIES = 64  # how often a write makes its directory again where deletes elsewhere keep removing it
TEMPORARY = ".mopslock-tmp-"  # the same prefix as file:// uses
TEMPORARY_LIFE = 86_400  # seconds
_PLAIN = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

_chance = random.Random()  # Unlike os.urandom it keeps the GIL. Users seed another one.

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def may_apply(root: Root | None) -> None:
    """Right before the one call that applies a write. No code may stand between the two: of a process that was stopped
    before this look, another holds the name."""
    if root is not None:
        root.check()
    if limit.over is not None and limit.over():
        raise TimeoutError("mopslock: too late to write: the name may be another's by now")


def unkeepable(key: str) -> str:
    """Why there can be no file for a key; "" if there can be one."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "it is no UTF-8"
    if not 0 < size <= LONGEST:
        return f"it has {size} bytes, and 1 to {LONGEST} are allowed"
    if any(letter < " " or letter in "\x7f\\" for letter in key):
        return "it has a control character or a backslash"
    for segment in key.split("/"):
        if segment in ("", ".", ".."):
            return f"it has the segment {segment!r}"
        if segment.startswith(TEMPORARY):
            return f"a segment begins with {TEMPORARY}, as files do that are being written"
        if sys.platform == "win32" and segment[-1] in ". ":
            return "a segment ends with a dot or a space, which Windows drops"
    if sys.platform == "win32" and (any(letter in ':*?"<>|' for letter in key) or DEVICE.search(key)):
        return "it is no file name here"
    return ""


DEVICE = re.compile(
    r"(?:^|/)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9\xb9\xb2\xb3]) *(?:[./]|$)", re.IGNORECASE
)
"""A segment that Windows takes for a device, as it does CON and nul.txt."""


def patiently(do: Callable[[], T], *writes: Root | None) -> T:
    """Windows refuses what concerns a file that another process has open, as a reader has for a moment. A write looks
    before each try whether it may be applied."""
    for left in range(BUSY_TRIES, -1, -1):
        for root in writes:
            may_apply(root)
        try:
            return do()
        except PermissionError:
            if not left:
                raise
            time.sleep(BUSY_PAUSE)
    raise AssertionError("unreachable")


BUSY_TRIES, BUSY_PAUSE = 100 if sys.platform == "win32" else 0, 0.01


def read_file(path: str) -> Blob | None:
    if (found := _open_regular(path)) is None:
        return None
    file, about = found
    try:
        body = os.read(file, MOST)
        while 0 < len(body) < MOST and len(body) != about.st_size and (more := os.read(file, MOST - len(body))):
            body += more
        return Blob(body, about.st_mtime_ns)
    finally:
        os.close(file)


def open_file(path: str) -> BinaryIO | None:
    found = _open_regular(path)
    return None if found is None else os.fdopen(found[0], "rb")


def _open_regular(path: str) -> tuple[int, os.stat_result] | None:
    """A directory is no object, and nothing lies below a file. A pipe must not make us wait."""
    try:
        file = patiently(lambda: os.open(path, os.O_RDONLY | _PLAIN | getattr(os, "O_NONBLOCK", 0)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        if os.path.isdir(path):  # Windows does not open it
            return None
        raise
    about = os.fstat(file)
    if stat.S_ISREG(about.st_mode):
        return file, about
    os.close(file)
    if stat.S_ISDIR(about.st_mode):
        return None
    raise OSError(errno.EINVAL, "neither a file nor a directory has this name", path)


def is_file(path: str) -> bool:
    """Whether there is one. What cannot be told is raised."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def write_file(path: str, body: bytes, root: Root | None = None, make: bool = True) -> None:
    """Replaces the whole file, below a root or anywhere. Readers see the old one or the new one."""
    fresh = ""
    try:
        fresh = _fresh_file(path, body, root, make)
        patiently(lambda: os.replace(fresh, path), root)
    except BaseException:
        _remove(fresh)
        raise


def overwrite_file(path: str, body: bytes, root: Root) -> bool:
    """Replaces a file that was there, and makes no directory. False: the directory is gone."""
    try:
        write_file(path, body, root, make=False)
    except FileNotFoundError:
        try:
            os.stat(os.path.dirname(path))
        except FileNotFoundError:
            return False
        raise
    return True


def create_file(path: str, body: bytes, root: Root) -> bool:
    """Makes a whole file if there is none. If several calls try at once, exactly one succeeds. False: there is one.
    True: also a crash of the machine does not undo it."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return _taken(os.lstat(path), path)
    fresh, made = "", list[str]()
    try:
        fresh = _fresh_file(path, body, root, made=made)
        for folder in made:
            _sync(folder)
        may_apply(root)
        try:
            os.link(fresh, path)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # it was there
                theirs, ours = os.lstat(path), os.lstat(fresh)
                if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):  # NFS may link twice
                    return _taken(theirs, path)
                _sync(os.path.dirname(path))
                return True
            return False
        except OSError as error:
            if (
                error.errno in _NO_LINKS or getattr(error, "winerror", 0) == INVALID_FUNCTION
            ):  # of a file that we have just made there: FAT, and some of FUSE and SMB
                raise NotImplementedError(f"mopslock: the file system of {root.path} has no hard links") from error
            raise
        _sync(os.path.dirname(path))
    finally:
        _remove(fresh)
    return True


def _taken(theirs: os.stat_result, path: str) -> bool:
    """False, or why there can be no such file."""
    if stat.S_ISDIR(theirs.st_mode):
        raise NoSuchStore(f"mopslock: {path} is a directory: a key and another below it cannot both be objects here")
    return False


def remove_file(path: str, root: Root) -> None:
    """Removes a file if there is one, and the directories that it leaves empty."""
    try:
        patiently(lambda: os.unlink(path), root)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        if os.path.isdir(path):  # which is no object
            return
        raise
    with contextlib.suppress(OSError):  # not empty, or not ours to remove
        while len(path := os.path.dirname(path)) > len(root.path):
            os.rmdir(path)


def list_files(root: str, prefix: str, after: str, count: int | None) -> list[tuple[str, int]]:
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
                elif entry.name.startswith(TEMPORARY):
                    _sweep(entry)
                elif key.startswith(prefix) and key > after and not unkeepable(key):
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


def _sweep(entry: os.DirEntry[str]) -> None:
    """Removes a temporary file that nobody has written for a day: its writer was killed."""
    with contextlib.suppress(OSError):
        if time.time() - entry.stat(follow_symlinks=False).st_mtime > TEMPORARY_LIFE:
            os.unlink(entry.path)


def _fresh_file(
    path: str, body: bytes, root: Root | None, make: bool = True, made: list[str] | None = None
) -> str:  # fmt: skip
    """A file beside path with this body. Makes its directory, and again if another process has just removed it. With
    made, which gets the directories with new ones in them, a crash of the machine does not lose it."""
    folder = os.path.dirname(path)
    fresh = os.path.join(folder, f"{TEMPORARY}{_chance.getrandbits(64):016x}")
    for left in range(MOST_TRIES if make else 0, -1, -1):
        try:
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666)
            break
        except FileNotFoundError:
            if not left:
                raise
            if root is not None:
                root.check()
                root.make_folders(folder, made)
            else:
                os.makedirs(folder, exist_ok=True)
    try:
        try:
            while body:
                body = body[os.write(file, body) :]
            if made is not None:
                os.fsync(file)
        finally:
            os.close(file)
    except BaseException:
        _remove(fresh)
        raise
    return fresh


def _sync(folder: str) -> None:
    """What was made in a directory survives a crash of the machine. Not all systems can do that."""
    if sys.platform == "win32":
        return
    try:
        file = os.open(folder, os.O_RDONLY | _PLAIN)
    except FileNotFoundError:  # removed again
        return
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(file)


def _is_local(path: str) -> bool:
    """Whether only this kernel writes the file system of a path. host/store/local has the same list."""
    if not sys.platform.startswith("linux"):
        return False
    about = ctypes.create_string_buffer(256)  # struct statfs, whose first word is the type
    if ctypes.CDLL(None).statfs(os.fsencode(path), about):
        return False
    return ctypes.c_ulong.from_buffer(about).value & 0xFFFFFFFF in _LOCAL


_LOCAL = {
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x858458F6, 0x794C7630, 0xF2F52010, 0x52654973, 0x2FC12FC1, 0xCA451A4E,
    0x3153464A,
}  # fmt: skip
"""ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ReiserFS, ZFS, bcachefs, JFS. Of all others, such as NFS,
SMB and FUSE, many machines may write the files, and stamp them by any clock."""

INVALID_FUNCTION = 1  # as Windows says of FAT

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def _remove(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):
            os.unlink(path)

"""Keys that differ only in case, where the file system takes them for one. fold.go of host/store/local is the same."""

from __future__ import annotations

import os
import string

from .errors import NoSuchStore

MOST_SEEN = 10_000


class Spelling:
    """Refuses a file that has another spelling than its key, as N and n have on macOS and Windows. Without that two
    names would be one lease, and the result of one would be taken for that of the other."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folds: bool | None = None
        self._seen: dict[str, tuple[int, int]] = {}  # directories that are spelled as the keys say: device and inode

    def check(self, key: str) -> None:
        """NoSuchStore: the file of the key, which was just there, has another spelling."""
        if self._folds is False or not self._is_folding(key):
            return
        segments = key.split("/")
        folder, parent = self._root, os.path.join(self._root, *segments[:-1])
        try:
            about = os.stat(parent)
            if self._seen.get(parent) == (about.st_dev, about.st_ino):
                folder, segments = parent, segments[-1:]
            for segment in segments:
                names = os.listdir(folder)
                other = [name for name in names if name.casefold() == segment.casefold()]
                if other and segment not in names:
                    raise NoSuchStore(
                        "mopslock: this file system takes upper and lower case for the same, and the name is there in "
                        f"another spelling; use that spelling, or another name ({os.path.join(folder, other[0])})"
                    )
                folder = os.path.join(folder, segment)
        except (FileNotFoundError, NotADirectoryError):
            return  # it was removed since
        if len(self._seen) >= MOST_SEEN:
            self._seen = {}
        self._seen[parent] = (about.st_dev, about.st_ino)

    def _is_folding(self, key: str) -> bool:
        """A key without letters of ASCII does not tell: of others each file system knows another case. Neither does a
        file that is replaced or removed meanwhile."""
        if self._folds is None and (swapped := key.translate(SWAPPED)) != key:
            path = os.path.join(self._root, *key.split("/"))
            if (ours := _about(path)) is None:
                return False
            theirs = _about(os.path.join(self._root, *swapped.split("/")))
            if theirs and os.path.samestat(ours, theirs):
                self._folds = True
            elif (again := _about(path)) and os.path.samestat(ours, again):
                self._folds = False
        return self._folds is True


SWAPPED = str.maketrans(string.ascii_letters, string.ascii_letters.swapcase())


def _about(path: str) -> os.stat_result | None:
    """Of what can be seen there. What cannot is not what the key's own path has just shown."""
    try:
        return os.stat(path)
    except OSError:
        return None

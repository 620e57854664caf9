"""File events of a directory, by watchfiles where it is installed: hints that the file of a key has changed.

The folder of a file is watched; while that is missing, the nearest one above it, so what is watched moves down as
folders are made and up as they are removed. watchfiles takes its folders when it begins. So where one is missing,
another begins before the last one ends, and its keys are told.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from ._future import Future
from ._workers import IDLE, Do, begin_thread

STEP = 5  # milliseconds after which watchfiles looks again whether there are events. Half a percent of a processor.
TURN = 50  # milliseconds after which a key that is new is watched
PATIENCE = 5.0  # seconds for which a watch waits to have begun: a mount may be dead
MOST_MOVES = 100  # how often folders that come and go are followed at once
MOST_IDLE = 16
"""Folders that stay watched without a key: who takes one name again and again would have the system begin anew."""

GONE = 3  # watchfiles' number for what was removed, or has another name now


@functools.cache
def is_there() -> bool:
    """Whether watchfiles is installed."""
    return importlib.util.find_spec("watchfiles") is not None


@dataclass(slots=True, eq=False)
class Key:
    """A file that somebody waits for."""

    path: str
    changed: Do
    folder: str = ""  # that is watched for it
    next: str = ""  # the name in there that leads to it
    begun: Future[None] = field(default_factory=Future)
    over: bool = False

    def place(self) -> None:
        """Finds the folder that must be watched now."""
        folder = os.path.dirname(self.path)
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        self.folder = folder
        self.next = self.path[len(folder) :].lstrip(os.sep).partition(os.sep)[0]

    def is_below(self) -> bool:  # its folder is not there yet
        return self.folder != os.path.dirname(self.path)


class Watcher:
    """What is watched of one directory, by one thread while there is something to watch."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._keys: list[Key] = []
        self._thread: threading.Thread | None = None
        self._ending = False

    def watch(self, path: str, changed: Do) -> Do:
        """Has changed called when a file has changed, and returns what ends that. Hints may come for nothing. OSError:
        nothing is watched."""
        if self._pid != os.getpid():
            self.__init__()  # type: ignore[misc] # the thread is the parent's
        key = Key(os.path.realpath(path), changed)
        with self._lock:
            self._keys.append(key)
            if self._thread is None and not self._ending:
                atexit.register(self._end)
                begin_thread(self._run, "mopslock-watcher", functools.partial(setattr, self, "_thread"))
        if self._thread is None or not key.begun.wait(PATIENCE):
            key.over = True
            raise OSError("mopslock: there are no file events here")
        key.begun.result()
        return functools.partial(setattr, key, "over", True)

    def _end(self) -> None:
        """Before the interpreter ends: a thread inside of watchfiles does not survive that."""
        self._ending = True
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            thread.join(PATIENCE)

    # On the thread.

    def _run(self) -> None:
        events = _Events()
        try:
            busy = time.monotonic()
            while not self._ending:
                with self._lock:
                    self._keys = [key for key in self._keys if not key.over]
                    keys = [*self._keys]
                    if keys:
                        busy = time.monotonic()
                    elif time.monotonic() - busy > IDLE:
                        return self._forget_thread()
                events.begin([key for key in keys if not key.begun.done()], keys)
                events.wait(keys, STEP if keys else TURN)
        finally:
            events.close()
            with self._lock:
                if self._thread is threading.current_thread():
                    self._forget_thread()

    def _forget_thread(self) -> None:
        """Under the lock: the next thread registers the end anew."""
        atexit.unregister(self._end)
        self._thread = None


class _Events:
    """watchfiles, over all folders that are needed."""

    def __init__(self) -> None:
        self._inner: Any = None
        self._folders: list[str] = []  # that are watched, those without a key first

    def begin(self, new: list[Key], keys: list[Key]) -> None:
        """Watches for keys that are new."""
        said = None
        try:
            if new:
                self._place(new, keys)
        except Exception as error:  # no watches left, or no watchfiles after all
            said = error
        for key in new:
            key.over = key.over or said is not None
            key.begun.settle(said)

    def wait(self, keys: list[Key], step: int) -> None:
        if self._inner is None:
            time.sleep(TURN / 1000)
            return
        self._tell(self._inner.watch(step, step, TURN, None), keys)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def _tell(self, said: Any, keys: list[Key]) -> None:
        if not isinstance(said, set):
            return
        gone = {path for kind, path in said if kind == GONE}
        names = {os.path.split(path) for _, path in said}
        left = [key for key in keys if key.folder in gone]
        named = [key for key in keys if (key.folder, key.next) in names]
        if moved := [*left, *(key for key in named if key.is_below())]:
            self._folders = [folder for folder in self._folders if folder not in gone]
            try:
                self._place(moved, keys)
            except Exception:  # they are read now and then
                for key in moved:
                    key.over = True
        for key in {*left, *named}.difference(moved) | {*left}:
            key.changed()

    def _place(self, moved: list[Key], keys: list[Key]) -> None:
        """A folder may be made after it was found missing, and before the one above it is watched: so look again. A
        folder that was made on the way to a file is no news, unless the file was there before it was watched."""
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - only who waits pays for it

        below = {key for key in moved if key.folder and key.is_below()}
        for _ in range(MOST_MOVES):
            for key in moved:
                key.place()
            needed = {key.folder for key in keys}
            if needed <= {*self._folders}:
                break
            idle = [folder for folder in self._folders if folder not in needed and os.path.isdir(folder)]
            folders = [*idle[-MOST_IDLE:], *sorted(needed)]
            try:
                inner = RustNotify(folders, False, False, 0, False, True)
            except FileNotFoundError:  # of one that was there before
                moved = keys
                continue
            last, self._inner, self._folders = self._inner, inner, folders
            if last is not None:
                self._end(last, keys)
                missed = {key for key in keys if key.is_below()} - {*moved}
                below |= missed
                moved = [*moved, *missed]
        else:
            raise OSError("mopslock: folders come and go")
        for key in below:
            if os.path.lexists(key.path):
                key.changed()

    def _end(self, last: Any, keys: list[Key]) -> None:
        """Of what it has seen until the next one began, only files are told: folders are found anew."""
        said = last.watch(1, 1, 1, None)
        last.close()
        paths = {path for _, path in said} if isinstance(said, set) else set()
        for key in keys:
            if key.path in paths:
                key.changed()

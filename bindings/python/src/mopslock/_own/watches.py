"""The keys of whose changes a store tells: hints, for which nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .._log import log
from .._workers import Do


class Watch:
    """A key that is watched. It has no stop until the store has begun."""

    __slots__ = ("over", "stop")

    def __init__(self) -> None:
        self.stop: Do | None = None
        self.over = False


class Watches:
    """All of one client. What has no other word happens under the client's lock."""

    def __init__(self, store: Any, soon: Callable[[Do], object], post: Callable[[Do], object]) -> None:
        """soon has something done on another thread, since the store may hang; post has it done under the lock."""
        self._store, self._soon, self._post = store, soon, post
        self._watches: dict[str, Watch] = {}

    def begin(self, key: str, tell: Callable[[str], object]) -> None:
        """tell is called under the lock at each change, and once when the watch has begun: what changed before was not
        told."""
        watch = self._watches[key] = Watch()
        self._soon(partial(self._make, watch, key, partial(self._changed, watch, partial(tell, key))))

    def end(self, key: str) -> None:
        """One that is being made is ended when it is there."""
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.over = True
            if watch.stop is not None:
                self._soon(watch.stop)

    def end_all(self) -> None:
        """Nobody wants to be told any more."""
        for key in [*self._watches]:
            self.end(key)

    def _make(self, watch: Watch, key: str, changed: Do) -> None:
        """On a worker."""
        try:
            stop = self._store.watch(key, changed)
        except Exception:  # what is not watched is read now and then
            log.debug("mopslock: %s is not watched", key, exc_info=True)
            return
        self._post(partial(self._made, watch, stop))
        changed()

    def _made(self, watch: Watch, stop: Do) -> None:
        watch.stop = stop
        if watch.over:
            self._soon(stop)

    def _changed(self, watch: Watch, tell: Do) -> None:
        """On any thread."""
        if not watch.over:
            self._post(lambda: None if watch.over else tell())

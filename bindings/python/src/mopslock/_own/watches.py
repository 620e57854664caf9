"""The keys of whose changes a store tells: hints, for which nobody waits.

The client also asks for those by which a holder hears at once of a break. A store may need a thread for them that wakes
again and again, and beside C calls that keep the GIL each such thread delays renewals. So only keys of names for which
a claim waits are watched; a holder hears of a break when it renews.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from .._log import log
from .._workers import Do
from .verbs import Action

WAITED_FOR = ("/lock.json", "/result")
"""The ends of keys that no holder asks for."""


class Watch:
    """A key that is watched. It has no stop until the store has begun."""

    __slots__ = ("over", "stop")

    def __init__(self) -> None:
        self.stop: Do | None = None
        self.over = False


class Watches:
    """All of one client. What has no other word happens under the client's lock."""

    def __init__(
        self, store: Any, soon: Callable[[Do], object], post: Callable[[Do], object], tell: Callable[[str], object]
    ) -> None:  # fmt: skip
        """soon has something done on another thread, since the store may hang; post has it done under the lock. tell is
        called there at each change, and once when a watch has begun: what changed before was not told."""
        self._store, self._soon, self._post, self._tell = store, soon, post, tell
        self._keys: defaultdict[str, dict[str, Watch | None]] = defaultdict(dict)  # of names; None: not watched
        self._waiting: dict[int, str] = {}  # the name for which a claim waits
        self._names: Counter[str] = Counter()  # how many wait for it

    def begin(self, key: str) -> None:
        """The client wants to hear of it."""
        name = _name_of(key)
        self._keys[name][key] = None
        self._arrange(name)

    def end(self, key: str) -> None:
        name = _name_of(key)
        self._stop(self._keys[name].pop(key, None))
        if not self._keys[name]:
            del self._keys[name]

    def hear(self, action: Action, name: str) -> None:
        """A claim for a name is told something: that it waits, or that it does not any more."""
        claim, waits = action.get("claim", 0), action["kind"] == "waiting"
        if waits == (claim in self._waiting) or action["kind"] == "warned":
            return
        if waits:
            self._waiting[claim] = name
        else:
            name = self._waiting.pop(claim)
        self._names[name] += 1 if waits else -1
        if not self._names[name]:
            del self._names[name]
        self._arrange(name)

    def end_all(self) -> None:
        for key in [key for keys in self._keys.values() for key in keys]:
            self.end(key)
        self._waiting.clear()
        self._names.clear()

    def _arrange(self, name: str) -> None:
        """Watches what is waited for, and nothing else."""
        keys = self._keys.get(name, {})
        for key, watch in keys.items():
            wanted = self._names[name] > 0 or key.endswith(WAITED_FOR)
            if wanted and watch is None:
                made = keys[key] = Watch()
                self._soon(partial(self._make, made, key))
            elif not wanted:
                self._stop(watch)
                keys[key] = None

    def _stop(self, watch: Watch | None) -> None:
        """One that is being made is ended when it is there."""
        if watch is not None:
            watch.over = True
            if watch.stop is not None:
                self._soon(watch.stop)

    def _make(self, watch: Watch, key: str) -> None:
        """On a worker."""
        changed = partial(self._changed, watch, key)
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

    def _changed(self, watch: Watch, key: str) -> None:
        """On any thread."""
        if not watch.over:
            self._post(lambda: None if watch.over else self._tell(key))


def _name_of(key: str) -> str:
    """Of which a key is: NAME/lock.json, NAME/result, NAME/_mopslock/..., _mopslock/f/NAME/result."""
    return (
        key.removeprefix("_mopslock/f/").partition("/_mopslock/")[0].removesuffix("/lock.json").removesuffix("/result")
    )

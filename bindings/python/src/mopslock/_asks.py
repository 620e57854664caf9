"""Requests for callers who wait on threads of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ._clock import Clock
from ._event_loop import MOST_WORKERS, Do
from ._runner import MOST_RUNNING
from ._units import SECOND
from ._verbs import Action, Event, attempt, unknown

MOST_OF_ONE_KEY = MOST_WORKERS // 4
"""Requests of one key at once. Three keys whose requests all hang leave a quarter of the workers to the other keys.

Four such keys can take all the workers of a store. The other keys then wait until one of these requests ends.
"""


class _Queued:
    """One request and the answer to it."""

    def __init__(self, place: tuple[int, str], do: Callable[[], Event]) -> None:
        self.place, self.do = place, do
        self.answer: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.left = False
        """Its caller does not wait for it any more."""


class Asks:
    """Runs requests on workers, each for a caller who waits no longer than its limit.

    A request hangs once its caller has stopped waiting for it. Requests that hang must not use up the workers: a
    request is held back while MOST_OF_ONE_KEY of its key are under way, or MOST_RUNNING of its key hang. The first
    bound is for callers who all ask before one of them has stopped waiting.
    """

    def __init__(self, clock: Clock, submit: Callable[[Do], None]) -> None:
        self._clock, self._submit = clock, submit
        self._lock = threading.RLock()
        self._under_way: set[_Queued] = set()
        self._held_back: list[_Queued] = []

    def ask(self, store: Any, request: Action, limit_ns: int) -> Event:
        """The store's answer, or unknown."""
        limit = self._clock.mono() + limit_ns
        place = (id(store), request["key"])
        queued = _Queued(place, lambda: attempt(store, request, self._clock, limit))
        try:
            self._begin(queued)
            answer = queued.answer.get(timeout=limit_ns / SECOND)
        except queue.Empty:
            return unknown(request, "unreachable")
        finally:
            self._left(queued)
        return answer if self._clock.mono() < limit else unknown(request, "unreachable")

    def _begin(self, queued: _Queued) -> None:
        with self._lock:
            self._held_back.append(queued)
        self._begin_next(queued.place)

    def _begin_next(self, place: tuple[int, str]) -> None:
        """Begins the requests for a key that may run now, in the order in which they were asked."""
        while (queued := self._next(place)) is not None:
            try:
                self._submit(partial(self._run, queued))
            except BaseException:  # interrupted: its place is free again
                with self._lock:
                    self._under_way.discard(queued)
                raise

    def _next(self, place: tuple[int, str]) -> _Queued | None:
        with self._lock:
            queued = next((one for one in self._held_back if one.place == place), None)
            if queued is None or self._stuck(place):
                return None
            self._held_back.remove(queued)
            self._under_way.add(queued)
            return queued

    def _run(self, queued: _Queued) -> None:
        """On a worker."""
        answer = queued.do()
        with self._lock:
            queued.answer.put(answer)
            self._under_way.discard(queued)
        self._begin_next(queued.place)

    def _left(self, queued: _Queued) -> None:
        with self._lock:
            queued.left = True
            if queued in self._held_back:
                self._held_back.remove(queued)

    def _stuck(self, place: tuple[int, str]) -> bool:
        here = [one for one in self._under_way if one.place == place]
        return len(here) >= MOST_OF_ONE_KEY or sum(one.left for one in here) >= MOST_RUNNING

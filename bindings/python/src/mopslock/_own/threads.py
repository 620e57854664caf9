"""The threads of own stores: workers that step clients and ask stores, and two that wait for time to pass.

No thread of a caller's steps a client or asks a store. So an interrupt, which only the main thread gets, never comes
between a step and what it asks for, and a store that hangs hangs nobody.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from .._log import log
from .._units import SECOND
from .._workers import IDLE, Do, Workers, begin_thread
from .clock import Clock
from .verbs import NEVER

MOST_ASKING = 64  # threads that ask one store at once; a client has half as many requests under way, others may hang
FOR_RENEWALS = MOST_ASKING // 4  # of these, for renewals alone: other names, whose requests hang, use up no more (C7)
MOST_LATE = 2  # requests of one key that hang: they must not use up the threads of all
LONGEST_PAUSE = 1.0  # seconds; Python's waits do not count the time that the machine sleeps, and deadlines do


class Request(Protocol):
    """A request that is under way, as a Lane sees it."""

    key: str
    renews: bool  # a claim ends without it
    late: bool  # its limit is over: it was answered, and the store is still at it

    def perform(self) -> None: ...


class Lane:
    """One store's share of the threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._asking: set[Request] = set()
        self._late: Counter[str] = Counter()
        self._held_back: list[Request] = []

    def take(self, request: Request) -> bool:
        """Whether it may be asked now. If not it has its turn when another has come back."""
        with self._lock:
            if not self._has_room(request):
                self._held_back.append(request)
                return False
            self._asking.add(request)
            return True

    def overdue(self, request: Request) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            if request in self._asking:
                request.late = True
                self._late[request.key] += 1
            elif request in self._held_back:
                self._held_back.remove(request)

    def leave(self, request: Request) -> Request | None:
        """It has come back. What is returned has its place, and is to be performed."""
        with self._lock:
            self._asking.discard(request)
            if request.late:
                self._late[request.key] -= 1
                self._late += Counter()  # forgets zeros
            for other in self._held_back:
                if self._has_room(other):
                    self._held_back.remove(other)
                    self._asking.add(other)
                    return other
            return None

    def _has_room(self, request: Request) -> bool:
        most = MOST_ASKING if request.renews else MOST_ASKING - FOR_RENEWALS
        return len(self._asking) < most and self._late[request.key] < MOST_LATE


class Waits(Protocol):
    """What a Sleeper wakes when it is due, at a Mono. What pass_time returns may take its time, and is to be done on a
    thread that need not be back soon."""

    clock: Clock
    expected: int  # Mono: when the sleeper will look at it

    def due(self) -> int: ...
    def pass_time(self) -> Do | None: ...


class Sleeper:
    """Two threads that take turns at waiting for time to pass. One that finds a request due gives its turn away, and
    makes the request itself: a change of threads can take as long as the longest C call that keeps the GIL. While the
    other one is still away, workers make them."""

    def __init__(self, soon: Callable[[Do], object]) -> None:
        self._soon = soon
        self._heap: list[tuple[int, int, Waits]] = []  # an entry is stale if its instant is not what is expected
        self._order = itertools.count()
        self._poked = threading.Lock()  # unlocked by a poke; a SimpleQueue's wait may not end: see Future.wait
        self._poked.acquire()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None  # the first of the two, while one of them has the turn
        self._spare = False  # the other waits for its turn
        self._turns: queue.SimpleQueue[bool] = queue.SimpleQueue()  # for the spare one: it has the turn, or may end
        self._until = NEVER  # time.monotonic_ns at which it looks without being poked
        self.barred = False  # it could not begin its thread, since the interpreter is ending: who closes wakes them

    def expect(self, waits: Waits) -> None:
        """It may be due earlier than it was."""
        with self._lock:
            due = waits.due()
            if due >= waits.expected:
                return
            waits.expected = due
            heapq.heappush(self._heap, (due, next(self._order), waits))
            if time.monotonic_ns() + due - waits.clock.mono() < self._until:
                self.poke()

    def poke(self) -> None:
        """Has it look at the clock."""
        with contextlib.suppress(RuntimeError):  # it was poked before
            self._poked.release()
        with self._lock:
            if self._thread is None and self._heap:
                begin_thread(self._begin, "mopslock-sleeper", self._note)

    def _note(self, thread: threading.Thread | None) -> None:
        self._thread = thread
        self.barred = thread is None

    def _begin(self) -> None:
        begin_thread(self._wait_for_turns, "mopslock-sleeper", lambda _: None)
        self._watch()
        self._wait_for_turns()

    def _wait_for_turns(self) -> None:
        while True:
            with self._lock:
                if self._spare or self._thread is None:
                    return  # it was away for long, and nobody waits for it
                self._spare = True
            if not self._turns.get():
                return
            self._watch()

    def _watch(self) -> None:
        """Has the turn, until it gives it away or nothing is to be waited for."""
        while True:
            found = self.look()
            if callable(found):
                try:
                    found()
                except BaseException:
                    log.exception("mopslock: a request failed; this is an error in mopslock")
                return
            if not self._poked.acquire(timeout=IDLE if found is None else found):
                self._prune()
                if found is None and self._rest():
                    return

    def look(self) -> float | Do | None:
        """Wakes those that are due, and returns the seconds until another is; None is when somebody pokes it. Or it
        gives its turn away, and returns what is to be done."""
        self._poked.acquire(blocking=False)
        while True:
            with self._lock:
                while self._heap and self._heap[0][0] != self._heap[0][2].expected:
                    heapq.heappop(self._heap)
                if not self._heap:
                    self._until = NEVER
                    return None
                due, _, waits = self._heap[0]
                left = min(due - waits.clock.mono(), int(LONGEST_PAUSE * SECOND))
                if left > 0:
                    self._until = time.monotonic_ns() + left
                    return left / SECOND
                waits.expected = NEVER
            do = None
            try:
                if waits.due() <= waits.clock.mono():
                    do = waits.pass_time()
            except BaseException:
                log.exception("mopslock: a client failed; this is an error in mopslock")
            self.expect(waits)
            if do is not None:
                if self._pass_turn(True):
                    return do
                self._soon(do)

    def _pass_turn(self, watch: bool) -> bool:
        """To the spare thread, or has it end; False if it is away."""
        with self._lock:
            spare, self._spare = self._spare, False
            if spare:
                self._turns.put(watch)
            return spare

    def _prune(self) -> None:
        """Lets go of what waits for nothing any more."""
        with self._lock:
            for entry in self._heap:
                if entry[2].due() == NEVER:
                    entry[2].expected = NEVER
            self._heap = [entry for entry in self._heap if entry[2].expected == entry[0]]
            heapq.heapify(self._heap)

    def _rest(self) -> bool:
        """Ends the threads that wait for nothing; the next that is due begins others."""
        with self._lock:
            if not self._heap:
                self._thread = None
                self._pass_turn(False)
            return self._thread is None


class Timer:
    """Something that is to be done at an instant."""

    def __init__(self, clock: Clock, at: int, do: Do) -> None:
        self.clock, self._at, self._do = clock, at, do
        self.expected = NEVER

    def due(self) -> int:
        return self._at

    def pass_time(self) -> None:
        self._at = NEVER
        self._do()


class Threads:
    """One store's threads: its share of the workers, and the sleeper of all."""

    naps = True  # who has stepped a client waits the moment until it is due

    def __init__(self, workers: Workers, sleeper: Sleeper) -> None:
        self.soon, self.sleeper, self.expect = workers.submit, sleeper, sleeper.expect
        self._lanes = (Lane(), Lane())

    def lane(self, *, transfer: bool) -> Lane:
        """Results take their time, and no renewal waits behind one."""
        return self._lanes[transfer]


class _Shared:
    """What all stores of this process share; a forked child has its own."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.sleeper = Sleeper(self.workers.submit)


shared = _Shared()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared.__init__)  # type: ignore[misc]


def threads() -> Threads:
    return Threads(shared.workers, shared.sleeper)

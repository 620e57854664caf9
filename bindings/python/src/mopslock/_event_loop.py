"""The thread that keeps what Python steps: it wakes machines when they want to be woken, and waits for nobody.

One thread steps every machine of a host; requests run on a bounded number of others; callbacks on one more. So a
callback that hangs delays no renewal, and a request that does delays its own lease's alone, as long as they are fewer
than the workers: one lease takes two of them at most.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable

from ._clock import Clock
from ._notify import begin_thread
from ._units import SECOND

log = logging.getLogger("mopslock")

Do = Callable[[], object]

MOST_THREADS = 256
"""Workers of all stores together."""

MOST_WORKERS = 32
"""Requests of one store at once: of stores that hang, which must not use up the workers of all."""

IDLE = 10.0
"""Seconds after which a thread that has nothing to do ends."""

MANY = 64
"""Timers that were taken back, and are worth to be swept out."""

LONGEST_PAUSE = 1.0
"""Seconds. Python's waits do not count the time that the machine sleeps, and deadlines do."""


class Workers:
    """Threads for requests: daemons, so that one that hangs on a dead store does not keep the process alive."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[Do] = queue.SimpleQueue()  # in C: a Condition starves beside a busy thread
        self._lock = threading.RLock()
        self._queued = 0  # jobs that nobody has taken
        self._waiting = 0  # workers that will take them
        self._barred = False  # no thread could be begun, as when the interpreter is ending
        self._count = 0

    def submit(self, job: Do) -> None:
        """Has job run on some worker; it must not raise, as those of a Lane do not."""
        with self._lock:
            if self._queued >= self._waiting and self._count < self._most:
                begin_thread(self._run, "mopslock-store", self._note)
            if self._queued < self._waiting or (self._count > 0 and not self._barred):
                self._queued += 1
                self._jobs.put(job)
                return
        job()  # no thread can be begun, as when the interpreter is ending

    def _note(self, thread: threading.Thread | None) -> None:
        self._barred = thread is None
        change = 1 if thread is not None else -1
        self._count += change
        self._waiting += change

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if self._queued > 0:  # one is on its way
                        continue
                    self._count -= 1
                    self._waiting -= 1
                    return
            with self._lock:
                self._queued -= 1
                self._waiting -= 1
            job()
            del job  # and what it holds, while this thread waits
            with self._lock:
                self._waiting += 1


class Lane:
    """One store's share of the workers."""

    def __init__(self, workers: Workers, most: int = MOST_WORKERS) -> None:
        self._workers, self._most = workers, most
        self._lock = threading.RLock()
        self._running = 0
        self._held_back: deque[Do] = deque()

    def submit(self, job: Do) -> None:
        """Has job run on some worker, when the store has one free."""
        with self._lock:
            if self._running >= self._most:
                self._held_back.append(job)
                return
            self._running += 1
        try:
            self._workers.submit(lambda: self._run(job))
        except BaseException:  # interrupted: its place is free again
            with self._lock:
                self._running -= 1
            raise

    def _run(self, job: Do | None) -> None:
        """The job, and then those that were held back; an error of ours in one of them ends nothing."""
        while job is not None:
            try:
                job()
            except BaseException:
                log.exception("mopslock: a request failed in a way that it should not; this is an error in mopslock")
            with self._lock:
                job = self._held_back.popleft() if self._held_back else None
                self._running -= job is None


class Timer:
    """Something that is to be done at an instant, unless it is taken back before."""

    __slots__ = ("due",)

    def __init__(self, due: Callable[[int], None]) -> None:
        self.due: Callable[[int], None] | None = due


class EventLoop:
    """A loop of one thread over an inbox and a heap of instants."""

    def __init__(self, clock: Clock, *, threaded: bool = True) -> None:
        """Without a thread somebody else calls turn: tests, with a clock of theirs."""
        self.clock = clock
        self._inbox: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._timers: list[tuple[int, int, Timer]] = []
        self._taken_back = 0
        self._order = itertools.count()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._threaded = threaded
        self.barred = False  # it could not begin its thread, since the interpreter is ending: who closes it turns it

    def post(self, do: Do) -> None:
        """Has do run on the event loop's thread."""
        with self._lock:  # so that no thread goes to rest between these two
            self._inbox.put(do)
            if self._threaded and self._thread is None:
                begin_thread(self._run, "mopslock-loop", self._note)

    def _note(self, thread: threading.Thread | None) -> None:
        self._thread = thread
        self.barred = thread is None

    def at(self, instant: int, due: Callable[[int], None]) -> Timer:
        """Has due(instant) called once mono is instant. Only on the event loop's thread."""
        timer = Timer(due)
        heapq.heappush(self._timers, (instant, next(self._order), timer))
        return timer

    def take_back(self, timer: Timer | None) -> None:
        """It is not to be done any more. What it holds is let go of at once, its place in the heap in time."""
        if timer is None or timer.due is None:
            return
        timer.due = None
        self._taken_back += 1
        if self._taken_back > len(self._timers) // 2 + MANY:
            self._timers = [entry for entry in self._timers if entry[2].due is not None]
            heapq.heapify(self._timers)
            self._taken_back = 0

    def turn(self) -> float | None:
        """Does what there is to do, and returns the seconds until there is more; None is when somebody posts."""
        for _ in range(self._inbox.qsize()):
            self._do(self._inbox.get_nowait())
        now = self.clock.mono()
        while self._timers and self._timers[0][0] <= now:
            at, _, timer = heapq.heappop(self._timers)
            due, timer.due = timer.due, None
            if due is None:
                self._taken_back -= 1
            else:
                self._do(lambda: due(at))  # noqa: B023 - it is called at once
        if not self._inbox.empty():
            return 0.0
        if not self._timers:
            return None
        return min(max(0, self._timers[0][0] - self.clock.mono()) / SECOND, LONGEST_PAUSE)

    def _run(self) -> None:
        while self._thread is threading.current_thread():  # and not another, begun after an interrupt
            pause = self.turn()
            try:
                do = self._inbox.get(timeout=IDLE if pause is None else pause)
            except queue.Empty:
                if pause is None and self._rest():
                    return
                continue
            self._do(do)
            del do  # and what it holds, while this thread waits

    def _rest(self) -> bool:
        """Ends the thread of an event loop that keeps nothing; the next post begins another."""
        with self._lock:
            if self._inbox.empty():
                self._thread = None
            return self._thread is None

    def _do(self, do: Do) -> None:
        """A failure of one must not end the renewals of the others."""
        try:
            do()
        except BaseException:
            log.exception("mopslock: the loop failed at something; this is an error in mopslock")

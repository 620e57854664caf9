"""The thread that keeps what Python steps: it wakes machines when they want to be woken, and waits for nobody.

One thread steps every machine of a host; requests run on a bounded number of others; callbacks on one more. So a
callback that hangs delays no renewal, and a request that does delays its own lease's alone, as long as they are fewer
than the workers: one lease takes two of them at most.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import queue
import threading
from collections.abc import Callable

from ._clock import Clock
from ._duration import SECOND

log = logging.getLogger("mopslock")

Do = Callable[[], None]

MOST_WORKERS = 64
IDLE = 10.0
"""Seconds after which a worker that has nothing to do ends."""

LONGEST_PAUSE = 1.0
"""Seconds. Python's waits do not count the time that the machine sleeps, and deadlines do."""


class Workers:
    """Threads for requests: daemons, so that one that hangs on a dead store does not keep the process alive."""

    def __init__(self, most: int = MOST_WORKERS) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def submit(self, job: Do) -> None:
        """Has job run on some worker; it must not raise."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1  # of one that will take it
            elif self._count < self._most:
                self._begin()
            if self._count > 0:
                self._jobs.put(job)
                return
        job()  # the interpreter is ending, and begins no threads any more

    def _begin(self) -> None:
        """One more worker; where the system has no more threads, the job waits for those that there are."""
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._run, name="mopslock-store", daemon=True).start()
            self._count += 1

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if not self._jobs.empty():
                        continue
                    self._idle = max(0, self._idle - 1)
                    self._count -= 1
                    return
            job()
            with self._lock:
                if self._jobs.empty():
                    self._idle += 1


class Keeper:
    """A loop of one thread over an inbox and a heap of instants."""

    def __init__(self, clock: Clock, submit: Callable[[Do], None], *, threaded: bool = True) -> None:
        """Without a thread somebody else calls turn: tests, with a clock of theirs."""
        self.clock, self.submit = clock, submit
        self._inbox: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._threaded = threaded
        self._stopped = False
        self.barred = False  # it could not begin its thread, since the interpreter is ending: who closes it turns it

    def post(self, do: Do) -> None:
        """Has do run on the keeper's thread."""
        with self._lock:  # so that no thread goes to rest between these two
            self._inbox.put(do)
            if self._threaded and self._thread is None and not self._stopped:
                thread = threading.Thread(target=self._run, name="mopslock-keeper", daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except RuntimeError:
                    self.barred = True

    def at(self, instant: int, due: Callable[[int], None]) -> None:
        """Has due(instant) called once mono is instant. Only on the keeper's thread; it cannot be taken back."""
        heapq.heappush(self._timers, (instant, next(self._order), due))

    def stop(self) -> None:
        """Ends the thread after what is in the inbox."""
        with self._lock:
            self._stopped = True
        self._inbox.put(lambda: None)

    def turn(self) -> float | None:
        """Does what there is to do, and returns the seconds until there is more; None is when somebody posts."""
        for _ in range(self._inbox.qsize()):
            self._do(self._inbox.get_nowait())
        now = self.clock.mono()
        while self._timers and self._timers[0][0] <= now:
            at, _, due = heapq.heappop(self._timers)
            self._do(lambda: due(at))  # noqa: B023 - it is called at once
        if not self._inbox.empty():
            return 0.0
        if not self._timers:
            return None
        return min(max(0, self._timers[0][0] - self.clock.mono()) / SECOND, LONGEST_PAUSE)

    def _run(self) -> None:
        while not self._stopped:
            pause = self.turn()
            try:
                do = self._inbox.get(timeout=IDLE if pause is None else pause)
            except queue.Empty:
                if pause is None and self._rest():
                    return
                continue
            self._do(do)
        self.turn()

    def _rest(self) -> bool:
        """Ends the thread of a keeper that keeps nothing; the next post begins another."""
        with self._lock:
            if self._inbox.empty():
                self._thread = None
            return self._thread is None

    def _do(self, do: Do) -> None:
        """One member's trouble must not end the renewals of the others."""
        try:
            do()
        except Exception:
            log.exception("mopslock: the keeper failed at something; this is an error in mopslock")

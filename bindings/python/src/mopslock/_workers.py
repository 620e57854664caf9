"""Threads of ours: workers for what may take its time, and the one that runs users' callbacks, so that no callback can
delay a renewal."""

from __future__ import annotations

import _thread
import os
import queue
import threading
from collections.abc import Callable

from ._log import log

Do = Callable[[], object]

MOST_THREADS = 2048  # workers of all stores together: those that hang at 60 stores leave room for others
IDLE = 10.0  # seconds after which a thread that has nothing to do ends


def begin_thread(run: Callable[[], None], name: str, note: Callable[[threading.Thread | None], None]) -> None:
    """Begins a daemon thread, and calls note with it before it runs, or with None if the system has no more threads.

    Another thread starts it, for only the main thread can be interrupted. Thread.start waits for an Event that the new
    thread sets. An interrupt can leave that Event locked (see Future), and then the new thread would never run.
    """
    thread = threading.Thread(target=run, name=name, daemon=True)
    begun: queue.SimpleQueue[None] = queue.SimpleQueue()

    def start() -> None:
        note(thread)
        try:
            thread.start()
        except RuntimeError:  # also when the interpreter is ending
            note(None)
        finally:
            begun.put(None)

    try:
        _thread.start_new_thread(start, ())
    except RuntimeError:
        note(None)
    else:
        begun.get()


class Workers:
    """Threads for requests: daemons, so that one that hangs on a dead store does not keep the process alive."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[Do] = queue.SimpleQueue()  # in C: a Condition starves beside a busy thread
        self._lock = threading.RLock()
        self._waiting = 0  # workers that will take them
        self._barred = False  # no thread could be begun, as when the interpreter is ending
        self._count = 0

    def submit(self, job: Do) -> None:
        """Has job run on some worker; what it raises is logged. It is queued by one call: a caller that is interrupted
        and asks for another job leaves none that nobody takes."""
        self._jobs.put(job)
        while not self._has_enough():
            self._jobs.get_nowait()()  # no thread can be begun, as when the interpreter is ending

    def _has_enough(self) -> bool:
        """Begins a thread if more jobs are queued than wait for one."""
        with self._lock:
            if self._jobs.qsize() > self._waiting and self._count < self._most:
                begin_thread(self._run, "mopslock-store", self._note)
            return self._jobs.qsize() <= self._waiting or (self._count > 0 and not self._barred)

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
                    if not self._jobs.empty():
                        continue
                    self._count -= 1
                    self._waiting -= 1
                    return
            with self._lock:
                self._waiting -= 1
            self._has_enough()  # while this one waited it was counted for a job that came later
            try:
                job()
            except BaseException:
                log.exception("mopslock: a job failed; this is an error in mopslock")
            del job  # and what it holds, while this thread waits
            with self._lock:
                self._waiting += 1


class Notifier:
    """One thread that runs one callback after the other. The first call begins it."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def call(self, do: Do) -> None:
        """Runs do soon, and logs what it raises."""
        self._calls.put(do)
        self.ready()

    def forgotten(self, do: Do) -> None:
        """As call, for a finalizer, which runs inside of anything: the object called ready when it was made."""
        self._calls.put(do)

    def ready(self) -> None:
        """Begins the thread, if it has not begun."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                begin_thread(self._run, "mopslock-notifier", self._note)

    def _note(self, thread: threading.Thread | None) -> None:
        self._thread = thread

    def _run(self) -> None:
        while True:
            do = self._calls.get()
            try:
                do()
            except BaseException:  # sys.exit in a callback ends only that callback
                log.exception("mopslock: a callback failed")


notifier = Notifier()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=notifier.__init__)  # type: ignore[misc]

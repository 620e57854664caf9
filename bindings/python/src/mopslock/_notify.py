"""The thread that runs users' callbacks, so that no callback can delay a renewal."""

from __future__ import annotations

import _thread
import os
import queue
import threading
from collections.abc import Callable

from ._log import log


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


class Notifier:
    """One thread that runs one callback after the other. The first call begins it."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def call(self, do: Callable[[], object]) -> None:
        """Runs do soon, and logs what it raises."""
        self._calls.put(do)
        self.ready()

    def forgotten(self, do: Callable[[], object]) -> None:
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

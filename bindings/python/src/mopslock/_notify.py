"""The thread on which users' callbacks run, so that none of them can hold up a renewal."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable

log = logging.getLogger("mopslock")


class Notifier:
    """One thread, begun with the first call, that runs one callback after the other."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._begun = False

    def call(self, do: Callable[[], object]) -> None:
        """Has do run soon. What it raises is logged."""
        self._calls.put(do)
        with self._lock:
            if not self._begun:
                with contextlib.suppress(RuntimeError):  # the interpreter is ending, and nobody is told any more
                    threading.Thread(target=self._run, name="mopslock-notifier", daemon=True).start()
                    self._begun = True

    def _run(self) -> None:
        while True:
            do = self._calls.get()
            try:
                do()
            except Exception:
                log.exception("mopslock: a callback failed")


notifier = Notifier()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=notifier.__init__)  # type: ignore[misc]

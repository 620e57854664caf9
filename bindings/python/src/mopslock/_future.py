"""A result that one thread gives and others wait for. No interrupt can leave it locked."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from typing import Any, Generic, TypeVar

from ._log import log

T = TypeVar("T")

DEAF = 1.0
"""Seconds after which a wait is begun anew: until it is over, Python hears no signal that comes just before it, nor one
that the system gives to another thread."""


class Future(Generic[T]):
    """As concurrent.futures.Future, but without a lock. Any thread may call its methods.

    A Condition, which that class takes, is written in Python: a KeyboardInterrupt can come between two of its lines,
    and then it is never released. The thread that settles the future would wait for it forever, and all leases depend
    on that thread. Here each step is one call of a list or of a lock, which are written in C.
    """

    __slots__ = ("_calls", "_outcomes")

    def __init__(self) -> None:
        self._outcomes: list[list[Any]] = []  # two threads may settle it, and the first one counts
        self._calls: list[Callable[[Future[T]], object]] = []

    def settle(self, outcome: T | BaseException) -> bool:
        """Gives it its result or exception. False: it was settled before, or cancelled."""
        ours = [outcome]
        if not self._outcomes:
            self._outcomes.append(ours)
        self._tell()  # also those that an interrupted call of this has not told
        return self._outcomes[0] is ours

    def run(self, do: Callable[[], T]) -> None:
        """Gives it what do returns or raises. On a thread of ours: what ends a caller's thread is the caller's."""
        try:
            self.settle(do())
        except BaseException as error:
            self.settle(error)

    def cancel(self) -> bool:
        """Gives it up. False: it was settled before."""
        return self.settle(CancelledError()) or self.cancelled()

    def done(self) -> bool:
        return bool(self._outcomes)

    def cancelled(self) -> bool:
        return isinstance(self.exception(), CancelledError)

    def exception(self) -> BaseException | None:
        """Its exception, or None, also if it is not done."""
        outcome = self._outcomes[0][0] if self._outcomes else None
        return outcome if isinstance(outcome, BaseException) else None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is done, at most ``timeout`` seconds, and returns whether it is."""
        if not self._outcomes and (timeout is None or timeout > 0):
            done = Bell()
            self.add_done_callback(done.tell)
            if not done.wait(timeout):
                self.take_back(done.tell)
        return self.done()

    def result(self) -> T:
        """Waits until it is done, and returns its result or raises its exception."""
        self.wait()
        outcome: T | BaseException = self._outcomes[0][0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def add_done_callback(self, call: Callable[[Future[T]], object]) -> None:
        """Calls ``call(self)`` once it is done: on the thread that settles it, or on this one if it is done."""
        self._calls.append(call)
        if self._outcomes and self.take_back(call):
            call(self)

    def take_back(self, call: Callable[[Future[T]], object]) -> bool:
        """Makes add_done_callback undone. False: the thread that settles it makes the call, or has made it."""
        try:
            self._calls.remove(call)
        except ValueError:
            return False
        return True

    def _tell(self) -> None:
        while True:
            try:
                call = self._calls.pop(0)
            except IndexError:
                return
            try:
                call(self)
            except Exception:
                log.exception("mopslock: a callback failed; this is an error in mopslock")
            except BaseException:  # interrupted: the others are told all the same
                self._tell()
                raise


class Bell:
    """Wakes a thread that waits. A SimpleQueue of CPython 3.10 to 3.12 waits forever if its time is over when it begins
    to."""

    __slots__ = ("_silent", "tell")

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()
        self.tell: Any = self._silent.__exit__  # as ring, once: in C, and it takes any argument

    def ring(self) -> None:
        """Wakes it, or its next wait; a second time does nothing."""
        with contextlib.suppress(RuntimeError):
            self._silent.release()

    def wait(self, seconds: float | None) -> bool:
        """Waits at most so many seconds, and returns whether it has rung."""
        end = math.inf if seconds is None else time.monotonic() + seconds
        while not self._silent.acquire(timeout=max(0.0, min(left := end - time.monotonic(), DEAF))):
            if left <= DEAF:
                return False
        return True


def wait(futures: Iterable[Future[Any]], seconds: float) -> set[Future[Any]]:
    """Waits for all of them, at most so many seconds, and returns those that are not done."""
    end = time.monotonic() + seconds
    return {future for future in futures if not future.wait(end - time.monotonic())}


SETTLED: Future[Any] = Future()
"""Replaces a future that has been delivered to its caller: a lease that is held needs none."""
SETTLED.settle(None)

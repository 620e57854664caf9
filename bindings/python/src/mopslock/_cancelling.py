"""A loss stops the block that it ends: the task is cancelled, and the block raises LeaseLost.

The task is cancelled once, and only while it is in the block, as by asyncio.timeout. From Python 3.11 on, the number of
cancellations tells whether there was another one. Before, ours has a mark, and one that comes after it and before the
task has run again is lost in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from . import _texts
from ._held import again
from ._own.claims import HeldThing
from ._units import LONGEST, SECOND
from .errors import LeaseLost, MopslockError

PATIENCE = 0.02
"""Seconds after the deadline for the news of a renewal in time. There is a margin between it and the moment from which
others may start."""


class Cancelling:
    """A block of the task that enters it."""

    def __init__(self, held: HeldThing) -> None:
        self._held = held
        self._inside = False
        self._why: LeaseLost | None = None  # the task was cancelled
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("mopslock: on_loss='cancel' needs a task, which it could cancel")
        self.task, self._loop, self._inside = task, asyncio.get_running_loop(), True
        self._before = 0
        if sys.version_info >= (3, 11):
            self._before = task.cancelling()
        self._held.when_ended(self._ended)
        self._await_deadline()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        """LeaseLost: the block ends by our cancellation."""
        self._inside = False
        if self._timer is not None:
            self._timer.cancel()
        if self._why is not None and self._is_ours(error):
            raise again(self._why) from error

    def _is_ours(self, error: BaseException | None) -> bool:
        if sys.version_info >= (3, 11):
            return self.task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError)
        return isinstance(error, asyncio.CancelledError) and error.args == (self,)

    def _ended(self, failure: MopslockError) -> None:
        """On any thread. What was released is not lost."""
        if isinstance(failure, LeaseLost):
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._cancel, failure)

    def _cancel(self, failure: LeaseLost) -> None:
        if not self._inside or self._why is not None:
            return
        self._why = failure
        if sys.version_info >= (3, 11):
            self.task.cancel()
        else:
            self.task.cancel(self)

    def _await_deadline(self) -> None:
        """Renewals move it. What keeps the lease alive may have been stopped, and then tells nothing."""
        left = self._held.left_ns()
        if not self._held.guarded or left >= LONGEST:
            return
        if left > 0:
            self._timer = self._loop.call_later(left / SECOND, self._await_deadline)
            return
        expired = _texts.lost(self._held.name, "expired", None, self._held.what)
        self._timer = self._loop.call_later(PATIENCE, self._cancel, expired)
        asked = self._loop.run_in_executor(None, self._held.failure)  # which waits for news, and tells _ended
        asked.add_done_callback(lambda _: self._go_on())

    def _go_on(self) -> None:
        if self._inside and self._why is None and self._held.left_ns() > 0:
            if self._timer is not None:
                self._timer.cancel()
            self._await_deadline()

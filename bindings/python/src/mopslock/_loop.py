"""A task of asyncio as a caller: it awaits the futures of other threads, and never forever if its loop is closed.

A loss can stop a block. Then the task is cancelled, and the block raises LeaseLost. The task is cancelled once, and
only while it is in the block, as by asyncio.timeout. From Python 3.11 on, the number of cancellations tells whether
there was another one. Before, ours has a mark, and one that comes after it and before the task has run again is lost in
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from . import _lease, _texts
from ._caller import Caller
from ._future import Future
from ._held import again
from ._hosts import AnyStore, host_of, known_host
from ._own.claims import HeldThing
from ._own.host import OwnHost
from ._units import LONGEST, SECOND
from .errors import LeaseLost, MopslockError

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = 0.02  # seconds after the deadline for the news of a renewal in time, within the margin


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


class _Task(Caller):
    is_task = True

    async def wait(
        self, future: Future[Any], seconds: float | None = None, abandon: Callable[[], object] | None = None
    ) -> bool:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def tell(_: object) -> None:
            try:
                loop.call_soon_threadsafe(_set, done)
            except RuntimeError:  # the loop was closed
                if abandon is not None:
                    abandon()

        future.add_done_callback(tell)
        try:
            if seconds is None:
                await done
            else:
                await asyncio.wait([done], timeout=seconds)
        finally:
            future.take_back(tell)
        return future.done()

    async def call(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def host(self, store: AnyStore) -> OwnHost:
        host = known_host(store)
        return host if host is not None else await asyncio.to_thread(host_of, store)

    def stopped(self, held: HeldThing, on_loss: str) -> AbstractContextManager[object]:
        return Cancelling(held) if on_loss == "cancel" else nullcontext()


TASK = _Task()


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class Lost(_lease.Lost):
    """mopslock.Lost, to be awaited."""

    _caller = TASK

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Waits until it is set, at most ``timeout`` seconds, and returns whether it is."""
        return await self._wait(timeout)


def threaded(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The twin of a function that asks the store once and waits: another thread calls it."""

    @functools.wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return twin

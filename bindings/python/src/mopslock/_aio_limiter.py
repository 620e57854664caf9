"""The limiter's asyncio twin: permits belong to tasks, and a call that waits is an entry in a table, not a thread."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from . import _limiter
from ._duration import Duration
from ._limiter import Holding, LimiterPermit, Taker
from ._limits import PermitOwner
from ._units import SECOND
from .errors import Full
from .terms import PermitRequest


class TaskBell:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = self._loop.create_future()

    def ring(self) -> None:
        """Wakes it; a second time does nothing. RuntimeError: its loop was closed."""
        self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._rung.done():
            self._rung.set_result(None)

    async def rung(self, wait_ns: int) -> None:
        over = self._loop.call_later(wait_ns / SECOND, self._set) if wait_ns > 0 else None
        try:
            if wait_ns:
                await self._rung
        finally:
            if over is not None:
                over.cancel()


class LimiterPermitting:
    """What Limiter.permit returns. Enter it as often as you like, even within itself and in many tasks."""

    def __init__(self, taking: Taking, *asked: Any) -> None:
        self._taking, self._asked = taking, asked
        self._inside: weakref.WeakKeyDictionary[Any, list[LimiterPermit]] = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> LimiterPermit:
        permit = await self._taking._taken(*self._asked)
        self._inside.setdefault(asyncio.current_task(), []).append(permit)
        return permit

    async def __aexit__(self, *how: Any) -> None:
        if stack := self._inside.get(asyncio.current_task()):
            stack.pop().__exit__(*how)


class Taking(Taker):
    def permit(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = 0
    ) -> LimiterPermitting:
        """As mopslock.Limiter.permit, for ``async with``, in any task."""
        return LimiterPermitting(self, *self._asked(name, capacity, width, weight, wait))

    async def acquire(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = None
    ) -> LimiterPermit:
        """As mopslock.Limiter.acquire."""
        return await self._taken(*self._asked(name, capacity, width, weight, wait))

    async def try_acquire(self, name: str, *, capacity: int, width: int = 1, weight: int = 1) -> LimiterPermit | None:
        """As mopslock.Limiter.try_acquire."""
        try:
            return await self.acquire(name, capacity=capacity, width=width, weight=weight, wait=0)
        except Full:
            return None

    async def _taken(self, name: str, request: PermitRequest, wait_ns: int) -> LimiterPermit:
        if not self._engine.names:  # it takes its time to load the core
            await asyncio.to_thread(self._engine.load)
        return await self._take(TaskBell(), name, request, wait_ns)


class Limiter(Taking):
    """mopslock.Limiter for tasks::

        limiter = mopslock.aio.Limiter()

        async with limiter.permit("db", capacity=50, width=3, wait=1.0):
            await query()

    Permits belong to the task that takes them, and are given back when it ends, unless a ``holder()`` takes them. A
    task that is cancelled while it waits leaves nothing held. ``of`` is a mopslock.Limiter to share permits with, for
    programs that also have threads; then that limiter's ``fifo`` counts.

    A wait never blocks the loop. The first permit loads the core, on another thread.
    """

    def __init__(self, fifo: bool = False, *, of: _limiter.Limiter | None = None) -> None:
        self._of = of if of is not None else _limiter.Limiter(fifo)
        self._engine = self._of._engine
        self._tasks: weakref.WeakKeyDictionary[Any, PermitOwner] = weakref.WeakKeyDictionary()

    def _owner(self) -> PermitOwner:
        """This task's. Only the table of tasks refers to it, so it ends with the task at the latest."""
        task = asyncio.current_task()
        assert task is not None
        owner = self._tasks.get(task)
        if owner is None or owner.ended:
            owner = self._tasks[task] = PermitOwner(self._engine)
            task.add_done_callback(self._ended)
        return owner

    def _ended(self, task: asyncio.Task[Any]) -> None:
        owner = self._tasks.pop(task, None)
        if owner is not None and self._engine.mine():
            owner.down()

    def down(self) -> int:
        """Gives back everything that this task holds, as its end does, and returns how many permits that were."""
        task = asyncio.current_task()
        owner = self._tasks.get(task) if task is not None else None
        return owner.down() if owner is not None and self._engine.mine() else 0

    def release(self, permit: LimiterPermit) -> None:
        """As permit.release(). It never waits."""
        permit.release()

    def held(self, name: str) -> int:
        """As mopslock.Limiter.held: how many permits of a name all callers hold."""
        return self._of.held(name)

    def waiting(self, name: str) -> int:
        """As mopslock.Limiter.waiting: how many callers wait for permits of a name."""
        return self._of.waiting(name)

    def counters(self, name: str) -> list[int]:
        """As mopslock.Limiter.counters."""
        return self._of.counters(name)

    def holder(self) -> LimiterHolder:
        """As mopslock.Limiter.holder: an owner of permits that ends when you end it, for ``async with``."""
        return LimiterHolder(self._engine)


class LimiterHolder(Taking, Holding):
    """mopslock.LimiterHolder, for ``async with``, whose waits can be awaited."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._end()

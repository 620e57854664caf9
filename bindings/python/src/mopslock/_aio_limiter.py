"""The limiter's asyncio twin: permits belong to tasks, and a call that waits is an entry in a table, not a thread."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import Any

from . import _limiter, _texts
from ._duration import Duration, waiting
from ._limiter import LimiterPermit, abandon
from ._limits import Engine, Granted, PermitOwner, full
from ._loop import outcome
from ._permit_request import PermitRequest


class Limiter:
    """mopslock.Limiter for tasks::

        limiter = mopslock.aio.Limiter()

        async with limiter.permit("db", capacity=50, width=3, wait=1.0):
            await query()

    Permits belong to the task that takes them, and are given back when it ends, unless a ``holder()`` takes them. A
    task that is cancelled while it waits leaves nothing held. ``of`` is a mopslock.Limiter to share permits with, for
    programs that also have threads; then that limiter's ``fifo`` counts.

    A wait never blocks the loop. The first permit of a process loads the library, on another thread.
    """

    def __init__(self, fifo: bool = False, *, of: _limiter.Limiter | None = None) -> None:
        self._of = of if of is not None else _limiter.Limiter(fifo)
        self._tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], PermitOwner] = weakref.WeakKeyDictionary()

    async def _engine(self) -> Engine:
        made = self._of._made
        return made if made is not None else await asyncio.to_thread(self._of._engine)

    async def _own(self) -> PermitOwner:
        """This task's holder. Only the table of tasks refers to it, so it ends with the task at the latest."""
        engine, task = await self._engine(), asyncio.current_task()
        assert task is not None
        owner = self._tasks.get(task)
        if owner is None or not owner.handle:
            owner = self._tasks[task] = PermitOwner(engine)
            task.add_done_callback(self._ended)
        return owner

    def _ended(self, task: asyncio.Task[Any]) -> None:
        owner = self._tasks.pop(task, None)
        if owner is not None:
            owner.vanish(aloud=False)

    def permit(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = 0
    ) -> LimiterPermitting:
        """As mopslock.Limiter.permit, for ``async with``."""
        return LimiterPermitting(self, None, name, PermitRequest(capacity, width, weight), wait)

    async def acquire(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = None
    ) -> LimiterPermit:
        """As mopslock.Limiter.acquire."""
        request, wait_ns = PermitRequest(capacity, width, weight), waiting(wait)
        return await self._take(await self._own(), None, name, request, wait_ns)

    async def try_acquire(self, name: str, *, capacity: int, width: int = 1, weight: int = 1) -> LimiterPermit | None:
        """As mopslock.Limiter.try_acquire."""
        request = PermitRequest(capacity, width, weight)
        return self._of._try(await self._own(), None, name, request)

    def release(self, permit: LimiterPermit) -> None:
        """As permit.release(). It never waits."""
        permit.release()

    def down(self) -> int:
        """Gives back everything that this task holds, as its end does, and returns how many permits that were."""
        task = asyncio.current_task()
        owner = self._tasks.get(task) if task is not None else None
        return owner.down() if owner is not None and self._of._engine().mine() else 0

    def holder(self) -> LimiterHolder:
        """As mopslock.Limiter.holder: an owner of permits that ends when you end it, for ``async with``."""
        return LimiterHolder(self)

    def held(self, name: str) -> int:
        """As mopslock.Limiter.held."""
        return self._of.held(name)

    def waiting(self, name: str) -> int:
        """As mopslock.Limiter.waiting."""
        return self._of.waiting(name)

    def counters(self, name: str) -> list[int]:
        """As mopslock.Limiter.counters."""
        return self._of.counters(name)

    async def _take(
        self, owner: PermitOwner, keeps: object, name: str, request: PermitRequest, wait_ns: int
    ) -> LimiterPermit:
        engine = await self._engine()
        grant = LimiterPermit(engine, name, request, keeps)
        if engine.attempt(owner, grant):
            return grant
        if wait_ns:
            into = Granted()
            try:
                engine.waits.begin(owner, grant, wait_ns, into)
                if await outcome(into, lambda: abandon(into, grant)):
                    return grant
            except BaseException:  # cancelled, perhaps in the instant in which it was granted
                abandon(into, grant)
                raise
        raise full(grant)

    def __reduce__(self) -> Any:
        raise TypeError("a limiter is this process's own; for one that processes share see mopslock.aio.permit")


class LimiterHolder:
    """mopslock.LimiterHolder, whose waits can be awaited."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._holder: _limiter.LimiterHolder | None = None
        self._over = False

    async def _own(self) -> PermitOwner:
        await self._limiter._engine()
        if self._holder is None:
            self._holder = self._limiter._of.holder()
            if self._over:
                self._holder.down()
        return self._holder._owner

    def permit(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = 0
    ) -> LimiterPermitting:
        """As Limiter.permit, for this holder."""
        return LimiterPermitting(self._limiter, self, name, PermitRequest(capacity, width, weight), wait)

    async def acquire(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = None
    ) -> LimiterPermit:
        """As Limiter.acquire, for this holder."""
        request, wait_ns = PermitRequest(capacity, width, weight), waiting(wait)
        return await self._limiter._take(await self._own(), self, name, request, wait_ns)

    async def try_acquire(self, name: str, *, capacity: int, width: int = 1, weight: int = 1) -> LimiterPermit | None:
        """As Limiter.try_acquire, for this holder."""
        request = PermitRequest(capacity, width, weight)
        return self._limiter._of._try(await self._own(), self, name, request)

    def down(self) -> int:
        """As mopslock.LimiterHolder.down."""
        self._over = True
        return self._holder.down() if self._holder is not None else 0

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._over = True
        if self._holder is not None:
            self._holder.__exit__(kind, error, at)

    def __reduce__(self) -> Any:
        raise TypeError("a holder of a limiter is this process's own")


class LimiterPermitting:
    """What Limiter.permit returns. Enter it as often as you like, even within itself and in many tasks."""

    def __init__(
        self, limiter: Limiter, holder: LimiterHolder | None, name: str, request: PermitRequest, wait: Duration | None
    ) -> None:
        _texts.encode("name", name)
        self._limiter, self._holder, self._name, self._request = limiter, holder, name, request
        self._wait_ns = waiting(wait)
        self._inside: weakref.WeakKeyDictionary[asyncio.Task[Any], list[LimiterPermit]] = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> LimiterPermit:
        limiter, holder = self._limiter, self._holder
        owner = await (limiter._own() if holder is None else holder._own())
        permit = await limiter._take(owner, holder, self._name, self._request, self._wait_ns)
        task = asyncio.current_task()
        assert task is not None
        self._inside.setdefault(task, []).append(permit)
        return permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        entered = self._inside.get(task, []) if task is not None else []
        if entered:
            entered.pop().__exit__(kind, error, at)

"""A task of asyncio as a caller: it awaits the futures of other threads, and never forever if its loop is closed."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from . import _lease
from ._caller import Caller
from ._cancelling import Cancelling
from ._future import Future
from ._hosts import AnyStore, host_of, known_host
from ._own.claims import HeldThing
from ._own.host import OwnHost

P = ParamSpec("P")
T = TypeVar("T")


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

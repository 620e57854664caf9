"""What the asyncio twins wait with: futures of other threads. No task waits forever if the loop is closed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, ParamSpec, TypeVar

from . import _lease
from ._future import Future
from ._held import HeldThing, give_up
from .errors import MopslockError

P = ParamSpec("P")
T = TypeVar("T")


class Lost(_lease.Lost):
    """mopslock.Lost, to be awaited."""

    def __init__(self, held: HeldThing) -> None:
        super().__init__(held)
        self._waiting: list[asyncio.Future[None]] = []
        self._registered = False

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Waits until it is set, at most ``timeout`` seconds, and returns whether it is."""
        if self.is_set():
            return True
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append(ended)
            first, self._registered = not self._registered, True
        try:
            if first:
                self._held.when_ended(self._wake)
            if not self.is_set():  # after ended is where wake looks for it
                await asyncio.wait_for(ended, timeout)
        except (TimeoutError, asyncio.TimeoutError):
            pass
        finally:
            with self._lock:
                self._waiting.remove(ended)
        return self.is_set()

    def _wake(self, _: MopslockError) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for ended in waiting:
            with contextlib.suppress(RuntimeError):  # its loop was closed
                ended.get_loop().call_soon_threadsafe(_set, ended)


async def outcome(future: Future[T], abandon: Callable[[], object]) -> T:
    """The result of a future. If the loop is closed meanwhile, no task takes the result, and abandon is called."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(_: Future[T]) -> None:
        try:
            loop.call_soon_threadsafe(_set, done)
        except RuntimeError:
            abandon()

    future.add_done_callback(tell)
    await done
    return future.result()


async def take(begin: Callable[[Future[HeldThing]], object], make: Callable[[HeldThing], T]) -> T:
    """As _held.take."""
    future: Future[HeldThing] = Future()
    try:
        begin(future)
        return make(await outcome(future, lambda: give_up(future)))
    except BaseException:
        give_up(future)
        raise


def _set(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def wrapped(over: Future[None]) -> asyncio.Future[None]:
    """A future for asyncio. asyncio would cancel what it wraps; a release goes on when a task stops waiting."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def done(over: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(settle, over)

    def settle(over: Future[Any]) -> None:
        if ended.done():
            return
        try:
            over.result()
        except CancelledError:
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    over.add_done_callback(done)
    return ended


def threaded(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The twin of a function that asks the store once and waits: another thread calls it."""

    @functools.wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return twin

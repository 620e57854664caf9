"""Leases and results as futures of concurrent.futures: what is asked for comes while its caller goes on.

One thread of ours runs a loop of asyncio, where each such call is a task. So a call that waits costs no thread. Work
that is launched has a thread of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from ._frames import brief
from ._future import Future
from ._loop import TASK
from ._options import RELEASE
from ._workers import begin_thread

T = TypeVar("T")

MOST_WORK = 10_000  # threads, which begin when none is free: there are as many as there is work at once


class _Loop:
    """The loop of this process, and its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.work = concurrent.futures.ThreadPoolExecutor(MOST_WORK, "mopslock-work")
        self.tasks: set[asyncio.Task[None]] = set()

    def get(self) -> asyncio.AbstractEventLoop:
        """RuntimeError: no thread can begin."""
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                begin_thread(loop.run_forever, "mopslock-submit", self._note)
                if self._thread is None:
                    raise RuntimeError("mopslock: no thread can be begun for what is submitted")
                self._loop = loop
            return self._loop

    def _note(self, thread: threading.Thread | None) -> None:
        self._thread = thread


_loop = _Loop()

if hasattr(os, "register_at_fork"):  # what the parent has submitted is the parent's
    os.register_at_fork(after_in_child=_loop.__init__)  # type: ignore[misc]


class Submitted(Generic[T]):
    """A call on the loop, and the future that its caller has."""

    def __init__(self, give_back: Callable[[T], object]) -> None:
        """give_back takes a result that came when the caller had given up."""
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._give_back = give_back
        self._over: Future[None] = Future()
        self._runs: bool | None = None

    def begin(self, steps: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> concurrent.futures.Future[T]:
        """Begins the call of a coroutine function."""
        loop = _loop.get()

        def start() -> None:
            task = loop.create_task(self._carry(brief(steps)(*given, caller=TASK)))
            _loop.tasks.add(task)
            task.add_done_callback(_loop.tasks.discard)
            self.future.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))

        loop.call_soon_threadsafe(start)
        return self.future

    async def _carry(self, steps: Coroutine[Any, Any, T]) -> None:
        """It never raises: SystemExit would end the loop."""
        try:
            result = await steps
        except BaseException as error:
            if self._goes_on():
                self.future.set_exception(error)
        else:
            if self._goes_on():
                self.future.set_result(result)
            else:
                self._give_back(result)
        self._over.settle(None)

    def _goes_on(self) -> bool:
        """Whether it was not cancelled. From now on it cannot be."""
        if self._runs is None:
            self._runs = self.future.set_running_or_notify_cancel()
        return self._runs

    async def launch(self, work: Callable[[], Any]) -> Any:
        """Does work on a thread of its own, which ends when its result is stored: the end of the interpreter waits for
        such threads."""
        if not self._goes_on():
            raise asyncio.CancelledError
        output: Future[list[Any]] = Future()

        def run() -> None:
            try:
                output.settle([work()])
            except BaseException as error:
                output.settle(error)
            self._over.wait(RELEASE)

        _loop.work.submit(run)
        await TASK.wait(output)
        return output.result()[0]

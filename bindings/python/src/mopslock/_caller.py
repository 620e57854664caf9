"""Who calls: a thread, or a task of asyncio. They differ in how they wait. All else stands once, in coroutines.

A task awaits them. A thread runs them by ``run``: there each wait blocks, so they reach their end in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from ._future import Future
from ._hosts import AnyStore, host_of
from ._own.claims import HeldThing
from ._own.host import OwnHost

T = TypeVar("T")


class Caller:
    """A thread, as the coroutines see it. A task differs in all of this."""

    is_task = False

    async def wait(
        self, future: Future[Any], seconds: float | None = None, abandon: Callable[[], object] | None = None
    ) -> bool:
        """Waits until it is done, at most so many seconds, and returns whether it is. abandon is called if nobody will
        be there to take the result: the loop of the task was closed."""
        return future.wait(seconds)

    async def call(self, function: Callable[[], T]) -> T:
        """What a function returns that may wait for the store."""
        return function()

    async def host(self, store: AnyStore) -> OwnHost:
        """The host of a store. The first call loads the library and opens the store."""
        return host_of(store)

    def stopped(self, held: HeldThing, on_loss: str) -> AbstractContextManager[object]:
        """A block that a loss of what is held may stop: then it raises LeaseLost. A thread is only told."""
        return nullcontext()


THREAD = Caller()


def run(steps: Coroutine[Any, Any, T]) -> T:
    """What a coroutine of a thread's returns."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    except RuntimeError as error:  # no coroutine raises StopIteration, but users' functions do
        if isinstance(error.__cause__, StopIteration) and str(error) == "coroutine raised StopIteration":
            raise error.__cause__ from None
        raise
    raise AssertionError("mopslock: a thread was to await something")

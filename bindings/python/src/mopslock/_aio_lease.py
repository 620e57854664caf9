"""What asyncio's lease, companion and permit have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from . import _lease, _texts
from ._duration import Duration, nanoseconds
from ._held import Entered, HeldThing, Use
from ._lease import not_released
from ._loop import Lost, wrapped
from ._options import Block
from ._units import SECOND
from .errors import MopslockError

A = TypeVar("A", bound="Async")


async def enter(
    entered: Entered[A], acquire: Callable[[], Awaitable[A]], what: str, then: Callable[[A], object] = id
) -> A:
    """As _lease.enter."""
    use: Use[A] = Use()
    try:
        if not entered.begin(use):
            raise RuntimeError(f"mopslock: {what} is entered already; leave it first, or make another")
        use.held = await acquire()
        then(use.held)
        return use.held
    except BaseException:
        _lease.give_back(entered, use)
        raise


async def leave(entered: Entered[A], error: BaseException | None) -> None:
    """As _lease.leave."""
    use: Use[A] | None = None
    try:
        use = entered.use()
        if use.held is not None:
            await use.held._leave_async(error)
        entered.end(use)
    except BaseException:
        _lease.give_back(entered, use or entered.use())
        raise


class Async(_lease.HeldLease):
    """A lease, companion or permit whose waits can be awaited."""

    _home = "mopslock.aio"
    lost: Lost

    def __init__(self, held: HeldThing, block: Block) -> None:
        super().__init__(held, block)
        self.lost = Lost(held)

    async def _finish_async(self, timeout: Duration | None) -> None:
        """As _finish."""
        try:
            if self._is_parents():
                raise _texts.forked(self.name, self._held.what)
            seconds = None if timeout is None else nanoseconds("timeout", timeout) / SECOND
            await asyncio.wait_for(wrapped(self._held.finish()), seconds)
        except (TimeoutError, asyncio.TimeoutError) as error:
            if isinstance(error, MopslockError):
                raise _lease._again(error) from None
            raise not_released(self.name, self._held.what) from error
        except MopslockError as error:
            raise _lease._again(error) from None
        except BaseException:
            self._carry_on()
            raise

    async def _leave_async(self, error: BaseException | None) -> None:
        try:
            await self._finish_async(self._block.release_timeout)
        except MopslockError as ended:
            self._judge(ended, error)

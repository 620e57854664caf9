"""What callers ask for, checked before any I/O, and the block between ``with`` and what they get."""

from __future__ import annotations

import concurrent.futures
import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic

from . import _inside
from ._call import give_up
from ._caller import Caller, run
from ._frames import brief
from ._future import Future
from ._held import Handle, logged
from ._hosts import AnyStore
from ._lease import PERMITS_OWN, L
from ._options import Block
from ._own.claims import HeldThing
from ._own.host import OwnHost
from .terms import PermitRequest, Terms


@dataclass(frozen=True)
class Request(ABC):
    """A lease, a companion or a permit that a caller asks for."""

    store: AnyStore
    name: str
    terms: Terms
    block: Block

    what = "lease"
    own = "lease(…) is this process's own: the other process makes its own, or accompanies this one's lease by its text"
    """Why it cannot be pickled."""

    @abstractmethod
    def begin(self, host: OwnHost, into: Future[HeldThing], *, is_task: bool) -> object:
        """Has the host begin."""

    async def acquire(self, kind: type[L], *, caller: Caller | None = None) -> L:
        """Acquires. Whenever it is interrupted: what was acquired is given back."""
        caller, into = caller or kind._caller, Future[HeldThing]()
        host = await caller.host(self.store)
        try:
            self.begin(host, into, is_task=caller.is_task)
            await caller.wait(into, abandon=lambda: give_up(into))
            return kind(into.result(), self.block)
        except BaseException:
            give_up(into)
            raise


class LeaseRequest(Request):
    def begin(self, host: OwnHost, into: Future[HeldThing], *, is_task: bool) -> object:
        wait_ns, waits = self.block.wait_ns(), logged("lease", self.name, self.block.on_waiting)
        if wait_ns:
            _inside.refuse(host, self.name, self.terms.protocol, awaits=is_task)
        return host.begin_acquire(self.name, self.terms, wait_ns, waits, into)


@dataclass(frozen=True)
class CompanionRequest(Request):
    handle: Handle

    def begin(self, host: OwnHost, into: Future[HeldThing], *, is_task: bool) -> object:
        return host.begin_accompany(self.handle, self.terms, into)


@dataclass(frozen=True)
class SharedPermitRequest(Request):
    request: PermitRequest

    what = "permit of"
    own = PERMITS_OWN

    def begin(self, host: OwnHost, into: Future[HeldThing], *, is_task: bool) -> object:
        wait_ns, waits = self.block.wait_ns(), logged("permit of", self.name, self.block.on_waiting)
        return host.begin_permit(self.name, self.terms, self.request, wait_ns, waits, into=into)


class Use(Generic[L]):
    """One use of what lease(…) or permit(…) returned, from entering to leaving."""

    held: L | None = None


class Acquiring(Generic[L]):
    """What lease(…) and permit(…) return, to threads and to tasks: it is entered, or acquires."""

    _kind: type[L]

    def __init__(self, request: Request) -> None:
        self._request = request
        self._uses: list[Use[L]] = []  # the first is inside; each step is one call, which an interrupt does not cut

    async def _enter(self, use: Use[L]) -> L:
        """The beginning of a block: acquires, once nobody else is inside."""
        self._uses.append(use)
        if self._uses[0] is not use:
            what = f"{self._request.what} {self._request.name!r}"
            raise RuntimeError(f"mopslock: {what} is entered already; leave it first, or make another")
        use.held = await self._request.acquire(self._kind)
        use.held._enter()
        return use.held

    async def _leave(self, use: Use[L], error: BaseException | None) -> None:
        """The end of a block: what it held ends first, and is forgotten after that."""
        if use.held is not None:
            await use.held._end_block(error)
        self._forget(use)

    def _give_back(self, use: Use[L]) -> None:
        """The block was not entered, or its end was interrupted: nothing of it stays."""
        if use.held is not None:
            use.held._carry_on()
        self._forget(use)

    def _forget(self, use: Use[L]) -> None:
        with contextlib.suppress(ValueError):
            self._uses.remove(use)

    def _use(self) -> Use[L]:
        return self._uses[0] if self._uses else Use()

    def __reduce__(self) -> Any:
        raise TypeError(self._request.own)


class ThreadAcquiring(Acquiring[L]):
    @brief
    def acquire(self) -> L:
        """Acquires what is independent of this object, and returns it."""
        return run(self._request.acquire(self._kind))

    def submit(self) -> concurrent.futures.Future[L]:
        """As acquire, while this thread goes on. The future's ``cancel()`` gives the claim up, and leaves nothing held.
        What it results in is yours to release."""
        from ._submit import Submitted  # noqa: PLC0415 - asyncio takes a while to import

        submitted: Submitted[L] = Submitted(lambda held: held._carry_on())
        return submitted.begin(self._request.acquire, self._kind)

    @brief
    def __enter__(self) -> L:
        use: Use[L] = Use()
        try:
            return run(self._enter(use))
        except BaseException:
            self._give_back(use)
            raise

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        use: Use[L] | None = None
        try:
            use = self._use()
            run(self._leave(use, error))
        except BaseException:
            self._give_back(use or self._use())
            raise

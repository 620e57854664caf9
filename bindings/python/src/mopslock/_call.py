"""One call that asks for a piece of work: the request, the steps of the call, and its end. The host does the I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ._future import Future
from ._held import Ended, Handle, HeldThing, OnWaiting
from ._units import LONGEST
from .errors import BadArgument, MopslockError
from .terms import Terms

LOCK = "lock"


@dataclass(frozen=True)
class WorkRequest:
    """What a caller asks of one piece of work. A remote gives a handle, or asks to work without a lease."""

    name: str
    terms: Terms
    wait_ns: int = 0
    waits: OnWaiting | None = None
    memo_failures: bool = False
    remote: bool = False
    handle: Handle | None = None
    without_lease: bool = False
    on_loss: str = "tell"

    def __post_init__(self) -> None:
        if isinstance(self.name, str) and self.name.rpartition("/")[2] == LOCK:
            raise BadArgument(
                f"mopslock: name {self.name!r}: the result of a name whose last segment is lock would lie inside of a "
                "mops memo; choose another"
            )


@dataclass(frozen=True)
class Begin:
    """The caller is to begin the work now. ``held`` is what it holds meanwhile."""

    held: HeldThing


@dataclass(frozen=True)
class Found:
    """There is a result, and it is final."""

    key: str
    failed: bool
    own: bool


Step = Begin | Found
"""What a call waits for. If the call ends without a result, the future has an error instead."""


StepFuture = Future[Step]
"""The caller makes the first one, so that it can give the call up wherever it is interrupted."""


class Call(ABC):
    """A call that is under way. Any thread may call its methods; none waits for I/O."""

    __slots__ = ()

    name: str

    @abstractmethod
    def complete(self, next_step: StepFuture, *, well: bool, body: bytes | Path | None) -> None:
        """The work has ended. body is its output: bytes, or the file that has them. next_step gets what comes next."""

    @abstractmethod
    def cancel(self) -> Future[None]:
        """Gives the call up, and releases what it holds. The future ends when that is over, and never with an error."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """The result, from its beginning. It waits for the store."""


def give_up(next_step: StepFuture) -> None:
    """No thread will do what it asks for: gives the call up."""
    if not next_step.cancel():
        next_step.add_done_callback(_give_back)


def _give_back(next_step: StepFuture) -> None:
    if not next_step.cancelled() and next_step.exception() is None and isinstance(step := next_step.result(), Begin):
        step.held.finish()


class NoLease(HeldThing):
    """Replaces what is held if the work is done without a lease."""

    guarded = False

    __slots__ = ("_call", "acquired_ns", "holder", "name", "protocol", "session", "store", "token", "ttl_ns")

    def __init__(self, call: Call, store: str) -> None:
        self._call = call
        self.name, self.store = call.name, store
        self.holder = self.protocol = self.session = ""
        self.token = self.ttl_ns = self.acquired_ns = 0

    def version(self) -> int:
        """There is none."""
        return 0

    def left_ns(self) -> int:
        """It has no end."""
        return LONGEST

    def failure(self) -> MopslockError | None:
        """Nothing can be lost."""
        return None

    def is_given_back(self) -> bool:
        """There is nothing to give back."""
        return True

    def when_ended(self, tell: Ended) -> None:
        """It never ends."""

    def finish(self) -> Future[None]:
        """The call's."""
        return self._call.cancel()

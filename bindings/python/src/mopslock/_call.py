"""One call that asks for a piece of work: the request, and the steps of the call. The host does the I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._future import Future
from ._held import Handle, OnWaiting
from ._own.claims import HeldThing
from .errors import BadArgument
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


def give_up(future: Future[Any]) -> None:
    """Nobody wants what a step or a claim has come to, or will: cancels it, or gives back what is held."""
    if not future.cancel():
        future.add_done_callback(_give_back)


def _give_back(future: Future[Any]) -> None:
    if future.exception() is None and not isinstance(came := future.result(), Found):
        (came.held if isinstance(came, Begin) else came).finish()

"""One call of a piece of work, whoever does the I/O: what is asked for, its turns, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ._duration import LONGEST
from ._held import Ended, Handle, HeldThing, Waits, noticed
from .errors import BadArgument, MopslockError
from .terms import Terms

LOCK = "lock"


@dataclass(frozen=True)
class Wanted:
    """What a caller says of one piece of work. One with a handle, or without a lease, is a remote's."""

    name: str
    terms: Terms
    wait_ns: int = 0
    waits: Waits | None = None
    memo_failures: bool = False
    remote: bool = False
    handle: Handle | None = None
    without_lease: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.name, str) and self.name.rpartition("/")[2] == LOCK:
            raise BadArgument(
                f"mopslock: name {self.name!r}: the result of a name whose last segment is lock would lie inside of a "
                "mops memo; choose another"
            )


@dataclass(frozen=True)
class Begin:
    """The work is to be begun now, under this tenure."""

    held: HeldThing


@dataclass(frozen=True)
class Found:
    """There is a result, and it stays."""

    key: str
    failed: bool
    own: bool


Turn = Begin | Found
"""What a call waits for. An error is its end without a result."""


Turns = Future[Turn]
"""Whoever asks makes the first, so that he has it in hand wherever he is interrupted."""


class Ongoing(ABC):
    """A call that is under way. Its methods may be called from any thread; none waits for I/O."""

    __slots__ = ()

    name: str

    @abstractmethod
    def came_to(self, turn: Turns, *, well: bool, body: bytes | Path | None) -> None:
        """The work has ended, and this is what it came to: bytes, or the file that has them. turn says what comes
        next."""

    @abstractmethod
    def cancel(self) -> Future[None]:
        """Gives up. What is held is released; the future ends when that is over, and never with an error."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """The result, from its beginning. It waits for the store."""


def give_up(turn: Turns) -> None:
    """Nobody will do what it asks for: the call is given up."""
    if not turn.cancel():
        turn.add_done_callback(_give_back)


def _give_back(turn: Turns) -> None:
    if not turn.cancelled() and turn.exception() is None and isinstance(come := turn.result(), Begin):
        come.held.finish()


class Awaited:
    """A turn that its caller blocks for. What he waits on is there before anybody can settle it: see noticed."""

    def __init__(self) -> None:
        self.turn = Turns()
        self._done = noticed(self.turn)

    def get(self, timeout: float | None = None) -> Turn:
        """What comes. queue.Empty: not in so many seconds."""
        self._done.get(timeout=timeout)
        return self.turn.result(0)


class NoLease(HeldThing):
    """In the place of what is held, where the work is done without a lease."""

    __slots__ = ("_call", "acquired_ns", "holder", "name", "protocol", "session", "store", "token", "ttl_ns")

    def __init__(self, call: Ongoing, store: str) -> None:
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
        """There is nothing that could be lost."""
        return None

    def when_ended(self, tell: Ended) -> None:
        """It never ends."""

    def finish(self) -> Future[None]:
        """The call's."""
        return self._call.cancel()

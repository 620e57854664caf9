"""What is alike in every client, wherever it runs: claims by their numbers, commands in their order, what is believed,
and what is said of no claim.

A client is in this process (``client``), or in a keeper (``kept``). What a claim is told happens under the client's
lock, on a thread of ours: it may not wait, and asks no store. It may command, since that is only put into an inbox.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .. import _texts
from .._future import Future
from .._log import log
from .._metrics import Meter
from .._units import SECOND
from .._workers import Do
from ..errors import BadArgument, Closed, EngineFailed, MopslockError, Vacant, WeightExceedsLimit
from .clock import Clock
from .verbs import GO_ON, Action, Event

Begun = tuple[Event, Event]  # a command and its terms

FAULTS: dict[str, type[MopslockError]] = {
    "too_heavy": WeightExceedsLimit, "argument": BadArgument, "absent": Vacant, "closed": Closed,
    "engine": EngineFailed,
}  # fmt: skip
"""What a keeper says of the errors of its host."""

LOOK = 1.0  # seconds that a caller past its deadline waits to be told what happened


class Until(Protocol):
    """What a claim's belief rests on. Any thread may ask."""

    def until(self) -> int:
        """The Mono at which it ends."""

    def renewed(self, at: int) -> Until:
        """The same, with another deadline of the claim's own."""


class Deadline:
    """A session's; or a claim's own, and the session on which it stands: the later of both."""

    __slots__ = ("at", "session")

    def __init__(self, at: int = 0, session: Deadline | None = None) -> None:
        self.at, self.session = at, session

    def until(self) -> int:
        return max(self.at, self.session.at) if self.session is not None else self.at

    def renewed(self, at: int) -> Deadline:
        return Deadline(at, self.session)


class Output:
    """What work has left, in a file."""

    def __init__(self, path: Path, *, ours: bool) -> None:
        self.path, self._of = path, os.getpid() if ours else 0  # a forked child has a copy of what is its parent's

    def read(self) -> bytes | None:
        """All of it, or None if that cannot be read."""
        try:
            return self.path.read_bytes()
        except OSError:
            return None

    def drop(self) -> None:
        """Nobody wants it any more. A file of the user's stays."""
        of, self._of = self._of, 0
        if of == os.getpid():
            with contextlib.suppress(OSError):
                self.path.unlink()

    def __del__(self) -> None:
        """A caller that was interrupted may have told nobody of it."""
        self.drop()


class Claim:
    """What the client has a number for. All of it happens under the client's lock."""

    if not TYPE_CHECKING:  # which cannot see that its classes have them
        __slots__ = ()

    client: AnyClient
    name: str
    number: int  # from when it is begun
    cause: BaseException | None  # what the store raised last
    answers = False  # it wants to hear of answers, which a keeper tells only then
    hear: Callable[[Action], bool]  # what the client says of it; True: that is the last word
    fail: Callable[[MopslockError], None]  # it could not be begun, or the client has failed

    def strand(self, error: MopslockError) -> bool:
        """The client is gone, and nobody renews it any more (PROTOCOL C8). True: it goes on with another client, by the
        command that began it, if there can be one."""
        self.fail(error)
        return False

    def again(self, command: Event, terms: Event) -> Begun:
        return command, terms

    def hurry(self) -> None:
        """The store is closed, or the process is about to end: it may not be relied on any more."""

    def is_wanted(self) -> bool:
        """It was not given up before it was begun, or before it goes on."""
        return True

    def result(self) -> bytes | Output | None:
        """The output of work, which is to be stored."""
        return None

    def answered(self, action: Action, answer: Event) -> None:
        """The store has answered a request for it."""

    def stored(self) -> None:
        """A keeper's store has taken that output."""


class AnyClient:
    """All that this process does with one store."""

    host: Any  # the OwnHost
    or_else = ""  # why else a store does not honour create-if-absent
    tries_create = True  # whether that is tried, or the store has no such verb

    # Any thread may call these.
    post: Callable[[Do], object]  # has something done under the lock, after what was posted before
    soon: Callable[[Do], object]  # has something done on another thread, where it may take its time
    at: Callable[[int, Do], object]  # has something done at a Mono, on a thread of ours
    look: Callable[[], bool]  # has the client look at the clock; False if it did not in time
    output: Callable[[bytes | Path], bytes | Output]  # what work has left, as it is stored; on the caller's thread

    def __init__(self, url: str, clock: Clock) -> None:
        self.url, self.clock = url, clock
        self.sessions: dict[int, Deadline] = {}
        self.claims: dict[int, Claim] = {}
        self.closing = False
        self.closed: Future[None] = Future()
        self.cause: BaseException | None = None  # what the store raised last
        self.meter = Meter(clock)
        self._last = 0
        self._begun: dict[int, Begun] = {}  # by what the claims were begun that go on if the client fails

    def begin(self, claim: Claim, command: Event, terms: Event) -> None:
        """Begins a claim. command has its keys in the core's order, as terms have."""
        self.post(lambda: self._begin(claim, command, terms))

    def command(self, claim: Claim, kind: str, **fields: Any) -> None:
        """Says something of a claim that was begun; if that has ended it changes nothing."""
        self.post(lambda: self._command(claim, {"kind": kind, **fields}))

    def close(self) -> None:
        """Ends all claims, and then the sessions."""
        self.post(self._close)

    def drive(self) -> None:
        """Does what threads would do, if no thread can begin any more."""

    def belief(self, action: Action) -> Until:
        """What a claim stands on after held or deadline. Without a session it has that instant alone."""
        return Deadline(action.get("at_ns", 0), self.sessions.get(action.get("on", 0)))

    # Under the lock.

    _give: Callable[[Event, Claim | None], None]  # gives the core's client a command, or raises what is wrong with it
    _close: Do

    def _begin(self, claim: Claim, command: Event, terms: Event) -> None:
        if self.closed.done():
            claim.fail(_texts.closed())
        elif claim.is_wanted():
            self._last += 1
            claim.number = self._last
            self.claims[claim.number] = claim
            self.meter.asked(claim.number, command, terms)
            try:
                self._give({**command, "claim": claim.number, "terms": terms}, claim)
                if command["kind"] in GO_ON:
                    self._begun[claim.number] = command, terms
            except Exception as error:
                self._forget(claim.number)
                claim.fail(error if isinstance(error, MopslockError) else EngineFailed(f"mopslock: {error!r}"))
                if not isinstance(error, MopslockError):
                    raise

    def _command(self, claim: Claim, command: Event) -> None:
        if self.claims.get(claim.number) is claim:
            self._give({**command, "claim": claim.number}, claim)

    def _tell(self, action: Action) -> None:
        self.meter.told(action)
        number = action.get("claim")
        if number is None:
            if (told := getattr(self, f"on_{action['kind']}", None)) is not None:
                told(action)
            return
        claim = self.claims.get(number)
        try:
            if claim is not None and claim.hear(action):
                self._forget(number)
        except Exception as error:
            log.exception("mopslock: a claim could not be told; this is an error in mopslock")
            assert claim is not None
            self.post(lambda: self._give({"kind": "cancel", "claim": number}, None))
            self.claims.pop(number, None)  # the client goes on with it to its end
            claim.fail(EngineFailed(f"mopslock: {error!r}"))

    def _forget(self, number: int) -> None:
        self.meter.forgot(number)
        self.claims.pop(number, None)
        self._begun.pop(number, None)

    def _strand(self, error: MopslockError) -> list[tuple[Claim, Begun]]:
        """The core's client is gone, and all claims with it. Those that go on are returned."""
        self.meter.stranded()
        claims, self.claims, self.sessions = self.claims, {}, {}
        begun, self._begun = self._begun, {}
        going_on = [(claim, begun[number]) for number, claim in claims.items() if claim.strand(error)]
        if self.closing:
            self.closed.settle(None)
            return []
        return going_on

    def _go_on(self, claim: Claim, begun: Begun) -> None:
        """Begins a claim anew that a client before has begun."""
        self._begin(claim, *claim.again(*begun))

    # What is said of no claim.

    def on_held(self, action: Action) -> None:
        self.sessions[action["on"]] = Deadline(action["at_ns"])

    def on_renewed(self, action: Action) -> None:
        if (session := self.sessions.get(action["on"])) is not None:
            session.at = action["at_ns"]

    def on_lost(self, action: Action) -> None:
        log.warning("mopslock: the session is lost (%s), and with it every lease on it", action["reason"])
        self.on_left(action)

    def on_left(self, action: Action) -> None:
        self.sessions.pop(action["on"], None)

    def on_warned(self, action: Action) -> None:
        if action["reason"] == "emptied":
            log.warning(
                "mopslock: %s: a session was removed from the store; keep cleaning and lifecycle rules off it", self.url
            )
        elif action["reason"] == "no_create":
            seen = action.get("body", b"").decode() if self.tries_create else ""
            shown = f" (seen: {seen})" if seen else ""
            log.warning(
                "mopslock: %s does not honour create-if-absent%s: its leases are kept by lastwriter, without a fencing "
                "token%s", self.url, self.or_else, shown,
            )  # fmt: skip
        else:
            log.warning("mopslock: %s: %s", self.url, action["reason"])

    def on_outage(self, action: Action) -> None:
        log.info(
            "mopslock: %s fails: %d requests in a row, the last a %s (%s)",
            self.url, action["count"], action["verb"], action.get("class", ""),
        )  # fmt: skip

    def on_recovered(self, action: Action) -> None:
        took = action.get("took_ns", 0) / SECOND
        log.info("mopslock: %s answers again, after %d failed requests in %.1f s", self.url, action["count"], took)

    def on_closed(self, _: Action) -> None:
        self.closed.settle(None)

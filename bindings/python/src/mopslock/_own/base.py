"""What is alike in every client, wherever it runs: claims by their numbers, commands in their order, what is believed,
and what is said of no claim.

A client is in this process (``client``), or in a keeper (``kept``). What a claim is told happens under the client's
lock, on a thread of ours: it may not wait, and asks no store. It may command, since that is only put into an inbox.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .. import _texts
from .._future import Future
from .._log import log
from .._metrics import Meter
from .._units import SECOND
from .._workers import Do
from ..errors import EngineFailed, MopslockError
from .clock import Clock
from .verbs import GO_ON, Action, Event

Begun = tuple[Event, Event]
"""A command and its terms."""

LOOK = 1.0
"""Seconds that a caller past its deadline waits to be told what happened."""


class Until(Protocol):
    """What a claim's belief rests on."""

    def until(self) -> int:
        """Mono. Any thread may ask."""

    def renewed(self, at: int) -> Until:
        """It has this deadline of its own now."""


class Session:
    """One heartbeat of many claims: until when all that stand on it may be relied on."""

    __slots__ = ("until",)

    def __init__(self, until: int) -> None:
        self.until = until


class Deadline:
    """A claim's own, and the session on which it stands."""

    __slots__ = ("_at", "_session")

    def __init__(self, at: int = 0, session: Session | None = None) -> None:
        self._at, self._session = at, session

    def until(self) -> int:
        """The later of both."""
        return max(self._at, self._session.until) if self._session is not None else self._at

    def renewed(self, at: int) -> Deadline:
        """On the same session."""
        return Deadline(at, self._session)


class Output:
    """What work has left, in a file."""

    def __init__(self, path: Path, *, ours: bool) -> None:
        self.path, self._ours = path, ours

    def read(self) -> bytes | None:
        """All of it, or None if that cannot be read."""
        try:
            return self.path.read_bytes()
        except OSError:
            return None

    def drop(self) -> None:
        """Nobody wants it any more. A file of the user's stays."""
        ours, self._ours = self._ours, False
        if ours:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def __del__(self) -> None:
        """A caller that was interrupted may have told nobody of it."""
        self.drop()


class Claim:
    """What the client has a number for. All of it happens under the client's lock."""

    if not TYPE_CHECKING:  # which cannot see that its classes have them
        __slots__ = ()

    number: int
    """From when it is begun."""
    cause: BaseException | None
    """What the store raised last."""

    def hear(self, action: Action) -> bool:
        """What the client says of it. True: that is the last word."""
        raise NotImplementedError

    def fail(self, error: MopslockError) -> None:
        """It could not be begun, or the client has failed."""
        raise NotImplementedError

    def strand(self, error: MopslockError) -> bool:
        """The client is gone, and nobody renews it any more (PROTOCOL C8). True: it goes on with another client, by the
        command that began it, if there can be one."""
        self.fail(error)
        return False

    client: AnyClient

    def again(self, command: Event, terms: Event) -> Begun:
        """By what it goes on."""
        return command, terms

    def hurry(self) -> None:
        """The store is closed, or the process is about to end: it may not be relied on any more."""

    def is_wanted(self) -> bool:
        """It was not given up before it was begun, or before it goes on."""
        return True

    def result(self) -> bytes | Output | None:
        """The output of work, which is to be stored."""
        return None

    answers = False
    """It wants to hear of answers, which a keeper tells only then."""

    def answered(self, action: Action, answer: Event) -> None:
        """The store has answered a request for it."""

    def stored(self) -> None:
        """A keeper's store has taken that output."""


class AnyClient:
    """All that this process does with one store."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.url, self.clock = url, clock
        self.host: Any  # the OwnHost
        self.sessions: dict[int, Session] = {}
        self.claims: dict[int, Claim] = {}
        self.closing = False
        self.closed: Future[None] = Future()
        self.cause: BaseException | None = None  # what the store raised last
        self.meter = Meter(clock)
        self._last = 0
        self._begun: dict[int, Begun] = {}  # by what the claims were begun that go on if the client fails

    # What any thread may call.

    def begin(self, claim: Claim, command: Event, terms: Event) -> None:
        """Begins a claim. command has its keys in the core's order, as terms have."""
        self.post(lambda: self._begin(claim, command, terms))

    def command(self, claim: Claim, kind: str, **fields: Any) -> None:
        """Says something of a claim that was begun; if that has ended it changes nothing."""
        self.post(lambda: self._command(claim, {"kind": kind, **fields}))

    def close(self) -> None:
        """Ends all claims, and then the sessions."""
        self.post(self._close)

    def post(self, do: Do) -> None:
        """Has do run under the lock, after what was posted before."""
        raise NotImplementedError

    def soon(self, do: Do) -> None:
        """Has something done on another thread, where it may take its time."""
        raise NotImplementedError

    def drive(self) -> None:
        """Does what threads would do, if no thread can begin any more."""

    def at(self, instant: int, do: Do) -> None:
        """Has something done at a Mono, on a thread of ours."""
        raise NotImplementedError

    def look(self) -> bool:
        """Has the client look at the clock; False if it did not in time."""
        raise NotImplementedError

    def belief(self, claim: Claim, action: Action) -> Until:
        """What a claim stands on after held or deadline."""
        raise NotImplementedError

    def output(self, body: bytes | Path) -> bytes | Output:
        """What work has left, as it is stored. On the caller's thread."""
        raise NotImplementedError

    # Under the lock.

    def _give(self, event: Event, claim: Claim | None = None) -> None:
        """Gives the core's client a command. What it refuses at once is raised, and then there is no claim."""
        raise NotImplementedError

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

    def _close(self) -> None:
        raise NotImplementedError

    def _tell(self, action: Action) -> None:
        """Takes a notice."""
        self.meter.told(action)
        number = action.get("claim")
        if number is None:
            _NOTICES.get(action["kind"], AnyClient._unheard)(self, action)
            return
        claim = self.claims.get(number)
        try:
            if claim is not None and claim.hear(action):
                self._forget(number)
        except Exception as error:
            log.exception("mopslock: a claim could not be told; this is an error in mopslock")
            assert claim is not None
            self.post(lambda: self._give({"kind": "cancel", "claim": number}))
            self.claims.pop(number, None)  # the client goes on with it to its end
            claim.fail(EngineFailed(f"mopslock: {error!r}"))

    def _forget(self, number: int) -> None:
        """A claim has ended."""
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

    or_else = ""
    """Why else a store does not honour create-if-absent."""

    def seen_of_create(self, action: Action) -> str:
        """What was seen when it was tried whether the store honours it."""
        text: str = action.get("body", b"").decode()
        return text

    def _unheard(self, _: Action) -> None:
        pass

    def _held(self, action: Action) -> None:
        self.sessions[action["on"]] = Session(action["at_ns"])

    def _renewed(self, action: Action) -> None:
        if (session := self.sessions.get(action["on"])) is not None:
            session.until = action["at_ns"]

    def _lost(self, action: Action) -> None:
        log.warning("mopslock: the session is lost (%s), and with it every lease on it", action["reason"])
        self.sessions.pop(action["on"], None)

    def _left(self, action: Action) -> None:
        self.sessions.pop(action["on"], None)

    def _warned(self, action: Action) -> None:
        if action["reason"] == "emptied":
            log.warning(
                "mopslock: %s: a session was removed from the store; keep cleaning and lifecycle rules off it", self.url
            )
            return
        if action["reason"] != "no_create":
            log.warning("mopslock: %s: %s", self.url, action["reason"])
            return
        seen = self.seen_of_create(action)
        log.warning(
            "mopslock: %s does not honour create-if-absent%s: its leases are kept by lastwriter, without a fencing "
            "token%s", self.url, self.or_else, seen and f" (seen: {seen})",
        )  # fmt: skip

    def _outage(self, action: Action) -> None:
        log.info(
            "mopslock: %s fails: %d requests in a row, the last a %s (%s)",
            self.url, action["count"], action["verb"], action.get("class", ""),
        )  # fmt: skip

    def _recovered(self, action: Action) -> None:
        took = action.get("took_ns", 0) / SECOND
        log.info("mopslock: %s answers again, after %d failed requests in %.1f s", self.url, action["count"], took)

    def _is_closed(self, _: Action) -> None:
        self.closed.settle(None)


_NOTICES = {
    "held": AnyClient._held,
    "renewed": AnyClient._renewed,
    "lost": AnyClient._lost,
    "left": AnyClient._left,
    "warned": AnyClient._warned,
    "outage": AnyClient._outage,
    "recovered": AnyClient._recovered,
    "closed": AnyClient._is_closed,
}

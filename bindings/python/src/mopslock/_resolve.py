"""How a name is kept, where the caller leaves it open or the store has to show that it can do what strict needs.

A Resolver stands in the place of a claim's machine, asks one thing after the other, and then makes the machine::

    exists NAME/lock.json       yes, and nobody asked for strict: lastwriter, said aloud
    get the store's card        it refuses the store: that counts, whichever program wrote it
      there: create it          it exists: create-if-absent is honoured, as this very request shows
             create it again    after a yes: another one is of a store that takes every create for a put
      absent: four creates      at once, for some stores look and then write; and a look whose card lies there

That a card says "honoured" proves nothing: a bucket can have been copied, and a server can answer yes to everything.
Two winners are written on the card. What was told nothing is no winner, nor is one that was sent twice on its way,
which is told that it exists and lies there itself: each has a nonce of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ._runner import Steps
from ._units import FOREVER, SECOND
from ._verbs import Action, Event
from .status import printable

CARD = "_mopslock/store.json"

RACERS = 4
"""How many creates race where there is no card."""

PATIENCE = 5 * SECOND
"""How long a store may leave us without one answer; also the limit of each request."""

FIRST_REQUEST = 1 << 40
"""Above all numbers that a machine gives its own."""

POLL = SECOND // 50
"""How often who waits for another's trial looks."""

PERMANENT = ("unauthorized", "no_such_store", "read_only", "full")


@dataclass
class Abilities:
    """What a host has found out about its store."""

    creates: bool | None = None
    seen: str = ""  # where it does not: what was seen, if anybody saw it
    trying: list[object] = field(default_factory=list)  # the one resolver that tries it
    told: bool = False


@dataclass(frozen=True)
class Resolution:
    """How a name is kept: the protocol, whether a lock.json lies beside, and how we released it last."""

    protocol: str
    beside: bool = False
    last: tuple[int, int] = (0, 0)


class Unfitting(Exception):
    """The store does not honour create-if-absent."""


class Resolver:
    """Steps as a machine does, until it has made one; from then on it is that one."""

    def __init__(
        self, name: str, want: str, able: Abilities, make: Callable[[Resolution], Steps], *, known: Callable[[], Event],
        cause: Callable[[], BaseException | None], resolution: Resolution | None = None,
    ) -> None:  # fmt: skip
        """make makes the machine, known is what each event to it carries, cause what the store said last."""
        self._name, self._want, self._able, self._make, self._known = name, want, able, make, known
        self._cause = cause
        self._resolution = resolution
        self.made: Steps | None = None  # the machine
        self._first: Event = {}
        self._asks: Iterator[Action] | None = None
        self._said: Event = {}  # the latest answer
        self._request = FIRST_REQUEST
        self._sent: Action | None = None
        self._again: Action | None = None  # to be asked again
        self._begun = self._wake = self._wall = self._retries = 0
        self._answered = False
        self.idle = False

    @property
    def state(self) -> str:
        """As the machine's, once there is one."""
        return self.made.state if self.made is not None else "resolving"

    def drop(self) -> None:
        """As the machine's. Another resolver that waits for our trial makes its own."""
        self._end_trial()
        self.idle = True
        if self.made is not None:
            self.made.drop()

    def step(self, given: Mapping[str, Any]) -> list[Action]:
        """As the machine's."""
        if self.made is not None:
            return self._through(given)
        now, kind = given["mono"], given["kind"]
        if kind in ("release", "cancel", "leave"):
            return self._refuse("cancelled")
        if not self._first:
            self._first, self._begun, self._asks = dict(given), now, self._questions()
            return self._ask(given)
        if kind == "answer" and self._sent is not None and given["request"] == self._sent["request"]:
            return self._heard(given)
        if self._sent is None and now >= self._wake:
            return self._ask(given)
        return [] if self._sent is not None else [{"kind": "wake", "at_ns": self._wake}]

    def _questions(self) -> Iterator[Action]:
        """What is asked; nothing at all is to wait a moment. What was said stands in _said."""
        if self._resolution is not None:
            return
        yield {"kind": "exists", "key": f"{self._name}/lock.json"}
        beside = self._yes
        if beside and self._want == "auto":
            self._resolution = Resolution("lastwriter", beside)
            return
        able = self._able
        while able.creates is None and able.trying and able.trying[0] is not self:
            yield {}
        if able.creates is None:
            able.trying[:] = [self]
            yield from self._trial()
            self._end_trial()
        if able.creates:
            self._resolution = Resolution("strict", beside)
        elif self._want == "strict":
            raise Unfitting
        else:
            self._resolution = Resolution("lastwriter")

    @property
    def _yes(self) -> bool:
        return bool(self._said["outcome"] == "yes")

    def _trial(self) -> Iterator[Action]:
        able = self._able
        yield {"kind": "get", "key": CARD}
        there, card = self._yes, _card(self._said.get("body", b""))
        if not there:
            nonces = [str(uuid.uuid4()) for _ in range(RACERS)]
            yield {"kind": "race", "key": CARD, "bodies": [_body(nonce) for nonce in nonces]}
            told = self._said["told"]
            winners = [nonce for nonce, outcome in zip(nonces, told, strict=True) if outcome == "yes"]
            if len(winners) > 1:
                yield from self._refused(f"{len(winners)} of {RACERS} creates at once were told yes")
                return
            yield {"kind": "get", "key": CARD}
            card = _card(self._said.get("body", b""))
            if card and winners and card["create"] != "refused" and card["nonce"] != winners[0]:
                yield from self._refused("a create was told yes, and another one lay there")
                return
            able.creates = True if card and "no" in told else None
        if card and card["create"] == "refused":
            able.seen, able.creates = ", ".join(text for text in (card["why"], card["at"]) if text), False
            return
        for made in (False, True):
            if able.creates is None:
                yield {"kind": "create", "key": CARD, "body": _body(str(uuid.uuid4()))}
                if not self._yes:  # also of our own, sent twice: it was refused, here and now
                    able.creates = True
                elif made:
                    yield from self._refused("an object that was there could be created")

    def _refused(self, seen: str) -> Iterator[Action]:
        """Two have won: those who come later find it on the card."""
        now = datetime.fromtimestamp(self._wall // SECOND, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield {"kind": "put", "key": CARD, "body": _body(str(uuid.uuid4()), seen, now)}
        self._able.seen, self._able.creates = seen, False

    def _ask(self, given: Mapping[str, Any]) -> list[Action]:
        request, self._again = self._again, None
        if request is None:
            assert self._asks is not None
            try:
                asked = next(self._asks)
            except StopIteration:
                return self._resolved(given)
            except Unfitting:
                return self._refuse("unfit")
            if not asked:
                wait = self._wait() or PATIENCE  # who tries once does not sit out another's outage
                if 0 < wait <= given["mono"] - self._begun:
                    return self._refuse("unreachable", "unreachable")
                self._wake = given["mono"] + POLL
                return [{"kind": "wake", "at_ns": self._wake}]
            request = {"limit_ns": PATIENCE, "body": b"", **asked}
        self._request += 1
        self._sent = {**request, "request": self._request}
        return [self._sent]

    def _heard(self, given: Mapping[str, Any]) -> list[Action]:
        request, self._sent = self._sent, None
        assert request is not None
        self._said, self._wall = dict(given), given["wall"]
        if given["outcome"] != "unknown" or request["kind"] == "put":  # whatever became of that
            self._answered, self._retries = True, 0
            return self._ask(given)
        class_, now, wait = given.get("class", ""), given["mono"], self._wait()
        if request["kind"] in ("create", "race") and isinstance(self._cause(), NotImplementedError):
            self._able.creates = False
            self._asks = iter(())
            self._resolution = Resolution("lastwriter")
            self._end_trial()
            return self._ask(given) if self._want == "auto" else self._refuse("unfit")
        if class_ in PERMANENT:
            return self._refuse("unusable", class_)
        patience = wait if wait > 0 and (self._answered or wait < PATIENCE) else PATIENCE
        if now - self._begun >= patience and (not self._answered or wait != FOREVER):
            return self._refuse("limit" if self._answered else "unreachable", class_)
        self._retries = min(self._retries + 1, 5)
        self._wake = now + (SECOND // 10 << self._retries)
        self._again = request
        return [{"kind": "wake", "at_ns": self._wake}]

    def _wait(self) -> int:
        wait: int = self._first.get("wait_ns", 0)
        return wait

    def _resolved(self, given: Mapping[str, Any]) -> list[Action]:
        """The machine is told what we were told first, and what is left of the wait."""
        assert self._resolution is not None
        self.made = self._make(self._resolution)
        first = {**self._first, "mono": given["mono"], "wall": given["wall"]}
        if self._wait() > 0:
            first["wait_ns"] = max(0, self._wait() - (given["mono"] - self._begun))
        if not first.get("wait_ns"):
            first.pop("wait_ns", None)
        return self._through({**first, **self._known()})

    def _through(self, given: Mapping[str, Any]) -> list[Action]:
        assert self.made is not None
        actions = self.made.step(given)
        self.idle = self.made.idle
        return actions

    def _refuse(self, reason: str, class_: str = "") -> list[Action]:
        self._end_trial()
        self.idle = True
        return [{"kind": "refused", "reason": reason, **({"class": class_} if class_ else {})}]

    def _end_trial(self) -> None:
        if self._able.trying and self._able.trying[0] is self:
            self._able.trying.clear()


def _body(nonce: str, why: str = "", at: str = "") -> bytes:
    card = {"v": 1, "nonce": nonce, "create": "refused", "why": why, "at": at}
    return json.dumps(card if why else {"v": 1, "nonce": nonce, "create": "honoured"}, indent=2).encode()


def _card(body: bytes) -> dict[str, str]:
    """What a card says, in text that is safe to show; nothing if it is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # the latter: nested too deep
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("v"), int) or found["v"] < 1:
        return {}
    return {key: printable(str(found.get(key, "")))[:512] for key in ("nonce", "create", "why", "at")}

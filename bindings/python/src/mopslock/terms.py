"""What a caller may say about a lease, or ask of a semaphore."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Literal

from . import _texts
from ._duration import Duration, nanoseconds, optional
from ._units import ENDLESS
from .errors import BadArgument, WeightExceedsLimit

Protocol = Literal["auto", "strict", "bridge", "lastwriter"]
Renewal = Literal["checked", "blind"]
Expiry = Literal["wall", "observed"]


@dataclass(frozen=True)
class Terms:
    """What a caller may say about a lease; durations are seconds or timedelta, and None is the default.

    ``ttl``
        How long the lease lives without a renewal: 60 s under strict, 88 s under lastwriter; from 50 ms (5 s on stores
        with stamps of whole seconds) to 30 days. All processes on one name should use the same TTL: under lastwriter
        mops judges every holder by its own, and a holder renews for the shortest that it has seen on the name. 0, under
        strict only, is a lease without a TTL: it is held until it is released or broken, even if its holder is dead.
    ``margin``
        How much earlier than the TTL a holder gives up: a tenth of the TTL; it must be below half.
    ``acquire_margin``
        Of lastwriter: the least time between a claim and its verification, up to half the TTL. None and 0 mean twice
        what read and put took, and at least 50 ms after a wait or a lost race.
    ``fleet_expire``
        Of lastwriter: the TTL by which others on the name judge us, whatever our record says. It is 88 s, as in mops.
        So a longer TTL is renewed, and relied on, as one of 88 s. Say "none" if there is no mops on the name.
    ``renewal``
        Of lastwriter: ``checked`` reads before each write; ``blind`` does not, as mops.
    ``expiry``
        What frees another's lease. ``wall``: any clock that can be relied on (under lastwriter the wall clock and our
        own; under strict the boot's, the store's and our own). ``observed``: only what we saw on our own clock.
    ``protocol``
        ``strict``: at most one holder, and a fencing token; it needs a store that honours create-if-absent.
        ``lastwriter``: the protocol of mops, on any store. Use it from the start for names that mops shares. ``auto``:
        lastwriter if the name has a lock.json; otherwise strict if the store supports it; otherwise lastwriter. If it
        picks lastwriter, it logs a warning.
    ``session``
        Of strict: this process's session keeps the lease alive, one heartbeat for all leases of one TTL and margin.
        Such a lease does not notice that its versions were removed from the store.
    ``label``
        Of strict: shown to people, at most 128 printable bytes.
    """

    ttl: Duration | None = None
    margin: Duration | None = None
    acquire_margin: Duration | None = None
    fleet_expire: Duration | Literal["none"] | None = None
    renewal: Renewal = "checked"
    expiry: Expiry = "wall"
    protocol: Protocol = "auto"
    session: bool = False
    label: str = ""

    def _asked(self, name: str, protocol: str = "", **more: Any) -> dict[str, Any]:
        """The terms of a client's command, in the core's order of keys. Zeros mean the default."""
        self._check()
        return {
            "protocol": protocol or (self.protocol if self.protocol != "auto" else ""), "name": name,
            **self._durations(), "renewal": self.renewal if self.renewal != "checked" else "",
            "expiry": self.expiry if self.expiry != "wall" else "", "holder": "", "on_session": self.session,
            "epoch": 0, "label": self.label, **more,
        }  # fmt: skip

    def _check(self) -> None:
        """BadArgument: a term is invalid, or only strict's though lastwriter is asked for."""
        for what, words in (("renewal", Renewal), ("expiry", Expiry), ("protocol", Protocol)):
            if (word := getattr(self, what)) not in typing.get_args(words):
                raise BadArgument(f"mopslock: {what} {word!r}: must be {' or '.join(typing.get_args(words))}")
        _texts.encode("label", self.label)
        self._durations()
        if self.protocol in ("bridge", "lastwriter") and self.session:
            raise BadArgument("mopslock: session: only strict has sessions; ask for strict")
        if self.protocol in ("bridge", "lastwriter") and self.ttl_ns() == ENDLESS:
            raise BadArgument("mopslock: ttl 0: only strict has leases without a TTL; leave it out for the default")

    def ttl_ns(self) -> int:
        """The TTL in nanoseconds: 0 is the protocol's own, and ENDLESS is what only strict has."""
        return 0 if self.ttl is None else nanoseconds("ttl", self.ttl) or ENDLESS

    def _durations(self) -> dict[str, int]:
        acquire_margin, fleet_expire = self.acquire_margin, self.fleet_expire
        return {
            "ttl_ns": self.ttl_ns(),
            "margin_ns": optional("margin", self.margin),
            "acquire_margin_ns": 0 if acquire_margin is None else nanoseconds("acquire_margin", acquire_margin),
            "fleet_expire_ns": ENDLESS if fleet_expire == "none" else optional("fleet_expire", fleet_expire),
        }


_MOST_CAPACITY, _MOST_WIDTH, _MOST_WEIGHT = 1 << 20, 1 << 16, (1 << 32) - 1
_MOST_LIMIT = _MOST_CAPACITY * _MOST_WIDTH
_BOUNDS = (
    ("capacity", 1, _MOST_CAPACITY), ("width", 1, _MOST_WIDTH), ("weight", 1, _MOST_WEIGHT), ("spare", 0, _MOST_WEIGHT),
)  # fmt: skip


@dataclass(frozen=True)
class PermitRequest:
    """What a caller asks of a semaphore: its view, capacity permits in each of width buckets, and how many it wants.

    BadArgument lists every invalid field. WeightExceedsLimit: there would never be room.
    """

    capacity: int
    width: int = 1
    weight: int = 1
    spare: int = 0

    def __post_init__(self) -> None:
        wrong = [
            f"{what} {value!r}: from {least} to {most}"
            for what, least, most in _BOUNDS
            if not _is(value := getattr(self, what), least, most)
        ]
        if wrong:
            raise BadArgument("mopslock: " + "; ".join(wrong))
        if self.weight + self.spare > self.limit:
            raise WeightExceedsLimit(
                f"mopslock: weight {self.weight} and spare {self.spare}: more than the {self.limit} of capacity "
                f"{self.capacity} x width {self.width}, so there is never room"
            )

    @property
    def limit(self) -> int:
        """How many permits this view allows."""
        return self.capacity * self.width


def _is(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _limit_of(limit: int | None) -> int:
    """A limit as it is stored; 0 is none."""
    if limit is None:
        return 0
    if not _is(limit, 1, _MOST_LIMIT):
        raise BadArgument(f"mopslock: limit {limit!r}: from 1 to {_MOST_LIMIT}, or None for none")
    return limit

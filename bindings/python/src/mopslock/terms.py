"""What a caller may say about a lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._duration import Duration, nanoseconds, optional
from .errors import BadArgument

NONE = -1
"""As a TTL, until it is released or broken; as fleet_expire, nobody."""

DEFAULT_TTL = {"lastwriter": 88 * 1_000_000_000, "strict": 60 * 1_000_000_000}

Protocol = Literal["auto", "strict", "lastwriter"]
Renewal = Literal["checked", "blind"]
Expiry = Literal["wall", "observed"]


@dataclass(frozen=True)
class Terms:
    """What a caller may say about a lease; durations are seconds or timedelta, and None is the default.

    ``ttl``
        How long the lease lives without a renewal: 60 s under strict, 88 s under lastwriter; from 50 ms (5 s on stores
        with stamps of whole seconds) to 30 days. Everybody on one name should use one: under lastwriter mops judges
        all by its own, and a holder renews for the shortest that it has seen on the name. 0, under strict only, is a
        lease without one: it is held until it is released or broken, however long its holder is dead.
    ``margin``
        How much earlier than the TTL a holder gives up: a tenth of it; below half.
    ``acquire_margin``
        Of lastwriter: the least time between a claim and its verification, up to half the TTL; None, and 0, are twice
        what read and put took, and 50 ms at least for one who has waited or lost a race.
    ``fleet_expire``
        Of lastwriter: by which TTL others on the name judge us whatever our record says: 88 s, as mops does, so that
        a longer TTL is renewed, and relied on, as one of 88 s; "none" where there is no mops.
    ``renewal``
        Of lastwriter: ``checked`` reads before each write; ``blind`` does not, as mops.
    ``expiry``
        What frees another's lease: ``wall``, whatever clock can be relied on (under lastwriter the wall clock and our
        own, under strict the boot's, the store's, and our own); ``observed``, only what we saw on our own.
    ``protocol``
        ``strict``: at most one holder, and a fencing token; it needs a store that honours create-if-absent.
        ``lastwriter``: what mops speaks, on any store; for names that mops shares, from the start. ``auto``:
        lastwriter where the name has a lock.json; else strict where the store can; else lastwriter. Both times that
        it is lastwriter a warning is logged.
    ``session``
        Of strict: keep the lease by this process's session, one heartbeat for all leases of one TTL and margin.
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

    def config(self, protocol: str = "") -> dict[str, Any]:
        """The terms as the core's Config has them under a protocol; what is left out is its default."""
        self._check()
        protocol = protocol or self._likely()
        fields: dict[str, Any] = {
            "protocol": protocol,
            "ttl_ns": self.ttl_ns(protocol),
            "margin_ns": optional("margin", self.margin),
            "expiry": self.expiry if self.expiry != "wall" else "",
        }
        if protocol == "strict":
            return {**fields, "on_session": self.session, "label": self.label}
        return {
            **fields,
            "acquire_margin_ns": self.acquire_margin_ns(),
            "fleet_expire_ns": self.fleet_expire_ns(),
            "renewal": self.renewal if self.renewal != "checked" else "",
        }

    def _check(self) -> None:
        for what, word, words in (
            ("renewal", self.renewal, ("checked", "blind")),
            ("expiry", self.expiry, ("wall", "observed")),
            ("protocol", self.protocol, ("auto", "strict", "lastwriter")),
        ):
            if word not in words:
                raise BadArgument(f"mopslock: {what} {word!r}: must be {' or '.join(words)}")
        if not isinstance(self.label, str):
            raise BadArgument(f"mopslock: label {self.label!r}: must be text")
        self.ttl_ns("strict")
        optional("margin", self.margin)
        self.acquire_margin_ns()
        self.fleet_expire_ns()
        if self.protocol != "lastwriter":
            return
        if self.session:
            raise BadArgument("mopslock: session: only strict has sessions; ask for strict")
        self.ttl_ns("lastwriter")

    def _likely(self) -> str:
        """By which protocol the terms are checked before anybody knows which it will be."""
        only_strict = self.session or self.label or self.ttl_ns("strict") == NONE
        if self.protocol == "auto":
            return "strict" if only_strict else "lastwriter"
        return self.protocol

    def acquire_margin_ns(self) -> int:
        """0 is automatic."""
        return 0 if self.acquire_margin is None else nanoseconds("acquire_margin", self.acquire_margin)

    def fleet_expire_ns(self) -> int:
        """0 is the core's default, -1 that there is no mops here."""
        if self.fleet_expire == "none":
            return NONE
        return optional("fleet_expire", self.fleet_expire)

    def ttl_ns(self, protocol: str) -> int:
        """The TTL in nanoseconds, with its default; -1 is none."""
        if self.ttl is not None and protocol == "strict" and nanoseconds("ttl", self.ttl) == 0:
            return NONE
        if self.ttl is not None and protocol != "strict" and nanoseconds("ttl", self.ttl) == 0:
            raise BadArgument("mopslock: ttl 0: only strict has leases without a TTL; leave it out for the default")
        return optional("ttl", self.ttl) or DEFAULT_TTL[protocol]

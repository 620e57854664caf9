"""What a caller may say about a lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._duration import Duration, nanoseconds, optional
from ._units import DEFAULT_TTL, ENDLESS
from .errors import BadArgument

Protocol = Literal["auto", "strict", "lastwriter"]
Renewal = Literal["checked", "blind"]
Expiry = Literal["wall", "observed"]


ORDER = (
    "protocol", "name", "ttl_ns", "margin_ns", "acquire_margin_ns", "fleet_expire_ns", "renewal", "expiry", "holder",
    "role", "on_session", "owner", "epoch", "why", "now", "label", "memo_failures", "without_lease",
)  # fmt: skip
"""The core's order of the keys of a command's terms."""


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

    def config(self, protocol: str = "") -> dict[str, Any]:
        """The terms as fields of the core's Config under a protocol. A field that is left out has its default."""
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

    def asked(self, name: str, protocol: str = "", **more: Any) -> dict[str, Any]:
        """The terms of a client's command, in the core's order of keys. What is left out has its default."""
        self._check()
        fields = {
            "protocol": protocol or (self.protocol if self.protocol != "auto" else ""),
            "name": name,
            "ttl_ns": self.ttl_ns("strict") if self.ttl is not None else 0,
            "margin_ns": optional("margin", self.margin),
            "acquire_margin_ns": self.acquire_margin_ns(),
            "fleet_expire_ns": self.fleet_expire_ns(),
            "renewal": self.renewal if self.renewal != "checked" else "",
            "expiry": self.expiry if self.expiry != "wall" else "",
            "on_session": self.session,
            "label": self.label,
            **more,
        }
        return {key: fields[key] for key in ORDER if fields.get(key)}

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
        """The protocol to check the terms by before the real one is known."""
        only_strict = self.session or self.label or self.ttl_ns("strict") == ENDLESS
        if self.protocol == "auto":
            return "strict" if only_strict else "lastwriter"
        return self.protocol

    def acquire_margin_ns(self) -> int:
        """0 is automatic."""
        return 0 if self.acquire_margin is None else nanoseconds("acquire_margin", self.acquire_margin)

    def fleet_expire_ns(self) -> int:
        """0 is the core's default; -1 means that there is no mops here."""
        if self.fleet_expire == "none":
            return ENDLESS
        return optional("fleet_expire", self.fleet_expire)

    def ttl_ns(self, protocol: str) -> int:
        """The TTL in nanoseconds: for None the protocol's own, and for 0, which only strict has, ENDLESS."""
        ns = DEFAULT_TTL[protocol] if self.ttl is None else nanoseconds("ttl", self.ttl)
        if ns == 0 and protocol != "strict":
            raise BadArgument("mopslock: ttl 0: only strict has leases without a TTL; leave it out for the default")
        return ns or ENDLESS

"""What a caller may say about a lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._duration import Duration, nanoseconds, optional
from .errors import BadArgument

NOBODY = -1
DEFAULT_TTL = 88 * 1_000_000_000


@dataclass(frozen=True)
class Terms:
    """What a caller may say about a lease; durations are seconds or timedelta, and None is the default.

    Everybody on one name should use one TTL: mops judges all by its own, and a holder renews for the shortest
    that it has seen on the name.
    """

    ttl: Duration | None = None
    """How long the lease lives without a renewal: 88 s, from 50 ms (5 s on coarse stores) to 30 days."""
    margin: Duration | None = None
    """How much earlier than the TTL a holder gives up: a tenth; below half."""
    acquire_margin: Duration | None = None
    """The least time between a claim and its verification; None, and 0, are twice what read and put took."""
    fleet_expire: Duration | Literal["none"] | None = None
    """By which TTL others on the name judge us whatever our record says: 88 s, as mops does; "none" without mops."""
    renewal: Literal["checked", "blind"] = "checked"
    """``checked`` reads before each write; ``blind`` does not, as mops."""
    expiry: Literal["wall", "observed"] = "wall"
    """What frees another's lease: its time by the wall clock, or only what we saw on our own clock."""

    def config(self) -> dict[str, Any]:
        """The terms as the core's Config has them, in its order; what is left out is its default."""
        fields: dict[str, Any] = {}
        for key, value in (
            ("ttl_ns", optional("ttl", self.ttl)),
            ("margin_ns", optional("margin", self.margin)),
            (
                "acquire_margin_ns",
                0 if self.acquire_margin is None else nanoseconds("acquire_margin", self.acquire_margin),
            ),
            ("fleet_expire_ns", self.fleet_expire_ns()),
            ("renewal", self.renewal if self.renewal != "checked" else ""),
            ("expiry", self.expiry if self.expiry != "wall" else ""),
        ):
            if value:
                fields[key] = value
        for what, word, words in (
            ("renewal", self.renewal, ("checked", "blind")),
            ("expiry", self.expiry, ("wall", "observed")),
        ):
            if word not in words:
                raise BadArgument(f"mopslock: {what} {word!r}: must be {' or '.join(words)}")
        return fields

    def fleet_expire_ns(self) -> int:
        """0 is the core's default, -1 that there is no mops here."""
        if self.fleet_expire == "none":
            return NOBODY
        return optional("fleet_expire", self.fleet_expire)

    def ttl_ns(self) -> int:
        """The TTL in nanoseconds, with its default."""
        return optional("ttl", self.ttl) or DEFAULT_TTL

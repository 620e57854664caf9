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

    ``ttl``
        How long the lease lives without a renewal: 88 s, from 50 ms (5 s on stores with stamps of whole seconds) to
        30 days. Everybody on one name should use one: mops judges all by its own, and a holder renews for the
        shortest that it has seen on the name.
    ``margin``
        How much earlier than the TTL a holder gives up: a tenth of it; below half.
    ``acquire_margin``
        The least time between a claim and its verification, up to half the TTL; None, and 0, are twice what read and
        put took.
    ``fleet_expire``
        By which TTL others on the name judge us whatever our record says: 88 s, as mops does, so that a longer TTL
        is renewed, and relied on, as one of 88 s; "none" where there is no mops.
    ``renewal``
        ``checked`` reads before each write; ``blind`` does not, as mops.
    ``expiry``
        What frees another's lease: ``wall``, its time by the wall clock or unchanged for its TTL on ours;
        ``observed``, only the second.
    """

    ttl: Duration | None = None
    margin: Duration | None = None
    acquire_margin: Duration | None = None
    fleet_expire: Duration | Literal["none"] | None = None
    renewal: Literal["checked", "blind"] = "checked"
    expiry: Literal["wall", "observed"] = "wall"

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

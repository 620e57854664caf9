"""A lease as one read of its record shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ._units import SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def instant(ns: int) -> datetime | None:
    """An instant of nanoseconds since 1970 as a datetime in UTC; 0 is none."""
    if ns == 0:
        return None
    try:
        return EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError:
        return None


def nanoseconds_since(moment: datetime) -> int:
    """The opposite of instant."""
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


@dataclass(frozen=True)
class PermitHolder:
    """One permit of a semaphore, as its record says. ``host``, ``pid`` and ``label`` are somebody else's text.

    ``id`` is fresh for each permit, ``session`` what it hangs on, ``weight`` how many permits it takes; ``stale`` says
    that its session is dead, so that whoever needs the room frees it.
    """

    id: str
    session: str
    weight: int = 1
    host: str = ""
    pid: str = ""
    label: str = ""
    stale: bool = False

    def who(self) -> str:
        """It in text that is safe to show."""
        return _who(self.id, self.host, self.pid)


@dataclass(frozen=True)
class Status:
    """Who holds a lease, as its record says. The texts are somebody else's: escape them before you show them.

    ``name``, ``state``
        The state is ``vacant``, ``held``, ``stale`` (not renewed in time), ``released``, ``broken`` or ``corrupt``
        (unreadable, and so perhaps anybody's).
    ``holder``
        The tenure's id, fresh for each claim.
    ``host``, ``pid``, ``companion``
        Where the tenure's last write came from, of a broken one empty if that was not read, and whether it was a
        companion's.
    ``ttl``, ``age``, ``left``
        Seconds: the record's own TTL; since the last write, by our wall clock against the writer's; of the TTL,
        negative once it is over.
    ``acquired``, ``written``, ``released``
        Instants in UTC, by the writers' clocks, or None.
    ``protocol``
        ``strict`` or ``lastwriter``. What follows is strict's: ``left`` is then by a clock that holder and looker have
        in common, or 0; and a ``ttl`` of 0 is until it is released or broken.
    ``epoch``, ``token``
        The newest version, 0 where there is none, and the tenure's fencing token.
    ``companions``, ``label``, ``session``
        The ids of the tenure's other owners, what its holder calls it, and the session that it stands on.
    ``why``, ``by``
        Of a break: the reason that was given, and by whom, as pid@host.
    ``clock``
        By which clock ``left`` is: ``store``, or ``local``.
    ``capacity``, ``width``, ``permits``, ``limit``, ``holders``
        Of a semaphore, which is ``held`` or ``vacant``; ``capacity`` is 0 of all else. The view of whoever was let in
        last, what all permits weigh together, the limit that is kept in the store, or 0, and who holds them: whoever
        waits or was refused is told only of those whom 2 KiB have room for, or by a URL of none.
    """

    name: str
    state: str
    holder: str = ""
    host: str = ""
    pid: str = ""
    companion: bool = False
    ttl: float = 0.0
    age: float = 0.0
    left: float = 0.0
    acquired: datetime | None = None
    written: datetime | None = None
    released: datetime | None = None
    protocol: str = ""
    epoch: int = 0
    token: int = 0
    companions: tuple[str, ...] = ()
    label: str = ""
    session: str = ""
    why: str = ""
    by: str = ""
    clock: str = "local"
    capacity: int = 0
    width: int = 0
    permits: int = 0
    limit: int = 0
    holders: tuple[PermitHolder, ...] = ()

    @property
    def is_semaphore(self) -> bool:
        """The name is a semaphore's, of which there are permits."""
        return self.capacity != 0

    @property
    def held(self) -> bool:
        """Somebody holds it, as far as anybody can tell. An unreadable record may be anybody's."""
        return self.state in ("held", "corrupt")

    def who(self) -> str:
        """The last writer in text that is safe to show."""
        if not self.holder:
            return "an unreadable record" if self.state == "corrupt" else "another"
        text = _who(self.holder, self.host, self.pid)
        renewed = max(0.0, self.ttl - self.left)
        if self.left > 0 and renewed <= self.ttl / 2:
            text += f", renewed {renewed:.1f} s ago"
        elif self.left > 0:  # a holder that renews in time does so each third of the TTL
            text += f", which can expire in {self.left:.1f}s"
        return text


def _who(holder: str, host: str, pid: str) -> str:
    text = printable(holder)
    if host:
        text += " on " + printable(host)
        if pid:
            text += f" (pid {printable(pid)})"
    return text


def printable(text: str) -> str:
    """Somebody else's text as a terminal may have it: escaped and quoted if anything in it could be a command."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return json.dumps(text)


def of_sight(name: str, sight: Mapping[str, Any], wall: int, protocol: str = "lastwriter") -> Status:
    """The core's sight of a record, read when the wall clock was wall (nanoseconds)."""
    ttl, written, released = sight.get("ttl_ns", 0), sight.get("written_at_ns", 0), sight.get("released_at_ns", 0)
    age = left = 0
    if written:
        age = wall - written
        left = min(ttl, ttl - age)  # dated in the future, it still dies a TTL after we saw it
    if released:
        age, left = wall - released, 0
    epoch = sight.get("epoch", 0)
    if epoch:
        left = sight.get("left_ns", 0)
    companions = sight.get("companions", "")
    return Status(
        name=name,
        state=sight["state"],
        holder=sight.get("holder", ""),
        host=sight.get("host", ""),
        pid=sight.get("pid", ""),
        companion=sight.get("remote", False),
        ttl=max(0, ttl) / SECOND,
        age=age / SECOND,
        left=left / SECOND,
        acquired=instant(sight.get("acquired_at_ns", 0)),
        written=instant(written),
        released=instant(released),
        protocol="strict" if epoch else protocol,
        epoch=epoch,
        token=sight.get("token", 0),
        companions=tuple(companions.split(",")) if companions else (),
        label=sight.get("label", ""),
        session=sight.get("session", ""),
        why=sight.get("why", ""),
        by=sight.get("by", ""),
        clock="store" if sight.get("store_clock") else "local",
        capacity=sight.get("capacity", 0),
        width=sight.get("width", 0),
        permits=sight.get("held", 0),
        limit=sight.get("limit", 0),
        holders=tuple(_holders(sight.get("permits", ""), sight.get("dead", ""))),
    )


def _holders(permits: str, dead: str) -> Iterator[PermitHolder]:
    """Those of a record, as it has them between its brackets: what equals the one before is left out."""
    before: dict[str, Any] = {}
    gone = set(dead.split(","))
    for permit in json.loads(f"[{permits}]"):
        before = {**before, "weight": 1, **permit}
        texts = {key: before.get(key, "") for key in ("id", "session", "host", "pid", "label")}
        yield PermitHolder(**texts, weight=before["weight"], stale=texts["session"] in gone)

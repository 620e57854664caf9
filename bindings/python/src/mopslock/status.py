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
    """The datetime in UTC for nanoseconds since 1970; 0 is None."""
    if ns == 0:
        return None
    try:
        return EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError:
        return None


@dataclass(frozen=True)
class PermitHolder:
    """One permit of a semaphore, as its record says. Another process wrote ``host``, ``pid`` and ``label``.

    ``id`` is fresh for each permit. ``session`` is the session that it depends on. ``weight`` is how many permits it
    takes. ``stale`` says that its session is dead: the next process that needs the room frees it.
    """

    id: str
    session: str
    weight: int = 1
    host: str = ""
    pid: str = ""
    label: str = ""
    stale: bool = False

    def who(self) -> str:
        """The permit as text that is safe to show."""
        return _who(self.id, self.host, self.pid)


@dataclass(frozen=True)
class Status:
    """Which process holds a lease, as its record says. Others wrote the texts: escape them before you show them.

    ``name``, ``state``
        The state is ``vacant``, ``held``, ``stale`` (not renewed in time), ``released``, ``broken`` or ``corrupt``
        (unreadable, so any process may hold it).
    ``holder``
        The tenure's id, fresh for each claim.
    ``host``, ``pid``, ``companion``
        Where the tenure's last write came from, and whether it was a companion's. Of a broken lease ``host`` and
        ``pid`` are empty if they were not read.
    ``ttl``, ``age``, ``left``
        Seconds: the record's own TTL; the time since the last write, by our wall clock against the writer's; and what
        is left of the TTL, negative once it is over.
    ``acquired``, ``written``, ``released``
        Instants in UTC, by the writers' clocks, or None.
    ``protocol``
        ``strict`` or ``lastwriter``. The following fields are strict's. There ``left`` is by a clock that holder and
        reader have in common, or 0; and a ``ttl`` of 0 means until it is released or broken.
    ``epoch``, ``token``
        The newest version, 0 if there is none, and the tenure's fencing token.
    ``companions``, ``label``, ``session``
        The ids of the others that keep the tenure alive, the holder's name for it, and the session that keeps it alive.
    ``why``, ``by``
        Of a break: the reason that was given, and the process that broke it, as pid@host.
    ``clock``
        The clock of ``left``: ``store`` or ``local``.
    ``capacity``, ``width``, ``permits``, ``limit``, ``holders``
        Of a semaphore, which is ``held`` or ``vacant``; otherwise ``capacity`` is 0. They are the view of the caller
        that was let in last, the sum of all weights, the limit in the store or 0, and the permits. A caller that
        waits or was refused sees only as many holders as 2 KiB have room for; on the store of a URL it sees none.
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
        """The name is a semaphore's."""
        return self.capacity != 0

    @property
    def held(self) -> bool:
        """A process holds it, or may hold it: the record is unreadable."""
        return self.state in ("held", "corrupt")

    def who(self) -> str:
        """The last writer as text that is safe to show."""
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
    """Another process's text, made safe for a terminal: escaped and quoted if anything in it could be a command."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return json.dumps(text)


_ALIKE = (
    "state", "holder", "host", "pid", "epoch", "token", "label", "session", "why", "by", "capacity", "width", "limit",
)  # fmt: skip
"""Fields that the core calls as Status does."""


def of_sight(name: str, sight: Mapping[str, Any], wall: int, protocol: str = "lastwriter") -> Status:
    """What the core saw of a record, read when the wall clock was wall (nanoseconds)."""
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
        name, **{field: sight[field] for field in _ALIKE if field in sight}, companion=sight.get("remote", False),
        ttl=max(0, ttl) / SECOND, age=age / SECOND, left=left / SECOND, written=instant(written),
        acquired=instant(sight.get("acquired_at_ns", 0)), released=instant(released),
        protocol="strict" if epoch else protocol, clock="store" if sight.get("store_clock") else "local",
        companions=tuple(companions.split(",")) if companions else (), permits=sight.get("held", 0),
        holders=tuple(_holders(sight.get("permits", ""), sight.get("dead", ""))),
    )  # fmt: skip


def _holders(permits: str, dead: str) -> Iterator[PermitHolder]:
    """The permits of a record, in its compact form: a field that equals the one before is left out."""
    before: dict[str, Any] = {}
    gone = set(dead.split(","))
    for permit in json.loads(f"[{permits}]"):
        before = {**before, "weight": 1, **permit}
        texts = {key: before.get(key, "") for key in ("id", "session", "host", "pid", "label")}
        yield PermitHolder(**texts, weight=before["weight"], stale=texts["session"] in gone)

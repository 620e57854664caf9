"""What is said of a lease that is held: its text for other processes, its log lines, its errors."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from . import _texts
from ._log import log
from ._units import ENDLESS, SECOND
from .errors import BadArgument, MopslockError
from .status import Status

E = TypeVar("E", bound=MopslockError)

Ended = Callable[[MopslockError], object]
OnWaiting = Callable[[Status], None]


@dataclass(frozen=True)
class Handle:
    """A lease as it is handed to another process: everything that a companion needs."""

    name: str
    store: str
    holder: str
    ttl_ns: int
    acquired: datetime
    epoch: int = 0
    token: int = 0
    protocol: Any = "lastwriter"  # as Terms has it

    def text(self) -> str:
        """One line of JSON, as MOPSLOCK_LEASE carries it between processes of any language."""
        ns = max(0, self.ttl_ns)
        ttl = ns // SECOND if ns % SECOND == 0 else ns / SECOND
        fields: dict[str, Any] = {
            "name": self.name, "store": self.store, "protocol": self.protocol, "holder": self.holder,
            "epoch": self.epoch, "token": self.token, "ttl_s": ttl,
            "first_acquired_at": self.acquired.isoformat(timespec="microseconds"),
        }  # fmt: skip
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Reads what text or mopslock-host wrote. It ignores unknown fields."""
        try:
            fields: Any = json.loads(text)
            if not isinstance(fields, dict):
                raise TypeError("not a JSON object")
            bad = [
                key for key in ("name", "store", "holder") if not isinstance(fields.get(key), str) or not fields[key]
            ]
            strict = fields.get("protocol") == "strict"
            if (protocol := fields.get("protocol")) not in ("strict", "bridge", "lastwriter"):
                bad.append("protocol")
            ttl, acquired = _seconds(fields.get("ttl_s")), _time(fields.get("first_acquired_at"))
            bad += ["ttl_s"] * (ttl is None or (ttl == 0 and not strict)) + ["first_acquired_at"] * (acquired is None)
            epoch, token = fields.get("epoch") or 0, fields.get("token") or 0
            least = 0 if protocol == "lastwriter" else 1
            bad += [key for key, n in (("epoch", epoch), ("token", token)) if type(n) is not int or n < least]
            if bad or ttl is None or acquired is None:
                raise TypeError("missing or cannot be so: " + ", ".join(bad))
        except (TypeError, ValueError, RecursionError) as error:
            raise BadArgument(f"mopslock: lease text: {error}") from error
        return cls(
            fields["name"], fields["store"], fields["holder"], round(ttl * SECOND) or ENDLESS, acquired, epoch, token,
            fields["protocol"],
        )  # fmt: skip


def _seconds(ttl: object) -> float | None:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not (ttl == 0 or 0.5 / SECOND < ttl <= 30 * 86400):
        return None
    return ttl


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    text = re.sub(r"\.(\d{1,6})\d*", lambda found: "." + found[1].ljust(6, "0"), text)  # Python 3.10 reads six
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def logged(what: str, name: str, waits: OnWaiting | None) -> OnWaiting | None:
    """The callback of a caller that may wait. It also logs the first status that it gets."""
    if not log.is_enabled(logging.INFO):
        return waits
    begun = False

    def tell(status: Status) -> None:
        nonlocal begun
        if not begun:
            begun = True
            log.info("%s", _texts.waiting(what, name, status))
        if waits is not None:
            waits(status)

    return tell


def again(error: E) -> E:
    """The same error for another caller: a traceback belongs to one caller."""
    copy = error.__class__.__new__(error.__class__)
    copy.__dict__.update(error.__dict__)
    copy.args = error.args
    return copy

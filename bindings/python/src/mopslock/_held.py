"""What a process holds, whichever host does the I/O: a lease, a companion of one, a permit, or work under a lease."""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import _texts
from ._notify import log
from ._units import SECOND
from .errors import BadArgument, MopslockError
from .status import Status, instant
from .terms import NONE

Ended = Callable[[MopslockError], None]
OnWaiting = Callable[[Status], None]


@dataclass(frozen=True)
class Handle:
    """A lease as it is handed to another process: all that a companion needs."""

    name: str
    store: str
    holder: str
    ttl_ns: int
    acquired: datetime
    epoch: int = 0
    token: int = 0
    protocol: str = "lastwriter"

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
        """Reads what text wrote, or mopslock-host and libmopslock. Fields that it does not know are left alone."""
        try:
            fields: Any = json.loads(text)
            if not isinstance(fields, dict):
                raise TypeError("not a JSON object")
            bad = [
                key for key in ("name", "store", "holder") if not isinstance(fields.get(key), str) or not fields[key]
            ]
            strict = fields.get("protocol") == "strict"
            if fields.get("protocol") not in ("strict", "lastwriter"):
                bad.append("protocol")
            ttl, acquired = _seconds(fields.get("ttl_s")), _time(fields.get("first_acquired_at"))
            bad += ["ttl_s"] * (ttl is None or (ttl == 0 and not strict)) + ["first_acquired_at"] * (acquired is None)
            epoch, token = fields.get("epoch") or 0, fields.get("token") or 0
            bad += [key for key, n in (("epoch", epoch), ("token", token)) if type(n) is not int or n < int(strict)]
            if bad or ttl is None or acquired is None:
                raise TypeError("missing or cannot be so: " + ", ".join(bad))
        except (TypeError, ValueError, RecursionError) as error:
            raise BadArgument(f"mopslock: lease text: {error}") from error
        return cls(
            fields["name"], fields["store"], fields["holder"], round(ttl * SECOND) or NONE, acquired, epoch, token,
            fields["protocol"],
        )  # fmt: skip


def _seconds(ttl: object) -> float | None:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not (ttl == 0 or 0.5 / SECOND < ttl <= 30 * 86400):
        return None
    return ttl


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    text = re.sub(r"\.(\d{1,6})\d*", lambda found: "." + found[1].ljust(6, "0"), text)  # all that Python 3.10 reads
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


class HeldThing(ABC):
    """A claim that is held, or a companion. Its methods may be called from any thread; none waits for I/O."""

    __slots__ = ()

    what = "lease"
    """What people call it."""

    name: str
    store: str
    holder: str
    ttl_ns: int
    acquired_ns: int
    protocol: str
    token: int
    session: str

    @abstractmethod
    def version(self) -> int:
        """The newest epoch of the tenure that is known; 0 under lastwriter."""

    @abstractmethod
    def left_ns(self) -> int:
        """How long it may be relied on without another renewal; 0 or less once failure is not None."""

    @abstractmethod
    def failure(self) -> MopslockError | None:
        """Why it may not be relied on, or None. Of a lease past its deadline it is never None."""

    @abstractmethod
    def when_ended(self, tell: Ended) -> None:
        """Has tell called once with the failure, as soon as there is one: on any thread, so it must be quick."""

    @abstractmethod
    def finish(self) -> Future[None]:
        """Releases a lease, leaves a companion. The future ends when the store has said so, or with the loss."""

    def handle(self) -> Handle:
        """What another process needs to keep it alive."""
        acquired = instant(self.acquired_ns)
        assert acquired is not None
        return Handle(
            self.name, self.store, self.holder, self.ttl_ns, acquired, self.version(), self.token, self.protocol
        )


class _Settling:
    """A lock for all, since it is held so shortly; a forked child has its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.futures: set[int] = set()  # that are being settled


_settling = _Settling()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_settling.__init__)  # type: ignore[misc]


SETTLED: Future[Any] = Future()
"""In the place of what whoever asked has got. All claims share it, so its lock is never to be taken: a signal that
raises while it is held would leave it taken for good, and everybody's leases would expire."""
SETTLED.set_result(None)


def settle(future: Future[Any], outcome: Any) -> bool:
    """Gives a future its result or exception, and reports whether anybody still waits for it."""
    if future is SETTLED:
        return False
    with _settling.lock:  # two may want to, and the first one's word counts
        if id(future) in _settling.futures:
            return False
        _settling.futures.add(id(future))
    try:  # not under that lock: whoever is interrupted as he waits can leave a future's own lock taken for ever
        if future.done() or not future.set_running_or_notify_cancel():
            return False
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return True
    finally:
        _settling.futures.discard(id(future))


def noticed(future: Future[Any]) -> queue.SimpleQueue[Any]:
    """What to wait on for a future that others settle.

    Its own result() takes a lock in Python, between two lines of which an interrupt can come; then it is never let
    go of, and who settles the future, a thread on which all leases depend, would wait for it. A SimpleQueue is C.
    """
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    future.add_done_callback(done.put)
    return done


def logged(what: str, name: str, waits: OnWaiting | None) -> OnWaiting | None:
    """The callback of somebody who may wait, which logs the first that it hears."""
    if not log.isEnabledFor(logging.INFO):
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


def give_up(future: Future[HeldThing]) -> None:
    """Nobody will take what is acquired: it is cancelled, or released."""
    if not future.cancel():
        future.add_done_callback(_give_back)


def _give_back(future: Future[HeldThing]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().finish()

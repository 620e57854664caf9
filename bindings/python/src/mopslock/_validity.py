"""What a process believes of a tenure on a store that Python talks to: until when, and why not."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _texts
from ._held import Ended, HeldThing
from ._notify import tell_each
from ._units import SECOND
from ._verbs import NEVER
from .errors import MopslockError
from .status import Status

if TYPE_CHECKING:
    from ._services import Session, SessionInstance
    from ._stepped import SteppedHost

log = logging.getLogger("mopslock")

VALIDITY_SLOTS = (
    "_validity", "_calls", "_epoch", "_lock", "_pid", "acquired_ns", "frozen", "guarded", "holder", "name",
    "protocol", "session", "session_instance", "store", "title", "token", "ttl_ns",
)  # fmt: skip
"""The slots of a Validity. Its classes declare them, since a machine has slots as well."""


class Validity(HeldThing):
    """Something that a SteppedHost holds, as anybody may ask it. What a machine says of it is told by one thread."""

    if not TYPE_CHECKING:  # which cannot see that its classes have them
        __slots__ = ()

    host: SteppedHost
    title: str
    guarded: bool
    session_instance: SessionInstance | None
    frozen: int
    _validity: tuple[int, MopslockError | None]
    _calls: list[Ended] | None
    _epoch: int
    _lock: threading.RLock
    _pid: int

    def begin_validity(self, host: SteppedHost, name: str, title: str, *, guarded: bool) -> None:
        """Begins with nothing that could be relied on."""
        self.store, self.name = host.url, name
        self.title = title  # what people are told of
        self.guarded = guarded  # a deadline ends it; a companion's is only bad news
        self.acquired_ns = self.token = self._epoch = 0
        self.session = ""
        self.session_instance = None  # by which it is believed, too
        self.frozen = 0  # when not 0, it is believed until then, and no longer: it may have been broken
        self._pid = os.getpid()
        self._validity = (0, None)  # deadline and failure, read together
        self._lock = threading.RLock()
        self._calls = []

    # What anybody may call.

    def validity(self) -> tuple[int, MopslockError | None]:
        """Until when it may be relied on, and why not; by its session too, whose renewals cost its leases nothing."""
        deadline, failure = self._validity
        session_instance, frozen = self.session_instance, self.frozen
        if session_instance is not None:
            deadline = frozen or max(deadline, session_instance.until)
        return deadline, failure

    def version(self) -> int:
        """As its machine said last."""
        return self._epoch

    def left_ns(self) -> int:
        """From the deadline, which renewals move."""
        deadline, failure = self.validity()
        left = deadline - self.host.clock.mono()
        return left if failure is None and self._pid == os.getpid() else min(left, 0)

    def failure(self) -> MopslockError | None:
        """Looks at the clock itself, so that an event loop that is late changes nothing."""
        if self._pid != os.getpid():
            return _texts.forked(self.title, self.what)
        while True:
            deadline, failure = self.validity()
            if failure is not None or not self.guarded or self.host.clock.mono() < deadline:
                return failure
            if not self._looked():  # the event loop may be about to tell of a renewal that came in time
                return self._late()

    def _late(self) -> MopslockError:
        """The event loop does not answer, and the deadline is behind us: it is lost, whatever it says later."""
        self.end(_texts.lost(self.title, "expired", None, self.what))
        self._overdue()
        failure = self._validity[1]
        assert failure is not None
        return failure

    def _looked(self) -> bool:
        """Has its machine look at the clock; False if the event loop did not come to it."""
        raise NotImplementedError

    def _overdue(self) -> None:
        """It was given up although its machine has not said so."""
        raise NotImplementedError

    def when_ended(self, tell: Ended) -> None:
        """On the thread that ends it."""
        if self._pid != os.getpid():
            raise _texts.forked(self.title, self.what)
        with self._lock:
            if self._calls is not None:
                self._calls.append(tell)
                return
        failure = self._validity[1]
        assert failure is not None
        tell(failure)

    def invalidate(self) -> None:
        """It is not relied on any more, by our own will; one that is past its deadline is lost instead."""
        with self._lock:
            deadline, failure = self.validity()
            if failure is not None or (self.guarded and self.host.clock.mono() >= deadline):
                return
            self._validity = (deadline, _texts.ended(self.title, self.what))
        self._tell_ended()

    # What its machine's one thread calls.

    def stands_on(self, session: str, standing: Session | None) -> None:
        """The session of which the machine says that the lease stands on it, or ""."""
        self.session = session
        self.session_instance = standing.instance_of(session) if standing is not None else None

    def renewed(self, deadline: int) -> None:
        """It may be relied on until then."""
        with self._lock:
            self._validity = (deadline, self._validity[1])

    def adopted(self, epoch: int) -> None:
        """The tenure has a newer version."""
        self._epoch = epoch

    def freeze(self) -> None:
        """Its session was told that it was broken, and later renewals of that say nothing of this one."""
        if self.session_instance is not None and not self.frozen:
            self.frozen = self.validity()[0]

    def thaw(self, wake: int) -> None:
        """Its machine has found out, or wants to be woken before."""
        if self.frozen and (wake == NEVER or wake > self.frozen):
            self.frozen = 0

    def end(self, failure: MopslockError) -> None:
        """The first reason stands."""
        with self._lock:
            if self._validity[1] is not None:
                return
            self._validity = (self._validity[0], failure)
        self._tell_ended()

    def _tell_ended(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, None
            failure = self._validity[1]
        assert failure is not None
        tell_each(calls or (), failure)


def warn(title: str, ttl_ns: int, action: Mapping[str, Any], seen: Status | None) -> None:
    """What the core has to say of a lease that is none the worse for it."""
    if action["reason"] == "ttl_differs":
        log.warning(
            "mopslock: lease %s: the record has a TTL of %g s, ours is %g s; everybody on a name should use one",
            _texts.quoted(title), action["sight"].get("ttl_ns", 0) / SECOND, ttl_ns / SECOND,
        )  # fmt: skip
    else:
        log.warning("%s", _texts.warned(title, action, seen))

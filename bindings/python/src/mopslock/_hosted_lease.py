"""A lease, a companion or a permit that the library keeps."""

from __future__ import annotations

import os
import threading
import time

from . import _texts
from ._abi import Code
from ._future import Future
from ._held import Ended, Handle, HeldThing
from ._hosted_calls import HostedCalls
from ._log import log
from ._notify import tell_each
from .errors import LeaseBroken, LeaseEnded, LeaseLost, LeaseReleased, LeaseTaken, MopslockError
from .status import nanoseconds_since
from .terms import Terms

RECORD_PATIENCE = 1.0  # seconds


def say_fallback(terms: Terms, name: str, protocol: str) -> None:
    """The library has no log: it only says which protocol keeps the lease."""
    if terms.protocol == "auto" and protocol != "strict":
        why = "the name has a lock.json, or the store does not honour create-if-absent"
        log.warning("%s", _texts.fell_back(name, why))


class HostedLease(HeldThing):
    """A lease or a companion that the library keeps."""

    __slots__ = (
        "_calls", "_epoch", "_failure", "_handle", "_lock", "_pid", "acquired_ns", "guarded", "holder", "host",
        "name", "over", "protocol", "session", "store", "token", "ttl_ns",
    )  # fmt: skip

    def __init__(self, host: HostedCalls, handle: int, lease: Handle, *, guarded: bool) -> None:
        self.host, self._handle, self.guarded = host, handle, guarded
        self.store, self.name, self.ttl_ns, self.holder = host.url, lease.name, lease.ttl_ns, lease.holder
        self.acquired_ns = nanoseconds_since(lease.acquired)
        self.protocol, self.token, self._epoch = lease.protocol, lease.token, lease.epoch
        self.session = host.api.text_of(host.api.session, handle) if lease.protocol == "strict" else ""
        self._pid = os.getpid()
        self._failure: MopslockError | None = None
        self._lock = threading.RLock()
        self._calls: list[Ended] | None = []
        self.over: Future[None] | None = None

    def version(self) -> int:
        """Asks the library, as long as the lease is held."""
        if self.protocol == "strict" and self._failure is None and self._pid == os.getpid():
            self._epoch = self.host.api.number_of(self.host.api.epoch, self._handle) or self._epoch
        return self._epoch

    def left_ns(self) -> int:
        """Asks the library, which looks at the clock."""
        if self._failure is not None or self._pid != os.getpid():
            return 0
        return self.host.api.left_of(self._handle)

    def failure(self) -> MopslockError | None:
        """Asks the library, which looks at the clock."""
        if self._pid != os.getpid():
            return _texts.forked(self.name, self.what)
        if self._failure is not None:
            return self._failure
        if self.guarded and self.left_ns() > 0:  # a quick call, which keeps the GIL
            return self._failure
        code = self.host.api.check(self._handle)
        if code == Code.OK:
            return self._failure
        error = self.host.api.error(code, self.name)
        if isinstance(error, (LeaseTaken, LeaseBroken, LeaseReleased)):
            self._await_record()
        return self.end(_texts.ended(self.name, self.what) if isinstance(error, LeaseEnded) else error)

    def _await_record(self) -> None:
        """Waits a moment for the event of this loss: only the event has the record that decided it. The caller does
        nothing meanwhile."""
        end = time.monotonic() + RECORD_PATIENCE
        while self._failure is None and time.monotonic() < end:
            time.sleep(0.001)

    def end(self, failure: MopslockError) -> MopslockError:
        """It can no longer be relied on. The first reason counts."""
        with self._lock:
            if self._failure is not None:
                return self._failure
            self._failure = failure
            calls, self._calls = self._calls, None
        if isinstance(failure, LeaseLost):
            log.warning("%s", failure)
        tell_each(calls or (), failure)
        return failure

    def is_given_back(self) -> bool:
        """What is lost is given back by heard."""
        return self.over is not None or isinstance(self._failure, LeaseLost)

    def when_ended(self, tell: Ended) -> None:
        """On the thread that ends it."""
        if self._pid != os.getpid():
            raise _texts.forked(self.name, self.what)
        with self._lock:
            if self._calls is not None:
                self._calls.append(tell)
                return
        failure = self._failure
        assert failure is not None
        tell(failure)

    def finish(self) -> Future[None]:
        """Its validity ends before anything is written that lets others in."""
        lost = self.failure()
        with self._lock:
            if self.over is not None:
                return self.over
            over: Future[None] = Future()
            if lost is not None and not isinstance(lost, LeaseEnded):
                over.settle(lost)
                self.host.drop(self, self._handle)
            else:
                self.end(_texts.ended(self.name, self.what))
                self.host.finish(self, self._handle, over)
            self.over = over  # last: a call that was interrupted in here may begin again
        return over

    def heard(self, failure: MopslockError) -> None:
        """A lost lease gives its handle back."""
        self.end(failure)
        if isinstance(failure, LeaseLost):
            self.host.drop(self, self._handle)

    def closed(self, *, in_time: bool) -> None:
        """The host was closed, which has also ended this."""
        failure = self.end(_texts.ended(self.name, self.what) if in_time else _texts.closed())
        with self._lock:
            over = self.over = self.over or Future()
        over.settle(None if isinstance(failure, LeaseEnded) else failure)


class HostedPermit(HostedLease):
    """A permit of a semaphore, which the library keeps as it keeps a lease."""

    __slots__ = ("total",)

    total: int
    what = "permit of"

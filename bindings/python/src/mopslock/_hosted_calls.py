"""The calls that are begun on one host of the library, and the thread that takes their events.

Nothing here waits inside the library with a caller's thread. So a blocked caller can be interrupted, and thousands of
leases and of waiting acquires cost no thread each.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from . import _abi, _texts
from ._abi import Code, EventKind
from ._future import Future, wait
from ._held import OnWaiting
from ._log import log
from ._notify import notifier
from ._units import FOREVER, SECOND
from ._workers import Workers
from .errors import MopslockError, NotReleased

T = TypeVar("T")

OPEN_TIMEOUT = 60 * SECOND
"""Some clouds look for credentials on the network."""


class Listener(Protocol):
    """What a handle of the library stands for. It hears of its end."""

    name: str
    guarded: bool

    def heard(self, failure: MopslockError) -> None:
        """The library says that it can no longer be relied on."""

    def closed(self, *, in_time: bool) -> None:
        """The host was closed, which has also ended this."""


class HostedCalls:
    """One host of the library."""

    def __init__(self, url: str, api: _abi.Api) -> None:
        self.url, self.api = url, api
        self._lock = threading.RLock()
        self._workers = Workers()
        self._calls: dict[int, Callable[[_abi.Event], object]] = {}
        self._waits: dict[int, tuple[str, OnWaiting]] = {}
        self._listeners: dict[int, Listener] = {}
        self._open: set[Future[Any]] = set()
        self.litter: deque[int] = deque()
        """Handles of invocations that finalizers have left here. A finalizer may take no lock, so it gives nothing
        back."""
        self.handle = self.aside(lambda: api.open_store(url, OPEN_TIMEOUT))
        threading.Thread(target=self._listen, name="mopslock-events", daemon=True).start()

    def orphaned(self, handle: int) -> None:
        """A call gave this handle, and its caller was interrupted before it knew of the call."""
        raise NotImplementedError

    # Calls.

    def call(
        self, begin: Callable[[Any], int], ended: Callable[[_abi.Event], object], future: Future[Any] | None = None,
        waits: tuple[str, OnWaiting] | None = None,
    ) -> int:  # fmt: skip
        """Begins a call, and returns its code. ended gets its event. A close of the host waits for the future."""
        call = ctypes.c_uint64()
        with self._lock:  # the event must not come before its call is known
            code = begin(ctypes.byref(call))
            if code == Code.OK:
                self._calls[call.value] = ended
                if waits is not None:
                    self._waits[call.value] = waits
                if future is not None:
                    self._open.add(future)
        return code

    def done(self, future: Future[Any], cancel: int = 0) -> None:
        """A close of the host no longer waits for the future. If it was given up, its call is cancelled."""
        with self._lock:
            self._open.discard(future)
        if future.cancelled():
            self.api.cancel(cancel)

    def aside(self, do: Callable[[], T]) -> T:
        """Runs what blocks in the library on a worker, and waits in Python, so that the caller can be interrupted."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.settle(do())
            except BaseException as error:
                future.settle(error)

        self._workers.submit(run)
        return future.result()

    def guard(self, ask: Callable[[_abi.Api, int], T]) -> T:
        """Runs ask(api, handle) on a worker."""
        return self.aside(lambda: ask(self.api, self.handle))

    def sweep(self) -> None:
        """Gives back the handles in litter."""
        while self.litter:
            handle = self.litter.popleft()
            self.call(lambda call: self.api.begin_invocation_close(handle, FOREVER, call), lambda _: None)  # noqa: B023

    # What is held.

    def keep(self, held: Listener, handle: int) -> None:
        """From now on it hears of its end."""
        with self._lock:
            self._listeners[handle] = held

    def forget(self, handle: int) -> None:
        """It hears nothing more."""
        with self._lock:
            self._listeners.pop(handle, None)

    def finish(self, held: Listener, handle: int, over: Future[None]) -> None:
        """Begins the release of a lease, or the leave of a companion."""

        def ended(event: _abi.Event) -> None:
            self.forget(handle)
            good = event.code in (Code.OK, Code.EENDED)
            over.settle(None if good else self.api.error_of(event, held.name))

        over.add_done_callback(self.done)
        code = self.begin_finish(handle, ended, over, guarded=held.guarded)
        if code != Code.OK:  # also where an interrupt hid from us that it had begun
            self.forget(handle)
            over.settle(_texts.closed() if code == Code.EHANDLE else self.api.error(code, held.name))

    def drop(self, held: Listener, handle: int) -> None:
        """Gives back the handle of what is lost, once."""
        if handle in self._listeners:
            self.begin_finish(handle, lambda event: None, None, guarded=held.guarded)
            self.forget(handle)

    def begin_finish(
        self, handle: int, ended: Callable[[_abi.Event], object], over: Future[None] | None, *, guarded: bool
    ) -> int:
        """As finish; the code."""
        begin = self.api.begin_release if guarded else self.api.begin_leave
        return self.call(lambda call: begin(handle, FOREVER, call), ended, over)

    # Events.

    def _listen(self) -> None:
        """Takes the events of all calls and of everything held, until the host is closed and has no more."""
        event, seen = self.api.event()
        while True:
            code = self.api.next(self.handle, FOREVER, ctypes.byref(event))
            if code != Code.OK:
                return
            self.sweep()
            try:
                self._heard(event, seen)
            except Exception:
                log.exception("mopslock: an event could not be told; this is an error in mopslock")

    def _heard(self, event: _abi.Event, seen: _abi.RawStatus) -> None:
        if event.kind == EventKind.WAITING:
            with self._lock:
                found = self._waits.get(event.call)
            if found is not None and seen.state:
                name, tell = found
                status = self.api.status_of(name, seen)
                notifier.call(lambda: tell(status))
        elif event.kind == EventKind.CALL:
            with self._lock:
                ended = self._calls.pop(event.call, None)
                self._waits.pop(event.call, None)
            if ended is not None:
                ended(event)
            elif event.member:
                self.orphaned(event.member)
        elif event.kind == EventKind.ENDED:
            with self._lock:
                held = self._listeners.get(event.member)
            if held is not None:
                held.heard(self.api.error_of(event, held.name))

    def close(self, timeout_ns: int) -> None:
        """The library releases what it holds, all at once."""
        code = self.api.close(self.handle, timeout_ns)
        with self._lock:
            listeners, calls = list(self._listeners.values()), list(self._open)
        for held in listeners:
            held.closed(in_time=code == Code.OK)
        wait(calls, 1.0)  # their events are on the way
        if code == Code.ETIMEOUT:
            raise NotReleased("mopslock: something was not released in time, and expires by itself")

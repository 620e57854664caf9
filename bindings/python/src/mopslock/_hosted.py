"""A host inside the library: Go talks to the store and keeps what is held, Python only asks and is told.

Nothing here waits inside the library with a caller's thread: calls are begun, and one thread a host takes the events
of all of them. So a blocked caller can be interrupted, thousands of leases and of waiting acquires cost no thread
each, and renewals need neither the GIL nor any thread of Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from datetime import datetime, timezone
from typing import Any, TypeVar

from . import _abi, _library, _texts
from ._abi import Code, EventKind
from ._call import Call, StepFuture, WorkRequest
from ._duration import FOREVER, SECOND
from ._event_loop import Workers
from ._held import Break, Handle, HeldThing, Host, OnWaiting, noticed, settle
from ._hosted_invocation import HostedInvocation, HostedWork
from ._hosted_lease import HostedLease, HostedPermit, say_fallback
from ._notify import log, notifier
from ._permit_request import PermitRequest
from .errors import Full, Held, LeaseLost, MopslockError, NotReleased, Unreachable, WaitOver
from .status import Status
from .terms import Terms

T = TypeVar("T")

OPEN_TIMEOUT = 60 * SECOND
"""Some clouds look for credentials on the network."""


MOST = (1 << 32) - 1


def _as_it_is(error: Exception) -> Exception:
    return error


class HostedHost(Host):
    """What this process holds on the store at one URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.api = _abi.api(_library.full())
        self._lock = threading.RLock()
        self._workers = Workers()
        self._calls: dict[int, Callable[[_abi.Event], None]] = {}
        self._waits: dict[int, tuple[str, OnWaiting]] = {}
        self._held_things: dict[int, HostedLease] = {}
        self._open: set[Future[Any]] = set()
        self.litter: deque[int] = deque()
        self._handle = self._aside(lambda: self.api.open_store(url, OPEN_TIMEOUT))
        threading.Thread(target=self._listen, name="mopslock-events", daemon=True).start()

    def acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> HeldThing:
        """The wait is Python's, so that a signal's handler runs in it."""
        into = Future() if into is None else into
        done = noticed(into)
        self.begin_acquire(name, terms, wait_ns, waits, into)
        done.get()
        return into.result(0)

    def begin_acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> Future[HeldThing]:
        """wait_ns is Python's: 0 tries once, FOREVER is until it is held. The library counts the other way round."""
        options, encoded = self.api.options(terms), _texts.encode("name", name)
        options.wait_ns = {0: _abi.TRY, FOREVER: 0}.get(wait_ns, wait_ns)

        def made(event: _abi.Event) -> HostedLease:
            held = self._lease(event.member)
            say_fallback(terms, held.name, held.protocol)
            return held

        return self._begin(
            lambda call: self.api.begin_acquire(self._handle, encoded, ctypes.byref(options), call),
            options, name, into or Future(), waits=waits, lease=None, made=made,
        )  # fmt: skip

    def begin_permit(
        self, name: str, terms: Terms, request: PermitRequest, wait_ns: int, waits: OnWaiting | None, *,
        into: Future[HeldThing] | None = None,
    ) -> Future[HeldThing]:  # fmt: skip
        """As begin_acquire; the library knows of no text for a permit."""
        options, encoded = self.api.options(terms), _texts.encode("name", name)
        options.wait_ns = {0: _abi.TRY, FOREVER: 0}.get(wait_ns, wait_ns)
        options.capacity, options.width = request.capacity, request.width
        options.weight, options.spare = min(request.weight, MOST), min(request.spare, MOST)
        ttl_ns = terms.ttl_ns("strict")

        def made(event: _abi.Event) -> HostedPermit:
            api, handle = self.api, event.member
            token = api.number_of(api.token, handle) or 0
            now = datetime.now(timezone.utc)
            lease = Handle(name, self.url, api.text_of(api.holder, handle), ttl_ns, now, token, token, "strict")
            permit = HostedPermit(self, handle, lease, guarded=True)
            permit.total = event.held
            return permit

        def failed(error: Exception) -> Exception:
            return error.for_request(request.limit, request.weight) if isinstance(error, Full) else error

        return self._begin(
            lambda call: self.api.begin_permit(self._handle, encoded, ctypes.byref(options), call),
            options, name, into or Future(), waits=waits, lease=None, made=made, failed=failed,
        )  # fmt: skip

    def begin_accompany(self, handle: Handle, terms: Terms, into: Future[HeldThing] | None = None) -> Future[HeldThing]:
        """The text's TTL wins over the terms'."""
        options, text = self.api.options(terms), _texts.encode("lease text", handle.text())
        return self._begin(
            lambda call: self.api.begin_accompany(self._handle, text, ctypes.byref(options), call),
            options, handle.name, into or Future(), waits=None, lease=handle,
            made=lambda event: HostedLease(self, event.member, handle, guarded=False),
        )  # fmt: skip

    def _begin(
        self, begin: Callable[[Any], int], options: Any, name: str, future: Future[HeldThing], *,
        waits: OnWaiting | None, lease: Handle | None, made: Callable[[_abi.Event], HostedLease],
        failed: Callable[[Exception], Exception] = _as_it_is,
    ) -> Future[HeldThing]:  # fmt: skip
        cancel = options.cancel = self.api.new_cancel()

        def ended(event: _abi.Event) -> None:
            self.api.cancel_free(cancel)
            if event.code != Code.OK:
                settle(future, failed(self.api.error_of(event, name)))
                return
            try:
                held = self._kept(made(event))
            except Exception as error:  # mostly since the host was closed meanwhile, which has released it
                settle(future, error)
                self._begin_finish(event.member, lambda _: None, None, guarded=lease is None)
                return
            if not settle(future, held):
                held.finish()  # nobody waits for it any more

        call = ctypes.c_uint64()
        future.add_done_callback(lambda done: self._done(done, cancel))
        with self._lock:  # the event must not come before its call is known
            self._open.add(future)
            code = begin(ctypes.byref(call))
            if code == Code.OK:
                self._calls[call.value] = ended
                if waits is not None:
                    self._waits[call.value] = (name, waits)
        if code != Code.OK:
            error = self.api.error(code, name)
            self.api.cancel_free(cancel)
            with self._lock:
                self._open.discard(future)
            raise error
        return future

    def _done(self, future: Future[Any], cancel: int) -> None:
        with self._lock:
            self._open.discard(future)
        if future.cancelled():
            self.api.cancel(cancel)

    def _lease(self, handle: int) -> HostedLease:
        """What an event gave says of which lease it is."""
        lease = Handle.parse(self.api.text_of(self.api.lease_text, handle))
        return HostedLease(self, handle, lease, guarded=True)

    def _kept(self, held: HostedLease) -> HostedLease:
        with self._lock:
            self._held_things[held._handle] = held
        return held

    def finish(self, held: HostedLease, handle: int, over: Future[None]) -> None:
        """Begins the release of a lease, or the leave of a companion."""

        def ended(event: _abi.Event) -> None:
            with self._lock:
                self._held_things.pop(handle, None)
            good = event.code in (Code.OK, Code.EENDED)
            settle(over, None if good else self.api.error_of(event, held.name))

        code = self._begin_finish(handle, ended, over, guarded=held.guarded)
        if code != Code.OK:
            settle(over, _texts.closed() if code == Code.EHANDLE else self.api.error(code, held.name))
        over.add_done_callback(lambda done: self._done(done, 0))

    def drop(self, held: HostedLease, handle: int) -> None:
        """Gives back the handle of what is lost, once."""
        with self._lock:
            there = self._held_things.pop(handle, None) is not None
        if there:
            self._begin_finish(handle, lambda event: None, None, guarded=held.guarded)

    def _begin_finish(
        self, handle: int, ended: Callable[[_abi.Event], None], over: Future[None] | None, *, guarded: bool
    ) -> int:
        begin = self.api.begin_release if guarded else self.api.begin_leave
        return self.call(lambda call: begin(handle, FOREVER, call), ended, over)

    def call(
        self, begin: Callable[[Any], int], ended: Callable[[_abi.Event], None], future: Future[Any] | None = None,
        waits: tuple[str, OnWaiting] | None = None,
    ) -> int:  # fmt: skip
        """Begins a call, whose event is told to ended; its code. A future is waited for when the host is closed."""
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

    # Invocations.

    def begin_invocation(self, request: WorkRequest, next_step: StepFuture) -> Call:
        """The library does all of it; what it wants done here it says by an event."""
        self._sweep()
        api, handle = self.api, ctypes.c_uint64()
        name = _texts.encode("name", request.name)
        options = api.options(request.terms)
        options.wait_ns = {0: _abi.TRY, FOREVER: 0}.get(request.wait_ns, request.wait_ns)
        options.memo_failures, options.without_lease = request.memo_failures, request.without_lease
        given = ctypes.byref(options), ctypes.byref(handle)
        try:
            if request.remote:
                text = _texts.encode("lease text", request.handle.text()) if request.handle is not None else None
                code = api.remote(self._handle, name, text, *given)
            else:
                code = api.invoke(self._handle, name, *given)
            if code != Code.OK:
                raise api.error(code, request.name)
            return HostedInvocation(self, handle.value, request, next_step)
        except BaseException:  # interrupted, perhaps when it had begun
            if handle.value:
                self.litter.append(handle.value)
                self._sweep()
            raise

    def keep_work(self, work: HostedWork, handle: int) -> None:
        """Whose end is to be told."""
        with self._lock:
            self._held_things[handle] = work

    def forget_work(self, handle: int) -> None:
        """Its end was told."""
        with self._lock:
            self._held_things.pop(handle, None)

    def done(self, future: Future[Any]) -> None:
        """It need not be waited for."""
        self._done(future, 0)

    def _sweep(self) -> None:
        """Gives back the handles of invocations that nobody has any more."""
        while self.litter:
            handle = self.litter.popleft()
            self.call(lambda call: self.api.begin_invocation_close(handle, FOREVER, call), lambda _: None)  # noqa: B023

    def _listen(self) -> None:
        """Takes the events of all calls and of all that is held, until the host is closed and has no more."""
        event, seen = self.api.event()
        while True:
            code = self.api.next(self._handle, FOREVER, ctypes.byref(event))
            if code != Code.OK:
                return
            self._sweep()
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
            elif event.member:  # its caller was interrupted before he knew of it
                with contextlib.suppress(MopslockError):  # of work, whose call was given up, nothing is left
                    self._kept(self._lease(event.member)).finish()
        elif event.kind == EventKind.ENDED:
            with self._lock:
                held = self._held_things.get(event.member)
            if held is not None:
                error = self.api.error_of(event, held.name)
                assert isinstance(error, MopslockError)
                held.end(error)
                if isinstance(error, LeaseLost) or isinstance(held, HostedWork):
                    held.lost()

    def inspect(self, name: str, timeout_ns: int) -> Status:
        """On a thread of ours, so that the caller can be interrupted."""
        encoded = _texts.encode("name", name)

        return self._aside(lambda: self._look(name, encoded, timeout_ns))

    def _look(self, name: str, encoded: bytes, timeout_ns: int) -> Status:
        raw, holders = self.api.raw_status(), []

        def visit(_: Any, holder: Any) -> int:
            holders.append(self.api.holder_of(holder.contents))
            return 0

        code = self.api.inspect_holders(
            self._handle, encoded, timeout_ns, ctypes.byref(raw), _abi.VISIT_HOLDER(visit), None
        )
        if code != Code.OK:
            raise self._unread(code, name)
        return self.api.status_of(name, raw, tuple(holders))

    def set_limit(self, name: str, limit: int, timeout_ns: int) -> None:
        """On a thread of ours, so that the caller can be interrupted."""
        encoded = _texts.encode("name", name)

        def keep() -> None:
            code = self.api.set_limit(self._handle, encoded, limit, timeout_ns)
            if code != Code.OK:
                raise self._unread(code, name)

        self._aside(keep)

    def break_lease(self, name: str, request: Break, timeout_ns: int) -> Status:
        """On a thread of ours, so that the caller can be interrupted."""
        encoded, why = _texts.encode("name", name), _texts.encode("why", request.why)
        holder = _texts.encode("holder", request.holder)

        def end() -> Status:
            raw = self.api.raw_status()
            options = _abi.BreakOptions(
                size=ctypes.sizeof(_abi.BreakOptions), why=why, now=request.now, timeout_ns=timeout_ns or 1,
                protocol=_abi.PROTOCOLS.index(request.protocol), seen=ctypes.pointer(raw), holder=holder,
            )  # fmt: skip
            code = self.api.break_lease(self._handle, encoded, ctypes.byref(options))
            if code != Code.OK:
                error = self._unread(code, name)
                if isinstance(error, Held):
                    error.seen = self.api.status_of(name, raw)
                raise error
            return self.api.status_of(name, raw)

        return self._aside(end)

    def guard(self, ask: Callable[[_abi.Api, int], T]) -> T:
        """A call of the guard, on a thread of ours: ask(api, handle)."""
        return self._aside(lambda: ask(self.api, self._handle))

    def list(self, prefix: str, timeout_ns: int) -> Iterator[Status]:
        """Read ahead by a thread of ours, a few pages at most."""
        encoded = _texts.encode("prefix", prefix)
        found: queue.Queue[Status | BaseException | None] = queue.Queue(256)
        over = threading.Event()

        def put(item: Status | BaseException | None) -> bool:
            while not over.is_set():
                try:
                    found.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def visit(_: Any, name: bytes, status: Any, code: int) -> int:
            text = name.decode()
            if code == Code.OK:
                one = self.api.status_of(text, status.contents)
                if one.permits:  # whose holders are told to one who asks for them
                    with contextlib.suppress(MopslockError):
                        one = self._look(text, name, timeout_ns)
                return 0 if put(one) else 1
            log.warning("mopslock: lease %s cannot be read", _texts.quoted(text))
            return 0

        def walk() -> None:
            code = self.api.list(self._handle, encoded, timeout_ns, _abi.VISIT(visit), None)
            put(None if code == Code.OK else self._unread(code, prefix))

        threading.Thread(target=walk, name="mopslock-list", daemon=True).start()
        try:
            while (item := found.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            over.set()

    def _unread(self, code: int, name: str) -> MopslockError:
        """Why nothing was read. Nobody waited for a lease here."""
        error = self.api.error(code, name)
        return Unreachable(str(error)) if isinstance(error, WaitOver) else error

    def close(self, timeout_ns: int) -> None:
        """The library releases what it holds, all at once."""
        code = self.api.close(self._handle, timeout_ns)
        with self._lock:
            held_things, calls = list(self._held_things.values()), list(self._open)
        for held in held_things:
            held.closed(in_time=code == Code.OK)
        wait_for(calls, 1.0)  # their events are on the way
        if code == Code.ETIMEOUT:
            raise NotReleased("mopslock: something was not released in time, and expires by itself")

    def _aside(self, do: Callable[[], T]) -> T:
        """Runs what blocks in the library on a worker, and waits as Python does."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                settle(future, do())
            except BaseException as error:
                settle(future, error)

        self._workers.submit(run)
        return future.result()

"""A host inside the library: Go talks to the store and keeps what is held, Python only asks and hears.

Renewals need neither the GIL nor any thread of Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, TypeVar

from . import _abi, _library, _texts
from ._abi import Code
from ._call import Call, StepFuture, WorkRequest
from ._future import Future
from ._held import Handle, HeldThing, OnWaiting
from ._host_interface import Break, Host
from ._hosted_calls import HostedCalls
from ._hosted_invocation import HostedInvocation
from ._hosted_lease import HostedLease, HostedPermit, say_fallback
from ._log import log
from ._permit_request import PermitRequest
from ._place import place_of
from ._units import FOREVER
from .errors import Full, Held, MopslockError, Unreachable, WaitOver
from .status import Status
from .terms import Terms

T = TypeVar("T")

MOST = (1 << 32) - 1


def _as_it_is(error: Exception) -> Exception:
    return error


class HostedHost(HostedCalls, Host):
    """What this process holds on the store at one URL."""

    def __init__(self, url: str) -> None:
        super().__init__(url, _abi.api(_library.full()))

    def place(self) -> str:
        """Of its URL."""
        return place_of(self.url)

    def begin_acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> Future[HeldThing]:
        """Here wait_ns 0 tries once, and FOREVER waits until it is held. The library has it the other way round."""
        options, encoded = self.api.options(terms), _texts.encode("name", name)
        options.wait_ns = {0: _abi.TRY, FOREVER: 0}.get(wait_ns, wait_ns)

        def made(event: _abi.Event) -> HostedLease:
            held = self._lease(event.member)
            say_fallback(terms, held.name, held.protocol)
            return held

        return self._begin(
            lambda call: self.api.begin_acquire(self.handle, encoded, ctypes.byref(options), call),
            options, name, into or Future(), waits=waits, lease=None, made=made,
        )  # fmt: skip

    def begin_permit(
        self, name: str, terms: Terms, request: PermitRequest, wait_ns: int, waits: OnWaiting | None, *,
        into: Future[HeldThing] | None = None,
    ) -> Future[HeldThing]:  # fmt: skip
        """As begin_acquire. The library has no text for a permit."""
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
            lambda call: self.api.begin_permit(self.handle, encoded, ctypes.byref(options), call),
            options, name, into or Future(), waits=waits, lease=None, made=made, failed=failed,
        )  # fmt: skip

    def begin_accompany(self, handle: Handle, terms: Terms, into: Future[HeldThing] | None = None) -> Future[HeldThing]:
        """The text's TTL overrides the terms'."""
        options, text = self.api.options(terms), _texts.encode("lease text", handle.text())
        return self._begin(
            lambda call: self.api.begin_accompany(self.handle, text, ctypes.byref(options), call),
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
                future.settle(failed(self.api.error_of(event, name)))
                return
            try:
                held = made(event)
                self.keep(held, event.member)
            except Exception as error:  # mostly the host was closed meanwhile, which has released it
                future.settle(error)
                self.begin_finish(event.member, lambda _: None, None, guarded=lease is None)
                return
            if not future.settle(held):
                held.finish()  # its caller has given up

        future.add_done_callback(lambda done: self.done(done, cancel))
        code = self.call(begin, ended, future, (name, waits) if waits is not None else None)
        if code != Code.OK:
            error = self.api.error(code, name)
            self.api.cancel_free(cancel)
            raise error
        return future

    def _lease(self, handle: int) -> HostedLease:
        """The lease of a handle that an event gave."""
        lease = Handle.parse(self.api.text_of(self.api.lease_text, handle))
        return HostedLease(self, handle, lease, guarded=True)

    def orphaned(self, handle: int) -> None:
        """Gives back a lease, a permit or a companion. Of work, whose call was given up, nothing is left."""
        if self.begin_finish(handle, lambda _: None, None, guarded=True) != Code.OK:
            self.begin_finish(handle, lambda _: None, None, guarded=False)

    # Invocations.

    def begin_invocation(self, request: WorkRequest, next_step: StepFuture) -> Call:
        """The library does all of it. An event says what it wants done here."""
        self.sweep()
        api, handle = self.api, ctypes.c_uint64()
        name = _texts.encode("name", request.name)
        options = api.options(request.terms)
        options.wait_ns = {0: _abi.TRY, FOREVER: 0}.get(request.wait_ns, request.wait_ns)
        options.memo_failures, options.without_lease = request.memo_failures, request.without_lease
        given = ctypes.byref(options), ctypes.byref(handle)
        try:
            if request.remote:
                text = _texts.encode("lease text", request.handle.text()) if request.handle is not None else None
                code = api.remote(self.handle, name, text, *given)
            else:
                code = api.invoke(self.handle, name, *given)
            if code != Code.OK:
                raise api.error(code, request.name)
            return HostedInvocation(self, handle.value, request, next_step)
        except BaseException:  # interrupted, perhaps when it had begun
            if handle.value:
                self.litter.append(handle.value)
                self.sweep()
            raise

    def inspect(self, name: str, timeout_ns: int) -> Status:
        """On a thread of ours, so that the caller can be interrupted."""
        encoded = _texts.encode("name", name)

        return self.aside(lambda: self._look(name, encoded, timeout_ns))

    def _look(self, name: str, encoded: bytes, timeout_ns: int) -> Status:
        raw, holders = self.api.raw_status(), []

        def visit(_: Any, holder: Any) -> int:
            holders.append(self.api.holder_of(holder.contents))
            return 0

        code = self.api.inspect_holders(
            self.handle, encoded, timeout_ns, ctypes.byref(raw), _abi.VISIT_HOLDER(visit), None
        )
        if code != Code.OK:
            raise self._unread(code, name)
        return self.api.status_of(name, raw, tuple(holders))

    def set_limit(self, name: str, limit: int, timeout_ns: int) -> None:
        """On a thread of ours, so that the caller can be interrupted."""
        encoded = _texts.encode("name", name)

        def keep() -> None:
            code = self.api.set_limit(self.handle, encoded, limit, timeout_ns)
            if code != Code.OK:
                raise self._unread(code, name)

        self.aside(keep)

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
            code = self.api.break_lease(self.handle, encoded, ctypes.byref(options))
            if code != Code.OK:
                error = self._unread(code, name)
                if isinstance(error, Held):
                    error.seen = self.api.status_of(name, raw)
                raise error
            return self.api.status_of(name, raw)

        return self.aside(end)

    def list(self, prefix: str, timeout_ns: int) -> Iterator[Status]:
        """A thread of ours reads ahead, a few pages at most."""
        encoded = _texts.encode("prefix", prefix)
        found: queue.SimpleQueue[Status | BaseException | None] = queue.SimpleQueue()
        room: queue.SimpleQueue[None] = queue.SimpleQueue()  # for each item that may still be read ahead
        over = False
        for _ in range(256):
            room.put(None)

        def put(item: Status | BaseException | None) -> bool:
            if not over:
                room.get()
            if not over:
                found.put(item)
            return not over

        def visit(_: Any, name: bytes, status: Any, code: int) -> int:
            text = name.decode()
            if code == Code.OK:
                one = self.api.status_of(text, status.contents)
                if one.permits:  # a list has no holders; a look has
                    with contextlib.suppress(MopslockError):
                        one = self._look(text, name, timeout_ns)
                return 0 if put(one) else 1
            log.warning("mopslock: lease %s cannot be read", _texts.quoted(text))
            return 0

        def walk() -> None:
            code = self.api.list(self.handle, encoded, timeout_ns, _abi.VISIT(visit), None)
            put(None if code == Code.OK else self._unread(code, prefix))

        try:
            threading.Thread(target=walk, name="mopslock-list", daemon=True).start()
            while (item := found.get()) is not None:
                room.put(None)
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            over = True
            room.put(None)

    def _unread(self, code: int, name: str) -> MopslockError:
        """Why nothing was read. A WaitOver is about a lease, so it becomes Unreachable."""
        error = self.api.error(code, name)
        return Unreachable(str(error)) if isinstance(error, WaitOver) else error

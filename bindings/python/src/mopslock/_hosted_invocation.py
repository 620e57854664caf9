"""One call for a piece of work that the library runs, and the stream of its result."""

from __future__ import annotations

import ctypes
import io
import os
import threading
from pathlib import Path
from typing import Any, BinaryIO

from . import _abi, _texts
from ._abi import Code
from ._call import Begin, Call, Found, NoLease, StepFuture, WorkRequest
from ._future import Future
from ._held import Handle
from ._hosted_calls import HostedCalls
from ._hosted_lease import HostedLease, say_fallback
from ._units import FOREVER, SECOND
from .errors import MopslockError, Unreachable, Vacant, WaitOver

PIECE = 1 << 20
STILL = 60 * SECOND
"""How long a store may send no byte of a result."""


class HostedWork(HostedLease):
    """The tenure under which work is done. It ends with its call."""

    __slots__ = ("_call",)

    def __init__(self, host: HostedCalls, handle: int, lease: Handle, call: HostedInvocation, *, guarded: bool) -> None:
        super().__init__(host, handle, lease, guarded=guarded)
        self._call = call

    def finish(self) -> Future[None]:
        """The call's."""
        return self._call.cancel()

    def heard(self, failure: MopslockError) -> None:
        """Nothing is given back: the call does that."""
        self.end(failure)
        self.host.forget(self._handle)

    def closed(self, *, in_time: bool) -> None:
        """The host was closed, which has also ended this."""
        self.end(_texts.ended(self.name) if in_time else _texts.closed())


class HostedInvocation(Call):
    """A call on a host of the library."""

    def __init__(self, host: HostedCalls, handle: int, request: WorkRequest, next_step: StepFuture) -> None:
        self.name = request.name
        self._host, self._handle, self._request = host, handle, request
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._work = 0
        self._over: Future[None] | None = None
        self._next(next_step)

    def _next(self, next_step: StepFuture) -> None:
        """Asks for work, or for the end."""
        host, waits = self._host, self._request.waits
        next_step.add_done_callback(host.done)
        try:
            code = host.call(
                lambda call: host.api.begin_work(self._handle, call), lambda event: self._told(event, next_step),
                next_step, (self.name, waits) if waits is not None else None,
            )  # fmt: skip
        except BaseException:  # interrupted, perhaps before its event had a receiver
            self.cancel()
            raise
        if code != Code.OK:
            next_step.settle(host.api.error(code, self.name))

    def _told(self, event: _abi.Event, next_step: StepFuture) -> None:
        api = self._host.api
        if event.code != Code.OK:
            next_step.settle(api.error_of(event, self.name))
            return
        try:
            step = self._begin(event.member) if event.member else self._found()
        except Exception as error:  # mostly the host was closed meanwhile
            next_step.settle(error)
            self.cancel()
            return
        if not next_step.settle(step) and isinstance(step, Begin):
            self.cancel()  # its caller has given up

    def _begin(self, work: int) -> Begin:
        api, self._work = self._host.api, work
        handle = self._request.handle
        if self._request.remote and (handle is None or not api.text_of(api.holder, work)):
            return Begin(NoLease(self, self._host.url))
        lease = handle or Handle.parse(api.text_of(api.lease_text, work))
        if handle is None:
            say_fallback(self._request.terms, lease.name, lease.protocol)
        held = HostedWork(self._host, work, lease, self, guarded=handle is None)
        self._host.keep(held, work)
        return Begin(held)

    def _found(self) -> Found:
        raw = _abi.RawResult(size=ctypes.sizeof(_abi.RawResult))
        code = self._host.api.result(self._handle, ctypes.byref(raw))
        if code != Code.OK:
            raise self._host.api.error(code, self.name)
        return Found(raw.key.decode(), bool(raw.failed), bool(raw.own))

    def complete(self, next_step: StepFuture, *, well: bool, body: bytes | Path | None) -> None:
        """The library reads a file, piece by piece."""
        if self._pid != os.getpid():
            raise _texts.forked(self.name)
        api = self._host.api
        path = os.fsencode(body) if isinstance(body, Path) else None
        given = body if isinstance(body, bytes) else None
        code = api.ended(self._work, well, given, len(given or b""), path)
        if code not in (Code.OK, Code.EENDED, Code.EHANDLE):  # if the work is over, the next step says more
            raise api.error(code, self.name)
        self._next(next_step)

    def cancel(self) -> Future[None]:
        """Also gives its handle back."""
        over: Future[None] = Future()
        if self._pid != os.getpid():  # the parent's goes on
            over.settle(None)
            return over
        with self._lock:
            if self._over is not None:
                return self._over
            code = self._host.call(
                lambda call: self._host.api.begin_invocation_close(self._handle, FOREVER, call),
                lambda _: over.settle(None), over,
            )  # fmt: skip
            if code != Code.OK:
                over.settle(None)
            over.add_done_callback(self._host.done)
            self._over = over  # last: a call that was interrupted in here may begin again
        return over

    def open(self) -> BinaryIO:
        """A worker takes pieces from the library, so that the reader of the stream can be interrupted."""
        host, reader, length = self._host, ctypes.c_uint64(), ctypes.c_int64()

        def ask(api: _abi.Api, _: int) -> None:
            code = api.result_open(self._handle, STILL, ctypes.byref(reader), ctypes.byref(length))
            if code != Code.OK:
                raise _unread(api.error(code, self.name), self.name)

        host.guard(ask)
        return io.BufferedReader(Stream(host, reader.value, self.name), PIECE)

    def __del__(self) -> None:
        if getattr(self, "_over", self) is None and self._pid == os.getpid():
            self._host.litter.append(self._handle)  # a finalizer runs within anything, and may take no lock


class Stream(io.RawIOBase):
    """A result from its beginning to its end."""

    def __init__(self, host: HostedCalls, reader: int, name: str) -> None:
        self._host, self._reader, self._name = host, reader, name

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Waits for at least one byte; 0 is the end."""
        piece = self._piece(min(PIECE, len(buffer)))
        buffer[: len(piece)] = piece
        return len(piece)

    def readall(self) -> bytes:
        """Reads pieces that are large enough for a change of threads."""
        return b"".join(iter(lambda: self._piece(PIECE), b""))

    def _piece(self, most: int) -> bytes:
        if self.closed:
            raise ValueError("mopslock: the result is closed")

        def ask(api: _abi.Api, _: int) -> bytes:
            buffer, length = ctypes.create_string_buffer(most), ctypes.c_size_t()
            code = api.result_read(self._reader, STILL, buffer, most, ctypes.byref(length))
            if code != Code.OK:
                raise _unread(api.error(code, self._name), self._name)
            return ctypes.string_at(buffer, length.value)

        try:
            return self._host.guard(ask)
        except BaseException:  # perhaps in the middle of a piece: the rest of it would be missing
            self.close()
            raise

    def close(self) -> None:
        """Gives the reader back."""
        if not self.closed and self._reader:
            self._host.api.result_close(self._reader)
        super().close()


def _unread(error: MopslockError, name: str) -> MopslockError:
    """The error of a reader: a WaitOver is about a lease, so it becomes Unreachable."""
    if isinstance(error, WaitOver):
        return Unreachable(str(error))
    if isinstance(error, Vacant):
        return Vacant(f"mopslock: the result of {_texts.quoted(name)} is not there any more: somebody has removed it")
    return error

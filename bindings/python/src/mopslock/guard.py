"""Objects on the store of a URL that only the newest tenure of a lease can write.

A lease cannot stop a process that was paused while it wrote. Here the store refuses its write, by the fencing token::

    A, token 5:  held ── read ── SIGSTOP ═════════════════ SIGCONT ── write: Stale
    B, token 6:                     TTL … held ── write

::

    counter = mopslock.Guarded("s3://bucket/state", "counter")
    with mopslock.lease("s3://bucket/locks", "counting", protocol="strict") as lease:
        counter.update(lease, lambda old: str(int(old or b"0") + 1).encode())

The lease on one name guards an object: tokens of two names mean nothing to each other. No other program may write below
the object's key, and nothing may expire there. The token has one limit: it cannot know of a tenure that has not touched
the object. A process that takes a lease over and reads before it writes begins with ``raise_token``. Nothing here
checks whether the lease is held: ``lease.check()`` does.

The asyncio twins are ``asyncio.to_thread(counter.write, lease, body)`` and so on.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _abi, _texts, errors
from ._abi import Code
from ._duration import Duration, nanoseconds
from ._hosted import HostedHost
from ._hosts import host_of
from ._lease import HeldLease

TIMEOUT = 30.0
"""Seconds that a call may take, by default."""

Tenure = HeldLease | tuple[int, str]
"""What a write is made under: a lease or companion of protocol strict, or (fencing_token, holder)."""


@dataclass(frozen=True)
class Slot:
    """One state of a guarded object, as its writer left it.

    ``number`` counts the writes from 1; 0 is an object that was never written. ``body`` is None if there is none.
    ``token`` and ``holder`` are those of the tenure that wrote it. ``written`` is the slot that first had this body.
    ``nonce`` is fresh for each write.
    """

    number: int
    body: bytes | None
    token: int
    holder: str
    written: int
    nonce: str


class Guarded:
    """One object that only the newest tenure can write, at a key of a store: a URL, or a directory's path.

    Many threads and many processes may call its methods at once. Making the object does no I/O.
    """

    def __init__(self, store: str | os.PathLike[str], key: str, *, timeout: Duration = TIMEOUT) -> None:
        if not isinstance(store, (str, os.PathLike)):
            raise errors.BadArgument(
                f"mopslock: store {store!r}: a guarded object lies on the store of a URL or of a directory's path"
            )
        self.store, self.key = store, key
        self._key, self._timeout = _texts.encode("key", key), nanoseconds("timeout", timeout)

    def read(self) -> Slot:
        """The newest slot. It costs a list and a get."""
        return self._read(lambda api, host, *out: api.guarded_read(host, self._key, self._timeout, *out))

    def raise_token(self, tenure: Tenure) -> Slot:
        """Shuts out all older tenures, and returns what they left. Use it after taking a lease over."""
        token, holder = _of(tenure)
        return self._read(
            lambda api, host, *out: api.guarded_raise(host, self._key, token, holder, self._timeout, *out)
        )

    def write(self, tenure: Tenure, body: bytes) -> Slot:
        """Makes body the object's body, whatever was there. It costs a list, a get and a create.

        Stale: a newer tenure has written. Unsettled: it is unknown whether it was written. After all other errors
        nothing was written.
        """
        token, holder = _of(tenure)
        body = bytes(body)
        return self._write(
            body,
            lambda api, host, slot: api.guarded_write(
                host, self._key, token, holder, body, len(body), self._timeout, slot
            ),
        )

    def update(self, tenure: Tenure, change: Callable[[bytes | None], bytes]) -> Slot:
        """Writes what ``change`` makes of the newest body. That is None if the object was never written.

        If another writer of the same tenure was faster, ``change`` is called again with what that one wrote. So an
        update is applied once or, after any error but Unsettled, not at all. An exception of ``change`` is raised.
        """
        while True:
            old = self.read().body
            body = bytes(change(old))
            try:
                return self._swap(tenure, old, body)
            except errors.Raced:
                continue

    def _swap(self, tenure: Tenure, old: bytes | None, body: bytes) -> Slot:
        token, holder = _of(tenure)
        return self._write(
            body,
            lambda api, host, slot: api.guarded_update(
                host, self._key, token, holder, old, len(old or b""), body, len(body), self._timeout, slot
            ),
        )

    def _read(self, ask: Callable[..., int]) -> Slot:
        def call(api: _abi.Api, host: int) -> Slot:
            buffer, length, raw = ctypes.create_string_buffer(_abi.MOST_GUARDED), ctypes.c_size_t(), _empty_slot()
            code = ask(api, host, buffer, len(buffer), ctypes.byref(length), ctypes.byref(raw))
            if code != Code.OK:
                raise _error(api, code, self.key, raw)
            return _slot(raw, buffer.raw[: length.value] if raw.written else None)

        return _host(self.store).guard(call)

    def _write(self, body: bytes, ask: Callable[..., int]) -> Slot:
        def call(api: _abi.Api, host: int) -> Slot:
            raw = _empty_slot()
            code = ask(api, host, ctypes.byref(raw))
            if code != Code.OK:
                raise _error(api, code, self.key, raw)
            return _slot(raw, body)

        return _host(self.store).guard(call)

    def __repr__(self) -> str:
        return f"Guarded({self.store!r}, {self.key!r})"


def create_once(
    store: str | os.PathLike[str], key: str, tenure: Tenure, body: bytes, *, timeout: Duration = TIMEOUT
) -> tuple[Slot, bool]:
    """Makes an object that is never written again: a result. The first one wins, whatever its token is.

    It returns the winner's slot, and whether this call has won.
    """
    guarded, won = Guarded(store, key, timeout=timeout), ctypes.c_int()
    token, holder = _of(tenure)
    body = bytes(body)
    made = guarded._write(
        body,
        lambda api, host, slot: api.create_once(
            host, guarded._key, token, holder, body, len(body), guarded._timeout, ctypes.byref(won), slot
        ),
    )
    if won.value:
        return made, True
    return read_once(store, key, timeout=timeout), False


def read_once(store: str | os.PathLike[str], key: str, *, timeout: Duration = TIMEOUT) -> Slot:
    """What create_once made. Vacant: there is none."""
    guarded = Guarded(store, key, timeout=timeout)
    return guarded._read(lambda api, host, *out: api.read_once(host, guarded._key, guarded._timeout, *out))


def _host(store: str | os.PathLike[str]) -> HostedHost:
    host = host_of(store)
    assert isinstance(host, HostedHost)
    return host


def _of(tenure: Tenure) -> tuple[int, bytes]:
    """The token and holder as C takes them."""
    if isinstance(tenure, HeldLease):
        token, holder = tenure.fencing_token, tenure.holder
    elif isinstance(tenure, tuple) and len(tenure) == 2 and type(tenure[0]) is int and isinstance(tenure[1], str):
        token, holder = tenure
    else:
        raise errors.BadArgument(f"mopslock: tenure {tenure!r}: must be a lease, or its fencing_token and holder")
    if not 0 <= token < 1 << 64:
        raise errors.BadArgument(f"mopslock: token {token}: must be a fencing token")
    return token, _texts.encode("holder", holder)


def _empty_slot() -> _abi.RawSlot:
    return _abi.RawSlot(size=ctypes.sizeof(_abi.RawSlot))


def _slot(raw: _abi.RawSlot, body: bytes | None) -> Slot:
    return Slot(raw.number, body, raw.token, raw.holder.decode(), raw.written, raw.nonce.decode())


def _error(api: Any, code: int, key: str, raw: _abi.RawSlot) -> errors.MopslockError:
    """The error for a code of the guard."""
    error: errors.MopslockError = api.error(code, key)
    text = str(error)
    if code == Code.ESTALE:
        return errors.Stale(text, token=raw.token, holder=raw.holder.decode())
    if code == Code.EUNKNOWN:
        return errors.Unsettled(text, number=raw.number, nonce=raw.nonce.decode())
    if code == Code.EHELD:
        return errors.Raced(text)
    if code == Code.ETIMEOUT:
        return errors.Unreachable(text)
    return error

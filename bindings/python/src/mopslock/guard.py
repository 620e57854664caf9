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

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _texts, errors
from ._duration import Duration, nanoseconds
from ._hosts import host_of
from ._lease import HeldLease
from ._own.keeper import INSTALL
from ._own.kept import KeptHost
from ._units import SECOND

TIMEOUT = 30.0  # seconds that a call may take, by default
MOST = 63 << 10  # bytes of a body

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
        _texts.encode("key", key)
        self._seconds = nanoseconds("timeout", timeout) / SECOND

    def read(self) -> Slot:
        """The newest slot. It costs a list and a get."""
        return self._ask("read")[0]

    def raise_token(self, tenure: Tenure) -> Slot:
        """Shuts out all older tenures, and returns what they left. Use it after taking a lease over."""
        return self._ask("raise", tenure)[0]

    def write(self, tenure: Tenure, body: bytes) -> Slot:
        """Makes body the object's body, whatever was there. It costs a list, a get and a create.

        Stale: a newer tenure has written. Unsettled: it is unknown whether it was written. After all other errors
        nothing was written.
        """
        return self._ask("write", tenure, body=bytes(body))[0]

    def update(self, tenure: Tenure, change: Callable[[bytes | None], bytes]) -> Slot:
        """Writes what ``change`` makes of the newest body. That is None if the object was never written.

        If another writer of the same tenure was faster, ``change`` is called again with what that one wrote. So an
        update is applied once or, after any error but Unsettled, not at all. An exception of ``change`` is raised.
        """
        while True:
            old = self.read().body
            body = bytes(change(old))
            with contextlib.suppress(errors.Raced):
                return self._ask("swap", tenure, old=old, body=body)[0]

    def _ask(self, verb: str, tenure: Tenure | None = None, **fields: Any) -> tuple[Slot, bool]:
        """What the keeper answers, and whether what was made once is ours."""
        if tenure is not None:
            token, holder = _of(tenure)
            fields |= {"token": token, "holder": holder}
        for body in fields.values():
            if isinstance(body, bytes) and len(body) > MOST:
                raise errors.BadArgument(f"mopslock: body: has {len(body)} bytes, more than {MOST}; keep it elsewhere")
        host = host_of(self.store)
        if not isinstance(host, KeptHost):
            raise errors.EngineFailed(f"mopslock: {self.key}: a guarded object needs a keeper; {INSTALL}")
        try:
            said = host.call("guard", self._seconds, key=self.key, verb=verb, **fields)
        except (errors.EngineFailed, errors.Unreachable) as error:
            if "read" in verb:
                raise
            raise errors.Unsettled(f"{error}; it may be written, or not: read it") from error
        return Slot(**said["slot"]), said.get("own", False)

    def __repr__(self) -> str:
        return f"Guarded({self.store!r}, {self.key!r})"


def create_once(
    store: str | os.PathLike[str], key: str, tenure: Tenure, body: bytes, *, timeout: Duration = TIMEOUT
) -> tuple[Slot, bool]:
    """Makes an object that is never written again: a result. The first one wins, whatever its token is.

    It returns the winner's slot, and whether this call has won.
    """
    return Guarded(store, key, timeout=timeout)._ask("create_once", tenure, body=bytes(body))


def read_once(store: str | os.PathLike[str], key: str, *, timeout: Duration = TIMEOUT) -> Slot:
    """What create_once made. Vacant: there is none."""
    return Guarded(store, key, timeout=timeout)._ask("read_once")[0]


def _of(tenure: Tenure) -> tuple[int, str]:
    """Its token and holder."""
    if isinstance(tenure, HeldLease):
        token, holder = tenure.fencing_token, tenure.holder
    elif isinstance(tenure, tuple) and len(tenure) == 2 and type(tenure[0]) is int and isinstance(tenure[1], str):
        token, holder = tenure
    else:
        raise errors.BadArgument(f"mopslock: tenure {tenure!r}: must be a lease, or its fencing_token and holder")
    if not 0 <= token < 1 << 64:
        raise errors.BadArgument(f"mopslock: token {token}: must be a fencing token")
    _texts.encode("holder", holder)
    return token, holder

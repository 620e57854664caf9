"""The library's limiter as Python drives it. A try is one call, a wait is a begun call, and one thread hears of all
waits.

No thread of Python waits inside the library. So a blocked caller can be interrupted, and thousands of tasks that wait
cost no thread each.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading

from . import _abi, _library, _texts
from ._abi import Code
from ._future import Future
from ._log import log
from ._notify import begin_thread, notifier
from ._permit_request import PermitRequest
from ._units import FOREVER
from .errors import Cancelled, Forked, Full

Granted = Future[bool]

ENDED = (Code.EENDED, Code.EHANDLE)
"""What the library says of a holder that has ended."""


class Grant:
    """Some permits of a name, once they are granted. If the object is forgotten it gives them back, unless an explicit
    holder has them."""

    __slots__ = ("__weakref__", "_engine", "_handle", "_keeps", "held", "name", "request")

    def __init__(self, engine: Engine, name: str, request: PermitRequest, keeps: object) -> None:
        """keeps is the explicit holder, so that it lives at least as long; or None."""
        self._engine, self.name, self.request, self._keeps = engine, name, request, keeps
        self._handle = ctypes.c_uint64()  # the library writes it, so an interrupted caller still has it by this object
        self.held = 0

    def give_back(self) -> bool:
        """Whether there was anything to give back. Any thread may call it; one call succeeds."""
        freed = bool(self._handle.value) and self._engine.release(self._handle.value)
        self._handle = ctypes.c_uint64()  # last: a call that was interrupted in here may begin again
        return freed

    def __del__(self) -> None:
        if (
            self._keeps is None
            and self._handle.value
            and self._engine.mine()
            and not sys.is_finalizing()
            and self.give_back()
        ):
            name, weight = self.name, self.request.weight
            notifier.forgotten(lambda: vanished("permit", weight, name))


class PermitOwner:
    """A limiter's holder in the library: what permits belong to. Its end gives back everything that it holds."""

    __slots__ = ("_engine", "handle")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.handle = engine.new_holder()

    def down(self) -> int:
        """Ends it, and returns how many permits it held; 0 the second time."""
        handle, self.handle = self.handle, 0
        return self._engine.free_holder(handle) if handle else 0

    def vanish(self, *, aloud: bool = True) -> None:
        """It was forgotten. Logs a warning if it held anything. A finalizer may run inside of anything: no locks."""
        if self.handle and self._engine.mine() and not sys.is_finalizing() and (freed := self.down()) and aloud:
            notifier.forgotten(lambda: vanished("holder", freed, ""))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.vanish(aloud=False)


class PendingAcquires:
    """The calls under way of one limiter, and the thread that hears how they end. It does not refer to the limiter's
    user, so the limiter ends when its user is forgotten."""

    def __init__(self, api: _abi.Api, limiter: int) -> None:
        self._api, self._limiter = api, limiter
        self._lock = threading.RLock()
        self._calls: dict[int, tuple[Grant, Granted]] = {}
        self._thread: threading.Thread | None = None

    def begin(self, owner: PermitOwner, grant: Grant, wait_ns: int, into: Granted) -> None:
        """Settles into: whether the grant was granted. If into is given up, nothing stays held."""
        api, call, request = self._api, ctypes.c_uint64(), grant.request
        cancel = api.new_cancel()
        into.add_done_callback(lambda done: self._done(done, cancel))
        with self._lock:  # the event must not come before its call is known
            if self._thread is None:
                begin_thread(self._listen, "mopslock-limiter", self._note)
            code = api.begin_limiter(
                owner.handle, _texts.encode("name", grant.name), request.capacity, request.width, request.weight,
                0 if wait_ns == FOREVER else wait_ns, cancel, ctypes.byref(call),
            )  # fmt: skip
            if code == Code.OK:
                self._calls[call.value] = grant, into
        if code != Code.OK:
            into.settle(ended() if code in ENDED else api.error(code, grant.name))

    def _done(self, into: Granted, cancel: int) -> None:
        if into.cancelled():
            self._api.cancel(cancel)
        self._api.cancel_free(cancel)

    def _note(self, thread: threading.Thread | None) -> None:
        self._thread = thread

    def _listen(self) -> None:
        event, _ = self._api.event()
        while self._api.next(self._limiter, FOREVER, ctypes.byref(event)) == Code.OK:
            with self._lock:
                grant, into = self._calls.pop(event.call, (None, None))
            if grant is not None and into is not None:
                self._heard(event, grant, into)
            elif event.member:  # its caller was interrupted before it knew of the call
                self._api.limiter_release(event.member)
            del grant, into  # and what they refer to, while this thread waits

    def _heard(self, event: _abi.Event, grant: Grant, into: Granted) -> None:
        grant.held = event.held
        if event.code == Code.OK:
            grant._handle.value = event.member
            if not into.settle(True):
                grant.give_back()  # its caller has given up
        elif event.code == Code.EFULL:
            into.settle(False)
        else:
            into.settle(ended() if event.code in ENDED else self._api.error_of(event, grant.name))


class Engine:
    """A limiter of the library, and everything that Python asks it."""

    def __init__(self, *, fifo: bool) -> None:
        self._pid = os.getpid()
        self.api = api = _abi.api(_library.full())
        made = ctypes.c_uint64()
        code = api.limiter_new(fifo, ctypes.byref(made))
        if code != Code.OK:
            raise api.error(code, "")
        self._handle = made.value
        self.waits = PendingAcquires(api, self._handle)
        notifier.ready()

    def mine(self) -> bool:
        """This process made it, and not the process that we were forked from."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raises Forked in a forked child."""
        if not self.mine():
            raise Forked(
                "mopslock: the limiter was used by the parent process before it forked, and stays its own; "
                "make another in this process"
            )

    def new_holder(self) -> int:
        """Makes a holder, and returns its handle."""
        self.check()
        made = ctypes.c_uint64()
        code = self.api.limiter_holder(self._handle, ctypes.byref(made))
        if code != Code.OK:
            raise self.api.error(code, "")
        return made.value

    def free_holder(self, holder: int) -> int:
        """Frees a holder, and returns how many permits it had."""
        freed = ctypes.c_uint64()
        self.api.limiter_holder_free(holder, ctypes.byref(freed))
        return freed.value

    def release(self, permit: int) -> bool:
        """Releases a permit, and returns whether it was held."""
        return bool(self.api.limiter_release(permit) == Code.OK)

    def attempt(self, owner: PermitOwner, grant: Grant) -> bool:
        """Tries once, and sets how much is held in the grant. Cancelled: the holder has ended."""
        self.check()
        held, request = ctypes.c_uint64(), grant.request
        code: int = self.api.limiter_acquire(
            owner.handle, _texts.encode("name", grant.name), request.capacity, request.width, request.weight,
            _abi.TRY, 0, ctypes.byref(grant._handle), ctypes.byref(held),
        )  # fmt: skip
        grant.held = held.value
        if code in (Code.OK, Code.EFULL):
            return code == Code.OK
        raise ended() if code in ENDED else self.api.error(code, grant.name)

    def look(self, name: str) -> tuple[int, int]:
        """How many permits of a name are held, and how many callers wait for some."""
        self.check()
        held, waiting = ctypes.c_uint64(), ctypes.c_uint64()
        code = self.api.limiter_held(
            self._handle, _texts.encode("name", name), ctypes.byref(held), ctypes.byref(waiting)
        )
        if code != Code.OK:
            raise self.api.error(code, name)
        return held.value, waiting.value

    def counters(self, name: str) -> list[int]:
        """canal_lock's counters of a name."""
        self.check()
        size = 64
        while True:
            found, count = (ctypes.c_uint32 * size)(), ctypes.c_size_t()
            code = self.api.limiter_counters(
                self._handle, _texts.encode("name", name), found, size, ctypes.byref(count)
            )
            if code == Code.OK:
                return list(found[: count.value])
            if code != Code.ESHORT:
                raise self.api.error(code, name)
            size = count.value

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and self.mine() and not sys.is_finalizing():
            self.api.limiter_free(self._handle)


def ended() -> Cancelled:
    """The error for a permit whose holder has ended."""
    return Cancelled(
        "mopslock: permit not acquired: its holder has ended, and so has all that it held", reason="cancelled"
    )


def full(grant: Grant) -> Full:
    """The error for a permit that found no room."""
    request = grant.request
    wanted = f", {request.weight} wanted" if request.weight > 1 else ""
    return Full(
        f"mopslock: {_texts.quoted(grant.name)} is full: {grant.held}/{request.limit} held{wanted}",
        held=grant.held, limit=request.limit, weight=request.weight,
    )  # fmt: skip


def vanished(what: str, permits: int, name: str) -> None:
    """Logs that a release was forgotten. The fields of the record are for programs."""
    of = f" of {_texts.quoted(name)}" if name else ""
    log.warning(
        "mopslock: a %s%s has vanished without a release; permits that are free again: %d", what, of, permits,
        extra={"mopslock_event": f"{what}_vanished", "mopslock_name": name, "mopslock_permits": permits},
    )  # fmt: skip

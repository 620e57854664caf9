"""What users hold: a lease, a companion of another process's lease, or a permit."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from . import _inside, _texts
from ._caller import THREAD, run
from ._duration import Duration, nanoseconds
from ._future import Future
from ._held import again
from ._log import log
from ._options import RELEASE, Block, OnLost
from ._own.claims import HeldThing
from ._units import LONGEST, SECOND
from ._workers import notifier
from .errors import Forked, LeaseLost, MopslockError, NotReleased
from .status import instant
from .terms import PermitRequest

if TYPE_CHECKING:
    from typing_extensions import Self

OWN = "a lease is this process's own: give its text to the other process, and accompany() it there"
PERMITS_OWN = "a permit is this process's own: another process acquires its own"
LATE = 0.05  # seconds after a deadline at which it is looked whether that was moved


class Lost:
    """An event that is set as soon as the lease can no longer be relied on: lost, released, or past its deadline.

    ``is_set`` looks at the clock itself, so it is also right in a process that was paused.
    """

    _caller = THREAD

    def __init__(self, held: HeldThing) -> None:
        self._held = held
        self._ended: Future[None] | None = None
        self._lock = threading.RLock()

    def is_set(self) -> bool:
        """Whether the lease can no longer be relied on."""
        return self._held.failure() is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until it is set, at most ``timeout`` seconds, and returns whether it is."""
        return run(self._wait(timeout))

    async def _wait(self, timeout: float | None) -> bool:
        if self.is_set():  # in a forked child it is, and there a thread that no longer exists may hold our lock
            return True
        with self._lock:
            if self._ended is None:
                ended: Future[None] = Future()
                self._held.when_ended(lambda _: ended.settle(None))
                self._ended = ended  # last: an interrupted call may begin again
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (left := end - time.monotonic()) > 0:
            if self._held.guarded:  # who is to tell of the loss may have been stopped
                left = min(left, max(self._held.left_ns() / SECOND, 0) + LATE)
            await self._caller.wait(self._ended, left if left < LONGEST / SECOND else None)
        return self.is_set()

    def __bool__(self) -> bool:
        return self.is_set()

    def __reduce__(self) -> Any:
        raise TypeError(OWN)


class HeldLease:
    """What a lease, a companion and a permit have in common, of threads and of tasks."""

    _caller = THREAD
    _home = "mopslock"  # where users find the class
    _lost: type[Lost] = Lost

    def __init__(self, held: HeldThing, block: Block) -> None:
        self._pid = os.getpid()
        self._held, self._block = held, block
        notifier.ready()
        self.lost = self._lost(held)
        """Event-like: set as soon as the lease can no longer be relied on."""
        if block.on_lost is not None:
            self.on_lost(block.on_lost)

    @property
    def name(self) -> str:
        """What is leased."""
        return self._held.name

    @property
    def holder(self) -> str:
        """The id of this tenure, fresh for each claim."""
        return self._held.holder

    @property
    def protocol(self) -> str:
        """How the lease is kept: ``strict`` or ``lastwriter``."""
        return self._held.protocol

    @property
    def fencing_token(self) -> int:
        """Greater for each tenure of the name than for the one before, and the same for all that keep one tenure alive.
        Let whatever the lease guards refuse a smaller one (see Guarded). 0 under lastwriter, which has none."""
        return self._held.token

    @property
    def epoch(self) -> int:
        """The newest known version of the tenure. It grows when a companion joins or leaves. 0 under lastwriter."""
        return self._held.epoch

    @property
    def session(self) -> str:
        """The id of the session that keeps the lease alive, or ""."""
        return self._held.session

    @property
    def ttl(self) -> float:
        """Seconds that the lease lives without a renewal, as its record says; 0 means until it is released or
        broken."""
        return max(0, self._held.ttl_ns) / SECOND

    @property
    def left(self) -> float:
        """Seconds that the lease can be relied on without another renewal: 0 or less once it is lost or ended, infinite
        without a TTL."""
        left = self._held.left_ns()
        return left / SECOND if left < LONGEST else math.inf

    @property
    def deadline(self) -> datetime:
        """When the lease counts as lost unless it is renewed before. Renewals extend it."""
        left = self.left
        if math.isinf(left):
            return datetime.max.replace(tzinfo=timezone.utc)
        return datetime.now(timezone.utc) + timedelta(seconds=left)

    def on_lost(self, call: OnLost) -> None:
        """Calls ``call(error)`` once, on a thread of ours, when the lease is lost, but not when it is released.

        All callbacks of a process run on one thread, one after the other: let none of them take long.
        """

        def tell(failure: MopslockError) -> None:
            if isinstance(failure, LeaseLost):
                notifier.call(lambda: call(failure))

        self._held.when_ended(tell)

    def check(self) -> None:
        """Raises LeaseLost, with the reason, once the lease is lost; LeaseEnded once it was ended here. Cheap."""
        failure = self._held.failure()
        if failure is not None:
            raise again(failure)

    async def _end(self, timeout: Duration | None) -> None:
        """Ends it, and waits for the store. It goes on to its end whatever interrupts the caller."""
        try:
            if self._is_parents():
                raise _texts.forked(self.name, self._held.what)
            seconds = None if timeout is None else nanoseconds("timeout", timeout) / SECOND
            over = self._held.finish()
            if not await self._caller.wait(over, seconds):
                raise not_released(self.name, self._held.what)
            over.result()
        except MopslockError as error:
            raise again(error) from None
        except BaseException:
            self._carry_on()
            raise

    def _carry_on(self) -> None:
        """An interrupt came, perhaps before the end had begun."""
        if not self._is_parents():
            self._held.finish()

    def _is_parents(self) -> bool:
        """A forked child also leaves the block, but the lease is the parent's."""
        return self._pid != os.getpid()

    def _enter(self) -> None:
        """The beginning of a block of it."""

    async def _end_block(self, error: BaseException | None) -> None:
        """The end of a block, with what that has raised."""
        try:
            await self._end(self._block.release_timeout)
        except MopslockError as ended:
            self._judge(ended, error)

    def _judge(self, ended: MopslockError, error: BaseException | None) -> None:
        """Decides whether the end of the lease is an error of the block that it guarded, whose own it never hides."""
        if isinstance(ended, Forked):
            return
        if not isinstance(ended, LeaseLost):
            log.warning("%s", ended)
        elif error is None and self._block.raise_if_lost:
            raise ended from None
        elif error is not None and error is not ended:
            with contextlib.suppress(Exception):  # the exception is the user's; before Python 3.11 it takes no notes
                getattr(error, "add_note")(str(ended))  # noqa: B009 - mypy knows Python 3.10

    def __del__(self) -> None:
        """Nobody has it any more. A finalizer runs inside of anything: it takes no lock, and begins no thread."""
        held: HeldThing | None = getattr(self, "_held", None)
        if held is not None and self._pid == os.getpid() and not sys.is_finalizing() and not held.is_given_back():
            notifier.forgotten(lambda: _vanished(held))

    def _state(self) -> str:
        failure = self._held.failure()
        if failure is not None:
            return type(failure).__name__
        return "held" if math.isinf(self.left) else f"held, {self.left:.1f}s left"

    def __repr__(self) -> str:
        return f"<{self._home}.{type(self).__name__} {self.name!r} {self._state()}>"

    def __reduce__(self) -> Any:
        raise TypeError(OWN)


class AcquiredLease(HeldLease):
    """What a lease and work have, and a companion does not."""

    @property
    def acquired(self) -> datetime:
        """When the claim was verified, by this machine's wall clock."""
        moment = instant(self._held.acquired_ns)
        assert moment is not None
        return moment

    @property
    def text(self) -> str:
        """What another process needs to accompany this lease, as one line of JSON: put it into that process's
        environment as MOPSLOCK_LEASE. It names the store, so it is as secret as the store's URL."""
        return self._held.handle().text()

    def _enter(self) -> None:
        """This thread or task waits for itself if it asks for it in there."""
        _inside.enter(self)


class OfThread(HeldLease):
    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        run(self._end_block(error))


class Lease(OfThread, AcquiredLease):
    """An exclusive claim on a name, kept alive until release, mopslock.close(), the end of the process, or its loss.

    It cannot stop code that never checks: look at ``lost`` or call ``check()`` before anything that must not be done
    twice. A lease object that is forgotten without a release is given back, and that is logged as a warning.
    """

    def release(self, timeout: Duration | None = RELEASE) -> None:
        """Ends the lease. Do not rely on it from the call on.

        It returns when the store has confirmed; a second call returns at once. LeaseLost: the lease had been lost
        before. NotReleased: the store has not confirmed within ``timeout`` seconds (None: no limit). We go on trying
        until the deadline, after which the lease expires.
        """
        run(self._end(timeout))


class Companion(OfThread):
    """Keeps another process's lease alive beside its holder, even after the holder dies. It never releases the lease.

    Losing contact with the store does not end it: it goes on trying, and ``left`` is negative meanwhile. ``lost`` is
    set only when the lease was seen to be released, or to belong to another tenure.
    """

    def leave(self, timeout: Duration | None = RELEASE) -> None:
        """Stops keeping the lease alive. The lease lives on. Errors are those of Lease.release."""
        run(self._end(timeout))


class Shared(HeldLease):
    """What Permit and its asyncio twin have in common."""

    _held: Any  # a permit of a host's

    @property
    def request(self) -> PermitRequest:
        """What was asked for."""
        request: PermitRequest = self._held.request
        return request

    @property
    def weight(self) -> int:
        """How many permits it takes."""
        return self.request.weight

    @property
    def total(self) -> int:
        """How many permits were held on the name when it was let in, counting it and those let in together with it."""
        total: int = self._held.total
        return total

    def __reduce__(self) -> Any:
        raise TypeError(PERMITS_OWN)

    def _state(self) -> str:
        return f"{self.weight} of {self.request.limit} {super()._state()}"


class Permit(OfThread, Shared):
    """A share of a semaphore's capacity, held until release, mopslock.close(), the end of the process, or its loss.

    It depends on this process's session, one heartbeat for everything on it, and is lost with the session: LeaseLost,
    as for a lease. It cannot stop code that never checks: look at ``lost`` or call ``check()``. ``holder`` is its id,
    fresh for each permit. ``fencing_token`` grows from one to the next, but is the same for those let in together. A
    permit object that is forgotten without a release is given back, and that is logged as a warning.
    """

    def release(self, timeout: Duration | None = RELEASE) -> None:
        """Gives it back. It returns when the store has confirmed; a second call returns at once. LeaseLost: the permit
        had been lost before. NotReleased: the store has not confirmed within ``timeout`` seconds (None: no limit). We
        go on trying until the session's deadline."""
        run(self._end(timeout))


L = TypeVar("L", bound=HeldLease)


def _vanished(held: HeldThing) -> None:
    """Gives back what was forgotten, as a Limiter's permit is, and logs that, unless it is a release that an interrupt
    cut. The fields are for programs."""
    if held.failure() is None:
        kind = held.what.split()[0]
        log.warning(
            "mopslock: %s %s has vanished without a release, and is given back; keep the object as long as you need it",
            held.what, _texts.quoted(held.name),
            extra={"mopslock_event": f"{kind}_vanished", "mopslock_name": held.name},
        )  # fmt: skip
    held.finish()


def not_released(name: str, what: str = _texts.LEASE) -> NotReleased:
    """The error for a release that takes too long."""
    return NotReleased(
        f"mopslock: {what} {_texts.quoted(name)} was not released in time; it is tried on, else it expires"
    )

"""Limits what this process does at once. Each name has permits, and each caller brings its own view of the name."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from . import _texts
from ._duration import Duration, waiting
from ._limits import Engine, Grant, Granted, PermitOwner, full
from ._permit_request import PermitRequest
from .errors import OutOfBuckets


class LimiterPermit(Grant):
    """Some permits of a name, held until ``release()``, the end of its ``with`` block, or the end of its holder: the
    given one, or its thread's (under asyncio its task's).

    If a thread or task forgets it, it gives its permits back, and logs a warning. Permits of a given holder stay with
    that holder.
    """

    __slots__ = ()

    @property
    def weight(self) -> int:
        """How many permits it takes."""
        return self.request.weight

    @property
    def total(self) -> int:
        """How many permits of the name all callers held, counting this one."""
        return self.held

    def release(self) -> None:
        """Gives it back. OutOfBuckets: it was given back before, or its holder has ended; nothing has changed."""
        self._engine.check()
        if not self.give_back():
            raise OutOfBuckets(f"mopslock: {_texts.quoted(self.name)}: the permit is not held any more")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._engine.mine():
            self.give_back()

    def __reduce__(self) -> Any:
        raise TypeError("a permit of a limiter is this process's own")

    def __repr__(self) -> str:
        return f"<mopslock.LimiterPermit {self.name!r} {self.weight} of {self.request.limit}>"


class Limiter:
    """Limits what this process does at once. A name has no size: each call brings its own view, ``capacity`` permits in
    each of ``width`` buckets. It is let in if all permits held, plus its own, are no more than capacity x width::

        limiter = mopslock.Limiter()

        with limiter.permit("db", capacity=50, width=3, wait=1.0):
            query()

    So no caller exceeds a limit that it knows. Views may differ and change at any time, and a smaller view evicts no
    holder. Nothing here touches a store; for a limit that processes share see ``mopslock.permit``.

    With ``fifo`` no call overtakes one that already waits for the name: one that waits for many permits holds up all
    that came after it. Without ``fifo`` each waiter is let in when its own view has room, in the order of arrival among
    those that fit.

    Permits belong to the thread that takes them, and are given back when it ends, unless a ``holder()`` takes them. Any
    thread may call any method. A name is any text without NUL. A limiter that was used before a fork is the parent's:
    in the child it raises Forked.

    The idea and the counters come from Fred Hebert's canal_lock.
    """

    def __init__(self, fifo: bool = False) -> None:
        self._fifo = bool(fifo)
        self._lock = threading.Lock()
        self._made: Engine | None = None  # with the first permit, which may come after a fork
        self._threads = threading.local()

    def _engine(self) -> Engine:
        made = self._made
        if made is None:
            with self._lock:
                made = self._made = self._made or Engine(fifo=self._fifo)
        return made

    def _own(self) -> PermitOwner:
        """This thread's holder. Only the thread refers to it, so it ends with the thread."""
        owner: PermitOwner | None = getattr(self._threads, "owner", None)
        if owner is None or not owner.handle:
            owner = self._threads.owner = PermitOwner(self._engine())
        return owner

    def permit(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = 0
    ) -> LimiterPermitting:
        """``weight`` permits of a name, all or none, for ``with``. Making the object takes no permits. Each block that
        uses it takes its own, in any thread.

        ``wait`` is the longest to wait for room, in seconds: 0 tries once, None waits until there is room. Entering
        raises Full, with ``held`` and ``limit``. This call raises BadArgument, and WeightExceedsLimit if weight is more
        than capacity x width.
        """
        return LimiterPermitting(self, None, name, PermitRequest(capacity, width, weight), wait)

    def acquire(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = None
    ) -> LimiterPermit:
        """Takes permits at once. By default it waits until there is room. Full: the wait is over, and nothing is
        held."""
        return self._take(self._own(), None, name, PermitRequest(capacity, width, weight), waiting(wait))

    def try_acquire(self, name: str, *, capacity: int, width: int = 1, weight: int = 1) -> LimiterPermit | None:
        """Takes permits if there is room. Otherwise it returns None."""
        return self._try(self._own(), None, name, PermitRequest(capacity, width, weight))

    def release(self, permit: LimiterPermit) -> None:
        """As permit.release()."""
        permit.release()

    def down(self) -> int:
        """Gives back everything that this thread holds, as its end does, and returns how many permits that were. Waits
        of other threads go on."""
        owner: PermitOwner | None = getattr(self._threads, "owner", None)
        return owner.down() if owner is not None and self._engine().mine() else 0

    def holder(self) -> LimiterHolder:
        """An owner of permits that does not depend on threads: it ends when you end it."""
        return LimiterHolder(self)

    def held(self, name: str) -> int:
        """How many permits of a name all callers hold."""
        return self._engine().look(name)[0]

    def waiting(self, name: str) -> int:
        """How many callers wait for permits of a name."""
        return self._engine().look(name)[1]

    def counters(self, name: str) -> list[int]:
        """canal_lock's counters of a name: what is held in each bucket that was ever reached, and one more than the
        capacity of the latest grant where a caller has walked past a full bucket since. At most 4096, and none for a
        name that is unknown or was forgotten."""
        return self._engine().counters(name)

    def _try(self, owner: PermitOwner, keeps: object, name: str, request: PermitRequest) -> LimiterPermit | None:
        engine = self._engine()
        grant = LimiterPermit(engine, name, request, keeps)
        return grant if engine.attempt(owner, grant) else None

    def _take(
        self, owner: PermitOwner, keeps: object, name: str, request: PermitRequest, wait_ns: int
    ) -> LimiterPermit:
        engine = self._engine()
        grant = LimiterPermit(engine, name, request, keeps)
        if engine.attempt(owner, grant):
            return grant
        if wait_ns:
            into = Granted()
            try:
                engine.waits.begin(owner, grant, wait_ns, into)
                if into.result():
                    return grant
            except BaseException:  # interrupted, perhaps in the instant in which it was granted
                abandon(into, grant)
                raise
        raise full(grant)

    def __reduce__(self) -> Any:
        raise TypeError("a limiter is this process's own; for one that processes share see mopslock.permit")


def abandon(into: Granted, grant: LimiterPermit) -> None:
    """No caller takes the permit: cancels the wait, or gives the permit back."""
    if not into.cancel():
        grant.give_back()


class LimiterHolder:
    """An owner of permits: for ``with``, or until ``down()``. Then everything that it holds is given back, and its
    waits raise Cancelled. If it is forgotten with permits it gives them back, and logs a warning."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._owner = PermitOwner(limiter._engine())

    def permit(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = 0
    ) -> LimiterPermitting:
        """As Limiter.permit, for this holder."""
        return LimiterPermitting(self._limiter, self, name, PermitRequest(capacity, width, weight), wait)

    def acquire(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = None
    ) -> LimiterPermit:
        """As Limiter.acquire, for this holder."""
        return self._limiter._take(self._owner, self, name, PermitRequest(capacity, width, weight), waiting(wait))

    def try_acquire(self, name: str, *, capacity: int, width: int = 1, weight: int = 1) -> LimiterPermit | None:
        """As Limiter.try_acquire, for this holder."""
        return self._limiter._try(self._owner, self, name, PermitRequest(capacity, width, weight))

    def down(self) -> int:
        """Ends it, gives back everything that it holds, and returns how many permits that were; 0 the second time."""
        self._limiter._engine().check()
        return self._owner.down()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._limiter._engine().mine():
            self._owner.down()

    def __del__(self) -> None:
        owner: PermitOwner | None = getattr(self, "_owner", None)
        if owner is not None:
            owner.vanish()

    def __reduce__(self) -> Any:
        raise TypeError("a holder of a limiter is this process's own")


class LimiterPermitting:
    """What Limiter.permit returns. Enter it as often as you like, even within itself and in many threads."""

    def __init__(
        self, limiter: Limiter, holder: LimiterHolder | None, name: str, request: PermitRequest, wait: Duration | None
    ) -> None:
        _texts.encode("name", name)
        self._limiter, self._holder, self._name, self._request = limiter, holder, name, request
        self._wait_ns = waiting(wait)
        self._inside = threading.local()

    def __enter__(self) -> LimiterPermit:
        limiter, holder = self._limiter, self._holder
        owner = limiter._own() if holder is None else holder._owner
        permit = limiter._take(owner, holder, self._name, self._request, self._wait_ns)
        entered = self._inside.__dict__.setdefault("entered", [])
        entered.append(permit)
        return permit

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        entered: list[LimiterPermit] = self._inside.__dict__.get("entered", [])
        if entered:  # otherwise a thread of the parent process entered it
            entered.pop().__exit__(kind, error, at)

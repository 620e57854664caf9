"""Limits what this process does at once. Each name has permits, and each caller brings its own view of the name."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from typing import Any

from . import _texts
from ._caller import run
from ._duration import Duration, waiting
from ._future import Bell
from ._limits import Engine, Grant, PermitOwner, refused
from ._units import FOREVER, SECOND
from .errors import Full, NotAcquired, OutOfBuckets
from .terms import PermitRequest


class LimiterPermit:
    """Some permits of a name, held until ``release()``, the end of its ``with`` block, or the end of its holder: the
    given one, or its thread's (under asyncio its task's).

    If a thread or task forgets it, it gives its permits back, and logs a warning. Permits of a given holder stay with
    that holder.
    """

    __slots__ = ("__weakref__", "_engine", "_grant", "_keeps")

    def __init__(self, engine: Engine, grant: Grant, owner: PermitOwner) -> None:
        self._engine, self._grant = engine, grant
        self._keeps = owner if owner.what else None  # a given holder lives as long as its permits

    @property
    def name(self) -> str:
        """Whose permits they are."""
        return self._grant.name

    @property
    def weight(self) -> int:
        """How many permits it takes."""
        return self._grant.request.weight

    @property
    def total(self) -> int:
        """How many permits of the name all callers held, counting this one."""
        return self._grant.total

    def release(self) -> None:
        """Gives it back. OutOfBuckets: it was given back before, or its holder has ended; nothing has changed."""
        self._engine.check()
        if not self._engine.give_back(self._grant):
            raise OutOfBuckets(f"mopslock: {_texts.quoted(self.name)}: the permit is not held any more")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._engine.mine():
            self._engine.give_back(self._grant)

    def __del__(self) -> None:
        if getattr(self, "_keeps", self) is None and self._grant in self._grant.among:
            self._engine.forget([self._grant], "permit", self.name)

    def __reduce__(self) -> Any:
        raise TypeError("a permit of a limiter is this process's own")

    def __repr__(self) -> str:
        return f"<mopslock.LimiterPermit {self.name!r} {self.weight} of {self._grant.request.limit}>"


class ThreadBell(Bell):
    async def rung(self, wait_ns: int) -> None:
        """Waits until it rings, or the wait is over."""
        self.wait(None if wait_ns == FOREVER else wait_ns / SECOND)


class Taker(ABC):
    """What can take permits: a limiter and its holders, those of threads and those of tasks."""

    _engine: Engine

    @abstractmethod
    def _owner(self) -> PermitOwner:
        """Whose the permits are."""

    def _asked(
        self, name: str, capacity: int, width: int, weight: int, wait: Duration | None
    ) -> tuple[str, PermitRequest, int]:
        """What is asked for, checked."""
        _texts.encode("name", name)
        return name, PermitRequest(capacity, width, weight), waiting(wait)

    async def _take(self, bell: Any, name: str, request: PermitRequest, wait_ns: int) -> LimiterPermit:
        engine, owner = self._engine, self._owner()
        permit = LimiterPermit(engine, grant := Grant(owner.grants, name, request), owner)
        try:
            if not engine.attempt(owner, grant, bell.ring if wait_ns else None):
                await bell.rung(wait_ns)
            if grant.held:
                return permit
            engine.give_back(grant)
            raise refused(owner, grant)
        except NotAcquired:
            raise
        except BaseException:  # interrupted or cancelled, perhaps in the instant in which it was granted
            engine.give_back(grant)
            raise

    def __reduce__(self) -> Any:
        raise TypeError("a limiter and its holders are this process's own; for one that processes share see permit()")


class Holding(Taker):
    """What the holder of threads and that of tasks have in common."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._owned = engine, PermitOwner(engine, "holder")

    def _owner(self) -> PermitOwner:
        return self._owned

    def down(self) -> int:
        """Ends it, gives back everything that it holds, and returns how many permits that were; 0 the second time."""
        self._engine.check()
        return self._owned.down()

    def _end(self) -> None:
        if self._engine.mine():
            self._owned.down()


class LimiterPermitting:
    """What Limiter.permit returns. Enter it as often as you like, even within itself and in many threads."""

    def __init__(self, taking: Taker, *asked: Any) -> None:
        self._taking, self._asked = taking, asked
        self._inside = threading.local()

    def __enter__(self) -> LimiterPermit:
        stack = self._inside.__dict__.setdefault("entered", [])
        permit = run(self._taking._take(ThreadBell(), *self._asked))
        stack += [permit]  # no call, after which an interrupt could come
        return permit

    def __exit__(self, *how: Any) -> None:
        if stack := self._inside.__dict__.get("entered"):  # otherwise a thread of the parent process entered it
            stack.pop().__exit__(*how)


class Taking(Taker):
    def permit(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = 0
    ) -> LimiterPermitting:
        """``weight`` permits of a name, all or none, for ``with``. Making the object takes no permits. Each block that
        uses it takes its own, in any thread.

        ``wait`` is the longest to wait for room, in seconds: 0 tries once, None waits until there is room. Entering
        raises Full, with ``held`` and ``limit``. This call raises BadArgument, and WeightExceedsLimit if weight is more
        than capacity x width.
        """
        return LimiterPermitting(self, *self._asked(name, capacity, width, weight, wait))

    def acquire(
        self, name: str, *, capacity: int, width: int = 1, weight: int = 1, wait: Duration | None = None
    ) -> LimiterPermit:
        """Takes permits at once. By default it waits until there is room. Full: the wait is over, and nothing is
        held."""
        return run(self._take(ThreadBell(), *self._asked(name, capacity, width, weight, wait)))

    def try_acquire(self, name: str, *, capacity: int, width: int = 1, weight: int = 1) -> LimiterPermit | None:
        """Takes permits if there is room. Otherwise it returns None."""
        try:
            return self.acquire(name, capacity=capacity, width=width, weight=weight, wait=0)
        except Full:
            return None


class Limiter(Taking):
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
        self._engine = Engine(fifo=bool(fifo))
        self._threads = threading.local()

    def _owner(self) -> PermitOwner:
        """This thread's. Only the thread refers to it, so it ends with the thread."""
        owner: PermitOwner | None = getattr(self._threads, "owner", None)
        if owner is None or owner.ended:
            owner = self._threads.owner = PermitOwner(self._engine)
        return owner

    def down(self) -> int:
        """Gives back everything that this thread holds, as its end does, and returns how many permits that were. Waits
        of other threads go on."""
        owner: PermitOwner | None = getattr(self._threads, "owner", None)
        return owner.down() if owner is not None and self._engine.mine() else 0

    def release(self, permit: LimiterPermit) -> None:
        """As permit.release(). It never waits."""
        permit.release()

    def held(self, name: str) -> int:
        """How many permits of a name all callers hold."""
        found = self._engine.look(name)
        return found.held if found is not None else 0

    def waiting(self, name: str) -> int:
        """How many callers wait for permits of a name."""
        found = self._engine.look(name)
        return len(found.line) if found is not None else 0

    def counters(self, name: str) -> list[int]:
        """canal_lock's counters of a name: what is held in each bucket that was ever reached, and one more than the
        capacity of the latest grant where a caller has walked past a full bucket since. At most 4096, and none for a
        name that is unknown or was forgotten."""
        found = self._engine.look(name)
        return list(json.loads(found.counters)) if found is not None else []

    def holder(self) -> LimiterHolder:
        """An owner of permits that does not depend on threads: it ends when you end it."""
        return LimiterHolder(self._engine)


class LimiterHolder(Taking, Holding):
    """An owner of permits: for ``with``, or until ``down()``. Then everything that it holds is given back, and its
    waits raise Cancelled. If it is forgotten with permits it gives them back, and logs a warning."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

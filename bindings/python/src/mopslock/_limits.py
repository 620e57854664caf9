"""The limiter's engine: whose permits are, and who waits for some. How many of a name are held, and whether there is
room for more, is for the core to say: each name has a machine ``buckets``, whose only holder is this process.

No thread belongs to it: a call is made by its caller's thread, and hands what it gives back to the callers in line.

The main thread can be interrupted after any call. What it leaves half done is done by the next call of any thread: a
grant that is over stays in a queue until it was given back, and a machine that holds more than its name's grants do,
after a step whose answer was lost, has the rest taken from it.
"""

from __future__ import annotations

import _thread
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from . import _texts
from ._log import log
from ._machine import Machine
from .errors import Cancelled, Forked, Full, NotAcquired
from .terms import _MOST_LIMIT, PermitRequest

LEAST_SWEEP = 64  # how many names there are before we look which of them can be forgotten
_NOW: dict[str, str | int] = {"mono": 0, "wall": 0}  # buckets know no time


@dataclass(slots=True, eq=False)
class Grant:
    """Permits that were asked for, and are waited for or held."""

    among: set[Grant]  # all of its owner's
    name: str
    request: PermitRequest
    at: Name | None = None
    held: bool = False
    total: int = 0  # how many permits all callers held: with these, or when there was no room
    tell: Callable[[], object] = bool  # a caller that waits: it has them, or its wait is over


class Name:
    __slots__ = ("counters", "held", "holds", "line", "machine", "most")

    def __init__(self) -> None:
        self.machine = Machine({"machine": "buckets", "protocol": "strict", "seed": os.urandom(16)})
        self.holds: int | None = 0  # what the machine holds: None from before a step until its answer was read
        self.held = 0  # what grants hold
        self.counters = b"[]"
        self.line: dict[Grant, int] = {}  # in order of arrival: how much may be held while there is room for it
        self.most = -1  # while more than that is held, there is room for none in the line

    def take(self, grant: Grant) -> bool:
        """Lets the grant have its permits, if there is room."""
        self.settle()
        view = grant.request
        asked = {"capacity": view.capacity, "width": view.width, "weight": view.weight}
        if self._step({**_NOW, "kind": "acquire", **asked}) != "granted":
            return False
        grant.held, self.held = True, self.held + view.weight  # no call stands between these two
        grant.total = self.held
        return True

    def settle(self) -> None:
        """Takes from the machine what no grant holds."""
        if self.holds is None:
            self._step({**_NOW, "kind": "woke"})
        if self.holds != self.held:
            self._step({**_NOW, "kind": "release", "weight": (self.holds or 0) - self.held})

    def _step(self, given: dict[str, str | int]) -> str:
        self.holds = None
        actions = self.machine.step(given)
        self.holds, self.counters = actions[-1].get("total", 0), actions[-1]["body"]
        return str(actions[0]["kind"])


class PermitOwner:
    """What permits belong to. Its end, also by being forgotten, gives back everything that it holds."""

    __slots__ = ("_engine", "ended", "grants", "what")

    def __init__(self, engine: Engine, what: str = "") -> None:
        """what names it in the warning when it is forgotten; a thread's or a task's own has none."""
        self._engine, self.what, self.ended = engine, what, False
        self.grants: set[Grant] = set()
        engine.check()

    def down(self) -> int:
        self.ended = True  # before we look what it has: see Engine.attempt
        waits_first = sorted(self.grants.copy(), key=lambda grant: grant.held)  # what is freed lets none of them in
        return self._engine.give_back(*waits_first)

    def __del__(self) -> None:
        if getattr(self, "grants", None):
            self._engine.forget(self.grants.copy(), self.what, "")


class Engine:
    def __init__(self, *, fifo: bool) -> None:
        self._fifo = fifo
        self._pid = 0  # of the process that has used it first
        self._lock = threading.Lock()
        self._inside = 0  # the thread that has the lock
        self._sweep_at = LEAST_SWEEP
        self._over: deque[tuple[Grant, list[int]]] = deque()  # what is to be given back, and where to say how much
        self.names: dict[str, Name] = {}

    def mine(self) -> bool:
        """No other process has used it, and then forked this one."""
        return self._pid in (0, os.getpid())

    def check(self) -> None:
        """Makes it this process's. Forked: it is another's."""
        if not self.mine():
            raise Forked(
                "mopslock: the limiter was used by the parent process before it forked, and stays its own; "
                "make another in this process"
            )
        self._pid = self._pid or os.getpid()

    def load(self) -> None:
        self.names.setdefault("", Name())

    def attempt(self, owner: PermitOwner, grant: Grant, tell: Callable[[], object] | None = None) -> bool:
        """Whether the grant got its permits. If not, and with tell, it stands in line until it is held, or over; then
        tell is called, perhaps more than once. If that raises RuntimeError, nobody takes the permits. A caller that
        does not want them any more calls give_back."""
        self.check()
        if self._inside == (me := threading.get_ident()):  # a signal's handler has interrupted a call of this thread
            if tell is not None:
                tell()
            return False
        with self._lock:
            self._inside = me
            try:
                self._clear()
                name = grant.at = self._name(grant.name)
                grant.among.add(grant)
                if owner.ended:  # if it ends from now on, it finds the grant
                    raise refused(owner, grant)
                if not (self._fifo and name.line) and name.take(grant):
                    return True
                grant.total = name.held
                if tell is not None:
                    grant.tell = tell
                    slack = name.line[grant] = grant.request.limit - grant.request.weight
                    name.most = max(name.most, slack)
                return False
            finally:
                self._inside = 0

    def give_back(self, *grants: Grant) -> int:
        """Takes grants out of the line, or gives back their permits. Returns how many permits that were."""
        freed: list[int] = []
        try:
            self._over.extend([(grant, freed) for grant in grants])
            if not self.tend():
                return sum(grant.request.weight for grant in grants if grant.held)
        except BaseException:  # interrupted: others may wait for it
            self.tend()
            raise
        return sum(freed)

    def forget(self, grants: Iterable[Grant], what: str, name: str) -> None:
        """As give_back, for a finalizer, which runs inside of anything and takes no lock. It warns of a what."""
        if self.mine() and not sys.is_finalizing():
            freed: list[int] = []
            self._over.extend([(grant, freed) for grant in grants])
            with suppress(RuntimeError):  # without another thread the next call does it
                _thread.start_new_thread(self._forgotten, (freed, what, name))

    def _forgotten(self, freed: list[int], what: str, name: str) -> None:
        self.tend()
        if what and freed:
            of = f" of {_texts.quoted(name)}" if name else ""
            log.warning(
                "mopslock: a %s%s has vanished without a release; permits that are free again: %d",
                what, of, sum(freed),
                extra={"mopslock_event": f"{what}_vanished", "mopslock_name": name, "mopslock_permits": sum(freed)},
            )  # fmt: skip

    def tend(self) -> bool:
        """Gives back what is over, and lets in those for whom there is room then. False: the call of this thread does
        it that a signal's handler has interrupted."""
        me = threading.get_ident()
        if self._inside == me or self._pid < 0:
            return False
        with self._lock:
            self._inside = me
            try:
                self._clear()
                return True
            finally:
                self._inside = 0

    def look(self, name: str) -> Name | None:
        _texts.encode("name", name)
        self.check()
        self.tend()
        return self.names.get(name)

    def _name(self, name: str) -> Name:
        _texts.encode("name", name)
        found = self.names.get(name)
        if found is None:
            if len(self.names) >= self._sweep_at:
                for key in [key for key, one in self.names.items() if one.holds == 0 and not one.line]:
                    self.names.pop(key).machine.drop()
                self._sweep_at = max(LEAST_SWEEP, 2 * len(self.names))  # so a name costs the same, however many
            found = self.names[name] = Name()
        return found

    def _clear(self) -> None:
        """Does what is to be done with each grant that is over. It may be done once more after an interrupt."""
        while self._over:
            grant, freed = self._over[0]
            name = grant.at
            if name is not None:
                if grant in name.line:
                    grant.total = name.held
                    with suppress(RuntimeError):
                        grant.tell()
                    del name.line[grant]
                if grant.held:
                    grant.held, name.held = False, name.held - grant.request.weight
                    freed.append(grant.request.weight)
                name.settle()
                self._serve(name)
                grant.among.discard(grant)
            self._over.popleft()

    def _serve(self, name: Name) -> None:
        """Lets callers of the line in for whom there is room, in order of arrival. Those that do not fit are passed
        over, but with fifo."""
        while name.held <= name.most:
            for grant, slack in itertools.islice(name.line.items(), 1 if self._fifo else None):
                if grant.held or name.held <= slack:
                    break
            else:
                name.most = max(name.line.values(), default=-1)
                return
            most, name.most = name.most, _MOST_LIMIT  # so that we come by here again if we are interrupted
            if grant.held or name.take(grant):
                try:
                    grant.tell()
                except RuntimeError:
                    self._over.append((grant, []))
                del name.line[grant]
            name.most = most

    def __del__(self) -> None:
        if hasattr(self, "names") and self.mine() and not sys.is_finalizing():
            self._pid = -1  # what was forgotten together with it needs nothing
            for name in self.names.values():
                name.machine.drop()


def refused(owner: PermitOwner, grant: Grant) -> NotAcquired:
    """The error for a permit that was not let in."""
    if owner.ended:
        return Cancelled(
            "mopslock: permit not acquired: its holder has ended, and so has all that it held", reason="cancelled"
        )
    request = grant.request
    wanted = f", {request.weight} wanted" if request.weight > 1 else ""
    return Full(
        f"mopslock: {_texts.quoted(grant.name)} is full: {grant.total}/{request.limit} held{wanted}",
        held=grant.total, limit=request.limit, weight=request.weight,
    )  # fmt: skip

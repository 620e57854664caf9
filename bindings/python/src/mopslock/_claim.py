"""One machine on a store that Python talks to: what it asks is done, what it says is told."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from . import _texts
from ._clock import Clock
from ._keeper import Timer
from ._machine import Machine
from ._member import Asked, Ended, Member, Waits, settle
from ._notify import notifier, quietly
from .errors import EngineFailed, MopslockError
from .status import of_sight
from .stores import MOST, Store, class_of

if TYPE_CHECKING:
    from ._stepped import SteppedHost

log = logging.getLogger("mopslock")

Event = dict[str, Any]
Action = dict[str, Any]

NEVER = 1 << 62

MOST_RUNNING = 2
"""Requests of one claim at once: of those that hang, which must not use up the workers of all."""


def origin() -> dict[str, Any]:
    """What our records tell people about their writer."""
    name = socket.gethostname().removesuffix(".local") or "unknown"
    return {"host": name[:256], "pid": str(os.getpid()), "tid": threading.get_ident()}


def config(
    machine: str, name: str, terms: Mapping[str, Any], *, holder: str = "", role: str = "", stamp_unit: int = 0
) -> Event:
    """A Config in the core's order of keys."""
    fields: Event = {"machine": machine, "protocol": "lastwriter", **({"name": name} if name else {}), **terms}
    for key, value in (("stamp_unit_ns", stamp_unit), ("holder", holder), ("role", role)):
        if value:
            fields[key] = value
    return {**fields, **origin()}


def perform(store: Store, action: Action) -> Event:
    """Does one request. What is not the store's word is unknown."""
    answer: Event = {"kind": "answer", "request": action["request"], "outcome": "yes"}
    try:
        if action["kind"] == "put":
            store.put(action["key"], action["body"])
            return answer
        found = store.get(action["key"])
        if found is None:
            answer["outcome"] = "no"
            return answer
        body, stamp = (found, 0) if isinstance(found, (bytes, bytearray, memoryview)) else found
        body, stamp = bytes(body[:MOST]), int(stamp or 0)
        if not 0 <= stamp < NEVER:
            raise ValueError(f"{stamp} is no time in nanoseconds since 1970")
    except Exception as error:
        log.debug("mopslock: %s of %s failed", action["kind"], action["key"], exc_info=True)
        return unknown(action, class_of(error), error)
    if stamp:
        answer["stamp_ns"] = stamp
    if body:
        answer["body"] = body
    return answer


def attempt(store: Store, action: Action, clock: Clock, limit: int) -> Event:
    """A request on a worker, which ends with an answer whatever the store raises.

    One that has waited too long is not begun: the name may be another's by now.
    """
    if clock.mono() >= limit:
        return unknown(action, "unreachable")
    try:
        return perform(store, action)
    except BaseException as error:  # asyncio's CancelledError is none of Exception
        return unknown(action, "other", error)


def unknown(action: Action, class_: str, error: BaseException | None = None) -> Event:
    """The answer to a request whose fate nobody knows."""
    answer = {"kind": "answer", "request": action["request"], "outcome": "unknown", "class": class_}
    if error is not None:
        answer["error"] = error
    return answer


class Claim(Member):
    """A member of a SteppedHost: a lease, a companion, or the release of a printed lease.

    Only one thread steps it: at first, perhaps, the one that acquires (Drive), then the keeper (adopt).
    """

    __slots__ = (
        "_begun", "_belief", "_calls", "_flight", "_limit", "_lock", "_machine", "_next", "_pid", "_running",
        "_timer", "_waits", "_wake", "acquired_ns", "bell", "cause", "fresh", "guarded", "holder", "host",
        "hurried", "name", "over", "seed", "settled", "store", "store_object", "title", "ttl_ns", "waiting",
    )  # fmt: skip

    def __init__(
        self, host: SteppedHost, store: Store, fields: Event, *, guarded: bool, waits: Waits | None, into: Asked
    ) -> None:
        self.host, self.store_object, self.store = host, store, host.url
        self.name: str = fields.get("name", "")
        self.title = str(getattr(store, "title", "") or self.name)  # what people are told of
        self.guarded = guarded  # a deadline ends it; a companion's is only bad news
        self.seed = os.urandom(16)
        self._machine = Machine({**fields, "seed": self.seed})
        self.holder = fields.get("holder") or str(uuid.UUID(bytes=self.seed, version=4))
        self.ttl_ns, self.acquired_ns = fields["ttl_ns"], 0
        self.settled = into  # held or joined, or not
        self.over: Future[None] = Future()  # released or left, or lost
        self.fresh = True  # not held or joined before
        self.waiting = False
        self.cause: BaseException | None = None  # what the store said last
        self._pid = os.getpid()
        self._belief: tuple[int, MopslockError | None] = (0, None)  # deadline and failure, read together
        self._lock = threading.RLock()
        self._timer: Timer | None = None  # of its wake
        self._limit: Timer | None = None  # of its request
        self._calls: list[Ended] | None = []
        self._waits = waits
        self._wake = NEVER
        self._flight = 0
        self._running = 0  # requests on workers; more than one when the store has not answered in time
        self._next: tuple[Action, int] | None = None  # until one of them comes back
        self.bell: threading.Event | None = None  # of one that is driven: see Drive
        self.hurried = False  # the host is closing
        self._begun = False

    # What anybody may call.

    def left_ns(self) -> int:
        """From the deadline, which renewals move."""
        deadline, failure = self._belief
        left = deadline - self.host.clock.mono()
        return left if failure is None and self._pid == os.getpid() else min(left, 0)

    def failure(self) -> MopslockError | None:
        """Looks at the clock itself, so that a keeper that is late changes nothing."""
        if self._pid != os.getpid():
            return _texts.forked(self.title)
        while True:
            deadline, failure = self._belief
            if failure is not None or not self.guarded or self.host.clock.mono() < deadline:
                return failure
            if not self.host.look(self):  # the keeper may be about to tell of a renewal that came in time
                return self._give_up()

    def _give_up(self) -> MopslockError:
        """The keeper does not answer, and the deadline is behind us: it is lost, whatever it says later."""
        self._end(_texts.lost(self.title, "expired", None))
        self.host.keeper.post(lambda: self.farewell(brief=False))  # should it have been renewed all the same
        failure = self._belief[1]
        assert failure is not None
        return failure

    def when_ended(self, tell: Ended) -> None:
        """On the thread that ends it."""
        if self._pid != os.getpid():
            raise _texts.forked(self.title)
        with self._lock:
            if self._calls is not None:
                self._calls.append(tell)
                return
        failure = self._belief[1]
        assert failure is not None
        tell(failure)

    def finish(self) -> Future[None]:
        """Belief ends before anything is written that lets others in."""
        self._let_go()
        self.host.keeper.post(lambda: self.farewell(brief=False))
        return self.over

    def _let_go(self) -> None:
        with self._lock:
            deadline, failure = self._belief
            if failure is not None or (self.guarded and self.host.clock.mono() >= deadline):
                return
            self._belief = (deadline, _texts.ended(self.title))
        self._tell_ended()

    # What its one thread calls.

    def step(self, event: Event) -> Action | None:
        """Tells the machine what happened, tells others what it says, and returns the request that it makes."""
        self._begun = True
        error = event.pop("error", None)
        self.cause = error if error is not None else self.cause
        clock = self.host.clock
        actions = self._machine.step({"mono": clock.mono(), "wall": clock.wall(), **event})
        self._wake, request = NEVER, None
        for action in actions:
            kind = action["kind"]
            if kind in ("get", "put"):
                request = action
            elif kind == "wake":
                self._wake = action["at_ns"]
            else:
                _NOTICES[kind](self, action)
        if self._machine.idle:
            self._machine.drop()
            self._wake = NEVER
            self.host.forget(self)
        return request

    @property
    def gone(self) -> bool:
        """The machine waits for nothing any more."""
        return self._machine.idle and self.over.done()

    @property
    def wake(self) -> int:
        """When it wants to be woken."""
        return self._wake

    def will_be_driven(self) -> None:
        """By the thread of whoever made it. It gets a bell, which is how others reach it meanwhile."""
        self.bell = self.bell or threading.Event()

    def change(self) -> None:
        """Somebody in this process released the name. From any thread."""
        bell = self.bell
        if bell is not None:
            bell.set()
        else:
            self.host.keeper.post(lambda: self.feed({"kind": "changed"}))

    def key(self) -> tuple[int, str]:
        """What it claims, among all that this process does."""
        return (id(self.store_object), self.name)

    def forget_machine(self) -> None:
        """It was never begun, or nobody knows how far it came."""
        self._end(_texts.ended(self.title))
        self._machine.drop()
        self._machine.idle = True
        settle(self.over, None)

    def hurry(self) -> None:
        """The process is about to end, or the store is closed."""
        self.hurried = True
        self._let_go()
        bell = self.bell
        if bell is not None:
            bell.set()
        else:
            self.host.keeper.post(lambda: self.farewell(brief=True))

    def adopt(self) -> None:
        """The keeper steps it from now on."""
        self.host.keeper.post(self._adopted)

    def _adopted(self) -> None:
        self.bell = None
        self._schedule(None)
        if self.hurried:  # the bell has told nobody
            self.farewell(brief=True)

    def feed(self, event: Event) -> None:
        """One step on the keeper's thread, with all that follows from it."""
        if self.gone:
            return
        try:
            request = self.step(event)
        except EngineFailed as error:  # an error of ours, of which somebody who waits has to hear
            self._fail(error)
            self.forget_machine()
            self.host.forget(self)
            raise
        self._schedule(request)

    def farewell(self, *, brief: bool) -> None:
        """Asks the machine to end: a lease by releasing, a companion by leaving."""
        if self.gone:
            return
        if not self._begun:
            self._fail(_texts.closed())
            self._machine.drop()
            self.host.forget(self)
            return
        event: Event = {"kind": "release" if self.guarded else "leave"}
        if brief and self.guarded:
            event["brief"] = True
        self.feed(event)

    def _schedule(self, request: Action | None) -> None:
        keeper = self.host.keeper
        keeper.take_back(self._timer)
        self._timer = keeper.at(self._wake, self._woke) if self._wake != NEVER else None
        if request is None:
            return
        number = self._flight = request["request"]
        limit = self.host.clock.mono() + request["limit_ns"]
        keeper.take_back(self._limit)
        self._limit = keeper.at(limit, lambda _: self._answered(number, unknown(request, "unreachable")))
        if self._running < MOST_RUNNING:
            self._submit(request, limit)
        else:
            self._next = (request, limit)

    def _submit(self, request: Action, limit: int) -> None:
        self._running += 1
        self.host.submit_to(self.store_object)(lambda: self._request(request, limit))

    def _woke(self, at: int) -> None:
        if at == self._wake:  # a later step may have asked for another
            self.feed({"kind": "woke"})

    def _request(self, request: Action, limit: int) -> None:
        """On a worker."""
        answer = attempt(self.store_object, request, self.host.clock, limit)
        self.host.keeper.post(lambda: self._came_back(request["request"], answer))

    def _came_back(self, number: int, answer: Event) -> None:
        self._running -= 1
        held_back, self._next = self._next, None
        if held_back is not None and held_back[0]["request"] == self._flight:
            self._submit(*held_back)
        self._answered(number, answer)

    def _answered(self, number: int, answer: Event) -> None:
        """The first answer counts: the store's, or that its time is over."""
        if self._flight == number:
            self._flight = 0
            self.host.keeper.take_back(self._limit)
            self.feed(answer)

    # What the machine tells.

    def _waiting(self, action: Action) -> None:
        self.waiting = True
        self.host.waits(self)
        if self._waits is not None and (sight := action.get("sight")):
            tell, status = self._waits, of_sight(self.name, sight, self.host.clock.wall())
            notifier.call(lambda: tell(status))

    def _held(self, action: Action) -> None:
        self.waiting = False
        self._renewed(action)
        self.acquired_ns = self.acquired_ns or action["wall_ns"]
        if self.fresh:
            self.fresh = False
            if not settle(self.settled, self):  # nobody waits for it any more
                self.host.keeper.post(lambda: self.farewell(brief=False))

    def _renewed(self, action: Action) -> None:
        with self._lock:
            self._belief = (action["at_ns"], self._belief[1])

    def _refused(self, action: Action) -> None:
        reason, class_ = action["reason"], action.get("class", "")
        if reason == "cancelled" and self.hurried:
            self._fail(_texts.closed())
            return
        self._fail(_texts.refused(self.title, reason, class_, self._seen(action), self.cause))

    def _cannot_maintain(self, action: Action) -> None:
        self._fail(_texts.cannot_maintain(self.title, action["reason"], action.get("class", ""), self.cause))

    def _lost(self, action: Action) -> None:
        error = _texts.lost(self.title, action["reason"], self._seen(action))
        if not self.fresh:  # what was never held, or is only to be released, is not lost to anybody
            log.warning("%s", error)
        self._fail(error)

    def _fail(self, error: MopslockError) -> None:
        error.__cause__ = self.cause
        self.waiting = False
        self._end(error)
        settle(self.settled, error)
        settle(self.over, error)

    def _released(self, _: Action) -> None:
        self._end(_texts.ended(self.title))
        settle(self.settled, _texts.closed())
        settle(self.over, None)
        self.host.wake_waiters(self)

    def _contact_lost(self, _: Action) -> None:
        log.warning("mopslock: lease %s: the store cannot be reached; trying on", _texts.quoted(self.title))

    def _warned(self, action: Action) -> None:
        if action["reason"] == "ttl_differs":
            ttl = action["sight"].get("ttl_ns", 0) / 1e9
            log.warning(
                "mopslock: lease %s: the record has a TTL of %g s, ours is %g s; everybody on a name should use one",
                _texts.quoted(self.title), ttl, self.ttl_ns / 1e9,
            )  # fmt: skip
        else:
            log.warning("mopslock: lease %s: %s of %s", _texts.quoted(self.title), action["reason"], action.get("key"))

    def _seen(self, action: Action) -> Any:
        sight = action.get("sight")
        return of_sight(self.name, sight, self.host.clock.wall()) if sight else None

    def _end(self, failure: MopslockError) -> None:
        with self._lock:
            if self._belief[1] is not None:
                return
            self._belief = (self._belief[0], failure)
        self._tell_ended()

    def _tell_ended(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, None
            failure = self._belief[1]
        assert failure is not None
        for tell in calls or ():
            quietly(tell, failure)


_NOTICES: dict[str, Callable[[Claim, Action], None]] = {
    "waiting": Claim._waiting,
    "held": Claim._held,
    "renewed": Claim._renewed,
    "deadline": Claim._renewed,
    "refused": Claim._refused,
    "lost": Claim._lost,
    "released": Claim._released,
    "contact_lost": Claim._contact_lost,
    "cannot_maintain": Claim._cannot_maintain,
    "left": Claim._released,
    "warned": Claim._warned,
}

"""The core's client of one store, stepped by the thread that has news, which begins what it asks for.

News are a caller's command, a store's answer, and that time has passed. Threads of ours bring them, one at a time::

    with the lock:  read the clocks, step, again while there is more; tell the claims; note the wake
    without it:     go on with the first request on this thread, and hand the others to other threads

A caller puts its command into the inbox and has a thread look there, so commands keep their order, and a caller that is
interrupted has either commanded or not. What a claim is told under the lock may not wait, and asks no store; it may
command, since that is only put into the inbox.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from .. import _texts
from .._future import Future
from .._host_interface import Host
from .._log import log
from .._machine import Machine
from .._units import SECOND
from .._workers import Do
from ..errors import EngineFailed, MopslockError
from .clock import Clock
from .threads import Lane, Sleeper
from .verbs import NEVER, READS, REQUESTS, RESULTS, Action, Event, attempt, can, unknown

IN_FLIGHT = 32
"""Requests of one store under way at once, without transfers."""

LIMITS = 3
"""Limits of a request for which it is waited for while threads of ours are held up, as by C calls that keep the GIL. So
many fit before a deadline."""

HELD_UP, LOOKS = 10_000_000, 16
"""A thread that comes so many nanoseconds late was held up. Two looks in a row must be on time, the second one such a
part of the limit later, before a request is given up."""

NAP = 2_000_000
"""Nanoseconds for which who has stepped waits by itself, since a change of threads takes as long."""

LOOK = 1.0
"""Seconds that a caller past its deadline waits to be told what happened."""

WOKE: Event = {"kind": "woke"}


class Session:
    """One heartbeat of many claims: until when all that stand on it may be relied on."""

    __slots__ = ("until",)

    def __init__(self, until: int) -> None:
        self.until = until


class Claim:
    """What the client has a number for. All of it happens under the client's lock."""

    if not TYPE_CHECKING:  # which cannot see that its classes have them
        __slots__ = ()

    number: int
    """From when it is begun."""
    cause: BaseException | None
    """What the store raised last."""

    def hear(self, action: Action) -> bool:
        """What the client says of it. True: that is the last word."""
        raise NotImplementedError

    def fail(self, error: MopslockError) -> None:
        """It could not be begun, or the client has failed."""
        raise NotImplementedError

    def hurry(self) -> None:
        """The store is closed, or the process is about to end: it may not be relied on any more."""

    def is_wanted(self) -> bool:
        """It was not given up before it was begun."""
        return True

    def result(self) -> bytes | None:
        """The output of work, which is to be stored."""
        return None

    def answered(self, action: Action, answer: Event) -> None:
        """The store has answered a request for it."""


class Share(Protocol):
    """The threads that a client is given."""

    naps: bool
    sleeper: Sleeper

    def soon(self, job: Do, /) -> object:
        """Has something done, on another thread."""

    def expect(self, client: Any, /) -> object:
        """Wakes it when it is due."""

    def lane(self, *, transfer: bool) -> Lane:
        """In which requests are under way."""


class Request:
    """A request that is under way."""

    __slots__ = ("action", "body", "client", "key", "lane", "last", "late", "limit", "look", "on_time", "renews")

    def __init__(self, client: Client, action: Action, body: bytes | None, now: int) -> None:
        self.client, self.action, self.body = client, action, body
        limit = action["limit_ns"]
        self.last = now + LIMITS * limit  # when it is not waited for any more
        self.limit = self.last if action["kind"] in READS else now + limit  # when it is not begun any more
        self.look = now + limit - limit // LOOKS  # when a thread looks whether it was answered
        self.on_time = False  # the last one that looked
        self.key: str = action["key"]
        self.renews = action.get("purpose") == "renewal"
        self.late = False
        self.lane = client.lane(action)

    def is_hopeless(self, now: int) -> bool:
        """Looks. A look that comes late was held up, and so may the answer be: another request would be as slow."""
        was_on_time, self.on_time = self.on_time, now - self.look <= HELD_UP
        limit: int = self.action["limit_ns"]
        self.look = min(self.last, now + (limit // LOOKS if self.on_time else limit))
        return now >= self.last or (was_on_time and self.on_time)

    def start(self) -> None:
        """On a thread that goes on with it."""
        if self.client.is_under_way(self) and self.lane.take(self):
            self.perform()

    def perform(self) -> None:
        """Asks the store, tells the client, and goes on with what that asks for."""
        client = self.client
        request: Request | None = self
        while request is not None:
            if client.is_under_way(request) and client.clock.mono() < request.limit:
                answer, error = attempt(client.store, request.action, request.body)
            else:  # nobody waits for it, or another may hold the name by now
                answer, error = unknown(request.action), None
            if (held_back := request.lane.leave(request)) is not None:
                client.threads.soon(held_back.perform)
            request = client.news(request, answer, error) or client.nap()
            if request is not None and not request.lane.take(request):
                return


class Client:
    """All that this process does with one store."""

    def __init__(self, store: Any, clock: Clock, threads: Share, seed: bytes = b"") -> None:
        self.store, self.clock, self.threads = store, clock, threads
        self.url = str(getattr(store, "url", None) or repr(store))
        self.host: Host
        self.sessions: dict[int, Session] = {}
        self.claims: dict[int, Claim] = {}
        self.closing = False
        self.closed: Future[None] = Future()
        self.cause: BaseException | None = None  # what the store raised last
        self._seed = seed
        self._machine: Machine | None = None
        self._stepping = threading.Lock()  # held by threads of ours alone
        self._stepper = 0  # which of them
        self._inbox: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._called = False  # a thread is on its way to the inbox
        self._under_way: dict[int, Request] = {}
        self._asked: list[Request] = []  # by the steps of this turn
        self.expected = NEVER  # when the sleeper will look, as it was told
        self._wake = NEVER
        self._limit = NEVER  # no request is to be looked at before
        self._napping = False
        self._mono = 0
        self._last = 0

    def _config(self) -> Event:
        store, able = self.store, can(self.store)
        fields = {
            "machine": "client",
            "stamp_unit_ns": int(getattr(store, "stamp_unit_ns", 0)),
            "boot": str(getattr(self.clock, "boot", "")),
            "own_store": able and getattr(store, "creates", False) is True,
            "no_create": not able,
            "no_list": not callable(getattr(store, "list", None)),
            "samples": getattr(store, "store_clock", False) is True,
            "in_flight": IN_FLIGHT,
            "host": (socket.gethostname().removesuffix(".local") or "unknown")[:256],
            "pid": str(os.getpid()),
            "tid": threading.get_ident(),
            "seed": self._seed or os.urandom(16),
        }
        return {key: value for key, value in fields.items() if value}

    def lane(self, action: Action) -> Lane:
        """In which a request is under way."""
        return self.threads.lane(transfer=action["kind"] in RESULTS)

    # What any thread may call.

    def begin(self, claim: Claim, command: Event, terms: Event) -> None:
        """Begins a claim. command has its keys in the core's order, as terms have."""
        self.post(lambda: self._begin(claim, command, terms))

    def command(self, claim: Claim, kind: str, **fields: Any) -> None:
        """Says something of a claim that was begun; if that has ended it changes nothing."""
        self.post(lambda: self._command(claim, {"kind": kind, **fields}))

    def is_under_way(self, request: Request) -> bool:
        """It was not answered yet."""
        return self._under_way.get(request.action["request"]) is request

    def close(self) -> None:
        """Ends all claims, and then the sessions."""
        self.post(self._close)

    def post(self, do: Do) -> None:
        """Has do run under the lock, after what was posted before."""
        self._inbox.put(do)
        try:
            if not self._called:
                self._called = True
                self.threads.soon(self.turn)
        except BaseException:  # interrupted, and perhaps before it was begun: others count on it
            self.threads.soon(self.turn)
            raise

    def look(self) -> bool:
        """Has the client look at the clock; False if no thread did in time."""
        looked: Future[None] = Future()

        def look() -> None:
            if self._wake <= self.clock.mono():
                self._step(WOKE)
            looked.settle(None)

        self.post(look)
        return looked.wait(LOOK)

    def due(self) -> int:
        """Mono: when it must be woken, or a request given up."""
        return min(NEVER if self._napping else self._wake, self._limit)

    # What threads of ours call.

    def turn(self) -> None:
        """There is news in the inbox, or time has passed."""
        self._called = False
        request = self.news() or self.nap()
        if request is not None:
            request.start()

    def pass_time(self) -> Do | None:
        """As turn, for a thread that may not wait. It is given what is asked for."""
        request = self.news()
        return None if request is None else request.start

    def news(
        self, request: Request | None = None, answer: Event | None = None, error: BaseException | None = None
    ) -> Request | None:
        """Takes all that is new. What is asked for begins, but for the first, which is the caller's to go on with."""
        if self._stepper == threading.get_ident():
            return None  # told by a step, which looks into the inbox when it is over
        with self._stepping:
            self._stepper = threading.get_ident()
            try:
                if request is not None and answer is not None:
                    self._answered(request, answer, error)
                self._catch_up()
            finally:
                self._stepper = 0
            asked, self._asked = self._asked, []
        due = self.due()
        if due < self.expected and (asked or not self._naps()):
            self.threads.expect(self)
        for other in asked[1:]:
            self.threads.soon(other.start)
        return asked[0] if asked else None

    def nap(self) -> Request | None:
        """Waits the moment until the client is due, if it is no longer than that."""
        if not self._naps():
            return None
        self._napping = True
        self.clock.sleep(max(0, self._wake - self.clock.mono()))
        self._napping = False
        return self.news()

    def _naps(self) -> bool:
        return self.threads.naps and not self._napping and self._wake - self.clock.mono() <= NAP

    # Under the lock.

    def _catch_up(self) -> None:
        while True:
            while not self._inbox.empty():
                self._safely(self._inbox.get_nowait())
            now = self.clock.mono()
            if self._limit <= now:
                self._give_up(now)
            if self._wake <= now:
                self._safely(partial(self._step, WOKE))
            if self._inbox.empty():
                return

    def _give_up(self, now: int) -> None:
        """The requests that the store has not answered in time."""
        for request in [one for one in self._under_way.values() if one.look <= now]:
            if request.is_hopeless(now):
                request.lane.overdue(request)
                self._answered(request, unknown(request.action), None)
        self._limit = min([NEVER, *(request.look for request in self._under_way.values())])

    def _safely(self, do: Do) -> None:
        try:
            do()
        except Exception as error:
            log.exception("mopslock: a client failed; this is an error in mopslock")
            if isinstance(error, EngineFailed):
                self._lose(error)

    def _lose(self, error: EngineFailed) -> None:
        """The machine has failed. All claims end with it, and a new one takes those that come (PROTOCOL C8)."""
        claims, self.claims, self.sessions = self.claims, {}, {}
        machine, self._machine, self._seed = self._machine, None, b""
        self._under_way = {}  # what has begun keeps its place in the lane, and its answer is told to nobody
        self._wake = self._limit = NEVER
        if machine is not None:
            machine.drop()
        if self.closing:
            self.closed.settle(None)
        for claim in claims.values():
            claim.fail(error)

    def _begin(self, claim: Claim, command: Event, terms: Event) -> None:
        if self.closed.done():
            claim.fail(_texts.closed())
        elif claim.is_wanted():
            self._last += 1
            claim.number = self._last
            self.claims[claim.number] = claim
            try:
                self._step({**command, "claim": claim.number, "terms": terms})
            except Exception as error:
                self.claims.pop(claim.number, None)
                claim.fail(error if isinstance(error, MopslockError) else EngineFailed(f"mopslock: {error!r}"))
                if not isinstance(error, MopslockError):
                    raise

    def _command(self, claim: Claim, command: Event) -> None:
        if self.claims.get(claim.number) is claim:
            self._step({**command, "claim": claim.number})

    def _close(self) -> None:
        if self._machine is None:
            self.closed.settle(None)
        elif not self.closed.done():
            self._step({"kind": "close"})

    def _answered(self, request: Request, answer: Event, error: BaseException | None) -> None:
        """The first answer counts: the store's, or that its time is over."""
        action = request.action
        if not self.is_under_way(request):
            return
        del self._under_way[action["request"]]
        if self.clock.mono() >= request.last:
            answer = unknown(action)
        claim = self.claims.get(action.get("claim", 0))
        if error is not None:
            self.cause = error
            if claim is not None:
                claim.cause = error
        if claim is not None:
            claim.answered(action, answer)
        if not self._under_way:
            self._limit = NEVER
        self._safely(partial(self._step, answer))

    def _step(self, event: Event) -> None:
        if self._machine is None:
            self._machine = Machine(self._config())
        more = True
        while more:
            more = False
            self._mono = now = max(self._mono, self.clock.mono())
            actions = self._machine.step({"mono": now, "wall": self.clock.wall(), **event})
            self._wake = NEVER
            for action in actions:
                kind = action["kind"]
                if kind in REQUESTS:
                    self._ask(action, now)
                elif kind == "wake":
                    self._wake = action.get("at_ns", 0)
                elif kind == "more":
                    more, event = True, WOKE
                elif kind == "abandon":
                    self._inbox.put(partial(self._abandon, action["request"]))
                else:
                    self._tell(action)

    def _abandon(self, number: int) -> None:
        """Nobody wants it any more. What only reads is answered at once, so that many that hang keep no slot."""
        request = self._under_way.get(number)
        if request is not None and request.action["kind"] in READS:
            request.lane.overdue(request)
            self._answered(request, unknown(request.action), None)

    def _ask(self, action: Action, now: int) -> None:
        claim = self.claims.get(action.get("claim", 0)) if action["kind"] in RESULTS else None
        request = Request(self, action, claim.result() if claim is not None else None, now)
        self._under_way[action["request"]] = request
        self._limit = min(self._limit, request.look)
        self._asked.append(request)

    def _tell(self, action: Action) -> None:
        number = action.get("claim")
        if number is None:
            _NOTICES.get(action["kind"], Client._unheard)(self, action)
            return
        claim = self.claims.get(number)
        try:
            if claim is not None and claim.hear(action):
                del self.claims[number]
        except Exception as error:
            log.exception("mopslock: a claim could not be told; this is an error in mopslock")
            assert claim is not None
            self._inbox.put(partial(self._step, {"kind": "cancel", "claim": number}))
            del self.claims[number]
            claim.fail(EngineFailed(f"mopslock: {error!r}"))

    # What is said of no claim.

    def _unheard(self, _: Action) -> None:
        pass

    def _held(self, action: Action) -> None:
        self.sessions[action["on"]] = Session(action["at_ns"])

    def _renewed(self, action: Action) -> None:
        self.sessions[action["on"]].until = action["at_ns"]

    def _lost(self, action: Action) -> None:
        log.warning("mopslock: the session is lost (%s), and with it every lease on it", action["reason"])
        self.sessions.pop(action["on"], None)

    def _left(self, action: Action) -> None:
        self.sessions.pop(action["on"], None)

    def _warned(self, action: Action) -> None:
        if action["reason"] == "emptied":
            log.warning(
                "mopslock: %s: a session was removed from the store; keep cleaning and lifecycle rules off it", self.url
            )
            return
        if action["reason"] != "no_create":
            log.warning("mopslock: %s: %s", self.url, action["reason"])
            return
        seen = action.get("body", b"").decode() if can(self.store) else ""
        log.warning(
            "mopslock: %s does not honour create-if-absent, or has no verbs create, list and delete: its leases are "
            "kept by lastwriter, without a fencing token%s", self.url, seen and f" (seen: {seen})",
        )  # fmt: skip

    def _outage(self, action: Action) -> None:
        log.info(
            "mopslock: %s fails: %d requests in a row, the last a %s (%s)",
            self.url, action["count"], action["verb"], action.get("class", ""),
        )  # fmt: skip

    def _recovered(self, action: Action) -> None:
        took = action.get("took_ns", 0) / SECOND
        log.info("mopslock: %s answers again, after %d failed requests in %.1f s", self.url, action["count"], took)

    def _is_closed(self, _: Action) -> None:
        self.closed.settle(None)

    def __del__(self) -> None:
        machine = getattr(self, "_machine", None)
        if machine is not None:
            with contextlib.suppress(Exception):  # the interpreter may be ending
                machine.drop()


_NOTICES = {
    "held": Client._held,
    "renewed": Client._renewed,
    "lost": Client._lost,
    "left": Client._left,
    "warned": Client._warned,
    "outage": Client._outage,
    "recovered": Client._recovered,
    "closed": Client._is_closed,
}

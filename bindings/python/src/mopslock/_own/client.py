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
from pathlib import Path
from typing import Any, Protocol

from .._future import Future
from .._log import log
from .._machine import Machine
from .._workers import Do
from ..errors import EngineFailed
from .base import LOOK, AnyClient, Claim, Output
from .clock import Clock
from .threads import Lane, Sleeper, Timer
from .verbs import NEVER, READS, REQUESTS, RESULTS, Action, Event, attempt, can, unknown
from .watches import Watches

IN_FLIGHT = 32  # requests of one store under way at once, without transfers

LIMITS = 3
"""Limits of a request for which it is waited for while threads of ours are held up, as by C calls that keep the GIL. So
many fit before a deadline."""

HELD_UP, LOOKS = 10_000_000, 16
"""A thread that comes so many nanoseconds late was held up. Two looks in a row must be on time, the second one such a
part of the limit later, before a request is given up."""

NAP = 2_000_000  # nanoseconds for which who has stepped waits by itself, since a change of threads takes as long
WOKE: Event = {"kind": "woke"}


class Share(Protocol):
    """The threads that a client is given, as Threads has them."""

    naps: bool
    sleeper: Sleeper

    def soon(self, job: Do, /) -> object: ...
    def expect(self, client: Any, /) -> object: ...
    def lane(self, *, transfer: bool) -> Lane: ...


class Request:
    """A request that is under way."""

    __slots__ = (
        "action",
        "applied_by",
        "begun_by",
        "body",
        "client",
        "key",
        "lane",
        "last",
        "late",
        "look",
        "on_time",
        "renews",
    )

    def __init__(self, client: Client, action: Action, body: bytes | None, now: int) -> None:
        self.client, self.action, self.body = client, action, body
        limit = action["limit_ns"]
        self.last = now + LIMITS * limit  # when it is not waited for any more
        self.renews = action.get("purpose") == "renewal"
        reads = action["kind"] in READS
        self.begun_by: int = self.last if reads else now + limit
        # A store that asks right before it applies a write may apply a renewal for as long as its claim lasts.
        self.applied_by: int = self.last if reads or self.renews else now + limit
        self.look = now + limit - limit // LOOKS  # when a thread looks whether it was answered
        self.on_time = False  # the last one that looked
        self.key: str = action["key"]
        self.late = False
        self.lane = client.threads.lane(transfer=action["kind"] in RESULTS)

    def is_hopeless(self, now: int) -> bool:
        """Looks. A look that comes late was held up, and so may the answer be: another request would be as slow."""
        was_on_time, self.on_time = self.on_time, now - self.look <= HELD_UP
        limit: int = self.action["limit_ns"]
        self.look = min(self.last, now + (limit // LOOKS if self.on_time else limit))
        return now >= self.last or (was_on_time and self.on_time)

    def is_over(self) -> bool:
        """Another may hold the name by now."""
        return self.client.clock.mono() >= self.applied_by

    def start(self) -> None:
        """On a thread that goes on with it."""
        if self.client.is_under_way(self) and self.lane.take(self):
            self.perform()

    def perform(self) -> None:
        """Asks the store, tells the client, and goes on with what that asks for."""
        client = self.client
        request: Request | None = self
        while request is not None:
            if client.is_under_way(request) and client.clock.mono() < request.begun_by:
                answer, error = attempt(client.store, request.action, request.body, request.is_over)
            else:  # or nobody waits for it
                answer, error = unknown(request.action), None
            if (held_back := request.lane.leave(request)) is not None:
                client.threads.soon(held_back.perform)
            request = client.news(request, answer, error) or client.nap()
            if request is not None and not request.lane.take(request):
                return


class Client(AnyClient):
    """In this process, over a store that is written in Python."""

    def __init__(self, store: Any, clock: Clock, threads: Share, seed: bytes = b"") -> None:
        super().__init__(str(getattr(store, "url", None) or repr(store)), clock)
        self.store, self.threads, self.soon, self._seed = store, threads, threads.soon, seed
        self.or_else, self.tries_create = ", or has no verbs create, list and delete", can(store)
        self._machine: Machine | None = None
        self._stepping = threading.Lock()  # held by threads of ours alone
        self._stepper = 0  # which of them
        self._watches = Watches(store, threads.soon, self.post, lambda key: self._step({"kind": "changed", "key": key}))
        self._inbox: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._called = False  # a thread is on its way to the inbox
        self._under_way: dict[int, Request] = {}
        self._asked: list[Request] = []  # by the steps of this turn
        self.expected = NEVER  # when the sleeper will look, as it was told
        self._wake = NEVER
        self._limit = NEVER  # no request is to be looked at before
        self._napping = False
        self._mono = 0

    def _config(self) -> Event:
        store, able = self.store, can(self.store)
        fields = {
            "machine": "client",
            "stamp_unit_ns": int(getattr(store, "stamp_unit_ns", 0)),
            "boot": str(getattr(self.clock, "boot", "")) if getattr(store, "orderly", False) is True else "",
            "own_store": able and getattr(store, "creates", False) is True,
            "no_create": not able,
            "no_list": not callable(getattr(store, "list", None)),
            "probes": able and getattr(store, "probes", False) is True,
            "samples": getattr(store, "store_clock", False) is True,
            "watches": callable(getattr(store, "watch", None)),
            "in_flight": IN_FLIGHT,
            "host": (socket.gethostname().removesuffix(".local") or "unknown")[:256],
            "pid": str(os.getpid()),
            "tid": threading.get_ident(),
            "seed": self._seed or os.urandom(16),
        }
        return {key: value for key, value in fields.items() if value}

    # What any thread may call.

    def is_under_way(self, request: Request) -> bool:
        return self._under_way.get(request.action["request"]) is request

    def post(self, do: Do) -> None:
        self._inbox.put(do)
        try:
            if not self._called:
                self._called = True
                self.threads.soon(self.turn)
        except BaseException:  # interrupted, and perhaps before it was begun: others count on it
            self.threads.soon(self.turn)
            raise

    def look(self) -> bool:
        looked: Future[None] = Future()

        def look() -> None:
            if self._wake <= self.clock.mono():
                self._step(WOKE)
            looked.settle(None)

        self.post(look)
        return looked.wait(LOOK)

    def at(self, instant: int, do: Do) -> None:
        self.threads.expect(Timer(self.clock, instant, do))

    def drive(self) -> None:
        if self.threads.sleeper.barred:
            self.turn()

    def output(self, body: bytes | Path) -> bytes:
        """A file is read here, whole: a store of one's own takes bytes."""
        return body.read_bytes() if isinstance(body, Path) else body

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
        """Waits the moment until the client is due, and again, until that is later: the sleeper was told of no moment
        so near. Others may bring news meanwhile."""
        request = None
        while request is None and self._naps():
            self._napping = True
            self.clock.sleep(max(0, self._wake - self.clock.mono()))
            self._napping = False
            request = self.news()
        return request

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
        """The machine has failed. A new one takes the claims that come."""
        machine, self._machine, self._seed = self._machine, None, b""
        self._under_way = {}  # what has begun keeps its place in the lane, and its answer is told to nobody
        self._wake = self._limit = NEVER
        self._watches.end_all()
        if machine is not None:
            machine.drop()
        for claim, begun in self._strand(error):
            self.post(partial(self._go_on, claim, begun))

    def _give(self, event: Event, _: Claim | None) -> None:
        self._step(event)

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
        self.meter.answered(action, answer)
        claim = self.claims.get(action.get("claim", 0))
        if error is not None:  # and not whether it is true: that is code of the user's
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
                elif kind == "watch":
                    self._watches.begin(action["key"])
                elif kind == "unwatch":
                    self._watches.end(action["key"])
                else:
                    claim = self.claims.get(action.get("claim", 0))
                    self._watches.hear(action, claim.name if claim is not None else "")
                    self._tell(action)

    def _abandon(self, number: int) -> None:
        """Nobody wants it any more. What only reads is answered at once, so that many that hang keep no slot."""
        request = self._under_way.get(number)
        if request is not None and request.action["kind"] in READS:
            request.lane.overdue(request)
            self._answered(request, unknown(request.action), None)

    def _ask(self, action: Action, now: int) -> None:
        claim = self.claims.get(action.get("claim", 0)) if action["kind"] in RESULTS else None
        body = claim.result() if claim is not None else None
        if isinstance(body, Output):  # made for a keeper, of which none is left
            body = body.read()
        request = Request(self, action, body, now)
        self._under_way[action["request"]] = request
        self.meter.sent(action)
        self._limit = min(self._limit, request.look)
        self._asked.append(request)

    def __del__(self) -> None:
        machine = getattr(self, "_machine", None)
        if machine is not None:
            with contextlib.suppress(Exception):  # the interpreter may be ending
                machine.drop()

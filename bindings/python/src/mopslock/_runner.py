"""One machine on a store that Python talks to: what it asks is done, and it is woken when it wants to be."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ._event_loop import Timer
from ._future import Future
from ._machine import Machine
from ._verbs import NEVER, REQUESTS, Action, Event, attempt, unknown

if TYPE_CHECKING:
    from ._stepped import SteppedHost

MOST_RUNNING = 2
"""Requests of one machine at once: of those that hang, which must not use up the workers of all."""

ORDER = (
    "machine", "protocol", "name", "ttl_ns", "margin_ns", "acquire_margin_ns", "fleet_expire_ns", "renewal", "expiry",
    "stamp_unit_ns", "holder", "role", "on_session", "owner", "epoch", "boot", "stamp_spread_ns", "last_epoch",
    "last_at_ns", "beside", "why", "now", "label", "memo_failures", "without_lease", "creates", "host", "pid", "tid",
)  # fmt: skip
"""The core's order of a Config's keys."""


def origin() -> dict[str, Any]:
    """What our records tell people about their writer."""
    name = socket.gethostname().removesuffix(".local") or "unknown"
    return {"host": name[:256], "pid": str(os.getpid()), "tid": threading.get_ident()}


def config(machine: str, name: str, terms: Mapping[str, Any], **more: Any) -> Event:
    """A Config in the core's order of keys; what is 0, false or "" is left out."""
    fields: Event = {"machine": machine, "protocol": "lastwriter", "name": name, **terms, **more, **origin()}
    return {key: fields[key] for key in ORDER if fields.get(key)}


class Steps(Protocol):
    """A machine of the core's, or what stands in its place."""

    idle: bool
    """It waits for nothing."""

    @property
    def state(self) -> str:
        """Where it stands, in the core's word."""

    def step(self, given: Mapping[str, Any]) -> list[Action]:
        """What happened, and what is to be done."""

    def drop(self) -> None:
        """Forgets it."""


class Flight:
    """The one request that matters of a machine, and those before it that the store has not answered yet."""

    __slots__ = ("limit", "next", "number", "running")

    def __init__(self) -> None:
        self.number = 0
        self.limit: Timer | None = None
        self.running = 0  # requests on workers; more than one when the store has not answered in time
        self.next: tuple[Action, int] | None = None  # until one of them comes back


class Runner:
    """What is kept on an event loop: only one thread steps it."""

    __slots__ = ("_flights", "_machine", "_timer", "_wake", "begun", "cause", "host", "store_object")

    def __init__(self, host: SteppedHost, store: Any, machine: Steps, *, lanes: int = 1) -> None:
        """With two lanes requests of odd and of even numbers do not stand in each other's way."""
        self.host, self.store_object, self._machine = host, store, machine
        self.cause: BaseException | None = None  # what the store said last
        self.begun = False
        self._timer: Timer | None = None  # of its wake
        self._wake = NEVER
        self._flights = tuple(Flight() for _ in range(lanes))

    # What is different of a claim and of a task.

    def tell(self, action: Action) -> None:
        """What the machine says."""
        raise NotImplementedError

    def ended(self) -> None:
        """The machine waits for nothing any more."""

    def failed(self, error: Exception) -> bool:
        """An error of ours, of which somebody who waits has to hear; True if that is all that is to be done."""
        return False

    def known(self) -> Event:
        """What the host knows, which each event to a strict machine carries."""
        return {}

    @property
    def gone(self) -> bool:
        """There is nothing more to be told to it."""
        return self.begun and self._machine.idle

    # What its one thread calls.

    def step(self, event: Event) -> list[Action]:
        """Tells the machine what happened, tells others what it says, and returns the requests that it makes: one at
        most in each lane."""
        first, self.begun = not self.begun, True
        error = event.pop("error", None)
        self.cause = error if error is not None else self.cause
        clock = self.host.clock
        known = self.known()  # may end it, where its session has
        requests: list[Action] = []
        if not first and self.gone:
            return requests
        actions = self._machine.step({"mono": clock.mono(), "wall": clock.wall(), **event, **known})
        self._wake = NEVER
        for action in actions:
            kind = action["kind"]
            if kind in REQUESTS:
                requests.append(action)
            elif kind == "wake":
                self._wake = action["at_ns"]
            else:
                self.tell(action)
        if self._machine.idle:
            self._machine.drop()
            self._wake = NEVER
            self.ended()
        return requests

    def feed(self, event: Event) -> None:
        """On the event loop's thread: a step, and what it asks for."""
        if self.gone:
            return
        try:
            requests = self.step(event)
        except Exception as error:
            if self.failed(error):
                return
            raise
        self._schedule(requests)

    @property
    def wake(self) -> int:
        """When it wants to be woken."""
        return self._wake

    def _schedule(self, requests: list[Action]) -> None:
        loop = self.host.loop
        loop.take_back(self._timer)
        self._timer = loop.at(self._wake, self._woke) if self._wake != NEVER else None
        for request in requests:
            self._begin(request)

    def _flight(self, number: int) -> Flight:
        return self._flights[number % len(self._flights)]

    def _begin(self, request: Action) -> None:
        number, loop = request["request"], self.host.loop
        flight = self._flight(number)
        flight.number = number
        limit = self.host.clock.mono() + request["limit_ns"]
        loop.take_back(flight.limit)
        flight.limit = loop.at(limit, lambda _: self._answered(number, unknown(request, "unreachable")))
        if flight.running < MOST_RUNNING:
            self._submit(request, limit)
        else:
            flight.next = (request, limit)

    def _submit(self, request: Action, limit: int) -> None:
        self._flight(request["request"]).running += 1
        self._lane(request)(lambda: self._request(request, limit))

    def _lane(self, request: Action) -> Callable[[Callable[[], object]], None]:
        """How a request is run."""
        return self.host.submit_to(self.store_object)

    def _woke(self, at: int) -> None:
        if at == self._wake:  # a later step may have asked for another
            self.feed({"kind": "woke"})

    def _request(self, request: Action, limit: int) -> None:
        """On a worker."""
        answer = attempt(self.store_object, request, self.host.clock, limit)
        self.host.loop.post(lambda: self._came_back(request["request"], answer))

    def _came_back(self, number: int, answer: Event) -> None:
        flight = self._flight(number)
        flight.running -= 1
        held_back, flight.next = flight.next, None
        if held_back is not None and held_back[0]["request"] == flight.number:
            self._submit(*held_back)
        self._answered(number, answer)

    def _answered(self, number: int, answer: Event) -> None:
        """The first answer counts: the store's, or that its time is over."""
        flight = self._flight(number)
        if flight.number == number:
            flight.number = 0
            self.host.loop.take_back(flight.limit)
            flight.limit = None  # which knows the request, and its body
            self.feed(answer)


class Task(Runner):
    """A machine of the host's own, which no caller holds: a session, a calibration, a one-shot request."""

    __slots__ = ("_hears", "_worries", "over")

    def __init__(
        self, host: SteppedHost, machine: Steps, hears: Callable[[Action], None],
        worries: Callable[[str, BaseException | None], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(host, host.store, machine)
        self._hears, self._worries = hears, worries
        self.over: Future[None] = Future()

    def tell(self, action: Action) -> None:
        """To what made it."""
        self._hears(action)

    def _answered(self, number: int, answer: Event) -> None:
        super()._answered(number, answer)
        if self._worries is not None and answer["outcome"] == "unknown" and not self.gone:
            self._worries(answer["class"], self.cause)

    def ended(self) -> None:
        """It has done what it was for, or never will."""
        self.over.settle(None)

    def failed(self, error: Exception) -> bool:
        """It is none of a caller's."""
        self.drop()
        self._hears({"kind": "refused", "reason": "unusable", "error": error})
        return False

    def drop(self) -> None:
        """It ends here and now."""
        self._machine.drop()
        loop = self.host.loop
        loop.take_back(self._timer)
        for flight in self._flights:
            loop.take_back(flight.limit)
        self._machine = _Gone()
        self.over.settle(None)


class OneShot:
    """A machine of ours: one request whose outcome does not matter."""

    idle = False
    state = "one_shot"

    def __init__(self, request: Action) -> None:
        self._request = request

    def step(self, given: Mapping[str, Any]) -> list[Action]:
        """Begun, it asks; and whatever comes ends it."""
        if given["kind"] == "begin":
            return [{"request": 1, **self._request}]
        self.idle = True
        return []

    def drop(self) -> None:
        """There is nothing to drop."""


class _Gone:
    """What is left of a machine."""

    idle = True
    state = "gone"

    def step(self, given: Mapping[str, Any]) -> list[Action]:
        return []

    def drop(self) -> None:
        return


def fresh(fields: Event) -> Machine:
    """A machine of the core's with a seed of its own."""
    return Machine({**fields, "seed": os.urandom(16)})

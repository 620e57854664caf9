"""Shared semaphores on a store that Python talks to: one machine a name, and what callers see of their permits.

One machine does all that this process does with one name: what waits together is written together. It is made for the
first of those who ask, and forgotten when nothing is held and nobody waits. All but what anybody may call happens on
the event loop's thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import _texts
from ._future import Future
from ._held import HeldThing, OnWaiting
from ._inspector import plain
from ._notify import notifier
from ._permit_request import PermitRequest
from ._resolve import Resolution, Resolver
from ._runner import Runner, Steps, Task, config, fresh
from ._units import SECOND
from ._validity import VALIDITY_SLOTS, Validity
from ._verbs import Action, Event, can
from .errors import EngineFailed, Full, MopslockError
from .status import Status, of_sight
from .terms import Terms

if TYPE_CHECKING:
    from ._clock import Clock
    from ._event_loop import EventLoop
    from ._services import Services, Session
    from ._stepped import SteppedHost
    from .stores import Store

log = logging.getLogger("mopslock")

Place = tuple[str, int, int]
"""Whose machine it is: the name, and TTL and margin of the session."""


class Share(Validity):
    """One thing that is asked of a semaphore: a permit, or a limit."""

    __slots__ = (
        *VALIDITY_SLOTS, "_first", "_waits", "begun", "config", "hurried", "host", "is_limit", "number", "over",
        "refusal", "request", "semaphore", "settled", "total", "what",
    )  # fmt: skip

    def __init__(
        self, host: SteppedHost, config: Event, first: Event, request: PermitRequest | None, *, waits: OnWaiting | None,
        into: Future[HeldThing],
    ) -> None:  # fmt: skip
        """config is the semaphore's Config, first the event that asks."""
        self.host, self.config, self._first, self.request = host, config, first, request
        self.begin_validity(host, config["name"], config["name"], guarded=True)
        self.holder, self.protocol, self.ttl_ns = "", "strict", config["ttl_ns"]
        self.is_limit = request is None
        self.what = "limit of" if self.is_limit else "permit of"
        self.settled = into  # held, or not; of a limit it is in the store
        self.over: Future[None] = Future()  # given back or lost
        self.semaphore: Semaphore | None = None
        self.number = self.total = 0
        self.begun = 0  # when it was asked for
        self.hurried = False  # the host is closing
        self.refusal: MopslockError | None = None  # why it was cancelled, if not by its caller
        self._waits = waits

    # What anybody may call.

    def finish(self) -> Future[None]:
        """Its validity ends before anything is written that lets others in."""
        self.invalidate()
        self.host.loop.post(self.stop)
        return self.over

    def hurry(self) -> None:
        """The process is about to end, or the store is closed."""
        self.hurried = True
        self.finish()

    def key(self) -> tuple[int, str]:
        """What it asks for, among all that this process does."""
        return (id(self.host.store), self.name)

    def _looked(self) -> bool:
        return self.host.look(self)

    def _overdue(self) -> None:
        self.host.loop.post(self.stop)

    # What the event loop's thread calls.

    @property
    def wanted(self) -> bool:
        """It is neither held nor over."""
        return not self.over.done() and not self.holder

    def feed(self, event: Event) -> None:
        """Something has happened, of which its machine is told."""
        if self.semaphore is not None:
            self.semaphore.feed(event)

    def first(self) -> Event:
        """What its machine is told first, with what is left of the wait."""
        event = dict(self._first)
        wait = event.get("wait_ns", 0)
        if wait > 0 and not (left := max(0, wait - (self.host.clock.mono() - self.begun))):
            del event["wait_ns"]
        elif wait > 0:
            event["wait_ns"] = left
        return event

    def stop(self) -> None:
        """Gives it back, whatever has become of it by now."""
        if self.over.done():
            return
        if self.semaphore is None:  # its machine has not heard of it
            self.fail(_texts.closed() if self.hurried else self._cancelled())
            return
        kind = "cancel" if self.is_limit else "release"
        self.semaphore.feed({"kind": kind, "permit": self.number})

    def _cancelled(self) -> MopslockError:
        return _texts.refused(self.title, "cancelled", "", None, None, what=self.what)

    def refuse(self, action: Mapping[str, Any], seen: Status | None, cause: BaseException | None) -> None:
        """It was not acquired."""
        reason = action["reason"]
        if reason == "cancelled" and (self.refusal is not None or self.hurried):
            self.fail(self.refusal or _texts.closed())
            return
        error = _texts.refused(self.title, reason, action.get("class", ""), seen, cause, what=self.what)
        if isinstance(error, Full) and self.request is not None:
            error.for_request(self.request.limit, self.request.weight)
        error.__cause__ = cause
        self.fail(error)

    def fail(self, error: MopslockError) -> None:
        """It is over: it was not acquired, or was lost."""
        self.end(error)
        self.host.forget(self)
        self.settled.settle(error)
        self.over.settle(error)

    def given_back(self) -> None:
        """The store has said so."""
        self.end(_texts.ended(self.title, self.what))
        self.host.forget(self)
        self.settled.settle(_texts.closed())
        self.over.settle(None)

    def limited(self) -> None:
        """The store has the limit."""
        self.settled.settle(self)
        self.given_back()

    def held(self, action: Action, standing: Session | None) -> None:
        """It is let in."""
        self.holder, self.total = action["holder"], action["total"]
        self._epoch = self.token = action["token"]
        self.acquired_ns = self.host.clock.wall()
        self.stands_on(action.get("session", ""), standing)
        self.renewed(action["at_ns"])
        self.settled.settle(self)  # one that was given up is given back, as its host was told

    def waits(self, seen: Status) -> None:
        """There is no room."""
        if self._waits is not None:
            tell = self._waits
            notifier.call(lambda: tell(seen))


class Semaphore(Runner):
    """All that this process does with one semaphore."""

    __slots__ = ("_last", "_seen", "name", "over", "place", "shares", "standing")

    def __init__(self, host: SteppedHost, config: Event, place: Place) -> None:
        super().__init__(host, host.store, fresh(config))
        self.name: str = config["name"]
        self.place = place
        self.shares: dict[int, Share] = {}
        self.standing: Session | None = host.services.session_of(config)
        self.over: Future[None] = Future()  # nothing is left to be done
        self._last = 0
        self._seen: Status | None = None  # by the step's first notice: they are of one look

    def ask(self, share: Share) -> None:
        """Asks for one more."""
        self._last += 1
        share.number, share.semaphore = self._last, self
        self.shares[self._last] = share
        if not share.is_limit and self.standing is not None:
            self.standing.add(self)
        first = share.first()
        kind, wait = first.pop("kind"), {"wait_ns": first.pop("wait_ns")} if "wait_ns" in first else {}
        self.feed({"kind": kind, **wait, "permit": share.number, **first})

    # What the host's services call.

    @property
    def fresh(self) -> bool:
        """Somebody waits for a permit, which needs a session to stand on."""
        return any(share.wanted and not share.is_limit for share in self.shares.values())

    def freeze(self) -> None:
        """Nobody can break a permit."""

    def prod(self) -> None:
        """It may judge by a sample of the store's clock. On any thread."""
        self.host.loop.post(lambda: self.feed({"kind": "woke"}))

    def change(self) -> None:
        """Somebody in this process gave back, by other terms."""
        self.host.loop.post(lambda: self.feed({"kind": "changed"}))

    def give_up(self, reason: str, class_: str, cause: BaseException | None) -> None:
        """There can be no session, which the waiting permits need."""
        for share in list(self.shares.values()):
            if share.wanted and not share.is_limit:
                share.refusal = _texts.refused(self.name, reason, class_, None, cause, what=share.what)
                share.refusal.__cause__ = cause
                self.feed({"kind": "cancel", "permit": share.number})

    # A Runner's.

    def known(self) -> Event:
        """Of the store's clock and of the session."""
        return self.host.services.known(self)

    def tell(self, action: Action) -> None:
        """What the machine says."""
        if sight := action.get("sight"):
            self._seen = of_sight(self.name, sight, self.host.clock.wall(), "strict")
        _NOTICES[action["kind"]](self, action)

    def ended(self) -> None:
        """Nothing is held, and nobody waits."""
        self.host.semaphore_ended(self)
        self.over.settle(None)

    def failed(self, error: Exception) -> bool:
        """An error of ours."""
        ours = error if isinstance(error, MopslockError) else EngineFailed(f"mopslock: {error!r}")
        for share in list(self.shares.values()):
            share.fail(ours)
        self.shares.clear()
        self._machine.drop()
        self._machine.idle = True
        self.ended()
        return isinstance(error, MopslockError) and not isinstance(error, EngineFailed)

    # What the machine tells.

    def _waiting(self, action: Action) -> None:
        if self._seen is not None:
            self.shares[action["permit"]].waits(self._seen)

    def _held(self, action: Action) -> None:
        self.shares[action["permit"]].held(action, self.standing)

    def _refused(self, action: Action) -> None:
        seen = self._seen if action["reason"] in ("full", "crowded") else None
        self.shares.pop(action["permit"]).refuse(action, seen, self.cause)

    def _lost(self, action: Action) -> None:
        share = self.shares.pop(action["permit"])
        error = _texts.lost(self.name, action["reason"], None, what=share.what)
        log.warning("%s", error)
        error.__cause__ = self.cause
        share.fail(error)

    def _released(self, action: Action) -> None:
        self.shares.pop(action["permit"]).given_back()
        self.host.wake_semaphores(self)

    def _limited(self, action: Action) -> None:
        self.shares.pop(action["permit"]).limited()
        self.host.wake_semaphores(self)

    def _calibrate(self, _: Action) -> None:
        self.host.services.calibrate(self)

    def _warned(self, action: Action) -> None:
        log.warning("%s", _texts.warned(self.name, action, self._seen, what="semaphore"))

    def _left(self, _: Action) -> None:
        """Its host never asks it to leave: each permit is given back by itself."""


class _Tried:
    """What a Resolver makes where nothing but the trial was wanted."""

    idle = True
    state = "tried"

    def step(self, given: Mapping[str, Any]) -> list[Action]:
        return []

    def drop(self) -> None:
        return


def tried(host: SteppedHost, share: Share, go_on: Callable[[], None]) -> None:
    """Finds out whether the store honours create-if-absent, and goes on if it does; else the share is refused."""
    refused: list[Action] = []

    def make(_: Resolution) -> Steps:
        return _Tried()

    def over(_: Future[None]) -> None:
        if not refused:
            go_on()
        elif not share.over.done():
            share.refuse(refused[0], None, task.cause)

    def cause() -> BaseException | None:
        return task.cause

    resolver = Resolver(share.name, "strict", host.able, make, known=dict, cause=cause)
    task = Task(host, resolver, refused.append)
    task.over.add_done_callback(over)
    task.feed({"kind": "acquire", **{key: n for key, n in share.first().items() if key == "wait_ns"}})


def asking(request: PermitRequest, wait_ns: int, label: str) -> Event:
    """The event that asks for a permit, but for its number; 0 tries once."""
    event: Event = {"kind": "acquire"}
    if wait_ns:
        event["wait_ns"] = wait_ns
    event |= {"capacity": request.capacity, "width": request.width}
    if request.weight != 1:
        event["weight"] = request.weight
    if request.spare:
        event["spare"] = request.spare
    if label:
        event["label"] = label
    return event


_NOTICES: dict[str, Callable[[Semaphore, Action], None]] = {
    "waiting": Semaphore._waiting,
    "held": Semaphore._held,
    "refused": Semaphore._refused,
    "lost": Semaphore._lost,
    "released": Semaphore._released,
    "limited": Semaphore._limited,
    "calibrate": Semaphore._calibrate,
    "warned": Semaphore._warned,
    "left": Semaphore._left,
}


class Semaphores:
    """What a SteppedHost has for semaphores beside its claims."""

    store: Store
    clock: Clock
    loop: EventLoop
    services: Services
    stamp_unit: int
    _lock: threading.RLock
    _closed: bool
    _runners: set[Any]
    _semaphores: dict[Place, Semaphore]
    """The event loop's."""

    def judged(self, fields: Mapping[str, Any]) -> Event:
        """With the clocks by which a strict machine may judge."""
        raise NotImplementedError

    @property
    def creates(self) -> bool:
        """The store is known to honour create-if-absent."""
        raise NotImplementedError

    def _host(self) -> SteppedHost:
        raise NotImplementedError

    def begin_permit(
        self, name: str, terms: Terms, request: PermitRequest, wait_ns: int, waits: OnWaiting | None, *,
        into: Future[HeldThing] | None = None,
    ) -> Future[HeldThing]:  # fmt: skip
        """On the event loop's thread and the workers'."""
        return self._begin_share(
            name, terms, asking(request, wait_ns, terms.label), request, waits=waits, into=into
        ).settled

    def set_limit(self, name: str, limit: int, timeout_ns: int) -> None:
        """Whichever machine of the name there is sets it."""
        first: Event = {"kind": "limit", "store_limit": limit} if limit else {"kind": "limit"}
        share = self._begin_share(name, Terms(protocol="strict"), first, None)
        try:
            if not share.settled.wait(timeout_ns / SECOND):
                raise _texts.refused(name, "unset", "unreachable", None, None, what="limit of")
        finally:
            share.settled.cancel()
        share.settled.result()

    def _begin_share(
        self, name: str, terms: Terms, first: Event, request: PermitRequest | None, *,
        waits: OnWaiting | None = None, into: Future[HeldThing] | None = None,
    ) -> Share:  # fmt: skip
        fields = self.judged({**terms.config("strict"), "on_session": True})
        made = config("semaphore", plain("name", name), fields, stamp_unit_ns=self.stamp_unit)
        fresh(made).drop()  # or BadArgument
        made.pop("label", None)  # each permit has its own
        if not can(self.store):
            raise _texts.refused(name, "unfit", "", None, None, what="permit of")
        share = Share(self._host(), made, first, request, waits=waits, into=Future() if into is None else into)
        share.begun = self.clock.mono()
        with self._lock:
            if self._closed:
                raise _texts.closed()
            self._runners.add(share)

        def given_up(settled: Future[HeldThing]) -> None:
            if settled.cancelled():
                self.loop.post(share.stop)

        share.settled.add_done_callback(given_up)
        self.loop.post(
            lambda: self._admit(share) if self.creates else tried(self._host(), share, lambda: self._admit(share))
        )
        return share

    def _admit(self, share: Share) -> None:
        """To its name's semaphore, on the event loop's thread. Two machines of one name on one session would take each
        other's permits for leftovers."""
        if share.over.done():
            return
        place = (share.name, share.config["ttl_ns"], share.config.get("margin_ns", 0))
        found = self._semaphores.get(place)
        if found is None and share.is_limit:
            found = next((other for key, other in self._semaphores.items() if key[0] == share.name), None)
        if found is None:
            found = self._semaphores[place] = Semaphore(self._host(), share.config, place)
        found.ask(share)

    def semaphore_ended(self, semaphore: Semaphore) -> None:
        """The next one who asks has another made."""
        if self._semaphores.get(semaphore.place) is semaphore:
            del self._semaphores[semaphore.place]
        self.services.part(semaphore)

    def wake_semaphores(self, semaphore: Semaphore) -> None:
        """What was given back by other terms need not be polled for here."""
        for other in list(self._semaphores.values()):
            if other is not semaphore and other.name == semaphore.name:
                other.change()

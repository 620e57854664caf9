"""One claim on a store that Python talks to: a lease, a companion, or the release of a printed lease."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _texts
from ._machine import Machine
from ._member import Asked, Ended, Member, Waits, settle
from ._notify import notifier, quietly
from ._resolve import Abilities, Resolver, Way
from ._runner import Runner, Steps
from ._verbs import NEVER, Action, Event
from .errors import EngineFailed, MopslockError
from .status import of_sight

if TYPE_CHECKING:
    from ._services import Life, Session
    from ._stepped import SteppedHost

log = logging.getLogger("mopslock")


@dataclass(frozen=True)
class Unsettled:
    """A claim of which it is not known yet how its name is kept."""

    want: str
    able: Abilities
    config: Callable[[Way], Event]
    """The Config under what it turns out to be; BadArgument where the terms do not go with it."""
    way: Way | None = None
    """What it is, where nobody has to ask."""


class Claim(Runner, Member):
    """A member of a SteppedHost.

    Only one thread steps it: at first, perhaps, the one that acquires (Drive), then the keeper (adopt).
    """

    __slots__ = (
        "_belief", "_calls", "_epoch", "_lock", "_pid", "_waits", "acquired_ns", "beside", "bell", "fresh", "frozen",
        "guarded", "holder", "hurried", "life", "name", "over", "protocol", "refusal", "seed", "session", "settled",
        "standing", "store", "title", "token", "ttl_ns", "waiting",
    )  # fmt: skip

    def __init__(
        self, host: SteppedHost, store: Any, fields: Event, *, guarded: bool, waits: Waits | None, into: Asked,
        unsettled: Unsettled | None = None,
    ) -> None:  # fmt: skip
        self.seed = os.urandom(16)
        self.name: str = fields.get("name", "")
        machine: Steps = Machine({**fields, "seed": self.seed})  # or BadArgument
        if unsettled is not None:
            machine.drop()
            machine = self._resolver(unsettled)
        super().__init__(host, store, machine)
        self.store = host.url
        self.title = str(getattr(store, "title", "") or self.name)  # what people are told of
        self.guarded = guarded  # a deadline ends it; a companion's is only bad news
        self.holder = fields.get("holder") or str(uuid.UUID(bytes=self.seed, version=4))
        self.protocol: str = "" if unsettled is not None else fields["protocol"]
        self.ttl_ns, self.acquired_ns = fields["ttl_ns"], 0
        self.token, self.session = 0, ""
        self._epoch: int = fields.get("epoch", 0)
        self.beside = False  # a lock.json lies beside
        self.standing: Session | None = None  # what it stands on, or wants to
        self.life: Life | None = None  # by which it is believed, too
        self.frozen = 0  # when not 0, it is believed until then, and no longer: it may have been broken
        self.settled = into  # held or joined, or not
        self.over: Future[None] = Future()  # released or left, or lost
        self.fresh = True  # not held or joined before
        self.waiting = False
        self._pid = os.getpid()
        self._belief: tuple[int, MopslockError | None] = (0, None)  # deadline and failure, read together
        self._lock = threading.RLock()
        self._calls: list[Ended] | None = []
        self._waits = waits
        self.bell: threading.Event | None = None  # of one that is driven: see Drive
        self.hurried = False  # the host is closing
        self.refusal: MopslockError | None = None  # why it was cancelled, if not by its caller

    def _resolver(self, of: Unsettled) -> Resolver:
        def make(way: Way) -> Steps:
            fields = of.config(way)
            self.protocol, self.ttl_ns, self.beside = way.protocol, fields["ttl_ns"], way.beside
            machine = Machine({**fields, "seed": self.seed})
            if fields.get("on_session"):
                self.standing = self.host.services.join(self, fields)
            return machine

        return Resolver(self.name, of.want, of.able, make, known=self.known, cause=lambda: self.cause, way=of.way)

    # What anybody may call.

    def belief(self) -> tuple[int, MopslockError | None]:
        """Until when it may be relied on, and why not; by its session too, whose renewals cost its leases nothing."""
        deadline, failure = self._belief
        life, frozen = self.life, self.frozen
        if life is not None:
            deadline = frozen or max(deadline, life.until)
        return deadline, failure

    def version(self) -> int:
        """As its machine said last."""
        return self._epoch

    def left_ns(self) -> int:
        """From the deadline, which renewals move."""
        deadline, failure = self.belief()
        left = deadline - self.host.clock.mono()
        return left if failure is None and self._pid == os.getpid() else min(left, 0)

    def failure(self) -> MopslockError | None:
        """Looks at the clock itself, so that a keeper that is late changes nothing."""
        if self._pid != os.getpid():
            return _texts.forked(self.title)
        while True:
            deadline, failure = self.belief()
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
            deadline, failure = self.belief()
            if failure is not None or (self.guarded and self.host.clock.mono() >= deadline):
                return
            self._belief = (deadline, _texts.ended(self.title))
        self._tell_ended()

    # What its one thread calls.

    def known(self) -> Event:
        """Of the store's clock and of its session, if it is a strict one."""
        return self.host.services.known(self) if self.protocol == "strict" else {}

    def step(self, event: Event) -> Action | None:
        """As any; and what froze it is over when its machine has found out, or wants to be woken before."""
        request = super().step(event)
        if self.frozen and (self._wake == NEVER or self._wake > self.frozen):
            self.frozen = 0
        return request

    def ended(self) -> None:
        """The machine waits for nothing any more."""
        self.host.forget(self)

    def tell(self, action: Action) -> None:
        """What the machine says."""
        _NOTICES[action["kind"]](self, action)

    def failed(self, error: Exception) -> bool:
        """An error of ours, or what only showed when it was known how the name is kept."""
        ours = isinstance(error, MopslockError)
        self._fail(error if isinstance(error, MopslockError) else EngineFailed(f"mopslock: {error!r}"))
        self.forget_machine()
        self.host.forget(self)
        return ours and not isinstance(error, EngineFailed)

    @property
    def gone(self) -> bool:
        """The machine waits for nothing any more."""
        return self._machine.idle and self.over.done()

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

    def prod(self) -> None:
        """It may look at once. From any thread."""
        bell = self.bell
        if bell is not None:
            bell.set()
        else:
            self.host.keeper.post(lambda: self.feed({"kind": "woke"}))

    def give_up(self, reason: str, class_: str, cause: BaseException | None) -> None:
        """What it needs cannot be had."""
        self.cause = cause
        self.refusal = _texts.refused(self.title, reason, class_, None, cause)
        self.feed({"kind": "cancel"})

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

    def farewell(self, *, brief: bool) -> None:
        """Asks the machine to end: a lease by releasing, a companion by leaving."""
        if self.gone:
            return
        if not self.begun:
            self._fail(_texts.closed())
            self._machine.drop()
            self.host.forget(self)
            return
        event: Event = {"kind": "release" if self.guarded else "leave"}
        if brief and self.guarded:
            event["brief"] = True
        self.feed(event)

    # What the machine tells.

    def _waiting(self, action: Action) -> None:
        self.waiting = True
        self.host.waits(self)
        if self._waits is not None and (sight := action.get("sight")):
            tell, status = self._waits, of_sight(self.name, sight, self.host.clock.wall(), self.protocol)
            notifier.call(lambda: tell(status))

    def _held(self, action: Action) -> None:
        self.waiting = False
        self._epoch, self.token = action.get("epoch", 0), action.get("token", self.token)
        self._stands_on(action.get("session", ""))
        self._renewed(action)
        self.acquired_ns = self.acquired_ns or action["wall_ns"]
        if self.fresh:
            self.fresh = False
            if not settle(self.settled, self):  # nobody waits for it any more
                self.host.keeper.post(lambda: self.farewell(brief=False))

    def _stands_on(self, session: str) -> None:
        self.session = session
        self.life = self.standing.life_of(session) if self.standing is not None else None

    def _adopt(self, action: Action) -> None:
        self._epoch = action["epoch"]

    def _calibrate(self, _: Action) -> None:
        self.host.services.calibrate(self)

    def freeze(self) -> None:
        """Its session was told that it was broken, and later renewals of that say nothing of this one."""
        if self.life is not None and not self.frozen:
            self.frozen = self.belief()[0]

    def _renewed(self, action: Action) -> None:
        with self._lock:
            self._belief = (action["at_ns"], self._belief[1])

    def _refused(self, action: Action) -> None:
        reason, class_ = action["reason"], action.get("class", "")
        if reason == "cancelled" and self.refusal is not None:
            self._fail(self.refusal)
            return
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

    def _released(self, action: Action) -> None:
        self.host.remember(self, action)
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
            log.warning("%s", _texts.warned(self.title, action, self._seen(action)))

    def _seen(self, action: Action) -> Any:
        sight = action.get("sight")
        return of_sight(self.name, sight, self.host.clock.wall(), self.protocol) if sight else None

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
    "adopted": Claim._adopt,
    "calibrate": Claim._calibrate,
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

"""One claim on a store that Python talks to: a lease, a companion, or the release of a printed lease."""

from __future__ import annotations

import logging
import os
import queue
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _texts
from ._future import SETTLED, Future
from ._held import HeldThing, OnWaiting
from ._machine import Machine
from ._notify import notifier
from ._resolve import Abilities, Resolution, Resolver
from ._runner import Runner, Steps
from ._validity import VALIDITY_SLOTS, Validity, warn
from ._verbs import Action, Event
from .errors import EngineFailed, MopslockError
from .status import of_sight

if TYPE_CHECKING:
    from ._invocation import Invocation
    from ._services import Session
    from ._stepped import SteppedHost

log = logging.getLogger("mopslock")


@dataclass(frozen=True)
class Pending:
    """A claim of which it is not known yet how its name is kept."""

    want: str
    able: Abilities
    config: Callable[[Resolution], Event]
    """The Config under what it turns out to be; BadArgument where the terms do not go with it."""
    resolution: Resolution | None = None
    """What it is, where nobody has to ask."""


class LeaseRunner(Runner, Validity):
    """A lease or companion of a SteppedHost.

    Only one thread steps it: at first, perhaps, the one that acquires (InlineDriver), then the event loop (adopt).
    """

    __slots__ = (
        *VALIDITY_SLOTS, "_overs", "_waits", "beside", "notified", "fresh", "hurried", "refusal", "seed", "settled",
        "standing", "waiting",
    )  # fmt: skip

    def __init__(
        self, host: SteppedHost, store: Any, fields: Event, *, guarded: bool, waits: OnWaiting | None,
        into: Future[HeldThing], pending: Pending | None = None,
    ) -> None:  # fmt: skip
        self.seed = os.urandom(16)
        self.name: str = fields.get("name", "")
        machine: Steps = Machine({**fields, "seed": self.seed})  # or BadArgument
        if pending is not None:
            machine.drop()
            machine = resolving(self, pending)
        super().__init__(host, store, machine)
        self.begin_validity(host, self.name, str(getattr(store, "title", "") or self.name), guarded=guarded)
        self.holder = fields.get("holder") or str(uuid.UUID(bytes=self.seed, version=4))
        self.protocol: str = "" if pending is not None else fields["protocol"]
        self.ttl_ns = fields["ttl_ns"]
        self._epoch = fields.get("epoch", 0)
        self.beside = False  # a lock.json lies beside
        self.standing: Session | None = None  # what it stands on, or wants to
        self.settled = into  # held or joined, or not
        self._overs: list[Future[None]] = []  # see over
        self.fresh = True  # not held or joined before
        self.waiting = False
        self._waits = waits
        self.notified: queue.SimpleQueue[None] | None = None  # wakes the thread that drives it: see InlineDriver
        self.hurried = False  # the host is closing
        self.refusal: MopslockError | None = None  # why it was cancelled, if not by its caller

    # What anybody may call.

    @property
    def over(self) -> Future[None]:
        """Ends when it is released or left, or lost. It is made when it is first asked for: a future takes more memory
        than all else of a lease that is held. Two may make one at once, and the first in the list is theirs."""
        if not self._overs:
            self._overs.append(Future())
        return self._overs[0]

    def finish(self) -> Future[None]:
        """Its validity ends before anything is written that lets others in."""
        self.invalidate()
        self.host.loop.post(lambda: self.stop(brief=False))
        return self.over

    def _looked(self) -> bool:
        return self.host.look(self)

    def _overdue(self) -> None:
        self.host.loop.post(lambda: self.stop(brief=False))  # should it have been renewed all the same

    # What its one thread calls.

    def known(self) -> Event:
        """Of the store's clock and of its session, if it is a strict one."""
        return self.host.services.known(self) if self.protocol == "strict" else {}

    def step(self, event: Event) -> list[Action]:
        """As any; and what froze it is over when its machine has found out, or wants to be woken before."""
        requests = super().step(event)
        if isinstance(self._machine, Resolver) and self._machine.made is not None:
            self._machine = self._machine.made  # it is resolved
        self.thaw(self._wake)
        return requests

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
        """By the thread that made it. Others reach it meanwhile by a queue."""
        self.notified = self.notified or queue.SimpleQueue()

    def change(self) -> None:
        """Somebody in this process released the name. From any thread."""
        notified = self.notified
        if notified is not None:
            notified.put(None)
        else:
            self.host.loop.post(lambda: self.feed({"kind": "changed"}))

    def prod(self) -> None:
        """It may look at once. From any thread."""
        notified = self.notified
        if notified is not None:
            notified.put(None)
        else:
            self.host.loop.post(lambda: self.feed({"kind": "woke"}))

    def give_up(self, reason: str, class_: str, cause: BaseException | None) -> None:
        """It cannot get what it needs."""
        self.cause = cause
        self.refusal = _texts.refused(self.title, reason, class_, None, cause)
        self.feed({"kind": "cancel"})

    def key(self) -> tuple[int, str]:
        """What it claims, among all that this process does."""
        return (id(self.store_object), self.name)

    def forget_machine(self) -> None:
        """It was never begun, or nobody knows how far it came."""
        self.end(_texts.ended(self.title))
        self._machine.drop()
        self._machine.idle = True
        self.over.settle(None)

    def hurry(self) -> None:
        """The process is about to end, or the store is closed."""
        self.hurried = True
        self.invalidate()
        notified = self.notified
        if notified is not None:
            notified.put(None)
        else:
            self.host.loop.post(lambda: self.stop(brief=True))

    def adopt(self) -> None:
        """The event loop steps it from now on."""
        self.host.loop.post(self._adopted)

    def _adopted(self) -> None:
        self.notified = None
        self._schedule([])
        if self.hurried:  # nothing waited for the queue
            self.stop(brief=True)

    def stop(self, *, brief: bool) -> None:
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
        self.stands_on(action.get("session", ""), self.standing)
        self._renewed(action)
        self.acquired_ns = self.acquired_ns or action["wall_ns"]
        if self.fresh:
            self.fresh = False
            settled, self.settled = self.settled, SETTLED  # with all that waited for it
            if not settled.settle(self):  # nobody waits for it any more
                self.host.loop.post(lambda: self.stop(brief=False))

    def _adopt(self, action: Action) -> None:
        self.adopted(action["epoch"])

    def _calibrate(self, _: Action) -> None:
        self.host.services.calibrate(self)

    def _renewed(self, action: Action) -> None:
        self.renewed(action["at_ns"])

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
        self._fail(_texts.nothing_to_join(self.title, action["reason"], action.get("class", ""), self.cause))

    def _lost(self, action: Action) -> None:
        error = _texts.lost(self.title, action["reason"], self._seen(action))
        if not self.fresh:  # what was never held, or is only to be released, is not lost to anybody
            log.warning("%s", error)
        self._fail(error)

    def _fail(self, error: MopslockError) -> None:
        error.__cause__ = self.cause
        self.waiting = False
        self.end(error)
        self.settled.settle(error)
        self.over.settle(error)

    def _released(self, action: Action) -> None:
        self.host.remember(self, action)
        self.end(_texts.ended(self.title))
        self.settled.settle(_texts.closed())
        self.over.settle(None)
        self.host.wake_waiters(self)

    def _contact_lost(self, _: Action) -> None:
        log.warning("mopslock: lease %s: the store cannot be reached; trying on", _texts.quoted(self.title))

    def _warned(self, action: Action) -> None:
        warn(self.title, self.ttl_ns, action, self._seen(action))

    def _seen(self, action: Action) -> Any:
        sight = action.get("sight")
        return of_sight(self.name, sight, self.host.clock.wall(), self.protocol) if sight else None


def resolving(runner: LeaseRunner | Invocation, of: Pending) -> Resolver:
    """What stands in the place of its machine until it is known how its name is kept."""

    def make(resolution: Resolution) -> Steps:
        fields = of.config(resolution)
        runner.protocol, runner.ttl_ns, runner.beside = resolution.protocol, fields["ttl_ns"], resolution.beside
        machine = Machine({**fields, "seed": runner.seed})
        if fields.get("on_session"):
            runner.standing = runner.host.services.join(runner, fields)
        return machine

    return Resolver(
        runner.name, of.want, of.able, make, known=runner.known, cause=lambda: runner.cause, resolution=of.resolution
    )


_NOTICES: dict[str, Callable[[LeaseRunner, Action], None]] = {
    "waiting": LeaseRunner._waiting,
    "held": LeaseRunner._held,
    "adopted": LeaseRunner._adopt,
    "calibrate": LeaseRunner._calibrate,
    "renewed": LeaseRunner._renewed,
    "deadline": LeaseRunner._renewed,
    "refused": LeaseRunner._refused,
    "lost": LeaseRunner._lost,
    "released": LeaseRunner._released,
    "contact_lost": LeaseRunner._contact_lost,
    "cannot_maintain": LeaseRunner._cannot_maintain,
    "left": LeaseRunner._released,
    "warned": LeaseRunner._warned,
}

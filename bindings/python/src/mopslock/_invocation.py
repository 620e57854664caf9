"""One call of a piece of work on a store that Python talks to: the machine, and each tenure that it has.

The machine looks for the result, takes the lease or joins it, and says when the work is to be begun; it is told when
that has ended. It makes requests of its own beside those of the lease in it: theirs have even numbers, its own odd
ones, and neither waits for the other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from . import _texts
from ._call import Begin, Call, Found, NoLease, Step, StepFuture, WorkRequest
from ._future import Future
from ._held import OnWaiting
from ._lease_runner import Pending, resolving
from ._machine import Machine
from ._notify import notifier
from ._runner import Runner, Steps
from ._validity import VALIDITY_SLOTS, Validity, warn
from ._verbs import RESULTS, Action, Event, attempt
from .errors import EngineFailed, MopslockError
from .status import of_sight

if TYPE_CHECKING:
    from ._services import Session
    from ._stepped import SteppedHost

log = logging.getLogger("mopslock")

RESULT = "/result"


class Tenure(Validity):
    """One tenure under which the work is done: what its caller may ask. An invocation can have several."""

    __slots__ = (*VALIDITY_SLOTS, "_of", "host")

    def __init__(self, of: Invocation, action: Action) -> None:
        self._of, self.host = of, of.host
        self.begin_validity(of.host, of.name, of.title, guarded=of.handle is None)
        self.holder, self.protocol, self.ttl_ns = action["holder"], of.protocol, of.ttl_ns
        self._epoch = action.get("epoch", 0)
        self.token = action.get("token", 0) or (of.handle.token if of.handle is not None else 0)
        self.acquired_ns = action["wall_ns"]
        self.stands_on(action.get("session", ""), of.standing)
        self.renewed(action["at_ns"])

    def finish(self) -> Future[None]:
        """It ends with the call."""
        return self._of.cancel()

    def _looked(self) -> bool:
        return self.host.look(self._of)

    def _overdue(self) -> None:
        """The call goes on: somebody else may have the result soon."""


class Invocation(Runner, Call):
    """A call on a SteppedHost. Only the event loop's thread steps it."""

    __slots__ = (
        "_body", "_delivery", "_final", "_late", "_launched", "_pid", "_stored", "_waits", "_working", "beside",
        "fresh", "handle", "name", "over", "protocol", "refusal", "seed", "standing", "tenure", "title", "ttl_ns",
        "next_step",
    )  # fmt: skip

    def __init__(
        self, host: SteppedHost, request: WorkRequest, next_step: StepFuture, fields: Event, pending: Pending | None
    ) -> None:
        self.seed = os.urandom(16)
        self.name: str = fields["name"]
        machine: Steps = Machine({**fields, "seed": self.seed})  # or BadArgument
        if pending is not None:
            machine.drop()
            machine = resolving(self, pending)
        super().__init__(host, host.store, machine, lanes=2)
        self.title = self.name
        self.handle = request.handle
        self.protocol: str = "" if pending is not None else fields["protocol"]
        self.ttl_ns: int = fields["ttl_ns"]
        self.beside = False  # a lock.json lies beside
        self.standing: Session | None = None  # on which its leases stand, or want to
        self.fresh = True  # it holds nothing, and has joined nothing
        self.tenure: Tenure | None = None
        self.next_step = next_step
        self.over: Future[None] = Future()  # what was held is given back
        self.refusal: MopslockError | None = None  # why it was cancelled, if not by its caller
        self._waits: OnWaiting | None = request.waits
        self._launched = self._working = False  # the work was begun, ever; it is under way
        self._late: MopslockError | None = None  # why it ends without work, unless that is launched all the same
        self._final: Step | MopslockError | None = None
        self._body = b""  # the output of the work
        self._delivery = 0  # the request that stores it
        self._stored = False
        self._pid = os.getpid()

    # What anybody may call.

    def complete(self, next_step: StepFuture, *, well: bool, body: bytes | Path | None) -> None:
        """A file is read here, whole: a store of one's own takes bytes."""
        if self._pid != os.getpid():
            raise _texts.forked(self.title)
        body = body.read_bytes() if isinstance(body, Path) else body
        self.host.loop.post(lambda: self._work_ended(next_step, well=well, body=body))

    def cancel(self) -> Future[None]:
        """Its validity ends before anything is written that lets others in."""
        if self._pid != os.getpid():  # the parent's goes on
            nothing: Future[None] = Future()
            nothing.settle(None)
            return nothing
        tenure = self.tenure
        if tenure is not None:
            tenure.invalidate()
        self.host.loop.post(lambda: self.stop(brief=False))
        return self.over

    def open(self) -> BinaryIO:
        """On the caller's thread."""
        assert isinstance(self._final, Found)
        return self.host.open_object(self._final.key)

    # What the host and its services call.

    def key(self) -> tuple[int, str]:
        """What it asks for, among all that this process does."""
        return (id(self.store_object), self.name)

    @property
    def waiting(self) -> bool:
        """It waits for somebody else's release, or result, which may be in this process."""
        return self._machine.state in ("waiting", "awaiting")

    def known(self) -> Event:
        """Of the store's clock and of its session, if it is a strict one; it needs one whenever it wants a lease."""
        if self.standing is not None and self.fresh and not self._working and not (self._final or self.refusal):
            self.standing.add(self)
        return self.host.services.known(self) if self.protocol == "strict" else {}

    def freeze(self) -> None:
        """As its lease."""
        if self.tenure is not None:
            self.tenure.freeze()

    def change(self) -> None:
        """Somebody in this process has released the name, or stored the result. From any thread."""
        self.host.loop.post(lambda: self._nudged("changed"))

    def prod(self) -> None:
        """It may look at once. From any thread."""
        self.host.loop.post(lambda: self._nudged("woke"))

    def _nudged(self, kind: str) -> None:
        if self.begun:
            self.feed({"kind": kind})

    def give_up(self, reason: str, class_: str, cause: BaseException | None) -> None:
        """It cannot get what it needs. Work that is under way, or done, needs nothing."""
        if self._machine.state not in ("checking", "acquiring", "waiting", "confirming"):
            return
        self.cause = cause
        self.refusal = _texts.refused(self.title, reason, class_, None, cause)
        self.feed({"kind": "cancel"})

    def hurry(self) -> None:
        """The process is about to end, or the store is closed."""
        self.refusal = self.refusal or _texts.closed()
        tenure = self.tenure
        if tenure is not None:
            tenure.invalidate()
        self.host.loop.post(lambda: self.stop(brief=True))

    def stop(self, *, brief: bool) -> None:
        """On the event loop's thread."""
        if not self.begun:
            self._conclude(_texts.closed())
            self.forget_machine()
        elif not self.gone:
            self.feed({"kind": "release", "brief": True} if brief else {"kind": "cancel"})

    def forget_machine(self) -> None:
        """It was never begun, or nobody knows how far it came."""
        self._machine.drop()
        self._machine.idle = self.begun = True
        self.ended()

    # What its one thread calls.

    def step(self, event: Event) -> list[Action]:
        """As any; and what was said of its end is told when all is known."""
        requests = super().step(event)
        if self.tenure is not None:
            self.tenure.thaw(self._wake)
        if self._late is not None and self._machine.state in ("releasing", "done", "refused"):
            self._conclude(self._late)
        return requests

    def tell(self, action: Action) -> None:
        """What the machine says."""
        _NOTICES[action["kind"]](self, action)

    def failed(self, error: Exception) -> bool:
        """An error of ours, or what only showed when it was known how the name is kept."""
        ours = isinstance(error, MopslockError)
        self._conclude(error if isinstance(error, MopslockError) else EngineFailed(f"mopslock: {error!r}"))
        self.forget_machine()
        return ours and not isinstance(error, EngineFailed)

    def ended(self) -> None:
        """The machine waits for nothing any more."""
        self._conclude(self._late or self.refusal or _texts.closed())
        if self.tenure is not None:
            self.tenure.end(_texts.ended(self.title))
        self.over.settle(None)
        self.host.forget(self)
        if not isinstance(self._final, Found):  # another that waits for it has to do it itself
            self.host.wake_next(self)

    def _work_ended(self, next_step: StepFuture, *, well: bool, body: bytes | None) -> None:
        self.next_step = next_step
        if self._final is not None:  # it was over before
            next_step.settle(self._final)
            return
        self._working = False
        if self.refusal is not None or self._machine.state != "launched":  # it is given up, and hears of it in the end
            return
        self._body = body or b""
        event: Event = {"kind": "ended", "outcome": "yes" if well else "no"}
        if body is not None:
            event["result"] = True
        self.feed(event)

    def _conclude(self, outcome: Step | MopslockError) -> None:
        """The first word counts. One that waits for work hears it now, one that works when that has ended."""
        if self._final is not None:
            return
        self._final, self._working, self._late = outcome, False, None
        if self.tenure is not None:
            self.tenure.invalidate()  # what is written next may let others in
        if isinstance(outcome, MopslockError):
            outcome.__cause__ = self.cause
        self._body = b""
        self.next_step.settle(outcome)

    # Requests.

    def _lane(self, request: Action) -> Callable[[Callable[[], object]], None]:
        """Results take their time, and no renewal waits behind one."""
        return self.host.transfers if request["kind"] in RESULTS else super()._lane(request)

    def _begin(self, request: Action) -> None:
        if request["kind"] in RESULTS:
            self._delivery = request["request"]
        super()._begin(request)

    def _request(self, request: Action, limit: int) -> None:
        verb = RESULTS.get(request["kind"])
        if verb is not None:
            request = {**request, "kind": verb, "body": self._body}
        answer = attempt(self.store_object, request, self.host.clock, limit)
        self.host.loop.post(lambda: self._came_back(request["request"], answer))

    def _answered(self, number: int, answer: Event) -> None:
        if number == self._delivery and answer["outcome"] == "yes":
            self._stored = True
        super()._answered(number, answer)

    # What the machine tells.

    def _waiting(self, action: Action) -> None:
        if self._waits is not None and (sight := action.get("sight")):
            tell, status = self._waits, of_sight(self.name, sight, self.host.clock.wall(), self.protocol)
            notifier.call(lambda: tell(status))

    def _held(self, action: Action) -> None:
        self.fresh = False
        self.tenure = Tenure(self, action)

    def _launch(self, _: Action) -> None:
        self._late, self._launched, self._working = None, True, True
        begin = Begin(self.tenure or NoLease(self, self.host.url))
        if not self.next_step.settle(begin):  # nobody is there to do it
            self.cancel()

    def _found(self, action: Action) -> None:
        key = action["key"]
        self._conclude(Found(key, key != self.name + RESULT, self._stored))
        self.host.wake_found(self, key)

    def _absent(self, action: Action) -> None:
        self._conclude(
            _texts.no_result(
                self.title, action.get("reason", ""), action.get("class", ""), self._seen(action), self.cause
            )
        )

    def _refused(self, action: Action) -> None:
        reason, class_ = action["reason"], action.get("class", "")
        if reason == "cancelled" and self.refusal is not None:
            self._conclude(self.refusal)
        else:
            self._conclude(_texts.refused(self.title, reason, class_, self._seen(action), self.cause))

    def _cannot_maintain(self, action: Action) -> None:
        error = _texts.nothing_to_join(self.title, action["reason"], action.get("class", ""), self.cause)
        if self._launched:  # what was begun goes on
            log.warning("%s", error)
            return
        self._late = error
        if self.tenure is not None:
            self.tenure.end(error)
        self.tenure = None

    def _lost(self, action: Action) -> None:
        """A remote that has not begun never will; who wants the result goes on without the lease."""
        error = _texts.lost(self.title, action["reason"], self._seen(action))
        if self._working:
            log.warning("%s", error)
        elif self.handle is not None and not self._launched:
            self._late = error
        if self.tenure is not None:
            self.tenure.end(error)
        self.tenure, self.fresh = None, True

    def _released(self, action: Action) -> None:
        self.host.remember(self, action)
        self._left(action)
        self.host.wake_waiters(self)

    def _left(self, _: Action) -> None:
        if self.tenure is not None:
            self.tenure.end(_texts.ended(self.title))
        self.tenure = None

    def _renewed(self, action: Action) -> None:
        if self.tenure is not None:
            self.tenure.renewed(action["at_ns"])

    def _adopted(self, action: Action) -> None:
        if self.tenure is not None:
            self.tenure.adopted(action["epoch"])

    def _contact_lost(self, _: Action) -> None:
        log.warning("mopslock: lease %s: the store cannot be reached; trying on", _texts.quoted(self.title))

    def _calibrate(self, _: Action) -> None:
        self.host.services.calibrate(self)

    def _warned(self, action: Action) -> None:
        warn(self.title, self.ttl_ns, action, self._seen(action))

    def _seen(self, action: Action) -> Any:
        sight = action.get("sight")
        return of_sight(self.name, sight, self.host.clock.wall(), self.protocol) if sight else None


_NOTICES: dict[str, Callable[[Invocation, Action], None]] = {
    "waiting": Invocation._waiting,
    "held": Invocation._held,
    "launch": Invocation._launch,
    "found": Invocation._found,
    "absent": Invocation._absent,
    "adopted": Invocation._adopted,
    "calibrate": Invocation._calibrate,
    "renewed": Invocation._renewed,
    "deadline": Invocation._renewed,
    "refused": Invocation._refused,
    "lost": Invocation._lost,
    "released": Invocation._released,
    "contact_lost": Invocation._contact_lost,
    "cannot_maintain": Invocation._cannot_maintain,
    "left": Invocation._left,
    "warned": Invocation._warned,
}

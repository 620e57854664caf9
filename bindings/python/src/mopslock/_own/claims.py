"""What is held on a store, and what a caller may believe of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _texts
from .._future import SETTLED, Future
from .._held import Ended, Handle, OnWaiting
from .._log import log
from .._units import DEFAULT_TTL, SECOND
from .._workers import notifier
from ..errors import BadArgument, Full, LeaseLost, MopslockError
from ..status import Status, instant, of_sight
from ..terms import PermitRequest
from .base import AnyClient, Claim, Deadline, Until
from .verbs import ENDS, Action

NOTHING = Deadline()


class HeldThing:
    """A lease, permit, work or companion that this process holds: until when it may be relied on, and why not. Any
    thread may ask; nothing here waits for I/O."""

    what = "lease"  # as texts for people call it
    is_given_back: Callable[[], bool]  # finish has nothing left to begin; no lock, no clock: a finalizer asks
    finish: Callable[[], Future[None]]
    """Releases a lease, leaves a companion. The future ends when the store has confirmed, or with the loss."""

    __slots__ = (
        "_belief", "_pid", "acquired_ns", "client", "ended", "epoch", "guarded", "holder", "name", "protocol",
        "session", "store", "title", "token", "ttl_ns",
    )  # fmt: skip

    def __init__(self, client: AnyClient, name: str, title: str, *, guarded: bool) -> None:
        """Begins with nothing that could be relied on."""
        self.client, self.store, self.name = client, client.url, name
        self.title = title  # what people are told of
        self.guarded = guarded  # a deadline ends it; a companion's is only bad news
        self.holder = self.protocol = self.session = ""
        self.acquired_ns = self.token = self.ttl_ns = 0
        self.epoch = 0  # the newest known of the tenure; 0 under lastwriter
        self._pid = os.getpid()
        self._belief: Until = NOTHING
        self.ended: Future[None] = Future()  # why it may not be relied on

    # What any thread may call.

    def until(self) -> int:
        """What a session has said since our own was fixed, by a call, must not be believed."""
        while True:
            belief = self._belief
            until = belief.until()
            if self._belief is belief:
                return until

    def handle(self) -> Handle:
        """What another process needs to keep it alive."""
        acquired = instant(self.acquired_ns)
        assert acquired is not None
        return Handle(self.name, self.store, self.holder, self.ttl_ns, acquired, self.epoch, self.token, self.protocol)

    def left_ns(self) -> int:
        """How long it can be relied on without another renewal; 0 or less once failure is not None."""
        left = self.until() - self.client.clock.mono()
        return left if not self.ended.done() and self._pid == os.getpid() else min(left, 0)

    def failure(self) -> MopslockError | None:
        """Why it can no longer be relied on, or None. It looks at the clock itself, so it is right past a deadline
        though nobody steps the client."""
        if self._pid != os.getpid():
            return _texts.forked(self.title, self.what)
        if not self.ended.done() and self._is_over():
            self.client.look()  # it may be about to tell of a renewal that came in time
        if not self.ended.done() and self._is_over():  # it is lost, whatever is told later
            self.ended.settle(_texts.lost(self.title, "expired", None, self.what))
            self.overdue()
        failure = self.ended.exception()
        assert failure is None or isinstance(failure, MopslockError)
        return failure

    def _is_over(self) -> bool:
        return self.guarded and self.client.clock.mono() >= self.until()

    def overdue(self) -> None:
        """It was given up although the client has not said so."""

    def when_ended(self, tell: Ended) -> None:
        """Calls tell once with the failure, as soon as there is one: on any thread, so tell must be quick."""
        if self._pid != os.getpid():
            raise _texts.forked(self.title, self.what)
        self.ended.add_done_callback(lambda over: tell(over.exception()))  # type: ignore[arg-type]

    def invalidate(self, *, told: bool = False) -> None:
        """It is not relied on any more, by our own will; one that is past its deadline is lost instead. told: the
        client has said that it is over, and a keeper may have taken its word back before we heard that."""
        if not self._is_over() or (told and not self.until()):
            self.ended.settle(_texts.ended(self.title, self.what))

    # What the client tells.

    def deadline(self, action: Action) -> None:
        """What it stands on, as held also says."""
        self._belief = self.client.belief(action)

    def renewed(self, action: Action) -> None:
        """Its own deadline. What it stands on is the same."""
        self._belief = self._belief.renewed(action["at_ns"])

    def believe_held(self, action: Action) -> None:
        self.holder, self.session = action.get("holder", self.holder), action.get("session", "")
        self.protocol = action["protocol"]
        self.ttl_ns = self.ttl_ns or DEFAULT_TTL[self.protocol]
        self.epoch, self.token = action.get("epoch", 0), action.get("token", self.token)
        self.acquired_ns = self.acquired_ns or action.get("wall_ns", 0)
        self.deadline(action)

    def adopted(self, action: Action) -> None:
        self.epoch = action["epoch"]


class Asked(Claim):
    """What a caller has asked for: a lease, a companion, a permit or work. Its notices are heard by methods of their
    names."""

    if not TYPE_CHECKING:  # see Claim
        __slots__ = ()

    name: str
    title: str
    protocol: str
    ttl_ns: int
    _waits: OnWaiting | None
    what = "lease"

    def hear(self, action: Action) -> bool:
        getattr(self, action["kind"])(action)
        return action["kind"] in ENDS

    def _given_up(self, future: Future[Any]) -> None:
        if future.cancelled():
            self.client.command(self, "cancel")

    def seen(self, action: Action) -> Status | None:
        """The record that a notice shows."""
        protocol = action.get("protocol") or self.protocol or "lastwriter"  # whose records have no epoch
        sight = action.get("sight")
        return of_sight(self.name, sight, self.client.clock.wall(), protocol) if sight else None

    def refusal(self, action: Action) -> MopslockError:
        """Why nothing was acquired."""
        reason, class_ = reason_of(action), action.get("class", "")
        cause = self.client.cause if self.cause is None and class_ else self.cause
        if reason == "cancelled" and self.client.closing:
            return _texts.closed()
        if reason == "terms":
            return BadArgument(f"mopslock: {action.get('body', b'').decode()}")
        error = _texts.refused(self.title, reason, class_, self.seen(action), cause, what=self.what)
        error.__cause__ = cause
        return error

    def waiting(self, action: Action) -> None:
        if (tell := self._waits) is not None and (status := self.seen(action)) is not None:
            notifier.call(lambda: tell(status))

    def warned(self, action: Action) -> None:
        """What the core has to say of a lease that is none the worse for it."""
        if action["reason"] == "ttl_differs":
            log.warning(
                "mopslock: lease %s: the record has a TTL of %g s, ours is %g s; everybody on a name should use one",
                _texts.quoted(self.title), action["sight"].get("ttl_ns", 0) / SECOND, self.ttl_ns / SECOND,
            )  # fmt: skip
        else:
            log.warning("%s", _texts.warned(self.title, action, self.seen(action)))

    def contact_lost(self, _: Action) -> None:
        log.warning("mopslock: lease %s: the store cannot be reached; trying on", _texts.quoted(self.title))


def reason_of(action: Action) -> str:
    """Why, in the words of a caller."""
    reason: str = action["reason"]
    return {"no_create": "unfit", "no_session": "unusable"}.get(reason, reason)


class Lease(HeldThing, Asked):
    """A lease, or a companion; in mops' package also the release or renewal of a lease that is known by its holder."""

    __slots__ = ("_overs", "_waits", "cause", "number", "settled")

    def __init__(
        self, client: AnyClient, name: str, *, title: str = "", guarded: bool, ttl_ns: int = 0,
        waits: OnWaiting | None = None, into: Future[HeldThing] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(client, name, title or name, guarded=guarded)
        self.number, self.cause, self.ttl_ns = 0, None, ttl_ns
        self.settled: Future[HeldThing] = Future() if into is None else into  # held or joined, or not
        self.settled.add_done_callback(self._given_up)
        self._overs: list[Future[None]] = []  # see over
        self._waits = waits

    # What any thread may call.

    @property
    def over(self) -> Future[None]:
        """Ends when it is released or left, or lost. It is made when it is first asked for, since a future takes more
        memory than all else of a lease. Two may make one at once, and the first in the list is theirs."""
        if not self._overs:
            self._overs.append(Future())
        return self._overs[0]

    def finish(self) -> Future[None]:
        """Its validity ends before anything is written that lets others in."""
        self.invalidate()
        over = self.over
        self.overdue()
        return over

    def is_given_back(self) -> bool:
        return bool(self._overs) and self._overs[0].done()

    def hurry(self) -> None:
        if self.holder:
            self.invalidate()

    def overdue(self) -> None:
        """Has it given back, should it have been renewed all the same."""
        self.client.command(self, "release" if self.guarded else "leave")

    def is_wanted(self) -> bool:
        """A caller that has given up before it was begun has nothing to give back."""
        if not self.settled.cancelled():
            return not self.is_given_back()
        self.fail(_texts.refused(self.title, "cancelled", "", None, None))
        return False

    # What the client tells.

    def fail(self, error: MopslockError) -> None:
        """It was not acquired, or is lost."""
        self.ended.settle(error)
        self.settled.settle(error)
        self.over.settle(error)

    def strand(self, error: MopslockError) -> bool:
        """A companion joins again. What is held stays good until its deadline, and is lost then."""
        if not self.holder or self.is_given_back():
            self.fail(error)
            return False
        if not self.guarded:
            if not self.ended.done():
                self.contact_lost({})
                return True
            self.released({})
            return False
        lost = _texts.lost(self.title, "unreachable", None, self.what)
        lost.__cause__ = error
        if self.ended.done():  # it was about to be released, and expires
            self.fail(lost)
        else:
            self.client.at(self.until(), lambda: self._expire(lost))
        return False

    def _expire(self, lost: LeaseLost) -> None:
        if self.ended.settle(lost):
            log.warning("%s", lost)
        self.over.settle(lost)

    def held(self, action: Action) -> None:
        """It is held or joined, perhaps once more."""
        if self.is_given_back():  # while it was about to go on with another client
            self.overdue()
            return
        self.believe_held(action)
        settled, self.settled = self.settled, SETTLED  # with all that waited for it
        settled.settle(self)

    def refused(self, action: Action) -> None:
        self.protocol = action.get("protocol", self.protocol)
        self.fail(self.refusal(action))

    def cannot_maintain(self, action: Action) -> None:
        error = _texts.nothing_to_join(self.title, action["reason"], action.get("class", ""), self.cause)
        error.__cause__ = self.cause
        self.fail(error)

    def lost(self, action: Action) -> None:
        """It is another's, or nobody's."""
        error = _texts.lost(self.title, action["reason"], self.seen(action), self.what)
        error.__cause__ = self.cause
        if self.holder:  # what was never held is not lost to anybody
            log.warning("%s", error)
        self.fail(error)

    def released(self, _: Action) -> None:
        """It is given back, or left."""
        self.ended.settle(_texts.ended(self.title, self.what))
        self.settled.settle(_texts.closed())
        self.over.settle(None)

    left = released


class Permit(Lease):
    """A permit of a semaphore, or the setting of its limit, which is settled when it is in the store."""

    __slots__ = ("request", "total", "what")

    def __init__(
        self, client: AnyClient, name: str, request: PermitRequest | None, *, ttl_ns: int = 0,
        waits: OnWaiting | None = None, into: Future[HeldThing] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(client, name, guarded=True, ttl_ns=ttl_ns, waits=waits, into=into)
        self.request = request
        self.what = "limit of" if request is None else "permit of"
        self.protocol, self.total = "strict", 0

    def limited(self, action: Action) -> None:
        """The limit is set, and nothing is left of it."""
        self.settled.settle(self)
        self.released(action)

    def held(self, action: Action) -> None:
        self.total, self.acquired_ns = action["total"], self.client.clock.wall()
        super().held(action)
        self.epoch = self.token

    def refusal(self, action: Action) -> MopslockError:
        error = super().refusal(action)
        if isinstance(error, Full) and self.request is not None:
            error.for_request(self.request.limit, self.request.weight)
        return error


class Look(Claim):
    """What is seen of a name, or has become of it after a break."""

    __slots__ = ("_breaks", "cause", "client", "future", "name", "number", "status")

    def __init__(self, client: AnyClient, name: str, *, breaks: bool = False) -> None:
        self.number, self.cause = 0, None
        self.client, self.name, self._breaks = client, name, breaks
        self.status = Status(name=name, state="vacant")
        self.future: Future[Action] = Future()

    def hear(self, action: Action) -> bool:
        """Its last word is that it is broken or refused; of one that only looks, what it sees."""
        if sight := action.get("sight"):
            self.status = of_sight(self.name, sight, self.client.clock.wall(), action.get("protocol", "strict"))
        if action["kind"] == "warned" or (action["kind"] == "seen" and self._breaks):
            return False
        self.future.settle(action)
        return True

    def fail(self, error: MopslockError) -> None:
        self.future.settle(error)

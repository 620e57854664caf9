"""What is held on a store of one's own, and what a caller may believe of it."""

from __future__ import annotations

import os
from typing import Any

from .. import _texts
from .._future import SETTLED, Future
from .._held import Ended, Handle, OnWaiting
from .._log import log
from .._notify import notifier
from .._permit_request import PermitRequest
from .._units import DEFAULT_TTL, SECOND
from ..errors import BadArgument, Full, LeaseLost, MopslockError
from ..status import Status, instant, of_sight
from .base import AnyClient, Claim, Deadline, Until
from .verbs import Action

NOTHING = Deadline()


class HeldThing:
    """A lease, permit, work or companion that this process holds: until when it may be relied on, and why not. Any
    thread may ask; nothing here waits for I/O."""

    what = "lease"
    """What texts for people call it."""

    __slots__ = (
        "_belief", "_epoch", "_pid", "acquired_ns", "client", "ended", "guarded", "holder", "name", "protocol",
        "session", "store", "title", "token", "ttl_ns",
    )  # fmt: skip

    def __init__(self, client: AnyClient, name: str, title: str, *, guarded: bool) -> None:
        """Begins with nothing that could be relied on."""
        self.client, self.store, self.name = client, client.url, name
        self.title = title  # what people are told of
        self.guarded = guarded  # a deadline ends it; a companion's is only bad news
        self.holder = self.protocol = self.session = ""
        self.acquired_ns = self.token = self._epoch = self.ttl_ns = 0
        self._pid = os.getpid()
        self._belief: Until = NOTHING
        self.ended: Future[None] = Future()  # why it may not be relied on

    # What any thread may call.

    @property
    def host(self) -> Any:
        """Whose it is."""
        return self.client.host

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
        return Handle(self.name, self.store, self.holder, self.ttl_ns, acquired, self._epoch, self.token, self.protocol)

    def version(self) -> int:
        """The newest known epoch of the tenure; 0 under lastwriter."""
        return self._epoch

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

    def believe(self, action: Action) -> None:
        """held and deadline say what it stands on; without a session it has that instant alone."""
        self._belief = self.client.belief(self.claim(), action)

    def renewed(self, action: Action) -> None:
        """Its own deadline. What it stands on is the same."""
        self._belief = self._belief.renewed(action["at_ns"])

    def claim(self) -> Claim:
        """By which it is held."""
        raise NotImplementedError

    def is_given_back(self) -> bool:
        """finish has nothing left to begin. It takes no lock and looks at no clock: a finalizer asks."""
        raise NotImplementedError

    def finish(self) -> Future[None]:
        """Releases a lease, leaves a companion. The future ends when the store has confirmed, or with the loss."""
        raise NotImplementedError

    def believe_held(self, action: Action) -> None:
        """It is held from now on."""
        self.holder, self.session = action.get("holder", self.holder), action.get("session", "")
        self.protocol = action["protocol"]
        self.ttl_ns = self.ttl_ns or DEFAULT_TTL[self.protocol]
        self._epoch, self.token = action.get("epoch", 0), action.get("token", self.token)
        self.acquired_ns = self.acquired_ns or action.get("wall_ns", 0)
        self.believe(action)

    def adopted(self, action: Action) -> None:
        """The tenure has a newer version."""
        self._epoch = action["epoch"]

    def seen(self, action: Action) -> Status | None:
        """The record that a notice shows."""
        return seen(self.client, self.name, action, self.protocol)

    def warned(self, action: Action) -> None:
        """What the core has to say of a lease that is none the worse for it."""
        warn(self.title, self.ttl_ns, action, self.seen(action))

    def contact_lost(self, _: Action) -> None:
        """A companion's."""
        lose_contact(self.title)


def seen(client: AnyClient, name: str, action: Action, protocol: str) -> Status | None:
    """The record that a notice shows."""
    sight = action.get("sight")
    return (
        of_sight(name, sight, client.clock.wall(), action.get("protocol") or protocol or LASTWRITER) if sight else None
    )


LASTWRITER = "lastwriter"  # whose records have no epoch


def warn(title: str, ttl_ns: int, action: Action, seen: Status | None) -> None:
    """What the core has to say of a lease that is none the worse for it."""
    if action["reason"] == "lock_file":
        log.warning("%s", _texts.fell_back(title, "the name has a lock.json"))
    elif action["reason"] == "ttl_differs":
        log.warning(
            "mopslock: lease %s: the record has a TTL of %g s, ours is %g s; everybody on a name should use one",
            _texts.quoted(title), action["sight"].get("ttl_ns", 0) / SECOND, ttl_ns / SECOND,
        )  # fmt: skip
    else:
        log.warning("%s", _texts.warned(title, action, seen))


def lose_contact(title: str) -> None:
    """A companion's."""
    log.warning("mopslock: lease %s: the store cannot be reached; trying on", _texts.quoted(title))


def reason_of(action: Action) -> str:
    """Why, in the words of a caller."""
    reason: str = action["reason"]
    return {"no_create": "unfit", "no_session": "unusable"}.get(reason, reason)


def refusal(
    claim: Claim, client: AnyClient, title: str, action: Action, *, seen: Status | None, what: str
) -> MopslockError:
    """Why nothing was acquired."""
    reason, class_ = reason_of(action), action.get("class", "")
    cause = claim.cause or (client.cause if class_ else None)
    if reason == "cancelled" and client.closing:
        return _texts.closed()
    if reason == "terms":
        return BadArgument(f"mopslock: {action.get('body', b'').decode()}")
    error = _texts.refused(title, reason, class_, seen, cause, what=what)
    error.__cause__ = cause
    return error


class Lease(HeldThing, Claim):
    """A lease, a companion, or the release or renewal of a lease that is only known by its holder."""

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
        self.client.command(self, "release" if self.guarded else "leave")
        return over

    def is_given_back(self) -> bool:
        """As the client said."""
        return bool(self._overs) and self._overs[0].done()

    def hurry(self) -> None:
        """The process is about to end, or the store is closed."""
        if self.holder:
            self.invalidate()

    def overdue(self) -> None:
        """Should it have been renewed all the same."""
        self.client.command(self, "release" if self.guarded else "leave")

    def is_wanted(self) -> bool:
        """A caller that has given up before it was begun has nothing to give back."""
        if not self.settled.cancelled():
            return not self.is_given_back()
        self.fail(_texts.refused(self.title, "cancelled", "", None, None))
        return False

    def _given_up(self, settled: Future[HeldThing]) -> None:
        if settled.cancelled():
            self.client.command(self, "cancel")

    # What the client tells.

    def claim(self) -> Claim:
        """Itself."""
        return self

    def hear(self, action: Action) -> bool:
        """Its last word is one of ENDS."""
        getattr(self, NOTICES[action["kind"]])(action)
        return action["kind"] in ENDS

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

    def waiting(self, action: Action) -> None:
        """Another holds it."""
        if self._waits is not None and (status := self.seen(action)) is not None:
            tell = self._waits
            notifier.call(lambda: tell(status))

    def held(self, action: Action) -> None:
        """It is held or joined, perhaps once more."""
        if self.is_given_back():  # while it was about to go on with another client
            self.client.command(self, "release" if self.guarded else "leave")
            return
        self.believe_held(action)
        settled, self.settled = self.settled, SETTLED  # with all that waited for it
        settled.settle(self)

    def refused(self, action: Action) -> None:
        """It is not acquired."""
        self.protocol = action.get("protocol", self.protocol)
        self.fail(refusal(self, self.client, self.title, action, seen=self.seen(action), what=self.what))

    def cannot_maintain(self, action: Action) -> None:
        """There is nothing to join."""
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


ENDS = {"refused", "lost", "released", "left", "cannot_maintain"}

NOTICES = {
    "waiting": "waiting",
    "held": "held",
    "renewed": "renewed",
    "deadline": "believe",
    "adopted": "adopted",
    "refused": "refused",
    "cannot_maintain": "cannot_maintain",
    "lost": "lost",
    "released": "released",
    "left": "released",
    "contact_lost": "contact_lost",
    "warned": "warned",
}
"""What a lease is told, and the method that hears it."""


class Permit(Lease):
    """A permit of a semaphore, or the setting of its limit, which is settled when it is in the store."""

    __slots__ = ("request", "total", "what")

    def __init__(
        self, client: AnyClient, name: str, request: PermitRequest | None, *, ttl_ns: int,
        waits: OnWaiting | None = None, into: Future[HeldThing] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(client, name, guarded=True, ttl_ns=ttl_ns, waits=waits, into=into)
        self.request = request
        self.what = "limit of" if request is None else "permit of"
        self.protocol, self.total = "strict", 0

    def hear(self, action: Action) -> bool:
        """A limit is set, and nothing is left of it."""
        if action["kind"] != "limited":
            return super().hear(action)
        self.settled.settle(self)
        self.released(action)
        return True

    def held(self, action: Action) -> None:
        """It is let in."""
        self.total, self.acquired_ns = action["total"], self.client.clock.wall()
        super().held(action)
        self._epoch = self.token

    def refused(self, action: Action) -> None:
        """There is no room, or no semaphore."""
        error = refusal(self, self.client, self.title, action, seen=self.seen(action), what=self.what)
        if isinstance(error, Full) and self.request is not None:
            error.for_request(self.request.limit, self.request.weight)
        self.fail(error)


class Look(Claim):
    """What is seen of a name, or has become of it after a break."""

    __slots__ = ("_client", "cause", "future", "name", "number", "status")

    def __init__(self, client: AnyClient, name: str) -> None:
        self.number, self.cause = 0, None
        self._client, self.name = client, name
        self.status = Status(name=name, state="vacant")
        self.future: Future[Action] = Future()

    def hear(self, action: Action) -> bool:
        """Its last word is that it is broken or refused; of one that only looks, what it sees."""
        if sight := action.get("sight"):
            protocol = action.get("protocol", "strict")
            self.status = of_sight(self.name, sight, self._client.clock.wall(), protocol)
        if action["kind"] == "warned":
            return False
        self.future.settle(action)
        return True

    def fail(self, error: MopslockError) -> None:
        """It could not be begun."""
        self.future.settle(error)


class Break(Look):
    """Breaks, and then sees."""

    __slots__ = ()

    def hear(self, action: Action) -> bool:
        """What is seen is not its last word."""
        if action["kind"] != "seen":
            return super().hear(action)
        self.status = of_sight(self.name, action["sight"], self._client.clock.wall(), action.get("protocol", "strict"))
        return False

"""A host on a store that Python talks to: the core decides, stepped from here."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait

from . import _texts
from ._claim import MOST_RUNNING, Action, Claim, Event, attempt, config, perform, unknown
from ._clock import Clock, System
from ._drive import Drive
from ._duration import SECOND
from ._keeper import Do, Keeper, Lane, Workers
from ._machine import Machine
from ._member import Asked, Handle, Host, Member, Waits, settle
from ._notify import log
from .errors import BadArgument, MopslockError, NotReleased, StoreError, error_class
from .status import Status, of_sight
from .stores import Listing, Store, class_of
from .terms import Terms

RECORD = "/lock.json"

Submit = Callable[[Do], None]
Keys = list[str]

LONGEST_TTL = 30 * 86_400 * SECOND
PASSING = ("unreachable", "throttled")
RETRY = 0.5
"""Seconds between two reads for somebody who only looks."""

LOOK = 1.0
"""Seconds that a caller past its deadline waits for the keeper to say what happened."""


class _Shared:
    """What all hosts of this process share; a forked child has its own."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.keeper = Keeper(System())


_shared = _Shared()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.__init__)  # type: ignore[misc]


def lane() -> Lane:
    """A share of the process's workers, for one more store."""
    return Lane(_shared.workers)


class SteppedHost(Host):
    """What this process holds on one store of its own."""

    def __init__(self, store: Store, *, clock: Clock | None = None, submit: Submit | None = None) -> None:
        """A clock and a way to run requests are for tests, which then turn the keeper themselves."""
        self.store = store
        self.url = str(getattr(store, "url", None) or repr(store))
        self.stamp_unit = int(getattr(store, "stamp_unit_ns", 0))
        self.clock = clock or System()
        self.keeper = _shared.keeper if submit is None else Keeper(self.clock, threaded=False)
        self._submit = submit or lane().submit
        self._threads = submit is None
        self._asks = submit or lane().submit  # so that no renewal waits behind those who ask from threads of theirs
        self._asked: Counter[tuple[int, str]] = Counter()
        self._lock = threading.RLock()
        self._claims: set[Claim] = set()
        self._waiters: defaultdict[tuple[int, str], set[Claim]] = defaultdict(set)
        self._closed = False

    # Requests.

    def submit_to(self, store: Store) -> Submit:
        """How requests to a store are run: a store that a claim brings may bring a share of the workers too."""
        brought: Lane | None = getattr(store, "lane", None)
        return brought.submit if isinstance(brought, Lane) else self._submit

    def _prompt(self, store: object) -> bool:
        return not self._threads or getattr(store, "prompt", False) is True

    def ask(self, store: Store, request: Action, limit_ns: int) -> Event:
        """One request for the caller's thread, which waits no longer than its limit.

        A store whose verbs are prompt is asked on that very thread: a change of threads costs more than its verbs.
        """
        limit = self.clock.mono() + limit_ns
        if self._prompt(store):
            answer = perform(store, request)
            return answer if self.clock.mono() < limit else unknown(request, "unreachable")
        answered: queue.SimpleQueue[Event] = queue.SimpleQueue()
        place = (id(store), request["key"])

        def job() -> None:
            try:
                answered.put(attempt(store, request, self.clock, limit))
            finally:
                with self._lock:
                    self._asked[place] -= 1

        with self._lock:
            hangs = self._asked[place] >= MOST_RUNNING
            self._asked[place] += not hangs
        if not hangs:
            self._asks(job)
        try:
            answer = answered.get(timeout=limit_ns / SECOND)
        except queue.Empty:
            return unknown(request, "unreachable")
        return answer if self.clock.mono() < limit else unknown(request, "unreachable")

    # Claims.

    def claim(
        self, name: str, terms: Event, *, holder: str = "", role: str = "", machine: str = "lease",
        waits: Waits | None = None, store: Store | None = None, driven: bool = False, into: Asked | None = None,
    ) -> Claim:  # fmt: skip
        """A machine that has not begun; driven: by the caller's thread at first. Every bad field is BadArgument."""
        fields = config(machine, _plain("name", name), terms, holder=holder, role=role, stamp_unit=self.stamp_unit)
        asked = Future() if into is None else into
        claim = Claim(self, store or self.store, fields, guarded=machine == "lease", waits=waits, into=asked)
        if driven:
            claim.will_be_driven()
        with self._lock:
            if self._closed:
                claim.forget_machine()
                raise _texts.closed()
            self._claims.add(claim)
        return claim

    def acquire(self, name: str, terms: Terms, wait_ns: int, waits: Waits | None, into: Asked | None = None) -> Member:
        """On the caller's own thread until it is held, which saves it ten changes of thread; then the keeper has it."""
        claim = None
        try:
            claim = self.claim(name, _with_ttl(terms), waits=waits, driven=True, into=into)
            Drive(claim).run(acquiring(wait_ns))
            claim.adopt()
        except BaseException:
            if claim is not None and not claim.gone:  # interrupted between these lines
                self.abandon(claim)
            raise
        member = claim.settled.result()
        if claim.hurried:  # closed in this moment, and released already or soon
            raise _texts.closed()
        return member

    def abandon(self, claim: Claim) -> None:
        """What an interrupted claim has left is released by another machine: nobody knows how far this one came."""
        self.forget(claim)
        claim.forget_machine()
        if claim.guarded:
            self._release_left(claim)
            for after in (SECOND, claim.ttl_ns // 3):  # a put of it may be under way on a worker, and land later
                at = self.clock.mono() + after
                self.keeper.post(lambda at=at: self.keeper.at(at, lambda _: self._release_left(claim)))  # type: ignore[misc]

    def _release_left(self, claim: Claim) -> None:
        with contextlib.suppress(MopslockError):
            self.begin_release(claim.name, claim.holder, {"ttl_ns": claim.ttl_ns}, store=claim.store_object)

    def begin_acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: Waits | None, into: Asked | None = None
    ) -> Asked:
        """On the keeper's thread and the workers'."""
        return self._begin(self.claim(name, _with_ttl(terms), waits=waits, into=into), acquiring(wait_ns))

    def begin_accompany(self, handle: Handle, terms: Terms, into: Asked | None = None) -> Asked:
        """A companion."""
        fields = {**_with_ttl(terms), "ttl_ns": handle.ttl_ns}
        claim = self.claim(handle.name, fields, holder=handle.holder, machine="companion", into=into)
        return self._begin(claim, {"kind": "accompany"})

    def begin_release(self, name: str, holder: str, terms: Event, *, store: Store | None = None) -> Future[None]:
        """Releases a lease of which only the holder is known."""
        claim = self.claim(name, terms, holder=holder, role="owner", store=store)
        self.keeper.post(lambda: claim.feed({"kind": "release", "brief": True}))
        return claim.over

    def _begin(self, claim: Claim, first: Event) -> Asked:
        def cancelled(settled: Future[Member]) -> None:
            if settled.cancelled():
                self.keeper.post(lambda: claim.farewell(brief=False))

        claim.settled.add_done_callback(cancelled)
        self.keeper.post(lambda: claim.feed(first))
        return claim.settled

    def forget(self, claim: Claim) -> None:
        """It has ended."""
        with self._lock:
            self._claims.discard(claim)
            key = claim.key()
            if key in self._waiters:
                self._waiters[key].discard(claim)
                if not self._waiters[key]:
                    del self._waiters[key]

    def waits(self, claim: Claim) -> None:
        """It waits for another holder, who may be in this process."""
        with self._lock:
            self._waiters[claim.key()].add(claim)

    def wake_waiters(self, claim: Claim) -> None:
        """What was released here need not be polled for here."""
        with self._lock:
            waiters = list(self._waiters.get(claim.key(), ()))
        for waiter in waiters:
            if waiter is not claim and waiter.waiting:
                waiter.change()

    def look(self, claim: Claim) -> bool:
        """Has the keeper look at the clock for a claim; False if it did not come to it."""
        looked = threading.Event()

        def look() -> None:
            claim.feed({"kind": "woke"})
            looked.set()

        self.keeper.post(look)
        return looked.wait(LOOK)

    # Records.

    def inspect(self, name: str, timeout_ns: int) -> Status:
        """By a companion of nobody, which never joins: it reads, and tells what it saw.

        Its TTL is one that no record has. So it says of every record that can be read how that differs from it.
        """
        fields = config("companion", _plain("name", name), {"ttl_ns": LONGEST_TTL}, holder="-")
        machine = Machine({**fields, "seed": os.urandom(16)})
        try:
            request = self._tell(machine, {"kind": "accompany"})[0]
            answer = self._read(request, name, self.clock.mono() + timeout_ns)
            actions = self._tell(machine, answer)
        finally:
            machine.drop()
        if answer["outcome"] == "no":
            return Status(name=name, state="vacant")
        sights = [action["sight"] for action in actions if "sight" in action]
        return of_sight(name, sights[-1] if sights else {"state": "corrupt"}, self.clock.wall())

    def _read(self, request: Action, name: str, until: int) -> Event:
        """The store's word, asked for again until there is no more time, or no hope."""
        while True:
            answer = self.ask(self.store, request, max(0, until - self.clock.mono()))
            error, class_ = answer.pop("error", None), answer.get("class", "")
            if answer["outcome"] != "unknown":
                return answer
            if class_ not in PASSING or self.clock.mono() + RETRY * SECOND >= until:
                raise error_class(class_)(
                    f"mopslock: lease {_texts.quoted(name)} cannot be read{_texts.said(class_, error)}; "
                    f"{_texts.advice(class_)}"
                ) from error
            time.sleep(RETRY)

    def _tell(self, machine: Machine, event: Event) -> list[Action]:
        return machine.step({"mono": self.clock.mono(), "wall": self.clock.wall(), **event})

    def list(self, prefix: str, timeout_ns: int) -> Iterator[Status]:
        """One read a lease; one that cannot be read is left out."""
        until = self.clock.mono() + timeout_ns
        prefix = _plain("prefix", prefix)
        if not isinstance(self.store, Listing):
            raise BadArgument(f"mopslock: {self.url} has no verb list, so nobody can say what is in it")
        keys = self._keys(self.store, prefix, timeout_ns)
        for key in keys:
            if not key.endswith(RECORD):
                continue
            if self.clock.mono() >= until:
                raise StoreError(f"mopslock: the store was not listed in time; {_texts.advice('')}")
            try:
                status = self.inspect(key.removesuffix(RECORD), until - self.clock.mono())
            except BadArgument:
                continue  # some other object, which only looks like a record
            except StoreError as error:
                log.warning("%s", error)
                continue
            if status.state != "vacant":
                yield status

    def _keys(self, store: Listing, prefix: str, timeout_ns: int) -> Keys:
        listed: Future[Keys] = Future()

        def walk() -> None:
            try:
                settle(listed, sorted(store.list(prefix)))
            except BaseException as error:
                settle(listed, error)

        if self._prompt(store):
            walk()
        else:
            self._submit(walk)
        try:
            return listed.result(timeout_ns / SECOND)
        except Exception as error:
            late = not listed.done()
            class_ = "unreachable" if late else class_of(error)
            raise error_class(class_)(
                f"mopslock: the store cannot be listed{_texts.said(class_, None if late else error)}; "
                f"{_texts.advice(class_)}"
            ) from error

    def close(self, timeout_ns: int) -> None:
        """Everything is asked to end at once, and waited for together."""
        with self._lock:
            self._closed = True
            claims = list(self._claims)
        for claim in claims:
            claim.hurry()
        end = time.monotonic() + timeout_ns / SECOND
        left = {claim.over for claim in claims}
        while left:
            _, left = wait(left, max(0.0, min(end - time.monotonic(), TURN)))
            if time.monotonic() >= end:
                break
            if self.keeper.barred:
                self.keeper.turn()
        if left:
            raise NotReleased(f"mopslock: {len(left)} of {len(claims)} leases were not released in time, and expire")


TURN = 0.05
"""Seconds after which who closes looks whether the keeper has to be turned."""


def _plain(what: str, text: str) -> str:
    """Text that can be encoded, or BadArgument. All else about it is the core's business."""
    _texts.encode(what, text)
    return text


def acquiring(wait_ns: int) -> Event:
    """The first event of a claim: 0 tries once."""
    return {"kind": "acquire", "wait_ns": wait_ns} if wait_ns else {"kind": "acquire"}


def _with_ttl(terms: Terms) -> Event:
    return {"ttl_ns": terms.ttl_ns(), **terms.config()}

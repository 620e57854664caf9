"""A host on a store that Python talks to: the core decides, stepped from here."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from . import _texts
from ._asks import Asks
from ._call import Call, StepFuture, WorkRequest
from ._clock import Clock, System
from ._event_loop import Do, EventLoop, Lane, Workers
from ._future import Future, wait
from ._held import Handle, HeldThing, OnWaiting
from ._host_interface import Host
from ._inline_driver import InlineDriver
from ._inspector import Inspector, plain
from ._invocation import Invocation
from ._lease_runner import LeaseRunner, Pending
from ._notify import log
from ._resolve import Abilities, Resolution
from ._runner import config
from ._semaphore import Place, Semaphore, Semaphores, Share
from ._services import Services
from ._units import SECOND
from ._verbs import Action, Event, can, perform, unknown
from .errors import BadArgument, MopslockError, NotReleased, Vacant, error_class
from .stores import Store, class_of
from .terms import Terms

Submit = Callable[[Do], None]

BASIS = 300 * SECOND
"""How long our own release of a name is of use to our next claim."""

MOST_NAMES = 16_384

MOST_TRANSFERS = 4
"""Results of one store that are being written at once."""

NOTHING: Mapping[str, Any] = {}

LOOK = 1.0
"""Seconds that a caller past its deadline waits for the event loop to say what happened."""


class _Shared:
    """What all hosts of this process share; a forked child has its own."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.loop = EventLoop(System())


_shared = _Shared()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.__init__)  # type: ignore[misc]


def lane() -> Lane:
    """A share of the process's workers, for one more store."""
    return Lane(_shared.workers)


class SteppedHost(Semaphores, Inspector, Host):
    """What this process holds on one store of its own."""

    def __init__(self, store: Store, *, clock: Clock | None = None, submit: Submit | None = None) -> None:
        """A clock and a way to run requests are for tests, which then turn the event loop themselves."""
        self.store = store
        self.url = str(getattr(store, "url", None) or repr(store))
        self.stamp_unit = int(getattr(store, "stamp_unit_ns", 0))
        self.clock = clock or System()
        self.boot = str(getattr(self.clock, "boot", ""))
        self.calibrates = getattr(store, "store_clock", False) is True
        self.able = Abilities()
        self.services = Services(self)
        self._last: dict[str, tuple[int, int, bool]] = {}  # by name: version, when, lock.json beside
        self.loop = _shared.loop if submit is None else EventLoop(self.clock, threaded=False)
        self._submit = submit or lane().submit
        self._threads = submit is None
        self._asks = Asks(self.clock, submit or lane().submit)  # a lane of its own, so that no renewal waits behind
        self._transfers = submit or Lane(_shared.workers, MOST_TRANSFERS).submit
        self._lock = threading.RLock()
        self._runners: set[LeaseRunner | Invocation | Share] = set()
        self._semaphores: dict[Place, Semaphore] = {}
        self._waiters: defaultdict[tuple[int, str], set[LeaseRunner | Invocation]] = defaultdict(set)
        self._found: set[tuple[tuple[int, str], str]] = set()  # of which those who wait were told
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
        if self._prompt(store):
            limit = self.clock.mono() + limit_ns
            answer = perform(store, request)
            return answer if self.clock.mono() < limit else unknown(request, "unreachable")
        return self._asks.ask(store, request, limit_ns)

    # Claims.

    def _host(self) -> SteppedHost:
        return self

    def runner(
        self, name: str, terms: Event, *, holder: str = "", role: str = "", machine: str = "lease",
        waits: OnWaiting | None = None, store: Store | None = None, driven: bool = False,
        into: Future[HeldThing] | None = None, pending: Pending | None = None, epoch: int = 0, owner: str = "",
    ) -> LeaseRunner:  # fmt: skip
        """A machine that has not begun; driven: by the caller's thread at first. Every bad field is BadArgument."""
        fields = config(
            machine, plain("name", name), self.judged(terms), holder=holder, role=role, epoch=epoch, owner=owner,
            stamp_unit_ns=self.stamp_unit,
        )  # fmt: skip
        future = Future() if into is None else into
        runner = LeaseRunner(
            self, store or self.store, fields, guarded=machine == "lease", waits=waits, into=future, pending=pending
        )
        if driven:
            runner.will_be_driven()
        with self._lock:
            if self._closed:
                runner.forget_machine()
                raise _texts.closed()
            self._runners.add(runner)
        return runner

    def acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> HeldThing:
        """On the caller's own thread until it is held, which saves ten changes of thread; then on the event loop's."""
        into = Future() if into is None else into
        if terms.session:  # what it stands on is the event loop's
            return self.begin_acquire(name, terms, wait_ns, waits, into).result()
        runner = None
        try:
            runner = self._requested_runner(name, terms, waits, into, driven=True)
            InlineDriver(runner).run(acquiring(wait_ns))
            runner.adopt()
        except BaseException:
            if runner is not None and not runner.gone:  # interrupted between these lines
                self.abandon(runner)
            raise
        held = into.result()
        if runner.hurried:  # closed in this moment, and released already or soon
            raise _texts.closed()
        return held

    def _requested_runner(
        self, name: str, terms: Terms, waits: OnWaiting | None, into: Future[HeldThing] | None, *, driven: bool = False
    ) -> LeaseRunner:
        """A claim under the protocol that was asked for, or under the one that the name turns out to have."""
        fields, pending = self._settling(name, terms, "lease")
        return self.runner(name, fields, waits=waits, driven=driven, into=into, pending=pending)

    def _settling(
        self, name: str, terms: Terms, machine: str, more: Mapping[str, Any] = NOTHING
    ) -> tuple[Event, Pending | None]:
        """The terms under the protocol that was asked for, and how it is found out where that was left open."""
        want = terms.protocol
        if want == "auto" and not self._can_create(name):
            want = "lastwriter"
        if want == "lastwriter":
            fields = terms.config("lastwriter")
            if terms.session:
                raise BadArgument("mopslock: session: only strict has sessions, and this lease is kept by lastwriter")
            return {**fields, **more}, None
        if not can(self.store):
            raise _texts.refused(name, "unfit", "", None, None)
        able, last, known = self.able, self._last_of(name), None
        if last is not None and able.creates:
            known = Resolution("strict", beside=last[2], last=last[:2])

        def resolved(resolution: Resolution) -> Event:
            if resolution.protocol == "lastwriter":
                if resolution.beside:
                    log.warning("%s", _texts.fell_back(name, "the name has a lock.json"))
                self._say_fallback()
                if terms.session:
                    raise BadArgument(
                        "mopslock: session: only strict has sessions, and this lease is kept by lastwriter"
                    )
            fields = {**self._config(terms, resolution), **more}
            if more:
                fields["creates"] = self.creates
            return config(machine, plain("name", name), self.judged(fields), stamp_unit_ns=self.stamp_unit)

        return {**self._config(terms, Resolution(terms._likely())), **more}, Pending(want, able, resolved, known)

    @property
    def creates(self) -> bool:
        """The store is known to honour create-if-absent."""
        return self.able.creates is True or (getattr(self.store, "creates", False) is True and can(self.store))

    def _config(self, terms: Terms, resolution: Resolution) -> Event:
        fields = terms.config(resolution.protocol)
        if resolution.protocol == "strict":
            fields |= {"beside": resolution.beside, "last_epoch": resolution.last[0], "last_at_ns": resolution.last[1]}
        return fields

    def judged(self, fields: Mapping[str, Any]) -> Event:
        """With the clocks by which a strict machine may call another's lease dead.

        A store's stamps count only where it says that nobody sets its clock: one step by a TTL would kill every lease.
        """
        if fields.get("protocol") != "strict":
            return dict(fields)
        expiry = fields.get("expiry") or ("calibrated" if self.calibrates else "observed")
        return {**fields, "expiry": expiry, "boot": self.boot}

    def _can_create(self, name: str) -> bool:
        """Whether it is worth trying; what cannot be tried, or was in vain, is said aloud."""
        if can(self.store) and self.able.creates is not False:
            return True
        self._say_fallback()
        return False

    def _say_fallback(self) -> None:
        if self.able.told or (can(self.store) and self.able.creates is not False):
            return
        self.able.told = True
        log.warning(
            "mopslock: %s does not honour create-if-absent, or has no verbs create, list and delete: its leases are "
            "kept by lastwriter, without a fencing token%s", self.url, self.able.seen and f" (seen: {self.able.seen})",
        )  # fmt: skip

    def _last_of(self, name: str) -> tuple[int, int, bool] | None:
        last = self._last.pop(name, None)
        return last if last is not None and self.clock.mono() - last[1] < BASIS else None

    def remember(self, runner: LeaseRunner | Invocation, action: Action) -> None:
        """How this process released a name: its next claim knows the newest version without a look."""
        if action.get("at_ns") and action.get("epoch") and runner.store_object is self.store:
            if len(self._last) >= MOST_NAMES:
                self._last.pop(next(iter(self._last)), None)
            self._last[runner.name] = (action["epoch"], action["at_ns"], runner.beside)

    def abandon(self, runner: LeaseRunner) -> None:
        """What an interrupted claim has left is released by another machine: nobody knows how far this one came."""
        self.forget(runner)
        runner.forget_machine()
        if runner.guarded and runner.protocol:
            self._release_left(runner)
            for after in (SECOND, runner.ttl_ns // 3):  # a put of it may be under way on a worker, and land later
                at = self.clock.mono() + after
                self.loop.post(lambda at=at: self.loop.at(at, lambda _: self._release_left(runner)))  # type: ignore[misc]

    def _release_left(self, runner: LeaseRunner) -> None:
        with contextlib.suppress(MopslockError):
            fields: Event = {"protocol": runner.protocol, "ttl_ns": runner.ttl_ns}
            self.begin_release(
                runner.name, runner.holder, fields, store=runner.store_object, epoch=max(1, runner.version())
            )

    def begin_acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> Future[HeldThing]:
        """On the event loop's thread and the workers'."""
        return self._begin(self._requested_runner(name, terms, waits, into), acquiring(wait_ns))

    def begin_accompany(self, handle: Handle, terms: Terms, into: Future[HeldThing] | None = None) -> Future[HeldThing]:
        """A companion."""
        if handle.protocol == "strict" and not can(self.store):
            raise _texts.refused(handle.name, "unfit", "", None, None)
        fields = {**terms.config(handle.protocol), "on_session": False, "ttl_ns": handle.ttl_ns}
        runner = self.runner(
            handle.name, fields, holder=handle.holder, machine="companion", into=into, epoch=handle.epoch
        )
        runner.token = handle.token
        return self._begin(runner, {"kind": "accompany"})

    def begin_release(
        self, name: str, holder: str, terms: Event, *, store: Store | None = None, epoch: int = 0
    ) -> Future[None]:
        """Releases a lease of which only the holder is known, and under strict an epoch."""
        strict = terms.get("protocol") == "strict"
        runner = self.runner(
            name, terms, holder=holder, role="owner", store=store, epoch=epoch if strict else 0,
            owner=holder if strict else "",
        )  # fmt: skip
        self.loop.post(lambda: runner.feed({"kind": "release", "brief": True}))
        return runner.over

    def _begin(self, runner: LeaseRunner, first: Event) -> Future[HeldThing]:
        def cancelled(settled: Future[HeldThing]) -> None:
            if settled.cancelled():
                self.loop.post(lambda: runner.stop(brief=False))

        future = runner.settled
        future.add_done_callback(cancelled)
        self.loop.post(lambda: runner.feed(first))
        return future

    # Invocations.

    def begin_invocation(self, request: WorkRequest, next_step: StepFuture) -> Call:
        """On the event loop's thread and the workers'."""
        name, handle = plain("name", request.name), request.handle
        pending = None
        more: Event = {"role": "remote" if request.remote else "owner", "memo_failures": request.memo_failures}
        more |= {"without_lease": request.without_lease, "creates": self.creates}
        if not request.remote:
            fields, pending = self._settling(name, request.terms, "invocation", more)
        elif handle is None:
            fields = {**request.terms.config("lastwriter"), **more}
        else:
            if handle.protocol == "strict" and not can(self.store):
                raise _texts.refused(name, "unfit", "", None, None)
            terms = {**request.terms.config(handle.protocol), "on_session": False, "ttl_ns": handle.ttl_ns}
            fields = {**terms, **more, "holder": handle.holder, "epoch": handle.epoch}
        call = self._invocation(
            request, next_step, config("invocation", name, self.judged(fields), stamp_unit_ns=self.stamp_unit), pending
        )
        first: Event = {"kind": "begin", "wait_ns": request.wait_ns} if request.wait_ns else {"kind": "begin"}
        with self._lock:
            if self._closed:
                call.forget_machine()
                raise _texts.closed()
            self._runners.add(call)
        self.waits(call)
        self.loop.post(lambda: call.feed(first))
        return call

    def _invocation(
        self, request: WorkRequest, next_step: StepFuture, fields: Event, pending: Pending | None
    ) -> Invocation:
        return Invocation(self, request, next_step, fields, pending)

    def transfers(self, job: Do) -> None:
        """Runs a request that may move much: a few at once, beside the others."""
        self._transfers(job)

    def open_object(self, key: str) -> BinaryIO:
        """An object whole, from its beginning; StoreError, or Vacant. On the caller's thread."""
        opens = getattr(self.store, "open", None)
        try:
            found = opens(key) if callable(opens) else self.store.get(key)
        except Exception as error:
            class_ = class_of(error)
            raise error_class(class_)(
                f"mopslock: {key} cannot be read{_texts.said(class_, error)}; {_texts.advice(class_)}"
            ) from error
        if found is None:
            raise Vacant(f"mopslock: {key} is not there any more: somebody has removed it")
        if isinstance(found, tuple):
            found = found[0]
        stream: BinaryIO = io.BytesIO(found) if isinstance(found, (bytes, bytearray, memoryview)) else found
        return stream

    def wake_found(self, call: Invocation, result: str) -> None:
        """There is a result: all calls here that wait for it look now, and need not tell the others again."""
        place = (call.key(), result)
        with self._lock:
            told = place in self._found
            self._found.add(place)
        if told:
            return
        for waiter in self._waiting_with(call):
            if isinstance(waiter, Invocation):
                waiter.change()

    def wake_next(self, runner: LeaseRunner | Invocation) -> None:
        """It has ended without a result: one of those who wait for it looks now; the others poll, or are next."""
        with self._lock:
            waiters = [] if self._closed else list(self._waiters.get(runner.key(), ()))
        for waiter in waiters:
            if waiter is not runner and isinstance(waiter, Invocation) and waiter.waiting:
                waiter.change()
                return

    def _waiting_with(self, runner: LeaseRunner | Invocation) -> list[LeaseRunner | Invocation]:
        with self._lock:
            waiters = list(self._waiters.get(runner.key(), ()))
        return [waiter for waiter in waiters if waiter is not runner and waiter.waiting]

    def forget(self, runner: LeaseRunner | Invocation | Share) -> None:
        """It has ended."""
        if isinstance(runner, Share):  # its semaphore stands on a session
            with self._lock:
                self._runners.discard(runner)
            return
        self.services.part(runner)
        with self._lock:
            self._runners.discard(runner)
            key = runner.key()
            if key in self._waiters:
                self._waiters[key].discard(runner)
                if not self._waiters[key]:
                    del self._waiters[key]
                    self._found = {place for place in self._found if place[0] != key}

    def waits(self, runner: LeaseRunner | Invocation) -> None:
        """It waits for another holder, who may be in this process."""
        with self._lock:
            self._waiters[runner.key()].add(runner)

    def wake_waiters(self, runner: LeaseRunner | Invocation) -> None:
        """What was released here need not be polled for here."""
        for waiter in self._waiting_with(runner):
            if isinstance(waiter, LeaseRunner):
                waiter.change()
        if isinstance(runner, LeaseRunner):
            self.wake_next(runner)

    def look(self, runner: LeaseRunner | Invocation | Share) -> bool:
        """Has the event loop look at the clock for a claim; False if it did not come to it."""
        looked: Future[None] = Future()

        def look() -> None:
            runner.feed({"kind": "woke"})
            looked.settle(None)

        self.loop.post(look)
        return looked.wait(LOOK)

    def close(self, timeout_ns: int) -> None:
        """Everything is asked to end at once, and waited for together."""
        with self._lock:
            self._closed = True
            runners = list(self._runners)
        for runner in runners:
            runner.hurry()
        end = time.monotonic() + timeout_ns / SECOND
        left = {runner.over for runner in runners}
        left = self._wait_for(left, end)
        if not left:  # what may still land of those that were given up
            left = self._wait_for({semaphore.over for semaphore in list(self._semaphores.values())}, end)
        if not left and self.services.busy:  # a session outlives every release on it
            left = self._wait_for(set(self.services.close()), end)
            runners = []
        if left:
            raise NotReleased(f"mopslock: {len(left)} of {len(runners)} leases were not released in time, and expire")

    def _wait_for(self, left: set[Future[None]], end: float) -> set[Future[None]]:
        while left:
            left = wait(left, min(end - time.monotonic(), TURN))
            if time.monotonic() >= end:
                break
            if self.loop.barred:
                self.loop.turn()
        return left


TURN = 0.05
"""Seconds after which who closes looks whether the event loop has to be turned."""


def acquiring(wait_ns: int) -> Event:
    """The first event of a claim: 0 tries once."""
    return {"kind": "acquire", "wait_ns": wait_ns} if wait_ns else {"kind": "acquire"}

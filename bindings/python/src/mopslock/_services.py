"""What a host keeps for its strict leases beside their machines: sessions, and a sample of the store's clock.

A session is one heartbeat for all leases of one TTL and margin that ask for it. Its machine is made for the first of
them, and anew for the next claim after it was lost: an id that was lost is never used again. When nobody has stood on
it for a while it is closed. All but ``close`` happens on the event loop's thread.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, TypeAlias

from . import _texts
from ._event_loop import Timer
from ._future import Future
from ._runner import OneShot, Task, config, fresh
from ._units import SECOND
from ._verbs import NEVER, Action, Event

if TYPE_CHECKING:
    from ._invocation import Invocation
    from ._lease_runner import LeaseRunner
    from ._semaphore import Semaphore
    from ._stepped import SteppedHost

    Standing: TypeAlias = LeaseRunner | Invocation | Semaphore

log = logging.getLogger("mopslock")

UNUSED = 10 * SECOND
"""How long a session goes on when nobody stands on it."""

CALIBRATE_EACH = 60 * SECOND
ONE_SHOT_LIMIT = 2 * SECOND


class SessionInstance:
    """One session id, from its first good beat to its end."""

    __slots__ = ("sid", "until")

    def __init__(self, sid: str, until: int) -> None:
        self.sid, self.until = sid, until


class Session:
    """One heartbeat."""

    def __init__(self, services: Services, terms: tuple[int, int]) -> None:
        self._services, self._host = services, services.host
        self._terms = terms
        self.task: Task | None = None
        self.session_instance: SessionInstance | None = None
        self.end = ""  # why the one before it ended
        self.runners: dict[int, Standing] = {}
        self._unused: Timer | None = None

    def instance_of(self, sid: str) -> SessionInstance | None:
        """Of the id that a lease says it stands on."""
        return self.session_instance if self.session_instance is not None and self.session_instance.sid == sid else None

    def add(self, runner: Standing) -> None:
        """It wants to stand on it."""
        self._host.loop.take_back(self._unused)
        self.runners[id(runner)] = runner
        if self.task is None:
            self._open()

    def remove(self, runner: Standing) -> None:
        """It has ended."""
        if self.runners.pop(id(runner), None) is not None and not self.runners:
            loop = self._host.loop
            loop.take_back(self._unused)
            self._unused = loop.at(self._host.clock.mono() + UNUSED, self._unneeded)

    def _unneeded(self, _: int) -> None:
        self.leave()

    def leave(self) -> Task | None:
        """Closes it, if nobody stands on it; the next claim makes another."""
        task = self.task
        if self.runners or task is None:
            return None
        self._host.loop.take_back(self._unused)
        self.task = self.session_instance = None
        task.feed({"kind": "leave"})
        return task

    def _open(self) -> None:
        ttl, margin = self._terms
        host = self._host
        fields = config(
            "session", "", {"protocol": "strict", "ttl_ns": ttl, "margin_ns": margin}, boot=host.boot,
            stamp_unit_ns=host.stamp_unit,
        )  # fmt: skip
        task = self.task = Task(host, fresh(fields), lambda action: self._said(task, action), self.failing)
        host.loop.post(lambda: task.feed({"kind": "begin"}))

    def _said(self, task: Task, action: Action) -> None:
        if task is not self.task:
            return  # closed meanwhile
        kind = action["kind"]
        if kind == "held":
            self.session_instance = SessionInstance(action["holder"], action["at_ns"])
            self._tell(fresh=True)
        elif kind == "renewed" and self.session_instance is not None:
            self.session_instance.until = action["at_ns"]
        elif kind == "called":
            for runner in list(self.runners.values()):
                if runner.name == action["key"] and not runner.gone:
                    runner.freeze()
                    runner.feed({"kind": "called", "epoch": action["epoch"]})
        elif kind == "lost":
            log.warning("mopslock: the session is lost (%s), and with it every lease on it", action["reason"])
            self.end, self.session_instance, self.task = action["reason"], None, None
            self._tell(fresh=False)
            if self.task is None and any(runner.fresh for runner in self.runners.values()):
                self._open()
        elif kind == "refused":
            self.task = self.session_instance = None
            self._give_up(action)

    def _tell(self, *, fresh: bool) -> None:
        """It has come in force, which those who wait for it want to know, or was lost, which all do."""
        for runner in list(self.runners.values()):
            if not runner.gone and (runner.fresh or not fresh):
                runner.feed({"kind": "woke"})

    def check(self, now: int) -> None:
        """Past its deadline it says so, before a lease on it is asked."""
        task = self.task
        if self.session_instance is not None and task is not None and now >= self.session_instance.until:
            task.feed({"kind": "woke"})

    def failing(self, class_: str, cause: BaseException | None) -> None:
        """It has never been in force, on a store that takes no beat: the claims would wait forever."""
        task = self.task
        if task is None or self.session_instance is not None or class_ not in _texts.ADVICE:
            return
        self.task = None
        task.drop()
        self._give_up({"reason": "unusable", "class": class_}, cause)

    def _give_up(self, action: Action, cause: BaseException | None = None) -> None:
        for runner in list(self.runners.values()):
            if not runner.gone and runner.fresh:
                runner.give_up(action["reason"], action.get("class", ""), cause or action.get("error"))


class Services:
    """Those of one host."""

    def __init__(self, host: SteppedHost) -> None:
        self.host = host
        self._sessions: dict[tuple[int, int], Session] = {}
        self._sample: Event = {}
        self._calibrating: Task | None = None
        self._calibrated = 0  # when the latest was begun
        self._askers: list[Standing] = []
        self._process = ""

    def session_of(self, fields: Event) -> Session:
        """The session for what has this Config."""
        terms = (fields["ttl_ns"], fields.get("margin_ns", 0))
        return self._sessions.setdefault(terms, Session(self, terms))

    def join(self, runner: Standing, fields: Event) -> Session:
        """The session for a claim with this Config, which stands on it from now on."""
        session = self.session_of(fields)
        session.add(runner)
        return session

    def part(self, runner: Standing) -> None:
        """A claim has ended."""
        session = runner.standing
        if session is not None:
            self.host.loop.post(lambda: session.remove(runner))

    def known(self, runner: Standing) -> Event:
        """What each event to a strict claim carries, in the core's order."""
        known: Event = {}
        session = runner.standing
        if session is not None:
            session.check(self.host.clock.mono())
            if session.session_instance is not None:
                known["session"], known["session_until_ns"] = (
                    session.session_instance.sid,
                    session.session_instance.until,
                )
            if session.end:
                known["session_end"] = session.end
        return {**known, **self._sample}

    # The store's clock.

    def calibrate(self, asker: Standing) -> None:
        """Takes a sample for a claim that would judge sooner by it: one at a time, and not often."""
        now = self.host.clock.mono()
        if not self.host.calibrates:
            return
        self._askers.append(asker)
        if self._calibrating is None and not (self._calibrated and now - self._calibrated < CALIBRATE_EACH):
            self._calibrated = now
            self.host.loop.post(self._take)

    def _take(self) -> None:
        host = self.host
        self._process = self._process or str(uuid.uuid4())
        fields = config(
            "calibration", "", {"protocol": "strict", "stamp_unit_ns": host.stamp_unit}, owner=self._process
        )
        self._calibrating = Task(host, fresh(fields), self._took)
        self._calibrating.feed({"kind": "begin"})

    def _took(self, action: Action) -> None:
        self._calibrating = None
        if action["kind"] == "calibrated" and 0 < action["wall_ns"] < NEVER:
            self._sample = {"store_stamp_ns": action["wall_ns"], "store_at_ns": action["at_ns"]}
        askers, self._askers = self._askers, []
        for runner in askers:
            if not runner.gone:
                runner.prod()

    @property
    def busy(self) -> bool:
        """There is something to end."""
        return bool(self._sessions or self._process)

    def close(self) -> list[Future[None]]:
        """Ends what is left, when no lease is any more. The futures end when that is over."""
        done: Future[list[Future[None]]] = Future()

        def leave() -> None:
            tasks = [session.leave() for session in self._sessions.values()]
            if self._calibrated and self._process:
                key = f"_mopslock/c/{self._process}"
                one_shot = Task(self.host, OneShot({"kind": "delete", "key": key, "limit_ns": ONE_SHOT_LIMIT}), _ignore)
                one_shot.feed({"kind": "begin"})
                tasks.append(one_shot)
            done.settle([task.over for task in tasks if task is not None])

        self.host.loop.post(leave)
        return done.result() if done.wait(1.0) else []  # otherwise nobody turns the event loop


def _ignore(_: Action) -> None:
    return

"""What a host on one's own store can say of names that it takes no part in, and the breaking of their leases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _texts
from ._future import Future
from ._host_interface import Break
from ._machine import Machine
from ._notify import log
from ._runner import config, fresh
from ._units import SECOND
from ._verbs import VERBS, Action, Event, can
from .errors import BadArgument, LeaseTaken, MopslockError, StoreError, error_class
from .status import Status, of_sight
from .stores import Listing, Store, class_of

if TYPE_CHECKING:
    from ._clock import Clock

Keys = list[str]

RECORD, REGISTER = "/lock.json", "/_mopslock/"
LONGEST_TTL = 30 * 86_400 * SECOND
PASSING = ("unreachable", "throttled")
RETRY = 0.5
"""Seconds between two reads for somebody who only looks."""


class Inspector:
    """What a SteppedHost has beside its claims. All of it runs on the caller's thread."""

    store: Store
    url: str
    clock: Clock
    boot: str
    calibrates: bool
    stamp_unit: int
    _submit: Callable[[Callable[[], object]], None]

    def ask(self, store: Store, request: Action, limit_ns: int) -> Event:
        """One request for the caller's thread."""
        raise NotImplementedError

    def judged(self, fields: Event) -> Event:
        """With the clocks by which a strict machine may judge."""
        raise NotImplementedError

    def _prompt(self, store: object) -> bool:
        raise NotImplementedError

    def begin_release(
        self, name: str, holder: str, terms: Event, *, store: Store | None = None, epoch: int = 0
    ) -> Future[None]:
        """Releases a lease of which only the holder is known."""
        raise NotImplementedError

    def inspect(self, name: str, timeout_ns: int) -> Status:
        """Under either protocol: a strict lease before an old client's record beside it, if it is held."""
        until = self.clock.mono() + timeout_ns
        strict = Status(name=plain("name", name), state="vacant")
        if isinstance(self.store, Listing):
            strict = self._observe(name, until)
            if strict.is_semaphore or strict.state not in ("vacant", "released"):
                return strict
        record = self._inspect_record(name, until)
        if record.state == "vacant" or record.state == strict.state == "released":
            return strict
        return record

    def _observe(self, name: str, until: int) -> Status:
        while True:
            said, cause = self._run("observer", name, until, {})
            if said["kind"] == "seen":
                sight = said.get("sight", {"state": "vacant"})
                return of_sight(name, sight, self.clock.wall(), "strict")
            class_ = said.get("class", "")
            if class_ in PASSING and self.clock.mono() + RETRY * SECOND < until:
                time.sleep(RETRY)
                continue
            if said["reason"] in ("newer", "kind"):
                raise _texts.refused(name, said["reason"], class_, None, cause)
            raise _unread(name, class_, cause)

    def _run(self, machine: str, name: str, until: int, more: Event) -> tuple[Action, BaseException | None]:
        """A machine that does one thing and ends: its last word, and what the store said last."""
        terms = self.judged({"protocol": "strict", "stamp_unit_ns": self.stamp_unit, **more})
        stepped = fresh(config(machine, plain("name", name), terms))
        event: Event = {"kind": "begin"}
        cause: BaseException | None = None
        try:
            while True:
                said: Action = {}
                request: Action | None = None
                wake = 0
                error = event.pop("error", None)
                cause = error if error is not None else cause
                for action in self._tell(stepped, event):
                    if action["kind"] in VERBS:
                        request = action
                    elif action["kind"] == "wake":
                        wake = action["at_ns"]
                    elif action["kind"] != "calibrate":
                        said = action
                if stepped.idle:
                    return said, cause
                now = self.clock.mono()
                if now >= until:
                    event = {"kind": "cancel"}
                elif request is not None:
                    event = self.ask(self.store, request, min(request["limit_ns"], until - now))
                else:
                    self.clock.sleep(max(0, min(wake, until) - now))
                    event = {"kind": "woke"}
        finally:
            stepped.drop()

    def _inspect_record(self, name: str, until: int) -> Status:
        """By a companion of nobody, which never joins: it reads, and tells what it saw.

        Its TTL is one that no record has. So it says of every record that can be read how that differs from it.
        """
        machine = fresh(config("companion", plain("name", name), {"ttl_ns": LONGEST_TTL}, holder="-"))
        try:
            request = self._tell(machine, {"kind": "accompany"})[0]
            answer = self._read(request, name, until)
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
                raise _unread(name, class_, error) from error
            time.sleep(RETRY)

    def _tell(self, machine: Machine, event: Event) -> list[Action]:
        return machine.step({"mono": self.clock.mono(), "wall": self.clock.wall(), **event})

    def break_lease(self, name: str, request: Break, timeout_ns: int) -> Status:
        """Under strict by a version that says so; under lastwriter by a release in the holder's name."""
        until = self.clock.mono() + timeout_ns
        protocol = request.protocol
        if protocol == "auto":
            protocol = "strict" if self.inspect(name, timeout_ns).protocol == "strict" else "lastwriter"
        if protocol == "lastwriter":
            return self._break_record(name, request.holder, until)
        if not can(self.store):
            raise _texts.refused(name, "unfit", "", None, None)
        more = {"why": plain("why", request.why), "now": request.now, "holder": plain("holder", request.holder)}
        said, cause = self._run("breaker", name, until, more)
        if said["kind"] != "broken":
            if said["reason"] == "held":
                raise _texts.not_broken(name, of_sight(name, said["sight"], self.clock.wall(), "strict"))
            if said["reason"] == "cancelled":
                said = {"reason": "unreachable"}
            raise _texts.refused(name, said["reason"], said.get("class", ""), None, cause)
        return self._observe(name, until)

    def _break_record(self, name: str, holder: str, until: int) -> Status:
        seen = self._inspect_record(name, until)
        if seen.state not in ("held", "stale"):
            raise _texts.refused(name, "vacant", "", seen, None)
        if holder and seen.holder != holder:
            raise _texts.not_broken(name, seen)
        over = self.begin_release(name, seen.holder, {"ttl_ns": round(seen.ttl * SECOND)})
        try:
            if over.wait((until - self.clock.mono()) / SECOND):
                over.result()
        except LeaseTaken as error:  # since we looked: the release reads before it writes
            raise _texts.not_broken(name, error.seen) from None
        return self._inspect_record(name, until)

    def list(self, prefix: str, timeout_ns: int) -> Iterator[Status]:
        """One look a lease; one that cannot be read is left out."""
        until = self.clock.mono() + timeout_ns
        prefix = plain("prefix", prefix)
        if not isinstance(self.store, Listing):
            raise BadArgument(f"mopslock: {self.url} has no verb list, so nobody can say what is in it")
        seen: set[str] = set()
        for key in self._keys(self.store, prefix, timeout_ns):
            at = key.find(REGISTER)
            if at <= 0 and not key.endswith(RECORD):
                continue
            name = key[:at] if at > 0 else key.removesuffix(RECORD)
            if name in seen or not name.startswith(prefix):
                continue
            seen.add(name)
            if self.clock.mono() >= until:
                raise StoreError(f"mopslock: the store was not listed in time; {_texts.advice('')}")
            left = until - self.clock.mono()
            try:
                status = self.inspect(name, left) if at > 0 else self._inspect_record(name, until)
            except BadArgument:
                continue  # some other object, which only looks like a record
            except MopslockError as error:
                log.warning("%s", error)
                continue
            if status.state != "vacant" or status.is_semaphore:
                yield status

    def _keys(self, store: Listing, prefix: str, timeout_ns: int) -> Keys:
        listed: Future[Keys] = Future()

        def walk() -> None:
            try:
                listed.settle(sorted(item if isinstance(item, str) else item[0] for item in store.list(prefix)))
            except BaseException as error:
                listed.settle(error)

        if self._prompt(store):
            walk()
        else:
            self._submit(walk)
        in_time = listed.wait(timeout_ns / SECOND)
        error = listed.exception()
        if in_time and error is None:
            return listed.result()
        class_ = "unreachable" if error is None else class_of(error)
        raise error_class(class_)(
            f"mopslock: the store cannot be listed{_texts.said(class_, error)}; {_texts.advice(class_)}"
        ) from error


def _unread(name: str, class_: str, cause: BaseException | None) -> StoreError:
    return error_class(class_)(
        f"mopslock: lease {_texts.quoted(name)} cannot be read{_texts.said(class_, cause)}; {_texts.advice(class_)}"
    )


def plain(what: str, text: Any) -> str:
    """Text that can be encoded, or BadArgument. All else about it is the core's business."""
    _texts.encode(what, text)
    checked: str = text
    return checked

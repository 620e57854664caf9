"""The other side of a keeper that is written in Python: it runs the core's client over a store, for its parent.

bindings/README.md of the checkout has the messages; host/keep is the same in Go.
"""

from __future__ import annotations

import importlib
import logging
import mmap
import os
import select
import shutil
import sys
import threading
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgpack

from .._metrics import registry
from ..errors import BadArgument, Closed, EngineFailed, MopslockError
from .base import FAULTS, Begun, Claim
from .client import Client
from .clock import System
from .keeper import MESSAGES
from .threads import shared, threads
from .verbs import BYTES, ENDS, READS, RESULTS, Action, Event, keys, looked_at, opened

OVER = ENDS | {"found", "absent"}
"""Notices by which a tenure is over; work may get another one."""

LOOKING = 0.1  # seconds after which a system without pidfd is asked for the parent


def is_last(begun: str, said: str) -> bool:
    """Whether a notice is the last word on a claim that a command has begun."""
    if begun in ("invoke", "remote"):
        return said == "left"
    return said in ENDS or said == "broken" or (said == "seen" and begun == "look")


class Believed:
    """A claim, as far as it may be relied on."""

    __slots__ = ("held", "on", "over", "own", "slot", "tenure", "told")

    def __init__(self, slot: int, told: bool) -> None:
        self.slot, self.own, self.tenure = slot, 0, 0
        self.on: Session | None = None
        self.held = False  # ever
        self.over = False  # this tenure is
        self.told = told  # all of it, also what can be read


class Session:
    """A heartbeat on which claims stand."""

    __slots__ = ("on", "until")

    def __init__(self, until: int) -> None:
        self.until, self.on = until, set[Believed]()


class Beliefs:
    """Until when the claims of one store may be relied on: each the later of its own deadline and that of the session
    on which it stands. They are written under the client's lock, in the order of its notices, to memory that the parent
    reads. beliefs of host/keep is the same in Go."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._claims: dict[int, Believed] = {}
        self._sessions: dict[int, Session] = {}

    def begin(self, claim: int, slot: int, told: bool) -> None:
        """Takes where a claim's deadline is to be written. Without room for it, renewals are told."""
        self._claims[claim] = Believed(slot, told or not slot)

    def end(self, claim: int) -> None:
        """Forgets a claim."""
        if (believed := self._claims.pop(claim, None)) is not None:
            self._forget(believed)

    def take(self, action: Action, last: bool) -> bool:
        """Writes what a notice says. False: the parent need not be told, because it can read it."""
        kind, number = action["kind"], action.get("claim", 0)
        if not number:
            return self._of_session(action)
        claim = self._claims.get(number)
        if claim is None:
            return True
        if kind == "held":
            claim.tenure += claim.held
            claim.held, claim.over = True, False
        if kind in ("held", "deadline"):
            self._stand(claim, self._sessions.get(action.get("on", 0)))
        if kind in ("held", "deadline", "renewed"):
            claim.own = action.get("at_ns", 0)
            self._write(claim)
        elif kind in OVER:
            self._forget(claim)
        if last:
            self.end(number)
        return claim.told or kind not in ("deadline", "renewed")

    def _of_session(self, action: Action) -> bool:
        """The claims that stand on one that is lost hear of their own end."""
        kind, on = action["kind"], action.get("on", 0)
        if kind == "held":
            self._sessions[on] = Session(action["at_ns"])
        elif kind == "renewed":
            if (session := self._sessions.get(on)) is None:
                return False
            session.until = action["at_ns"]
            for claim in session.on:
                self._write(claim)
            return any(claim.told for claim in session.on)
        elif kind in ("lost", "left"):
            self._sessions.pop(on, None)
        return True

    def _stand(self, claim: Believed, on: Session | None) -> None:
        if claim.on is not None:
            claim.on.on.discard(claim)
        claim.on = on
        if on is not None:
            on.on.add(claim)

    def _forget(self, claim: Believed) -> None:
        claim.over = True
        self._stand(claim, None)
        self._set(claim, 0)

    def _write(self, claim: Believed) -> None:
        if not claim.over:
            self._set(claim, max(claim.own, claim.on.until) if claim.on is not None else claim.own)

    def _set(self, claim: Believed, until: int) -> None:
        """See Word, which reads it."""
        if claim.slot:
            self._words[claim.slot] = (until & ~0xFF | claim.tenure & 0xFF) if until else 0


class Served(Claim):
    """A claim of the parent's."""

    client: ServedClient

    def __init__(self, client: ServedClient, kind: str, name: str, answers: bool) -> None:
        self.client, self.kind, self.name, self.answers = client, kind, name, answers
        self.cause: BaseException | None = None
        self.path = ""  # of the output of work
        self.own = False

    def result(self) -> bytes:
        return Path(self.path).read_bytes()

    def answered(self, action: Action, answer: Event) -> None:
        if action["kind"] in RESULTS and answer["outcome"] == "yes":
            self.own = True
        if self.answers:
            said = {"kind": "answered", "claim": self.number, "verb": action["kind"], "outcome": answer["outcome"]}
            if action["kind"] not in READS and "body" in action:
                said["body"] = action["body"]
            if answer["outcome"] == "unknown":
                said |= {"class": answer.get("class", "other"), "text": told(self.cause)}
            self.client.say(said)


def told(cause: BaseException | None) -> str:
    """What a store has raised, as people are told."""
    return "" if cause is None else f"{type(cause).__name__}: {cause}"


class ServedClient(Client):
    """The client of one store of the parent's."""

    def __init__(self, parent: Parent, number: int, store: Any) -> None:
        super().__init__(store, System(), threads())
        self.parent, self.number = parent, number
        self.beliefs = Beliefs(parent.words)

    def say(self, message: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
        if message["kind"] == "closed":
            self.parent.stores.pop(self.number, None)
        self.parent.say(self.number, message, more)

    def _close(self) -> None:
        super()._close()
        if self.closed.done():  # it has no machine that would say so
            self.say({"kind": "closed"})

    def take(self, message: Event, more: Mapping[str, Any]) -> None:
        """A command, under the lock."""
        event = {key: value for key, value in message.items() if key not in ("mono", "wall")}
        number = event.get("claim", 0)
        if event["kind"] == "close":
            self._close()
        elif "terms" in event:
            terms, answers = event["terms"], more.get("answers", False)
            claim = Served(self, event["kind"], terms.get("name", ""), answers)
            claim.number, self.claims[number] = number, claim
            self.beliefs.begin(number, more.get("slot", 0), answers)
            self.meter.asked(number, event, terms)
            try:
                self._step(event)
            except Exception as error:
                self._forget(number)
                self.beliefs.end(number)
                refused = error if isinstance(error, MopslockError) else EngineFailed(f"mopslock: {error!r}")
                self.parent.fault(self.number, refused, kind="not_begun", claim=number)
        elif (known := self.claims.get(number)) is not None:
            assert isinstance(known, Served)
            known.path = more.get("path", known.path)
            self._step(event)

    def _tell(self, action: Action) -> None:
        self.meter.told(action)
        number = action.get("claim", 0)
        claim, more, last = self.claims.get(number), Event(), False
        if isinstance(claim, Served):
            if claim.own and action["kind"] == "found":
                more["own"] = True
            if claim.cause is not None and action["kind"] not in ("held", "renewed", "deadline"):
                more["cause"] = told(claim.cause)
            last = is_last(claim.kind, action["kind"])
        if self.beliefs.take(action, last):
            self.say(action, more)
        if last:
            self._forget(number)

    def _strand(self, error: MopslockError) -> list[tuple[Claim, Begun]]:
        """The parent decides what becomes of its claims."""
        self.meter.stranded()
        self.claims, self.beliefs = {}, Beliefs(self.parent.words)
        self.parent.fault(self.number, error, kind="failed")
        return []


class Parent:
    """The process that is served, and all its stores."""

    def __init__(self, belief: int) -> None:
        self._lock = threading.Lock()
        self._packer = msgpack.Packer()
        self.stores: dict[int, ServedClient] = {}
        self.words = memoryview(mmap.mmap(belief, 0)).cast("q")

    def say(self, store: int, message: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
        """Tells it something. It reads whatever it does: a thread of its own does nothing else."""
        with self._lock:
            left: bytes = self._packer.pack([store, message, more] if more else [store, message])
            while left:
                left = left[os.write(1, left) :]

    def fault(self, store: int, error: BaseException, **fields: Any) -> None:
        kind = next((name for name, of in FAULTS.items() if isinstance(error, of)), "store")
        said = {"kind": "fault", "fault": kind, "text": str(error).removeprefix("mopslock: "), **fields}
        if kind == "store":
            said["class"], _, _ = looked_at(error)
        self.say(store, said)

    def take(self, number: int, message: Event, more: Mapping[str, Any]) -> None:
        if message["kind"] in ("ping", "counts"):
            counted = {"counted": registry.counted()} if message["kind"] == "counts" else {}
            self.say(number, {"kind": "done", "call": message.get("call", 0), "mono_ns": System.mono(), **counted})
        elif "call" in message:
            shared.workers.submit(lambda: self._serve(number, message))
        elif (client := self.stores.get(number)) is not None:
            client.post(lambda: client.take(message, more))

    def _serve(self, number: int, message: Event) -> None:
        kind, answer = message["kind"], {"kind": "done", "call": message["call"]}
        try:
            if kind == "open":
                self.stores[number] = ServedClient(self, number, made(message))
                answer["kind"] = "opened"
            elif (client := self.stores.get(number)) is None:
                raise Closed("mopslock: the store is not open")
            elif kind == "catch_up":
                client.look()
            elif kind == "fetch":
                with opened(client.store, message["key"]) as found, open(message["path"], "wb") as file:
                    shutil.copyfileobj(found, file)
            elif kind == "list":
                listed = keys(client.store, message["key"])
                answer["entries"] = [[key, 0] for key in listed if key > message.get("after", "")]
            else:
                raise BadArgument(f"mopslock: {kind} is not for stores that are written in Python")
        except BaseException as error:
            self.fault(number, error, call=message["call"])
        else:
            self.say(number, answer)


class ToParent(logging.Handler):
    """Lines of the log are the parent's."""

    def __init__(self, parent: Parent) -> None:
        super().__init__()
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        self._parent.say(0, {"kind": "log", "level": record.levelname.lower(), "text": record.getMessage()})


def made(message: Event) -> Any:
    """The parent's store: what that has put is there."""
    os.environ.update(message.get("environment", {}))
    sys.path[:] = message["path"]
    where, arguments = message["terms"]
    module, _, name = where.partition(":")
    store = attrgetter(name)(importlib.import_module(module))(*arguments)
    if probe := message.get("probe"):
        found = store.get(probe[0])
        if (found if found is None or isinstance(found, BYTES) else found[0]) != probe[1]:
            raise BadArgument(
                f"mopslock: the store that {where} makes in a keeper is another one: what this process has put "
                "is not in it; keep its leases in this process (keeper=False)"
            )
    return store


def is_there(pid: int) -> bool:
    """What systems without /proc tell."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def alive(pid: int) -> str:
    """When a process was started; "" if there is none. Another process of the same id has another."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "" if os.path.exists("/proc/self/stat") or not is_there(pid) else "some time"
    return fields[19] if fields[0] != "Z" else ""


def serve(pid: int, belief: int) -> None:
    """Serves a parent, until it has ended or its messages have. Nothing is released then."""
    parent = Parent(belief)
    logging.getLogger("mopslock").addHandler(ToParent(parent))
    unpacker = msgpack.Unpacker(max_buffer_size=0, unicode_errors="surrogateescape")
    parent.say(0, {"kind": "ready", "messages": MESSAGES, "pid": os.getpid()})
    ends: list[int] = []
    try:
        ends = [os.pidfd_open(pid)]  # type: ignore[attr-defined, unused-ignore]
    except (AttributeError, OSError):
        began = alive(pid)
    while True:
        ready, _, _ = select.select([0, *ends], [], [], None if ends else LOOKING)
        if (ends and ends[0] in ready) or (not ends and began and alive(pid) != began):
            os._exit(0)
        if 0 in ready:
            piece = os.read(0, 1 << 16)
            if not piece:
                os._exit(0)
            unpacker.feed(piece)
            for number, message, *more in unpacker:
                parent.take(number, message, more[0] if more else {})

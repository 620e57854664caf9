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
from ..errors import BadArgument, Closed, MopslockError
from .base import FAULTS, Begun, Claim, Deadline
from .client import Client
from .clock import System
from .keeper import MESSAGES
from .threads import shared, threads
from .verbs import BYTES, ENDS, READS, RESULTS, Action, Event, keys, looked_at, opened

LOOKING = 0.1  # seconds after which a system without pidfd is asked for the parent


def is_last(begun: str, said: str) -> bool:
    """Whether a notice is the last word on a claim that a command has begun."""
    if begun in ("invoke", "remote"):
        return said == "left"
    return said in ENDS or said == "broken" or (said == "seen" and begun == "look")


class Served(Claim):
    """A claim of the parent's."""

    client: ServedClient

    def __init__(self, client: ServedClient, kind: str, name: str, slot: int, answers: bool) -> None:
        self.client, self.kind, self.name, self.slot, self.answers = client, kind, name, slot, answers
        self.cause: BaseException | None = None
        self.path = ""  # of the output of work
        self.own = False
        self.at, self.on, self.tenures = 0, 0, 0

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
            terms = event["terms"]
            claim = Served(self, event["kind"], terms.get("name", ""), more.get("slot", 0), more.get("answers", False))
            claim.number, self.claims[number] = number, claim
            self.meter.asked(number, event, terms)
            try:
                self._step(event)
            except MopslockError as error:
                self._forget(number)
                self.parent.fault(self.number, error, kind="not_begun", claim=number)
        elif (known := self.claims.get(number)) is not None:
            assert isinstance(known, Served)
            known.path = more.get("path", known.path)
            self._step(event)

    def _tell(self, action: Action) -> None:
        self.meter.told(action)
        number = action.get("claim", 0)
        claim = self.claims.get(number)
        if not isinstance(claim, Served):
            if self._of_session(action):
                self.say(action)
            return
        more: Event = {"own": True} if claim.own and action["kind"] == "found" else {}
        if claim.cause is not None and action["kind"] not in ("held", "renewed", "deadline"):
            more["cause"] = told(claim.cause)
        last = is_last(claim.kind, action["kind"])
        if self._believes(claim, action, last) or claim.answers:
            self.say(action, more)
        if last:
            self._forget(number)

    def _strand(self, error: MopslockError) -> list[tuple[Claim, Begun]]:
        """The parent decides what becomes of its claims."""
        self.meter.stranded()
        self.claims, self.sessions = {}, {}
        self.parent.fault(self.number, error, kind="failed")
        return []

    # Until when a claim may be relied on, in the memory that the parent reads.

    def _of_session(self, action: Action) -> bool:
        if action["kind"] == "held":
            self.on_held(action)
        elif action["kind"] == "renewed":
            self.on_renewed(action)
            for claim in self.claims.values():
                if isinstance(claim, Served) and claim.on == action["on"]:
                    self._write(claim)
            return False
        elif action["kind"] in ("lost", "left"):
            self.on_left(action)
        return True

    def _believes(self, claim: Served, action: Action, last: bool) -> bool:
        """Writes it before the parent is told. False: it need not be told."""
        kind = action["kind"]
        if kind == "held":
            claim.tenures += 1
        if kind in ("held", "deadline"):
            claim.on = action.get("on", 0)
        if kind in ("held", "deadline", "renewed"):
            claim.at = action.get("at_ns", 0)
            self._write(claim)
        elif last or kind in ENDS:
            claim.at = claim.on = 0
            self._write(claim)
        return kind not in ("deadline", "renewed") or not claim.slot

    def _write(self, claim: Served) -> None:
        until = Deadline(claim.at, self.sessions.get(claim.on)).until()
        if claim.slot:
            self.parent.words[claim.slot] = (until & ~0xFF | (claim.tenures - 1) & 0xFF) if until else 0


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
            self.say(number, {"kind": "done", "call": message.get("call", 0), **counted})
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


def alive(pid: int) -> str:
    """When a process was started; "" if there is none. Another process of the same id has another."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[19] if fields[0] != "Z" else ""


def serve(pid: int, belief: int) -> None:
    """Serves a parent, until it has ended or its messages have. Nothing is released then."""
    parent = Parent(belief)
    handler = logging.Handler()  # lines of the log are the parent's
    handler.emit = lambda record: parent.say(  # type: ignore[method-assign]
        0, {"kind": "log", "level": record.levelname.lower(), "text": record.getMessage()}
    )
    logging.getLogger("mopslock").addHandler(handler)
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

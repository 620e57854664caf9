"""A store in a keeper: its client is there, and its claims and futures are here."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from .. import _texts
from .._future import Future
from .._log import log
from .._metrics import Meter, elsewhere
from .._native import MAX_MESSAGE
from .._place import place_of
from .._units import SECOND
from ..errors import Incompatible, MopslockError, Raced, Stale, Unreachable, Unsettled, Vacant, error_class
from .base import FAULTS, LOOK, AnyClient, Begun, Claim, Output, Until
from .belief import Word
from .clock import System
from .host import OwnHost, failed
from .keeper import Call, Keeper, keeper, keepers
from .threads import Timer, shared
from .verbs import Action, Event, looked_at

OPENING = 60.0
"""Seconds. Some clouds look for credentials on the network."""

TEMPORARY = getattr(os, "O_TEMPORARY", 0)
"""Windows removes such a file when it is closed."""

T = TypeVar("T")

PAGE = 256
"""Keys that one answer of a list has."""

STILL = 600.0
"""Seconds that a result may take to be fetched."""


MORE_FAULTS = FAULTS | {"raced": Raced, "timeout": Unreachable, "unfit": Incompatible}


def fault(said: Call) -> MopslockError:
    """The error that a keeper tells."""
    text, slot = f"mopslock: {said.get('text', '')}", said.get("slot", {})
    if said.get("fault") == "stale":
        return Stale(text, token=slot["token"], holder=slot["holder"])
    if said.get("fault") == "unsettled":
        return Unsettled(text, number=slot["number"], nonce=slot["nonce"])
    kind = MORE_FAULTS.get(said.get("fault", "")) or error_class(said.get("class", ""))
    return kind(text)


def _counted() -> list[dict[str, Any]]:
    answers = [one.ask(0, "counts") for one in keepers()]
    return [one for answer in answers if answer.wait(LOOK) for one in _told(answer)]


def _told(answer: Future[Call]) -> list[dict[str, Any]]:
    try:
        counted: list[dict[str, Any]] = answer.result().get("counted", [])
    except MopslockError:  # it has ended just now
        return []
    return counted


elsewhere.append(_counted)


def _in_a_file(body: bytes) -> Output:
    fd, path = tempfile.mkstemp(prefix="mopslock-output-")
    with open(fd, "wb") as file:
        file.write(body)
    return Output(Path(path), ours=True)


class KeptClient(AnyClient):
    """All that this process does with one store, in a keeper."""

    def __init__(self, url: str, keeper: Keeper, reopen: Callable[[], AnyClient]) -> None:
        super().__init__(url, System())
        self.meter = Meter(self.clock, renewals=False)
        self.keeper, self.reopen = keeper, reopen
        self._number = keeper.attach(self)
        self._places: dict[int, list[int]] = {}  # of each claim: its word, and how often it was held
        self._is_gone: MopslockError | None = None

    def open(self, store: Any) -> None:
        """Has the keeper open the store. On a thread of ours."""
        try:
            self._open(store)
        except BaseException:
            self.keeper.detach(self._number)
            self.keeper.post(lambda: self.keeper.say(self._number, {"mono": 0, "wall": 0, "kind": "close"}))
            raise

    def _open(self, store: Any) -> None:
        if store is None:
            self.answered(self.ask("open", url=self.url, environment=self.keeper.changed()), OPENING)
            return
        where, *arguments = store.keeper_terms()
        key, body = f"_mopslock/d/{uuid.uuid4()}", os.urandom(16)
        try:
            store.put(key, body)
        except BaseException as error:
            class_, _, cause = looked_at(error)
            raise failed(f"{self.url} cannot be opened in a keeper", class_, cause) from cause
        try:
            asked = {"terms": [where, arguments], "probe": [key, body], "path": sys.path}
            self.answered(self.ask("open", environment=self.keeper.changed(), **asked), OPENING)
        finally:
            try:
                if callable(delete := getattr(store, "delete", None)):
                    delete(key)
            except BaseException as error:  # it is left, and does no harm
                log.warning("mopslock: %s: %s could not be deleted: %r", self.url, key, error)

    def ask(self, kind: str, **fields: Any) -> Future[Call]:
        """Asks the keeper something about this store."""
        return self.keeper.ask(self._number, kind, **fields)

    def answered(self, answer: Future[Call], seconds: float) -> Call:
        """What it has answered, or its error."""
        if not answer.wait(seconds):
            answer.cancel()
            raise Unreachable(f"mopslock: {self.url} has not answered within {seconds:g} s; check it and the network")
        said = answer.result()
        if said["kind"] == "fault":
            raise fault(said)
        return said

    # What any thread may call.

    def post(self, do: Any) -> None:
        """On the keeper's thread."""
        self.keeper.post(do)

    def soon(self, do: Any) -> None:
        """On a worker."""
        shared.workers.submit(do)

    def at(self, instant: int, do: Any) -> None:
        """By the sleeper."""
        shared.sleeper.expect(Timer(self.clock, instant, do))

    def look(self) -> bool:
        """Has the keeper look, whose notices come before its answer."""
        return self.ask("catch_up").wait(LOOK)

    def belief(self, action: Action) -> Until:
        """Its word, unless there is no room for one."""
        slot, held = self._places.get(action["claim"], [0, 0])
        if not slot:
            return super().belief(action)
        return Word(self.keeper.belief.words, slot, held - 1)

    def output(self, body: bytes | Path) -> Output:
        """It goes as a file."""
        if isinstance(body, Path):
            return Output(body, ours=False)
        return self.aside(lambda: _in_a_file(body), Output.drop)

    def aside(self, do: Callable[[], T], undo: Callable[[T], object]) -> T:
        """What is done on a thread of ours: a caller that is interrupted half-way would leave files behind."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                made = do()
            except BaseException as error:
                done.settle(error)
            else:
                if not done.settle(made):
                    undo(made)

        self.soon(run)
        try:
            return done.result()
        except BaseException:
            if not done.cancel() and done.exception() is None:
                undo(done.result())
            raise

    # Under the keeper's lock.

    def _give(self, event: Event, claim: Claim | None) -> None:
        if self._is_gone is not None:
            raise self._is_gone
        more: Event | None = None
        if "terms" in event and claim is not None:
            slot = self.keeper.belief.take()
            self._places[claim.number] = [slot, 0]
            more = {"slot": slot, "answers": True} if claim.answers else {"slot": slot}
        elif event["kind"] == "ended" and claim is not None and isinstance(output := claim.result(), Output):
            more = {"path": str(output.path)}
        self.keeper.say(self._number, {"mono": 0, "wall": 0, **event}, more, MAX_MESSAGE)

    def _begin(self, claim: Claim, command: Event, terms: Event) -> None:
        if self._is_gone is not None:
            claim.fail(self._is_gone)
        else:
            super()._begin(claim, command, terms)

    def _command(self, claim: Claim, command: Event) -> None:
        if self._is_gone is None:
            super()._command(claim, command)
        elif claim.number and command["kind"] in ("release", "cancel", "leave"):
            claim.fail(self._is_gone)  # nobody is there to do it

    def _close(self) -> None:
        if self._is_gone is not None:
            self.closed.settle(None)
        elif not self.closed.done():
            self._give({"kind": "close"}, None)

    def take(self, message: Event, more: Mapping[str, Any]) -> None:
        """What the keeper says of this store."""
        kind = message["kind"]
        if kind == "failed":
            self.gone(fault(message))
        elif kind == "log":
            self._log(message)
        elif kind == "answered":
            self._answered(message)
        elif kind == "not_begun":
            self._not_begun(message)
        elif kind == "fault":
            log.error("mopslock: a keeper refused a message (%s); this is an error in mopslock", message.get("text"))
        else:
            self._notice(message, more)

    def _notice(self, action: Action, more: Mapping[str, Any]) -> None:
        number = action.get("claim", 0)
        claim = self.claims.get(number)
        if "cause" in more:
            self.cause = _texts.Told(more["cause"])
            if claim is not None:
                claim.cause = self.cause
        if claim is not None:
            if action["kind"] == "held":
                self._places[number][1] += 1
            if more.get("own"):
                claim.stored()
        self._tell(action)
        if action["kind"] == "closed":  # what came too late is told
            self.gone(_texts.closed())

    def _answered(self, message: Event) -> None:
        claim = self.claims.get(message["claim"])
        if claim is not None:
            if text := message.get("text"):
                claim.cause = self.cause = _texts.Told(text)
            claim.answered({"kind": message["verb"], "body": message.get("body", b"")}, message)

    def _forget(self, number: int) -> None:
        super()._forget(number)
        slot, _ = self._places.pop(number, [0, 0])
        self.keeper.belief.give_back(slot)

    def _not_begun(self, message: Event) -> None:
        claim = self.claims.get(message["claim"])
        self._forget(message["claim"])
        if claim is not None:
            claim.fail(fault(message))

    def _log(self, message: Event) -> None:
        fields = "".join(f" {key}={value}" for key, value in message.get("fields", {}).items())
        write = log.error if message.get("level") == "error" else log.debug
        write("mopslock: %s: %s%s", self.url, message.get("text", ""), fields)

    def gone(self, error: MopslockError) -> None:
        """The keeper, or its client of this store, has ended. The next use of the URL makes another."""
        self._is_gone = error
        self.keeper.detach(self._number)
        self._places.clear()
        going_on = self._strand(error)
        self.closed.settle(None)
        if going_on:
            self.soon(lambda: self._move(going_on))

    def _move(self, claims: list[tuple[Claim, Begun]]) -> None:
        """To the client of another keeper. If there can be none yet it is tried again: remotes are kept as long as they
        run."""
        try:
            client = self.reopen()
        except Exception as error:
            log.warning("mopslock: %s cannot be opened anew: %s; it is tried again", self.url, error)
            self.at(self.clock.mono() + SECOND, lambda: self.soon(lambda: self._move(claims)))
            return
        for claim, begun in claims:
            client.post(partial(client._go_on, claim, begun))
            claim.client = client


class KeptHost(OwnHost):
    """What this process holds on the store of a URL, in a keeper."""

    client: KeptClient

    def __init__(self, url: str, keeper: Keeper, reopen: Callable[[], AnyClient], store: Any = None) -> None:
        """store is one that the keeper makes anew; None is that of the URL."""
        client = KeptClient(url, keeper, reopen)
        super().__init__(store, client)
        client.open(store)

    def is_gone(self) -> bool:
        """Another is needed."""
        return self.client._is_gone is not None or not self.client.keeper.is_ours()

    def place(self) -> str:
        """Of its URL."""
        return place_of(self.url) if self.store is None else super().place()

    def call(self, kind: str, seconds: float, **fields: Any) -> Call:
        """What the keeper answers, within so many seconds. If it has ended another is asked."""
        if self.is_gone() and isinstance(again := self.client.reopen().host, KeptHost):
            return again.call(kind, seconds, **fields)
        fields = {**fields, "until_ns": self.client.clock.mono() + max(1, int(seconds * SECOND))}
        return self.client.answered(self.client.ask(kind, **fields), seconds + LOOK)

    def open_object(self, key: str) -> BinaryIO:
        """By a file, which has no name any more when it is returned."""
        return self.client.aside(lambda: self._fetched(key), BinaryIO.close)

    def _fetched(self, key: str) -> BinaryIO:
        fd, path = tempfile.mkstemp(prefix="mopslock-result-")
        os.close(fd)  # Windows lets nobody else write it otherwise
        try:
            self.call("fetch", STILL, key=key, path=path)
            return open(path, "rb", opener=lambda name, flags: os.open(name, flags | TEMPORARY))
        except Vacant:
            raise Vacant(f"mopslock: {key} is not there any more: somebody has removed it") from None
        finally:
            with contextlib.suppress(OSError):  # Windows does it when it is closed
                os.unlink(path)

    def _keys(self, prefix: str, timeout_ns: int) -> list[str]:
        after, keys = "", []
        while True:
            page = self.call("list", timeout_ns / SECOND, key=prefix, after=after, count=PAGE)
            keys += [key for key, _ in page.get("entries", [])]
            if not page.get("more"):
                return keys
            after = keys[-1]


def opened(url: str, reopen: Callable[[], AnyClient], store: Any = None) -> KeptHost:
    """A store in a keeper of this process. On a worker, since a caller can be interrupted half-way."""
    into: Future[KeptHost] = Future()
    shared.workers.submit(lambda: into.run(lambda: KeptHost(url, keeper(python=store is not None), reopen, store)))
    return into.result()

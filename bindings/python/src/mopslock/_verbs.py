"""A store's verbs as the core asks for them: a request in, an answer out. If the store does not answer, it is
unknown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ._clock import Clock
from .stores import MOST, class_of

log = logging.getLogger("mopslock")

Event = dict[str, Any]
Action = dict[str, Any]

NEVER = 1 << 62

VERBS = ("get", "put", "create", "exists", "list", "delete")

RESULTS = {"create_result": "create", "put_result": "put"}
"""Requests of an invocation, and the verbs that they are: with bytes of the host's own."""

REQUESTS = (*VERBS, *RESULTS, "race")
"""A race is several creates of one key at once, which only a Resolver asks for."""

MOST_ENTRIES = 256
ROOM, ENTRY = 98304 - 4096, 13
"""Bytes of a message that a list's entries may fill, and what each takes in addition to its key: core.FitEntries."""


def perform(store: Any, action: Action) -> Event:
    """Does one request."""
    answer: Event = {"kind": "answer", "request": action["request"], "outcome": "yes"}
    try:
        return _DO[action["kind"]](store, action, answer)
    except Exception as error:
        log.debug("mopslock: %s of %s failed", action["kind"], action["key"], exc_info=True)
        return unknown(action, class_of(error), error)


def _get(store: Any, action: Action, answer: Event) -> Event:
    found = store.get(action["key"])
    if found is None:
        return {**answer, "outcome": "no"}
    body, stamp = (found, 0) if isinstance(found, (bytes, bytearray, memoryview)) else found
    body, stamp = bytes(body[:MOST]), _stamp(stamp)
    if stamp:
        answer["stamp_ns"] = stamp
    if body:
        answer["body"] = body
    return answer


def _put(store: Any, action: Action, answer: Event) -> Event:
    store.put(action["key"], action["body"])
    return answer


def _create(store: Any, action: Action, answer: Event) -> Event:
    try:
        made = store.create(action["key"], action["body"])
    except FileExistsError:
        made = False
    return _said(made, "create", answer)


def _race(store: Any, action: Action, answer: Event) -> Event:
    """told has what each create was answered. The race is unknown if all of them are."""
    bodies = action["bodies"]
    answers: list[Event] = [unknown(action, "other")] * len(bodies)
    start = threading.Event()

    def create(number: int) -> None:
        start.wait()
        one = {"kind": "create", "request": action["request"], "key": action["key"], "body": bodies[number]}
        answers[number] = perform(store, one)

    numbers = range(1, len(bodies))
    rivals = [threading.Thread(target=create, args=(n,), name="mopslock-race", daemon=True) for n in numbers]
    try:
        for rival in rivals:
            rival.start()
    finally:  # without another thread, no create may wait forever
        start.set()
    create(0)
    for rival in rivals:
        rival.join()
    if all(one["outcome"] == "unknown" for one in answers):
        return answers[0]
    return {**answer, "told": [one["outcome"] for one in answers]}


def _exists(store: Any, action: Action, answer: Event) -> Event:
    return _said(store.exists(action["key"]), "exists", answer)


def _said(word: object, verb: str, answer: Event) -> Event:
    """True or False, and nothing that only looks like it: a verb without a return value has not answered."""
    if word is not True and word is not False:
        raise TypeError(f"{verb} returned {word!r}, which is neither True nor False")
    return answer if word else {**answer, "outcome": "no"}


def _list(store: Any, action: Action, answer: Event) -> Event:
    entries, more = listed(store.list(action["key"]), action["key"], action.get("after", ""), action["count"])
    if entries:
        answer["entries"] = entries
    if more:
        answer["more"] = True
    return answer


def listed(found: Iterable[Any], prefix: str, after: str, count: int) -> tuple[list[list[Any]], bool]:
    """The first entries after a key, as many as a message takes, and whether more follow."""
    pairs = []
    for item in found:
        key, stamp = (item, 0) if isinstance(item, str) else item
        try:
            encoded = key.encode()
        except UnicodeEncodeError:
            continue  # none of ours
        if key.startswith(prefix) and encoded > after.encode():
            pairs.append((encoded, key, _stamp(stamp)))
    pairs.sort()
    entries: list[list[Any]] = []
    left = ROOM
    for encoded, key, stamp in pairs:
        left -= ENTRY + len(encoded)
        if left < 0 or len(entries) == min(count, MOST_ENTRIES):
            return entries, True
        entries.append([key, stamp])
    return entries, False


def _delete(store: Any, action: Action, answer: Event) -> Event:
    store.delete(action["key"])
    return answer


def _stamp(stamp: object) -> int:
    ns = int(stamp or 0)  # type: ignore[call-overload]
    if not 0 <= ns < NEVER:
        raise ValueError(f"{ns} is no time in nanoseconds since 1970")
    return int(ns)


_DO: dict[str, Callable[[Any, Action, Event], Event]] = {
    "get": _get, "put": _put, "create": _create, "exists": _exists, "list": _list, "delete": _delete,
    "race": _race,
}  # fmt: skip


def can(store: object) -> bool:
    """Whether a store has all verbs that strict needs. Only a trial shows whether it honours create-if-absent."""
    return all(callable(getattr(store, verb, None)) for verb in VERBS)


def attempt(store: Any, action: Action, clock: Clock, limit: int) -> Event:
    """A request on a worker. It ends with an answer whatever the store raises.

    It does not begin a request that has waited too long: another may hold the name by now.
    """
    if clock.mono() >= limit:
        return unknown(action, "unreachable")
    try:
        return perform(store, action)
    except BaseException as error:  # asyncio's CancelledError is no Exception
        return unknown(action, "other", error)


def unknown(action: Action, class_: str, error: BaseException | None = None) -> Event:
    """The answer to a request whose fate is unknown."""
    answer = {"kind": "answer", "request": action["request"], "outcome": "unknown", "class": class_}
    if error is not None:
        answer["error"] = error
    return answer

"""A store's verbs as the client asks for them: a request in, an answer out. If the store does not answer, it is
unknown."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from .._files import MOST, limit
from .._log import is_interrupt, log
from ..errors import StoreError, Vacant
from ..stores import class_of, retry_after_of

Event = dict[str, Any]
Action = dict[str, Any]

NEVER = 1 << 62

VERBS = ("get", "put", "create", "list", "delete")  # what strict needs
RESULTS = {"create_result": "create", "put_result": "put"}
"""Requests to store the output of work, whose bytes the host adds, and the store's verb for each."""

READS = {"get", "exists", "list"}
REQUESTS = {*VERBS, "exists", *RESULTS}
GO_ON = {"accompany", "invoke", "remote"}  # commands of claims that go on with another client when theirs has failed
ENDS = {"refused", "lost", "released", "left", "cannot_maintain", "limited"}
"""Notices that are the last word on a claim; of work, only left is."""

MOST_ENTRIES = 256
ROOM, ENTRY = 98304 - 4096, 13
"""Bytes of a message that a list's entries may fill, and what each takes in addition to its key: core.FitEntries."""

BYTES = (bytes, bytearray, memoryview)

Said = tuple[Event, BaseException | None]  # an answer, its keys in the core's order, and what the store raised


def attempt(store: Any, action: Action, body: bytes | None, over: Callable[[], bool] | None = None) -> Said:
    """One request. It ends with an answer whatever the store raises. body is that of a result, and over tells whether
    it is too late to apply a write."""
    limit.over = over
    try:
        kind = action["kind"]
        if kind in RESULTS:
            if body is None:
                raise StoreError("mopslock: the output of the work cannot be read any more")
            kind, action = RESULTS[kind], {**action, "body": body}
        said, cause = _DO[kind](store, action), None
    except BaseException as error:  # asyncio's CancelledError is no Exception
        log.debug("mopslock: %s of %s failed", action["kind"], action["key"], exc_info=True)
        class_, after, cause = looked_at(error)
        said = {"outcome": "unknown", "class": class_, "retry_after_ns": after}
    finally:
        limit.over = None
    said = {"kind": "answer", "request": action["request"], **said}
    return {key: value for key, value in said.items() if value}, cause


def looked_at(error: BaseException) -> tuple[str, int, BaseException]:
    """What a store has raised: its class, the nanoseconds for which the store is to be left alone, and the exception
    itself. Looking at it runs code of the user's. If that raises, another exception stands for it from here on."""
    class_, after = "other", 0
    try:
        class_, after = class_of(error), retry_after_of(error)
        str(error)
    except BaseException as broken:
        if is_interrupt(broken):
            raise
        error = StoreError(f"{type(error).__qualname__}, which raises {type(broken).__qualname__} when it is looked at")
    return class_, after, error


def unknown(action: Action) -> Event:
    """The answer to a request that the store has not answered in time."""
    return {"kind": "answer", "request": action["request"], "outcome": "unknown", "class": "unreachable"}


YES, NO = {"outcome": "yes"}, {"outcome": "no"}


def _get(store: Any, action: Action) -> Event:
    found = store.get(action["key"])
    if found is None:
        return NO
    body, stamp = (found, 0) if isinstance(found, BYTES) else found
    return {**YES, "stamp_ns": _stamp(stamp), "body": bytes(body[:MOST])}


def _put(store: Any, action: Action) -> Event:
    if action.get("overwrites") and callable(overwrite := getattr(store, "overwrite", None)):
        return _word(overwrite(action["key"], action["body"]), action)
    store.put(action["key"], action["body"])
    return YES


def _create(store: Any, action: Action) -> Event:
    try:
        return _word(store.create(action["key"], action["body"]), action)
    except FileExistsError:
        return NO


def _exists(store: Any, action: Action) -> Event:
    if hasattr(store, "exists"):
        with contextlib.suppress(NotImplementedError):
            return _word(store.exists(action["key"]), action)
    return NO if store.get(action["key"]) is None else YES  # a store need not have exists


def _word(word: object, action: Action) -> Event:
    """True or False, and nothing that only looks like it: a verb without a return value has not answered."""
    if word is not True and word is not False:
        raise TypeError(f"{action['kind']} returned {word!r}, which is neither True nor False")
    return YES if word else NO


def keys(store: Any, prefix: str) -> list[str]:
    """All that a store lists, without their stamps."""
    return sorted(item if isinstance(item, str) else item[0] for item in store.list(prefix))


def opened(store: Any, key: str) -> BinaryIO:
    """An object whole, from its beginning; Vacant, or whatever the store raises."""
    opens = getattr(store, "open", None)
    found = opens(key) if callable(opens) else store.get(key)
    if found is None:
        raise Vacant(f"mopslock: {key} is not there any more: somebody has removed it")
    if isinstance(found, tuple):
        found = found[0]
    stream: BinaryIO = io.BytesIO(found) if isinstance(found, BYTES) else found
    return stream


def _list(store: Any, action: Action) -> Event:
    prefix, after, count = action["key"], action.get("after", ""), min(action["count"], MOST_ENTRIES)
    page = getattr(store, "list_page", None)
    found = page(prefix, after, count + 1) if callable(page) else store.list(prefix)
    entries, more = listed(found, prefix, after, count)
    return {**YES, "entries": entries, "more": more}


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
        if left < 0 or len(entries) == count:
            return entries, True
        entries.append([key, stamp])
    return entries, False


def _delete(store: Any, action: Action) -> Event:
    store.delete(action["key"])
    return YES


def _stamp(stamp: object) -> int:
    ns = int(stamp or 0)  # type: ignore[call-overload]
    if not 0 <= ns < NEVER:
        raise ValueError(f"{ns} is no time in nanoseconds since 1970")
    return int(ns)


_DO: dict[str, Callable[[Any, Action], Event]] = {
    "get": _get, "put": _put, "create": _create, "exists": _exists, "list": _list, "delete": _delete,
}  # fmt: skip


def can(store: object) -> bool:
    """Whether a store has all verbs that strict needs. Only a trial shows whether it honours create-if-absent."""
    return all(callable(getattr(store, verb, None)) for verb in VERBS)

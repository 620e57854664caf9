"""Errors for what the core reports: the class, and the text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import errors
from .status import Status, printable

ADVICE = {
    "unauthorized": "check the credentials and their rights to read and write",
    "no_such_store": "make the bucket, container or directory first, or mend its name",
    "read_only": "a lease needs to write",
    "full": "make room",
}
INCOMPATIBLE = {
    "newer": "its record was written by a newer mopslock; update this one",
    "kind": "the name is that of a semaphore, of which there are permits; ask for a permit, or choose another name for "
    "the lease",
    "unfit": "the store does not honour create-if-absent, which strict needs; use lastwriter, or another store",
}
INCOMPATIBLE_PERMIT = {
    "kind": "the name is that of a lease, which has one holder; acquire the lease, or choose another name for the "
    "semaphore",
    "unfit": "the store does not honour create-if-absent, which a semaphore needs; use another store",
}
LEASE = "lease"


def quoted(name: str) -> str:
    return json.dumps(name)


def _of(name: str, what: str = LEASE) -> str:
    """What a text is about."""
    return f"mopslock: {what} {quoted(name)}"


def refused(
    name: str, reason: str, class_: str, seen: Status | None, cause: BaseException | None, *, what: str = LEASE
) -> errors.MopslockError:
    text = f"{_of(name, what)} not {'set' if what == 'limit of' else 'acquired'}: "
    if reason == "full":
        held = seen.permits if seen else 0
        return errors.Full(f"{text}{_full(seen)}; wait for room, or try again later", seen=seen, held=held)
    if reason == "too_heavy":
        return errors.WeightExceedsLimit(f"{text}weight and spare are more than capacity x width")
    if reason == "crowded":
        room = f"its record has no room for another holder, of {_holders(seen)}"
        return errors.RecordFull(f"{text}{room}; use several names, or weigh permits", reason=reason, seen=seen)
    who = seen.who() if seen else "another"
    if reason == "held":
        return errors.Held(f"{text}{_held(seen)}; wait for it, or try again later", reason=reason, seen=seen)
    if reason == "raced":
        return errors.Held(f"{text}another was faster: {who}; try again", reason=reason, seen=seen)
    if reason == "cancelled":
        return errors.Cancelled(text + "cancelled", reason=reason)
    if reason in ("newer", "kind", "unfit"):
        why = INCOMPATIBLE[reason] if what == LEASE else INCOMPATIBLE_PERMIT.get(reason, INCOMPATIBLE[reason])
        return errors.Incompatible(f"{_of(name, what)} cannot be served: {why}", reason=reason)
    if reason == "vacant":
        return errors.Vacant(f"{_of(name)}: nobody holds it", reason=reason, seen=seen)
    if reason == "unset":
        return errors.Unreachable(f"{text}the store has not said so in time; it may have it, or not: look at it")
    if reason == "limit":
        failing = f" while the store was failing{said(class_, cause)}" if class_ else ""
        return errors.WaitOver(f"{text}the wait was over{failing}", reason=reason, seen=seen)
    if reason == "unreachable":
        told = f"{text}the store does not answer{said('', cause)}; check its URL and the network"
        return errors.Unreachable(told, reason=reason)
    kind = errors.CLASSES.get(class_, errors.StoreError)
    return kind(f"{text}the store cannot be used{said(class_, cause)}; {advice(class_)}", reason=reason, seen=seen)


def _held(seen: Status | None) -> str:
    """Which process holds it, or how it ended if it is not free yet."""
    if seen is None or seen.state not in ("broken", "released"):
        return f"held by {seen.who() if seen else 'another'}"
    text = seen.state
    if seen.by:
        text += f" by {printable(seen.by)}"
    if seen.why:
        text += f" ({printable(seen.why)})"
    return text + (f", and free in {seen.left:.1f}s at the latest" if seen.left > 0 else ", and not free yet")


def waiting(what: str, name: str, seen: Status) -> str:
    """The log line of a caller that waits: for whom."""
    whom = _full(seen) if seen.is_semaphore else _held(seen)
    return f"mopslock: waiting for {what} {quoted(name)}: {whom}"


def held_by_oneself(name: str, who: str) -> errors.HeldByOneself:
    return errors.HeldByOneself(
        f"{_of(name)} not acquired: this {who} is in a block that holds it, and would wait for "
        "itself; leave that block first, or use the lease that it has",
        reason="oneself",
    )


def not_broken(name: str, seen: Status | None) -> errors.Held:
    who = seen.who() if seen else "another"
    text = f"held by {who}; that is not the holder that was to be broken, so look again"
    return errors.Held(f"{_of(name)} not broken: {text}", reason="held", seen=seen)


def lost(name: str, reason: str, seen: Status | None, what: str = LEASE) -> errors.LeaseLost:
    text = f"{_of(name, what)} lost ({reason}): "
    stop = "stop what the lease guards" if what == LEASE else "stop what the permit allows"
    taken = f"the record is now that of {seen.who() if seen else 'another'}"
    text += {
        "taken": f"{taken if what == LEASE else 'somebody took it out of the record'}; {stop}",
        "released": f"somebody released it; {stop}",
        "broken": f"it was broken{_broken(seen)}; {stop}",
        "unreachable": f"it could not be renewed before its deadline; {stop}, and check the store",
        "expired": f"this process was paused past its deadline; {stop}",
    }.get(reason, stop)
    return errors.LOST.get(reason, errors.LeaseLost)(text, reason=reason, seen=seen)


def _broken(seen: Status | None) -> str:
    if seen is None or not seen.by:
        return ""
    return f" by {printable(seen.by)}" + (f" ({printable(seen.why)})" if seen.why else "")


def _full(seen: Status | None) -> str:
    """How much is held, of what, and by which holders."""
    if seen is None:
        return "full"
    limit = f" and a limit of {seen.limit} in the store" if seen.limit else ""
    return f"full, with {seen.permits} held{limit}, by {_holders(seen)}"


def _holders(seen: Status | None) -> str:
    """The first holders of a semaphore."""
    if seen is None or not seen.holders:
        return "others"
    return ", ".join(holder.who() for holder in seen.holders[:3]) + (" and others" if len(seen.holders) > 3 else "")


def warned(name: str, action: Mapping[str, Any], seen: Status | None, what: str = LEASE) -> str:
    """The text of a warning by the core. The lease is still held."""
    reason = action["reason"]
    text = {
        "emptied": "what keeps it was removed from the store; keep cleaning and lifecycle rules off it",
        "mixed": "an old client holds the name by lock.json, beside a strict lease "
        f"({seen.who() if seen else 'unknown'}); use one protocol for a name",
    }.get(reason, f"{reason} of {action.get('key')}")
    return f"{_of(name, what)}: {text}"


def no_result(name: str, reason: str, class_: str, seen: Status | None, cause: BaseException | None) -> errors.NoResult:
    reason = reason or "none"
    why = {
        "none": "it ended well, and nobody stored one; store it, or give it back",
        "failed": "it failed",
        "taken": f"its lease is now that of {seen.who() if seen else 'another'}, who has to store one",
        "broken": f"its lease was broken{_broken(seen)}",
        "released": "its lease was released, and nobody stored one",
    }.get(reason, f"the store did not take it{said(class_, cause)}; {advice(class_)}")
    return errors.NoResult(f"mopslock: work {quoted(name)} has ended without a result: {why}", reason=reason, seen=seen)


def nothing_to_join(name: str, reason: str, class_: str, cause: BaseException | None) -> errors.MopslockError:
    if reason in ("newer", "kind"):
        return errors.Incompatible(f"{_of(name)} cannot be maintained: {INCOMPATIBLE[reason]}", reason=reason)
    text = {
        "absent": "there is no record under this name; is it the right store?",
        "no_expiry": "its record has no expiry, so there is nothing to keep alive",
        "never_acquired": "its holder never finished acquiring it",
    }.get(reason, f"its record could not be kept alive{said(class_, cause)}; {advice(class_)}")
    return errors.NothingToJoin(f"{_of(name)} cannot be maintained ({reason}): {text}", reason=reason)


def ended(name: str, what: str = LEASE) -> errors.LeaseEnded:
    return errors.LeaseEnded(f"{_of(name, what)}: this process has released it, or has left it")


def forked(name: str, what: str = LEASE) -> errors.Forked:
    more = ", or accompany this one by its text" if what == LEASE else ""
    return errors.Forked(
        f"{_of(name, what)} is held by the parent process, and stays its own after a fork; "
        f"acquire another in this process{more}"
    )


def closed() -> errors.Closed:
    return errors.Closed("mopslock: the store was closed, by mopslock.close() or because the process is ending")


class Told(Exception):
    """What a store has said, as a keeper tells it: in the store's own words."""


def said(class_: str, cause: BaseException | None) -> str:
    """How the store failed last, in brackets, and its exception."""
    text = f" ({class_})" if class_ and class_ != "other" else ""
    if cause is None:
        return text
    return f"{text}: {cause}" if isinstance(cause, Told) else f"{text}: {type(cause).__name__}: {cause}"


def advice(class_: str) -> str:
    """What a user can do about a store that fails."""
    return ADVICE.get(class_, "check the store, its URL and the network")


def encode(what: str, text: str) -> bytes:
    if not isinstance(text, str):
        raise errors.BadArgument(f"mopslock: {what} {text!r}: must be text")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise errors.BadArgument(f"mopslock: {what} {text!r}: must be UTF-8") from error
    if b"\0" in encoded:
        raise errors.BadArgument(f"mopslock: {what} {text!r}: must not have control characters")
    return encoded

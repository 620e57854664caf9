"""Errors from what the core says: the class, and the text for people."""

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
UNFIT = {
    "newer": "its record was written by a newer mopslock; update this one",
    "kind": "the name is in use for something else than a lease; choose another",
    "unfit": "the store does not honour create-if-absent, which strict needs; use lastwriter, or another store",
}
STOP = "stop what the lease guards"


def quoted(name: str) -> str:
    """A name in text that is safe to show."""
    return json.dumps(name)


def refused(
    name: str, reason: str, class_: str, seen: Status | None, cause: BaseException | None
) -> errors.MopslockError:
    """Why an attempt ended without the lease."""
    text = f"mopslock: lease {quoted(name)} not acquired: "
    who = seen.who() if seen else "another"
    if reason == "held":
        return errors.Held(f"{text}held by {who}; wait for it, or try again later", reason=reason, seen=seen)
    if reason == "raced":
        return errors.Held(f"{text}another was faster: {who}; try again", reason=reason, seen=seen)
    if reason == "cancelled":
        return errors.Cancelled(text + "cancelled", reason=reason)
    if reason in ("newer", "kind", "unfit"):
        return errors.Unfit(f"mopslock: lease {quoted(name)} cannot be served: {UNFIT[reason]}", reason=reason)
    if reason == "vacant":
        return errors.Vacant(f"mopslock: lease {quoted(name)}: nobody holds it", reason=reason, seen=seen)
    if reason == "limit":
        failing = f" while the store was failing{said(class_, cause)}" if class_ else ""
        return errors.WaitOver(f"{text}the wait was over{failing}", reason=reason, seen=seen)
    if reason == "unreachable":
        told = said("", cause)
        return errors.Unreachable(
            f"{text}the store has not answered once{told}; check its URL and the network", reason=reason
        )
    kind = errors.CLASSES.get(class_, errors.StoreError)
    return kind(f"{text}the store cannot be used{said(class_, cause)}; {advice(class_)}", reason=reason, seen=seen)


def lost(name: str, reason: str, seen: Status | None) -> errors.LeaseLost:
    """Why a lease is not ours any more."""
    text = f"mopslock: lease {quoted(name)} lost ({reason}): "
    text += {
        "taken": f"the record is now that of {seen.who() if seen else 'another'}; {STOP}",
        "released": f"somebody released it; {STOP}",
        "broken": f"it was broken{_broken(seen)}; {STOP}",
        "unreachable": f"it could not be renewed before its deadline; {STOP}, and check the store",
        "expired": f"this process was paused past its deadline; {STOP}",
    }.get(reason, STOP)
    return errors.LOST.get(reason, errors.LeaseLost)(text, reason=reason, seen=seen)


def _broken(seen: Status | None) -> str:
    if seen is None or not seen.by:
        return ""
    return f" by {printable(seen.by)}" + (f" ({printable(seen.why)})" if seen.why else "")


def warned(name: str, action: Mapping[str, Any], seen: Status | None) -> str:
    """What the core has to say of a lease that is none the worse for it."""
    reason = action["reason"]
    text = {
        "emptied": "its versions were removed from the store; keep lifecycle rules off _mopslock",
        "mixed": "an old client holds the name by lock.json, beside a strict lease "
        f"({seen.who() if seen else 'unknown'}); use one protocol for a name",
    }.get(reason, f"{reason} of {action.get('key')}")
    return f"mopslock: lease {quoted(name)}: {text}"


def no_result(name: str, reason: str, class_: str, seen: Status | None, cause: BaseException | None) -> errors.NoResult:
    """Why there is none although the work has ended."""
    reason = reason or "none"
    why = {
        "none": "it ended well, and nobody stored one; store it, or give it back",
        "failed": "it failed",
        "taken": f"its lease is now that of {seen.who() if seen else 'another'}, who has to store one",
        "broken": f"its lease was broken{_broken(seen)}",
        "released": "its lease was released, and nobody stored one",
    }.get(reason, f"the store did not take it{said(class_, cause)}; {advice(class_)}")
    return errors.NoResult(f"mopslock: work {quoted(name)} has ended without a result: {why}", reason=reason, seen=seen)


def cannot_maintain(name: str, reason: str, class_: str, cause: BaseException | None) -> errors.MopslockError:
    """Why a companion has nothing to keep alive."""
    if reason in ("newer", "kind"):
        return errors.Unfit(f"mopslock: lease {quoted(name)} cannot be maintained: {UNFIT[reason]}", reason=reason)
    text = {
        "absent": "there is no record under this name; is it the right store?",
        "no_expiry": "its record has no expiry, so there is nothing to keep alive",
        "never_acquired": "its holder never finished acquiring it",
    }.get(reason, f"its record could not be kept alive{said(class_, cause)}; {advice(class_)}")
    return errors.CannotMaintain(
        f"mopslock: lease {quoted(name)} cannot be maintained ({reason}): {text}", reason=reason
    )


def ended(name: str) -> errors.LeaseEnded:
    """What a lease says of itself once we let it go."""
    return errors.LeaseEnded(f"mopslock: lease {quoted(name)}: this process has released it, or has left it")


def forked(name: str) -> errors.Forked:
    """What a lease of the parent says in a child."""
    return errors.Forked(
        f"mopslock: lease {quoted(name)} is held by the parent process, and stays its own after a fork; "
        "acquire another in this process, or accompany this one by its text"
    )


def closed() -> errors.Closed:
    """What everything says after close."""
    return errors.Closed("mopslock: the store was closed, by mopslock.close() or because the process is ending")


def said(class_: str, cause: BaseException | None) -> str:
    """What the store said last."""
    text = f" ({class_})" if class_ and class_ != "other" else ""
    return f"{text}: {type(cause).__name__}: {cause}" if cause is not None else text


def advice(class_: str) -> str:
    """What to do about a store."""
    return ADVICE.get(class_, "check the store, its URL and the network")


def encode(what: str, text: str) -> bytes:
    """Text as C takes it."""
    if not isinstance(text, str):
        raise errors.BadArgument(f"mopslock: {what} {text!r}: must be text")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise errors.BadArgument(f"mopslock: {what} {text!r}: must be UTF-8") from error
    if b"\0" in encoded:
        raise errors.BadArgument(f"mopslock: {what} {text!r}: must not have control characters")
    return encoded

"""What is stored of work that failed, with ``memo_failures``: one map of msgpack, the same in every language.

``v`` is 1. ``status`` is a command's exit status or 0. ``by`` is the program that stored it, ``at`` when (RFC 3339),
and ``host`` where. ``stderr`` is the end of its stderr. An exception also has ``type`` and ``text``, and ``pickle`` if
its caller trusts the store with that.
"""

from __future__ import annotations

import socket
import traceback
from datetime import datetime, timezone
from typing import Any

import msgpack

from .errors import Incompatible, RememberedFailure
from .status import printable

VERSION = 1
MOST_STDERR = 4096
MOST_TEXT = 4096
MOST_PICKLE = 32 << 10
MOST = 64 << 10  # bytes that are read


def dump(error: BaseException, pickled: bytes = b"") -> bytes:
    """What to store of an exception. A pickle that is too long is left out."""
    try:
        text = str(error)
    except Exception:  # it is the user's, and so is its str
        text = ""
    said = "".join(traceback.format_exception(type(error), error, error.__traceback__)).encode("utf-8", "replace")
    kept: dict[str, Any] = {
        "v": VERSION,
        "status": 0,
        "by": "mopslock for Python",
        "at": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": _clean(socket.gethostname()),
        "stderr": said[-MOST_STDERR:],
        "type": _clean(f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")),
        "text": _clean(text),
    }
    if 0 < len(pickled) <= MOST_PICKLE:
        kept["pickle"] = pickled
    packed: bytes = msgpack.packb(kept)
    return packed


def load(name: str, body: bytes) -> tuple[RememberedFailure, bytes]:
    """A failure that another process stored, and its pickle or b"". None of it is trusted.

    Incompatible: a newer mopslock stored it.
    """
    work = f"mopslock: work {printable(name)}"
    try:
        if len(body) > MOST:
            raise ValueError("too long")
        kept = msgpack.unpackb(body)
        version = kept["v"]
        if type(version) is int and version > VERSION:
            raise Incompatible(
                f"{work} has failed, and that was kept by a newer mopslock; update this one", reason="newer"
            )
        if version != VERSION or type(kept["status"]) is not int or not 0 <= kept["status"] <= 255:
            raise ValueError("not as it should be")
    except Incompatible:
        raise
    except Exception as error:  # anything may lie there
        return RememberedFailure(f"{work} has failed, and what was kept of that cannot be read: {error}"), b""
    fields = {key: _text(kept.get(key)) for key in ("type", "text", "at", "host", "stderr")}
    status: int = kept["status"]
    message = work + " has failed"
    message += f" with exit status {status}" if status else ""
    message += f" on {printable(fields['host'])}" if fields["host"] else ""
    message += f" at {printable(fields['at'])}" if fields["at"] else ""
    if fields["type"] or fields["text"]:
        message += ": " + printable(f"{fields['type']}: {fields['text']}".strip(": "))
    pickled = kept.get("pickle", b"")
    failure = RememberedFailure(message + ", and that is kept (memo_failures)", status=status, **fields)
    return failure, pickled if isinstance(pickled, bytes) else b""


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace")[:MOST_TEXT].decode("utf-8", "ignore")


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value[-MOST_STDERR:].decode("utf-8", "replace")
    return value[:MOST_TEXT] if isinstance(value, str) else ""

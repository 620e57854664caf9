"""Which store a URL names, however it is spelled. host/store.Place is the same rule in Go, and one table tests both."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit


def place_of(url: str) -> str:
    """Two URLs of one store have one place. A directory has no symbolic link in it, as far as it exists. It is "" for
    mem, of which each use is another store."""
    at = urlsplit(url)
    query = sorted(parse_qsl(at.query, keep_blank_values=True))
    prefix = "".join(value for name, value in query if name == "prefix").strip("/")
    path = unquote(at.path)
    if at.scheme == "file":
        return "file://" + os.path.realpath(os.path.normpath(f"{path}/{prefix}"))
    if at.scheme == "mem":
        return ""
    others = urlencode([(name, value) for name, value in query if name not in ("prefix", "clock")])
    return f"{at.scheme}://{at.netloc}/{path.strip('/') or prefix}?{others}"

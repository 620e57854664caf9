"""A lease's text: what Go writes is read, what we write is what Go writes, and what is malformed is refused."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock._held import Handle
from mopslock.errors import BadArgument

UTC = timezone.utc
HOLDER = "01020304-0506-4708-890a-0b0c0d0e0f10"
AT = datetime(2026, 1, 1, 0, 0, 0, 170000, UTC)


def written(*texts: str) -> str:
    """As String of host/handle.go writes it: name, store, holder, epoch, token, ttl_s, first_acquired_at."""
    name, store, holder, epoch, token, ttl, acquired = texts
    return (
        f'{{"name":"{name}","store":"{store}","protocol":"lastwriter","holder":"{holder}","epoch":{epoch},'
        f'"token":{token},"ttl_s":{ttl},"first_acquired_at":"{acquired}+00:00"}}'
    )


GOLDEN = [
    (
        Handle("nightly", "s3://bucket/locks", HOLDER, 60_000_000_000, AT),
        written("nightly", "s3://bucket/locks", HOLDER, "0", "0", "60", "2026-01-01T00:00:00.170000"),
    ),
    (
        Handle("a/b", "file:///x?a=1&b=<2>", HOLDER, 50_000_000, datetime(2026, 12, 31, 23, 59, 59, 999999, UTC)),
        written("a/b", "file:///x?a=1&b=<2>", HOLDER, "0", "0", "0.05", "2026-12-31T23:59:59.999999"),
    ),
    (
        Handle("Größe", "gs://b", "h", 2_592_000_000_000_000, datetime(2026, 1, 1, tzinfo=UTC)),
        written("Größe", "gs://b", "h", "0", "0", "2592000", "2026-01-01T00:00:00.000000"),
    ),
    (
        Handle("n", "azblob://c/p", "h", 88_500_000_000, AT, 7, 5),
        written("n", "azblob://c/p", "h", "7", "5", "88.5", "2026-01-01T00:00:00.170000"),
    ),
]
HANDLE, TEXT = GOLDEN[0]


def test_texts_are_gos_to_the_byte() -> None:
    for handle, text in GOLDEN:
        assert handle.text() == text
        assert Handle.parse(text) == handle


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
instants = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))
handles = st.builds(
    Handle, words, words, words, st.integers(50_000, 2_592_000_000_000).map(lambda us: us * 1000), instants,
    st.integers(0, 2**63), st.integers(0, 2**63),
)  # fmt: skip


@given(handles, st.dictionaries(words.map(lambda word: "x-" + word), st.none() | st.integers() | words, max_size=3))
def test_what_is_written_is_read_whatever_a_newer_one_adds(handle: Handle, more: dict[str, Any]) -> None:
    """On one line, whatever is in it. A newer mopslock can add fields, in any order, with any space between."""
    text = handle.text()
    assert Handle.parse(text) == handle
    assert "\n" not in text
    assert Handle.parse(json.dumps({**more, **json.loads(text)}, indent=2)) == handle


MISSING = object()
READ: list[tuple[dict[str, Any], Handle]] = [
    *(({"first_acquired_at": f"2026-01-01T00:00:{text}"}, replace(HANDLE, acquired=AT + timedelta(milliseconds=ms)))
      for text, ms in (("00.170000Z", 0), ("00.17+00:00", 0), ("00.170000999Z", 0), ("00Z", -170), ("00.5Z", 330),
                       ("00.1704Z", 0.4))),
    ({"first_acquired_at": "2026-01-01T02:00:00.17+02:00"}, HANDLE),
    ({"epoch": None, "token": None, "owner": "x"}, HANDLE),
]  # fmt: skip
"""Of other writers: RFC 3339 with any fraction and offset; a null is a zero; Go marks the text of an owner, for which a
companion has no use."""
BAD: list[tuple[str, Any]] = [
    *((key, value) for key in ("name", "store", "holder") for value in (MISSING, "", None, 3, ["x"], {})),
    *(("protocol", value) for value in (MISSING, "", None, "semaphore", 3)),
    *(("ttl_s", value) for value in (MISSING, None, 0, -1, 1e-10, True, "60", 2_592_001, 1e300, [60])),
    *(("first_acquired_at", value) for value in (MISSING, "", None, 3, "now", "2026-01-01T00:00:00")),
    ("first_acquired_at", "2026-13-01T00:00:00Z"),
    ("epoch", "7"), ("epoch", -1), ("epoch", 1.5), ("token", "5"), ("token", True), ("token", [1]),
]  # fmt: skip
TEXTS = [
    "", "{", "[]", "null", "3", '"x"', "nightly", TEXT + "x", TEXT * 2, '{"ttl_s":NaN}', TEXT.replace(":60,", ":NaN,"),
    TEXT.replace(":60,", ":Infinity,"), "[" * 100_000,
]  # fmt: skip


def test_what_others_write_is_read_and_what_is_bad_is_named_all_at_once() -> None:
    for fields, handle in READ:
        assert Handle.parse(json.dumps({**json.loads(TEXT), **fields})) == handle
    for key, value in BAD:
        fields = {**json.loads(TEXT), key: value}
        if value is MISSING:
            del fields[key]
        with pytest.raises(BadArgument, match=key):
            mopslock.accompany(json.dumps(fields))
    with pytest.raises(BadArgument, match="name, store, holder, protocol, ttl_s, first_acquired_at"):
        Handle.parse("{}")
    for text in TEXTS:
        with pytest.raises(BadArgument):
            Handle.parse(text)


@given(st.text(max_size=60) | st.dictionaries(
    st.sampled_from(list(json.loads(TEXT))), st.none() | st.booleans() | st.floats() | st.text(max_size=5)
).map(lambda fields: json.dumps({**json.loads(TEXT), **fields})))  # fmt: skip
def test_whatever_the_text_is_it_is_read_or_a_bad_argument(text: str) -> None:
    with contextlib.suppress(BadArgument):
        Handle.parse(text)

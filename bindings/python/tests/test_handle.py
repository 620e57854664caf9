"""A lease's text: what Go writes is read, what we write is what Go writes, and what is malformed is refused."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mopslock._member import Handle
from mopslock.errors import BadArgument

UTC = timezone.utc
HOLDER = "01020304-0506-4708-890a-0b0c0d0e0f10"
AT = datetime(2026, 1, 1, 0, 0, 0, 170000, UTC)

# As String of host/handle.go writes them.
GOLDEN = [
    (
        Handle("nightly", "s3://bucket/locks", HOLDER, 60_000_000_000, AT),
        '{"name":"nightly","store":"s3://bucket/locks","protocol":"lastwriter","holder":"' + HOLDER + '","epoch":0,'
        '"token":0,"ttl_s":60,"first_acquired_at":"2026-01-01T00:00:00.170000+00:00"}',
    ),
    (
        Handle("a/b", "file:///x?a=1&b=<2>", HOLDER, 50_000_000, datetime(2026, 12, 31, 23, 59, 59, 999999, UTC)),
        '{"name":"a/b","store":"file:///x?a=1&b=<2>","protocol":"lastwriter","holder":"' + HOLDER + '","epoch":0,'
        '"token":0,"ttl_s":0.05,"first_acquired_at":"2026-12-31T23:59:59.999999+00:00"}',
    ),
    (
        Handle("Größe", "gs://b", "h", 2_592_000_000_000_000, datetime(2026, 1, 1, tzinfo=UTC)),
        '{"name":"Größe","store":"gs://b","protocol":"lastwriter","holder":"h","epoch":0,'
        '"token":0,"ttl_s":2592000,"first_acquired_at":"2026-01-01T00:00:00.000000+00:00"}',
    ),
    (
        Handle("n", "azblob://c/p", "h", 88_500_000_000, AT, 7, 5),
        '{"name":"n","store":"azblob://c/p","protocol":"lastwriter","holder":"h","epoch":7,'
        '"token":5,"ttl_s":88.5,"first_acquired_at":"2026-01-01T00:00:00.170000+00:00"}',
    ),
]


@pytest.mark.parametrize(("handle", "text"), GOLDEN, ids=lambda value: getattr(value, "name", ""))
def test_texts_are_gos_to_the_byte(handle: Handle, text: str) -> None:
    assert handle.text() == text
    assert Handle.parse(text) == handle


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
instants = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))
handles = st.builds(
    Handle, words, words, words, st.integers(50_000, 2_592_000_000_000).map(lambda us: us * 1000), instants,
    st.integers(0, 2**63), st.integers(0, 2**63),
)  # fmt: skip


@given(handles)
def test_what_is_written_is_read(handle: Handle) -> None:
    """On one line, whatever is in it."""
    text = handle.text()
    assert Handle.parse(text) == handle
    assert len(text.splitlines()) == 1 or any(c in text for c in "\x85\u2028\u2029")
    assert "\n" not in text


@given(handles, st.dictionaries(words.map(lambda word: "x-" + word), st.none() | st.integers() | words, max_size=3))
def test_fields_that_it_does_not_know_are_left_alone(handle: Handle, more: dict[str, Any]) -> None:
    """A newer mopslock can add some, in any order, with any space between."""
    assert Handle.parse(json.dumps({**more, **json.loads(handle.text())}, indent=2)) == handle


def test_times_of_other_writers_are_read() -> None:
    """RFC 3339: also with Z, and with another offset."""
    fields = json.loads(GOLDEN[0][1])
    for text in ("2026-01-01T00:00:00.170000Z", "2026-01-01T02:00:00.170000+02:00", "2026-01-01T00:00:00.170000+00:00"):
        assert Handle.parse(json.dumps({**fields, "first_acquired_at": text})).acquired == AT
    assert Handle.parse(json.dumps({**fields, "first_acquired_at": "2026-01-01T00:00:00Z"})).acquired == AT - timedelta(
        microseconds=170_000
    )


def test_a_null_is_a_zero_as_in_go() -> None:
    fields = {**json.loads(GOLDEN[0][1]), "epoch": None, "token": None}
    assert Handle.parse(json.dumps(fields)) == GOLDEN[0][0]


def test_the_owner_of_a_lease_that_was_printed_is_left_alone() -> None:
    """Go marks the text of an owner; a companion has no use for it."""
    fields = json.loads(GOLDEN[0][1])
    assert Handle.parse(json.dumps({**fields, "owner": "x"})) == GOLDEN[0][0]


MISSING = object()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[(key, value) for key in ("name", "store", "holder") for value in (MISSING, "", None, 3, ["x"], {})],
        *[("protocol", value) for value in (MISSING, "", None, "semaphore", 3)],
        *[("ttl_s", value) for value in (MISSING, None, 0, -1, 1e-10, True, "60", 2_592_001, 1e300, [60])],
        *[("first_acquired_at", value) for value in (MISSING, "", None, 3, "now", "2026-01-01T00:00:00")],
        ("first_acquired_at", "2026-13-01T00:00:00Z"),
        ("epoch", "7"), ("epoch", -1), ("epoch", 1.5), ("token", "5"), ("token", True), ("token", [1]),
    ],
    ids=lambda value: "missing" if value is MISSING else repr(value),
)  # fmt: skip
def test_a_bad_field_is_named(key: str, value: object) -> None:
    fields = {**json.loads(GOLDEN[0][1]), key: value}
    if value is MISSING:
        del fields[key]
    with pytest.raises(BadArgument, match=key):
        Handle.parse(json.dumps(fields))


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(BadArgument, match="name, store, holder, protocol, ttl_s, first_acquired_at"):
        Handle.parse("{}")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '"x"', "nightly", GOLDEN[0][1] + "x", GOLDEN[0][1] * 2, '{"ttl_s":NaN}',
             GOLDEN[0][1].replace(":60,", ":NaN,"), GOLDEN[0][1].replace(":60,", ":Infinity,"), "[" * 100_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_what_is_no_text_of_a_lease_is_a_bad_argument(text: str) -> None:
    with pytest.raises(BadArgument):
        Handle.parse(text)


@given(st.text(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.sampled_from(["name", "store", "holder", "ttl_s", "epoch"]), inner), max_leaves=5,
).map(json.dumps))  # fmt: skip
def test_whatever_the_text_is_it_is_read_or_a_bad_argument(text: str) -> None:
    with contextlib.suppress(BadArgument):
        Handle.parse(text)

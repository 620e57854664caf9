"""Companions: a second keeper of somebody else's lease, in both ways and across them. And the text by which they join:
what Go writes is read, what we write is what Go writes, and what is malformed is refused."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock._held import Handle
from mopslock.errors import BadArgument
from ways import LIVES, NOTICES, SOON, WAYS, Place, later, opened, stamp, until
from world import FakeStore

UTC = timezone.utc
HOLDER = "01020304-0506-4708-890a-0b0c0d0e0f10"
AT = datetime(2026, 1, 1, 0, 0, 0, 170000, UTC)


def golden(of: Handle, ttl: str) -> tuple[Handle, str]:
    """A handle, and its text as String of host/handle.go writes it."""
    return of, (
        f'{{"name":"{of.name}","store":"{of.store}","protocol":"lastwriter","holder":"{of.holder}","epoch":{of.epoch},'
        f'"token":{of.token},"ttl_s":{ttl},"first_acquired_at":"{of.acquired.isoformat(timespec="microseconds")}"}}'
    )


NEW_YEAR = datetime(2026, 12, 31, 23, 59, 59, 999999, UTC)
GOLDEN = [
    golden(Handle("nightly", "s3://bucket/locks", HOLDER, 60_000_000_000, AT), "60"),
    golden(Handle("a/b", "file:///x?a=1&b=<2>", HOLDER, 50_000_000, NEW_YEAR), "0.05"),
    golden(Handle("Größe", "gs://b", "h", 2_592_000_000_000_000, datetime(2026, 1, 1, tzinfo=UTC)), "2592000"),
    golden(Handle("n", "azblob://c/p", "h", 88_500_000_000, AT, 7, 5), "88.5"),
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


def joined(place: Place, text: str, **options: Any) -> Any:
    """A companion by this way, whatever way the holder has."""
    return place.api.accompany(text, store=place.store, **options)


def test_a_companion_joins_by_text_and_leaves_without_releasing(either: Place) -> None:
    with either.api.acquire(either.other().store, "n", ttl=LIVES) as lease:
        with joined(either, lease.text) as companion:
            companion.check()
            assert (companion.name, companion.holder, companion.ttl) == ("n", lease.holder, LIVES)
            assert companion.left > 0
        with pytest.raises(mopslock.LeaseEnded):
            companion.check()
        companion.leave()
        lease.check()
        assert not either.released("n")
    assert either.released("n")


def test_a_companion_finds_the_text_and_its_store_in_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOPSLOCK_LEASE", raising=False)
    with pytest.raises(mopslock.BadArgument, match="set MOPSLOCK_LEASE"):
        mopslock.accompany()
    with mopslock.acquire(url, "n", ttl=LIVES) as lease:
        monkeypatch.setenv("MOPSLOCK_LEASE", lease.text)
        with mopslock.accompany() as companion:
            assert companion.holder == lease.holder


def test_the_text_of_a_store_object_needs_the_object(tmp_path: Path) -> None:
    with (
        mopslock.acquire(Place.of("own", tmp_path).store, "n", ttl=LIVES) as lease,
        pytest.raises(mopslock.BadArgument, match="give that object"),
    ):
        mopslock.accompany(lease.text)


def test_a_companion_hears_that_the_holder_released(either: Place) -> None:
    lease = either.api.acquire(either.other().store, "n", ttl=NOTICES)
    told: list[Any] = []
    companion = joined(either, lease.text, on_lost=told.append)
    if either.protocol == "lastwriter":  # its put, which would undo the release
        until(lambda: either.record("n").get("writer_name") == "remote")
    lease.release()
    later(NOTICES / 3)
    assert companion.lost.wait(SOON)
    for call in (companion.check, companion.leave):
        with pytest.raises(mopslock.LeaseReleased):
            call()
    until(lambda: told)
    assert [type(error) for error in told] == [mopslock.LeaseReleased]
    assert either.released("n")


def test_leaving_the_block_of_a_lost_companion_raises_as_a_lease_does(place: Place) -> None:
    lease = mopslock.acquire(place.other().store, "n", ttl=LIVES)
    with pytest.raises(mopslock.LeaseTaken), joined(place, lease.text) as companion:
        place.lose(companion)


JOINING: dict[str, tuple[dict[str, Any] | None, type[mopslock.MopslockError]]] = {
    "absent": (None, mopslock.NothingToJoin),
    "no_expiry": ({"expire_s": 0.0}, mopslock.NothingToJoin),
    "never_acquired": ({"first_acquired_at": "", "writer_id": HANDLE.holder}, mopslock.NothingToJoin),
    "released": ({"released_at": stamp(0), "written_at": "", "writer_id": HANDLE.holder}, mopslock.LeaseReleased),
    "taken": ({"written_at": stamp(-100)}, mopslock.LeaseTaken),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reason", JOINING)
def test_joining_in_vain_says_why_and_writes_nothing(tmp_path: Path, way: str, reason: str) -> None:
    fields, error = JOINING[reason]
    with opened(way, tmp_path) as place:
        if fields is not None:
            place.write("nightly", **fields)
        before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("lock.json"))
        with pytest.raises(error) as caught:
            joined(place, TEXT)
        assert vars(caught.value)["reason"] == reason
        assert sorted((path, path.read_bytes()) for path in tmp_path.rglob("lock.json")) == before
        place.write("nightly", writer_id=HANDLE.holder, written_at=stamp(-100), expire_s=60.0, released_at="")
        place.write("nightly", first_acquired_at=stamp(-100))
        with joined(place, TEXT, raise_if_lost=False) as companion:  # of what had expired
            companion.check()
            assert mopslock.inspect(place.store, "nightly").state == "held"


def test_joining_what_cannot_be_read_for_a_ttl_says_unreadable() -> None:
    store = FakeStore()
    store.fail(RuntimeError("odd"))
    with pytest.raises(mopslock.NothingToJoin, match="odd") as caught:
        mopslock.accompany(TEXT.replace(":60,", ":0.05,"), store=store)
    assert caught.value.reason == "unreadable"

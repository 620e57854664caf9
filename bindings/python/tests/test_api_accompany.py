"""Companions: a second keeper of somebody else's lease, in both ways and across them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock._member import Handle
from ways import LIVES, NOTICES, SOON, WAYS, Failing, Place, both, opened, program, said, stamp, until

GOLDEN = (
    '{"name":"reports/nightly","store":"s3://bucket/locks?region=eu-west-1","protocol":"lastwriter",'
    '"holder":"01234567-89ab-4def-8123-456789abcdef","epoch":0,"token":0,"ttl_s":88,'
    '"first_acquired_at":"2026-01-02T03:04:05.678901+00:00"}'
)
"""host/handle_test.go has the same: environment variables of running commands carry it."""


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


def joined(place: Place, text: str, **options: Any) -> mopslock.Companion:
    """A companion by this way, whatever way the holder has."""
    return mopslock.accompany(text, store=place.store, **options)


def test_the_text_is_golden() -> None:
    handle = Handle.parse(GOLDEN)
    assert handle.text() == GOLDEN
    assert (handle.name, handle.holder, handle.ttl_ns) == (
        "reports/nightly", "01234567-89ab-4def-8123-456789abcdef", 88_000_000_000
    )  # fmt: skip
    assert handle.acquired == datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    for same in (f" {GOLDEN}\n", GOLDEN.replace('"epoch"', '"newer":[1],"epoch"')):
        assert Handle.parse(same) == handle


@pytest.mark.parametrize("fraction", ["Z", ".5+00:00", ".1234Z", ".123456789Z"])
def test_the_text_of_other_languages_may_have_any_fraction(fraction: str) -> None:
    acquired = Handle.parse(GOLDEN.replace(".678901+00:00", fraction)).acquired
    assert acquired.isoformat().startswith("2026-01-02T03:04:05" + fraction.rstrip("Z").removesuffix("+00:00")[:7])


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"reports/nightly"', '""', "name"),
        ('"name"', '"nom"', "name"),
        ('"s3://bucket/locks?region=eu-west-1"', "5", "store"),
        ('"01234567-89ab-4def-8123-456789abcdef"', "null", "holder"),
        ("lastwriter", "semaphore", "protocol"),
        (":88", ":0", "ttl_s"),
        (":88", ":true", "ttl_s"),
        (":88", ":1e300", "ttl_s"),
        ("2026-01-02T", "2026-13-02T", "first_acquired_at"),
        ("+00:00", "", "first_acquired_at"),
        ("{", "[{", "lease text"),
        (GOLDEN, '"text"', "not a JSON object"),
    ],
)
def test_a_text_that_is_none_says_what_is_wrong(old: str, new: str, what: str) -> None:
    with pytest.raises(mopslock.BadArgument, match=what):
        mopslock.accompany(GOLDEN.replace(old, new))


def test_a_companion_joins_by_text_and_leaves_without_releasing(place: Place) -> None:
    with mopslock.acquire(place.other().store, "n", ttl=LIVES) as lease:
        with joined(place, lease.text) as companion:
            companion.check()
            assert companion.name == "n"
            assert companion.holder == lease.holder
            assert companion.ttl == LIVES
            assert companion.left > 0
            assert "Companion 'n' held" in repr(companion)
        with pytest.raises(mopslock.LeaseEnded):
            companion.check()
        companion.leave()
        lease.check()
        assert not place.released("n")
    assert place.released("n")


def test_a_companion_finds_the_text_and_its_store_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mopslock.acquire(tmp_path.as_uri(), "n", ttl=LIVES) as lease:
        monkeypatch.setenv("MOPSLOCK_LEASE", lease.text)
        with mopslock.accompany() as companion:
            assert companion.holder == lease.holder


def test_nothing_to_accompany_says_where_the_text_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOPSLOCK_LEASE", raising=False)
    with pytest.raises(mopslock.BadArgument, match="set MOPSLOCK_LEASE"):
        mopslock.accompany()


def test_the_text_of_a_store_object_needs_the_object(tmp_path: Path) -> None:
    place = Place.of("own", tmp_path)
    with (
        mopslock.acquire(place.store, "n", ttl=LIVES) as lease,
        pytest.raises(mopslock.BadArgument, match="give that object"),
    ):
        mopslock.accompany(lease.text)


def test_a_companion_keeps_the_lease_alive_after_its_holder_was_killed(place: Place) -> None:
    code = f'lease = mopslock.acquire({place.other().code}, "n", ttl={NOTICES})\nprint(lease.text)\ntime.sleep(60)'
    with program(code) as process:
        companion = joined(place, said(process))
        process.kill()
        process.wait()
        written = place.record("n")["write_count"]
        until(lambda: place.record("n")["write_count"] >= written + 5)  # each is a third of the TTL
        companion.check()
        assert mopslock.inspect(place.store, "n").state == "held"
        assert mopslock.inspect(place.store, "n").companion
        companion.leave()
    assert not place.released("n")
    with mopslock.acquire(place.store, "n", ttl=NOTICES, wait=SOON):  # a TTL after it was left
        pass


def test_a_companion_hears_that_the_holder_released(place: Place) -> None:
    told: list[Any] = []
    lost = threading.Event()
    lease = mopslock.acquire(place.other().store, "n", ttl=NOTICES)
    companion = joined(place, lease.text, on_lost=both(told.append, lambda _: lost.set()))
    until(lambda: place.record("n").get("writer_name") == "remote")  # its put, which would undo the release
    lease.release()
    assert lost.wait(SOON)
    with pytest.raises(mopslock.LeaseReleased):
        companion.check()
    with pytest.raises(mopslock.LeaseReleased):
        companion.leave()
    assert [error.reason for error in told] == ["released"]
    assert place.released("n")


def test_leaving_the_block_of_a_lost_companion_raises_as_a_lease_does(place: Place) -> None:
    lease = mopslock.acquire(place.other().store, "n", ttl=NOTICES)
    with pytest.raises(mopslock.LeaseTaken), joined(place, lease.text) as companion:
        place.steal("n")
        assert companion.lost.wait(SOON)
    with joined_again(place) as companion:
        companion.check()


def joined_again(place: Place) -> mopslock.Companion:
    """A companion of the thief's."""
    text = GOLDEN.replace("reports/nightly", "n").replace("01234567-89ab-4def-8123-456789abcdef", "thief")
    return joined(place, text, raise_if_lost=False)


JOINING: list[tuple[dict[str, Any] | None, type[mopslock.MopslockError], str]] = [
    (None, mopslock.CannotMaintain, "absent"),
    ({"expire_s": 0.0}, mopslock.CannotMaintain, "no_expiry"),
    ({"first_acquired_at": "", "writer_id": "h"}, mopslock.CannotMaintain, "never_acquired"),
    ({"released_at": stamp(0), "written_at": "", "writer_id": "h"}, mopslock.LeaseReleased, "released"),
    ({}, mopslock.LeaseTaken, "taken"),
    ({"written_at": stamp(-100)}, mopslock.LeaseTaken, "taken"),
]


@pytest.mark.parametrize(("fields", "error", "reason"), JOINING, ids=[reason for _, _, reason in JOINING])
def test_joining_says_why_there_is_nothing_to_join(
    place: Place, fields: dict[str, Any] | None, error: type[mopslock.MopslockError], reason: str
) -> None:
    if fields is not None:
        place.write("reports/nightly", **fields)
    before = place.path("reports/nightly").read_bytes() if fields is not None else b""
    with pytest.raises(error) as caught:
        joined(place, GOLDEN.replace("01234567-89ab-4def-8123-456789abcdef", "h"))
    assert getattr(caught.value, "reason") == reason  # noqa: B009
    if fields is not None:
        assert place.path("reports/nightly").read_bytes() == before, "who joins in vain writes nothing"


def test_joining_what_cannot_be_read_for_a_ttl_says_unreadable(tmp_path: Path) -> None:
    store = Failing(tmp_path, get=RuntimeError("odd"))
    with pytest.raises(mopslock.CannotMaintain, match="odd") as caught:
        mopslock.accompany(GOLDEN.replace(":88", ":0.3"), store=store)
    assert caught.value.reason == "unreadable"


def test_a_companion_joins_again_what_had_expired(place: Place) -> None:
    place.write("n", writer_id="thief", written_at=stamp(-100), expire_s=88.0)
    with joined_again(place) as companion:
        companion.check()
        assert mopslock.inspect(place.store, "n").state == "held"

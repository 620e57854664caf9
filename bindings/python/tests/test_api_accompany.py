"""Companions: a second keeper of somebody else's lease, in both ways and across them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mopslock
from test_handle import GOLDEN
from ways import LIVES, SOON, WAYS, Place, later, opened, stamp, until
from world import FakeStore

HANDLE, TEXT = GOLDEN[0]


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
    lease = either.api.acquire(either.other().store, "n", ttl=LIVES)
    told: list[Any] = []
    companion = joined(either, lease.text, on_lost=told.append)
    if either.protocol == "lastwriter":  # its put, which would undo the release
        until(lambda: either.record("n").get("writer_name") == "remote")
    lease.release()
    later(LIVES / 3)
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

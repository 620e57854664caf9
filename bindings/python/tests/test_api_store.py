"""Closing stores, and what others see of leases: both ways to a store behave alike."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import stores
from mopslock._hosts import host_of
from mopslock.stores import Directory
from ways import LIVES, SOON, WAYS, Place, stamp, waiting
from world import PlainStore


def test_close_releases_what_is_held_and_the_store_can_be_used_again(place: Place) -> None:
    leases = [mopslock.acquire(place.store, f"n{i}", ttl=LIVES) for i in range(5)]
    same = Place.of(place.way, place.root.parent / "same")
    same.root.mkdir(exist_ok=True)
    others = [mopslock.acquire(store, "other", ttl=LIVES) for store in (place.other().store, same.store)]
    mopslock.close(place.store)
    assert all(place.released(f"n{i}") for i in range(5))
    for lease in leases:
        assert lease.lost.is_set()
        with pytest.raises((mopslock.LeaseEnded, mopslock.Closed)):
            lease.check()
        lease.release()
    for other in others:
        other.check()
    assert not place.released("other"), "it is another store's"
    with mopslock.acquire(place.store, "n0", ttl=LIVES) as again:
        again.check()


def test_close_of_all_closes_every_host(tmp_path: Path) -> None:
    places = [Place.of(way, tmp_path / f"{way}{i}") for way in WAYS for i in range(2)]
    for place in places:
        place.root.mkdir(exist_ok=True)
    leases = [mopslock.acquire(place.store, "n", ttl=LIVES) for place in places]
    mopslock.close()
    assert all(lease.lost for lease in leases)
    assert all(place.released("n") for place in places)
    mopslock.close()  # nothing is left to close


def test_close_ends_what_waits(place: Place) -> None:
    with mopslock.acquire(place.other().store, "n", ttl=LIVES) as held:
        for _ in range(3):
            with waiting(mopslock.acquire, place.store, "n", ttl=LIVES) as (waits, _):
                mopslock.close(place.store)
                assert isinstance(waits.exception(SOON), mopslock.Closed)
        held.check()
        assert place.holder("n") == held.holder


STATES: dict[str, dict[str, Any] | bytes | None] = {
    "vacant": None, "held": {}, "stale": {"written_at": stamp(-100)}, "corrupt": b'{"writer_id": ',
    "released": {"released_at": stamp(-5), "written_at": ""},
}  # fmt: skip


def tree(root: Path) -> list[tuple[Path, Any]]:
    return sorted((path, path.is_file() and path.read_bytes()) for path in root.rglob("*"))


@pytest.mark.parametrize("state", STATES)
def test_inspect_says_the_same_in_both_ways_and_takes_no_part(tmp_path: Path, state: str) -> None:
    content, place = STATES[state], Place.of("url", tmp_path)
    if isinstance(content, bytes):
        Directory(tmp_path).put("a/n/lock.json", content)
    elif content is not None:
        place.write("a/n", **content)
    before = tree(tmp_path)
    one, other = (mopslock.inspect(store, "a/n") for store in (place.store, place.other().store))
    assert tree(tmp_path) == before
    assert [one.state, other.state, one.held] == [state, state, state in ("held", "corrupt")]
    for what in ("name", "state", "holder", "host", "pid", "companion", "ttl", "acquired", "released"):
        assert getattr(one, what) == getattr(other, what), what
    assert one.age == pytest.approx(other.age, abs=SOON)
    assert one.left == pytest.approx(other.left, abs=SOON)


def test_ls_is_in_byte_order_of_the_records_and_by_prefix(either: Place) -> None:
    there = Place.of(either.way, either.root)
    for name in ["b", "a/b", "a", "a-b", "a0", "é/ü", "z z"]:
        there.write(name)
    (either.root / "a" / "other.json").write_text("{}")
    (either.root / "lock.json").write_text("{}")
    found = [status.name for status in either.api.ls(either.store)]
    assert found == ["a-b", "a/b", "a", "a0", "b", "z z", "é/ü"]
    assert [status.name for status in either.api.ls(either.store, "a")] == ["a-b", "a/b", "a", "a0"]
    assert [status.name for status in either.api.ls(either.store, "a/")] == ["a/b"]
    assert list(either.api.ls(either.store, "nobody")) == []
    assert all(status.state == "held" and status.holder == "stranger" for status in either.api.ls(either.store))
    bad: list[Any] = [5, "\udc80"]
    for prefix in bad:
        with pytest.raises(mopslock.BadArgument, match="^mopslock: prefix "):
            list(either.api.ls(either.store, prefix))


def test_ls_can_be_left_early(place: Place) -> None:
    """Also by who has read less than is read ahead."""
    for i in range(600):
        (place.root / f"n{i}").mkdir()
        (place.root / f"n{i}" / "lock.json").write_text("{")
    for status in mopslock.ls(place.store):
        assert status.state == "corrupt"
        break


def test_a_store_that_cannot_be_listed_or_read_in_time_says_so(tmp_path: Path) -> None:
    with pytest.raises(mopslock.BadArgument, match="no verb list"):
        list(mopslock.ls(PlainStore()))
    with pytest.raises(mopslock.StoreError):
        mopslock.inspect(tmp_path.as_uri(), "n", timeout=0)


def test_what_is_this_processs_own_says_what_another_process_does_instead(store: stores.Memory) -> None:
    """To the program that pickles it, as for multiprocessing."""
    lease, permit = mopslock.acquire(store, "n"), mopslock.acquire_permit(store, "p", capacity=1)
    companion = mopslock.accompany(lease.text, store=store)
    result = mopslock.invoke(store, "w", lambda work: str(pickled(work)).encode())
    assert "remote() with it" in result.read().decode()
    for own, says in (
        (lease, "its text"), (companion, "its text"), (lease.lost, "its text"), (permit, "acquires its own"),
        (mopslock.lease(store, "n"), "its text"), (mopslock.aio.lease(store, "n"), "its text"), (result, "its key"),
        (mopslock.permit(store, "p", capacity=1), "acquires its own"), (host_of(store), "the store's URL"),
        (mopslock.aio.permit(store, "p", capacity=1), "acquires its own"), (store, "a URL"),
    ):  # fmt: skip
        assert says in str(pickled(own))


def pickled(own: object) -> TypeError:
    with pytest.raises(TypeError) as told:
        pickle.dumps(own)
    return told.value

"""Closing stores, and what others see of leases: both ways to a store behave alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mopslock
from held_up import promptly
from mopslock.stores import Directory
from ways import LIVES, SOON, WAYS, Failing, Gated, Place, opened, stamp


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


# Closing.


def test_close_releases_what_is_held_and_the_store_can_be_used_again(place: Place) -> None:
    leases = [mopslock.acquire(place.store, f"n{i}", ttl=LIVES) for i in range(5)]
    mopslock.close(place.store)
    assert all(place.released(f"n{i}") for i in range(5))
    for lease in leases:
        assert lease.lost.is_set()
        with pytest.raises((mopslock.LeaseEnded, mopslock.Closed)):
            lease.check()
        lease.release()
    with mopslock.acquire(place.store, "n0", ttl=LIVES) as again:
        again.check()


def test_close_of_all_closes_every_host(tmp_path: Path) -> None:
    places = [Place.of(way, tmp_path / f"{way}{i}") for way in WAYS for i in range(2)]
    for place in places:
        place.root.mkdir()
        mopslock.acquire(place.store, "n", ttl=30)
    mopslock.close()
    assert all(place.released("n") for place in places)
    mopslock.close()  # nothing is left to close


def test_close_of_one_store_leaves_the_others(place: Place, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Place.of(place.way, tmp_path / "b")
    lease = mopslock.acquire(other.store, "n", ttl=LIVES)
    mopslock.acquire(place.store, "n", ttl=LIVES)
    mopslock.close(place.store)
    lease.check()
    assert not other.released("n")
    lease.release()


def test_close_ends_what_waits(place: Place) -> None:
    waits = threading.Event()
    errors: list[BaseException] = []

    def acquire() -> None:
        try:
            mopslock.acquire(place.store, "n", ttl=30, on_waiting=lambda _: waits.set())
        except BaseException as error:
            errors.append(error)

    with mopslock.acquire(place.other().store, "n", ttl=30) as held:
        for _ in range(5):
            waits.clear()
            thread = threading.Thread(target=acquire)
            thread.start()
            assert waits.wait(SOON)
            mopslock.close(place.store)
            thread.join(SOON)
            assert not thread.is_alive()
        held.check()
        assert place.record("n")["writer_id"] == held.holder
    assert [type(error) for error in errors] == [mopslock.Closed] * 5


def test_a_close_that_takes_too_long_says_so(tmp_path: Path) -> None:
    store = Gated(tmp_path)
    mopslock.acquire(store, "n", ttl=30)
    store.puts.clear()
    with promptly(tmp_path, 3), pytest.raises(mopslock.NotReleased):
        mopslock.close(store, timeout=0.1)
    store.puts.set()


# What others see.

STATES: dict[str, dict[str, Any] | bytes | None] = {
    "vacant": None,
    "held": {},
    "stale": {"written_at": stamp(-100)},
    "released": {"released_at": stamp(-5), "written_at": ""},
    "corrupt": b'{"writer_id": ',
}


@pytest.mark.parametrize("state", STATES)
def test_inspect_says_the_same_in_both_ways(tmp_path: Path, state: str) -> None:
    seen = []
    for way in WAYS:
        with opened(way, tmp_path / "store") as place:
            content = STATES[state]
            if isinstance(content, bytes):
                Directory(place.root).put("a/n/lock.json", content)
            elif content is not None:
                place.write("a/n", **content)
            seen.append(mopslock.inspect(place.store, "a/n"))
    assert [status.state for status in seen] == [state, state]
    assert seen[0].held == (state in ("held", "corrupt"))
    for what in ("name", "state", "holder", "host", "pid", "companion", "ttl", "acquired", "released"):
        assert getattr(seen[0], what) == getattr(seen[1], what), what
    assert seen[0].age == pytest.approx(seen[1].age, abs=2)
    assert seen[0].left == pytest.approx(seen[1].left, abs=2)


def test_inspect_takes_no_part(place: Place) -> None:
    place.write("n")
    before = place.record("n")
    mopslock.inspect(place.store, "n")
    assert place.record("n") == before
    assert [path.name for path in place.root.iterdir()] == ["n"]


def test_ls_is_in_byte_order_of_the_records_and_by_prefix(place: Place) -> None:
    names = ["b", "a/b", "a", "a-b", "a0", "é/ü", "z z"]
    for name in names:
        place.write(name)
    (place.root / "a" / "other.json").write_text("{}")
    (place.root / "lock.json").write_text("{}")
    found = [status.name for status in mopslock.ls(place.store)]
    assert found == ["a-b", "a/b", "a", "a0", "b", "z z", "é/ü"]
    assert [status.name for status in mopslock.ls(place.store, "a")] == ["a-b", "a/b", "a", "a0"]
    assert [status.name for status in mopslock.ls(place.store, "a/")] == ["a/b"]
    assert list(mopslock.ls(place.store, "nobody")) == []
    assert all(status.state == "held" and status.holder == "stranger" for status in mopslock.ls(place.store))


def test_ls_can_be_left_early(place: Place) -> None:
    for i in range(600):
        (place.root / f"n{i}").mkdir()
        (place.root / f"n{i}" / "lock.json").write_text("{")
    for status in mopslock.ls(place.store):
        assert status.state == "corrupt"
        break


def test_a_bad_prefix_is_refused(place: Place) -> None:
    for prefix in (5, "\udc80"):
        with pytest.raises(mopslock.BadArgument, match="^mopslock: prefix "):
            list(mopslock.ls(place.store, prefix))  # type: ignore[arg-type]


def test_ls_without_the_verb_says_so(tmp_path: Path) -> None:
    class Three:
        get, put, exists = Directory.get, Directory.put, Directory.exists

    with pytest.raises(mopslock.BadArgument, match="no verb list"):
        list(mopslock.ls(Three()))


def test_a_store_that_cannot_be_read_in_time_is_a_store_error(tmp_path: Path) -> None:
    store = Failing(tmp_path, get=ConnectionError("no route"))
    with promptly(tmp_path, 3):
        with pytest.raises(mopslock.Unreachable, match="no route"):
            mopslock.inspect(store, "n", timeout=1)
        with pytest.raises(mopslock.StoreError):
            mopslock.inspect(tmp_path.as_uri(), "n", timeout=0)

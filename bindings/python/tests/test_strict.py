"""Protocol strict, and how the protocols are told from each other: both ways to a store behave alike."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock import aio, stores
from mopslock._own import clock, verbs
from ways import LIVES, NOTICES, SOON, WAYS, Place, kept_by, opened, until
from world import FakeStore, PlainStore

PROTOCOLS_OPEN = True
CARD = "_mopslock/store.json"


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store", "strict") as place:
        yield place


@pytest.fixture
def auto(place: Place) -> Iterator[Place]:
    with kept_by("auto"):
        yield place


# Tokens, and who is let in.


def test_tokens_grow_from_tenure_to_tenure_of_any_host(place: Place) -> None:
    tokens = []
    for store in (place.store, place.other().store, place.store, place.store, place.other().store):
        with mopslock.lease(store, "n", ttl=LIVES) as lease:
            assert lease.protocol == "strict"
            assert lease.epoch == lease.fencing_token
            assert place.record("n")["boot"] == clock.this_boot() != "", "both ways judge each other by one boot"
            tokens.append(lease.fencing_token)
            with pytest.raises(mopslock.Held):
                mopslock.acquire(place.other().store, "n", ttl=LIVES, wait=0)
    assert tokens == sorted(set(tokens))
    assert tokens[0] == 1


def test_a_lease_without_a_ttl_is_held_until_it_is_released(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=0) as lease:
        assert (lease.left, lease.ttl, lease.deadline.year) == (float("inf"), 0.0, 9999)
        assert json.loads(lease.text)["ttl_s"] == 0
        assert place.record("n")["ttl_s"] == 0
        assert mopslock.inspect(place.store, "n").ttl == 0.0
    assert place.released("n")
    for more in ({"session": True}, {"protocol": "lastwriter"}):
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire(place.store, "n", ttl=0, **more)


def test_what_others_do_is_noticed(place: Place) -> None:
    """By the next renewal, which is one wait for all: a companion that joins, and breaks."""
    there = place.other().store

    def acquire(name: str, **more: Any) -> mopslock.Lease:
        return mopslock.acquire(place.store, name, ttl=NOTICES, **more)

    joined, broken, old = (
        acquire("joined", label="third floor"),
        acquire("broken"),
        acquire("old", protocol="lastwriter"),
    )
    one, two = acquire("one", session=True), acquire("two", session=True)
    assert (one.session == two.session != "", joined.session) == (True, "")
    assert mopslock.inspect(place.store, "two").session == two.session
    handle = json.loads(joined.text)
    assert (handle["protocol"], handle["epoch"], handle["token"]) == ("strict", 1, 1)
    assert mopslock.inspect(place.store, "joined").label == "third floor"
    status = mopslock.break_lease(there, "broken", "it is stuck")
    assert (status.state, status.why, status.epoch, status.token) == ("broken", "it is stuck", 2, 1)
    assert "@" in status.by
    mopslock.break_lease(there, "one", "it is stuck")
    assert mopslock.break_lease(there, "old", "").state == "released"
    with mopslock.accompany(joined.text, store=there) as companion:
        assert (companion.fencing_token, companion.epoch, companion.protocol) == (1, 2, "strict")
        until(lambda: joined.epoch == 2)
        seen = mopslock.inspect(place.store, "joined")
        assert (len(seen.companions), seen.protocol, seen.epoch, seen.token) == (1, "strict", 2, 1)
        assert seen.clock == "local"
        assert 0 <= seen.left <= NOTICES  # 0 where nobody can say, as beside several owners
        for lease, error, why in (
            (broken, mopslock.LeaseBroken, "it is stuck"), (one, mopslock.LeaseBroken, "it is stuck"),
            (old, mopslock.LeaseReleased, ""),
        ):  # fmt: skip
            assert lease.lost.wait(SOON)
            with pytest.raises(error) as caught:
                lease.check()
            assert why in str(caught.value)
            assert caught.value.seen is not None
            assert caught.value.seen.why == why
    joined.check()
    two.check()
    assert joined.fencing_token == 1
    mopslock.close()
    assert not list(place.root.glob("_mopslock/s/*/beat")), "a session is removed by the process that made it"


# Breaking.


@pytest.mark.parametrize("protocol", ["strict", "lastwriter"])
def test_only_the_holder_that_was_seen_is_broken(place: Place, protocol: Literal["strict", "lastwriter"]) -> None:
    with mopslock.lease(place.store, "n", ttl=60, protocol=protocol):
        seen = mopslock.inspect(place.other().store, "n").holder
    with pytest.raises(mopslock.Vacant):
        mopslock.break_lease(place.other().store, "n", "it is stuck", holder=seen)
    with mopslock.lease(place.store, "n", ttl=60, protocol=protocol, raise_if_lost=False) as lease:
        with pytest.raises(mopslock.Held, match="not broken: held by") as caught:
            mopslock.break_lease(place.other().store, "n", "it is stuck", holder=seen)
        assert caught.value.seen is not None
        assert caught.value.seen.holder == lease.holder
        lease.check()
        broken = mopslock.break_lease(place.other().store, "n", "it is stuck", holder=lease.holder, now=True)
        assert broken.holder == lease.holder
        with mopslock.lease(place.other().store, "n", ttl=LIVES, wait=0, protocol=protocol):
            pass
    with pytest.raises(mopslock.Vacant):
        asyncio.run(aio.break_lease(place.store, "nobody", "why not"))
    bad: list[dict[str, Any]] = [{"holder": 7, "why": "it is stuck"}, {"why": ""}]
    for options in bad if protocol == "strict" else ():
        with pytest.raises(mopslock.BadArgument):
            mopslock.break_lease(place.store, "n", **options)


# Which protocol.


def test_auto_is_strict_unless_an_old_client_uses_the_name(auto: Place, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("new", "deploy/lock"):
        with mopslock.lease(auto.store, name, ttl=LIVES) as lease:
            assert (lease.protocol, lease.fencing_token) == ("strict", 1)
    with mopslock.lease(auto.store, "old", ttl=LIVES, protocol="lastwriter"):
        pass
    with mopslock.lease(auto.other().store, "old", ttl=LIVES) as lease:
        assert (lease.protocol, lease.fencing_token, lease.epoch, lease.session) == ("bridge", 1, 1, "")
        assert json.loads((auto.root / "old/lock.json").read_text())["writer_id"] == lease.holder
    assert mopslock.invoke(auto.store, "old", lambda _: b"work", ttl=LIVES).read() == b"work"
    assert "lock.json" not in caplog.text
    assert (auto.root / CARD).exists(), "by which a mount is known again"
    found = {status.name: status.protocol for status in mopslock.ls(auto.other().store)}
    assert found == {"deploy/lock": "strict", "new": "strict", "old": "strict"}
    assert [status.name for status in mopslock.ls(auto.store, "de")] == ["deploy/lock"]


class Partial(FakeStore):
    """A store that has all verbs but create."""

    create = None  # type: ignore[assignment]


class Unable(FakeStore):
    """A store that has create in name only."""

    def create(self, key: str, body: bytes) -> bool:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("store", "why"),
    [(Partial(), ""), (Unable(), ""), (FakeStore(careless=True), "4 of 4 creates at once were told yes")],
)
def test_a_store_without_create_falls_back_and_says_so_once(
    store: PlainStore, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is found out has it on its card. What else decides is in host/protocol_test.go."""
    caplog.set_level(logging.DEBUG, "mopslock")
    for _ in range(2):
        with mopslock.lease(store, "n") as lease:
            assert lease.protocol == "lastwriter"
    assert caplog.text.count("does not honour create-if-absent") == 1
    assert ("create of" in caplog.text) == isinstance(store, Unable), "nobody asks for a verb that there is not"
    assert (CARD in store.objects) == bool(why)
    if why:
        assert json.loads(store.objects[CARD])["create"] == "refused"
        assert f"(seen: {why})" in caplog.text
    with pytest.raises(mopslock.Incompatible):
        mopslock.acquire(store, "m", protocol="strict")
    with pytest.raises(mopslock.BadArgument, match="only strict has sessions"):
        mopslock.acquire(store, "m", session=True)


# Listing and creating, as the core asks for it.


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), unique=True), st.integers(1, 300))
def test_pages_of_a_list_are_all_of_it_once_and_in_order(keys: list[str], count: int) -> None:
    after, seen, more = "", list[str](), True
    while more:
        page, more = verbs.listed(keys, "", after, count)
        seen += [key for key, _ in page]
        after = seen[-1] if seen else ""
    assert seen == sorted(keys, key=str.encode)
    page, more = verbs.listed([f"{n:0>1000}" for n in range(300)], "", "", 256)
    assert more, "a page fits a message"
    assert 90 <= len(page) <= 93


# The guard.


def test_a_stale_writer_is_refused_and_updates_are_not_lost(url: str) -> None:
    def more(old: bytes | None) -> bytes:
        return b"%d" % (int(old or b"0") + 1)

    guarded = mopslock.Guarded(url, "counter")
    with mopslock.lease(url, "n") as old:
        assert guarded.read().body is None
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: guarded.update(old, more), range(20)))
        assert guarded.read().body == b"20"
        stale = (old.fencing_token, old.holder)
    with mopslock.lease(url, "n") as new:
        assert guarded.raise_token(new).body == b"20"
        with pytest.raises(mopslock.Stale) as caught:
            guarded.write(stale, b"late")
        assert (caught.value.token, caught.value.holder) == (new.fencing_token, new.holder)
        slot = guarded.write(new, b"")
        assert (slot.token, slot.holder, slot.body) == (new.fencing_token, new.holder, b"")
        with pytest.raises(mopslock.Vacant):
            mopslock.read_once(url, "result")
        first, won = mopslock.create_once(url, "result", new, b"42\0")
        again, won_again = mopslock.create_once(url, "result", new, b"41")
    assert (won, won_again, guarded.read().body) == (True, False, b"")
    assert first.body == again.body == mopslock.read_once(url, "result").body == b"42\0"


def test_what_a_guard_cannot_do(url: str) -> None:
    guarded = mopslock.Guarded(url, "counter")
    with mopslock.lease(url, "n", protocol="lastwriter") as lease, pytest.raises(mopslock.BadArgument, match="token 0"):
        guarded.write(lease, b"x")
    bad: tuple[Any, ...] = (None, 5, (1,), ("1", "x"), (-1, "x"))
    for tenure, body in (*((one, b"x") for one in bad), ((1, "x"), bytes(70_000))):
        with pytest.raises(mopslock.BadArgument):
            guarded.write(tenure, body)
    with pytest.raises(mopslock.BadArgument):
        mopslock.Guarded(stores.Memory(), "k")  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        guarded.update((1, "x"), lambda _: b"%d" % (1 // 0))
    assert guarded.read().number == 0


def test_a_store_without_list_is_not_listed() -> None:
    """Nor is it asked for anything on behalf of a claim that needs strict."""
    store = PlainStore()
    assert mopslock.inspect(store, "n").state == "vacant"
    with pytest.raises(mopslock.Vacant):
        mopslock.break_lease(store, "n", why="stuck")
    asked = store.log.copy()
    for refused in (
        lambda: mopslock.acquire(store, "n", protocol="strict"),
        lambda: mopslock.break_lease(store, "n", why="stuck", protocol="strict"),
        lambda: mopslock.acquire_permit(store, "n", capacity=1),
    ):
        with pytest.raises(mopslock.Incompatible):
            refused()
    assert store.log == asked == ["get", "get"]

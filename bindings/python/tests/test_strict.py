"""Protocol strict, and how the protocols are told from each other: both ways to a store behave alike."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock import aio, stores
from mopslock._own import clock, verbs
from mopslock._units import FOREVER, SECOND
from mopslock.terms import Terms
from ways import LIVES, NOTICES, SOON, WAYS, Place, kept_by, opened, until
from world import FakeStore, PlainStore, World, seconds

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
    """By the next renewal, which is one wait for all: a companion that joins, and each way to lose a lease."""
    there = place.other().store

    def acquire(name: str, **more: Any) -> mopslock.Lease:
        return mopslock.acquire(place.store, name, ttl=NOTICES, **more)

    joined, gone, broken = acquire("joined", label="third floor"), acquire("gone"), acquire("broken")
    one, two = acquire("one", session=True), acquire("two", session=True)
    old = acquire("old", protocol="lastwriter")
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
    with (
        mopslock.accompany(gone.text, store=there, raise_if_lost=False) as orphan,
        mopslock.accompany(joined.text, store=there) as companion,
    ):
        gone.release()
        assert (companion.fencing_token, companion.epoch, companion.protocol) == (1, 2, "strict")
        until(lambda: joined.epoch == 2)
        seen = mopslock.inspect(place.store, "joined")
        assert (len(seen.companions), seen.protocol, seen.epoch, seen.token) == (1, "strict", 2, 1)
        assert seen.clock == "local"
        assert 0 <= seen.left <= NOTICES  # 0 where nobody can say, as beside several owners
        for lease, error in (
            (orphan, mopslock.LeaseReleased), (broken, mopslock.LeaseBroken), (one, mopslock.LeaseBroken),
            (old, mopslock.LeaseReleased),
        ):  # fmt: skip
            assert lease.lost.wait(SOON)
            with pytest.raises(error) as caught:
                lease.check()
            if lease is broken:
                assert "it is stuck" in str(caught.value)
                assert caught.value.seen is not None
                assert caught.value.seen.why == "it is stuck"
    joined.check()
    two.check()
    assert joined.fencing_token == 1
    mopslock.close()
    assert not list(place.root.glob("_mopslock/s/*/beat")), "a session is removed by the process that made it"


# Breaking.


def test_a_break_now_frees_at_once(place: Place) -> None:
    lost = mopslock.acquire(place.store, "n", ttl=60)
    mopslock.break_lease(place.store, "n", "at once", now=True)
    with mopslock.lease(place.other().store, "n", ttl=LIVES, wait=0) as lease:
        assert lease.fencing_token > lost.fencing_token
    with pytest.raises(mopslock.LeaseLost):
        lost.release()
    lease = mopslock.acquire(place.store, "n", ttl=60)
    assert not lease.lost
    assert asyncio.run(aio.break_lease(place.store, "n", "from asyncio")).why == "from asyncio"
    with pytest.raises(mopslock.Vacant):
        mopslock.break_lease(place.store, "nobody", "why not")
    with pytest.raises(mopslock.BadArgument):
        mopslock.break_lease(place.store, "n", "")


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
        assert mopslock.break_lease(place.other().store, "n", "it is stuck", holder=lease.holder).holder == lease.holder
    with pytest.raises(mopslock.BadArgument):
        mopslock.break_lease(place.store, "n", "it is stuck", holder=7)  # type: ignore[arg-type]


# Sessions.


def test_a_hundred_leases_on_one_session_cost_one_heartbeat() -> None:
    """Until it is lost, which takes them along; the next claim stands on another."""
    world, terms = World(FakeStore()), Terms(protocol="strict", session=True)
    world.store.creates = True  # type: ignore[attr-defined]
    host, store = world.host(), world.store
    leases = [world.lease(host, "n0", terms)]  # who comes first looks again until the session is in force
    store.asked()
    leases += [world.lease(host, f"n{number}", terms) for number in range(1, 100)]
    assert {lease.session for lease in leases} == {leases[0].session} != {""}
    asked = [line.partition(" ") for line in store.lines]
    assert [sum(verb == one and key.startswith("n") for verb, _, key in asked) for one in ("list", "create")] == [
        99,
        99,
    ]
    store.asked()
    world.run(200)
    assert {line.split("/")[0] for line in store.lines} == {"put _mopslock", "exists _mopslock"}
    assert len(store.asked()) < 30
    assert [lease.failure() for lease in leases] == [None] * 100
    world.result(leases.pop().finish())
    assert store.log.count("create") == 1
    store.fail(OSError("no"))
    world.run(120)
    assert all(lease.over.done() for lease in leases), "who does not ask is told"
    assert {type(lease.failure()) for lease in leases} == {mopslock.LeaseUnreachable}
    store.mend()
    assert world.lease(host, "other", terms).session not in ("", leases[0].session)


# Which protocol.


def test_auto_is_strict_unless_an_old_client_uses_the_name(auto: Place, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("new", "deploy/lock"):
        with mopslock.lease(auto.store, name, ttl=LIVES) as lease:
            assert (lease.protocol, lease.fencing_token) == ("strict", 1)
    with mopslock.lease(auto.store, "old", ttl=LIVES, protocol="lastwriter"):
        pass
    assert "lock.json" not in caplog.text
    with mopslock.lease(auto.other().store, "old", ttl=LIVES) as lease:
        assert (lease.protocol, lease.fencing_token, lease.epoch, lease.session) == ("lastwriter", 0, 0, "")
    assert caplog.text.count('lease "old" is kept by lastwriter, without a fencing token, since the name has') == 1
    caplog.clear()
    assert mopslock.invoke(auto.store, "old", lambda _: b"work", ttl=LIVES).read() == b"work"
    assert caplog.text.count('lease "old" is kept by lastwriter') == 1
    assert (auto.root / CARD).exists(), "by which a mount is known again"
    found = {status.name: status.protocol for status in mopslock.ls(auto.other().store)}
    assert found == {"deploy/lock": "strict", "new": "strict", "old": "lastwriter"}
    assert [status.name for status in mopslock.ls(auto.store, "de")] == ["deploy/lock"]


class Unable(FakeStore):
    """A store that has create in name only."""

    def create(self, key: str, body: bytes) -> bool:
        raise NotImplementedError


class Racy(FakeStore):
    """A store that looks and then writes its card, when the others have looked too."""

    looked = threading.Barrier(4)

    def create(self, key: str, body: bytes) -> bool:
        if key != CARD or key in self.objects:
            return super().create(key, body)
        self.looked.wait(SOON)
        self.careless = True
        return super().create(key, body)


@pytest.mark.parametrize(
    ("store", "why"),
    [
        (PlainStore(), ""),
        (Unable(), ""),
        (FakeStore(careless=True), "4 of 4 creates at once were told yes"),
        (Racy(), "4 of 4 creates at once were told yes"),
    ],
)
def test_a_store_without_create_falls_back_and_says_so_once(
    store: PlainStore, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is found out has it on its card."""
    for _ in range(2):
        with mopslock.lease(store, "n") as lease:
            assert lease.protocol == "lastwriter"
    assert caplog.text.count("does not honour create-if-absent") == 1
    assert (CARD in store.objects) == bool(why)
    if why:
        _refused(store, why)
        assert f"(seen: {why})" in caplog.text
        assert [line.partition(" ")[0] for line in store.lines if line.endswith(CARD)] == [
            "get",
            *["create"] * 4,
            "put",
        ]
    with pytest.raises(mopslock.Incompatible):
        mopslock.acquire(store, "m", protocol="strict")
    with pytest.raises(mopslock.BadArgument, match="only strict has sessions"):
        mopslock.acquire(store, "m", session=True)


def _refused(store: PlainStore, why: str) -> None:
    card = json.loads(store.objects[CARD])
    assert (card["v"], card["create"], card["why"]) == (1, "refused", why)
    assert uuid.UUID(card["nonce"]).version == 4
    assert datetime.fromisoformat(card["at"].replace("Z", "+00:00")) <= datetime.now(timezone.utc)


@pytest.mark.parametrize(
    ("card", "kept"),
    [
        (b"", "strict"), (b"x", "strict"), (b'{"create":"refused"}', "strict"), (b"[" * 60_000, "strict"),
        (b'{"v":1,"create":"honoured"}', "strict"),
        (b'{"v":1,"create":"honoured","ext":{"create":"refused"}}', "strict"),
        (b'{"v":2,"create":"refused","why":"16 of 16\\u001b writers","at":"today"}', "lastwriter"),
    ],
)  # fmt: skip
def test_a_card_that_refuses_counts_whichever_program_wrote_it(
    card: bytes, kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One that does not proves nothing, since a bucket can have been copied."""
    store, careless = FakeStore(), FakeStore(careless=True)
    store.objects[CARD] = careless.objects[CARD] = card
    with mopslock.lease(store, "n", ttl=LIVES) as lease:
        assert lease.protocol == kept
    words = [line.partition(" ")[0] for line in store.lines if line.endswith(CARD)]
    assert words == ["get", "create"][: 1 + (kept == "strict")]
    with pytest.raises(mopslock.Incompatible):
        mopslock.acquire(careless, "n", protocol="strict")
    if kept == "strict":
        _refused(careless, "an object that was there could be created")
    else:
        assert "16 of 16" in caplog.text
        assert "\x1b" not in caplog.text


class Told(FakeStore):
    """A store whose creates of its card are told something else than what became of them."""

    def __init__(self, *told: Any) -> None:
        super().__init__()
        self.told = list(told)
        self.telling = threading.Lock()

    def create(self, key: str, body: bytes) -> bool:
        with self.telling:
            made = super().create(key, body)
            told = self.told.pop(0) if self.told and key == CARD else None
            if isinstance(told, Exception):
                raise told
            return made if told is None else bool(told)


RESET = ConnectionResetError("reset")


@pytest.mark.parametrize(
    ("told", "asked", "protocol"),
    [
        ((), "get create create create create get", "strict"),
        ((False,), "get create create create create get", "strict"),  # sent twice on its way
        ((RESET,), "get create create create create get", "strict"),
        ((None, RESET, RESET, RESET), "get create create create create get create", "strict"),
        ((RESET,) * 4, "get create create create create get create", "strict"),
        ((RESET, True), "get create create create create get", "lastwriter"),  # and another one lies there
    ],
)
def test_what_decides_is_what_was_told_and_what_lies_there(told: Any, asked: str, protocol: str) -> None:
    store = Told(*told)
    with mopslock.lease(store, "n", ttl=LIVES) as lease:
        assert lease.protocol == protocol
    words = [line.partition(" ")[0] for line in store.lines if line.endswith(CARD)]
    assert " ".join(words) == asked + " put" * (protocol != "strict")


def test_a_caller_behind_anothers_trial_waits_no_longer_than_it_may() -> None:
    world, terms = World(FakeStore()), Terms(protocol="strict")
    host = world.host()

    def outage(_: str, key: str) -> None:
        if key == CARD:
            raise ConnectionError

    # The store has been read, so that waiters carry on.
    world.result(host.begin_acquire("other", Terms(protocol="lastwriter"), 0, None))
    world.store.fault = outage
    trial = host.begin_acquire("first", terms, FOREVER, None)
    world.run(1)
    for wait, ends in ((0, 4), (2, 2), (30, 30)):
        begun = world.clock.now
        error = world.error(host.begin_acquire(f"n{wait}", terms, wait * SECOND, None))
        assert isinstance(error, (mopslock.Unreachable, mopslock.WaitOver))
        assert seconds(world.clock.now - begun) == pytest.approx(ends, abs=0.1)
    world.store.mend()
    assert world.result(trial).protocol == "strict"


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


def test_a_directory_has_one_winner(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: store.create(f"d{n // 8}/k", b"%d" % n), range(400)))
    assert sum(won) == 50
    assert store.list("d7/") == [("d7/k", (tmp_path / "d7" / "k").stat().st_mtime_ns)]
    for _ in range(2):
        store.delete("d7/k")
    assert not list(tmp_path.rglob(".mopslock-tmp-*"))


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

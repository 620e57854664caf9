"""Protocol strict, and how the protocols are told from each other: both ways to a store behave alike.

Nothing here waits for longer than a renewal of a short TTL.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock import _clock, _resolve, _verbs, stores
from mopslock._duration import FOREVER, SECOND
from ways import LIVES, NOTICES, SOON, WAYS, Failing, Place, kept_by, opened, until

PROTOCOLS_OPEN = True


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store", "strict") as place:
        yield place


@pytest.fixture
def auto(place: Place) -> Iterator[Place]:
    with kept_by("auto"):
        yield place


class Counting(stores.Memory):
    """A store that counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.counting = threading.Lock()

    def _count(self, verb: str, key: str) -> None:
        with self.counting:
            self.asked[f"{verb} {'session' if key.startswith('_mopslock/s/') else 'name'}"] += 1

    def get(self, key: str) -> stores.Blob | None:
        self._count("get", key)
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        self._count("put", key)
        super().put(key, body)

    def create(self, key: str, body: bytes) -> bool:
        self._count("create", key)
        return super().create(key, body)

    def exists(self, key: str) -> bool:
        self._count("exists", key)
        return super().exists(key)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        self._count("list", prefix)
        return super().list(prefix)


# Tokens, and who is let in.


def test_tokens_grow_from_tenure_to_tenure_whoever_claims(place: Place) -> None:
    tokens = []
    for store in (place.store, place.other().store, place.store, place.store, place.other().store):
        with mopslock.lease(store, "n", ttl=LIVES) as lease:
            assert lease.protocol == "strict"
            assert lease.epoch == lease.fencing_token
            tokens.append(lease.fencing_token)
            with pytest.raises(mopslock.Held):
                mopslock.acquire(place.other().store, "n", ttl=LIVES, wait=0)
    assert tokens == sorted(set(tokens))
    assert tokens[0] == 1


def test_both_ways_judge_each_other_by_one_boot(place: Place) -> None:
    with mopslock.lease(place.store, "n"):
        boot = place.record("n")["boot"]
    assert boot == _clock.this_boot() != ""


def test_a_companion_joins_and_the_holder_adopts(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=NOTICES, label="third floor") as lease:
        handle = json.loads(lease.text)
        assert (handle["protocol"], handle["epoch"], handle["token"]) == ("strict", 1, 1)
        assert mopslock.inspect(place.store, "n").label == "third floor"
        other = place.other()
        with mopslock.accompany(lease.text, store=other.store) as companion:
            assert (companion.fencing_token, companion.epoch, companion.protocol) == (1, 2, "strict")
            until(lambda: lease.epoch == 2)
            lease.check()
            seen = mopslock.inspect(place.store, "n")
            assert len(seen.companions) == 1
            assert (seen.protocol, seen.epoch, seen.token, seen.clock) == ("strict", 2, 1, "local")
            assert 0 <= seen.left <= NOTICES  # 0 where nobody can say, as beside several owners
        lease.check()
        assert lease.fencing_token == 1


def test_a_companion_keeps_the_lease_when_its_holder_is_gone(place: Place) -> None:
    mine = mopslock.acquire(place.store, "n", ttl=NOTICES)
    with mopslock.accompany(mine.text, store=place.other().store, raise_if_lost=False) as companion:
        mine.release()
        assert companion.lost.wait(SOON)
        with pytest.raises(mopslock.LeaseReleased):
            companion.check()


def test_a_lease_without_a_ttl_is_held_until_it_is_released(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=0) as lease:
        assert (lease.left, lease.ttl, lease.deadline.year) == (float("inf"), 0.0, 9999)
        assert json.loads(lease.text)["ttl_s"] == 0
        assert place.record("n")["ttl_s"] == 0
        assert mopslock.inspect(place.store, "n").ttl == 0.0
    assert place.released("n")
    with pytest.raises(mopslock.BadArgument):
        mopslock.acquire(place.store, "n", ttl=0, session=True)
    with pytest.raises(mopslock.BadArgument):
        mopslock.acquire(place.store, "n", ttl=0, protocol="lastwriter")


# Breaking.


def test_who_is_broken_is_told_why(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=NOTICES, raise_if_lost=False) as lease:
        status = mopslock.break_lease(place.other().store, "n", "it is stuck")
        assert (status.state, status.why, status.epoch, status.token) == ("broken", "it is stuck", 2, 1)
        assert "@" in status.by
        assert lease.lost.wait(SOON)
        with pytest.raises(mopslock.LeaseBroken, match="it is stuck") as caught:
            lease.check()
        assert caught.value.seen is not None
        assert caught.value.seen.why == "it is stuck"
    with pytest.raises(mopslock.Vacant):
        mopslock.break_lease(place.store, "nobody", "why not")
    with pytest.raises(mopslock.BadArgument):
        mopslock.break_lease(place.store, "n", "")


def test_a_break_now_frees_at_once(place: Place) -> None:
    lost = mopslock.acquire(place.store, "n", ttl=60)
    mopslock.break_lease(place.store, "n", "at once", now=True)
    with mopslock.lease(place.other().store, "n", ttl=LIVES, wait=0) as lease:
        assert lease.fencing_token > lost.fencing_token
    with pytest.raises(mopslock.LeaseLost):
        lost.release()


def test_a_record_of_lastwriter_is_broken_by_a_release(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=NOTICES, protocol="lastwriter", raise_if_lost=False) as lease:
        assert mopslock.break_lease(place.other().store, "n", "").state == "released"
        assert lease.lost.wait(SOON)
        with pytest.raises(mopslock.LeaseReleased):
            lease.check()


def test_breaking_from_asyncio(place: Place) -> None:
    async def main() -> None:
        async with mopslock.aio.lease(place.store, "n", ttl=NOTICES, raise_if_lost=False, session=True) as lease:
            assert lease.fencing_token == 1
            await mopslock.aio.break_lease(place.store, "n", "it is stuck")
            assert await lease.lost.wait(SOON)

    import mopslock.aio  # noqa: PLC0415

    asyncio.run(main())


# Sessions.


def test_leases_on_a_session_stand_on_one_id(place: Place) -> None:
    with (
        mopslock.lease(place.store, "a", ttl=LIVES, session=True) as one,
        mopslock.lease(place.store, "b", ttl=LIVES, session=True) as two,
        mopslock.lease(place.store, "c", ttl=LIVES) as alone,
    ):
        assert one.session == two.session != ""
        assert alone.session == ""
        assert mopslock.inspect(place.store, "a").session == one.session
        assert one.left > 0
    mopslock.close()
    assert not list(place.root.glob("_mopslock/s/*/beat")), "who made a session removes it"


def test_a_session_that_is_broken_in_one_name_holds_the_others(place: Place) -> None:
    with (
        mopslock.lease(place.store, "a", ttl=NOTICES, session=True, raise_if_lost=False) as one,
        mopslock.lease(place.store, "b", ttl=NOTICES, session=True) as two,
    ):
        mopslock.break_lease(place.other().store, "a", "it is stuck")
        assert one.lost.wait(SOON)
        with pytest.raises(mopslock.LeaseBroken):
            one.check()
        two.check()


def test_a_thousand_leases_on_one_session_cost_one_heartbeat() -> None:
    store = Counting()

    def acquire(number: int) -> mopslock.Lease:
        return mopslock.acquire(store, f"n{number}", protocol="strict", session=True, ttl=5)

    leases = [acquire(0)]  # who comes first looks again until the session is in force
    assert store.asked["create name"] == 5, "his, and a race for the store's card"
    store.asked.clear()
    with ThreadPoolExecutor(16) as pool:
        leases += pool.map(acquire, range(1, 1000))
    assert len({lease.session for lease in leases}) == 1
    assert (store.asked["list name"], store.asked["create name"]) == (999, 999), "one each"
    store.asked.clear()
    until(lambda: store.asked["put session"] >= 3)
    for lease in leases:
        lease.check()
    asked = dict(store.asked)
    assert set(asked) <= {"put session", "exists session"}, asked
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda lease: lease.release(), leases))
    assert store.asked["create name"] == 1000


def test_a_lease_that_is_only_held_takes_few_objects(place: Place) -> None:
    def acquire(number: int) -> mopslock.Lease:
        return mopslock.acquire(place.store, f"n{number}", ttl=60, session=True)

    def living() -> int:
        gc.collect()
        return len(gc.get_objects())

    leases = [acquire(number) for number in range(10)]  # and all that the first ones make
    before = living()
    leases += [acquire(number) for number in range(10, 210)]
    assert living() - before < 200 * 16, "nothing is left of how they came to be held"
    for lease in leases:
        lease.check()


def test_a_session_that_is_lost_takes_its_leases_along(tmp_path: Path) -> None:
    store = Failing(tmp_path)
    lease = mopslock.acquire(store, "n", protocol="strict", session=True, ttl=NOTICES)
    first = lease.session
    store.on_put = OSError("no")
    assert lease.lost.wait(SOON)
    with pytest.raises(mopslock.LeaseUnreachable):
        lease.check()
    store.on_put = None
    with mopslock.lease(store, "other", protocol="strict", session=True, ttl=NOTICES) as again:
        assert again.session not in ("", first)


# Which protocol.


def test_auto_is_strict_unless_an_old_client_uses_the_name(auto: Place) -> None:
    with mopslock.lease(auto.store, "new", ttl=LIVES) as lease:
        assert lease.protocol == "strict"
    with mopslock.lease(auto.store, "memo/lock", ttl=LIVES) as lease:
        assert (lease.protocol, lease.fencing_token, lease.epoch, lease.session) == ("lastwriter", 0, 0, "")
    with mopslock.lease(auto.store, "old", ttl=LIVES, protocol="lastwriter"):
        pass
    with mopslock.lease(auto.other().store, "old", ttl=LIVES) as lease:
        assert lease.protocol == "lastwriter"
    assert (auto.root / "_mopslock" / "store.json").exists()


def test_ls_shows_both_protocols(auto: Place) -> None:
    with (
        mopslock.lease(auto.store, "a/new", ttl=LIVES),
        mopslock.lease(auto.store, "a/old", ttl=LIVES, protocol="lastwriter"),
        mopslock.lease(auto.store, "b", ttl=LIVES, session=True),
    ):
        found = {status.name: status.protocol for status in mopslock.ls(auto.other().store)}
        assert found == {"a/new": "strict", "a/old": "lastwriter", "b": "strict"}
        assert [status.name for status in mopslock.ls(auto.store, "a/")] == ["a/new", "a/old"]


class Plain:
    """A store with three verbs."""

    def __init__(self) -> None:
        self.memory = stores.Memory()

    def get(self, key: str) -> stores.Blob | None:
        return self.memory.get(key)

    def put(self, key: str, body: bytes) -> None:
        self.memory.put(key, body)

    def exists(self, key: str) -> bool:
        return self.memory.exists(key)


class Careless(stores.Memory):
    """A store whose create is a put."""

    def create(self, key: str, body: bytes) -> bool:
        self.put(key, body)
        return True


class Unable(stores.Memory):
    """A store that has create in name only."""

    def create(self, key: str, body: bytes) -> bool:
        raise NotImplementedError


@pytest.mark.parametrize("kind", [Plain, Careless, Unable])
def test_a_store_without_create_falls_back_and_says_so_once(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    store = kind()
    for _ in range(2):
        with mopslock.lease(store, "n") as lease:
            assert lease.protocol == "lastwriter"
    assert caplog.text.count("does not honour create-if-absent") == 1
    if kind is Careless:
        assert _card(store)["why"] == "4 of 4 creates at once were told yes"
        assert "(seen: 4 of 4 creates at once were told yes)" in caplog.text
    else:
        assert not store.exists("_mopslock/store.json")
    with pytest.raises(mopslock.Unfit):
        mopslock.acquire(store, "m", protocol="strict")
    with pytest.raises(mopslock.BadArgument, match="only strict has sessions"):
        mopslock.acquire(store, "m", session=True)


def _card(store: Any) -> dict[str, Any]:
    body, _ = store.get("_mopslock/store.json")
    found: dict[str, Any] = json.loads(body)
    assert (found["v"], found["create"]) == (1, "refused")
    assert uuid.UUID(found["nonce"]).version == 4
    assert datetime.fromisoformat(found["at"].replace("Z", "+00:00")) <= datetime.now(timezone.utc)
    return found


class Racy(Counting):
    """A store that looks and then writes, when the others have looked too."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = threading.Barrier(4)

    def create(self, key: str, body: bytes) -> bool:
        self._count("create", key)
        if super(Counting, self).exists(key):
            return False
        if key == "_mopslock/store.json":
            self.looked.wait(SOON)
        super(Counting, self).put(key, body)
        return True


def test_a_store_that_looks_and_then_writes_is_found_out_at_once() -> None:
    store = Racy()
    with pytest.raises(mopslock.Unfit):
        mopslock.acquire(store, "n", protocol="strict")
    assert dict(store.asked) == {"exists name": 1, "get name": 1, "create name": 4, "put name": 1}
    assert _card(store)["why"] == "4 of 4 creates at once were told yes"


def test_a_refusal_stands_whoever_left_it(caplog: pytest.LogCaptureFixture) -> None:
    store = Counting()
    refusal = {"v": 2, "create": "refused", "why": "16 of 16\x1b writers", "at": "today"}
    stores.Memory.put(store, "_mopslock/store.json", json.dumps(refusal).encode())
    with pytest.raises(mopslock.Unfit):
        mopslock.acquire(store, "n", protocol="strict")
    assert dict(store.asked) == {"exists name": 1, "get name": 1}
    with mopslock.lease(store, "n", ttl=LIVES) as lease:
        assert lease.protocol == "lastwriter"
    assert "\x1b" not in caplog.text
    assert "writers" in caplog.text


@pytest.mark.parametrize(
    "card", [b"", b"x", b"[]", b'{"create":"refused"}', b'{"v":1,"create":"honoured"}', b"[" * 60_000]
)
def test_a_card_that_does_not_refuse_proves_nothing(card: bytes) -> None:
    store = Counting()
    stores.Memory.put(store, "_mopslock/store.json", card)
    with mopslock.lease(store, "n", ttl=LIVES) as lease:
        assert lease.protocol == "strict"
    assert store.asked["get name"] == 1
    careless = Careless()
    careless.put("_mopslock/store.json", card)
    with pytest.raises(mopslock.Unfit):
        mopslock.acquire(careless, "n", protocol="strict")
    assert _card(careless)["why"] == "an object that was there could be created"


class Told(stores.Memory):
    """A store whose creates of its card are told something else than what became of them."""

    def __init__(self, *told: Any) -> None:
        super().__init__()
        self.told = list(told)
        self.asked: list[str] = []
        self.telling = threading.Lock()

    def get(self, key: str) -> stores.Blob | None:
        self.asked += ["get"] * (key == "_mopslock/store.json")
        return super().get(key)

    def create(self, key: str, body: bytes) -> bool:
        with self.telling:
            made = super().create(key, body)
            if key != "_mopslock/store.json":
                return made
            self.asked.append("create")
            told = self.told.pop(0) if self.told else None
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
        ((RESET,) * 4, "get create create create create create create create create get", "strict"),
        ((RESET, True), "get create create create create get", "lastwriter"),  # and another one lies there
    ],
)
def test_what_decides_is_what_was_told_and_what_lies_there(told: Any, asked: str, protocol: str) -> None:
    store = Told(*told)
    with mopslock.lease(store, "n", ttl=LIVES) as lease:
        assert lease.protocol == protocol
    assert " ".join(store.asked) == asked


def _resolver(able: _resolve.Abilities, wait: int) -> tuple[_resolve.Resolver, list[_verbs.Action]]:
    """One for strict whose name has no lock.json, and what it does next."""

    def make(way: _resolve.Way) -> Any:
        raise AssertionError(way)

    resolver = _resolve.Resolver("n", "strict", able, make, known=dict, cause=lambda: None)
    now = {"mono": 0, "wall": 0}
    (asked,) = resolver.step({"kind": "acquire", "wait_ns": wait, **now})
    return resolver, resolver.step({"kind": "answer", "request": asked["request"], "outcome": "no", **now})


@pytest.mark.parametrize(("wait", "ends"), [(0, 5), (2 * SECOND, 2), (30 * SECOND, 30), (FOREVER, None)])
def test_who_stands_behind_anothers_trial_waits_no_longer_than_he_may(wait: int, ends: int | None) -> None:
    able = _resolve.Abilities()
    trial, _ = _resolver(able, FOREVER)  # in an outage: its card is never answered
    waits, actions = _resolver(able, wait)
    for second in range(60):
        assert [action["kind"] for action in actions] == ["wake"]
        actions = waits.step({"kind": "woke", "mono": second * SECOND, "wall": 0})
        if waits.idle:
            assert (second, actions) == (ends, [{"kind": "refused", "reason": "unreachable", "class": "unreachable"}])
            break
    else:
        assert ends is None
    assert able.trying == [trial]


def test_protocols_that_are_none() -> None:
    for bad in ("riak", "", None):
        with pytest.raises(mopslock.BadArgument, match="protocol"):
            mopslock.lease(stores.Memory(), "n", protocol=bad)  # type: ignore[arg-type]


# Listing and creating, as the core asks for it.


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), unique=True), st.integers(1, 300))
def test_pages_of_a_list_are_all_of_it_once_and_in_order(keys: list[str], count: int) -> None:
    after, seen, more = "", list[str](), True
    while more:
        page, more = _verbs.listed(keys, "", after, count)
        seen += [key for key, _ in page]
        after = seen[-1] if seen else ""
    assert seen == sorted(keys, key=str.encode)


def test_a_page_fits_a_message() -> None:
    page, more = _verbs.listed([f"{n:0>1000}" for n in range(300)], "", "", 256)
    assert more
    assert 90 <= len(page) <= 93


@pytest.mark.parametrize("word", [None, 1, "yes", []])
def test_a_verb_that_says_neither_yes_nor_no_has_said_nothing(word: Any) -> None:
    class Odd(stores.Memory):
        def create(self, key: str, body: bytes) -> bool:
            return word  # type: ignore[no-any-return]

    answer = _verbs.perform(Odd(), {"kind": "create", "request": 1, "key": "k", "body": b""})
    assert answer["outcome"] == "unknown"


def test_a_directory_has_one_winner(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: store.create(f"d{n // 8}/k", b"%d" % n), range(400)))
    assert sum(won) == 50
    assert store.list("d7/") == [("d7/k", (tmp_path / "d7" / "k").stat().st_mtime_ns)]
    store.delete("d7/k")
    store.delete("d7/k")
    assert not list(tmp_path.rglob(".mopslock-tmp-*"))


# The guard.


@pytest.fixture
def guarded(url: str) -> mopslock.Guarded:
    return mopslock.Guarded(url, "counter")


def test_a_stale_writer_is_refused_and_updates_are_not_lost(url: str, guarded: mopslock.Guarded) -> None:
    def more(old: bytes | None) -> bytes:
        return b"%d" % (int(old or b"0") + 1)

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
    assert guarded.read().body == b""


def test_a_result_is_made_once(url: str) -> None:
    with pytest.raises(mopslock.Vacant):
        mopslock.read_once(url, "result")
    with mopslock.lease(url, "n") as lease:
        first, won = mopslock.create_once(url, "result", lease, b"42\0")
        again, won_again = mopslock.create_once(url, "result", lease, b"41")
    assert (won, won_again) == (True, False)
    assert first.body == again.body == mopslock.read_once(url, "result").body == b"42\0"


def test_what_a_guard_cannot_do(url: str, guarded: mopslock.Guarded) -> None:
    with mopslock.lease(url, "n", protocol="lastwriter") as lease, pytest.raises(mopslock.BadArgument, match="token 0"):
        guarded.write(lease, b"x")
    for tenure in (None, 5, (1,), ("1", "x"), (-1, "x")):
        with pytest.raises(mopslock.BadArgument):
            guarded.write(tenure, b"x")  # type: ignore[arg-type]
    with pytest.raises(mopslock.BadArgument):
        mopslock.Guarded(stores.Memory(), "k")  # type: ignore[arg-type]
    with pytest.raises(mopslock.BadArgument):
        guarded.write((1, "x"), bytes(70_000))
    with pytest.raises(ZeroDivisionError):
        guarded.update((1, "x"), lambda _: b"%d" % (1 // 0))
    assert guarded.read().number == 0

"""What a held lease tells, how it ends, and how it is waited for: both ways to a store behave alike."""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock._held import logged
from mopslock.status import Status
from ways import LIVES, SOON, Place, thread, until, waiting
from world import FakeStore

TENTH = timedelta(seconds=0.1)


def test_a_lease_says_what_its_record_says(place: Place) -> None:
    before = datetime.now(timezone.utc)
    with mopslock.acquire(place.store, "a/b", ttl=LIVES, protocol="lastwriter") as lease:
        record = Place.of(place.way, place.root).record("a/b")
        assert (lease.name, lease.holder, lease.ttl) == ("a/b", record["writer_id"], record["expire_s"])
        assert lease.acquired == datetime.fromisoformat(record["first_acquired_at"])
        assert before <= lease.acquired <= datetime.now(timezone.utc)
        assert (lease.protocol, lease.epoch, lease.fencing_token) == ("lastwriter", 0, 0)
        assert 0 < lease.left <= 0.9 * LIVES
        least = datetime.now(timezone.utc) + timedelta(seconds=lease.left)
        deadline = lease.deadline
        most = timedelta(seconds=lease.left) + datetime.now(timezone.utc)
        assert least - TENTH <= deadline <= most + TENTH
        where = place.store if place.way == "url" else repr(place.store)
        assert lease.text == (
            f'{{"name":"a/b","store":"{where}","protocol":"lastwriter","holder":"{lease.holder}","epoch":0,"token":0,'
            f'"ttl_s":30,"first_acquired_at":"{lease.acquired.isoformat(timespec="microseconds")}"}}'
        )
    assert lease.left <= 0


def test_what_is_held_shows_what_it_is(either: Place) -> None:
    api, home = either.api, either.api.__name__
    with api.lease(either.store, "n", ttl=LIVES) as lease:
        assert re.fullmatch(rf"<{home}\.Lease 'n' held, [0-9.]+s left>", repr(lease))
        with api.accompany(lease.text, store=either.store) as companion:
            assert re.fullmatch(rf"<{home}\.Companion 'n' held, [0-9.]+s left>", repr(companion))
    assert repr(lease) == f"<{home}.Lease 'n' LeaseEnded>"
    with api.permit(either.store, "p", capacity=4, weight=3, ttl=LIVES) as permit:
        assert re.fullmatch(rf"<{home}\.Permit 'p' 3 of 4 held, [0-9.]+s left>", repr(permit))
    with api.lease(either.store, "m", ttl=0, protocol="strict") as lease:
        assert repr(lease) == f"<{home}.Lease 'm' held>"
    assert api.invoke(either.store, "w", lambda work: repr(work).encode()).read() == f"<{home}.Work 'w'>".encode()


def test_a_loss_is_told_to_all_waiters_and_once_to_each_callback(place: Place, caplog: Any) -> None:
    """Whatever a callback raises, which is logged, or calls."""
    calls: list[tuple[str, Any]] = []
    late = threading.Event()

    def tell(who: str) -> Any:
        return lambda error: calls.append((who, error))

    def again(_: object) -> None:
        with mopslock.lease(place.store, "other", ttl=LIVES) as lease:
            lease.check()
        mopslock.inspect(place.store, "n")
        late.set()

    lease = mopslock.acquire(place.store, "n", ttl=LIVES, on_lost=tell("first"))
    assert not lease.lost
    assert not lease.lost.wait(0.001)
    with ThreadPoolExecutor(5) as pool:
        woken = [pool.submit(lease.lost.wait, SOON) for _ in range(5)]
        place.lose(lease)
        assert all(one.result() for one in woken)
    assert lease.lost.is_set()
    assert lease.lost.wait(0)
    lease.on_lost(lambda _: 1 / 0)
    lease.on_lost(tell("late"))
    lease.on_lost(again)
    assert late.wait(SOON)
    assert "a callback failed" in caplog.text
    assert [who for who, _ in calls] == ["first", "late"]
    assert all(isinstance(error, mopslock.LeaseTaken) and error.reason == "taken" for _, error in calls)
    errors = []
    for call in (lease.check, lease.check, lease.release):
        with pytest.raises(mopslock.LeaseTaken) as caught:
            call()
        errors.append(caught.value)
    assert len(set(map(id, errors))) == 3, "a traceback belongs to one caller"


def test_a_release_sets_lost_and_is_no_loss(place: Place) -> None:
    calls: list[Any] = []
    after, woken = threading.Event(), []
    lease = mopslock.acquire(place.store, "n", ttl=LIVES, on_lost=calls.append)
    with thread(lambda: woken.append(lease.lost.wait(SOON))):
        lease.release()
    assert woken == [True]
    lease.on_lost(calls.append)
    place.lose(mopslock.acquire(place.store, "other", ttl=LIVES, on_lost=lambda _: after.set()))
    assert after.wait(SOON)  # on the one thread of all callbacks, so the others would have been told
    assert calls == []


def test_threads_that_release_at_once_are_all_told_when_it_is_over_and_later_ones_write_nothing(place: Place) -> None:
    lease = mopslock.acquire(place.store, "n", ttl=LIVES)

    def release() -> bool:
        lease.release()
        return place.released("n")

    with ThreadPoolExecutor(8) as pool:
        assert [one.result(SOON) for one in [pool.submit(release) for _ in range(8)]] == [True] * 8
    written = place.record("n")
    lease.release(timeout=0)  # which would say so if there was anything to wait for
    assert place.record("n") == written


def test_a_bad_timeout_of_release_does_nothing(either: Place) -> None:
    bad: list[Any] = [-1, "1", float("nan")]
    with either.api.acquire(either.store, "n", ttl=LIVES) as lease:
        for timeout in bad:
            with pytest.raises(mopslock.BadArgument):
                lease.release(timeout=timeout)
        lease.check()


def test_a_release_that_takes_too_long_says_so_and_goes_on(either: Place, caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    options: Any = {"ttl": LIVES, "protocol": "lastwriter"}
    with either.api.lease(store, "with", **options, release_timeout=0.001):
        lease = either.api.acquire(store, "n", **options)
        over = store.silence()
        with pytest.raises(mopslock.NotReleased, match="not released in time") as caught:
            lease.release(timeout=0.001)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(mopslock.LeaseEnded):
        lease.check()
    assert 'lease "with" was not released in time' in caplog.text
    assert store.holder("n")
    over.set()
    lease.release()
    until(lambda: store.holder("n") is store.holder("with") is None)


def test_trying_says_none_or_names_the_holder(either: Place) -> None:
    with either.api.acquire(either.other().store, "n", ttl=LIVES) as held:
        assert either.api.try_acquire(either.store, "n", ttl=LIVES) is None
        with pytest.raises(mopslock.Held) as caught:
            either.api.acquire(either.store, "n", ttl=LIVES, wait=0)
        assert caught.value.reason == "held"
        assert caught.value.seen is not None
        assert (caught.value.seen.state, caught.value.seen.holder) == ("held", held.holder)
        assert str(caught.value).startswith(f'mopslock: lease "n" not acquired: held by {held.holder} ')
    lease = either.api.try_acquire(either.store, "n", ttl=LIVES)
    assert lease is not None
    lease.release()
    with pytest.raises(mopslock.BadArgument):
        either.api.try_acquire(either.store, "n", ttl=0.001)
    with pytest.raises(TypeError):
        either.api.try_acquire(either.store, "n", wait=5)


def test_texts_of_others_are_escaped(url: str) -> None:
    place = Place("url", Path(url.removeprefix("file://")), url)
    place.write("n", writer_id="\x1b[31mred", hostname="ev\nil")
    with pytest.raises(mopslock.Held) as caught:
        mopslock.acquire(url, "n", ttl=60, wait=0)
    assert str(caught.value).isprintable()
    assert caught.value.seen is not None
    assert caught.value.seen.holder == "\x1b[31mred"


def test_a_waiter_is_told_for_whom_and_comes_next(either: Place) -> None:
    held = mopslock.acquire(either.other().store, "n", ttl=LIVES, protocol=either.protocol)
    with waiting(either.api.acquire, either.store, "n", ttl=LIVES) as (waits, seen):
        assert (seen.name, seen.holder, seen.state) == ("n", held.holder, "held")
        held.release()
        lease = waits.result(SOON)
    lease.check()
    assert (either.holder("n"), either.released("n")) == (lease.holder, False)
    lease.release()


def test_what_is_forgotten_is_given_back_and_logged(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """As a permit of a Limiter is. Work ends with its call, and a lease that has ended is not told of."""
    mopslock.acquire(place.store, "n", ttl=LIVES)
    until(lambda: place.freed("n"))
    assert [record.mopslock_event for record in caplog.records] == ["lease_vanished"]  # type: ignore[attr-defined]
    assert 'lease "n" has vanished without a release, and is given back' in caplog.text
    mopslock.acquire(place.store, "m", ttl=LIVES).release()
    with mopslock.acquire(place.store, "n", ttl=LIVES):
        pass
    mopslock.invoke(place.store, "w", lambda work: work.name.encode(), ttl=LIVES)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("ask", ["lease", "invoke", "permit"])
def test_a_waiter_logs_its_holder_once(either: Place, ask: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mopslock")
    api, store, strict = either.api, either.store, {"ttl": LIVES, "protocol": "strict"}
    held: Any = mopslock.acquire_permit if ask == "permit" else mopslock.acquire
    held = held(store, "n", **({"capacity": 1} if ask == "permit" else strict))
    call = {
        "lease": lambda: api.acquire(store, "n", **strict).release(),
        "invoke": lambda: api.invoke(store, "n", lambda _: b"", **strict),
        "permit": lambda: api.acquire_permit(store, "n", capacity=1, ttl=LIVES).release(),
    }[ask]

    def lines() -> list[str]:
        return [r.message for r in caplog.records if r.levelno == logging.INFO and "waiting" in r.message]

    with thread(call):
        until(lines)
        held.release()
    said = {
        "lease": f'waiting for lease "n": held by {held.holder} on ',
        "invoke": f'waiting for the result of "n": held by {held.holder} on ',
        "permit": 'waiting for permit of "n": full, with 1 held, by ',
    }
    assert [line.startswith("mopslock: " + said[ask]) for line in lines()] == [True]


def test_its_own_callback_hears_of_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mopslock")
    heard: list[Status] = []
    seen = [Status(name="n", state="held", holder=holder) for holder in ("a", "b")]
    tell = logged("lease", "n", heard.append)
    assert tell is not None
    for status in seen:
        tell(status)
    assert heard == seen
    assert [record.message for record in caplog.records] == ['mopslock: waiting for lease "n": held by a']
    caplog.set_level(logging.WARNING, "mopslock")
    assert logged("lease", "n", None) is None, "nobody keeps the log"
    assert logged("lease", "n", print) is print

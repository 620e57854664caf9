"""What a held lease tells, how it ends, and how it is waited for: both ways to a store behave alike."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import mopslock
from held_up import promptly
from ways import LIVES, NOTICES, SOON, WAYS, Gated, Place, both, opened, program, said, stamp, until


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


TENTH = timedelta(seconds=0.1)

# What it tells.


def test_a_lease_says_what_its_record_says(place: Place) -> None:
    before = datetime.now(timezone.utc)
    with mopslock.acquire(place.store, "a/b", ttl=LIVES) as lease:
        record = place.record("a/b")
        assert lease.name == "a/b"
        assert lease.holder == record["writer_id"]
        assert lease.ttl == record["expire_s"] == LIVES
        assert lease.acquired == datetime.fromisoformat(record["first_acquired_at"])
        assert before <= lease.acquired <= datetime.now(timezone.utc)
        assert (lease.epoch, lease.fencing_token) == (0, 0)
        assert 0 < lease.left <= 0.9 * LIVES
        least = datetime.now(timezone.utc) + timedelta(seconds=lease.left)
        deadline = lease.deadline
        most = timedelta(seconds=lease.left) + datetime.now(timezone.utc)
        assert least - TENTH <= deadline <= most + TENTH
        assert "held" in repr(lease)
        assert "a/b" in repr(lease)
    assert lease.left <= 0
    assert "LeaseEnded" in repr(lease)


def test_holders_are_fresh_for_each_claim(place: Place) -> None:
    holders = set()
    for _ in range(3):
        with mopslock.acquire(place.store, "n", ttl=LIVES) as lease:
            holders.add(lease.holder)
    assert len(holders) == 3


def test_the_text_is_one_line_of_json_in_the_order_of_every_language(place: Place) -> None:
    with mopslock.acquire(place.store, "n", ttl=2.5) as lease:
        where = place.store if place.way == "url" else repr(place.store)
        assert lease.text == (
            f'{{"name":"n","store":"{where}","protocol":"lastwriter","holder":"{lease.holder}","epoch":0,"token":0,'
            f'"ttl_s":2.5,"first_acquired_at":"{lease.acquired.isoformat(timespec="microseconds")}"}}'
        )


def test_renewals_move_the_deadline(place: Place) -> None:
    with mopslock.acquire(place.store, "n", ttl=NOTICES) as lease:
        first = lease.deadline
        until(lambda: lease.deadline > first + timedelta(seconds=NOTICES / 5))


def test_a_lease_cannot_be_pickled_and_says_what_to_do(place: Place) -> None:
    with mopslock.acquire(place.store, "n", ttl=LIVES) as lease, pytest.raises(TypeError, match="give its text"):
        pickle.dumps(lease)


# Loss.


def test_lost_is_false_then_true_and_its_waiters_wake(place: Place) -> None:
    with mopslock.acquire(place.store, "n", ttl=NOTICES, raise_if_lost=False) as lease:
        assert not lease.lost
        assert not lease.lost.wait(0.01)
        woken: list[bool] = []
        threads = [threading.Thread(target=lambda: woken.append(lease.lost.wait(SOON))) for _ in range(5)]
        for thread in threads:
            thread.start()
        place.steal("n")
        for thread in threads:
            thread.join(SOON)
        assert woken == [True] * 5
        assert lease.lost.is_set()
        assert lease.lost.wait(0)


def test_a_release_sets_lost_and_wakes_its_waiters(place: Place) -> None:
    lease = mopslock.acquire(place.store, "n", ttl=LIVES)
    woken = threading.Event()

    def wait() -> None:
        if lease.lost.wait(SOON):
            woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    lease.release()
    assert woken.wait(SOON)
    assert lease.lost.is_set()
    thread.join()


def test_on_lost_is_called_once_with_the_error_also_when_it_comes_late(place: Place) -> None:
    calls: list[tuple[str, Any]] = []
    first, late = threading.Event(), threading.Event()
    tell = both(lambda error: calls.append(("first", error)), lambda _: first.set())
    lease = mopslock.acquire(place.store, "n", ttl=NOTICES, on_lost=tell)
    place.steal("n")
    assert first.wait(SOON)
    lease.on_lost(both(lambda error: calls.append(("late", error)), lambda _: late.set()))
    assert late.wait(SOON)
    with pytest.raises(mopslock.LeaseTaken):
        lease.release()
    assert [who for who, _ in calls] == ["first", "late"]
    assert all(isinstance(error, mopslock.LeaseTaken) and error.reason == "taken" for _, error in calls)


def test_on_lost_is_not_called_on_release(place: Place) -> None:
    calls: list[Any] = []
    lease = mopslock.acquire(place.store, "n", ttl=LIVES, on_lost=calls.append)
    lease.release()
    lease.on_lost(calls.append)
    after = threading.Event()
    with mopslock.acquire(place.store, "other", ttl=NOTICES, on_lost=lambda _: after.set(), raise_if_lost=False):
        place.steal("other")
        assert after.wait(SOON)  # on the one thread of all callbacks, so the others would have been told
    assert calls == []


def test_a_callback_that_raises_disturbs_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()
    lease = mopslock.acquire(place.store, "n", ttl=NOTICES, on_lost=lambda _: 1 / 0)
    lease.on_lost(lambda _: told.set())
    place.steal("n")
    assert told.wait(SOON)
    assert "a callback failed" in caplog.text


@pytest.mark.parametrize(
    ("reason", "fields"),
    [("taken", {"writer_id": "thief"}), ("released", {"released_at": stamp(0), "written_at": ""})],
)
def test_check_says_why_again_and_again(place: Place, reason: str, fields: Any) -> None:
    lease = mopslock.acquire(place.store, "n", ttl=NOTICES)
    lease.check()
    place.write("n", **fields)
    assert lease.lost.wait(SOON)
    errors = []
    for _ in range(2):
        with pytest.raises(mopslock.LeaseLost) as caught:
            lease.check()
        errors.append(caught.value)
    assert [error.reason for error in errors] == [reason, reason]
    assert errors[0] is not errors[1], "a traceback belongs to one caller"
    with pytest.raises(mopslock.LeaseLost):
        lease.release()


def test_a_store_that_answers_no_more_loses_it_at_the_deadline_and_not_before(place: Place) -> None:
    lease = mopslock.acquire(place.store, "n", ttl=NOTICES)
    path = place.path("n")
    path.unlink()
    path.mkdir()  # which is not to be read, nor written over
    deadline = lease.deadline
    with pytest.raises(mopslock.LeaseUnreachable):
        while True:
            lease.check()
            time.sleep(0.01)  # until the deadline, which is at hand
    assert datetime.now(timezone.utc) > deadline - TENTH
    assert lease.lost.wait(SOON)


def test_a_process_that_was_paused_past_its_deadline_says_expired(place: Place) -> None:
    code = f"""
lease = mopslock.acquire({place.code}, "n", ttl=0.5)
print("held")
sys.stdin.readline()
print(lease.lost.is_set(), lease.left <= 0)
try: lease.check()
except mopslock.LeaseLost as error: print(type(error).__name__, error.reason)
"""
    with program(code) as process:
        assert said(process) == "held"
        process.send_signal(signal.SIGSTOP)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        until(lambda: mopslock.inspect(place.store, "n").state == "stale")
        process.send_signal(signal.SIGCONT)
        assert said(process) == "True True"
        assert said(process) in ("LeaseExpired expired", "LeaseUnreachable unreachable")


# Release.


def test_releasing_twice_is_once(place: Place) -> None:
    lease = mopslock.acquire(place.store, "n", ttl=LIVES)
    lease.release()
    written = place.record("n")
    lease.release(timeout=0)  # which would say so if there was anything to wait for
    lease.release(timeout=0)
    assert place.record("n") == written
    assert place.released("n")


def test_many_threads_that_release_at_once_are_all_told_when_it_is_over(place: Place) -> None:
    lease = mopslock.acquire(place.store, "n", ttl=LIVES)
    seen: list[bool] = []

    def release() -> None:
        lease.release()
        seen.append(place.released("n"))

    threads = [threading.Thread(target=release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert seen == [True] * 8


@pytest.mark.parametrize("timeout", [-1, "1", float("nan")], ids=repr)
def test_a_bad_timeout_of_release_does_nothing(place: Place, timeout: Any) -> None:
    with mopslock.acquire(place.store, "n", ttl=LIVES) as lease:
        with pytest.raises(mopslock.BadArgument):
            lease.release(timeout=timeout)
        lease.check()


def test_a_release_that_takes_too_long_says_so_and_goes_on(tmp_path: Path) -> None:
    place = Place("own", tmp_path, Gated(tmp_path))
    lease = mopslock.acquire(place.store, "n", ttl=30)
    place.store.puts.clear()
    with promptly(tmp_path, 2), pytest.raises(mopslock.NotReleased, match="not released in time") as caught:
        lease.release(timeout=0.1)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(mopslock.LeaseEnded):
        lease.check()
    assert not place.released("n")
    place.store.puts.set()
    lease.release()
    assert place.released("n")


def test_leaving_a_with_whose_release_hangs_warns_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Gated(tmp_path)
    with mopslock.lease(store, "n", ttl=30, release_timeout=0.1):
        store.puts.clear()
    assert "not released in time" in caplog.text
    store.puts.set()
    until(lambda: Place("own", tmp_path, store).released("n"))


# Waiting for others.


def test_try_acquire_is_none_while_another_holds_it(place: Place) -> None:
    with mopslock.acquire(place.other().store, "n", ttl=LIVES):
        assert mopslock.try_acquire(place.store, "n", ttl=LIVES) is None
    lease = mopslock.try_acquire(place.store, "n", ttl=LIVES)
    assert isinstance(lease, mopslock.Lease)
    lease.release()


def test_try_acquire_raises_what_is_not_another_holder(place: Place) -> None:
    with pytest.raises(mopslock.BadArgument):
        mopslock.try_acquire(place.store, "n", ttl=0.001)
    with pytest.raises(TypeError):
        mopslock.try_acquire(place.store, "n", wait=5)  # type: ignore[call-arg]


def test_a_wait_of_zero_tries_once_and_says_who_holds_it(place: Place) -> None:
    with mopslock.acquire(place.other().store, "n", ttl=LIVES) as held:
        with pytest.raises(mopslock.Held) as caught:
            mopslock.acquire(place.store, "n", ttl=LIVES, wait=0)
        assert caught.value.reason == "held"
        assert caught.value.seen is not None
        assert (caught.value.seen.state, caught.value.seen.holder) == ("held", held.holder)
        assert held.holder in str(caught.value)


def test_a_wait_that_is_over_says_who_holds_it(place: Place, tmp_path: Path) -> None:
    with mopslock.acquire(place.other().store, "n", ttl=30) as held:
        started = time.monotonic()
        with promptly(tmp_path, 3), pytest.raises(mopslock.Held) as caught:
            mopslock.acquire(place.store, "n", ttl=30, wait=0.3)
        assert time.monotonic() - started >= 0.3
        assert caught.value.seen is not None
        assert caught.value.seen.holder == held.holder


def test_on_waiting_is_told_for_whom(place: Place) -> None:
    told: list[mopslock.Status] = []
    waits = threading.Event()
    got: list[mopslock.Lease] = []

    def acquire() -> None:
        tell = both(told.append, lambda _: waits.set())
        got.append(mopslock.acquire(place.store, "n", ttl=LIVES, on_waiting=tell))

    with mopslock.acquire(place.other().store, "n", ttl=LIVES) as held:
        thread = threading.Thread(target=acquire)
        thread.start()
        assert waits.wait(SOON)
        assert (told[0].name, told[0].holder, told[0].state) == ("n", held.holder, "held")
    thread.join(SOON)
    got[0].check()
    got[0].release()


def test_a_holder_that_died_is_succeeded_after_its_ttl(place: Place, tmp_path: Path) -> None:
    with program(f'lease = mopslock.acquire({place.code}, "n", ttl=0.5)\nprint("held")\ntime.sleep(60)') as process:
        assert said(process) == "held"
        process.kill()
        process.wait()
        expires = datetime.fromisoformat(place.record("n")["written_at"]) + timedelta(seconds=0.5)
        with promptly(tmp_path, 5):
            successor = mopslock.acquire(place.store, "n", ttl=0.5, wait=SOON, raise_if_lost=False)
        with successor as lease:
            assert lease.acquired >= expires
            assert place.record("n")["writer_id"] == lease.holder

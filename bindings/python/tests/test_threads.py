"""Many threads, many leases, and threads that keep the GIL: nothing costs a thread each, and nothing is lost."""

from __future__ import annotations

import collections
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

import pytest

import held_up
import mopslock
from mopslock import _keeper
from mopslock._member import SETTLED
from mopslock.stores import Directory
from ways import LIVES, NOTICES, SOON, WAYS, Gated, Place, both, burn, opened, until


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


def test_threads_on_distinct_names_do_not_wait_for_each_other(place: Place) -> None:
    together = threading.Barrier(24, timeout=SOON)

    def work(i: int) -> bool:
        with mopslock.lease(place.store, f"n{i}", ttl=10) as lease:
            together.wait()  # all are held at once
            lease.check()
        return place.released(f"n{i}")

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(work, range(24)))


MARGIN = 0.15
"""Of lastwriter, which excludes only where nobody is held up for longer between a read and a write of its own."""


def test_threads_on_one_name_exclude_each_other_whatever_way_they_go(place: Place, tmp_path: Path) -> None:
    places = [place, place.other(), Place.of("own", place.root)]
    inside, most, calls = 0, 0, 0

    def work(i: int) -> None:
        nonlocal inside, most, calls
        with mopslock.lease(places[i % 3].store, "n", ttl=LIVES, acquire_margin=MARGIN) as lease:
            inside += 1
            most, calls = max(most, inside), calls + 1
            time.sleep(0.001)  # in which another could come in
            lease.check()
            inside -= 1

    with held_up.measured(tmp_path / "held-up") as measured:
        begin = time.monotonic()
        with ThreadPoolExecutor(9) as pool:
            list(pool.map(work, range(9)))
        assert calls == 9
        assert most == 1 or measured.at_once(begin) > MARGIN / 2


def test_a_release_wakes_the_next_one_of_this_process_at_once(place: Place, tmp_path: Path) -> None:
    waits, got = threading.Event(), threading.Event()

    def wait() -> None:
        with mopslock.lease(place.store, "n", ttl=60, on_waiting=lambda _: waits.set()):
            got.set()

    lease = mopslock.acquire(place.store, "n", ttl=60)
    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(SOON)
    with held_up.measured(tmp_path / "held-up") as measured:
        begin = time.monotonic()
        lease.release()
        assert got.wait(SOON)
        took = time.monotonic() - begin
        assert place.way == "url" or took - held_up.COSTS * measured.in_all(begin) < 0.9
    thread.join(SOON)


# What a lease costs.

MANY = 1000


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_thousand_leases_cost_no_thread_each(place: Place) -> None:
    before, before_os = set(threading.enumerate()), len(os.listdir("/proc/self/task"))
    with ThreadPoolExecutor(4) as pool:
        leases = list(pool.map(lambda i: mopslock.acquire(place.store, f"n{i}", ttl=12), range(MANY)))
    end = time.monotonic() + 4.1  # they are renewed each 4 s
    kinds: collections.Counter[str] = collections.Counter()
    most_os = 0
    while time.monotonic() < end:
        names = collections.Counter(thread.name for thread in threading.enumerate() if thread not in before)
        kinds |= names
        most_os = max(most_os, len(os.listdir("/proc/self/task")) - before_os)
        time.sleep(0.05)
    for lease in leases:
        lease.check()
    assert set(kinds) <= {"mopslock-keeper", "mopslock-store", "mopslock-events", "mopslock-notifier"}
    if place.way == "own":
        assert kinds["mopslock-keeper"] <= 1
        assert kinds["mopslock-store"] <= _keeper.MOST_WORKERS
        assert kinds["mopslock-events"] == 0
    else:
        assert kinds["mopslock-keeper"] == 0
        assert kinds["mopslock-store"] <= 4
        assert kinds["mopslock-events"] == 1
    assert kinds["mopslock-notifier"] <= 1
    assert most_os <= 64 + 32, "requests under way, at most 64 by URL, and a runtime's few"
    mopslock.close(place.store, timeout=SOON)
    assert all(place.released(f"n{i}") for i in range(0, MANY, 50))


def test_hosts_of_stores_that_nobody_holds_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keeper, "IDLE", 0.05)
    before = set(threading.enumerate())
    for i in range(30):
        with mopslock.lease(Place.of("own", tmp_path).store, f"n{i}", ttl=0.5):
            pass
    until(lambda: {t.name for t in threading.enumerate() if t not in before} <= {"mopslock-notifier"})


def test_closed_hosts_cost_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keeper, "IDLE", 0.05)
    before = set(threading.enumerate())
    for i in range(10):
        mopslock.acquire(place.store, f"n{i}", ttl=30)
        mopslock.close(place.store)
        assert place.released(f"n{i}")
    until(lambda: {t.name for t in threading.enumerate() if t not in before} <= {"mopslock-notifier"})


# What others do to it.


def test_a_thread_that_burns_the_gil_for_longer_than_the_ttl_loses_no_lease(place: Place) -> None:
    """By URL nothing of Python renews. A store of one's own needs the GIL a dozen times for each renewal, and 50 leases
    are more than it gets on a busy machine."""
    many = 50 if place.way == "url" else 20
    leases = [mopslock.acquire(place.store, f"n{i}", ttl=NOTICES) for i in range(many)]
    burn(1.5 * NOTICES)
    for lease in leases:
        lease.check()
    mopslock.close(place.store)
    assert all(place.released(f"n{i}") for i in range(many))


def test_a_store_that_hangs_on_some_names_loses_no_other(tmp_path: Path) -> None:
    class Partly(Gated):
        def put(self, key: str, body: bytes) -> None:
            if key.startswith("bad"):
                self.puts.wait(60)
            super(Gated, self).put(key, body)

    store = Partly(tmp_path)
    bad = [mopslock.acquire(store, f"bad{i}", ttl=1, raise_if_lost=False) for i in range(12)]
    good = [mopslock.acquire(store, f"good{i}", ttl=NOTICES) for i in range(8)]
    store.puts.clear()
    for lease in bad:
        assert lease.lost.wait(SOON)
    renewed = datetime.now(timezone.utc) + timedelta(seconds=0.9 * NOTICES)
    until(lambda: min(lease.deadline for lease in good) > renewed)  # later than by now
    for lease in good:
        lease.check()
        lease.release()
    store.puts.set()


def test_a_callback_that_hangs_loses_no_lease(place: Place) -> None:
    hangs, go = threading.Event(), threading.Event()
    lost = mopslock.acquire(
        place.store, "lost", ttl=NOTICES, on_lost=both(lambda _: hangs.set(), lambda _: go.wait(60))
    )
    lease = mopslock.acquire(place.store, "n", ttl=NOTICES)
    place.steal("lost")
    try:
        assert hangs.wait(SOON)
        written = place.record("n")["write_count"]
        until(lambda: place.record("n")["write_count"] >= written + 5)  # more than a TTL
        lease.check()
        lease.release()
        with pytest.raises(mopslock.LeaseTaken):
            lost.check()
    finally:
        go.set()


def test_a_callback_may_call_whatever_it_likes(place: Place) -> None:
    done = threading.Event()

    def again(_: object) -> None:
        with mopslock.lease(place.store, "other", ttl=LIVES) as lease:
            lease.check()
        mopslock.inspect(place.store, "n")
        done.set()

    mopslock.acquire(place.store, "n", ttl=1, on_lost=again)
    place.steal("n")
    assert done.wait(SOON)


def test_acquire_release_and_close_under_each_other_never_hang_or_leave_anything_held(place: Place) -> None:
    stop = time.monotonic() + 1.5
    errors: list[BaseException] = []

    def work(i: int) -> None:
        while time.monotonic() < stop:
            try:
                with mopslock.lease(place.store, f"n{i}", ttl=LIVES, wait=SOON):
                    pass
            except (mopslock.Closed, mopslock.Held):
                continue
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    while time.monotonic() < stop:
        mopslock.close(place.store, timeout=SOON)
        time.sleep(0.02)
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert errors == []
    mopslock.close(place.store)
    until(lambda: all(place.released(f"n{i}") for i in range(6) if place.path(f"n{i}").exists()))


@pytest.mark.parametrize("protocol", ["strict", "lastwriter"])
def test_nobody_takes_the_lock_that_all_claims_share(tmp_path: Path, protocol: Literal["strict", "lastwriter"]) -> None:
    """A signal that raised while it was held would leave it taken for good."""
    kept: list[mopslock.Lease] = []

    def keep() -> None:
        lease = mopslock.acquire(Directory(tmp_path), "n", ttl=10, protocol=protocol)
        lease.release()
        kept.append(lease)

    thread = threading.Thread(target=keep, daemon=True)
    with SETTLED._condition:
        thread.start()
        thread.join(SOON)
    assert kept

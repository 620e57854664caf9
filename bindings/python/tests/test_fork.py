"""fork: what the parent holds stays the parent's, and a child begins anew. Nothing ever hangs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fork_jobs
import held_up
import mopslock
from fork_jobs import JUDGED, TAKEN
from mopslock import aio
from ways import LIVES, NOTICES, SOON, WAYS, Place, ended, fork, forked, heard, opened, program, until

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


def test_a_child_is_told_at_once_that_a_lease_is_its_parents(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=NOTICES) as lease:
        assert forked(lambda: fork_jobs.judge(lease)) == JUDGED
        lease.check()
        written = place.record("n")["write_count"]
        until(lambda: place.record("n")["write_count"] >= written + 5)  # more than a TTL
        lease.check()
    assert place.released("n")


def test_a_child_that_leaves_the_block_changes_nothing(place: Place) -> None:
    leasing = mopslock.lease(place.store, "n", ttl=LIVES)
    with leasing as lease:
        before = place.record("n")["first_acquired_at"]

        def child() -> Any:
            leasing.__exit__(None, None, None)
            with mopslock.lease(place.store, "child", ttl=LIVES):
                return place.released("n")

        assert forked(child) is False
        lease.check()
        assert place.record("n")["first_acquired_at"] == before
        assert not place.released("n")
    assert place.released("n")


def test_a_child_that_ends_as_any_program_leaves_the_parents_leases_alone(place: Place) -> None:
    code = f"""
lease = mopslock.acquire({place.code}, "n", ttl={NOTICES})
pid = os.fork()
if pid == 0: sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
time.sleep({1.2 * NOTICES})  # more than the TTL: the parent renews it
lease.check()
print("held")
"""
    with program(code) as process:
        status, out, _ = ended(process)
    assert (status, out) == (0, "5\nheld\n")
    assert place.released("n")


def test_a_child_takes_leases_of_its_own_in_both_ways(place: Place) -> None:
    places = [place, place.other()]
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        mopslock.inspect(place.other().store, "n")  # so both libraries were loaded here

        def child() -> Any:
            said = [fork_jobs.take(other.store, f"child-{other.way}") for other in places]
            with pytest.raises(mopslock.Held):
                mopslock.acquire(place.store, "n", ttl=LIVES, wait=0)
            return [*said, mopslock.inspect(place.store, "n").holder == lease.holder]

        assert forked(child) == [TAKEN, TAKEN, True]
        lease.check()
    assert all(place.released(f"child-{way}") for way in WAYS)


def test_grandchildren_are_children(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:

        def child() -> Any:
            with mopslock.lease(place.store, "child", ttl=LIVES) as own:
                deep = forked(
                    lambda: [fork_jobs.judge(lease), fork_jobs.judge(own), fork_jobs.take(place.store, "grandchild")]
                )
                own.check()
            return deep

        assert forked(child) == [JUDGED, JUDGED, TAKEN]
        lease.check()


def test_a_child_of_a_process_that_only_imported_us_begins_anew(place: Place) -> None:
    code = f"""
pid = os.fork()
with mopslock.lease({place.code}, "n", ttl={LIVES}, wait={SOON}) as lease:
    lease.check()
if pid == 0: sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    with program(code) as process:
        assert ended(process)[:2] == (0, "0\n")


def test_a_companion_of_the_parents_lease_can_be_a_childs(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        text = lease.text

        def child() -> Any:
            with mopslock.accompany(text, store=place.store) as companion:
                companion.check()
                return companion.holder

        assert forked(child) == lease.holder
        lease.check()


def test_a_companion_is_its_own_processs_too(place: Place) -> None:
    with (
        mopslock.lease(place.store, "n", ttl=LIVES) as lease,
        mopslock.accompany(lease.text, store=place.store) as companion,
    ):

        def child() -> Any:
            with pytest.raises(mopslock.Forked):
                companion.check()
            with pytest.raises(mopslock.Forked):
                companion.leave()
            return True

        assert forked(child)
        companion.check()


def test_a_lease_of_asyncio_is_the_parents_too(place: Place) -> None:
    lease = asyncio.run(aio.acquire(place.store, "n", ttl=LIVES))

    async def judge() -> Any:
        with pytest.raises(mopslock.Forked):
            await lease.release()
        async with lease:
            pass
        return [lease.lost.is_set(), await lease.lost.wait(SOON)]

    assert forked(lambda: asyncio.run(judge())) == [True, True]
    lease.check()
    asyncio.run(lease.release())


def test_a_child_of_a_process_that_waits_does_not_wait(place: Place) -> None:
    waits = threading.Event()

    def wait() -> None:
        with mopslock.lease(place.store, "n", ttl=LIVES, on_waiting=lambda _: waits.set()):
            pass

    with mopslock.lease(place.other().store, "n", ttl=LIVES):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(SOON)
        assert forked(lambda: fork_jobs.take(place.store, "child")) == TAKEN
    thread.join(SOON)
    assert not thread.is_alive()
    assert place.released("n")


def test_fifty_forks_under_load_hang_nowhere(place: Place) -> None:
    """Other threads are inside the library, and have our locks, in many of the moments."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            while not stop.is_set():
                with mopslock.lease(place.store, f"n{i}", ttl=LIVES) as lease:
                    lease.lost.wait(0.001)
                    lease.on_lost(print)
                    mopslock.inspect(place.store, f"n{i}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        for thread in threads:
            thread.start()
        for turn in range(50):

            def child(turn: int = turn) -> Any:
                said = fork_jobs.judge(lease)
                if turn % 10 == 0:  # a library of its own for each would take a while
                    with mopslock.lease(place.store, f"child{turn}", ttl=LIVES) as own:
                        own.check()
                return said

            assert forked(child) == JUDGED
        stop.set()
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()
        lease.check()
    assert errors == []


def test_children_that_live_beside_each_other_exclude_each_other(place: Place) -> None:
    mopslock.inspect(place.store, "n")
    log, margin = place.root.parent / "log", 0.15

    def child() -> float:
        with held_up.measured(place.root.parent / f"held-up-{os.getpid()}") as measured:
            begin = time.monotonic()
            for _ in range(2):
                with mopslock.lease(place.store, "n", ttl=LIVES, acquire_margin=margin):
                    with open(log, "a") as file:
                        file.write("+")
                    time.sleep(0.002)
                    with open(log, "a") as file:
                        file.write("-")
            return measured.at_once(begin)

    late = [heard(pid, report) for pid, report in [fork(child) for _ in range(4)]]
    turns = log.read_text()
    assert sorted(turns) == sorted("+-" * 8)
    assert turns == "+-" * 8 or max(late) > margin / 2, "lastwriter excludes where nobody is held up for so long"


# What Python makes of it.

METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_multiprocessing_take_leases_of_their_own(place: Place, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        queue = context.Queue()
        process = context.Process(target=fork_jobs.report, args=(queue, place.store, "child"), daemon=True)
        process.start()
        try:
            assert queue.get(timeout=2 * SOON) == TAKEN
            process.join(SOON)
            assert process.exitcode == 0
        finally:
            process.kill()
            process.join()
        lease.check()
    assert place.released("child")


@pytest.mark.parametrize("method", [method for method in METHODS if method != "forkserver"])
def test_pools_of_processes_take_leases_of_their_own(place: Place, method: str) -> None:
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            taken = [pool.submit(fork_jobs.take, place.store, f"child{i}") for i in range(2)]
            assert [future.result(2 * SOON) for future in taken] == [TAKEN] * 2
            with pytest.raises(TypeError, match="give its text"):
                pool.submit(fork_jobs.judge, lease).result(2 * SOON)
        lease.check()


def test_an_error_of_ours_comes_back_from_a_pool(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=30) as lease:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            error = pool.submit(mopslock.acquire, place.store, "n", ttl=30, wait=0).exception(30)
        assert isinstance(error, mopslock.Held)
        assert error.seen is not None
        assert error.seen.holder == lease.holder


def test_leases_companions_and_what_makes_them_are_not_to_be_pickled(place: Place) -> None:
    with (
        mopslock.lease(place.store, "n", ttl=LIVES) as lease,
        mopslock.accompany(lease.text, store=place.store) as companion,
    ):
        for member in (lease, companion):
            with pytest.raises(TypeError, match="give its text to the other process"):
                pickle.dumps(member)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_private_copies_of_the_library_leave_no_files(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mopslock.inspect(place.store, "n")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    assert forked(lambda: fork_jobs.take(place.store, "child")) == TAKEN
    assert list((tmp_path / "tmp").iterdir()) == []

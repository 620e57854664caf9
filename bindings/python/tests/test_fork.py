"""fork: what the parent holds stays the parent's, and a child begins anew. Nothing ever hangs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fork_jobs
import mopslock
from fork_jobs import JUDGED, TAKEN
from mopslock import aio
from mopslock._own.base import Output
from ways import LIVES, SOON, Place, ended, forked, later, program, thread, until

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def test_what_is_held_is_the_parents(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child is told at once, and so is a child's child. By both ways they hold their own meanwhile, by copies of the
    library that leave no file."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    mopslock.inspect(place.other().store, "n")  # which makes its host here
    lease_of_task = asyncio.run(aio.acquire(place.store, "of a task", ttl=LIVES))

    async def judge_task() -> list[bool]:
        with pytest.raises(mopslock.Forked):
            await lease_of_task.release()
        async with lease_of_task:
            return [lease_of_task.lost.is_set(), await lease_of_task.lost.wait(SOON)]

    with (
        mopslock.lease(place.store, "n", ttl=LIVES) as lease,
        mopslock.accompany(lease.text, store=place.store) as companion,
    ):

        def child() -> Any:
            for call in (companion.check, companion.leave):
                with pytest.raises(mopslock.Forked):
                    call()
            with pytest.raises(mopslock.Held):
                mopslock.acquire(place.store, "n", ttl=LIVES, wait=0)
            with (
                mopslock.lease(place.store, "child", ttl=LIVES) as own,
                mopslock.accompany(lease.text, store=place.store) as another,
            ):
                said = [
                    fork_jobs.judge(lease), *fork_jobs.take(place.other().store),
                    *forked(lambda: [fork_jobs.judge(lease), fork_jobs.judge(own), *fork_jobs.take(place.store)]),
                ]  # fmt: skip
                own.check()
                another.check()
            return [*said, *asyncio.run(judge_task()), another.holder]

        assert forked(child) == [JUDGED, TAKEN, JUDGED, JUDGED, TAKEN, True, True, lease.holder]
        companion.check()
        lease.check()
        lease_of_task.check()
    assert all(place.released(name) for name in ("n", "child", "child0"))
    assert [*(tmp_path / "tmp").iterdir()] == []
    asyncio.run(lease_of_task.release())


def test_both_keep_on_renewing_and_hear_of_losses(tmp_path: Path) -> None:
    place = Place.of("own", tmp_path)

    def renewed(name: str) -> bool:
        for _ in range(4):  # more than a TTL
            written = place.record(name)["write_count"]
            later(LIVES / 3)
            until(lambda written=written: place.record(name)["write_count"] > written)  # type: ignore[misc]
        return True

    def child() -> Any:
        with mopslock.lease(place.store, "child", ttl=LIVES) as own:
            renewed("child")
            own.check()
        return place.released("child") and lost("mine")

    def lost(name: str) -> bool:
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        place.lose(mopslock.acquire(place.store, name, ttl=LIVES, on_lost=told.put))
        return isinstance(told.get(timeout=SOON), mopslock.LeaseTaken)

    assert lost("before")  # so that all threads have begun
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        assert forked(child)
        renewed("n")
        lease.check()


def test_a_child_that_leaves_the_block_or_ends_as_any_program_changes_nothing(place: Place) -> None:
    code = f"""
pid = os.fork()  # of a process that only imported us
if pid != 0: os.waitpid(pid, 0)  # one after the other: under lastwriter a busy machine could let both in
with mopslock.lease({place.code}, "n", ttl={LIVES}, wait=0) as lease:
    lease.check()
    again = os.fork()
    if again == 0: sys.exit(5)  # through the end of the block
    print(os.waitstatus_to_exitcode(os.waitpid(again, 0)[1]), mopslock.inspect({place.code}, "n").state)
    lease.check()
"""
    with program(code) as process:
        assert ended(process) == (0, "5 held\n" * 2, "")
    assert place.released("n")


def test_twenty_forks_under_load_hang_nowhere(place: Place) -> None:
    """Other threads are inside the library, and have our locks, in many of the moments."""
    over = threading.Event()
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            while not over.is_set():
                with mopslock.lease(place.store, f"n{i}", ttl=LIVES) as lease:
                    lease.on_lost(print)
                    mopslock.inspect(place.store, f"n{i}")
        except BaseException as error:
            errors.append(error)

    with (
        mopslock.lease(place.store, "n", ttl=LIVES) as lease,
        thread(lambda: work(0)), thread(lambda: work(1)), thread(lambda: work(2)),
    ):  # fmt: skip
        for turn in range(20):

            def child(turn: int = turn) -> Any:
                said = fork_jobs.judge(lease)
                if turn % 5 == 0:  # a library of its own for each would take a while
                    fork_jobs.take(place.store)
                return said

            assert forked(child) == JUDGED
        over.set()
        lease.check()
    assert errors == []


def test_what_is_the_parents_alone_stays(tmp_path: Path) -> None:
    """A child has copies of outputs whose files its parent still hands over."""
    (tmp_path / "output").touch()
    output = Output(tmp_path / "output", ours=True)
    forked(output.drop)
    assert output.read() == b""
    output.drop()
    assert output.read() is None


# What Python makes of it.

METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_a_pool_take_leases_of_their_own_and_pass_our_errors(place: Place, method: str) -> None:
    options: dict[str, Any] = {"ttl": LIVES, "wait": 0, "protocol": place.protocol}
    with mopslock.lease(place.store, "n", ttl=LIVES) as lease:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            taken = [pool.submit(fork_jobs.take, place.store) for _ in range(2)]
            assert [future.result(SOON) for future in taken] == [[TAKEN]] * 2
            with pytest.raises(TypeError, match="give its text"):
                pool.submit(fork_jobs.judge, lease).result(SOON)
            error = pool.submit(mopslock.acquire, place.store, "n", **options).exception(SOON)
        assert isinstance(error, mopslock.Held)
        assert error.seen is not None
        assert error.seen.holder == lease.holder
        lease.check()

"""Leases, permits and results as futures of concurrent.futures: what is given up holds nothing, and waits cost no
thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

import mopslock
from mopslock._submit import Submitted
from ways import LIVES, SOON, Place, ended, forked, program, until


def asked(place: Place) -> dict[str, Any]:
    return {"ttl": LIVES, "protocol": place.protocol}


def submitted(place: Place, **options: Any) -> tuple[concurrent.futures.Future[mopslock.Lease], threading.Event]:
    """The lease on "n", and what is set when it waits."""
    told = threading.Event()
    return mopslock.lease(place.store, "n", **asked(place), on_waiting=lambda _: told.set(), **options).submit(), told


def test_a_lease_and_a_permit_come_while_their_caller_goes_on(place: Place) -> None:
    held = mopslock.acquire(place.store, "n", **asked(place))
    future, told = submitted(place)
    assert told.wait(SOON)
    assert not future.done()
    held.release()
    with future.result(SOON) as lease:
        assert isinstance(lease, mopslock.Lease)
        assert place.holder("n") == lease.holder
        with pytest.raises(mopslock.HeldByOneself):
            mopslock.acquire(place.store, "n", **asked(place))
    assert place.released("n")
    with mopslock.permit(place.store, "p", capacity=1, ttl=LIVES).submit().result(SOON) as permit:
        assert permit.total == 1


def test_errors_are_those_of_a_caller_that_waits(place: Place) -> None:
    """That it is refused, that its store is closed, and that it has asked badly."""
    with mopslock.lease(place.other().store, "n", **asked(place)):
        refused = submitted(place, wait=0)[0].exception(SOON)
        assert isinstance(refused, mopslock.Held)
        assert not isinstance(refused, mopslock.HeldByOneself)
        waits, told = submitted(place)
        assert told.wait(SOON)
        mopslock.close(place.store)
        assert isinstance(waits.exception(SOON), mopslock.Closed)
    assert isinstance(mopslock.lease(place.store, "a//b").submit().exception(SOON), mopslock.BadArgument)
    with pytest.raises(TypeError, match="submit.. got an unexpected keyword argument 'tll'"):
        mopslock.submit(place.store, "n", lambda _: b"", tll=1)  # type: ignore[call-arg]


def test_one_that_is_cancelled_gives_its_claim_up(place: Place) -> None:
    """While it waits, as it begins, and when it was held already."""
    with mopslock.lease(place.other().store, "n", **asked(place)) as held:
        waits, told = submitted(place)
        assert told.wait(SOON)
        begins, _ = submitted(place)
        assert waits.cancel()
        assert begins.cancel()
        assert concurrent.futures.wait([waits, begins], SOON).not_done == set()
        with pytest.raises(CancelledError):
            waits.result()
        held.check()
    for _ in range(20):
        submitted(place)[0].cancel()
    mopslock.acquire(place.store, "n", **asked(place), wait=SOON).release()
    late, _ = submitted(place)
    late.result(SOON)
    assert not late.cancel()


def test_what_comes_in_spite_of_a_cancel_is_given_back() -> None:
    """In the moment in which it was held, and the future did not know."""

    async def steps(*, caller: object) -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "held"

    begun, given_back = threading.Event(), queue.SimpleQueue[str]()
    future = Submitted(given_back.put).begin(steps)
    assert begun.wait(SOON)
    assert future.cancel()
    assert given_back.get(timeout=SOON) == "held"


def test_work_is_done_once_and_its_launch_cannot_be_cancelled(place: Place) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def launch(work: mopslock.Work) -> bytes:
        begun.set()
        assert go_on.wait(SOON)
        with pytest.raises(mopslock.HeldByOneself):
            mopslock.acquire(place.store, "n", **asked(place))
        work.check()
        return b"by " + work.name.encode()

    first = mopslock.submit(place.store, "n", launch, **asked(place))
    assert begun.wait(SOON)
    told = threading.Event()
    second = mopslock.submit(place.store, "n", launch, **asked(place), on_waiting=lambda _: told.set())
    third = mopslock.submit(place.store, "n", launch, **asked(place))
    assert told.wait(SOON)
    assert not first.cancel()
    assert first.running()
    assert third.cancel()
    go_on.set()
    assert [one.result(SOON).read() for one in (first, second)] == [b"by n"] * 2
    assert (first.result().own, second.result().own) == (True, False)


@pytest.mark.parametrize("error", [ValueError("its own"), SystemExit("its own")])
def test_what_launch_raises_is_the_futures(place: Place, error: BaseException) -> None:
    def launch(_: object) -> bytes:
        raise error

    assert mopslock.submit(place.store, "n", launch, **asked(place)).exception(SOON) is error
    until(lambda: place.freed("n"))


def threads() -> Any:
    """How many there are for what is submitted."""
    names = [one.name.rpartition("_")[0] or one.name for one in threading.enumerate()]
    return {name: names.count(name) for name in names if name in ("mopslock-submit", "mopslock-work")}.items()


def test_hundreds_that_wait_cost_one_thread(place: Place) -> None:
    before = dict(threads())
    with mopslock.lease(place.other().store, "n", **asked(place)):
        told: list[object] = []
        options: Any = {**asked(place), "on_waiting": told.append}
        futures: list[concurrent.futures.Future[Any]] = [
            mopslock.lease(place.store, "n", **options).submit() if n % 2
            else mopslock.submit(place.store, "n", lambda _: b"", **options)
            for n in range(300)
        ]  # fmt: skip
        until(lambda: len(told) >= 300)
        assert threads() <= {**before, "mopslock-submit": 1}.items()
        for future in futures:
            assert future.cancel()
        assert concurrent.futures.wait(futures, SOON).not_done == set()
    mopslock.acquire(place.store, "n", **asked(place), wait=SOON).release()


def test_the_end_of_the_interpreter_waits_for_work_that_has_begun_and_for_nothing_else(place: Place) -> None:
    code = f"""
import concurrent.futures.thread  # whose end of the interpreter comes after ours
begun, ends = threading.Event(), threading.Event()
threading._register_atexit(ends.set)
def launch(work):
    begun.set()
    ends.wait()
    return b"late"
held = mopslock.acquire({place.code}, "m", ttl=30)
mopslock.submit({place.code}, "n", launch, ttl=30, protocol={place.protocol!r})
mopslock.submit({place.code}, "m", launch, ttl=30, protocol={place.protocol!r})
begun.wait()
"""
    with program(code) as process:
        assert ended(process)[:2] == (0, "")
    assert (place.root / "n" / "result").read_bytes() == b"late"
    assert place.freed("n")
    assert not (place.root / "m" / "result").exists()


def test_a_forked_child_submits_by_itself(place: Place) -> None:
    assert mopslock.submit(place.store, "n", lambda _: b"parent", **asked(place)).result(SOON).own

    def child() -> list[str]:
        mopslock.lease(place.store, "m", **asked(place)).submit().result(SOON).release()
        asks = [mopslock.submit(place.store, name, lambda _: b"child", **asked(place)) for name in "nk"]
        return [one.result(SOON).read().decode() for one in asks]

    assert forked(child) == ["parent", "child"]

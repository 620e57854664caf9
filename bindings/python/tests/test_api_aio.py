"""The asyncio twins: they do as the package does, cancel at any moment, and bear a busy loop."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import aio
from mopslock._hosted import HostedHost
from mopslock._hosts import host_of
from mopslock._units import FOREVER
from mopslock.stores import Directory
from mopslock.terms import Terms
from ways import LIVES, SOON, Failing, Place, later, until


async def soon(what: Callable[[], Any]) -> None:
    """As until, and lets the loop run."""
    await asyncio.to_thread(until, what)


async def waiter(place: Place, name: str = "n", **options: Any) -> asyncio.Task[aio.Lease]:
    """A task that waits for what another holds."""
    waits = threading.Event()
    task = asyncio.create_task(aio.acquire(place.store, name, ttl=LIVES, on_waiting=lambda _: waits.set(), **options))
    await soon(waits.is_set)
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# As the package does.


async def test_async_with_holds_and_then_releases(place: Place) -> None:
    async with aio.lease(place.store, "a/b", ttl=LIVES) as lease:
        lease.check()
        assert (lease.name, lease.holder, lease.ttl) == ("a/b", place.holder("a/b"), LIVES)
        assert lease.holder in lease.text
        assert not place.released("a/b")
        assert await aio.try_acquire(place.other().store, "a/b", ttl=LIVES) is None
        with pytest.raises(mopslock.Held):
            await aio.acquire(place.other().store, "a/b", ttl=LIVES, wait=0)
    assert place.released("a/b")
    with pytest.raises(mopslock.LeaseEnded):
        lease.check()
    await lease.release()


async def test_what_is_held_shows_what_it_is(place: Place) -> None:
    async def launch(work: aio.Work) -> bytes:
        assert repr(work) == "<mopslock.aio.Work 'w'>"
        return b""

    async with aio.lease(place.store, "n", ttl=LIVES) as lease:
        assert re.fullmatch(r"<mopslock\.aio\.Lease 'n' held, [0-9.]+s left>", repr(lease))
        async with await aio.accompany(lease.text, store=place.store) as companion:
            assert re.fullmatch(r"<mopslock\.aio\.Companion 'n' held, [0-9.]+s left>", repr(companion))
    assert repr(lease) == "<mopslock.aio.Lease 'n' LeaseEnded>"
    async with aio.permit(place.store, "p", capacity=4, weight=3, ttl=LIVES) as permit:
        assert re.fullmatch(r"<mopslock\.aio\.Permit 'p' 3 of 4 held, [0-9.]+s left>", repr(permit))
    async with aio.lease(place.store, "m", ttl=0, protocol="strict") as lease:
        assert repr(lease) == "<mopslock.aio.Lease 'm' held>"
    await aio.invoke(place.store, "w", launch)


async def test_one_object_can_be_entered_again_and_not_nested_and_releases_whatever_its_body_raises(
    place: Place,
) -> None:
    leasing = aio.lease(place.store, "n", ttl=LIVES)
    for _ in range(2):
        with pytest.raises(ValueError, match="its own"):
            async with leasing as lease:
                with pytest.raises(RuntimeError, match="entered already"):
                    await leasing.__aenter__()
                lease.check()
                raise ValueError("its own")
        assert place.released("n")


async def test_errors_are_those_of_the_package(place: Place, tmp_path: Path) -> None:
    with pytest.raises(mopslock.BadArgument, match="ttl"):
        aio.lease(place.store, "n", ttl=-1)
    with pytest.raises(mopslock.BadArgument, match=r'name "a/\.\./b".*ttl 1ms'):
        await aio.acquire(place.store, "a/../b", ttl=0.001)
    with pytest.raises(mopslock.StoreFull):
        await aio.acquire(Failing(tmp_path, put=mopslock.StoreFull("no room")), "n", protocol="lastwriter")
    lease = await aio.acquire(place.store, "n", ttl=LIVES)
    with pytest.raises(mopslock.BadArgument):
        await lease.release(timeout=-1)
    lease.check()
    await lease.release()


async def test_the_decorator_leases_each_call_of_a_coroutine_function(place: Place) -> None:
    inside: list[int] = []

    @aio.lease(place.store, "n", ttl=LIVES, protocol="strict")
    async def work(depth: int, deeper: bool = False) -> int:
        """Works."""
        inside.append(depth)
        await asyncio.sleep(0)  # others get their turn
        assert inside == [depth], "two are inside at once"
        try:
            return await work(depth + 1) if deeper else depth
        finally:
            inside.remove(depth)

    async def generator() -> AsyncIterator[int]:
        yield 1

    assert await work(1) == 1
    with pytest.raises(RuntimeError, match="calls itself"):
        await work(1, deeper=True)
    assert sorted(await asyncio.gather(*(work(i) for i in range(8)))) == list(range(8))
    assert (work.__name__, work.__doc__) == ("work", "Works.")
    functions: list[Any] = [generator, lambda: None]
    for function in functions:
        with pytest.raises(TypeError, match="coroutine functions"):
            aio.lease(place.store, "n")(function)


def test_a_loss_wakes_its_waiters_and_is_raised_on_leaving(place: Place) -> None:
    async def main() -> None:
        async with aio.lease(place.store, "n", ttl=LIVES) as lease:
            for _ in range(20):
                assert not await lease.lost.wait(0.001)
            calls: Any = getattr(getattr(lease._held, "ended", lease._held), "_calls")  # noqa: B009
            assert len(calls) <= 1, "waiting leaves nothing behind"
            waiting = [asyncio.create_task(lease.lost.wait(SOON)) for _ in range(3)]
            await asyncio.to_thread(place.lose, lease)
            assert await asyncio.gather(*waiting) == [True] * 3
            assert lease.lost.is_set()
            assert await lease.lost.wait()

    with pytest.raises(mopslock.LeaseTaken) as caught:
        asyncio.run(main())
    assert caught.value.reason == "taken"


async def test_a_release_that_takes_too_long_says_so_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Failing(tmp_path)
    place = Place("own", tmp_path, store)

    async with aio.lease(store, "with", ttl=LIVES, release_timeout=0.001):
        lease = await aio.acquire(store, "n", ttl=LIVES)
        store.puts.clear()
        with pytest.raises(mopslock.NotReleased):
            await lease.release(timeout=0.001)
    assert 'lease "with" was not released in time' in caplog.text
    task = asyncio.create_task(lease.release())
    await asyncio.sleep(0)  # until it waits for the release, which hangs
    await cancelled(task)
    store.puts.set()
    await lease.release()
    assert place.released("n")
    await soon(lambda: place.released("with"))


async def test_companions_inspect_and_ls(place: Place) -> None:
    async with aio.lease(place.other().store, "n", ttl=LIVES) as lease:
        async with await aio.accompany(lease.text, store=place.store) as companion:
            companion.check()
            assert companion.holder == lease.holder
        companion = await aio.accompany(lease.text, store=place.store)
        await companion.leave()
        assert (await aio.inspect(place.store, "n")).holder == lease.holder
        assert [status.name async for status in aio.ls(place.store)] == ["n"]
        lease.check()
    with pytest.raises(mopslock.LeaseReleased):
        await aio.accompany(lease.text, store=place.store)


# Cancellation.


async def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing_held(place: Place) -> None:
    async with aio.lease(place.other().store, "n", ttl=LIVES) as held:
        await cancelled(await waiter(place))
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await asyncio.wait_for(aio.acquire(place.store, "n", ttl=LIVES), 0.001)
        held.check()
    async with aio.lease(place.store, "n", ttl=LIVES, wait=SOON):
        pass


async def test_a_task_that_is_cancelled_at_any_moment_leaves_nothing_held(place: Place) -> None:
    """After so many turns of the loop; in the last round once it is held, and before it knows."""
    for turns in (*range(6), 10, 20, 40, 80, None):
        name = f"n{turns}"
        path, task = place.path(name), asyncio.create_task(aio.acquire(place.store, name, ttl=LIVES))
        if turns is None:
            while not path.exists():
                await asyncio.sleep(0)  # a turn of the loop
            until(lambda: mopslock.inspect(place.store, "nNone").held)
        for _ in range(turns or 0):
            await asyncio.sleep(0)  # a turn of the loop
        task.cancel()
        try:
            await (await task).release()
        except asyncio.CancelledError:
            gone = partial(place.released, name)
            await soon(lambda path=path, gone=gone: not path.exists() or gone())  # type: ignore[misc]


def test_a_lease_whose_caller_has_given_up_is_released(url: str) -> None:
    host, terms = host_of(url), Terms(ttl=LIVES, protocol="strict")
    assert isinstance(host, HostedHost)
    with host._lock:  # so that its listener does not hear of it yet
        asked = host.begin_acquire("n", terms, FOREVER, None)
        until(lambda: mopslock.inspect(Directory(url.removeprefix("file://")), "n").held)
        asked.cancel()
    until(lambda: mopslock.inspect(url, "n").state == "released")


async def test_a_loop_that_is_blocked_for_longer_than_the_ttl_loses_no_lease(tmp_path: Path) -> None:
    place = Place.of("own", tmp_path)
    async with aio.lease(place.store, "n", ttl=LIVES) as lease:
        for written in range(place.record("n")["write_count"], 8):
            later(LIVES / 3)
            until(lambda: place.record("n")["write_count"] > written)  # noqa: B023 - in the loop itself
        lease.check()

"""What only asyncio has: a loss that cancels, a cancellation at any moment, a busy loop. That its functions do as those
of threads is in the tests of these, for both."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import mopslock
from mopslock import aio
from mopslock._hosts import host_of
from mopslock._loop import Cancelling
from mopslock._own.kept import KeptHost
from mopslock._units import FOREVER
from mopslock.stores import Directory
from mopslock.terms import Terms
from ways import LIVES, SOON, WAYS, Place, later, opened, program, said, until
from world import FakeStore


async def soon(what: Callable[[], Any]) -> None:
    """As until, and lets the loop run."""
    await asyncio.to_thread(until, what)


async def test_calls_of_a_decorated_function_exclude_each_other(place: Place) -> None:
    inside: list[int] = []

    @aio.lease(place.store, "n", ttl=LIVES, protocol="strict")
    async def work(i: int) -> int:
        inside.append(i)
        await asyncio.sleep(0)  # others get their turn
        assert inside == [i], "two are inside at once"
        inside.remove(i)
        return i

    assert sorted(await asyncio.gather(*(work(i) for i in range(8)))) == list(range(8))


async def test_waiting_for_a_loss_leaves_nothing_behind(place: Place) -> None:
    async with aio.lease(place.store, "n", ttl=LIVES, raise_if_lost=False) as lease:
        for _ in range(20):
            assert not await lease.lost.wait(0.001)
        waits: Any = lease.lost
        assert waits._ended._calls == []
        waiting = [asyncio.create_task(lease.lost.wait(SOON)) for _ in range(3)]
        await asyncio.to_thread(place.lose, lease)
        assert await asyncio.gather(*waiting) == [True] * 3


async def test_a_release_whose_caller_is_cancelled_goes_on() -> None:
    store = FakeStore()
    lease = await aio.acquire(store, "n", ttl=LIVES)
    over = store.silence()
    task = asyncio.create_task(lease.release())
    await asyncio.sleep(0)  # until it waits for the release, which hangs
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    over.set()
    await soon(lambda: store.holder("n") is None)


def cancels() -> int:
    """Of this task, which Python 3.10 does not count."""
    task: Any = asyncio.current_task()
    return task.cancelling() if sys.version_info >= (3, 11) else 0


async def forever() -> None:
    await asyncio.Event().wait()


async def broken(place: Place, name: str = "n") -> None:
    """By a break, with which others need not wait for the TTL; and waits for the end of the block."""
    await aio.break_lease(place.store, name, "for a test", now=True)
    await asyncio.to_thread(later, LIVES / 3)
    await forever()


@pytest.mark.parametrize("block", ["entered", "acquired", "decorated"])
async def test_a_block_whose_lease_is_broken_is_cancelled_and_raises_the_loss(place: Place, block: str) -> None:
    leasing = aio.lease(place.store, "n", ttl=LIVES, on_loss="cancel", raise_if_lost=block != "acquired")
    with pytest.raises(mopslock.LeaseLost) as caught:
        if block == "decorated":
            await leasing(broken)(place)
        async with leasing if block == "entered" else await leasing.acquire():
            await broken(place)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert cancels() == 0
    await asyncio.sleep(0)  # so this task goes on


async def test_a_permits_and_a_companions_block_are_cancelled(place: Place) -> None:
    lease = await aio.acquire(place.store, "m", ttl=LIVES, protocol=place.protocol)
    written = place.record("m")
    with pytest.raises(mopslock.LeaseReleased):
        async with await aio.accompany(lease.text, store=place.store, on_loss="cancel"):
            if place.protocol == "lastwriter":  # where its first put may land on the release
                await soon(lambda: place.record("m") != written)
            await lease.release()
            await asyncio.to_thread(later, LIVES / 3)
            await forever()
    with pytest.raises(mopslock.LeaseLost):
        async with aio.permit(place.store, "p", capacity=1, ttl=LIVES, on_loss="cancel") as permit:
            permit._stops[0]._ended(mopslock.LeaseUnreachable("its session is lost"))
            await forever()


async def test_work_whose_lease_is_broken_is_cancelled_and_waits_for_anothers_result(place: Place) -> None:
    async def launch(work: aio.Work) -> bytes:
        calls.append(work)
        if len(calls) == 1:
            await broken(place)
        return b"the second time"

    calls: list[aio.Work] = []
    result = await aio.invoke(place.store, "n", launch, ttl=LIVES, protocol=place.protocol, on_loss="cancel")
    assert await result.read() == b"the second time"
    assert cancels() == 0


@pytest.mark.parametrize("order", ["foreign", "foreign, ours", "ours, foreign"])
async def test_another_cancellation_stays_one(place: Place, order: str) -> None:
    async def work() -> None:
        async with aio.lease(place.store, "n", ttl=LIVES, on_loss="cancel") as lease:
            stops.append(lease._stops[0])
            await forever()

    stops: list[Any] = []
    task = asyncio.create_task(work())
    await soon(lambda: stops)
    for who in order.split(", "):
        if who == "ours":
            stops[0]._cancel(mopslock.LeaseExpired("n"))
        else:
            task.cancel()
    ended = await asyncio.gather(task, return_exceptions=True)
    lost_in_ours = order == "ours, foreign" and sys.version_info < (3, 11)
    assert isinstance(ended[0], mopslock.LeaseExpired if lost_in_ours else asyncio.CancelledError)
    await soon(lambda: place.released("n"))


@pytest.mark.parametrize("names", ["o", "i", "oi", "io"])
async def test_of_nested_blocks_the_one_whose_lease_is_lost_raises(place: Place, names: str) -> None:
    ended: dict[str, BaseException] = {}
    with pytest.raises(mopslock.LeaseLost) as caught:
        async with aio.lease(place.store, "o", ttl=LIVES, on_loss="cancel") as outer:
            try:
                async with aio.lease(place.store, "i", ttl=LIVES, on_loss="cancel") as inner:
                    for name in names:
                        (outer if name == "o" else inner)._stops[0]._ended(mopslock.LeaseExpired(name))
                    await forever()
            except BaseException as error:
                ended["i"] = error
                raise
    told = "o" if "o" in names and (sys.version_info >= (3, 11) or names[0] == "o") else "i"
    assert str(caught.value) == told
    assert isinstance(ended["i"], asyncio.CancelledError if told == "o" else mopslock.LeaseExpired)
    assert cancels() == 0
    await soon(lambda: place.released("o") and place.released("i"))


async def test_a_block_that_ends_by_itself_is_not_cancelled_after_it(place: Place) -> None:
    """Though its loss is known already, and its cancellation on its way."""
    for name, raises in (("n", True), ("m", False)):
        with pytest.raises(mopslock.LeaseTaken) if raises else contextlib.nullcontext():
            async with aio.lease(place.store, name, ttl=LIVES, on_loss="cancel", raise_if_lost=raises) as lease:
                place.lose(lease)
        for _ in range(3):
            await asyncio.sleep(0)  # turns of the loop
        assert cancels() == 0
    async with aio.lease(place.store, "k", ttl=LIVES, on_loss="cancel") as lease:
        await lease.release()
        await asyncio.sleep(0)  # a turn of the loop


async def test_what_a_cancelled_block_does_by_itself_counts(place: Place) -> None:
    with pytest.raises(mopslock.LeaseLost):
        async with aio.lease(place.store, "n", ttl=LIVES, on_loss="cancel"):
            with contextlib.suppress(asyncio.CancelledError):
                await broken(place)
    with pytest.raises(ValueError, match="^its own"):
        async with aio.lease(place.store, "m", ttl=LIVES, on_loss="cancel"):
            try:
                await broken(place, "m")
            finally:
                raise ValueError("its own")
    assert cancels() == 0


@pytest.mark.parametrize("looks", ["lost", "hangs", "renewed"])
async def test_a_block_is_cancelled_at_its_deadline_though_nobody_tells(looks: str) -> None:
    """What keeps the lease alive was stopped. The deadline is looked for on the clock, and again if it has moved; one
    that looks for news may wait for long, and the block does not."""

    class Held:
        name, what, guarded, read = "n", "lease", True, 0

        def left_ns(self) -> int:
            self.read += 1
            return 1_000_000 if self.read < 3 or self.read in renewed else 0

        def when_ended(self, tell: Any) -> None:
            self.tell = tell

        def failure(self) -> None:
            if looks == "lost":
                self.tell(mopslock.LeaseUnreachable("told"))
            if looks == "hangs":
                assert ended.wait(SOON)

    renewed = (4, 5) if looks == "renewed" else ()
    held, ended = Held(), threading.Event()
    with pytest.raises(mopslock.LeaseLost) as told, Cancelling(held):  # type: ignore[arg-type]
        await forever()
    ended.set()
    assert told.value.reason == ("unreachable" if looks == "lost" else "expired")
    assert held.read >= (6 if looks == "renewed" else 3)


def test_a_lease_whose_caller_has_given_up_is_released(url: str) -> None:
    host, terms = host_of(url), Terms(ttl=LIVES, protocol="strict")
    assert isinstance(host, KeptHost)
    with mock.patch.object(host.client, "take") as take:  # so that its claim does not hear of it yet
        asked = host.begin_acquire("n", terms, FOREVER, None)
        until(lambda: mopslock.inspect(Directory(url.removeprefix("file://")), "n").held)
        asked.cancel()
        until(lambda: take.call_count)
    with host.client.keeper.lock:
        for call in take.call_args_list:
            host.client.take(*call.args)
    until(lambda: mopslock.inspect(url, "n").state == "released")


async def test_a_loop_that_is_blocked_for_longer_than_the_ttl_loses_no_lease(tmp_path: Path) -> None:
    place = Place.of("own", tmp_path)
    async with aio.lease(place.store, "n", ttl=LIVES) as lease:
        for written in range(place.record("n")["write_count"], 8):
            later(LIVES / 3)
            until(lambda: place.record("n")["write_count"] > written)  # noqa: B023 - in the loop itself
        lease.check()


async def never(_: aio.Work) -> bytes:
    """Work that nobody has to do."""
    raise AssertionError("it was launched")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed_strands_nobody(place: Place) -> None:
    """Neither who works nor who waits: the lease is released, and the next one gets it."""
    loop, begun = asyncio.new_event_loop(), threading.Event()

    async def launch(work: aio.Work) -> bytes:
        begun.set()
        loop.stop()
        await asyncio.Event().wait()
        return b""

    tasks = [
        loop.create_task(aio.invoke(place.store, "n", one, ttl=LIVES, protocol=place.protocol))
        for one in (launch, launch)
    ]
    loop.run_forever()
    assert begun.is_set()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    del tasks, task
    gc.collect()
    result = mopslock.invoke(place.store, "n", lambda work: b"next", wait=SOON, protocol=place.protocol, ttl=LIVES)
    assert result.read() == b"next"


async def test_closing_ends_work_and_all_that_wait_for_it(place: Place) -> None:
    begun, told = asyncio.Event(), list[mopslock.Status]()

    async def launch(work: aio.Work) -> bytes:
        begun.set()
        assert await work.lost.wait(SOON)
        return b"too late"

    def ask(launch: Any) -> asyncio.Task[aio.Result]:
        called = aio.invoke(place.store, "n", launch, ttl=LIVES, protocol=place.protocol, on_waiting=told.append)
        return asyncio.create_task(called)

    asked = [ask(launch)]
    await begun.wait()
    asked += [ask(never) for _ in range(5)]
    await soon(lambda: len(told) >= 5)
    await asyncio.to_thread(mopslock.close, place.store)
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in ended] == [mopslock.Closed] * 6
    assert place.freed("n")


WAITERS = """
import asyncio, collections
from mopslock import aio
from mopslock._own.threads import shared

store, told, threads = {store}, set(), {threads}
shared.workers._most = 1  # one worker, so that threads can be counted

async def never(work):
    raise AssertionError("it was launched")

def ask(number):
    tell, name = lambda _: told.add(number), f"n/{{number % {names}}}"
    call = aio.invoke(store, name, never, ttl=60, protocol="lastwriter", on_waiting=tell)
    return asyncio.create_task(call)

async def main():
    asked = []
    for most in (1, 300):
        asked += [ask(number) for number in range(len(asked), most)]
        while len(told) < most or collections.Counter(one.name for one in threading.enumerate()) != threads:
            await asyncio.sleep(0.01)  # a thread that another one begins may be on its way
        print(most, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("names", [1, 300])
@pytest.mark.parametrize("way", WAYS)
def test_hundreds_of_waiters_are_one_poller(way: str, names: int, tmp_path: Path) -> None:
    """Of one name and of many, whose holders live elsewhere: as many threads as one has, which are those that keep
    them, and that ask the store, or talk to the keeper, or call back. In a process of their own, to count all."""
    with opened(way, tmp_path / "store") as place:
        for number in range(names):
            place.write(f"n/{number}")
        # The opener of the URL, or the one worker; and the one of asyncio's that has made the host.
        kept = {"mopslock-keeper-in": 1, "mopslock-keeper-out": 1}
        ours = kept if way == "url" else {"mopslock-sleeper": 2, "mopslock-watcher": 1}
        threads = dict.fromkeys(("MainThread", "asyncio_0", "mopslock-notifier", "mopslock-store"), 1) | ours
        with program(WAITERS.format(store=place.code, names=names, threads=threads)) as process:
            assert [said(process), said(process)] == ["1", "300"]

"""Work that is done once, for asyncio: no caller is stranded, and a waiter costs no thread."""

from __future__ import annotations

import ast
import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import aio
from ways import SOON, WAYS, Place, opened, program, said, until

TTL = 30


async def never(_: aio.Work) -> bytes:
    """Work that nobody has to do."""
    raise AssertionError("it was launched")


# Nobody is stranded.


async def test_a_cancelled_task_in_launch_releases(place: Place) -> None:
    begun = asyncio.Event()

    async def launch(work: aio.Work) -> bytes:
        begun.set()
        await asyncio.Event().wait()
        return b""

    task = asyncio.create_task(aio.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert place.freed("n")


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
        loop.create_task(aio.invoke(place.store, "n", one, ttl=TTL, protocol=place.protocol))
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
    result = mopslock.invoke(place.store, "n", lambda work: b"next", wait=SOON, protocol=place.protocol, ttl=TTL)
    assert result.read() == b"next"


async def test_cancelling_and_closing_end_all_waits(place: Place) -> None:
    """Each that is cancelled alone; closing all others, and the work."""
    begun = asyncio.Event()

    async def launch(work: aio.Work) -> bytes:
        begun.set()
        assert await work.lost.wait(SOON)
        return b"too late"

    def ask(launch: Any) -> asyncio.Task[aio.Result]:
        called = aio.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol, on_waiting=waiting.append)
        return asyncio.create_task(called)

    waiting: list[mopslock.Status] = []
    first = ask(launch)
    await begun.wait()
    others = [ask(never) for _ in range(10)]
    early = ask(never)
    await asyncio.sleep(0)  # its first step, which is at the next turn of the loop
    early.cancel()
    await asyncio.to_thread(until, lambda: len(waiting) >= 10)
    for one in others[:5]:
        one.cancel()
    cancelled = await asyncio.gather(early, *others[:5], return_exceptions=True)
    assert {type(one) for one in cancelled} == {asyncio.CancelledError}
    await asyncio.to_thread(mopslock.close, place.store)
    ended = await asyncio.gather(first, *others[5:], return_exceptions=True)
    assert [type(one) for one in ended] == [mopslock.Closed] * 6
    assert place.freed("n")


# A waiter costs no thread.

WAITERS = """
import asyncio, collections
from mopslock import aio
from mopslock._own.threads import shared

store, names, told, threads = {store}, {names}, set(), {threads}
if not isinstance(store, str):
    shared.workers._most = 1  # one worker, so that threads can be counted

async def never(work):
    raise AssertionError("it was launched")

def ask(number):
    name, tell = f"n/{{number % names}}", lambda _: told.add(number)
    return asyncio.create_task(aio.invoke(store, name, never, ttl=60, protocol="lastwriter", on_waiting=tell))

def counted():
    return dict(collections.Counter(thread.name for thread in threading.enumerate()))

async def main():
    asked = []
    for most in (1, 300):
        asked += [ask(number) for number in range(len(asked), most)]
        while len(told) < most:
            await asyncio.sleep(0.01)
        patience = 6000
        while counted() != threads and (patience := patience - 1):
            await asyncio.sleep(0.01)  # a thread that another one begins may be on its way
        print(counted(), flush=True)
    for task in asked:
        task.cancel()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    print({{type(one).__name__ for one in ended}}, flush=True)

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
            one, many = ast.literal_eval(said(process)), ast.literal_eval(said(process))
            assert one == many == threads
            assert said(process) == "{'CancelledError'}"

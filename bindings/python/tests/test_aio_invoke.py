"""Work that is done once, for asyncio: nobody is stranded, and who waits costs no thread."""

from __future__ import annotations

import ast
import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _hosts, aio
from mopslock.stores import Memory
from ways import KEPT, SOON, WAYS, Place, opened, program, said

TTL = 30


@pytest.fixture(params=[f"{way}-{kept}" for way in WAYS for kept in KEPT])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    way, _, kept = request.param.partition("-")
    with opened(way, tmp_path / "store", kept) as place:
        yield place


async def never(_: aio.Work) -> bytes:
    """Work that nobody has to do."""
    raise AssertionError("it was launched")


async def until(what: Any) -> None:
    """As that of ways, and lets the loop run."""
    end = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.01)


def freed(place: Place, name: str) -> bool:
    """Whether somebody else could take the lease."""
    return place.path(name).exists() and place.released(name)


# As the package does.


def test_what_launch_returns_is_stored_and_returned(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"of a file")

    async def launch(work: aio.Work) -> bytes:
        assert not await work.lost.wait(0)
        work.check()
        return b"bytes"

    async def by_file(work: aio.Work) -> Path:
        return file

    async def main() -> None:
        result = await aio.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol)
        assert (await result.read(), result.own, await result.failure()) == (b"bytes", True, None)
        assert await (await aio.invoke(place.store, "n", never, protocol=place.protocol)).read() == b"bytes"
        second = await aio.invoke(place.store, "m", by_file, ttl=TTL, protocol=place.protocol)
        with await second.open() as stream:
            assert await asyncio.to_thread(stream.read) == b"of a file"

    asyncio.run(main())


def test_failures(place: Place) -> None:
    async def fails(work: aio.Work) -> bytes:
        raise ValueError("its own")

    async def main() -> None:
        with pytest.raises(ValueError, match="its own"):
            await aio.invoke(place.store, "n", fails, ttl=TTL, protocol=place.protocol)
        assert freed(place, "n")
        with pytest.raises(ValueError, match="its own"):
            await aio.invoke(place.store, "n", fails, ttl=TTL, protocol=place.protocol, memo_failures=True)
        result = await aio.invoke(place.store, "n", never, protocol=place.protocol, memo_failures=True)
        failure = await result.failure()
        assert failure is not None
        assert failure.text == "its own"
        with pytest.raises(mopslock.BadArgument, match="last segment"):
            await aio.invoke(place.store, "lock", never)

    asyncio.run(main())


def test_a_remote(place: Place) -> None:
    texts: list[str] = []

    async def job(work: aio.Work) -> bytes:
        return b"by the remote"

    async def launch(work: aio.Work) -> None:
        texts.append(work.text)
        assert await aio.remote(place.store, work.text, job) is not None

    async def main() -> None:
        result = await aio.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol)
        assert await result.read() == b"by the remote"
        late = await aio.remote(place.store, texts[0], never)
        assert late is not None
        (place.root / "n" / "result").unlink()
        await until(lambda: freed(place, "n"))
        assert await aio.remote(place.store, texts[0], never) is None

    asyncio.run(main())


def test_memoize_and_its_twin_find_each_others_results(place: Place) -> None:
    done: list[int] = []

    @aio.memoize(place.store, ttl=TTL, protocol=place.protocol)
    async def square(n: int) -> int:
        """Squares."""
        done.append(n)
        return n * n

    plain = mopslock.memoize(place.store, name=f"{__name__}.{square.__qualname__}", protocol=place.protocol)(  # type: ignore[attr-defined]
        lambda n: n * n
    )

    async def main() -> None:
        assert not await square.cached(3)
        assert await asyncio.gather(*(square(3) for _ in range(9))) == [9] * 9
        assert await square.cached(n=3)

    asyncio.run(main())
    assert done == [3]
    assert plain.key(3) == square.key(3)
    assert plain.cached(3)
    assert square.__doc__ == "Squares."
    with pytest.raises(TypeError, match=r"mopslock\.memoize"):
        aio.memoize(place.store)(lambda: 1)  # type: ignore[arg-type, return-value]


def test_a_kept_failure_is_raised_to_others() -> None:
    @aio.memoize(Memory(), memo_failures=True)
    async def work() -> int:
        raise ValueError("its own")

    async def main() -> None:
        with pytest.raises(ValueError, match="its own"):
            await work()
        with pytest.raises(mopslock.RememberedFailure, match="its own"):
            await work()

    asyncio.run(main())


# Nobody is stranded.


def test_a_cancelled_task_in_launch_releases(place: Place) -> None:
    async def main() -> None:
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
        assert freed(place, "n")

    asyncio.run(main())


def test_a_cancelled_waiter_waits_no_more(place: Place) -> None:
    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def launch(work: aio.Work) -> bytes:
            begun.set()
            await go.wait()
            return b"done"

        def ask(launch: Any) -> asyncio.Task[aio.Result]:
            return asyncio.create_task(aio.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol))

        first = ask(launch)
        await begun.wait()
        waiting = [ask(never) for _ in range(20)]
        await asyncio.sleep(0)  # each waiter's first step, which is at the next turn of the loop
        for task in waiting[::2]:
            task.cancel()
        go.set()
        ended = await asyncio.gather(first, *waiting, return_exceptions=True)
        assert sum(isinstance(one, asyncio.CancelledError) for one in ended) == 10
        assert {await one.read() for one in ended if isinstance(one, aio.Result)} == {b"done"}

    asyncio.run(main())
    if place.way == "own":
        host: Any = _hosts.host_of(place.store)
        assert wait_for(lambda: not host._claims)


def wait_for(what: Any) -> bool:
    """Whether it is so soon."""
    end = time.monotonic() + SOON
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(what())


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
    loop.run_until_complete(asyncio.sleep(0.05))  # whatever the loop was left with has real time to run
    assert begun.is_set()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    del tasks, task
    gc.collect()
    result = mopslock.invoke(place.store, "n", lambda work: b"next", wait=SOON, protocol=place.protocol, ttl=TTL)
    assert result.read() == b"next"


def test_closing_the_store_ends_all(place: Place) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def launch(work: aio.Work) -> bytes:
            begun.set()
            assert await work.lost.wait(SOON)
            return b"too late"

        def ask(launch: Any) -> asyncio.Task[aio.Result]:
            return asyncio.create_task(aio.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol))

        first = ask(launch)
        await begun.wait()
        others = [ask(never) for _ in range(10)]
        await asyncio.sleep(0.05)  # until the others wait, most likely: before that they end as well
        await asyncio.to_thread(mopslock.close, place.store)
        ended = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(one) for one in ended] == [mopslock.Closed] * 11
        assert freed(place, "n")

    asyncio.run(main())


# Who waits costs no thread.

WAITERS = """
import asyncio, collections, pathlib
from mopslock import aio
from mopslock._keeper import Lane, Workers

root, names = pathlib.Path(sys.argv[1]), int(sys.argv[2])
if sys.argv[3] == "url":
    store = root.as_uri()
else:
    store = mopslock.stores.Directory(root)
    store.lane = Lane(Workers(1), 1)  # one worker, so that threads can be counted
told = set()

async def never(work):
    raise AssertionError("it was launched")

def ask(number):
    name = f"n/{number % names}"
    tell = lambda _: told.add(number)
    return asyncio.create_task(aio.invoke(store, name, never, ttl=60, protocol="lastwriter", on_waiting=tell))

def threads():
    return dict(sorted(collections.Counter(thread.name for thread in threading.enumerate()).items()))

async def main():
    asked, seen = [], []
    for most in (1, 2000):
        asked += [ask(number) for number in range(len(asked), most)]
        while len(told) < most:
            await asyncio.sleep(0.01)
        seen.append(threads())
    print(seen, flush=True)
    mopslock.stores.Directory(root).put("n/0/result", b"there")
    found = await aio.invoke(store, "n/0", never, protocol="lastwriter")
    first = await asyncio.gather(*asked[::names])
    print({one.key for one in first}, flush=True)
    for task in asked:
        task.cancel()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    print(collections.Counter(type(one).__name__ for one in ended), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("names", [1, 2000])
@pytest.mark.parametrize("way", WAYS)
def test_two_thousand_waiters_are_one_poller(way: str, names: int, tmp_path: Path) -> None:
    """Of one name and of many, whose holders live elsewhere: as many threads as one has, which are those that keep
    them, and that ask the store, take the library's events, or call back. In a process of their own, to count all."""
    with opened("own", tmp_path / "store") as place:
        for number in range(names):
            place.write(f"n/{number}")
        code = f"import sys\nsys.argv = ['-c', {str(place.root)!r}, '{names}', {way!r}]\n" + WAITERS
        with program(code, stop=55) as process:
            one, many = ast.literal_eval(said(process))
            assert one == many
            ours = {"mopslock-events": 1} if way == "url" else {"mopslock-keeper": 1}
            # The opener of the URL, or the one worker; and the one of asyncio's that has made the host.
            assert one == {"MainThread": 1, "asyncio_0": 1, "mopslock-notifier": 1, "mopslock-store": 1, **ours}
            assert said(process) == "{'n/0/result'}"
            ended = said(process)
            assert ended == (
                "Counter({'Result': 2000})" if names == 1 else "Counter({'CancelledError': 1999, 'Result': 1})"
            )

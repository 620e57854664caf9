"""A thread, or a task, that would wait for itself is told so at once; one that waits for another is not."""

from __future__ import annotations

import asyncio
import itertools
import queue
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _inside, aio, stores
from mopslock._hosts import _one_url, host_of, known_host
from mopslock._place import place_of
from ways import LIVES, SOON, Place


def asked(place: Place, options: Any = None) -> dict[str, Any]:
    return {"ttl": LIVES, "protocol": place.protocol, **(options or {})}


def enter(place: Place, **options: Any) -> None:
    with place.api.lease(place.store, "n", **asked(place, options)):
        pass


def call(place: Place, **options: Any) -> None:
    place.api.lease(place.store, "n", **asked(place, options))(lambda: None)()


def invoke(place: Place, **options: Any) -> None:
    place.api.invoke(place.store, "n", lambda _: b"", **asked(place, options))


ASKING: list[Callable[..., None]] = [enter, call, invoke]


def test_a_thread_that_would_wait_for_itself_is_told_at_once(place: Place) -> None:
    """In the block of a lease, and in work."""

    def told(ask: Callable[..., None], **wait: Any) -> None:
        with pytest.raises(mopslock.HeldByOneself, match='lease "n".*this thread') as told:
            ask(place, **wait)
        assert isinstance(told.value, mopslock.Held)
        assert isinstance(told.value, RuntimeError)
        assert told.value.reason == "oneself"

    def launch(work: mopslock.Work) -> bytes:
        kept.append(work)
        for ask in ASKING:
            told(ask)
        return b"1"

    kept: list[mopslock.Work] = []
    with mopslock.lease(place.store, "n", **asked(place)) as lease:
        for ask in ASKING:
            told(ask)
            told(ask, wait=SOON)
        lease.check()
    for ask in ASKING[:2]:
        ask(place)
    assert mopslock.invoke(place.store, "n", launch, **asked(place)).read() == b"1"
    for ask in ASKING:
        ask(place)


def test_a_thread_that_enters_what_it_had_acquired_is_told_and_one_that_tries_is_not(place: Place) -> None:
    with mopslock.acquire(place.store, "n", **asked(place)):
        with pytest.raises(mopslock.HeldByOneself):
            enter(place)
        for once in (0, timedelta(0)):
            with pytest.raises(mopslock.Held) as told:
                enter(place, wait=once)
            assert not isinstance(told.value, mopslock.HeldByOneself)
        assert mopslock.try_acquire(place.store, "n", **asked(place)) is None


def test_other_names_stores_and_protocols_are_other_leases(place: Place, tmp_path: Path) -> None:
    (tmp_path / "another").mkdir()
    foreign = {"strict": "lastwriter", "lastwriter": "strict"}[place.protocol]
    with mopslock.lease(place.store, "n", **asked(place)):
        enter(Place.of(place.way, tmp_path / "another"), protocol=place.protocol)
        with mopslock.lease(place.store, "n/m", **asked(place)):
            pass
        _inside.refuse(host_of(place.store), "n", foreign, awaits=False)


def test_one_directory_is_one_store_however_it_is_spelled(tmp_path: Path) -> None:
    """A thread that waits in a block of its lease waits for itself, by whichever object or URL."""
    (tmp_path / "link").symlink_to("real")
    real, link, url = tmp_path / "real", tmp_path / "link", tmp_path.as_uri()
    held: list[Any] = [real.as_uri(), stores.Directory(link)]
    spelled: list[Any] = [f"file://localhost{real}", f"file://{tmp_path}/./real", link, stores.Directory(real)]
    for store, asked in itertools.product(held, [*held, *spelled, stores.Fsspec.of_url(f"file://{link}")]):
        with mopslock.lease(store, "n", ttl=LIVES, protocol="strict"), pytest.raises(mopslock.HeldByOneself):
            mopslock.acquire(asked, "n", ttl=LIVES, wait=SOON, protocol="strict")
    with mopslock.lease(real, "n", ttl=LIVES), mopslock.lease(tmp_path / "another", "n", ttl=LIVES, wait=SOON):
        pass
    assert [host_of(url + "/"), known_host(url + "//"), host_of(tmp_path)] == [host_of(url)] * 3
    mopslock.close(url + "/")
    assert known_host(url) is None
    for other in ["file:///", "file:///C:/", "file:///x?prefix=a/", "s3://bucket/", "mem://"]:
        assert _one_url(other) == other


def test_which_urls_are_of_one_store(tmp_path: Path, checkout: Path) -> None:
    """By the table that Go's store.Place reads as well."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    table = (checkout / "host/store/testdata/places.txt").read_text()
    for line in [line for line in table.splitlines() if not line.startswith("#")]:
        said = line.replace("localhost/D", f"localhost{tmp_path.resolve()}").replace("D/", f"{tmp_path.resolve()}/")
        one, same, other = said.split()
        assert (place_of(one) == place_of(other) != "") == (same == "="), line


def test_what_may_end_meanwhile_may_be_waited_for(place: Place) -> None:
    """It was acquired in this thread, and has not ended when this thread begins to wait; or it has."""
    lease = mopslock.acquire(place.store, "n", **asked(place))
    enter(place, on_waiting=lambda _: lease.release())
    with mopslock.lease(place.store, "n", **asked(place)) as entered:
        entered.release()
        enter(place)


def test_the_lease_of_a_remotes_launcher_may_be_waited_for(place: Place) -> None:
    """The launcher can release it while the remote works."""
    lease = mopslock.acquire(place.store, "n", **asked(place))

    def launch(_: mopslock.Work) -> bytes:
        with pytest.raises(mopslock.MopslockError) as told:  # a slow store may not have answered
            enter(place, wait=0.01)
        assert not isinstance(told.value, mopslock.HeldByOneself)
        return b"1"

    assert place.api.remote(place.store, lease.text, launch).read() == b"1"


def test_a_block_that_is_left_counts_no_more_though_its_lease_lives_on(place: Place) -> None:
    """So it is with work whose lease cannot be given back soon."""
    host = host_of(place.store)
    with mopslock.acquire(place.store, "other", **asked(place)):
        lease = mopslock.acquire(place.store, "n", **asked(place))
        entered = _inside.enter(lease)
        with pytest.raises(mopslock.HeldByOneself):
            _inside.refuse(host, "n", "auto", awaits=False)
        _inside.leave(entered)
        _inside.refuse(host, "n", "auto", awaits=False)
        with pytest.raises(mopslock.HeldByOneself):
            _inside.refuse(host, "other", "auto", awaits=False)
        lease.release()


async def enter_async(place: Place, **options: Any) -> None:
    async with aio.lease(place.store, "n", **asked(place, options)):
        pass


async def invoke_async(place: Place) -> bytes:
    async def launch(_: aio.Work) -> bytes:
        for ask in (enter_async, invoke_async):
            with pytest.raises(mopslock.HeldByOneself, match='lease "n".*this task'):
                await ask(place)
        return b"1"

    return await (await aio.invoke(place.store, "n", launch, **asked(place))).read()


async def test_a_task_that_would_wait_for_itself_is_told_at_once(place: Place) -> None:
    for ask in (enter_async, invoke_async):
        async with aio.lease(place.store, "n", **asked(place)) as lease:
            with pytest.raises(mopslock.HeldByOneself, match='lease "n".*this task'):
                await ask(place)
            with pytest.raises(mopslock.HeldByOneself, match='lease "n".*this thread'):
                enter(place)  # it would block the loop, and with it this task
            lease.check()
        with mopslock.lease(place.store, "n", **asked(place)), pytest.raises(mopslock.HeldByOneself, match="this task"):
            await ask(place)
    assert await invoke_async(place) == b"1"
    await enter_async(place)


async def test_a_task_or_a_thread_that_was_begun_in_the_block_is_another(place: Place) -> None:
    """It inherits the context, and waits for a task that goes on."""
    waits: queue.SimpleQueue[Any] = queue.SimpleQueue()
    async with aio.lease(place.store, "n", **asked(place)):
        other = asyncio.create_task(enter_async(place, on_waiting=waits.put))
        beside = asyncio.create_task(asyncio.to_thread(enter, place, on_waiting=waits.put))
        for _ in range(2):
            await asyncio.to_thread(waits.get, timeout=SOON)
    await asyncio.wait_for(asyncio.gather(other, beside), SOON)

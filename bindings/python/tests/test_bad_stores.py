"""Stores of users on their worst days, slow or silent: none of them strands a caller or costs another its lease.

Whether they come in time is no question here: what must not hang has a minute.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import mopslock
from mopslock import stores
from mopslock._own import verbs
from mopslock._own.clock import System
from mopslock._own.threads import FOR_RENEWALS, MOST_ASKING, MOST_LATE, Lane, Sleeper, Timer
from mopslock._units import FOREVER
from mopslock._workers import Notifier, Workers
from mopslock.terms import Terms
from ways import LIVES, SOON, until
from world import FakeStore, PlainStore, World

# Silence.


def test_no_call_waits_for_a_store_that_is_silent_longer_than_it_was_told() -> None:
    store = FakeStore()
    over = store.silence()
    with ThreadPoolExecutor(3) as pool:
        calls: list[Future[Any]] = [
            pool.submit(lambda: mopslock.acquire(store, "n", ttl=0.5, wait=0.1)),
            pool.submit(lambda: mopslock.inspect(store, "n", timeout=0.05)),
            pool.submit(lambda: list(mopslock.ls(store, timeout=0.05))),
        ]
        assert all(isinstance(call.exception(SOON), (mopslock.Unreachable, mopslock.WaitOver)) for call in calls)
        over.set()


def test_what_is_not_released_in_time_is_tried_on() -> None:
    store = PlainStore()
    lease = mopslock.acquire(store, "n", ttl=30)
    over = store.silence()
    with pytest.raises(mopslock.NotReleased):
        mopslock.close(store, timeout=0.1)
    over.set()
    until(lambda: store.holder("n") is None)
    assert lease.lost


def test_callers_of_a_silent_key_take_no_worker_from_a_lease() -> None:
    store = FakeStore()
    over = store.silence("bad")
    before = [thread.name for thread in threading.enumerate()].count("mopslock-store")
    try:
        for _ in range(40):
            with pytest.raises(mopslock.StoreError):  # Unreachable if it was asked before the time was over
                mopslock.inspect(store, "bad", timeout=0.01)
        mopslock.acquire(store, "good", ttl=LIVES).release()
        assert [thread.name for thread in threading.enumerate()].count("mopslock-store") - before <= 4
    finally:
        over.set()


# What a store raises, and what the logger's handlers do: it is the user's code, and runs when it is looked at.


class Broken(BaseException):
    """What it raises when it is looked at."""


def refuse(*_: Any) -> Any:
    """A property, or a method."""
    raise Broken


def late(_: Any) -> int:
    """Seconds that are no duration."""
    return 10**400


LOOKED_AT: dict[str, dict[str, Any]] = {
    "response": {"response": property(refuse)}, "retry_after": {"retry_after": property(refuse)},
    "overflow": {"retry_after": property(late)}, "headers": {"response": type("", (), {"headers": property(refuse)})()},
    "status": {"status_code": property(refuse)}, "class": {"__class__": property(refuse)}, "str": {"__str__": refuse},
    "bool": {"__bool__": refuse}, "false": {"__len__": lambda _: 0},
    "repr": {"__repr__": refuse}, "getattribute": {"__getattribute__": refuse}, "errno": {"errno": property(refuse)},
}  # fmt: skip


@pytest.mark.parametrize("base", [Exception, OSError, BaseException], ids=lambda base: base.__name__)
@pytest.mark.parametrize("what", LOOKED_AT)
def test_an_exception_that_raises_when_it_is_looked_at_is_unknown(what: str, base: type[BaseException]) -> None:
    """Whatever verb raises it: the request is answered, and its place is free for the next one. By a thread of ours:
    what is no Exception may be an interrupt in the main one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(answers_all_the_same, type("Bad", (base,), LOOKED_AT[what])).result(SOON)


def answers_all_the_same(bad: type[BaseException]) -> None:
    world, error = World(FakeStore()), bad()
    host, lives = world.host(), world.lease(name="lives")
    refused = host.begin_acquire("n", Terms(), FOREVER, None)
    world.store.fail(error)
    failed = world.error(refused)
    assert isinstance(failed, mopslock.StoreError)
    assert failed.__cause__ is not None
    for lane in host.client.threads._lanes:  # type: ignore[attr-defined]
        assert not lane._asking
        assert not lane._held_back
    assert not host.client._under_way
    world.store.mend()
    assert world.lease(host).failure() is lives.failure() is None
    for verb in (*verbs.VERBS, "exists"):
        world.store.fail(error, verb)
        action = {"kind": verb, "request": 1, "key": "k", "body": b"", "count": 1}
        answer, cause = verbs.attempt(world.store, action, None)
        assert answer["outcome"] == "unknown"
        assert str(cause) is not None
    if issubclass(bad, Exception):  # that of the caller's own thread is the caller's
        world.store.fail(error)
        with pytest.raises(mopslock.StoreError):
            host.open_object("k")


def test_a_handler_of_the_logger_that_raises_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    given: list[logging.LogRecord] = []

    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            given.append(record)
            raise Broken

    handler, workers, sleeper, told = Raising(), Workers(1), Sleeper(Workers().submit), Notifier()
    logging.getLogger("mopslock").addHandler(handler)
    try:
        with caplog.at_level(logging.DEBUG, "mopslock"):
            jobs: list[Callable[[Any], object]] = [
                workers.submit, told.call, lambda end: sleeper.expect(Timer(System(), 0, end)),
            ]  # fmt: skip
            for give in jobs:
                over = threading.Event()
                for end in (refuse, over.set):
                    give(end)
                assert over.wait(SOON)
            store = FakeStore()
            store.fail(OSError())
            with pytest.raises(mopslock.StoreError):
                mopslock.acquire(store, "n")
        assert len(given) >= 4
    finally:
        logging.getLogger("mopslock").removeHandler(handler)


def test_a_store_whose_attributes_raise_strands_no_caller() -> None:
    """They are looked at by a thread of ours, once the caller waits."""
    store = type("Store", (FakeStore,), {"stamp_unit_ns": "a second"})()
    with pytest.raises(mopslock.EngineFailed, match="ValueError"):
        mopslock.acquire(store, "n")


def test_what_is_no_time_and_no_duration_is_refused_or_unknown() -> None:
    store = PlainStore()
    for duration in (1e300, 10**400):
        with mopslock.lease(store, "n", wait=duration):
            pass
    for url in ("file:///tmp\0/elsewhere", "file:///tmp/\udc80"):
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire(url, "n")
    stamps: list[Any] = [None, -1, 1 << 63, 10**30, "noon"]
    store.get = lambda key: stores.Blob(b"{}", stamps[0])  # type: ignore[method-assign, return-value, assignment]
    assert mopslock.inspect(store, "n").state == "corrupt"
    while len(stamps) > 1:
        stamps.pop(0)
        with pytest.raises(mopslock.StoreError):
            mopslock.inspect(store, "n", timeout=0.1)


# The threads of one store.


class Asked:
    """A request, as a lane sees it."""

    def __init__(self, key: str, *, renews: bool = False) -> None:
        self.key, self.renews, self.late = key, renews, False

    def perform(self) -> None:
        """Nobody asks this of it."""
        raise AssertionError


def test_a_third_request_of_a_key_whose_two_others_hang_waits_for_one_of_them() -> None:
    """A request hangs when it was answered for the store, which is still at it."""
    lane, bad = Lane(), [Asked("bad") for _ in range(MOST_LATE + 2)]
    hanging, third, fourth = bad[:MOST_LATE], bad[-2], bad[-1]
    for request in hanging:
        assert lane.take(request)
        lane.overdue(request)
    assert not lane.take(third)
    assert not lane.take(fourth)
    good = Asked("good")
    assert lane.take(good)
    assert lane.leave(good) is None
    lane.overdue(third)  # it has waited too long
    assert lane.leave(hanging[0]) is fourth
    assert lane.leave(hanging[1]) is lane.leave(fourth) is None
    assert not lane._asking
    assert not lane._late


def test_no_more_than_so_many_are_asked_at_once_and_the_others_in_their_order() -> None:
    """Renewals have a quarter for themselves, whatever hangs."""
    most = MOST_ASKING - FOR_RENEWALS
    lane, asked = Lane(), [Asked(str(number)) for number in range(most + 2)]
    assert [lane.take(request) for request in asked] == [True] * most + [False] * 2
    renewals = [Asked(f"beat {number}", renews=True) for number in range(FOR_RENEWALS + 1)]
    assert [lane.take(request) for request in renewals] == [True] * FOR_RENEWALS + [False]
    assert [lane.leave(request) for request in asked[:2]] == [renewals[-1], None]
    assert [lane.leave(request) for request in renewals[:-1]] == [None] * (FOR_RENEWALS - 1) + [asked[-2]]

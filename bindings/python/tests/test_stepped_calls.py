"""Closing a host, acquiring on the caller's own thread, and reading what is there, on a clock of ours."""

from __future__ import annotations

import pytest

from mopslock import errors, stores
from mopslock._duration import FOREVER, SECOND
from mopslock._member import Handle
from mopslock.terms import Terms
from world import ACQUIRE, LATENCY, RENEW, TTL, FaultyStore, Host, World, claim, seconds, stamp

# Closing.


def test_close_releases_everything_at_once(world: World) -> None:
    host = world.host()
    leases = [world.lease(host, f"n{i}") for i in range(5)]
    world.lease(world.host(), "other")
    waiter = host.begin_acquire("other", Terms(), FOREVER, None)
    world.run(2)
    world.store.asked()
    begun = world.clock.now
    assert world.close(host, 5) is None
    assert [world.store.holder(f"n{i}") for i in range(5)] == [None] * 5
    assert all(isinstance(lease.failure(), errors.LeaseEnded) for lease in leases)
    assert isinstance(waiter.exception(0), errors.Closed)
    assert world.store.log.count("put") == 5
    assert seconds(world.clock.now - begun) < 5


def test_close_says_what_it_could_not_release(world: World) -> None:
    host = world.host()
    lease = world.lease(host)
    world.hold()
    error = world.close(host, 0.05)
    assert isinstance(error, errors.NotReleased)
    assert "1 of 1" in str(error)
    assert lease.failure() is not None


def test_a_closed_host_takes_no_more(world: World) -> None:
    host = world.host()
    assert world.close(host, 1) is None
    with pytest.raises(errors.Closed):
        host.begin_acquire("n", Terms(), FOREVER, None)
    assert world.store.log == []


def test_what_was_not_begun_when_it_was_closed_is_closed(world: World) -> None:
    host = world.host()
    future = host.begin_acquire("n", Terms(), FOREVER, None)
    assert world.close(host, 1) is None
    assert isinstance(future.exception(0), errors.MopslockError)
    assert world.store.holder("n") is None


# On the caller's own thread.


@pytest.fixture
def slept(world: World, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleeps of the caller's thread: fake time passes instead."""
    naps: list[float] = []

    def sleep(ns: int) -> None:
        naps.append(ns / SECOND)
        world.clock.now += ns

    monkeypatch.setattr(world.clock, "sleep", sleep)
    return naps


def test_acquiring_costs_the_same_on_the_callers_thread(world: World, slept: list[float]) -> None:
    host = world.host()
    lease = host.acquire("n", Terms(acquire_margin=0.5), FOREVER, None)
    assert world.store.asked() == ACQUIRE
    assert slept == [0.5]
    world.run(100)
    assert world.store.asked() == ["get", *RENEW * 3]
    world.result(lease.finish())
    assert world.store.holder("n") is None


def test_trying_on_the_callers_thread_is_refused(world: World, slept: list[float]) -> None:
    world.store.write("n", world.clock.wall())
    with pytest.raises(errors.Held):
        world.host().acquire("n", Terms(), 0, None)
    assert slept == []
    assert world.hosts[0]._claims == set()


@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("when", ["fault", "after"])
def test_whatever_interrupts_the_caller_leaves_nothing_held(
    world: World, slept: list[float], nth: int, when: str
) -> None:
    """^C at any request, before it was applied or after."""
    count = 0

    def interrupt(_: str, __: str) -> None:
        nonlocal count
        count += 1
        if count == nth + 1:
            raise KeyboardInterrupt

    setattr(world.store, when, interrupt)
    host = world.host()
    with pytest.raises(KeyboardInterrupt):
        host.acquire("n", Terms(), FOREVER, None)
    world.run(10)
    assert world.store.holder("n") is None
    assert host._claims == set()


def test_an_answer_past_its_limit_is_unknown_on_the_callers_thread(world: World, slept: list[float]) -> None:
    def slow(_: str, __: str) -> None:
        world.clock.now += 20 * SECOND

    world.store.fault = slow
    with pytest.raises(errors.Unreachable):
        world.host().acquire("n", Terms(), FOREVER, None)
    assert "put" not in world.store.log


# Reading.


def test_reading_is_one_get(world: World) -> None:
    lease = world.lease()
    world.run(2)
    world.store.asked()
    status = world.host().inspect("n", SECOND)
    assert world.store.asked() == ["get"]
    assert (status.state, status.holder, status.ttl, status.companion) == ("held", lease.holder, TTL, False)
    assert status.age == pytest.approx(2 + 2 * LATENCY / SECOND, abs=0.05)
    assert status.left == pytest.approx(TTL - status.age)
    assert status.held


@pytest.mark.parametrize("state", ["vacant", "released", "stale", "corrupt"])
def test_reading_says_every_state(world: World, state: str) -> None:
    wall = world.clock.wall()
    if state == "released":
        world.store.write("n", wall, written_at="", released_at=stamp(wall))
    elif state == "stale":
        world.store.write("n", wall - 100 * SECOND)
    elif state == "corrupt":
        world.store.objects["n/lock.json"] = b"{"
    status = world.host().inspect("n", SECOND)
    assert status.state == state
    assert status.held == (state == "corrupt")


@pytest.mark.parametrize("ttl", [0.05, 30.0, 88.0, 86_400.0 * 30])
def test_reading_says_every_ttl(world: World, ttl: float) -> None:
    world.store.write("n", world.clock.wall(), expire_s=ttl)
    status = world.host().inspect("n", SECOND)
    assert (status.state, status.ttl, status.holder) == ("held", ttl, "thief")


def test_a_store_that_cannot_be_read_says_why(world: World) -> None:
    world.store.fail(errors.Unauthorized("no key"))
    with pytest.raises(errors.Unauthorized, match="no key"):
        world.host().inspect("n", SECOND)
    assert world.store.asked() == ["get"]


def test_a_list_has_leases_and_nothing_else(world: World) -> None:
    memory = stores.Memory()
    wall = world.clock.wall()
    for name in ("b/1", "a", "b/2", "gone"):
        world.store.write(name, wall)
    world.store.write("gone", wall, written_at="", released_at=stamp(wall))
    for key, body in world.store.objects.items():
        memory.put(key, body)
    memory.put("b/result", b"1")
    memory.put("lock.json", b"{}")
    memory.put("bad name /lock.json", b"{}")
    host = world.host(memory)
    assert [(status.name, status.state) for status in host.list("", SECOND)] == [
        ("a", "held"), ("b/1", "held"), ("b/2", "held"), ("gone", "released"),
    ]  # fmt: skip
    assert [status.name for status in host.list("b/", SECOND)] == ["b/1", "b/2"]
    with pytest.raises(errors.BadArgument, match="has no verb list"):
        next(world.host().list("", SECOND))


@pytest.mark.parametrize("bad", ["", "a//b", "/a", "a/", ".", "a/../b", "x" * 201, "a\nb", "lock.json", "a ", "\ud800"])
def test_bad_names_are_refused_before_any_request(world: World, bad: str) -> None:
    host = world.host()
    for ask in (
        lambda: host.begin_acquire(bad, Terms(), 0, None),
        lambda: host.acquire(bad, Terms(), 0, None),
        lambda: host.inspect(bad, SECOND),
    ):
        with pytest.raises(errors.BadArgument):
            ask()
    assert world.store.log == []
    assert host._claims == set()


def test_a_printed_lease_is_released_by_its_holders_id(world: World) -> None:
    lease = world.lease()
    other = world.host()
    world.result(other.begin_release("n", lease.holder, {"ttl_ns": lease.ttl_ns}))
    assert world.store.holder("n") is None
    world.run(40)
    assert isinstance(lease.failure(), errors.LeaseReleased)


def test_the_handle_of_a_lease_is_what_its_companion_needs(world: World) -> None:
    lease = world.lease()
    handle = lease.handle()
    assert Handle.parse(handle.text()) == handle
    assert (handle.name, handle.holder, handle.ttl_ns) == ("n", lease.holder, lease.ttl_ns)
    assert world.store.record("n")["first_acquired_at"] == stamp(lease.acquired_ns)
    assert stamp(lease.acquired_ns) in handle.text()


def test_many_leases_on_one_host(world: World) -> None:
    """On a store whose every seventh request fails: all are held an hour later."""
    host = world.host()
    leases = [claim(world.result(host.begin_acquire(f"n{i}", Terms(), FOREVER, None))) for i in range(40)]
    count = 0

    def fault(_: str, __: str) -> None:
        nonlocal count
        count += 1
        if count % 7 == 0:
            raise ConnectionError

    world.store.fault = fault
    world.run(3600)
    assert [lease.failure() for lease in leases] == [None] * 40


def test_hosts_name_their_store(world: World) -> None:
    class Named(FaultyStore):
        url = "s3://bucket/locks"

    assert Host(world, Named()).url == "s3://bucket/locks"
    assert "FaultyStore" in world.host().url

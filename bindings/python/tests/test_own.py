"""What a host that Python steps asks of its store, what ends a lease, and how it waits; and what it does when it is
closed, when its caller is interrupted, or when its store fails or hangs: on a clock of ours.

The rules are the core's, and proved there. These tests prove that the host carries them out and says so.
"""

from __future__ import annotations

import pytest

from mopslock import errors
from mopslock._files import limit
from mopslock._own import client
from mopslock._own.claims import Lease, Look, Permit
from mopslock._own.client import Client
from mopslock._own.clock import Clock, System
from mopslock._own.host import OwnHost
from mopslock._own.threads import Lane, Sleeper
from mopslock._units import FOREVER, SECOND
from mopslock._workers import Do
from mopslock.stores import Memory
from mopslock.terms import PermitRequest, Terms
from world import ACQUIRE, LATENCY, MARGIN, RELEASE, RENEW, TTL, FakeStore, Host, World, claim, seconds, stamp

pytestmark = pytest.mark.usefixtures("engine")

# What is asked for, and when.


def test_a_lease_costs_so_many_requests_and_no_more(world: World) -> None:
    """Four to acquire, one to look once more, two for each renewal, two to release."""
    host = world.host()
    lease = world.lease(host)
    assert lease.left_ns() == round((TTL - MARGIN) * SECOND) - LATENCY  # counted from before the write was sent
    assert world.store.asked() == ACQUIRE
    world.run(2)
    assert world.store.asked() == ["get"]
    world.run(300)
    assert world.store.asked() == RENEW * 10
    over = lease.finish()
    assert lease.finish() is over
    assert isinstance(lease.failure(), errors.LeaseEnded), "before anything is written that lets others in"
    assert (lease.left_ns() <= 0, over.done(), world.store.log) == (True, False, [])
    world.result(over)
    assert world.store.asked() == RELEASE
    world.run(300)
    assert world.store.asked() == []
    assert world.store.holder("n") is None
    assert (host.client.claims, world.next()) == ({}, 1 << 62), "nothing is left of it"


def test_a_number_is_given_once(world: World) -> None:
    """A look that cannot begin is cancelled all the same, and nothing that came between."""
    host = world.host()
    look = Look(host.client, "a//b")
    host.begin(look, "look", {"name": "a//b"})
    lease = world.lease(host)
    host.client.command(look, "cancel")
    world.run(1)
    assert isinstance(world.error(look.future), errors.BadArgument)
    assert (lease.failure(), world.store.holder("n")) == (None, lease.holder)


@pytest.mark.parametrize("able", [True, False])
def test_who_waits_where_changes_are_told_looks_when_one_is(world: World, able: bool) -> None:
    """Where nothing can be watched it looks now and then."""
    told: list[tuple[str, Do]] = []

    def watch(key: str, changed: Do) -> Do:
        if not able:
            raise OSError("no watches left")
        told.append(begun := (key, changed))
        return lambda: told.remove(begun)

    def tell() -> None:
        for _, changed in [*told]:
            changed()

    world.store.watch = watch  # type: ignore[attr-defined]
    held, host = world.lease(), world.host()
    waiting = host.begin_acquire("n", Terms(), FOREVER, None)
    world.run(60, lambda: bool(told))
    assert (bool(told), all(key.startswith("n/") for key, _ in told)) == (able, True)
    world.run(0.2)
    world.store.asked()
    tell()
    world.run(0.05)
    assert bool(world.store.asked()) == able
    world.result(held.finish())
    tell()
    released = world.clock.now
    lease, late = claim(world.result(waiting, 60)), [*told]
    assert (world.clock.now - released < SECOND // 10) == able
    world.result(lease.finish())
    world.settle()
    assert told == [], "who waits for nothing watches nothing"
    for _, changed in late:
        changed()
    world.run(5)
    assert host.client.claims == {}


def test_who_holds_watches_nothing_and_who_waits_does() -> None:
    """A watch may cost a thread, which would delay renewals."""
    store, watched, strict = FakeStore(), set[str](), Terms(protocol="strict")

    def watch(key: str, _: Do) -> Do:
        watched.add(key)
        return lambda: watched.remove(key)

    store.watch = watch  # type: ignore[attr-defined]
    world = World(store)
    host = world.host()
    world.lease(host, terms=strict)
    world.run(30)
    assert not watched
    waiting = host.begin_acquire("n", strict, FOREVER, None)
    world.run(30)
    assert watched
    waiting.cancel()
    world.run(30)
    assert not watched


# What ends a lease.


def fail_engine(host: Host) -> None:
    """As a machine that is broken, or gone."""
    host.client.post(lambda: host.client._step({"kind": "answer", "request": 99, "outcome": "yes"}))
    host.client.turn()


def test_an_engine_that_fails_ends_its_claims_and_a_new_one_takes_others(world: World) -> None:
    """Nobody renews or releases what was held, which expires as that of a dead process."""
    host = world.host()
    lease = world.lease(host)
    world.run(2)
    world.store.asked()
    fail_engine(host)
    assert lease.failure() is None  # its deadline stands
    begun = world.clock.now
    held = world.lease(host)
    assert isinstance(lease.failure(), errors.LeaseUnreachable)
    assert lease.left_ns() <= 0
    assert held.holder != lease.holder
    assert seconds(world.clock.now - begun) > TTL - 5
    world.run(100)
    assert held.failure() is None


def test_what_the_store_answers_to_an_engine_that_has_failed_is_told_to_no_other(world: World) -> None:
    world.lease(name="n")
    host = world.host()
    world.hold()
    old = [host.begin_acquire(name, Terms(), FOREVER, None) for name in ("free", "idle", "vacant")]
    world.settle()
    fail_engine(host)
    assert [type(one.exception()) for one in old] == [errors.EngineFailed] * 3
    tried = host.begin_acquire("n", Terms(), 0, None)
    world.settle()
    world.invalidate()
    assert isinstance(world.error(tried), errors.Held)


def test_an_engine_that_fails_has_no_session_and_is_closed(world: World) -> None:
    host = world.host(FakeStore())
    world.lease(host, terms=Terms(protocol="strict", session=True))
    assert host.client.sessions
    host.client.closing = True
    fail_engine(host)
    assert not host.client.sessions
    assert host.client.closed.done()


def test_unreachable(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """While the store fails it is believed until its deadline, to the nanosecond, and not after."""
    lease = world.lease()
    world.run(2)
    world.store.fail(ConnectionError())
    world.run(seconds(lease.left_ns()) - 1e-9)
    assert (lease.failure(), lease.left_ns()) == (None, 1)
    world.run(1e-9)
    assert isinstance(lease.failure(), errors.LeaseUnreachable)
    assert caplog.text.count(str(lease.failure())) == 1
    world.store.asked()
    world.store.mend()
    world.run(200)
    assert world.store.asked() == []


def test_past_its_deadline_a_lease_is_lost_though_its_event_loop_never_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for good: a renewal that was applied in time, but is heard of only then, changes nothing."""
    monkeypatch.setattr(client, "LOOK", 0.0)
    lease = world.lease()
    host = world.hosts[0]

    def stop(verb: str, _: str) -> None:
        host.paused = verb == "put"

    world.store.after = stop
    world.run(40, lambda: host.paused)
    world.store.mend()
    world.run(seconds(lease.left_ns()) - 1e-9)
    assert lease.failure() is None
    world.run(1e-9)
    lost = lease.failure()
    assert isinstance(lost, errors.LeaseExpired)
    assert lease.left_ns() <= 0
    host.paused = False
    world.store.asked()
    world.run(300)
    assert lease.failure() is lost
    assert world.store.asked() == []


def test_a_companion_that_loses_contact_tries_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It is not lost, only not to be relied on; and once there is contact again it is, until a release."""
    lease = world.lease()
    companion = world.result(world.host().begin_accompany(lease.handle(), Terms()))
    world.store.fail(ConnectionError())
    world.run(200)
    assert isinstance(lease.failure(), errors.LeaseUnreachable)
    assert companion.failure() is None
    assert companion.left_ns() < 0
    assert [record.message for record in caplog.records if "trying on" in record.message] == [
        'mopslock: lease "n": the store cannot be reached; trying on'
    ]
    world.store.mend()
    world.run(60)
    assert companion.failure() is None
    assert companion.left_ns() > 0
    now = world.clock.wall()
    world.store.write("n", now, **{**world.store.record("n"), "released_at": stamp(now)})
    world.run(40)
    assert isinstance(companion.failure(), errors.LeaseReleased)


# Closing.


@pytest.mark.parametrize("when", ["fault", "after"])
@pytest.mark.parametrize("nth", range(4))
def test_whatever_a_store_raises_as_it_is_acquired_leaves_nothing_held(world: World, nth: int, when: str) -> None:
    """^C ends the caller alone: its thread asks no store."""
    count = 0

    def interrupt(_: str, __: str) -> None:
        nonlocal count
        count += 1
        if count == nth + 1:
            future.cancel()
            raise KeyboardInterrupt

    setattr(world.store, when, interrupt)
    host = world.host()
    future = host.begin_acquire("n", Terms(), FOREVER, None)
    world.run(60)
    assert world.store.holder("n") is None
    assert host.client.claims == {}


def test_an_answer_past_its_limit_is_unknown(world: World) -> None:
    def slow(_: str, __: str) -> None:
        world.clock.now += 20 * SECOND

    world.store.fault = slow
    assert isinstance(world.error(world.host().begin_acquire("n", Terms(), FOREVER, None)), errors.Unreachable)
    assert "put" not in world.store.log


# What the client does for every store.


class AtOnce:
    """Threads that are done before the caller goes on."""

    naps = True
    sleeper = Sleeper(NotImplemented)

    def __init__(self) -> None:
        self._lanes = Lane(), Lane()

    def soon(self, job: Do) -> None:
        job()

    def expect(self, waits: Client) -> None:
        """Notes it as a sleeper does, and waits for nothing."""
        waits.expected = waits.due()

    def lane(self, *, transfer: bool) -> Lane:
        return self._lanes[transfer]


def test_the_callers_future_has_the_lease_however_soon_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease lets go of that future then."""
    monkeypatch.setattr(client, "NAP", SECOND)  # nobody else wakes it
    store = Memory()
    host = OwnHost(store, Client(store, System(), AtOnce()))
    lease = host.begin_acquire("n", Terms(protocol="lastwriter"), 0, None).result()
    joined = host.begin_accompany(lease.handle(), Terms()).result()
    permit = host.begin_permit("p", Terms(protocol="strict"), PermitRequest(1), 0, None).result()
    assert [type(one) for one in (lease, joined, permit)] == [Lease, Lease, Permit]
    host.set_limit("p", 3, SECOND)
    host.close(SECOND)


class Wakes:
    """A core's client that asks for nothing but to be woken, so many nanoseconds later each time."""

    def __init__(self, clock: Clock, *after: int) -> None:
        self.clock, self.after = clock, list(after)
        self.stepped: list[int] = []

    def step(self, _: object) -> list[dict[str, object]]:
        self.stepped.append(self.clock.mono())
        return [{"kind": "wake", "at_ns": self.clock.mono() + self.after.pop(0)}]

    def drop(self) -> None: ...


def test_who_naps_goes_on_until_the_sleeper_is_told_of_the_next_moment(world: World) -> None:
    """Otherwise nobody steps a client again whose moments come in quick succession. It hears others meanwhile."""
    clock, near, far = world.clock, client.NAP // 2, 60 * SECOND
    stepped = Client(Memory(), clock, AtOnce())
    wakes, begin, heard = Wakes(clock, near, near, near, far), clock.now, list[int]()
    stepped._machine = wakes  # type: ignore[assignment]

    def sleep(ns: int) -> None:
        clock.now += ns
        assert not stepped._stepping.locked()
        stepped._called = True  # a thread is on its way, and this one is here first
        stepped.post(lambda: heard.append(clock.now))

    clock.sleep = sleep  # type: ignore[method-assign]
    stepped.post(lambda: stepped._step(client.WOKE))
    assert wakes.stepped == [begin + number * near for number in range(4)]
    assert heard == wakes.stepped[1:]
    assert stepped.expected == begin + 3 * near + far
    assert clock.now == begin + 3 * near


# Stores that fail, hang, or have nonsense in them.


def test_a_request_that_is_never_answered_is_unknown_at_its_limit(world: World) -> None:
    """And asked for again, with two under way at most; the answers that come at last change nothing, nor does one that
    comes while the next request is under way: that has a limit of its own."""
    lease, host = world.lease(), world.host()
    world.run(2)
    world.hold()
    assert world.held is not None
    future = host.begin_acquire("m", Terms(), FOREVER, None)
    world.run(5.1)
    assert type(future.exception()) is errors.Unreachable
    asked = len(world.held)
    world.run(30, lambda: len(world.held or ()) > asked)
    begun = world.clock.now
    world.run(20, lambda: len(world.held or ()) > asked + 1)
    assert 10 <= seconds(world.clock.now - begun) <= 12
    world.held.pop(asked)()
    world.run(20, lambda: len(world.held or ()) > asked + 1)
    assert 20 <= seconds(world.clock.now - begun) <= 24
    world.run(15)
    assert len(world.held) == asked + 2
    world.invalidate()
    world.run(30)
    assert world.store.holder("m") is None
    assert lease.failure() is None
    assert seconds(lease.left_ns()) > TTL - MARGIN - TTL / 3


def test_a_holder_that_was_held_up_hears_the_answer_for_three_limits(world: World) -> None:
    """By a C call that keeps the GIL, say: nobody looked at the limit in time, and what comes then counts from when it
    was sent. A store that hangs is given up all the same, once a thread looks in time."""
    lease = world.lease(terms=Terms(protocol="lastwriter", ttl=12, fleet_expire="none"))
    world.run(2)
    sent = []

    def hold_up(verb: str, _: str) -> None:
        sent.append(world.clock.now - LATENCY)
        if verb == "put":
            world.store.mend()
        world.jump(3)
        world.settle()

    world.store.asked()
    world.store.fault = hold_up
    world.run(12, lambda: len(sent) == 2)
    world.settle()
    assert world.store.asked() == RENEW, "nothing is asked for twice"
    assert lease.failure() is None
    assert lease.until() == sent[1] + round(0.9 * 12 * SECOND)
    world.hold()
    world.run(12, lambda: bool(world.held))
    world.jump(2.5)
    world.settle()
    world.run(2)
    assert len(world.held or ()) == 1
    world.run(2, lambda: len(world.held or ()) == 2)
    assert len(world.held or ()) == 2
    assert lease.failure() is None


def test_a_read_is_begun_however_late_a_thread_comes_to_it(world: World) -> None:
    """Unlike a write, which by then could fall on another's."""
    lease = world.lease(terms=Terms(protocol="lastwriter", ttl=12, fleet_expire="none"))
    world.run(2)
    world.store.asked()
    world.hold()
    world.run(12, lambda: bool(world.held))
    world.jump(2.5)
    world.invalidate()
    assert world.store.asked() == RENEW[:1]
    world.run(1)
    assert world.store.asked() == RENEW[1:]
    assert lease.failure() is None


def test_a_host_that_stays_held_up_waits_no_longer_than_three_limits(world: World) -> None:
    world.store.write("n", world.clock.wall(), expire_s=1000.0)
    world.host().begin_acquire("n", Terms(), FOREVER, None)
    world.run(30)
    world.hold()
    world.run(10, lambda: bool(world.held))
    assert world.held is not None
    for late in (10, 11, 8):
        world.jump(late)
        world.settle()
    assert len(world.held) == 1
    world.jump(1.1)
    world.run(10)
    assert len(world.held) == 2


def test_a_put_that_has_waited_past_its_limit_is_never_begun(world: World) -> None:
    """By then the name may be another's, though nobody had the time to give it up."""
    lease = world.lease()
    world.run(2)
    world.store.after = lambda _, __: world.hold()
    world.run(32)
    assert len(world.held or ()) == 1
    before = dict(world.store.objects)
    world.store.mend()
    world.store.asked()
    world.jump(10.1)
    world.invalidate()
    assert (world.store.asked(), world.store.objects) == ([], before)
    world.run(5)
    assert world.store.asked() == RENEW
    assert lease.failure() is None


@pytest.mark.parametrize("renews", [True, False])
def test_a_renewal_that_was_begun_may_be_applied_for_three_limits_and_a_claim_for_one(
    world: World, renews: bool
) -> None:  # fmt: skip
    """So long its claim lasts. A store asks right before it applies a write, however long C calls held it up."""
    if renews:
        world.lease()
        world.run(2)
    over: list[bool] = []

    def hold_up(verb: str, _: str) -> None:
        if verb == "put" and not over:
            for passes in (9.9, 0.2, 19.7, 0.2):
                world.jump(passes)
                over.append(limit.over is not None and limit.over())

    world.store.fault = hold_up
    if not renews:
        world.host().begin_acquire("n", Terms(protocol="lastwriter"), FOREVER, None)
    world.run(35, lambda: bool(over))
    assert over == ([False, False, False, True] if renews else [False, True, True, True])


def test_what_the_core_warns_of_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Another TTL, once, which brings the deadline nearer; and a corrupt record that is taken, by its key."""
    lease = world.lease()
    by_companion = {"expire_s": 30.0, "write_count": 3, "written_at": stamp(world.clock.wall())}
    world.store.write("n", world.clock.wall(), **{**world.store.record("n"), **by_companion})
    world.run(2)
    assert seconds(lease.left_ns()) <= 0.9 * 30
    world.run(100)
    assert lease.failure() is None
    world.store.objects["m/lock.json"] = b"{"
    error = world.error(world.host().begin_acquire("m", Terms(), 0, None))
    assert isinstance(error, errors.Held)
    assert error.seen
    assert error.seen.state == "corrupt"
    world.lease(name="m")
    assert [r.getMessage() for r in caplog.records if "create-if-absent" not in r.msg] == [
        'mopslock: lease "n": the record has a TTL of 30 s, ours is 88 s; everybody on a name should use one',
        'mopslock: lease "m": corrupt_taken of m/lock.json',
    ]


def test_an_outage_is_logged_as_the_core_tells_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Once, with what has failed, and its end."""
    caplog.set_level("INFO", "mopslock")
    lease = world.lease()
    world.run(2)
    world.store.fail(ConnectionError())
    world.run(60)
    world.store.mend()
    world.run(15)
    assert lease.failure() is None
    said = [r.getMessage().replace(lease.store, "it") for r in caplog.records if r.levelname == "INFO"]
    assert said == [
        "mopslock: it fails: 3 requests in a row, the last a get (unreachable)",
        "mopslock: it answers again, after 14 failed requests in 39.7 s",
    ]

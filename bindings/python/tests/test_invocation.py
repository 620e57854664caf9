"""Calls of a piece of work on a store of one's own, on a clock of ours: requests, waits, losses, and who is woken."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from mopslock import errors
from mopslock._duration import FOREVER
from mopslock._invocation import Invocation
from mopslock._member import Handle, Member
from mopslock._ongoing import Begin, Found, Turn, Wanted, give_up
from mopslock.terms import Terms
from world import FaultyStore, Host, World

KEPT = ("strict", "lastwriter")
Words = list[str]


class Store(FaultyStore):
    """With all verbs, and a log of which key each was for: ``create n/result``."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: Words = []

    def _note(self, verb: str, key: str) -> None:
        self.keys.append(f"{verb} {key}")

    def get(self, key: str) -> bytes | None:
        """As ever."""
        self._note("get", key)
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        """As ever."""
        self._note("put", key)
        super().put(key, body)

    def exists(self, key: str) -> bool:
        """With faults."""
        self._note("exists", key)
        self.fault("exists", key)
        return super().exists(key)

    def create(self, key: str, body: bytes) -> bool:
        """One wins."""
        self._note("create", key)
        self.fault("create", key)
        made = key not in self.objects
        self.objects.setdefault(key, bytes(body))
        self.after("create", key)
        return made

    def delete(self, key: str) -> None:
        """It is gone."""
        self._note("delete", key)
        self.objects.pop(key, None)

    def list(self, prefix: str) -> Words:
        """At any depth."""
        self._note("list", prefix)
        self.fault("list", prefix)
        return [key for key in self.objects if key.startswith(prefix)]

    def heard(self, name: str = "n") -> Words:
        """What was asked since the last time about a name, in words."""
        said, self.keys = self.keys, []
        register, words = f"{name}/_mopslock/", []
        for line in said:
            verb, _, key = line.partition(" ")
            if key == f"{name}/result":
                words.append(f"{verb} result")
            elif key == f"{name}/lock.json":
                words.append(f"{verb} lock")
            elif key.startswith(register):
                words.append(verb + (" beat" if "/b." in key else ""))
        return words


@pytest.fixture
def world() -> World:
    made = World()
    made.store = Store()
    return made


class Call:
    """A call under way, and its first turn."""

    def __init__(self, host: Host, wanted: Wanted) -> None:
        self.turn: Future[Turn] = Future()
        self.call = host.begin_invocation(wanted, self.turn)
        self.cancel, self.open = self.call.cancel, self.call.open

    def came_to(self, *, well: bool, body: bytes | None) -> Future[Turn]:
        """And the turn that follows."""
        turn: Future[Turn] = Future()
        self.call.came_to(turn, well=well, body=body)
        return turn


def ask(host: Host, kept: Any = "strict", *, name: str = "n", wait: int = FOREVER, **more: Any) -> Call:
    """With a store of which it is known what it can."""
    host.able.creates = True  # as a trial would have found
    terms = Terms(protocol=kept, session=more.pop("session", False))
    return Call(host, Wanted(name, terms, wait, **more))


def begun(world: World, turn: Future[Turn]) -> Member:
    """The member of the work that is to be begun."""
    come = world.result(turn)
    assert isinstance(come, Begin)
    return come.member


def found(world: World, turn: Future[Turn]) -> Found:
    """What there is."""
    come = world.result(turn)
    assert isinstance(come, Found)
    return come


def quiet(host: Host) -> bool:
    """Nothing is left of any call."""
    return not host._claims and not host._waiters and not host._found


# Requests.


def test_what_a_fresh_call_asks_for_under_strict(world: World) -> None:
    host, store = world.host(), world.store
    assert isinstance(store, Store)
    call = ask(host)
    begun(world, call.turn)
    assert store.heard() == ["exists lock", "exists result", "list", "create", "exists result"]
    assert found(world, call.came_to(well=True, body=b"x")) == Found("n/result", False, True)
    world.run(1)
    assert store.heard() == ["create result", "create"]
    assert quiet(host)
    assert call.open().read() == b"x"


def test_what_a_fresh_call_asks_for_under_lastwriter(world: World) -> None:
    host, store = world.host(), world.store
    assert isinstance(store, Store)
    call = ask(host, "lastwriter")
    begun(world, call.turn)
    assert store.heard() == ["exists result", "get lock", "put lock", "get lock", "put lock", "exists result"]
    found(world, call.came_to(well=True, body=b"x"))
    world.run(1)
    assert store.heard() == ["create result", "get lock", "put lock"]
    assert quiet(host)


def test_a_store_without_create_is_looked_at_before_the_result_is_put(world: World) -> None:
    world.store = FaultyStore()
    call = Call(world.host(), Wanted("n", Terms(), FOREVER))
    begun(world, call.turn)
    world.store.asked()
    assert found(world, call.came_to(well=True, body=b"x")).own
    assert world.store.asked() == ["put"]
    second = Call(world.host(), Wanted("n", Terms(), FOREVER))
    assert found(world, second.turn) == Found("n/result", False, False)


@pytest.mark.parametrize("kept", KEPT)
def test_a_result_that_is_there_costs_one_look(world: World, kept: str) -> None:
    store = world.store
    assert isinstance(store, Store)
    store.objects["n/result"] = b"before"
    found(world, ask(world.host(), kept).turn)
    assert store.heard() == ["exists lock"] * (kept == "strict") + ["exists result"]


@pytest.mark.parametrize("kept", KEPT)
def test_renewals_go_on_while_a_result_cannot_be_stored(world: World, kept: str) -> None:
    """The two do not stand in each other's way, and at last the store takes it."""
    host = world.host()
    call = ask(host, kept)
    member = begun(world, call.turn)

    def full(verb: str, key: str) -> None:
        if key == "n/result" and verb != "exists":
            raise TimeoutError("not now")

    world.store.fault = full
    turn = call.came_to(well=True, body=b"x")
    world.run(300)
    assert not turn.done()
    assert member.failure() is None
    assert member.left_ns() > 0
    world.store.mend()
    assert found(world, turn).own


@pytest.mark.parametrize("kept", KEPT)
def test_a_store_that_takes_no_result_at_all(world: World, kept: str) -> None:
    call = ask(world.host(), kept)
    begun(world, call.turn)

    def read_only(verb: str, key: str) -> None:
        if key == "n/result" and verb != "exists":
            raise errors.StoreFull("no room")

    world.store.fault = read_only
    error = world.error(call.came_to(well=True, body=b"x"))
    assert isinstance(error, errors.NoResult)
    assert error.reason == "unusable"
    assert "make room" in str(error)
    assert isinstance(error.__cause__, errors.StoreFull)


def test_whose_result_it_is_after_a_lost_answer_nobody_can_tell(world: World) -> None:
    call = ask(world.host())
    begun(world, call.turn)
    lost = [TimeoutError("lost")]

    def after(verb: str, key: str) -> None:
        if key == "n/result" and lost:
            raise lost.pop()

    world.store.after = after
    assert not found(world, call.came_to(well=True, body=b"x")).own
    assert world.store.objects["n/result"] == b"x"


# Waiting.


@pytest.mark.parametrize("kept", KEPT)
def test_all_who_wait_in_this_process_are_woken_by_the_result(world: World, kept: str) -> None:
    """With one look each, and at once."""
    host, store = world.host(), world.store
    assert isinstance(store, Store)
    call = ask(host, kept)
    begun(world, call.turn)
    waiting = [ask(host, kept) for _ in range(5)]
    world.run(40)
    assert not any(one.turn.done() for one in waiting)
    store.heard()
    now = world.clock.now
    turn = call.came_to(well=True, body=b"x")
    world.run(1, lambda: all(one.turn.done() for one in waiting))
    assert world.clock.now - now < 100_000_000
    assert [found(world, one.turn).own for one in waiting] == [False] * 5
    assert Counter(store.heard())["exists result"] == 5
    assert found(world, turn).own
    world.run(1)
    assert quiet(host)


@pytest.mark.parametrize("kept", KEPT)
def test_one_of_those_who_wait_is_woken_where_there_is_no_result(world: World, kept: str) -> None:
    host = world.host()
    call = ask(host, kept)
    begun(world, call.turn)
    waiting = [ask(host, kept) for _ in range(5)]
    world.run(40)
    now = world.clock.now
    error = world.error(call.came_to(well=False, body=None))
    assert isinstance(error, errors.NoResult)
    assert error.reason == "failed"
    world.run(1, lambda: any(one.turn.done() for one in waiting))
    assert world.clock.now - now < 500_000_000
    world.run(20)
    assert sum(one.turn.done() for one in waiting) == 1
    next_one = next(one for one in waiting if one.turn.done())
    begun(world, next_one.turn)
    found(world, next_one.came_to(well=True, body=b"x"))
    assert len([found(world, one.turn) for one in waiting if one is not next_one]) == 4


def test_who_waits_elsewhere_polls_ever_more_slowly(world: World) -> None:
    """mops' schedule, spread: 1, 2, 4 ... 22 s."""
    store = world.store
    assert isinstance(store, Store)
    begun(world, ask(world.host()).turn)
    ask(world.host())
    world.run(60)
    store.heard()
    world.run(220)
    assert 8 <= store.heard().count("exists result") <= 13


@pytest.mark.parametrize("kept", KEPT)
def test_a_wait_that_is_over(world: World, kept: str) -> None:
    begun(world, ask(world.host(), kept).turn)
    host = world.host()
    now = world.clock.now
    error = world.error(ask(host, kept, wait=10_000_000_000).turn)
    assert isinstance(error, errors.Held)
    assert world.clock.now - now == pytest.approx(10_000_000_000, abs=200_000_000)
    assert isinstance(world.error(ask(host, kept, wait=0).turn), errors.Held)
    assert quiet(host)


def test_a_store_that_never_answers(world: World) -> None:
    world.store.fail(ConnectionError("no route"))
    for kept in KEPT:
        error = world.error(ask(world.host(), kept).turn, within=30)
        assert isinstance(error, errors.Unreachable)
        assert isinstance(error.__cause__, ConnectionError)


@pytest.mark.parametrize("kept", KEPT)
def test_who_gives_up_waits_no_more_and_asks_no_more(world: World, kept: str) -> None:
    store = world.store
    assert isinstance(store, Store)
    holder = world.host()
    begun(world, ask(holder, kept).turn)
    host = world.host()
    call = ask(host, kept)
    world.run(5)
    world.result(call.cancel())
    assert isinstance(world.error(call.turn), errors.Cancelled)
    assert quiet(host)
    holder.paused = True
    store.heard()
    world.run(60)
    assert store.heard() == []


@pytest.mark.parametrize("soon", [True, False])
@pytest.mark.parametrize("kept", KEPT)
def test_work_that_nobody_will_do_is_given_up(world: World, kept: str, soon: bool) -> None:
    """Its caller was interrupted before he had the call in hand, or knew that he was to begin."""
    host = world.host()
    call = ask(host, kept)
    if not soon:
        begun(world, call.turn)
    give_up(call.turn)
    world.run(5)
    assert quiet(host)
    begun(world, ask(world.host(), kept, wait=0).turn)


# Losing, and beginning again.


@pytest.mark.parametrize("kept", KEPT)
def test_who_gives_the_work_up_releases(world: World, kept: str) -> None:
    host = world.host()
    call = ask(host, kept)
    member = begun(world, call.turn)
    over = call.cancel()
    assert isinstance(member.failure(), errors.LeaseEnded)
    world.result(over)
    assert quiet(host)
    begun(world, ask(world.host(), kept, wait=0).turn)
    assert isinstance(world.error(call.came_to(well=True, body=b"late")), errors.Cancelled)
    assert "n/result" not in world.store.objects


def test_a_lease_that_was_taken_and_released_again_is_a_new_attempt(world: World) -> None:
    """With a new tenure; the old one stays lost."""
    host, store = world.host(), world.store
    call = ask(host, "lastwriter")
    first = begun(world, call.turn)
    store.write("n", world.clock.wall())
    world.run(60)
    assert isinstance(first.failure(), errors.LeaseTaken)
    turn = call.came_to(well=True, body=b"of the first attempt")
    world.run(5)
    assert not turn.done()
    assert "n/result" not in store.objects
    wall = world.clock.wall()
    store.write("n", wall, released_at=store.record("n")["written_at"])
    second = begun(world, turn)
    assert second.holder != first.holder
    assert second.failure() is None
    assert isinstance(first.failure(), errors.LeaseTaken)
    assert found(world, call.came_to(well=True, body=b"second")).own


@pytest.mark.parametrize("kept", KEPT)
def test_an_outage_longer_than_the_lease(world: World, kept: str) -> None:
    """The work is done, and its result stored once the store is back: the first one wins whoever holds the lease."""
    call = ask(world.host(), kept)
    member = begun(world, call.turn)
    world.store.fail(ConnectionError("no route"))
    world.run(120)
    assert isinstance(member.failure(), errors.LeaseUnreachable)
    turn = call.came_to(well=True, body=b"x")
    world.run(60)
    assert not turn.done()
    world.store.mend()
    assert found(world, turn).own


def test_a_keeper_that_does_not_answer_changes_nothing(world: World) -> None:
    """Past its deadline the work's lease is lost, whoever looks."""
    host = world.host()
    member = begun(world, ask(host).turn)
    host.paused = True
    world.jump(80)
    assert isinstance(member.failure(), errors.LeaseExpired)


@pytest.mark.parametrize("kept", KEPT)
def test_closing_ends_who_works_and_who_waits(world: World, kept: str) -> None:
    host = world.host()
    call = ask(host, kept)
    member = begun(world, call.turn)
    waits = ask(host, kept)
    world.run(5)
    assert world.close(host, 10) is None
    assert isinstance(world.error(waits.turn), errors.Closed)
    assert isinstance(member.failure(), errors.LeaseEnded)
    assert isinstance(world.error(call.came_to(well=True, body=b"late")), errors.Closed)
    with pytest.raises(errors.Closed):
        ask(host, kept)
    begun(world, ask(world.host(), kept, wait=0).turn)


# Remotes.


def handle(member: Member) -> Handle:
    return member.handle()


@pytest.mark.parametrize("kept", KEPT)
def test_a_remote_outlives_its_orchestrator(world: World, kept: str) -> None:
    """Another orchestrator waits for it, and starts nothing."""
    dead, far = world.host(), world.host()
    member = begun(world, ask(dead, kept).turn)
    remote = ask(far, kept, remote=True, handle=handle(member))
    theirs = begun(world, remote.turn)
    assert (theirs.holder, theirs.token) == (member.holder, member.token)
    dead.paused = True
    world.run(1)
    second = ask(world.host(), kept)
    world.run(600)
    assert not second.turn.done()
    assert theirs.failure() is None
    assert found(world, remote.came_to(well=True, body=b"x")).own
    assert found(world, second.turn) == Found("n/result", False, False)


@pytest.mark.parametrize("kept", KEPT)
def test_an_orchestrator_waits_for_a_remote_that_goes_on(world: World, kept: str) -> None:
    """Its launcher has ended long ago. Where both are in one process no poll is waited for."""
    host = world.host()
    call = ask(host, kept)
    remote = ask(host, kept, remote=True, handle=handle(begun(world, call.turn)))
    begun(world, remote.turn)
    turn = call.came_to(well=True, body=None)
    world.run(300)
    assert not turn.done()
    now = world.clock.now
    found(world, remote.came_to(well=True, body=b"x"))
    assert not found(world, turn).own
    assert world.clock.now - now < 100_000_000


@pytest.mark.parametrize("kept", KEPT)
def test_orchestrator_and_remote_are_dead(world: World, kept: str) -> None:
    """The next one gets the work once the lease is dead, with no human."""
    hosts = world.host(), world.host()
    remote = ask(hosts[1], kept, remote=True, handle=handle(begun(world, ask(hosts[0], kept).turn)))
    begun(world, remote.turn)
    for host in hosts:
        host.paused = True
    call = ask(world.host(), kept)
    begun(world, call.turn)
    assert found(world, call.came_to(well=True, body=b"x")).own


@pytest.mark.parametrize("kept", KEPT)
def test_a_remote_whose_lease_was_taken_stores_nothing(world: World, kept: str) -> None:
    dead, far = world.host(), world.host()
    remote = ask(far, kept, remote=True, handle=handle(begun(world, ask(dead, kept).turn)))
    member = begun(world, remote.turn)
    dead.paused = far.paused = True
    world.run(1)
    begun(world, ask(world.host(), kept).turn)
    far.paused = False
    world.run(120)
    assert isinstance(member.failure(), errors.LeaseTaken)
    error = world.error(remote.came_to(well=True, body=b"too late"))
    assert isinstance(error, errors.NoResult)
    assert error.reason == "taken"
    assert "n/result" not in world.store.objects
    assert quiet(far)


@pytest.mark.parametrize("kept", KEPT)
def test_a_remote_works_without_a_lease_on_a_store_that_is_out(world: World, kept: str) -> None:
    member = begun(world, ask(world.host(), kept).turn)
    world.store.fail(ConnectionError("no route"))
    careful = ask(world.host(), kept, remote=True, handle=handle(member))
    daring = ask(world.host(), kept, remote=True, handle=handle(member), without_lease=True)
    error = world.error(careful.turn)
    assert isinstance(error, errors.CannotMaintain)
    assert error.reason == "unreadable"
    without = begun(world, daring.turn)
    assert (without.holder, without.failure()) == ("", None)
    turn = daring.came_to(well=True, body=b"x")
    world.run(10)
    world.store.mend()
    assert found(world, turn).own


@pytest.mark.parametrize("kept", KEPT)
def test_a_remote_without_anything_to_keep_alive_works_all_the_same_if_told_to(world: World, kept: str) -> None:
    """Once it has looked for the result again."""
    dead = world.host()
    member = begun(world, ask(dead, kept).turn)
    text = Handle(**{**vars(handle(member)), "name": "other"})
    error = world.error(ask(world.host(), kept, name="other", remote=True, handle=text).turn)
    assert isinstance(error, errors.CannotMaintain)
    assert error.reason == "absent"
    host = world.host()
    call = ask(host, kept, name="other", remote=True, handle=text, without_lease=True)
    assert begun(world, call.turn).holder == ""
    assert found(world, call.came_to(well=True, body=b"x")) == Found("other/result", False, True)
    world.run(1)
    assert quiet(host)


# Sessions.


def test_calls_stand_on_the_processs_session(world: World) -> None:
    """A hundred cost one heartbeat."""
    host, store = world.host(), world.store
    assert isinstance(store, Store)
    calls = [ask(host, name=f"n{i}", session=True) for i in range(100)]
    members = [begun(world, call.turn) for call in calls]
    assert {member.session for member in members} == {members[0].session} != {""}
    world.run(20)
    store.keys.clear()
    world.run(200)
    assert len(store.keys) < 200
    assert all(member.failure() is None for member in members)
    for call in calls:
        found(world, call.came_to(well=True, body=b"x"))
    world.run(5)
    assert not host._claims


def test_a_session_that_is_lost_is_a_new_attempt_on_another(world: World) -> None:
    host = world.host()
    call = ask(host, session=True)
    first = begun(world, call.turn)
    world.store.fail(ConnectionError("no route"))
    world.run(120)
    assert first.failure() is not None
    turn = call.came_to(well=True, body=None)
    world.store.mend()
    second = begun(world, turn)
    assert second.session != first.session
    assert second.holder != first.holder
    found(world, call.came_to(well=True, body=b"x"))


def test_a_session_that_cannot_be_had_ends_who_waits_and_not_who_has_worked(world: World) -> None:
    host = world.host()
    call = ask(host, session=True)
    member = begun(world, call.turn)
    world.store.fail(errors.Unauthorized("no more"))
    world.run(120)
    assert member.failure() is not None
    refused = world.error(ask(host, name="m", session=True).turn)
    assert isinstance(refused, errors.Unauthorized)
    world.run(30)
    world.store.mend()
    turn = call.came_to(well=True, body=b"x")
    assert found(world, turn).own
    world.run(30)
    assert quiet(host)


# What the core is told.


def test_a_name_or_terms_that_cannot_be(world: World) -> None:
    host = world.host()
    for name in ("a/lock", "lock"):
        with pytest.raises(errors.BadArgument, match="last segment is lock"):
            ask(host, name=name)
    with pytest.raises(errors.BadArgument, match="no expiry"):
        Call(host, Wanted("n", Terms(ttl=0, protocol="strict"), FOREVER))
    assert quiet(host)


def test_an_error_of_ours_strands_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    host = world.host()
    call = ask(host)
    begun(world, call.turn)

    def broken(*_: Any) -> None:
        raise RuntimeError("of ours")

    monkeypatch.setattr(Invocation, "tell", broken)
    assert isinstance(world.error(call.came_to(well=True, body=b"x")), errors.EngineFailed)
    assert quiet(host)

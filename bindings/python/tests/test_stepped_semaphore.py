"""Semaphores on a store of one's own, on a clock that stands still until told to go: what is asked of the store, and
what becomes of permits when their session, the store, or the caller's patience ends."""

from __future__ import annotations

import errno
import json
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import mopslock
from mopslock._demand import Demand
from mopslock._duration import FOREVER, SECOND
from mopslock._member import Member
from mopslock._semaphore import Share
from mopslock.terms import Terms
from world import FaultyStore, Host, World

TTL = 60.0
MARGIN = 6.0
TERMS = Terms(TTL, protocol="strict")


class Register(FaultyStore):
    """A FaultyStore that honours create-if-absent, and says so."""

    creates = True

    def create(self, key: str, body: bytes) -> bool:
        """The first one wins."""
        self.log.append("create")
        self.fault("create", key)
        won = self.objects.setdefault(key, bytes(body)) is body or self.objects[key] == body
        self.after("create", key)
        return won

    def exists(self, key: str) -> bool:
        """Whether it is there."""
        self.log.append("exists")
        self.fault("exists", key)
        return key in self.objects

    def list(self, prefix: str) -> list[str]:
        """What begins so."""
        self.log.append("list")
        self.fault("list", prefix)
        return [key for key in self.objects if key.startswith(prefix)]

    def delete(self, key: str) -> None:
        """Gone."""
        self.log.append("delete")
        self.objects.pop(key, None)

    def newest(self, name: str = "n") -> dict[str, Any]:
        """The newest version."""
        found: dict[str, Any] = json.loads(self.objects[min(key for key in self.objects if key.startswith(f"{name}/"))])
        return found

    def held(self, name: str = "n") -> int:
        """What all permits of the newest version weigh."""
        return sum(permit.get("weight", 1) for permit in self.newest(name)["permits"])


class Shared(World):
    """A world whose store can serve semaphores."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Register = Register()

    def begin(self, host: Host, demand: Demand, wait: float | None = None, name: str = "n") -> Future[Member]:
        """Asks for a permit."""
        wait_ns = FOREVER if wait is None else round(wait * SECOND)
        return host.begin_permit(name, TERMS, demand, wait_ns, None)

    def permit(self, host: Host, demand: Demand, wait: float | None = None, name: str = "n") -> Share:
        """One that is held."""
        made = self.result(self.begin(host, demand, wait, name))
        assert isinstance(made, Share)
        return made

    def give_back(self, share: Share) -> None:
        """The store has said so."""
        self.result(share.finish())


@pytest.fixture
def shared() -> Shared:
    return Shared()


TWO = Demand(2)


def test_what_a_permit_costs(shared: Shared) -> None:
    host = shared.host()
    first = shared.permit(host, TWO)
    assert sorted(shared.store.asked()) == ["create", "exists", "list", "put"]  # with the session's beat and its look
    second = shared.permit(host, TWO)
    assert shared.store.asked() == ["create"]
    assert (first.total, first.token, second.total, second.token) == (1, 1, 2, 2)
    assert first.session == second.session != ""
    shared.give_back(first)
    assert shared.store.asked() == ["create"]
    assert shared.store.held() == 1
    shared.give_back(second)
    shared.run(1)
    assert host._semaphores == {}
    assert shared.store.held() == 0


def test_those_who_wait_together_are_let_in_by_one_write(shared: Shared) -> None:
    host = shared.host()
    many = Demand(100)
    shared.permit(host, many)
    shared.store.asked()
    asked = [shared.begin(host, many) for _ in range(50)]
    for future in asked:
        shared.result(future)
    assert shared.store.asked().count("create") <= 2
    assert shared.store.held() == 51


def test_who_waits_is_let_in_when_another_process_gives_back(shared: Shared) -> None:
    one, other = shared.host(), shared.host()
    first = shared.permit(one, Demand(1))
    waits = shared.begin(other, Demand(1))
    shared.run(5)
    assert not waits.done()
    shared.give_back(first)
    shared.run(5, waits.done)
    assert waits.done()
    assert shared.store.held() == 1


def test_patience_that_is_over_is_full(shared: Shared) -> None:
    one, other = shared.host(), shared.host()
    shared.permit(one, Demand(1))
    began = shared.clock.now
    error = shared.error(shared.begin(other, Demand(1), wait=7))
    assert isinstance(error, mopslock.Full)
    assert (error.held, error.limit) == (1, 1)
    assert 7 * SECOND <= shared.clock.now - began <= 8 * SECOND
    assert other._claims == set()


def test_a_permit_is_believed_as_long_as_its_session(shared: Shared) -> None:
    host = shared.host()
    permit = shared.permit(host, TWO)
    shared.run(10 * TTL)
    assert permit.failure() is None
    assert 0 < permit.left_ns() <= (TTL - MARGIN) * SECOND
    shared.store.fail(ConnectionError("gone"))
    shared.run(TTL)
    assert isinstance(permit.failure(), mopslock.LeaseUnreachable)
    assert 'permit of "n" lost (unreachable)' in str(permit.failure())
    assert "stop what the permit allows" in str(permit.failure())
    shared.store.mend()
    shared.run(TTL)
    assert isinstance(shared.error(permit.finish()), mopslock.LeaseUnreachable)
    again = shared.permit(host, Demand(1))
    assert again.session != permit.session
    assert shared.store.held() == 1  # what had been lost was taken out, since its room was needed


def test_a_pause_past_the_deadline_is_expired(shared: Shared) -> None:
    host = shared.host()
    permit = shared.permit(host, TWO)
    shared.jump(TTL)
    assert isinstance(permit.failure(), mopslock.LeaseExpired)
    shared.run(1)
    assert host._semaphores == {}


def test_what_a_dead_process_held_is_free_a_ttl_later(shared: Shared) -> None:
    dead, alive = shared.host(), shared.host()
    shared.permit(dead, Demand(1))
    dead.paused = True
    began = shared.clock.now
    waits = shared.begin(alive, Demand(1))
    shared.run(10 * TTL, waits.done)
    assert waits.done()
    assert shared.clock.now - began >= (TTL - MARGIN) * SECOND
    assert shared.store.held() == 1


def test_a_create_whose_answer_is_lost_is_found_and_counted_once(shared: Shared) -> None:
    host = shared.host()
    shared.permit(host, Demand(5))

    def lose(verb: str, key: str) -> None:
        if verb == "create":
            shared.store.after = lambda verb, key: None
            raise ConnectionError("lost")

    shared.store.after = lose
    second = shared.permit(host, Demand(5))
    assert second.total == 2
    assert shared.store.held() == 2


def test_one_that_is_cancelled_while_its_create_is_under_way_is_taken_out(shared: Shared) -> None:
    host = shared.host()
    keeps = shared.permit(host, Demand(5))
    shared.hold()
    asked = shared.begin(host, Demand(5))
    shared.settle()
    assert asked.cancel()
    shared.settle()
    shared.let_go()
    shared.run(30)
    assert shared.store.held() == 1
    assert keeps.failure() is None
    shared.give_back(keeps)
    shared.run(1)
    assert host._semaphores == {}
    assert host._claims == set()


def test_one_that_is_cancelled_while_it_waits_waits_no_more(shared: Shared) -> None:
    host = shared.host()
    keeps = shared.permit(host, Demand(1))
    waits = shared.begin(host, Demand(1))
    shared.run(1)
    assert len(host._claims) == 2
    assert waits.cancel()
    shared.settle()
    assert host._claims == {keeps}


def test_a_store_that_will_not_do_ends_it_at_once(shared: Shared) -> None:
    shared.store.fail(PermissionError(errno.EACCES, "no"), "put", "create")
    error = shared.error(shared.begin(shared.host(), TWO), 30)
    assert isinstance(error, mopslock.Unauthorized)
    assert 'permit of "n" not acquired' in str(error)


def test_a_store_that_never_answers_ends_it_after_some_seconds(shared: Shared) -> None:
    shared.store.fail(ConnectionError("gone"))
    error = shared.error(shared.begin(shared.host(), TWO), 60)
    assert isinstance(error, mopslock.Unreachable)


def test_create_if_absent_is_tried_once_where_nobody_says(shared: Shared) -> None:
    shared.store.creates = False
    host = shared.host()
    host.able.told = False
    shared.permit(host, TWO)
    assert shared.store.asked().count("create") == 5  # a race for the card, and the version
    shared.permit(host, TWO)
    assert shared.store.asked() == ["create"]


def test_a_trial_that_fails_is_everybodys(shared: Shared) -> None:
    shared.store.creates = False
    shared.store.fail(PermissionError(errno.EACCES, "no"))
    host = shared.host()
    asked = [shared.begin(host, TWO) for _ in range(3)]
    for future in asked:
        assert isinstance(shared.error(future, 60), mopslock.Unauthorized)
    assert host._claims == set()


def test_other_terms_are_another_machine_and_share_the_name(shared: Shared) -> None:
    host = shared.host()
    first = shared.permit(host, Demand(1))
    other = host.begin_permit("n", Terms(TTL / 2, protocol="strict"), Demand(1), FOREVER, None)
    shared.run(1)
    assert len(host._semaphores) == 2
    shared.run(60)
    shared.give_back(first)
    shared.run(0.1, other.done)  # it is told, and need not poll
    member = other.result(0)
    assert member.session != first.session
    shared.give_back(member)  # type: ignore[arg-type]


def test_closing_gives_all_back_and_ends_the_session(shared: Shared) -> None:
    host = shared.host()
    permits = [shared.permit(host, Demand(3)) for _ in range(3)]
    waits = shared.begin(host, Demand(3))
    shared.run(1)
    assert shared.close(host, 30) is None
    assert isinstance(waits.exception(0), mopslock.Closed)
    assert all(isinstance(permit.failure(), mopslock.LeaseEnded) for permit in permits)
    assert shared.store.held() == 0
    with pytest.raises(mopslock.Closed):
        shared.begin(host, TWO)


# Several processes, and any order of what they do, against an oracle.


class SemaphoreMachine(RuleBasedStateMachine):
    """Hosts that ask, give back, and pass time; nobody is let in beyond his own view by what the store says is held."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Shared()
        self.hosts = [self.world.host() for _ in range(3)]
        self.held: list[Share] = []

    @rule(which=st.integers(0, 2), capacity=st.integers(1, 3), width=st.integers(1, 2), weight=st.integers(1, 2))
    def ask(self, which: int, capacity: int, width: int, weight: int) -> None:
        if weight > capacity * width:
            return
        before = sum(share.demand.weight for share in self.held if share.demand is not None)
        room = before + weight <= capacity * width
        # A try looks at one newer version at most, and may be refused by one that is not the newest any more.
        asked = self.world.begin(self.hosts[which], Demand(capacity, width, weight), wait=10 if room else 0)
        self.world.run(30, asked.done)
        error = asked.exception(0)
        if not room:
            assert isinstance(error, mopslock.Full)
            assert error.limit == capacity * width
        else:
            assert error is None
            share = asked.result(0)
            assert isinstance(share, Share)
            assert share.total == before + weight
            self.held.append(share)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99))
    def give_back(self, which: int) -> None:
        self.world.give_back(self.held.pop(which % len(self.held)))

    @rule(seconds=st.integers(1, 100))
    def wait(self, seconds: int) -> None:
        self.world.run(seconds)

    @invariant()
    def agrees(self) -> None:
        assert all(share.failure() is None for share in self.held)
        if any(key.startswith("n/") for key in self.world.store.objects):
            assert self.world.store.held() == sum(
                share.demand.weight for share in self.held if share.demand is not None
            )


TestAgainstTheOracle = SemaphoreMachine.TestCase
TestAgainstTheOracle.settings = settings(max_examples=25, stateful_step_count=25)

"""Whatever happens, in whatever order, on a clock of ours: never do two hold one name."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from mopslock import _lease_runner, _stepped
from mopslock._units import FOREVER
from mopslock.terms import Terms
from world import LATENCY, World, runner, seconds

NAMES = ("a", "b")


class Exclusion(RuleBasedStateMachine):
    """Three processes, two names, one store that fails, and time: never do two of them hold one name.

    As lastwriter promises it: a put applies when it is sent or not at all, and a claim is not paused for longer than
    the acquire margin between what it read and what it wrote.
    """

    TERMS = Terms(ttl=10, margin=1, acquire_margin=1, fleet_expire="none")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.hosts = [self.world.host() for _ in range(3)]
        self.futures: list[tuple[str, Any]] = []
        self.latencies: list[int] = []
        self.world.latency = lambda: self.latencies.pop() if self.latencies else LATENCY
        self.look, _stepped.LOOK = _stepped.LOOK, 0.0  # what a paused event loop is waited for, in real time

    def held(self) -> list[tuple[str, _lease_runner.LeaseRunner]]:
        """All that is held, as its holders see it."""
        done = [
            (n, runner(f.result())) for n, f in self.futures if f.done() and not f.cancelled() and not f.exception()
        ]
        return [(name, held) for name, held in done if held.failure() is None]

    @rule(host=st.integers(0, 2), name=st.sampled_from(NAMES), wait=st.sampled_from([0, FOREVER, FOREVER]))
    def acquire(self, host: int, name: str, wait: int) -> None:
        if sum(not future.done() for _, future in self.futures) < 6:
            self.futures.append((name, self.hosts[host].begin_acquire(name, self.TERMS, wait, None)))

    @precondition(lambda self: self.held())
    @rule(which=st.integers(0, 9))
    def release(self, which: int) -> None:
        held = self.held()
        held[which % len(held)][1].finish()

    @precondition(lambda self: any(not future.done() for _, future in self.futures))
    @rule(which=st.integers(0, 9))
    def cancel(self, which: int) -> None:
        waiting = [future for _, future in self.futures if not future.done()]
        waiting[which % len(waiting)].cancel()

    @rule(ms=st.sampled_from([1, 50, 300, 1000, 2500, 4000, 9000]))
    def wait(self, ms: int) -> None:
        end = self.world.clock.now + ms * 1_000_000
        while self.world.clock.now < end:
            self.world.run(seconds(min(end, self.world.next()) - self.world.clock.now))
            self.exclusive()

    @rule(slow=st.lists(st.integers(1, 200).map(lambda ms: ms * 1_000_000), min_size=1, max_size=5))
    def slow(self, slow: list[int]) -> None:
        self.latencies = slow

    @rule(
        faults=st.lists(st.booleans(), min_size=1, max_size=4),
        late=st.booleans(),
        verb=st.sampled_from(["get", "put"]),
    )
    def fail(self, faults: list[bool], late: bool, verb: str) -> None:
        """The next requests of a kind fail, before they were applied or after, as the list says."""

        def fault(asked: str, _: str) -> None:
            if asked == verb and faults and faults.pop():
                raise ConnectionError

        setattr(self.world.store, "after" if late else "fault", fault)

    @rule()
    def mend(self) -> None:
        self.world.store.mend()

    @precondition(lambda self: self.world.quiet)
    @rule(host=st.integers(0, 2))
    def pause(self, host: int) -> None:
        self.world.settle()
        if self.world.quiet:
            self.hosts[host].paused = True

    @precondition(lambda self: self.world.quiet and self.held())
    @rule(which=st.integers(0, 9), ms=st.sampled_from([5_000, 10_500, 25_000]))
    def pause_a_holder(self, which: int, ms: int) -> None:
        """Long enough for others to take what it had, mostly."""
        held = self.held()
        host = held[which % len(held)][1].host
        self.pause(next(number for number, mine in enumerate(self.hosts) if mine is host))
        self.wait(ms)

    @rule(host=st.integers(0, 2))
    def resume(self, host: int) -> None:
        self.hosts[host].paused = False

    @rule(ms=st.sampled_from([100, 500]))
    def sleep(self, ms: int) -> None:
        """All of the machine, for less than the margins allow."""
        if self.world.quiet:
            self.world.jump(ms / 1000)

    @invariant()
    def exclusive(self) -> None:
        names = [name for name, _ in self.held()]
        assert len(names) == len(set(names)), f"two hold one name: {names}"

    @invariant()
    def records_are_of_their_holders(self) -> None:
        for name, held in self.held():
            assert held.left_ns() > 0
            assert self.world.store.holder(name) == held.holder, f"{name} is held by who has no record"

    def teardown(self) -> None:
        """Once nothing fails and nobody sleeps, every waiter is served, and then nothing is held."""
        try:
            self.world.store.mend()
            for host in self.hosts:
                host.paused = False
            for _ in range(len(self.futures) + 2):
                for _, held in self.held():
                    held.finish()
                self.world.run(40, lambda: bool(self.held()))
                self.exclusive()
            assert [name for name, future in self.futures if not future.done()] == []
            self.world.run(40)
            assert [host._runners for host in self.hosts] == [set()] * 3
        finally:
            _stepped.LOOK = self.look


def test_never_do_two_hold_one_name() -> None:
    run_state_machine_as_test(Exclusion, settings=settings(max_examples=60, stateful_step_count=40))

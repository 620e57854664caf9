"""A claim that is stepped on its caller's own thread, which saves an acquire ten changes of thread."""

from __future__ import annotations

import queue

from ._future import SETTLED
from ._lease_runner import LeaseRunner
from ._units import SECOND
from ._verbs import NEVER, Action, Event

LONGEST = 1.0
"""Seconds. Sleeps do not count the time that the machine is suspended, and deadlines do."""


class InlineDriver:
    """Steps and requests of one claim. Nothing else may step it meanwhile."""

    def __init__(self, runner: LeaseRunner) -> None:
        self.runner = runner
        self.body = b""  # the record that was put last
        self.written = False  # and the store said yes
        self.doubtful = False  # a put of unknown fate
        self.failing = ""  # how the store failed last, if it did

    def run(self, event: Event, *, until: int = NEVER, put: bool = False) -> None:
        """Until it is settled, by a put if so asked, and nothing is in flight; or until has come, and it has to wait.

        The host may be closed meanwhile: then the event loop ends it. Whatever interrupts this leaves nothing held.
        """
        runner = self.runner
        try:
            runner.will_be_driven()
            while True:
                requests = runner.step(event)
                if requests:
                    event = self._perform(requests[-1])
                elif self._settled(put=put) or runner.hurried or runner.host.clock.mono() >= until:
                    return
                else:
                    event = self._sleep(min(runner.wake, until))
        except BaseException:
            runner.host.abandon(runner)
            raise

    def _settled(self, *, put: bool) -> bool:
        settled = self.runner.settled
        if settled is SETTLED:
            return not put or self.written
        return settled.done() and (not put or self.written or settled.exception() is not None)

    def _perform(self, request: Action) -> Event:
        answer = self.runner.host.ask(self.runner.store_object, request, request["limit_ns"])
        said = answer["outcome"] != "unknown"
        self.failing = "" if said else answer["class"]
        if request["kind"] == "put":
            self.body, self.written = request["body"], said
            self.doubtful = self.doubtful or not said
        return answer

    def _sleep(self, at: int) -> Event:
        """Until its wake, or until somebody says that the record has changed."""
        clock, notified = self.runner.host.clock, self.runner.notified
        left = min(at - clock.mono(), int(LONGEST * SECOND))
        if self.runner.waiting and notified is not None:
            try:
                notified.get(timeout=max(0, left) / SECOND)
            except queue.Empty:
                return {"kind": "woke"}
            while not notified.empty():  # only this thread takes from it
                notified.get_nowait()
            return {"kind": "changed"}
        if left > 0:
            clock.sleep(left)
        return {"kind": "woke"}

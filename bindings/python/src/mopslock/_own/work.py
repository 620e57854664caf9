"""One call of a piece of work, and each tenure that it has."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from .. import _texts
from .._call import Begin, Found, Step, StepFuture, WorkRequest
from .._future import SETTLED, Future
from .._held import Ended
from .._log import log
from .._units import FOREVER, LONGEST
from ..errors import MopslockError
from .base import AnyClient, Begun, Output
from .claims import Asked, HeldThing
from .verbs import RESULTS, Action, Event

RESULT = "/result"


class Tenure(HeldThing):
    """One tenure under which the work is done: what its caller may ask. A call can have several."""

    __slots__ = ("_of",)

    def __init__(self, of: Invocation, action: Action) -> None:
        self._of = of
        super().__init__(of.client, of.name, of.name, guarded=of.handle is None)
        self.ttl_ns = of.ttl_ns
        self.token = of.handle.token if of.handle is not None else 0
        self.believe_held(action)

    def is_given_back(self) -> bool:
        return self._of.over.done()

    def finish(self) -> Future[None]:
        return self._of.cancel()


class NoLease(Tenure):
    """Replaces what is held if the work is done without a lease: it never ends, and nothing is lost."""

    __slots__ = ()

    def __init__(self, of: Invocation) -> None:
        self._of = of
        HeldThing.__init__(self, of.client, of.name, of.name, guarded=False)

    def left_ns(self) -> int:
        return LONGEST

    def failure(self) -> None:
        pass

    def when_ended(self, tell: Ended) -> None:
        pass


class Invocation(Asked):
    """A call. The client says when the work is to be begun, and is told when that has ended."""

    __slots__ = (
        "_again", "_cancelled", "_end", "_ends", "_final", "_late", "_launched", "_output", "_pid", "_stored", "_waits",
        "_working", "cause", "client", "handle", "name", "next_step", "number", "over", "protocol", "tenure", "title",
        "ttl_ns",
    )  # fmt: skip

    def __init__(self, client: AnyClient, request: WorkRequest, next_step: StepFuture, *, ttl_ns: int) -> None:
        self.number, self.cause = 0, None
        self.client, self.handle = client, request.handle
        self.name = self.title = request.name
        self.ttl_ns, self.next_step, self.protocol = ttl_ns, next_step, ""
        self.tenure: Tenure | None = None
        self.over: Future[None] = Future()  # what was held is given back
        self._waits = request.waits
        self._launched = self._working = False  # the work was begun, ever; it is under way
        self._cancelled = False
        self._again = False  # its client was lost meanwhile, and another has not caught up
        self._end: Event | None = None  # that the work has ended, and what it has left is not known to be stored
        self._ends: list[Event] = []  # the same, as the client is to be told
        self._late: Step | MopslockError | None = None  # how it ends, unless work is launched all the same
        self._final: Step | MopslockError | None = None
        self._output: bytes | Output = b""  # of the work
        self._stored = False
        self._pid = os.getpid()
        next_step.add_done_callback(self._given_up)

    # What any thread may call.

    def is_wanted(self) -> bool:
        """A caller that was interrupted before it had the call has given up its first step."""
        if self._cancelled:
            return False
        if not self.next_step.cancelled():
            return self._final is None
        self.fail(_texts.closed())
        return False

    def complete(self, next_step: StepFuture, *, well: bool, body: bytes | Path | None) -> None:
        """The output is read, or put into a file, on this thread."""
        if self._pid != os.getpid():
            raise _texts.forked(self.name)
        output = self.client.output(body) if body is not None else None
        event: Event = {"kind": "ended", "outcome": "yes" if well else "no"}
        if output is not None:
            event["result"] = True
        self.client.post(lambda: self._work_ended(next_step, output, event))

    def cancel(self) -> Future[None]:
        """Its validity ends before anything is written that lets others in."""
        if self._pid != os.getpid():  # the parent's goes on
            return SETTLED
        self._cancelled = True
        self.hurry()
        self.client.command(self, "cancel")
        return self.over

    def open(self) -> BinaryIO:
        assert isinstance(self._final, Found)
        result: BinaryIO = self.client.host.open_object(self._final.key)
        return result

    def hurry(self, *, told: bool = False) -> None:
        if (tenure := self.tenure) is not None:
            tenure.invalidate(told=told)

    # What the client tells.

    def hear(self, action: Action) -> bool:
        """Its last word is that all is given back."""
        super().hear(action)
        return bool(action["kind"] == "left")

    def fail(self, error: MopslockError) -> None:
        self._conclude(error)
        self.over.settle(None)

    def strand(self, error: MopslockError) -> bool:
        """Work that is under way goes on, and what it leaves is to be stored all the same."""
        if self._launched and self._final is None and not self._cancelled and (self._working or self._end is not None):
            self._again = True
            if self._end is not None:  # whether it is stored is unknown
                self._ends = [self._end]
            return True
        self._late = self._late or error
        self.left({})
        return False

    def again(self, command: Event, terms: Event) -> Begun:
        """A remote that has begun ends its work, whatever becomes of its lease. Others wait for the tenure that was
        their own to expire."""
        if self.handle is not None:
            return command, {**terms, "without_lease": True}
        return {"kind": command["kind"], **command, "wait_ns": FOREVER}, terms

    def result(self) -> bytes | Output:
        return self._output

    def answered(self, action: Action, answer: Event) -> None:
        if action["kind"] in RESULTS and answer["outcome"] == "yes":
            self.stored()

    def stored(self) -> None:
        self._stored = True

    def _work_ended(self, next_step: StepFuture, output: bytes | Output | None, event: Event) -> None:
        self.next_step, self._output = next_step, output or b""
        if self._final is not None:  # it was over before
            self._drop_output()
            next_step.settle(self._final)
            return
        self._working = False
        self._end = event
        self._ends.append(event)
        if not self._again:  # otherwise when another client has said that it is to be done
            self._tell_end()

    def _tell_end(self) -> None:
        """Once, although two clients' threads may be here."""
        with contextlib.suppress(IndexError):
            event = self._ends.pop()
            if not self.client.closing:  # otherwise it is given up, and hears of it in the end
                self.client.command(self, **event)

    def _conclude(self, outcome: Step | MopslockError) -> None:
        """The first word counts. One that waits for work hears it now, one that works when that has ended."""
        if self._final is not None:
            return
        self._final, self._working, self._late = outcome, False, None
        self.hurry(told=True)  # what is written next may let others in
        if isinstance(outcome, MopslockError) and outcome.__cause__ is None:
            outcome.__cause__ = self.cause
        self._drop_output()
        self.next_step.settle(outcome)

    def _drop_output(self) -> None:
        output, self._output = self._output, b""
        if isinstance(output, Output):
            output.drop()

    def held(self, action: Action) -> None:
        """A companion that joins again is the same to those who have it."""
        tenure, self.protocol = self.tenure, action["protocol"]
        if tenure is not None and not tenure.guarded and not tenure.ended.done():
            tenure.client = self.client
            tenure.believe_held(action)
        else:
            self.tenure = Tenure(self, action)

    def launch(self, _: Action) -> None:
        self._late = None
        if self._again:  # by a client before, and it is under way, or has ended meanwhile
            self._again = False
            self._tell_end()
            if self._final is not None or self._cancelled:
                self.client.command(self, "cancel")
            return
        self._launched = self._working = True
        self._end = None
        begin = Begin(self.tenure or NoLease(self))
        if not self.next_step.settle(begin):  # nobody is there to do it
            self.cancel()

    def found(self, action: Action) -> None:
        key = action["key"]
        self._decide(Found(key, key != self.name + RESULT, self._stored))

    def absent(self, action: Action) -> None:
        reason, class_ = action.get("reason", ""), action.get("class", "")
        self._decide(_texts.no_result(self.name, reason, class_, self.seen(action), self.cause))

    def _decide(self, outcome: Step | MopslockError) -> None:
        """A remote ends when all is given back: a put of it may not land on the release that its launcher makes."""
        if self.handle is None:
            self._conclude(outcome)
            return
        self._late, self._working = outcome, False
        self.hurry(told=True)  # as for who concludes

    def refused(self, action: Action) -> None:
        self._conclude(self.refusal(action))

    def cannot_maintain(self, action: Action) -> None:
        error = _texts.nothing_to_join(self.name, action["reason"], action.get("class", ""), self.cause)
        if self._launched:  # what was begun goes on
            log.warning("%s", error)
            return
        self._end_tenure(error)
        self._late = error

    def lost(self, action: Action) -> None:
        """A remote that has not begun never will; who wants the result goes on without the lease."""
        error = _texts.lost(self.name, action["reason"], self.seen(action))
        if self._working:
            log.warning("%s", error)
        elif self.handle is not None and not self._launched:
            self._late = error
        self._end_tenure(error)

    def _end_tenure(self, error: MopslockError) -> None:
        if self.tenure is not None:
            self.tenure.ended.settle(error)
        self.tenure = None

    def released(self, _: Action) -> None:
        self._end_tenure(_texts.ended(self.name))

    def left(self, _: Action) -> None:
        self._conclude(self._late or _texts.closed())
        self._end_tenure(_texts.ended(self.name))
        self.over.settle(None)

    def deadline(self, action: Action) -> None:
        if self.tenure is not None:
            getattr(self.tenure, action["kind"])(action)

    renewed = adopted = deadline

"""Work in a process of its own, which a loss stops: a command, or a function.

::

    good renewal               deadline - grace            deadline
        |------- work runs -----------|---- SIGTERM, grace ----|  SIGKILL
                                      a good renewal here calls the SIGKILL off

What another has taken, broken or released ends by SIGTERM at once, and by SIGKILL after the grace. What has run out of
time is killed at once. `mopslock-host run` does the same (cmd/mopslock-host/internal/supervise).

One thread of ours begins the work and waits for it. Another watches the lease, ends the work and releases. The caller
only waits for that, so no interrupt can come between the end of the work and the release.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn, TypeVar, cast

from . import _texts
from ._api import ENVIRONMENT, lease
from ._duration import Duration, nanoseconds
from ._future import Future
from ._held import Handle, again
from ._hosts import AnyStore
from ._log import log
from ._options import TermOptions, Unpack, WaitOptions, known, spelled
from ._own.claims import HeldThing
from ._process import Command, Function, Work
from ._units import SECOND
from ._workers import begin_thread
from .errors import BadArgument, LeaseExpired, LeaseUnreachable, MopslockError

T = TypeVar("T")

GRACE = 10 * SECOND  # from SIGTERM to SIGKILL by default; a third of the TTL if that is less
MARGIN = 10  # the TTL by the margin, by default
LOOK = SECOND // 20  # how often to look at the lease after SIGTERM, or at the rest of a group
LONGEST_PAUSE = SECOND  # Python's waits do not count the time that the machine sleeps, and deadlines do
HELD = "MOPSLOCK_HELD"


class WorkOptions(WaitOptions, TermOptions, total=False):
    """lease's, but for what a loss does."""


@spelled(WorkOptions)
def run(
    args: Sequence[Any], store: AnyStore, name: str, *, input: Any = None, capture_output: bool = False,  # noqa: A002
    stdin: Any = None, stdout: Any = None, stderr: Any = None, cwd: Any = None, env: Mapping[str, str] | None = None,
    text: bool | None = None, encoding: str | None = None, errors: str | None = None, timeout: float | None = None,
    check: bool = False, grace: Duration | None = None, **options: Unpack[WorkOptions],
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """subprocess.run under a lease that is kept alive while the command runs, and whose loss ends it::

        mopslock.run(["make", "deploy"], "s3://bucket/locks", "deploy", wait=60, check=True)

    It acquires the lease, with lease's options and errors, runs the command to its end, and releases. Arguments and
    result are those of subprocess.run, but args is a list. The command has a session and a process group of its own.
    So it has no terminal, and Ctrl-C reaches only us. It gets MOPSLOCK_LEASE (for accompany), MOPSLOCK_NAME,
    MOPSLOCK_STORE, MOPSLOCK_HOLDER, MOPSLOCK_TOKEN and MOPSLOCK_HELD in its environment.

    If renewals fail, the group gets SIGTERM ``grace`` before the deadline (10 s, or a third of the TTL if that is less;
    no more is allowed), and SIGKILL at the deadline. After any other loss it gets SIGTERM at once, and SIGKILL after
    the grace. Then LeaseLost is raised, although the command may have ended well. What ends this call otherwise, such
    as Ctrl-C, also ends the group so, and a second interrupt kills it. Interrupts in quick succession may end this call
    before the group; the lease is released after it all the same. After ``timeout`` seconds the group is killed:
    subprocess.TimeoutExpired.

    If this process is killed, so is the command itself, on Linux. If it is stopped, a command goes on, without a
    renewal unless a keeper makes it, until this process is continued. Processes that leave the group go on.
    """
    if isinstance(args, (str, bytes)) or not args:
        raise BadArgument('mopslock: args: must be a list of a command and its arguments; for a shell ["sh", "-c", …]')
    if input is not None:
        if stdin is not None:
            raise ValueError("stdin and input arguments may not both be used.")
        stdin = subprocess.PIPE
    if capture_output:
        if stdout is not None or stderr is not None:
            raise ValueError("stdout and stderr arguments may not be used with capture_output.")
        stdout = stderr = subprocess.PIPE
    command = Command(args, input, {
        "stdin": stdin, "stdout": stdout, "stderr": stderr, "cwd": cwd, "text": text, "encoding": encoding,
        "errors": errors, "env": os.environ if env is None else env,
    })  # fmt: skip
    done = _under(command, store, name, options, grace=grace, timeout=timeout)
    if check:
        done.check_returncode()
    return done


@spelled(WorkOptions)
def process(
    function: Callable[..., T], store: AnyStore, name: str, *, args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None, grace: Duration | None = None, **options: Unpack[WorkOptions],
) -> T:  # fmt: skip
    """Calls a function in a process of its own, under a lease whose loss ends that process::

        total = mopslock.process(count, "s3://bucket/locks", "count", args=(path,), wait=60)

    It returns what the function returns, or raises what it raises. The process is one of multiprocessing's context
    "spawn": function, arguments and result are pickled, and a script needs its ``if __name__ == "__main__"``. What is
    said of the group, the environment and the end of a command of run is true of it, too. RuntimeError: it has ended
    without a result.
    """
    return _under(Function(function, tuple(args), dict(kwargs or {})), store, name, options, grace=grace)


def _under(
    work: Work[T], store: AnyStore, name: str, options: Mapping[str, Any], *,
    grace: Duration | None, timeout: float | None = None,
) -> T:  # fmt: skip
    known(work.call, WorkOptions, options)
    if not hasattr(os, "killpg"):
        raise RuntimeError(f"mopslock: {work.call} needs process groups, which this system does not have")
    grace_ns, margin_ns = (None if one is None else nanoseconds("grace", one) for one in (grace, options.get("margin")))
    within(nanoseconds("ttl", options.get("ttl") or 0), grace_ns)  # the default is known when it is held
    leasing, over, threads = lease(store, name, raise_if_lost=False, **cast("Any", options)), Future[Any](), list[Any]()
    with leasing as held:

        def watch() -> tuple[MopslockError | None, bool]:
            leasing._uses.pop()  # from now on it is this thread that releases, unless the caller does so already
            with held:
                watch = Watch(held._held, work, grace_ns, margin_ns)
                return watch.to_the_end(environment(held._held.handle()), timeout), watch.late

        try:
            begin_thread(lambda: over.run(watch), "mopslock-run", threads.append)
            if None in threads:
                raise RuntimeError("mopslock: no thread can be begun for the work")
            over.wait()
        except BaseException:
            work.interrupts.append(None)  # in C: no other interrupt comes before it
            if not leasing._uses:  # else the end of the block releases, and the thread begins no work
                try:
                    work.bell.ring()
                    over.wait()
                except BaseException:
                    work.interrupts.append(None)
                    work.bell.ring()
                    over.wait()
                    raise
            raise
    lost, late = over.result()
    if lost is not None:
        raise again(lost)
    return work.result(timeout if late else None)


def within(ttl: int, grace: int | None) -> int:
    """The grace, or what it is by default. BadArgument: more than a third of the TTL."""
    if grace is None:
        return min(GRACE, ttl // 3) if ttl > 0 else GRACE
    if ttl > 0 and grace > ttl // 3:
        raise BadArgument(f"mopslock: grace {grace / SECOND:g}: from 0 to a third of the TTL of {ttl / SECOND:g} s")
    return grace


def environment(handle: Handle) -> dict[str, str]:
    """What work is told of its lease, as by the command."""
    held = f"{handle.name}@{handle.store}"
    return {
        ENVIRONMENT: handle.text(), "MOPSLOCK_NAME": handle.name, "MOPSLOCK_STORE": handle.store,
        "MOPSLOCK_HOLDER": handle.holder, "MOPSLOCK_TOKEN": str(handle.token),
        HELD: f"{os.environ[HELD]}\n{held}" if os.environ.get(HELD) else held,
    }  # fmt: skip


class Watch:
    """Ends work whose lease is lost."""

    def __init__(self, held: HeldThing, work: Work[Any], grace_ns: int | None, margin_ns: int | None) -> None:
        ttl, fresh = held.ttl_ns, held.left_ns()
        self._held, self._work = held, work
        self._grace = within(ttl, grace_ns)
        self._early = min(self._grace, early(ttl, fresh, ttl // MARGIN if margin_ns is None else margin_ns))
        self._bell = work.bell
        self._lost: MopslockError | None = None
        self._kill_at = 0  # time.monotonic_ns, once it is lost
        self._warned = False  # it was sent SIGTERM since renewals fail
        self._reserve = 0  # after a pause of ours SIGTERM waits until so much is left
        self.late = False  # its timeout has ended it

    def to_the_end(self, told: Mapping[str, str], timeout: float | None) -> MopslockError | None:
        """Begins the work, and returns when it has ended: with the loss, if there was one."""
        until = None if timeout is None else time.monotonic() + timeout
        self._held.when_ended(lambda _: self._bell.ring())
        if self._work.interrupts:  # and the caller may have released
            raise CancelledError
        self._work.begin(told)
        while not self._work.ended.done():
            if self._work.interrupts:
                self._give_up()
            pause = self.look() / SECOND
            if until is not None and not self.late:
                pause = min(pause, max(0.0, until - time.monotonic()))
                if pause == 0 and time.monotonic() >= until:
                    self.late = True
                    self._work.signal(signal.SIGKILL)
            self._bell.wait(pause)
        self._end_the_rest()
        return self._lost

    def look(self) -> int:
        """Does what is due, and returns for how many nanoseconds nothing else is."""
        if self._lost is None and (failure := self._held.failure()) is not None:
            self._lost = failure
            out_of_time = isinstance(failure, (LeaseExpired, LeaseUnreachable))
            self._kill_at = time.monotonic_ns() + (0 if out_of_time else self._grace)
            log.warning("%s", failure)
            if not out_of_time:
                self._terminate()
        if self._lost is not None:
            if (left := self._kill_at - time.monotonic_ns()) > 0:
                return left
            self._work.signal(signal.SIGKILL)
            return LOOK
        left = self._held.left_ns()
        if left > self._early:
            self._warned, self._reserve = False, 0
            return min(left - self._early, LONGEST_PAUSE)
        if not self._warned and not self._was_paused(left):
            self._warned = True
            self._terminate()
            log.warning(
                "mopslock: lease %s: renewals fail, and its deadline is in %.1f s: SIGTERM to its work",
                _texts.quoted(self._held.name), left / SECOND,
            )  # fmt: skip
        return min(max(left, 0), LOOK)

    def _was_paused(self, left: int) -> bool:
        """A process that is not paused looks earlier. The renewal that was due meanwhile gets half of what is left."""
        if self._reserve == 0 and left < self._early - 2 * LOOK:
            self._reserve = left // 2
        return 0 < self._reserve < left

    def _terminate(self) -> None:
        self._work.signal(signal.SIGTERM)
        self._work.signal(signal.SIGCONT)  # what is stopped cannot obey

    def _end_the_rest(self) -> None:
        """The work has ended. If it was told to, the rest of its group has what is left of the grace."""
        self.look()
        if self._lost is None and self._warned:
            self._lost = _texts.lost(self._held.name, "unreachable", None, self._held.what)
            self._kill_at = time.monotonic_ns() + self._held.left_ns()
        while self._lost is not None and time.monotonic_ns() < self._kill_at and self._work.has_others():
            if self._work.interrupts:
                break
            self._bell.wait(LOOK / SECOND)
        if self._lost is not None:
            self._work.signal(signal.SIGKILL)
        self._work.over.settle(None)

    def _give_up(self) -> NoReturn:
        """The caller was interrupted, and waits for no result. Another interrupt ends the grace."""
        end = time.monotonic() + self._grace / SECOND
        self._terminate()
        while not self._work.ended.done() and len(self._work.interrupts) == 1 and (left := end - time.monotonic()) > 0:
            self._bell.wait(min(left, LONGEST_PAUSE / SECOND))
        self._work.signal(signal.SIGKILL)
        self._work.over.settle(None)
        self._work.ended.wait(self._grace / SECOND)
        raise CancelledError


def early(ttl: int, fresh: int, margin: int) -> int:
    """The longest time before the deadline at which renewals are not late yet, as supervise.go has it: an interval
    after the stamp, and a quarter of what is left from there to the deadline. fresh is what was left at first, and
    tells of a fleet's shorter TTL E: of 0.9 E, the interval is E/3."""
    return max(0, min(ttl - margin - ttl // 3, fresh - fresh * 10 // 27)) // 4 * 3

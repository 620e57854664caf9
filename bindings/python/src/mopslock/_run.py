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

import ctypes
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from . import _texts
from ._api import ENVIRONMENT, lease
from ._duration import Duration, nanoseconds
from ._future import Bell, Future
from ._held import Handle, again
from ._hosts import AnyStore
from ._log import log
from ._options import TermOptions, Unpack, WaitOptions, known, spelled
from ._own.claims import HeldThing
from ._units import SECOND
from ._workers import begin_thread
from .errors import BadArgument, LeaseExpired, LeaseUnreachable, MopslockError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")

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
        self._grace = GRACE if grace_ns is None else grace_ns
        if ttl > 0 and self._grace > ttl // 3:
            if grace_ns is not None:
                raise BadArgument(
                    f"mopslock: grace {grace_ns / SECOND:g}: from 0 to a third of the TTL of {ttl / SECOND:g} s"
                )
            self._grace = ttl // 3
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


class Work(ABC, Generic[T]):
    """A process in a group of its own, and the thread that begins it and waits for it."""

    call: str
    """What its caller has called."""

    def __init__(self) -> None:
        self.bell = Bell()  # wakes who watches it
        self.interrupts: list[None] = []  # of its caller
        self.pid: Future[int] = Future()
        self.ended: Future[None] = Future()
        self.over: Future[None] = Future()  # nobody signals its group any more
        self._outcome: Future[list[T]] = Future()

    def begin(self, told: Mapping[str, str]) -> None:
        """Begins it with more variables in its environment. The bell rings when it has ended."""
        self.ended.add_done_callback(lambda _: self.bell.ring())

        def carry() -> None:
            try:
                self._outcome.settle([self._carry(told)])
            except BaseException as error:
                self._failed(error)
            self.ended.settle(None)

        def note(thread: threading.Thread | None) -> None:
            if thread is None:
                self._failed(RuntimeError("mopslock: no thread can be begun for the work"))
                self.ended.settle(None)

        begin_thread(carry, "mopslock-work", note)

    def _failed(self, error: BaseException) -> None:
        self._outcome.settle(error)
        self.pid.settle(error)

    @abstractmethod
    def _carry(self, told: Mapping[str, str]) -> T:
        """Begins it, says its pid by _running, waits for its end by _attend, and returns its result."""

    @contextmanager
    def _running(self, pid: int) -> Iterator[None]:
        """Says its pid. A failure of ours meanwhile kills its group: the lease is released next."""
        self.pid.settle(pid)
        try:
            yield
        except BaseException:
            if not self.ended.done():
                self.signal(signal.SIGKILL)
            raise

    def _attend(self, pid: int, reap: Callable[[], R]) -> R:
        """Waits for its end, and reaps it once nobody signals its group: so long no other group can have its number.
        Where there is no waitid, it is reaped at once."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # others in this process have reaped it
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self.ended.settle(None)
            self.over.wait()
        try:
            return reap()
        finally:
            self.ended.settle(None)

    def result(self, timeout: float | None) -> T:
        """What it has returned or raised; or that its timeout is over."""
        return self._outcome.result()[0]

    def signal(self, number: int) -> None:
        """To all of its group."""
        self.pid.wait()
        if self.over.done() or self.pid.exception() is not None:
            return
        pid = self.pid.result()
        with suppress(ProcessLookupError, PermissionError):  # macOS may not signal zombies
            try:
                os.killpg(pid, number)
            except ProcessLookupError:  # it has no group yet, or has moved to another
                os.kill(pid, number)

    def has_others(self) -> bool:
        """Whether others of its group are known to live, when it has ended."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                state, _, group = path.read_bytes().rpartition(b")")[2].split()[:3]
                if int(group) == self.pid.result() and state not in (b"Z", b"X"):
                    return True
        return False


class Command(Work["subprocess.CompletedProcess[Any]"]):
    call = "run"

    def __init__(self, args: Sequence[Any], given: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self._args, self._given, self._options = args, given, options

    def _carry(self, told: Mapping[str, str]) -> subprocess.CompletedProcess[Any]:
        refused, refuse = os.pipe()
        options = {**self._options, "env": {**self._options["env"], **told}, "start_new_session": True}
        guard = [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), str(refuse)] if GUARDED else []
        with open(refused, "rb") as refusal:
            try:
                process = _Popen([*guard, *self._args], pass_fds=(refuse,) if GUARDED else (), **options)
            finally:
                os.close(refuse)
            if number := refusal.read():
                with process:
                    raise OSError(int(number), os.strerror(int(number)), self._args[0])
        process.attend = self._attend
        with process, self._running(process.pid):
            out, err = process.communicate(self._given)
        return subprocess.CompletedProcess(self._args, process.returncode, out, err)

    def result(self, timeout: float | None) -> subprocess.CompletedProcess[Any]:
        done = super().result(timeout)
        if timeout is not None:
            raise subprocess.TimeoutExpired(self._args, timeout, done.stdout, done.stderr)
        return done


class _Popen(subprocess.Popen[Any]):
    attend: Callable[[int, Callable[[], int]], int] | None = None  # once it runs

    def wait(self, timeout: float | None = None) -> int:
        """communicate calls it when the pipes have ended."""
        reap = functools.partial(super().wait, timeout)
        return self.attend(self.pid, reap) if self.attend is not None and self.returncode is None else reap()


GUARDED = sys.platform == "linux" and not getattr(sys, "frozen", False)
"""Whether a command dies with us. The kernel kills it when the thread ends that has begun it, which waits for it."""

GUARD = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
    signal.signal(ignored, signal.SIG_DFL)
os.set_inheritable(int(sys.argv[2]), False)
with open("/proc/self/environ", "rb") as file:  # Python may have changed LC_CTYPE
    env = dict(line.split(b"=", 1) for line in file.read().split(bytes(1)) if b"=" in line)
try:
    os.execvpe(sys.argv[3], sys.argv[3:], env)
except OSError as error:
    os.write(int(sys.argv[2]), b"%d" % error.errno)
"""


class Function(Work[T]):
    call = "process"

    def __init__(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self._function = function, args, kwargs

    def _carry(self, told: Mapping[str, str]) -> T:
        from multiprocessing import get_context  # noqa: PLC0415 - it takes its time to be imported

        context = get_context("spawn")
        receive, send = context.Pipe(duplex=False)
        with receive:
            with send:
                child = context.Process(target=_call, args=(send, os.getpid(), dict(told), self._function))
                child.start()
            assert child.pid is not None
            try:
                with self._running(child.pid):
                    said = _said(receive, child)
            finally:
                self._attend(child.pid, child.join)
        if said is None:
            raise RuntimeError(f"mopslock: the process has ended without a result, with exit code {child.exitcode}")
        value, error, remote = said
        if error is not None:
            raise error from RuntimeError(f"in the process:\n{remote}")
        return cast("T", value)


def _said(receive: Connection, child: Any) -> Any:
    """What a process has returned or raised. Its own children may have its end of the pipe: they are not waited for."""
    from multiprocessing.connection import wait  # noqa: PLC0415 - as above

    ended = None
    with suppress(AttributeError, OSError):  # the system has none, or no more
        ended = os.pidfd_open(child.pid)
    try:
        wait([receive, child.sentinel if ended is None else ended])
    finally:
        if ended is not None:
            os.close(ended)
    with suppress(EOFError):
        return receive.recv() if receive.poll() else None


def _call(send: Connection, parent: int, told: dict[str, str], call: tuple[Callable[..., Any], Any, Any]) -> None:
    """In the process."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # as GUARD does
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
    os.environ.update(told)
    function, args, kwargs = call
    try:
        said = pickle.dumps((function(*args, **kwargs), None, ""))
    except BaseException as error:
        said = _dumped(error)
    send.send_bytes(said)


def _dumped(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with suppress(Exception):
        said = pickle.dumps((None, error, text))
        pickle.loads(said)
        return said
    told = RuntimeError(f"mopslock: {type(error).__qualname__}, which cannot be pickled: {error}")
    return pickle.dumps((None, told, text))


def early(ttl: int, fresh: int, margin: int) -> int:
    """The longest time before the deadline at which renewals are not late yet, as supervise.go has it: an interval
    after the stamp, and a quarter of what is left from there to the deadline. fresh is what was left at first, and
    tells of a fleet's shorter TTL E: of 0.9 E, the interval is E/3."""
    return max(0, min(ttl - margin - ttl // 3, fresh - fresh * 10 // 27)) // 4 * 3

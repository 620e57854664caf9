"""A process in a group of its own, which _run watches: a command, or a function."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ._future import Bell, Future
from ._workers import begin_thread

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")


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

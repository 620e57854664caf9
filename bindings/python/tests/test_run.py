"""Work in a process of its own: as subprocess.run and as a call, and what ends it: a loss, an interrupt, and the end or
a stop of its caller.

A pipe that all of a group has tells when the last of it has ended.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import mopslock
from mopslock import _process, _run
from mopslock._future import Bell, Future
from mopslock._held import Handle
from mopslock._process import Command
from mopslock._run import GRACE, Watch, early
from mopslock._units import ENDLESS, SECOND
from mopslock._workers import begin_thread
from mopslock.errors import LeaseExpired, LeaseTaken
from mopslock.stores import Directory, Memory
from test_interrupts import Interrupt, Interrupter, interrupted
from ways import LIVES, NOTICES, SOON, Place, ended, later, program, said, until
from world import FakeStore

TRAPPED = """
trap 'echo told; exit 3' TERM
(trap '' TERM; exec sleep 1000) &
echo begun
while :; do wait; done
"""
"""A command that obeys SIGTERM, and has a child that does not."""


@contextlib.contextmanager
def begun(call: Callable[[int], Any]) -> Iterator[tuple[IO[str], concurrent.futures.Future[Any]]]:
    """A call in another thread that gets the end of a pipe, and that pipe: it ends with the last process that could
    write. The call has returned when the block is left."""
    read, write = os.pipe()
    with open(read) as out, concurrent.futures.ThreadPoolExecutor(1) as pool:
        work = pool.submit(call, write)
        work.add_done_callback(lambda _: os.close(write))
        assert out.readline() == "begun\n"
        yield out, work


def test_a_command_runs_under_the_lease_that_it_is_told(place: Place) -> None:
    told = "import os, json; print(json.dumps([dict(os.environ), os.getpgrp() == os.getsid(0) == os.getpid()]))"
    os.environ["MOPSLOCK_HELD"] = "above@file:///"
    try:
        done = mopslock.run([sys.executable, "-c", told], place.store, "n", capture_output=True, text=True, ttl=LIVES)
    finally:
        del os.environ["MOPSLOCK_HELD"]
    env, alone = json.loads(done.stdout)
    handle = Handle.parse(env["MOPSLOCK_LEASE"])
    assert (done.returncode, done.stderr, alone, handle.name) == (0, "", True, "n")
    assert env["MOPSLOCK_NAME"] == "n"
    assert env["MOPSLOCK_STORE"] == handle.store
    assert env["MOPSLOCK_HOLDER"] == handle.holder == place.holder("n")
    assert env["MOPSLOCK_TOKEN"] == str(handle.token)
    assert env["MOPSLOCK_HELD"] == f"above@file:///\nn@{handle.store}"
    assert place.released("n")


def test_what_is_given_and_returned_is_as_by_subprocess(tmp_path: Path) -> None:
    store, captured = Memory(), {"capture_output": True}
    for options in (
        {"input": "in", "text": True, "stdout": subprocess.PIPE},
        {"input": b"in", **captured},
        {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "LC_CTYPE": "C"}, **captured},
        {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "stdout": subprocess.PIPE, "encoding": "utf-8"},
    ):
        args = ["sh", "-c", 'cat; pwd; echo "$LC_CTYPE"; kill -PIPE $$; echo >&2 never']
        given: Any = options
        if "stdin" not in options and "input" not in options:
            given["stdin"] = subprocess.DEVNULL
        ours, theirs = mopslock.run(args, store, "n", **given), subprocess.run(args, check=False, **given)
        assert vars(ours) == vars(theirs)
    for number, (given, error) in enumerate((
        ({"args": ["false"], "check": True}, subprocess.CalledProcessError),
        ({"args": ["sh", "-c", "echo out; exec sleep 100"], "timeout": 0.2, **captured}, subprocess.TimeoutExpired),
        ({"args": ["no such command"]}, FileNotFoundError), ({"args": [tmp_path]}, PermissionError),
        ({"args": ["true"], "cwd": tmp_path / "none"}, FileNotFoundError),
        ({"args": ["true"], "input": b"", "stdin": 0}, ValueError),
        ({"args": ["true"], "stdout": 1, **captured}, ValueError),
        ({"args": "true"}, mopslock.BadArgument), ({"args": []}, mopslock.BadArgument),
        ({"args": ["true"], "ttl": 30, "grace": 11}, mopslock.BadArgument),
        ({"args": ["true"], "grace": -1}, mopslock.BadArgument), ({"args": ["true"], "shell": True}, TypeError),
        ({"args": ["true"], "on_loss": "cancel"}, TypeError),
    )):  # fmt: skip
        name = f"given{number}"
        with pytest.raises(error) as caught:
            mopslock.run(store=store, name=name, **given)
        if isinstance(caught.value, subprocess.TimeoutExpired):
            assert (caught.value.cmd, caught.value.timeout, caught.value.output) == (given["args"], 0.2, b"out\n")
        before_any_io = issubclass(error, (mopslock.BadArgument, TypeError, ValueError))
        assert mopslock.inspect(store, name).state == ("vacant" if before_any_io else "released")


def test_a_function_is_called_in_a_process_and_its_end_is_the_callers(tmp_path: Path) -> None:
    store, fifo = Memory(), tmp_path / "fifo"
    os.mkfifo(fifo)
    assert mopslock.process(dict, store, "n", args=([("a", 1)],), kwargs={"b": 2}) == {"a": 1, "b": 2}
    assert len(mopslock.process(bytes, store, "n", args=(3_000_000,))) == 3_000_000
    assert mopslock.process(ValueError, store, "n", args=("returned",)).args == ("returned",)
    told = "(os := __import__('os')).environ['MOPSLOCK_NAME'], os.getsid(0) == os.getpid()"
    assert mopslock.process(eval, store, "n", args=(told,)) == ("n", True)
    with pytest.raises(ValueError, match="math domain error") as caught:
        mopslock.process(math.sqrt, store, "n", args=(-1,))
    assert "Traceback (most recent call last)" in str(caught.value.__cause__)
    for function, args, error in (
        (sys.exit, (4,), SystemExit), (os._exit, (3,), RuntimeError), (threading.Lock, (), TypeError),
        (lambda: 1, (), Exception),
        (exec, ("from urllib.error import *; raise ContentTooShortError('cannot be unpickled', 1)",), RuntimeError),
        (exec, (f"import os\nif os.fork(): os._exit(0)\nopen({str(fifo)!r}).read()",), RuntimeError),
    ):  # fmt: skip
        with pytest.raises(error):
            mopslock.process(function, store, "n", args=args)
    fifo.write_bytes(b"")  # what a child of the process still reads
    assert mopslock.inspect(store, "n").state == "released"


class Fake:
    """A lease of so much left, and work that notes its signals."""

    ttl_ns, name, what = 60 * SECOND, "n", "lease"

    def __init__(self, left: int = 54 * SECOND) -> None:
        self.left, self.lost, self.signals, self.others = left, None, list[str](), list[bool]()
        self.ended, self.over = Future[None](), Future[None]()
        self.bell, self.interrupts = Bell(), list[None]()

    def left_ns(self) -> int:
        return self.left

    def failure(self) -> Any:
        return self.lost

    def when_ended(self, _: object) -> None:
        pass

    def signal(self, number: int) -> None:
        self.signals.append(signal.Signals(number).name)

    def has_others(self) -> bool:
        return bool(self.others) and self.others.pop(0)


def watched(left: int = 54 * SECOND, grace: int | None = None) -> tuple[Any, Any]:
    fake: Any = Fake(left)
    return fake, Watch(fake, fake, grace, None)


TERM, KILL = ["SIGTERM", "SIGCONT"], ["SIGKILL"]


@pytest.mark.parametrize(
    ("left", "signals"),
    [
        ([10.0], TERM), ([9.9], TERM),  # in time, and a little late
        ([9.0, 8.0, 4.6], []), ([9.0, 4.5], TERM),  # paused: the renewal gets half of what is left
        ([9.0, 50.0, 9.0], []), ([9.0, 50.0, 10.0], TERM),  # renewed, and paused again or not
        ([10.0, 50.0], TERM), ([10.0, 50.0, 10.0], 2 * TERM), ([10.0, 9.0, 1.0], TERM),
    ],
)  # fmt: skip
def test_work_is_told_before_the_deadline_and_not_for_a_pause(left: list[float], signals: list[str]) -> None:
    """As TestDeadlineAfterAPause of supervise_test.go."""
    fake, watch = watched()
    assert watch.look() == SECOND
    for seconds in left:
        fake.left = round(seconds * SECOND)
        assert 0 < watch.look() <= SECOND
    assert fake.signals == signals


@pytest.mark.parametrize(
    ("lost", "signals", "killed"),
    [
        (LeaseExpired("t"), [], True), (mopslock.LeaseUnreachable("t"), [], True),
        (LeaseTaken("t"), TERM, False), (mopslock.LeaseBroken("t"), TERM, False),
        (mopslock.LeaseEnded("t"), TERM, False),
    ],
)  # fmt: skip
def test_work_is_killed_at_once_when_its_lease_may_be_anothers(lost: Any, signals: list[str], killed: bool) -> None:
    for grace in (None, 0):
        fake, watch = watched(grace=grace)
        fake.lost = lost
        while watch.look() < SECOND and "SIGKILL" not in fake.signals:
            pass
        assert fake.signals == signals + KILL * (killed or grace == 0)
        fake.ended.settle(None)
        fake.signals = []
        watch._kill_at = 0
        watch._end_the_rest()
        assert watch._lost is lost
        assert set(fake.signals) == set(KILL)
        assert fake.over.done()


@pytest.mark.parametrize(("renewed", "lost"), [(True, False), (False, True)])
def test_an_end_after_sigterm_is_a_loss_unless_it_was_renewed(renewed: bool, lost: bool) -> None:
    fake, watch = watched()
    fake.left = 10 * SECOND
    watch.look()
    fake.left = 40 * SECOND if renewed else 9 * SECOND
    fake.ended.settle(None)
    watch._end_the_rest()
    assert isinstance(watch._lost, mopslock.LeaseUnreachable) == lost
    assert fake.signals == TERM + KILL * lost


def test_the_rest_of_a_group_has_what_is_left_of_the_grace() -> None:
    fake, watch = watched()
    fake.lost, fake.others = LeaseTaken("t"), [True, True, False]
    watch.look()
    fake.ended.settle(None)
    watch._end_the_rest()
    assert (fake.others, fake.signals) == ([], TERM + KILL)


def test_no_other_group_gets_the_number_of_one_that_may_be_signalled() -> None:
    work = Command(["true"], None, {"env": os.environ})
    work.begin({})
    assert work.bell.wait(SOON)
    assert os.waitid(os.P_PID, work.pid.result(), os.WEXITED | os.WNOHANG | os.WNOWAIT)  # it is a zombie
    work.over.settle(None)
    assert work.result(None).returncode == 0
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, work.pid.result(), os.WEXITED | os.WNOHANG)


def test_the_grace_fits_the_ttl_and_early_is_as_the_commands() -> None:
    """As TestGraceWithin of supervise_test.go: ttl, margin, slow, deadline and grace, in seconds."""
    for ttl, margin, slow, deadline, grace in (
        (60, 6, 0, 54, 10), (60, 6, 19, 54, 10), (24, 11.6, 0, 12.4, 3.3), (24, 11.6, 1.4, 12.4, 3.3),
        (24, 11.6, 5.2, 12.4, 3.3), (88, 8.8, 0, 16.2, 7.65), (24, 11.6, 0, 7.2, 3.3), (88, 8.8, 3.6, 16.2, 5.95),
        (600, 60, 0, 79.2, 10),
    ):  # fmt: skip
        fresh = round((deadline - slow) * SECOND)
        found = min(GRACE, early(ttl * SECOND, fresh, round(margin * SECOND)))
        assert found / SECOND == pytest.approx(grace, abs=1e-6)
    assert early(-1, 1 << 62, 0) == 0  # no deadline
    fake: Any = Fake()
    for ttl_ns, given, seconds in ((15 * SECOND, None, 5), (ENDLESS, 60 * SECOND, 60)):
        fake.ttl_ns = ttl_ns
        assert Watch(fake, fake, given, None)._grace == seconds * SECOND
    fake.ttl_ns = 15 * SECOND
    with pytest.raises(mopslock.BadArgument):
        Watch(fake, fake, 6 * SECOND, None)


def test_a_break_ends_the_group(url: str) -> None:
    def call(out: int) -> Any:
        return mopslock.run(["sh", "-c", TRAPPED], url, "n", stdout=out, ttl=LIVES, grace=0.5, protocol="strict")

    with begun(call) as (out, work):
        mopslock.break_lease(url, "n", "a test", now=True)
        assert out.read() == "told\n", "and its child is killed after the grace"
        assert isinstance(work.exception(SOON), mopslock.LeaseBroken)


def test_the_end_of_a_lease_ends_a_function(place: Place) -> None:
    code = "import signal\nout = open({!r}, 'w')\nprint('begun', file=out, flush=True)\nsignal.pause()"

    def call(out: int) -> Any:
        args = (code.format(f"/proc/{os.getpid()}/fd/{out}"),)
        return mopslock.process(exec, place.store, "n", args=args, ttl=LIVES)

    with begun(call) as (out, work):
        mopslock.close(place.store)
        assert out.read() == ""
        assert isinstance(work.exception(SOON), mopslock.LeaseEnded)


def test_a_function_runs_to_its_end_where_the_system_gives_no_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError("no more descriptors")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    assert mopslock.process(int, Memory(), "n", args=("7",)) == 7


@pytest.mark.parametrize("call", ["run", "process"])
def test_a_failure_of_ours_ends_the_work_before_the_release(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the work any more, and the next holder may do it."""
    store, read = FakeStore(), threading.Event()

    def fail(*_: object) -> None:
        assert read.wait(SOON)
        raise TypeError("a bug")

    monkeypatch.setattr(_process, "_said", fail)
    monkeypatch.setattr(subprocess.Popen, "communicate", fail)

    def work(out: int) -> Any:
        if call == "run":
            return mopslock.run(["sh", "-c", "echo begun; exec sleep 1000"], store, "n", stdout=out, ttl=LIVES)
        code = f"out = open('/proc/{os.getpid()}/fd/{out}', 'w')\nprint('begun', file=out, flush=True)\n"
        return mopslock.process(exec, store, "n", args=(f"{code}__import__('signal').pause()",), ttl=LIVES)

    with begun(work) as (out, working):
        read.set()
        assert isinstance(working.exception(SOON), TypeError)
        assert out.read() == ""
        assert mopslock.inspect(store, "n").state == "released"


def test_renewals_that_fail_end_a_command_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    monkeypatch.setattr(_run, "LONGEST_PAUSE", _run.LOOK)
    with begun(lambda out: mopslock.run(["sh", "-c", TRAPPED], store, "n", stdout=out, ttl=30)) as (out, work):
        store.fail(OSError("the store is away"), "put")
        later(16.5)  # of the 17 s to deadline - grace
        assert out.readline() == "told\n"
        later(10)
        assert out.read() == ""
        assert isinstance(work.exception(SOON), (mopslock.LeaseUnreachable, LeaseExpired))


def test_ctrl_c_ends_the_group_and_releases(place: Place) -> None:
    code = f"mopslock.run(['sh', '-c', {TRAPPED!r}], {place.code}, 'n', ttl={LIVES}, grace=0.5)"
    with program(code) as process:
        assert said(process) == "begun"
        process.send_signal(signal.SIGINT)
        status, out, err = ended(process)
    assert (out, err.splitlines()[-1]) == ("told\n", "KeyboardInterrupt")
    assert status in (-signal.SIGINT, 130)
    assert place.released("n")


CALLS = {
    "run": "run(['sh', '-c', 'echo begun; exec sleep 1000'], {}, 'n')",
    "process": "process(exec, {}, 'n', args=('import signal; print(\"begun\", flush=True); signal.pause()',))",
}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no kernel kills it")
@pytest.mark.parametrize("call", CALLS)
def test_work_does_not_outlive_a_caller_that_is_killed(call: str, tmp_path: Path) -> None:
    with program(f"mopslock.{CALLS[call].format(Place.of('own', tmp_path).code)}") as process:
        assert said(process) == "begun"
        process.kill()
        assert ended(process)[1] == ""  # the pipe ends when the work does


def test_a_caller_that_was_stopped_past_the_deadline_kills_its_work_at_once(tmp_path: Path) -> None:
    place = Place.of("own", tmp_path)
    code = f"""
try:
    mopslock.run(['sh', '-c', {TRAPPED!r}], {place.code}, 'n', ttl={NOTICES}, protocol='strict')
except mopslock.LeaseLost as error:
    print(type(error).__name__)
"""
    with program(code) as process:
        assert said(process) == "begun"
        process.send_signal(signal.SIGSTOP)
        mopslock.acquire(Directory(tmp_path), "n", ttl=NOTICES, protocol="strict").release()
        process.send_signal(signal.SIGCONT)
        status, out, _ = ended(process)
    assert (status, out) == (0, "LeaseExpired\n")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # nor begun
def test_a_second_interrupt_anywhere_after_the_first_releases_nothing_beside_its_work() -> None:
    """The work does not obey SIGTERM. Its pipe has ended when it has."""
    store, main, begin, wait = Memory(), threading.get_ident(), begin_thread, Bell.wait
    for n in itertools.count(step=2):
        read, write = os.pipe()
        second = Interrupter(n, edges=set())

        def interrupt(bell: Bell, seconds: float | None, read: int = read, second: Interrupter = second) -> bool:
            if threading.get_ident() != main:
                return wait(bell, seconds)
            patch.undo()
            assert os.read(read, 9) == b"begun\n"
            sys.settrace(second)
            raise Interrupt

        def begun(*args: Any) -> None:
            begin(*args)
            if threading.get_ident() == main:
                patch.setattr(Bell, "wait", interrupt)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupt):
            patch.setattr(_run, "begin_thread", begun)
            try:
                command = ["sh", "-c", "trap '' TERM; echo begun; exec sleep 1000"]
                mopslock.run(command, store, f"n{n}", stdout=write, grace=0.1, ttl=LIVES)
            finally:
                sys.settrace(None)
        os.close(write)
        until(lambda: mopslock.inspect(store, f"n{n}").state == "released")  # noqa: B023
        os.set_blocking(read, False)
        assert os.read(read, 9) == b"", second.where
        os.close(read)
        if not second.delivered:
            break
    assert n > 10


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # nor begun
def test_an_interrupt_anywhere_leaves_no_process_and_no_lease() -> None:
    store = Memory()

    def work(n: int) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            mopslock.run(["sleep", f"1000.{n}"], store, f"n{n}", timeout=0.05)

    def lives(n: int) -> bool:
        return any(f"1000.{n}\0".encode() in read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))

    def read(path: Path) -> bytes:
        with contextlib.suppress(OSError):  # it has ended
            return path.read_bytes()
        return b""

    for n in itertools.count(step=7):
        interrupter = interrupted(n, lambda: work(n), set())  # noqa: B023
        assert not lives(n), interrupter.where
        until(lambda: mopslock.inspect(store, f"n{n}").state in ("vacant", "released"))  # noqa: B023
        if not interrupter.delivered:
            break
    assert n > 100

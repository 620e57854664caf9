"""The keeper: a process that keeps what this one holds by URL, whatever becomes of either."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import mopslock
from mopslock import _hosts
from mopslock._own import belief, keeper, wire
from mopslock._own.belief import WORDS, Belief, Word
from mopslock._own.keeper import Keeper
from mopslock._own.kept import KeptClient
from mopslock.stores import Directory
from ways import LIVES, NOTICES, SOON, alone, forked, program, said, until

PROTOCOLS_OPEN = True
"""Where nothing is said, auto."""


@pytest.fixture
def kept(url: str) -> Iterator[Keeper]:
    """The keeper of this process, which a test may do anything to."""
    with mopslock.lease(url, "first", ttl=LIVES):
        found = keeper._current.keepers[False]
    yield found
    if found.dead is None:
        kill(found)


def kill(kept: Keeper) -> None:
    """Kills it, and waits until this process has heard of it."""
    os.kill(kept.pid, signal.SIGKILL)
    until(lambda: kept.dead is not None)


def gone(pid: int) -> bool:
    """Whether a process has ended. It is no child of ours."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("python", [False, True])
def test_it_is_no_child_of_ours_and_ignores_what_a_terminal_sends(python: bool) -> None:
    """A program that waits for its children must not wait for it, or count it."""
    kept = keeper.keeper(python=python)
    with pytest.raises(ChildProcessError):
        os.waitpid(kept.pid, os.WNOHANG)
    assert os.getsid(kept.pid) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        os.kill(kept.pid, number)
    assert kept.ask(0, "counts").result()["kind"] == "done"
    assert kept.path.name in Path(f"/proc/{kept.pid}/cmdline").read_text()
    for fd in (0, 1):
        assert os.readlink(f"/proc/{kept.pid}/fd/{fd}").startswith("socket:")
    assert os.readlink(f"/proc/{kept.pid}/fd/2").startswith("pipe:")


def test_where_there_are_only_pipes(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: two pipes that a thread reads, and deadlines in a file that has a name."""
    monkeypatch.setattr(wire, "PIPES", True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, begins = (tmp_path / f"{belief.PREFIX}{name}" for name in ("left", "begins"))
    for path in (left, begins):
        path.touch()
    os.utime(left, (0, 0))
    with alone():
        with mopslock.lease(url, "n", ttl=LIVES) as lease:
            kept = keeper._current.keepers[False]
            assert os.readlink(f"/proc/{kept.pid}/fd/0").startswith("pipe:")
            assert belief.PREFIX in Path(f"/proc/{kept.pid}/maps").read_text()
            lease.check()
            forked(lambda: None)
            assert kept.is_ours()
        assert mopslock.invoke(url, "w", lambda _: b"x" * 100_000).read() == b"x" * 100_000
        kill(kept)
        with mopslock.lease(url, "n", ttl=LIVES) as lease:
            lease.check()
            kill(keeper._current.keepers[False])
        assert list(tmp_path.glob("mopslock-*")) == [begins]
        with pytest.raises(keeper.NoKeeper, match="on Windows no keeper"):
            keeper.keeper(python=True)


HOLDS = """
lease = mopslock.acquire({url!r}, "n", ttl={ttl}, protocol="strict")
from mopslock._own import keeper
print(keeper._current.keepers[False].pid, lease.fencing_token, flush=True)
"""


@contextlib.contextmanager
def holding(url: str, then: str, ttl: float = NOTICES) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A program that holds "n", the pid of its keeper, and its token."""
    with program(HOLDS.format(url=url, ttl=ttl) + then) as process:
        pid, token = map(int, said(process).split())
        yield process, pid, token


def test_a_parent_that_is_killed_takes_its_keeper_along_though_a_child_of_it_lives(url: str) -> None:
    """The child has the socket open. The lease is not released: it expires, and then another has it."""
    child = "child = os.fork()\nif not child:\n    os.closerange(0, 3)\n    signal.pause()\n"
    with holding(url, child + "print(child, flush=True)\nsignal.pause()\n") as (process, pid, token):
        child = said(process)
        try:
            os.kill(process.pid, signal.SIGKILL)
            until(lambda: gone(pid))
            assert mopslock.inspect(url, "n").state == "held"
            with mopslock.lease(url, "n", ttl=LIVES, protocol="strict", wait=SOON) as lease:
                assert lease.fencing_token > token
        finally:
            os.kill(int(child), signal.SIGKILL)


BESET = {
    "a stop": """
import subprocess
subprocess.Popen(["sh", "-c", f"sleep {ttl * 1.5}; kill -CONT {os.getpid()}"])
os.kill(os.getpid(), signal.SIGSTOP)
""",
    "a call into C that keeps the GIL": "import ctypes\nctypes.PyDLL(None).usleep(int(ttl * 1.5e6))",
    "no descriptors": """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while True: files.append(os.dup(0))
except OSError:
    pass
for _ in range(4):
    lost = lease.lost.wait(ttl / 2)
    assert not lost
""",
}


@pytest.mark.parametrize("how", BESET)
def test_a_process_that_can_do_nothing_for_longer_than_the_ttl_loses_no_lease(how: str, url: str) -> None:
    then = f"ttl = {NOTICES}\n{BESET[how]}\nlease.check()\nprint('kept', flush=True)\nos._exit(0)\n"
    with holding(url, then) as (process, _, _):
        assert said(process) == "kept"


def test_a_parent_whose_descriptors_were_closed_writes_into_no_file_of_its_users(url: str, tmp_path: Path) -> None:
    """As a program does that becomes a daemon. The number of our socket is that of the user's file by then."""
    file = str(tmp_path / "file")
    then = f"""
os.closerange(3, 256)
files = [open({file!r} + str(n), "wb") for n in range(64)]
print(mopslock.acquire({url!r}, "m", ttl={LIVES}).name, flush=True)
for file in files: file.close()
print([n for n in range(64) if os.path.getsize({file!r} + str(n))], flush=True)
os._exit(0)
"""
    with holding(url, then) as (process, _, _):
        assert said(process) == "m"  # another keeper has it
        assert said(process) == "[]"


def test_what_a_killed_keeper_held_ends_in_time(kept: Keeper, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A release, for which no keeper is there, says so at once."""
    lease = mopslock.acquire(url, "n", ttl=NOTICES, protocol="strict")
    released = mopslock.acquire(url, "r", ttl=LIVES, protocol="strict")
    lost: list[mopslock.LeaseLost] = []
    lease.on_lost(lost.append)
    kill(kept)
    lease.check()  # its deadline stands
    with pytest.raises(mopslock.MopslockError):
        released.release()
    with mopslock.lease(url, "m", ttl=LIVES):
        other = keeper._current.keepers[False]
        assert other.pid != kept.pid
    until(lambda: lost)
    with pytest.raises(mopslock.LeaseUnreachable):
        lease.check()
    assert "has ended" in str(lost[0].__cause__)
    assert any("has ended" in record.message for record in caplog.records)


def test_who_waits_in_a_killed_keeper_is_told(kept: Keeper, url: str) -> None:
    with mopslock.lease(Path(url.removeprefix("file://")), "n", ttl=LIVES, protocol="strict"):
        waiting = _hosts.host_of(url).begin_acquire("n", mopslock.Terms(ttl=LIVES, protocol="strict"), 1 << 61, None)
        os.kill(kept.pid, signal.SIGKILL)
        with pytest.raises(mopslock.EngineFailed, match="has ended"):
            waiting.result()


def test_a_companion_of_a_killed_keeper_joins_again(kept: Keeper, url: str) -> None:
    """A remote keeps its lease as long as it runs."""
    with holding(url, "print(lease.text, flush=True)\nsignal.pause()\n", LIVES) as (process, _, _):
        companion = mopslock.accompany(said(process))
        holders = len(mopslock.inspect(url, "n").companions)
        kill(kept)
        until(lambda: len(mopslock.inspect(url, "n").companions) > holders)
        companion.check()
        companion.leave()


@pytest.mark.parametrize("as_remote", [False, True])
@pytest.mark.parametrize("left", [True, False])
def test_work_of_a_killed_keeper_is_stored_all_the_same(
    left: bool, as_remote: bool, kept: Keeper, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another keeper, or from here if there is none."""
    launches = f"mopslock.invoke({url!r}, 'w', lambda work: print(work.text, flush=True) or sys.stdin.readline())"

    def launch(work: mopslock.Work) -> bytes:
        if not left:
            monkeypatch.setattr(keeper, "command", lambda: None)
        kill(kept)
        return b"done"

    if as_remote:
        with program(launches) as process:
            result = mopslock.remote(None, said(process), launch)
    else:
        result = mopslock.invoke(url, "w", launch, ttl=NOTICES)
    assert result is not None
    assert result.read() == b"done"


def test_work_that_ends_as_its_keeper_is_killed_is_stored(
    kept: Keeper, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper has been told, and has not answered."""

    def stopped(client: KeptClient, event: dict[str, Any], claim: Any = None) -> None:
        if event["kind"] == "ended" and client.keeper is kept:
            threading.Thread(target=lambda: os.kill(kept.pid, signal.SIGKILL)).start()
        else:
            give(client, event, claim)

    give = KeptClient._give
    monkeypatch.setattr(KeptClient, "_give", stopped)
    assert mopslock.invoke(url, "w", lambda work: b"done", ttl=NOTICES).read() == b"done"


def test_who_waits_for_a_loss_need_not_be_told(kept: Keeper, url: str) -> None:
    """Its keeper is stopped, and the deadline passes."""
    lease = mopslock.acquire(url, "n", ttl=NOTICES, protocol="strict")
    os.kill(kept.pid, signal.SIGSTOP)
    assert lease.lost.wait(SOON)


def test_credentials_that_are_set_later_go_along(kept: Keeper, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next store that is opened: the keeper would know only those that it was started with."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "account")
    assert kept.changed()["AZURE_STORAGE_ACCOUNT"] == "account"
    with mock.patch.object(KeptClient, "ask", autospec=True, side_effect=KeptClient.ask) as ask:
        mopslock.close()
        mopslock.inspect(url, "n")
    opened = next(call.kwargs for call in ask.call_args_list if call.args[1] == "open")
    assert opened["environment"]["AZURE_STORAGE_ACCOUNT"] == "account"


def test_the_words_of_tenures() -> None:
    """A word of another tenure than one's own is no deadline of one's own."""
    belief = Belief()
    slot = belief.take()
    belief.words[slot] = 1 << 40 | 2
    assert [Word(belief.words, slot, tenure).until() for tenure in (1, 2, 258)] == [0, 1 << 40, 1 << 40]
    belief.give_back(slot)
    assert belief.take() == slot
    belief._next = WORDS
    assert belief.take() == 0


def test_a_forked_child_has_a_keeper_of_its_own(kept: Keeper, url: str) -> None:
    def child() -> list[object]:
        with mopslock.lease(url, "m", ttl=LIVES):
            return [type(lease.lost._held.failure()).__name__, keeper._current.keepers[False].pid != kept.pid]

    with mopslock.lease(url, "n", ttl=LIVES, protocol="strict") as lease:
        assert forked(child) == ["Forked", True]
        lease.check()
    assert kept.dead is None


def test_a_store_of_ones_own_in_a_keeper(tmp_path: Path) -> None:
    """The whole of a lease, of work and of a look, and a C call that keeps the GIL for longer than the TTL."""
    code = """
import ctypes
store = mopslock.stores.Directory({root!r}, keeper=True)
with mopslock.lease(store, "n", ttl={ttl}, protocol="strict") as lease:
    ctypes.PyDLL(None).usleep(int({ttl} * 1.5e6))
    lease.check()
    print(mopslock.inspect(store, "n").held, [status.name for status in mopslock.ls(store)], flush=True)
print(mopslock.invoke(store, "w", lambda work: b"done").read(), mopslock.inspect(store, "n").state, flush=True)
from mopslock._own import keeper
print(list(keeper._current.keepers), flush=True)
"""
    with program(code.format(root=str(tmp_path / "store"), ttl=NOTICES)) as process:
        assert said(process) == "True ['n']"
        assert said(process) == "b'done' released"
        assert said(process) == "[True]"


@pytest.mark.parametrize("name", ["h#x", "a\tb", "p%zz", "nul%00x", "q?create=maybe", "q?create=true&create=false"])
def test_without_a_keeper_no_other_directory_is_kept(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that a keeper would refuse, or read otherwise."""
    monkeypatch.setattr(keeper, "command", lambda: None)
    with alone(), pytest.raises(mopslock.EngineFailed, match="there is no mopslock-host"):
        mopslock.acquire(f"{url}/{name}", "n")


def test_what_is_too_long_for_a_message_is_refused(url: str) -> None:
    with pytest.raises(mopslock.BadArgument, match="at most 98,304"):
        mopslock.acquire(url, "n" * 98304, wait=0)


async def test_a_task_has_another_keeper_when_one_was_killed(tmp_path: Path) -> None:
    """On a store of one's own. And a probe that cannot be deleted is left."""
    store = Directory(tmp_path, keeper=True)
    store.delete = mock.Mock(side_effect=OSError("not mine"))  # type: ignore[method-assign]
    await mopslock.aio.acquire(store, "first", ttl=LIVES)
    await asyncio.to_thread(kill, keeper._current.keepers[True])
    async with mopslock.aio.lease(store, "n", ttl=LIVES) as lease:
        lease.check()


@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError])
def test_a_store_that_cannot_be_tried_is_refused(raised: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises, on threads that nobody waits for."""
    monkeypatch.setattr(Elsewhere, "put", mock.Mock(side_effect=raised))
    with pytest.raises(mopslock.StoreError, match="cannot be opened in a keeper"):
        mopslock.acquire(Elsewhere(), "n")


class Elsewhere(mopslock.stores.Memory):
    """A store whose copy in a child would be an empty one."""

    keeper = True
    keeper_terms = staticmethod(lambda: ("mopslock.stores:Memory",))


def test_a_store_that_would_be_another_one_in_a_child_is_refused() -> None:
    """Two holders would be the price."""
    with pytest.raises(mopslock.BadArgument, match="is another one"):
        mopslock.acquire(Elsewhere(), "n")
    store = mopslock.stores.Memory()
    store.keeper = True  # type: ignore[attr-defined]
    with pytest.raises(mopslock.BadArgument, match="no keeper_terms"):
        mopslock.acquire(store, "n")


@pytest.mark.parametrize("store", [Path.as_uri, lambda path: Directory(path, keeper=True)], ids=["url", "own"])
def test_a_store_of_which_nothing_was_asked_is_closed(store: Callable[[Path], Any], tmp_path: Path) -> None:
    ours = store(tmp_path)
    client = _hosts.host_of(ours).client
    mopslock.close(ours, timeout=SOON)
    assert client.closed.done()


def test_a_keeper_in_python_imports_only_what_it_needs(tmp_path: Path) -> None:
    """The first acquire waits for it."""
    store = Directory(tmp_path, keeper=True)
    with mopslock.lease(store, "n", ttl=LIVES):
        maps = Path(f"/proc/{keeper._current.keepers[True].pid}/maps").read_text()
    assert "asyncio" not in maps
    assert "_ssl" not in maps


def test_a_stopped_keeper_is_left(kept: Keeper, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers that wait are told, and the next call has another."""
    monkeypatch.setattr(keeper, "LOOKING", 0.05)
    mopslock.inspect(url, "n")  # from now on it looks so often
    os.kill(kept.pid, signal.SIGSTOP)
    with pytest.raises(mopslock.EngineFailed, match="has not answered"):
        mopslock.acquire(url, "n", wait=SOON, ttl=LIVES)
    monkeypatch.undo()
    with mopslock.lease(url, "n", ttl=LIVES):
        pass
    os.kill(kept.pid, signal.SIGCONT)
    until(lambda: gone(kept.pid))


def test_who_is_starved_takes_its_own_silence_for_no_keepers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks count from when the question is sent, and each answer ends that."""
    monkeypatch.setattr(Keeper, "__init__", lambda _: None)
    starved, posted = Keeper(), list[Any]()  # type: ignore[call-arg]
    starved._stores, starved._asked, starved._silent = {1: mock.Mock()}, False, -1
    monkeypatch.setattr(starved, "post", posted.append)
    monkeypatch.setattr(starved, "say", lambda *_: None)
    for _ in range(10 * keeper.HANGING):
        assert starved._still_answers()
    (send,) = posted
    send()
    for _ in range(keeper.HANGING - 1):
        assert starved._still_answers()
    with pytest.raises(TimeoutError):
        starved._still_answers()


def test_a_write_that_is_not_answered_may_be_written(kept: Keeper, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not written later on."""
    guarded = mopslock.Guarded(url, "object", timeout=0.2)
    os.kill(kept.pid, signal.SIGSTOP)
    with pytest.raises(mopslock.Unsettled):
        guarded.write((1, "holder"), b"late")
    os.kill(kept.pid, signal.SIGCONT)
    assert mopslock.Guarded(url, "object").read().number == 0


def test_a_result_is_read_after_the_store_was_closed(url: str) -> None:
    result = mopslock.invoke(url, "w", lambda work: b"done", ttl=LIVES)
    mopslock.close()
    assert result.read() == b"done"


def test_work_given_up_while_a_keeper_starts_holds_nothing(
    kept: Keeper, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, going = threading.Event(), []

    def moves(client: KeptClient, claims: object) -> None:
        going.append(claims)
        go_on.wait(SOON)
        move(client, claims)  # type: ignore[arg-type]

    def launch(work: mopslock.Work) -> bytes:
        kill(kept)
        until(lambda: going)
        raise KeyboardInterrupt

    move = KeptClient._move
    monkeypatch.setattr(KeptClient, "_move", moves)
    with pytest.raises(KeyboardInterrupt):
        mopslock.invoke(url, "w", launch, ttl=NOTICES, protocol="strict")
    go_on.set()
    with mopslock.lease(url, "w", ttl=NOTICES, protocol="strict", wait=SOON) as lease:
        lease.check()


def test_a_forked_child_closes_nothing_that_is_not_ours(kept: Keeper, tmp_path: Path) -> None:
    """A keeper that has ended has no descriptors any more."""
    kill(kept)
    with contextlib.ExitStack() as files:
        opened = [files.enter_context(open(tmp_path / str(n), "w")) for n in range(8)]
        assert forked(lambda: [os.fstat(file.fileno()).st_size for file in opened]) == [0] * 8


def test_a_store_of_mops_in_a_keeper(tmp_path: Path) -> None:
    pytest.importorskip("thds.mops")
    store = mopslock.stores.Mops.of_uri(tmp_path.as_uri(), keeper=True)
    with mopslock.lease(store, "n", ttl=LIVES, protocol="lastwriter") as lease:
        assert (tmp_path / "n" / "lock.json").exists()
        assert mopslock.inspect(store, "n").holder == lease.holder

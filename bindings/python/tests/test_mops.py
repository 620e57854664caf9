"""mops' names, signatures and records, how its leases and ours meet on one file, and how they go between processes."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from thds.mops.pure.core.lease import _acquire as their_acquire
from thds.mops.pure.core.lease import maintain as their_maintain
from thds.mops.pure.pickling.mprunner import MemoizingPicklingRunner
from thds.mops.pure.runner import simple_shims

import mopsjob
from mopslock import mops as ours
from mopslock.errors import BadArgument, MopslockError
from mopslock.mops import _engine, _leases
from ways import ended, forked, program, until

theirs: Any = importlib.import_module("thds.mops.pure.core.lease")  # whose names are not exported in so many words
TTL = timedelta(seconds=88)
NAMES = (
    "acquire", "add_lease_to_maintenance_daemon", "lease_uri_for", "maintain_to_release", "make_remote_lease_writer",
    "read_lease",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Each test has an engine of its own."""
    yield
    _engine._current.engine = None


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/memo/lock"


def path(uri: str) -> Path:
    return Path(uri.removeprefix("file://")) / "lock.json"


def record(uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path(uri).read_bytes())
    return found


def write(uri: str, **fields: Any) -> bytes:
    """A record of another's."""
    now = datetime.now().astimezone().isoformat()
    made = {
        "writer_id": "another", "written_at": now, "expire_s": 88.0, "write_count": 2, "hostname": "h", "pid": "1",
        "tid": 1, "first_written_at": now, "first_acquired_at": now, "released_at": "", **fields,
    }  # fmt: skip
    path(uri).parent.mkdir(parents=True, exist_ok=True)
    path(uri).write_text(json.dumps(made, indent=2))
    return path(uri).read_bytes()


def long_ago(seconds: float) -> str:
    return (datetime.now().astimezone() - timedelta(seconds=seconds)).isoformat()


def test_every_name_of_mops_is_here_with_its_signature() -> None:
    public = {name for name in vars(theirs) if not name.startswith("_") and not inspect.ismodule(getattr(theirs, name))}
    assert public <= set(ours.__all__)
    for name in NAMES:
        mine, original = (inspect.signature(getattr(module, name)).parameters.values() for module in (ours, theirs))
        assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in original]
    assert ours.LEASE_DIRNAME == theirs.LEASE_DIRNAME
    for memo in ("file:///a/b/c", "/a/b", "adls://account/container/a/b", "a"):
        assert ours.lease_uri_for(memo) == theirs.lease_uri_for(memo)
    for name in ("CannotMaintainLease", "LeaseLostError"):
        assert issubclass(getattr(ours, name), getattr(theirs, name))
        assert issubclass(getattr(ours, name), ValueError)
        assert issubclass(getattr(ours, name), MopslockError)
    wanted = {name for name in [*theirs.LeaseAcquired.__annotations__, *vars(theirs.LeaseAcquired)] if name[0] != "_"}
    lease = _leases.Lease("x/lock", "w", 88.0)
    assert wanted == {"writer_id", "expire_s", "maintain", "release"}
    assert all(hasattr(lease, name) for name in wanted)


def test_lease_without_mops_is_clear_about_it() -> None:
    code = """
sys.modules['thds'] = None
import mopslock.mops as m
assert issubclass(m.CannotMaintainLease, ValueError)
assert m.read_lease('x') is None
for do in (lambda: m.acquire('file:///a/lock'), m.install):
    try: do()
    except ModuleNotFoundError as error: print(error)
"""
    with program(code) as process:
        status, said, error = ended(process)
    assert (status, len(said.splitlines())) == (0, 2), error
    assert "pip install 'mopslock[mops]'" in said


def test_what_cannot_be_is_refused(uri: str) -> None:
    for expire, margin in ((1, 0.6), (1, -0.1), (0, 0), (0.01, 0), (31 * 86400, 0)):
        with pytest.raises(BadArgument, match=r"margin|expire|ttl"):
            ours.acquire(uri, expire=timedelta(seconds=expire), acquire_margin=timedelta(seconds=margin))
    assert not path(uri).exists()
    for bad in ("", "lock", "/lock", "file:///lock", "/a/..", "/a/" + "x" * 201, "/a/result", b"/a/b"):
        for do in (ours.acquire, ours.make_remote_lease_writer):
            with pytest.raises(ValueError, match="mopslock"):
                do(bad)  # type: ignore[arg-type]


def test_what_is_before_the_last_segment_may_be_anything(tmp_path: Path) -> None:
    root = f"file://{tmp_path}/" + "/".join(["very odd;_=%20 name. " + "x" * 150] * 4)
    for uri in (f"{root}/lock", f"{root}/other/", f"{tmp_path}/no-scheme/lock"):
        lease = ours.acquire(uri)
        assert lease
        assert theirs.acquire(uri, expire=timedelta(seconds=30)) is None
        lease.release()
        assert theirs.acquire(uri) is not None


def test_record_is_mops_own_to_the_byte(uri: str, tmp_path: Path) -> None:
    lease = ours.acquire(uri, expire=TTL)
    other = f"file://{tmp_path}/other/lock"
    theirs.acquire(other, expire=TTL)
    mine, original = record(uri), record(other)
    assert list(mine) == list(original)
    assert [type(value) for value in mine.values()] == [type(value) for value in original.values()]
    assert path(uri).read_bytes() == json.dumps(mine, indent=2).encode()
    assert uuid.UUID(mine["writer_id"]).version == 4
    for key in ("expire_s", "write_count", "hostname", "pid", "released_at"):
        assert mine[key] == original[key], key
    assert isinstance(lease, _leases.Lease)
    assert (lease.writer_id, lease.expire_s, lease.write_count) == (mine["writer_id"], 88.0, 2)
    assert (lease.first_written_at, lease.first_acquired_at) == (mine["first_written_at"], mine["first_acquired_at"])
    remote = ours.make_remote_lease_writer(uri)
    theirs.make_remote_lease_writer(other).maintain()
    assert list(record(uri)) == list(record(other))
    remote.maintain()
    assert record(uri)["writer_name"] == "remote"
    lease.release()
    assert list(record(uri)) == list(mine)
    assert record(uri)["written_at"] == ""


@pytest.mark.parametrize(("first", "second"), [(ours, theirs), (theirs, ours), (ours, ours)])
def test_one_at_a_time(first: Any, second: Any, uri: str) -> None:
    held = first.acquire(uri, expire=TTL)
    assert held
    assert second.acquire(uri, expire=TTL) is None
    held.maintain()
    assert second.acquire(uri, expire=TTL) is None
    held.release()
    again = second.acquire(uri, expire=TTL)
    assert again
    assert again.writer_id != held.writer_id
    assert first.acquire(uri, expire=TTL) is None
    write(uri, **{**record(uri), "written_at": long_ago(89)})
    free = first.acquire(uri, expire=TTL)
    assert free, "what has expired is free"
    free.release()
    assert record(uri)["released_at"]


@pytest.mark.parametrize("holder", [ours, theirs])
@pytest.mark.parametrize("remote", [ours, theirs])
def test_remote_of_either_keeps_the_lease_of_either(holder: Any, remote: Any, uri: str) -> None:
    held = holder.acquire(uri, expire=TTL)
    joined = remote.make_remote_lease_writer(uri, held.writer_id)
    assert (joined.writer_id, joined.expire_s) == (held.writer_id, 88.0)
    write(uri, **{**record(uri), "written_at": long_ago(60)})
    leave = remote.add_lease_to_maintenance_daemon(joined)
    joined.maintain()
    assert record(uri)["written_at"] > long_ago(10)
    assert record(uri)["writer_name"] == "remote"
    assert record(uri)["first_acquired_at"]
    joined.release()
    assert not record(uri)["released_at"]
    assert holder.acquire(uri, expire=TTL) is None
    leave()
    assert not record(uri)["released_at"]
    held.maintain()
    held.release()
    assert record(uri)["released_at"]


@pytest.mark.parametrize(
    ("fields", "expected", "error", "reason"),
    [
        (None, "", "CannotMaintainLease", "absent"),
        ({"expire_s": 0}, "", "CannotMaintainLease", "no_expiry"),
        ({"expire_s": "88"}, "", "CannotMaintainLease", "no_expiry"),
        ({"expire_s": 1e12}, "", "CannotMaintainLease", "no_expiry"),
        ({"first_acquired_at": ""}, "", "CannotMaintainLease", "never_acquired"),
        ({}, "me", "LeaseLostError", "taken"),
        ({"released_at": "2026-01-01T00:00:00+00:00", "written_at": ""}, "me", "LeaseLostError", "released"),
        ({"writer_id": ""}, "", "CannotMaintainLease", "unreadable"),
    ],
)
def test_what_a_remote_cannot_join(
    uri: str, fields: dict[str, Any] | None, expected: str, error: str, reason: str
) -> None:
    before = b"" if fields is None else write(uri, **fields)
    with pytest.raises(getattr(ours, error)) as raised:
        ours.make_remote_lease_writer(uri, expected)
    assert raised.value.reason == reason
    with pytest.raises(getattr(theirs, error)):
        raise raised.value
    assert (path(uri).read_bytes() if path(uri).exists() else b"") == before


def test_maintain_and_release_of_what_is_gone_or_released(uri: str) -> None:
    lease = ours.acquire(uri, expire=TTL)
    assert lease
    path(uri).unlink()
    with pytest.raises(ours.CannotMaintainLease):
        lease.maintain()
    lease.release()
    assert not path(uri).exists()
    lease = ours.acquire(uri, expire=TTL)
    assert lease
    lease.release()
    with pytest.raises(ours.LeaseLostError) as lost:
        lease.maintain()
    assert lost.value.reason == "released"
    before = path(uri).read_bytes()
    lease.release()
    assert path(uri).read_bytes() == before


@pytest.mark.parametrize(("writer", "keeper"), [(ours, theirs), (theirs, ours)])
def test_either_maintains_the_others_lease(writer: Any, keeper: Any, uri: str) -> None:
    lease = writer.acquire(uri, expire=timedelta(seconds=1))
    assert lease
    release = keeper.add_lease_to_maintenance_daemon(lease)
    until(lambda: record(uri)["write_count"] >= 3)
    release()
    assert record(uri)["released_at"]


def test_maintenance_can_be_switched_off_in_mops_and_any_thread_gets_the_same_releaser(uri: str) -> None:
    lease = ours.acquire(uri)
    assert lease
    with their_maintain.MAINTAIN_LEASES.set_local(False):
        assert ours.maintain_to_release(lease) == lease.release
    release = ours.maintain_to_release(lease)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: ours.add_lease_to_maintenance_daemon(lease), range(64))) == {release}
    release()
    assert record(uri)["released_at"]
    assert not _engine.engine().kept


def test_read_lease_never_raises(uri: str) -> None:
    memo = uri.removesuffix("/lock")
    assert ours.read_lease(memo) is None
    assert ours.acquire(uri)
    assert ours.read_lease(memo) == theirs.read_lease(memo) == record(uri)
    for body in (b"", b"{", b"[]", b"\xff"):
        path(uri).write_bytes(body)
        assert ours.read_lease(memo) is None
    for odd in ("", "nosuch://x", "/"):
        assert ours.read_lease(odd) is None


@pytest.fixture
def installed() -> Iterator[None]:
    ours.install()
    yield
    ours.uninstall()


def acquired(uri: str) -> _leases.Lease:
    lease = ours.acquire(uri, expire=TTL)
    assert isinstance(lease, _leases.Lease)
    return lease


def elsewhere(*steps: tuple[str, Callable[[], object]]) -> list[dict[str, Any]]:
    """Does so much in one fresh interpreter, each to a lease; returns the records after each step."""
    program = (
        "import pickle, sys\n"
        "for uri, do in pickle.load(sys.stdin.buffer):\n"
        "    do()\n"
        "    print(open(uri[7:] + '/lock.json').read().replace('\\n', ''))\n"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, input=pickle.dumps(steps), stdout=subprocess.PIPE, check=True, timeout=60).stdout
    return [json.loads(line) for line in said.splitlines()]


def test_pickled_leases_are_maintained_and_released_elsewhere(uri: str) -> None:
    """By a copy, a remote's copy, which stays one, and a releaser. What is only kept is not released at exit."""
    lease, kept, left = acquired(uri), acquired(uri + "-kept"), acquired(uri + "-left")
    remote = ours.make_remote_lease_writer(kept.lease_dir_uri, kept.writer_id)
    release = ours.add_lease_to_maintenance_daemon(kept)
    written, released, unreleased, joined, done, _ = elsewhere(
        (uri, lease.maintain), (uri, lease.release), (uri + "-kept", remote.release), (uri + "-kept", remote.maintain),
        (uri + "-kept", release), (uri + "-left", partial(ours.add_lease_to_maintenance_daemon, left)),
    )  # fmt: skip
    assert (written["writer_id"], written["write_count"]) == (lease.writer_id, 3)
    assert str(os.getpid()) not in (written["pid"], joined["pid"])
    assert written["first_written_at"] == lease.first_written_at
    assert written["first_acquired_at"] == lease.first_acquired_at
    assert "writer_name" not in written
    assert (unreleased["released_at"], joined["writer_name"], joined["released_at"]) == ("", "remote", "")
    assert released["released_at"]
    assert done["released_at"]
    assert not record(uri + "-left")["released_at"]
    release()
    with pytest.raises(ours.LeaseLostError) as lost:
        lease.maintain()
    assert type(pickle.loads(pickle.dumps(lost.value))) is theirs.LeaseLostError
    assert type(pickle.loads(pickle.dumps(ours.CannotMaintainLease("gone")))) is theirs.CannotMaintainLease
    assert theirs.acquire(uri, expire=TTL)


def test_forked_child_has_its_own_engine_and_leaves_the_parents_leases_alone(uri: str) -> None:
    lease = acquired(uri)
    release = ours.add_lease_to_maintenance_daemon(lease)

    def child() -> list[object]:
        release()
        said: list[object] = [not record(uri)["released_at"], ours.acquire(uri, expire=TTL) is None]
        other = acquired(uri + "-child")
        ours.add_lease_to_maintenance_daemon(other)()
        said.append(bool(record(uri + "-child")["released_at"]))
        again = ours.add_lease_to_maintenance_daemon(lease)
        lease.maintain()
        said += [again is not release, record(uri)["pid"] == str(os.getpid())]
        again()
        return [*said, bool(record(uri)["released_at"])]

    assert forked(child) == [True] * 6
    release()


def test_install_replaces_every_name_and_uninstall_brings_it_back() -> None:
    before = {name: getattr(theirs, name) for name in dir(theirs)}
    ours.install()
    ours.install()
    try:
        assert theirs.acquire is their_acquire.acquire is ours.acquire
        for name in ("add_lease_to_maintenance_daemon", "maintain_to_release", "make_remote_lease_writer"):
            assert getattr(theirs, name) is getattr(their_maintain, name) is getattr(ours, name)
        assert theirs.read_lease is ours.read_lease
        assert theirs.lease_uri_for is ours.lease_uri_for
    finally:
        ours.uninstall()
        ours.uninstall()
    assert {name: getattr(theirs, name) for name in dir(theirs)} == before


def run(shim: Any, folder: Path, name: str) -> dict[str, Any]:
    """A memoised function through mops, with its file store."""
    runner = MemoizingPicklingRunner(shim, f"file://{folder}")
    found: dict[str, Any] = runner(mopsjob.told, (str(folder), name), {})
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where mops runs: nothing of its own outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("shim", [simple_shims.samethread_shim, simple_shims.subprocess_shim])
def test_memoised_function_runs_under_our_lease(place: Path, shim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    settle = ours._settle

    def noted(on: Any, lease: Any, claim: Any, kind: str, *rest: Any, **more: Any) -> None:
        asked.append((kind, lease.lease_dir_uri))
        settle(on, lease, claim, kind, *rest, **more)

    monkeypatch.setattr(ours, "_settle", noted)
    during = run(shim, place, "job")
    assert uuid.UUID(during["writer_id"]).version == 4
    assert during["expire_s"] == 88.0
    assert during["first_acquired_at"]
    remotes = ["accompany"] if shim is simple_shims.samethread_shim else []  # the other is a process of its own
    assert [kind for kind, _ in asked] == ["acquire", *remotes]
    after = record(asked[0][1])
    assert after["writer_id"] == during["writer_id"]
    assert after["released_at"]
    assert not _engine.engine().kept
    assert run(shim, place, "job") == during, "memoised"
    assert len((place / "job.ran").read_text().splitlines()) == 1
    assert len(asked) == 1 + len(remotes)


@pytest.mark.usefixtures("installed")
def test_lost_lease_ends_the_remote_before_it_runs_the_function(place: Path) -> None:
    def stolen(args: Any) -> None:
        one = next(place.glob("**/lock/lock.json"))
        one.write_text(json.dumps({**json.loads(one.read_bytes()), "writer_id": "thief"}))
        simple_shims.samethread_shim(args)

    with pytest.raises(theirs.LeaseLostError, match="taken"):
        run(stolen, place, "job")
    assert not (place / "job.ran").exists()

"""mops' leases between processes: pickled, forked, under mops' own runner, and in mixed fleets."""

from __future__ import annotations

import importlib
import itertools
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from thds.mops.pure.core.lease import _acquire as their_acquire
from thds.mops.pure.core.lease import maintain as their_maintain
from thds.mops.pure.pickling.mprunner import MemoizingPicklingRunner
from thds.mops.pure.runner import simple_shims

import fleet
import mopsjob
from mopslock import mops as ours
from mopslock.mops import _engine, _keeping, _leases
from ways import SOON, forked

theirs: Any = importlib.import_module("thds.mops.pure.core.lease")  # whose names are not exported in so many words
TTL = timedelta(seconds=88)
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Each test has an engine of its own."""
    yield
    _engine._current.engine = None


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/memo/lock"


@pytest.fixture
def installed() -> Iterator[None]:
    ours.install()
    yield
    ours.uninstall()


def record(uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(uri.removeprefix("file://")) / "lock.json").read_bytes())
    return found


def acquired(uri: str) -> _leases.Lease:
    lease = ours.acquire(uri, expire=TTL)
    assert isinstance(lease, _leases.Lease)
    return lease


def elsewhere(what: object, *verbs: str) -> list[dict[str, Any]]:
    """Has a copy do so much in a fresh interpreter, and returns the record after each."""
    program = (
        "import pickle, sys\n"
        "one = pickle.load(sys.stdin.buffer)\n"
        "for verb in sys.argv[2:]:\n"
        "    getattr(one, verb)()\n"
        "    print(open(sys.argv[1]).read().replace('\\n', ''))\n"
    )
    lease: Any = getattr(what, "lease", what)
    file = lease.lease_dir_uri.removeprefix("file://") + "/lock.json"
    command = [sys.executable, "-c", program, file, *verbs]
    said = subprocess.run(command, input=pickle.dumps(what), stdout=subprocess.PIPE, check=True, timeout=SOON).stdout
    return [json.loads(line) for line in said.splitlines()]


def test_pickled_lease_is_maintained_and_released_elsewhere(uri: str) -> None:
    lease = acquired(uri)
    copy = pickle.loads(pickle.dumps(lease))
    assert all(getattr(copy, name) == getattr(lease, name) for name in _leases.PLAIN)
    written, released = elsewhere(lease, "maintain", "release")
    assert (written["writer_id"], written["write_count"]) == (lease.writer_id, 3)
    assert written["pid"] != str(os.getpid())
    assert written["first_written_at"] == lease.first_written_at
    assert written["first_acquired_at"] == lease.first_acquired_at
    assert "writer_name" not in written
    assert released["released_at"]
    with pytest.raises(ours.LeaseLostError):
        lease.maintain()
    assert theirs.acquire(uri, expire=TTL)


def test_pickled_remote_stays_one(uri: str) -> None:
    lease = acquired(uri)
    remote = ours.make_remote_lease_writer(uri, lease.writer_id)
    *_, last = elsewhere(remote, "release", "maintain")
    assert last["writer_name"] == "remote"
    assert not last["released_at"]
    assert last["pid"] != str(os.getpid())


def test_spawned_process_takes_the_maintenance_over(uri: str) -> None:
    lease = acquired(uri)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(mopsjob.keep, (lease,)).get(SOON) >= 3
    assert record(uri)["released_at"]


def test_pickled_releaser_releases_elsewhere(uri: str) -> None:
    lease = acquired(uri)
    release = ours.add_lease_to_maintenance_daemon(lease)
    (last,) = elsewhere(release, "__call__")
    assert last["released_at"]
    release()


def test_lost_lease_travels_as_mops_own_exception() -> None:
    lost = pickle.loads(pickle.dumps(ours.LeaseLostError("gone", reason="taken")))
    assert type(lost) is theirs.LeaseLostError
    assert type(pickle.loads(pickle.dumps(ours.CannotMaintainLease("gone")))) is theirs.CannotMaintainLease
    assert str(lost) == "gone"


def test_forked_child_has_its_own_engine_and_leaves_the_parents_leases_alone(uri: str) -> None:
    lease = acquired(uri)
    release = ours.add_lease_to_maintenance_daemon(lease)
    before = record(uri)

    def child() -> list[object]:
        release()
        said: list[object] = [record(uri) == before, ours.acquire(uri, expire=TTL) is None]
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


def test_lease_is_not_released_at_exit(uri: str) -> None:
    program = (
        "import sys, mopslock.mops as m, datetime as d\n"
        "m.add_lease_to_maintenance_daemon(m.acquire(sys.argv[1], expire=d.timedelta(seconds=88)))"
    )
    subprocess.run([sys.executable, "-c", program, uri], check=True, timeout=SOON)
    assert not record(uri)["released_at"]
    assert ours.acquire(uri, expire=TTL) is None


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
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


SHIMS = [simple_shims.samethread_shim, simple_shims.subprocess_shim, simple_shims.future_subprocess_shim]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("shim", SHIMS)
def test_memoised_function_runs_under_our_lease(place: Path, shim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    acquire = ours._acquire

    def noted(on: Any, uri: str, *rest: Any) -> Any:
        asked.append(uri)
        return acquire(on, uri, *rest)

    monkeypatch.setattr(ours, "_acquire", noted)
    during = run(shim, place, "job")
    assert uuid.UUID(during["writer_id"]).version == 4
    assert during["expire_s"] == 88.0
    assert during["first_acquired_at"]
    assert ("writer_name" in during) == (shim is simple_shims.samethread_shim), "a remote of ours has joined"
    assert len(asked) == 1
    after = record(asked[0])
    assert after["writer_id"] == during["writer_id"]
    assert after["released_at"]
    assert not _engine.engine().kept
    assert run(shim, place, "job") == during, "memoised"
    assert len((place / "job.ran").read_text().splitlines()) == 1
    assert len(asked) == 1


@pytest.mark.usefixtures("installed")
def test_lease_is_released_when_the_launcher_or_the_function_fails(place: Path) -> None:
    def broken(_: Any) -> None:
        raise OSError("no shell")

    with pytest.raises(OSError, match="no shell"):
        run(broken, place, "job")
    runner = MemoizingPicklingRunner(simple_shims.samethread_shim, f"file://{place}")
    with pytest.raises(KeyError):
        runner(mopsjob.fails, (str(place),), {})
    found = list(place.glob("**/lock/lock.json"))
    assert len(found) == 2
    assert all(json.loads(one.read_bytes())["released_at"] for one in found)


@pytest.mark.usefixtures("installed")
def test_lost_lease_ends_the_remote_before_it_runs_the_function(place: Path) -> None:
    def stolen(args: Any) -> None:
        one = next(place.glob("**/lock/lock.json"))
        one.write_text(json.dumps({**json.loads(one.read_bytes()), "writer_id": "thief"}))
        simple_shims.samethread_shim(args)

    with pytest.raises(theirs.LeaseLostError, match="taken"):
        run(stolen, place, "job")
    assert not (place / "job.ran").exists()


@pytest.mark.usefixtures("installed")
def test_who_finds_it_held_waits_for_the_result(place: Path) -> None:
    """mops' waiter, on our None, and its own second runner once the first has failed to leave a result."""
    uris: list[str] = []

    def shim(args: Any) -> None:
        uris.append(args[1])
        if len(uris) == 1:
            second.append(runner.submit(mopsjob.told, str(place), "job"))
        simple_shims.samethread_shim(args)

    second: list[Any] = []
    runner = MemoizingPicklingRunner(shim, f"file://{place}")
    first = runner.submit(mopsjob.told, str(place), "job")
    assert first.result() == second[0].result(timeout=SOON)
    assert len(uris) == 1


def test_mixed_fleet_takes_turns(tmp_path: Path) -> None:
    """Two of mops and two of ours: nobody's turn overlaps another's where neither was held up, and everybody has
    some."""
    kinds = ["mops", "adapter", "mops", "adapter"]
    command = [str(HERE / "fleet.py"), ",".join(kinds), f"file://{tmp_path}/n/lock", "2.5", str(tmp_path / "out")]
    subprocess.run([sys.executable, *command], check=True, timeout=2 * SOON)

    def lines(name: str) -> list[tuple[float, float]]:
        return [(float(begin), float(end)) for begin, end in map(str.split, (tmp_path / name).read_text().splitlines())]

    turns = sorted((*turn, i) for i in range(len(kinds)) for turn in lines(f"out.{i}"))
    for (begins, end, one), (begin, _, other) in itertools.pairwise(turns):
        late = [
            min(after, begin) - max(before, begins - 2 * fleet.MARGIN)
            for i in (one, other) for before, after in lines(f"out.{i}.late")
        ]  # fmt: skip
        assert end <= begin or max(late, default=0.0) > fleet.MARGIN / 2, f"{one} and {other} held it at once"
    assert {kinds[i] for *_, i in turns} == set(kinds), turns


def test_releaser_of_another_process_is_the_release_itself(uri: str) -> None:
    lease = acquired(uri)
    assert _keeping.releaser_elsewhere(lease) == lease.release
    _keeping.releaser_elsewhere(lease)()
    assert record(uri)["released_at"]

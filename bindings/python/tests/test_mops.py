"""mops' names, signatures and records, and each way in which its leases and ours meet on one file."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from thds.mops.pure.core.lease import maintain as their_maintain

from held_up import promptly
from mopslock import mops as ours
from mopslock.errors import BadArgument, MopslockError
from mopslock.mops import _engine, _leases
from ways import NOTICES, SOON, until

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


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_mops(name: str) -> None:
    mine, original = (inspect.signature(getattr(module, name)).parameters.values() for module in (ours, theirs))
    told = [(one.name, one.kind, one.default) for one in mine]
    expected = [(one.name, one.kind, one.default) for one in original]
    assert told == expected


def test_every_name_of_mops_is_here() -> None:
    public = {name for name in vars(theirs) if not name.startswith("_") and not inspect.ismodule(getattr(theirs, name))}
    assert public <= set(ours.__all__)
    assert ours.LEASE_DIRNAME == theirs.LEASE_DIRNAME
    for name in ("CannotMaintainLease", "LeaseLostError"):
        assert issubclass(getattr(ours, name), getattr(theirs, name))
        assert issubclass(getattr(ours, name), ValueError)
        assert issubclass(getattr(ours, name), MopslockError)
    wanted = {name for name in [*theirs.LeaseAcquired.__annotations__, *vars(theirs.LeaseAcquired)] if name[0] != "_"}
    lease = _leases.Lease("x/lock", "w", 88.0)
    assert wanted == {"writer_id", "expire_s", "maintain", "release"}
    assert all(hasattr(lease, name) for name in wanted)


def test_uris_are_those_of_mops(uri: str) -> None:
    for memo in ("file:///a/b/c", "/a/b", "adls://account/container/a/b", "a"):
        assert ours.lease_uri_for(memo) == theirs.lease_uri_for(memo)


def test_lease_without_mops_is_clear_about_it() -> None:
    program = (
        "import sys; sys.modules['thds'] = None\n"
        "import mopslock.mops as m\n"
        "assert issubclass(m.CannotMaintainLease, ValueError)\n"
        "assert m.read_lease('x') is None\n"
        "for do in (lambda: m.acquire('file:///a/lock'), m.install):\n"
        "    try: do()\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SOON, check=True
    ).stdout
    assert "pip install 'mopslock[mops]'" in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("expire", "margin"), [(1, 0.6), (1, -0.1), (0, 0), (-1, -1), (0.01, 0), (31 * 86400, 0), (600, 60)]
)
def test_durations_that_cannot_be_are_refused(uri: str, expire: float, margin: float) -> None:
    with pytest.raises(ValueError, match=r"margin|expire|ttl") as refused:
        ours.acquire(uri, expire=timedelta(seconds=expire), acquire_margin=timedelta(seconds=margin))
    assert isinstance(refused.value, BadArgument)
    assert not path(uri).exists()


def test_margin_of_half_is_fine(uri: str) -> None:
    assert ours.acquire(uri, expire=timedelta(seconds=2), acquire_margin=timedelta(seconds=1))


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "lock",
        "/lock",
        "file:///lock",
        "file://",
        "///",
        "/a/..",
        "/a/b\\c",
        "/a/" + "x" * 201,
        "/a/result",
        b"/a/b",
    ],
)
def test_uris_that_cannot_be_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="mopslock"):
        ours.acquire(bad)
    with pytest.raises(ValueError, match="mopslock"):
        ours.make_remote_lease_writer(bad)


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
    for key in ("expire_s", "write_count", "hostname", "pid", "tid", "released_at"):
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
    again.release()
    assert record(uri)["released_at"]


@pytest.mark.parametrize(("first", "second"), [(ours, theirs), (theirs, ours)])
def test_expired_is_free(first: Any, second: Any, uri: str) -> None:
    assert first.acquire(uri, expire=TTL)
    write(uri, **{**record(uri), "written_at": long_ago(89)})
    assert second.acquire(uri, expire=TTL)


def test_held_until_block_is_over_and_free_within_it(uri: str, tmp_path: Path) -> None:
    first = ours.acquire(uri, expire=TTL)
    assert first
    began = time.monotonic()
    with promptly(tmp_path, 2):
        assert ours.acquire(uri, expire=TTL, block=timedelta(seconds=0.3)) is None
    assert time.monotonic() - began > 0.25
    assert ours.acquire(uri, expire=TTL, block=timedelta(seconds=-5)) is None
    release = ours.add_lease_to_maintenance_daemon(first)
    threading.Timer(0.2, release).start()
    assert ours.acquire(uri, expire=TTL, block=timedelta(seconds=20))


def test_released_here_wakes_who_waits_here(uri: str) -> None:
    first = ours.acquire(uri, expire=TTL)
    assert first
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ours.acquire, uri, expire=TTL, block=None) for _ in range(4)]
        lease: Any = first
        for _ in range(4):
            lease.release()
            done, _ = wait(waiting, timeout=SOON, return_when=FIRST_COMPLETED)
            assert len(done) == 1
            lease = done.copy().pop().result()
            waiting = [one for one in waiting if one not in done]


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
        ({"expire_s": -1.0}, "", "CannotMaintainLease", "no_expiry"),
        ({"expire_s": "88"}, "", "CannotMaintainLease", "no_expiry"),
        ({"expire_s": 1e12}, "", "CannotMaintainLease", "no_expiry"),
        ({"first_acquired_at": ""}, "", "CannotMaintainLease", "never_acquired"),
        ({"first_acquired_at": ""}, "another", "CannotMaintainLease", "never_acquired"),
        ({}, "me", "LeaseLostError", "taken"),
        ({"released_at": "2026-01-01T00:00:00+00:00", "written_at": ""}, "", "LeaseLostError", "released"),
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


@pytest.mark.parametrize("expected", ["", "another"])
def test_remote_revives_what_has_expired_and_nobody_took(uri: str, expected: str) -> None:
    write(uri, written_at=long_ago(300))
    ours.make_remote_lease_writer(uri, expected)
    assert record(uri)["written_at"] > long_ago(10)
    assert theirs.acquire(uri, expire=TTL) is None


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


def test_maintenance_can_be_switched_off_in_mops(uri: str) -> None:
    lease = ours.acquire(uri)
    assert lease
    with their_maintain.MAINTAIN_LEASES.set_local(False):
        assert ours.maintain_to_release(lease) == lease.release
    release = ours.maintain_to_release(lease)
    assert release is ours.add_lease_to_maintenance_daemon(lease)
    release()
    assert record(uri)["released_at"]


def test_mops_own_writer_is_kept_and_released_by_ours(uri: str) -> None:
    lease = theirs.acquire(uri, expire=timedelta(seconds=NOTICES))
    assert lease
    release = ours.add_lease_to_maintenance_daemon(lease)
    until(lambda: record(uri)["write_count"] >= 3)
    release()
    assert record(uri)["released_at"]


def test_ours_is_kept_and_released_by_mops_own_daemon(uri: str) -> None:
    lease = ours.acquire(uri, expire=timedelta(seconds=NOTICES))
    assert lease
    release = theirs.add_lease_to_maintenance_daemon(lease)
    until(lambda: record(uri)["write_count"] >= 3)
    release()
    assert record(uri)["released_at"]


def test_any_thread_gets_the_same_releaser(uri: str) -> None:
    lease = ours.acquire(uri)
    assert lease
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ours.add_lease_to_maintenance_daemon(lease), range(64)))
        assert len({id(one) for one in found}) == 1
        list(pool.map(lambda release: release(), found))
    assert record(uri)["released_at"]
    assert not _engine.engine().kept


def test_what_else_lies_in_the_directory_is_left_alone(uri: str) -> None:
    path(uri).parent.mkdir(parents=True)
    (path(uri).parent / "note").write_text("mine")
    lease = ours.acquire(uri)
    assert lease
    lease.maintain()
    lease.release()
    assert sorted(os.listdir(path(uri).parent)) == ["lock.json", "note"]

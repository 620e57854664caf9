"""What a Directory promises beyond the rules of all stores: host/store/local has the same rules in Go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mopslock import _files, stores
from mopslock._files import TEMPORARY, TEMPORARY_LIFE
from mopslock._own.client import Client
from mopslock._own.clock import System, this_boot
from mopslock._own.verbs import attempt
from mopslock.errors import BadArgument, NoSuchStore
from world import FakeStore, Turned, World

WRITES: dict[str, dict[str, Any]] = {
    "put": {"body": b"2"}, "create": {"key": "n/c", "body": b"2"}, "put overwrites": {"body": b"2", "overwrites": True},
    "delete": {},
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_is_late_is_not_applied(tmp_path: Path, write: str) -> None:
    """As of a process that was stopped, and that another has followed meanwhile."""
    store = stores.Directory(tmp_path)
    store.put("n/k", b"1")
    action = {"kind": write.partition(" ")[0], "request": 1, "key": "n/k", **WRITES[write]}
    answer, error = attempt(store, action, None, lambda: True)
    assert (answer["outcome"], answer["class"]) == ("unknown", "unreachable")
    assert isinstance(error, TimeoutError)
    assert [(path.name, path.read_bytes()) for path in tmp_path.glob("n/*")] == [("k", b"1")]
    store.put("n/k", b"2")  # by nobody's clock


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells")
def test_only_a_local_file_system_is_given_the_boots_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere a write may land late, and times are by any clock."""

    def config(store: Any) -> dict[str, Any]:
        return Client(store, System(), Turned(World()))._config()

    assert config(stores.Directory(tmp_path))["boot"] == this_boot()
    assert config(stores.Fsspec.of_url(tmp_path.as_uri()))["boot"] == this_boot()
    assert "boot" not in config(stores.Directory("/proc"))
    assert "boot" not in config(FakeStore())
    monkeypatch.setattr(_files, "_LOCAL", {0x6969})
    assert "boot" not in config(stores.Directory(tmp_path))


def test_what_is_no_file_is_no_object(tmp_path: Path) -> None:
    """And what could be one, but cannot be told, is no answer."""
    store = stores.Directory(tmp_path)
    store.put("a/b", b"1")
    for key in ("a", "a/b/c"):
        assert (store.get(key), store.open(key), store.exists(key)) == (None, None, False)
        store.delete(key)
    assert store.get("a/b")
    os.mkfifo(tmp_path / "pipe")
    for read in (store.get, store.open):
        with pytest.raises(OSError, match="neither a file nor a directory"):
            read("pipe")
    assert [key for key, _ in store.list("")] == ["a/b"]
    with pytest.raises(NoSuchStore, match="cannot both be objects"):
        store.create("a", b"2")


@pytest.mark.parametrize("verb", [stores.Directory.exists, lambda store, key: store.overwrite(key, b"")])
def test_what_cannot_be_told_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Any, str], object]
) -> None:
    store, look, opened = stores.Directory(tmp_path), os.stat, os.open

    def forbidden(path: Any, *args: Any, **more: Any) -> Any:
        if str(path).endswith("/n") or str(path).endswith("/n/k"):
            raise PermissionError("no")
        return look(path, *args, **more)

    def gone(*_: Any) -> int:
        raise FileNotFoundError("gone")

    monkeypatch.setattr(os, "stat", forbidden)
    monkeypatch.setattr(os, "open", lambda path, *args: gone() if "/n/" in str(path) else opened(path, *args))
    with pytest.raises((PermissionError, FileNotFoundError)):
        verb(store, "n/k")


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "..", "a/../b", "../a", "a\\b", "a\nb", "\ud800", "x" * 1025])
def test_a_key_that_leads_elsewhere_is_none(tmp_path: Path, key: str) -> None:
    (tmp_path / "a").write_bytes(b"secret")
    store = stores.Directory(tmp_path / "in" / "store")
    assert (store.get(key), store.open(key), store.exists(key)) == (None, None, False)
    for write in (lambda: store.put(key, b""), lambda: store.create(key, b""), lambda: store.delete(key)):
        with pytest.raises(BadArgument, match="has no object"):
            write()
    assert store.list("../") == store.list("a/../../") == []
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "in", "store"]


def test_a_create_that_was_answered_survives_a_crash_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, its directory, and the directories that are new are on the disk before the answer."""
    store, done = stores.Directory(tmp_path), list[str]()
    sync, link = os.fsync, os.link

    def synced(file: int) -> None:
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), tmp_path))
        sync(file)

    def linked(fresh: str, path: str) -> None:
        done.append("link")
        link(fresh, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    assert store.create("n/m/v", b"1") is True
    assert (done[0].startswith(f"n/m/{TEMPORARY}"), done[1:]) == (True, [".", "n", "link", "n/m"])
    done.clear()
    assert store.create("n/m/v", b"2") is False
    assert done == []


def test_a_link_that_was_made_twice_has_won(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS sends it again when an answer is lost, and hears that there is one: its own."""
    link = os.link

    def twice(fresh: str, path: str) -> None:
        link(fresh, path)
        link(fresh, path)

    monkeypatch.setattr(os, "link", twice)
    assert stores.Directory(tmp_path).create("n", b"1") is True


def test_without_hard_links_there_is_no_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    answer, error = attempt(
        stores.Directory(tmp_path), {"kind": "create", "request": 1, "key": "n/v", "body": b""}, None
    )
    assert (answer["outcome"], answer["class"]) == ("unknown", "unsupported")
    assert "has no hard links" in str(error)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_list_shows_no_temporary_file_and_removes_what_a_killed_writer_has_left_for_a_day(tmp_path: Path) -> None:
    for age, name in ((0, "new"), (TEMPORARY_LIFE + 60, "old")):
        path = tmp_path / f"{TEMPORARY}{name}"
        path.touch()
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))
    assert stores.Directory(tmp_path).list("") == []
    assert [path.name for path in tmp_path.iterdir()] == [f"{TEMPORARY}new"]


def test_times_without_fractions_are_told(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path)
    assert store.stamp_unit_ns == 16_000_000
    store._root.is_fine = False
    assert store.stamp_unit_ns == 1_000_000_000


def test_two_names_that_differ_in_case_alone_are_not_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system takes them for one, the second is refused: links that no list shows make such a one."""
    store = stores.Directory(tmp_path)
    store.put("n/V/one", b"of n")
    for spelled, link in (("n", "N"), ("V", "n/v"), ("one", "n/V/ONE")):
        (tmp_path / link).symlink_to(spelled)
    listed: list[str] = []

    def names(folder: str) -> list[str]:
        listed.append(folder)
        return [entry.name for entry in os.scandir(folder) if not entry.is_symlink()]

    monkeypatch.setattr(os, "listdir", names)
    for _ in range(2):  # the second time from memory
        assert store.get("n/V/one") == (b"of n", (tmp_path / "n/V/one").stat().st_mtime_ns)
        for key in ("N/V/one", "n/v/one", "n/V/ONE"):
            for verb in (store.get, store.open, store.exists):
                with pytest.raises(NoSuchStore, match="another spelling"):
                    verb(key)
    with pytest.raises(NoSuchStore, match="another spelling"):
        store.create("N/V/two", b"")
    told = stores.Directory(tmp_path / "told")
    told.put("n/v", b"")
    assert (told.get("n/v") or b"?")[0] == b""
    told.put("N/V", b"N")
    listed.clear()
    assert [found and found.body for found in map(told.get, ("n/v", "N/V"))] == [b"", b"N"]
    assert not listed


@pytest.mark.parametrize(
    "meanwhile", [os.unlink, lambda path: stores.Directory(path.parent.parent).put("n/1", b"anew")]
)
def test_case_is_not_judged_by_a_file_that_changes_meanwhile(
    meanwhile: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor by a letter whose other case this file system does not know."""
    store, stat = stores.Directory(tmp_path), os.stat
    store.put("n/1", b"")
    store.put("n/\xdf", b"")
    (tmp_path / "N").symlink_to("n")
    looks = [str(tmp_path / "N/1")]

    def look(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if path in looks:
            looks.clear()
            meanwhile(tmp_path / "n/1")
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", look)
    store.get("n/1")
    assert not looks
    assert store._spelling._folds is None
    store.get("n/\xdf")
    assert store._spelling._folds is True


def test_what_may_not_be_seen_in_another_spelling_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, stat = stores.Directory(tmp_path), os.stat

    def forbidden(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(path) == str(tmp_path / "N/1"):
            raise PermissionError(13, "not yours", path)
        return stat(path, *args, **options)

    store.put("n/1", b"1")
    monkeypatch.setattr(os, "stat", forbidden)
    assert (store.get("n/1") or b"?")[0] == b"1"
    assert store._spelling._folds is False


def test_what_is_open_elsewhere_is_tried_again_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There another process that reads a file keeps it from being replaced, for a moment."""
    store, refused = stores.Directory(tmp_path), [PermissionError(13, "busy")] * 2
    replace = os.replace

    def busy(*paths: str) -> None:
        if refused:
            raise refused.pop()
        replace(*paths)

    monkeypatch.setattr(_files, "BUSY_TRIES", 5)
    monkeypatch.setattr(os, "replace", busy)
    store.put("n/k", b"1")
    assert not refused
    assert (tmp_path / "n/k").read_bytes() == b"1"


def test_names_that_windows_takes_for_others() -> None:
    for key in ("con", "n/NUL.txt", "a/com1 ", "lpt9/x", "n/CONOUT$"):
        assert _files.DEVICE.search(key)
    for key in ("console", "n/a.nul", "com10", "icon/x", "auxiliary"):
        assert not _files.DEVICE.search(key)

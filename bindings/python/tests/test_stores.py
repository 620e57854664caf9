"""What our adapters do beyond the rules of all stores, which test_storetest.py has."""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mopslock
from mopslock import _files, stores
from mopslock._files import MOST, Root
from mopslock._hosts import host_of
from mopslock._own.verbs import attempt
from mopslock.errors import CLASSES, BadArgument, NoSuchStore, StoreError, Throttled, Unauthorized, Unreachable, Vacant
from world import Blobs, FakeStore


@pytest.mark.parametrize("url", ["file:///tmp/locks", "s3://bucket/locks", Path("/tmp/locks")])
def test_an_fsspec_store_of_a_url_says_how_it_is_made(url: Any) -> None:
    with pytest.raises(BadArgument, match=f"{re.escape(repr(url))}: must be a filesystem.*of_url\\("):
        stores.Fsspec(url)


def test_an_fsspec_store_of_a_local_directory_is_a_directory(tmp_path: Path) -> None:
    public = {name for name in vars(stores.Directory) if not name.startswith("_")}
    assert public - {"keeper_terms"} <= set(vars(stores.Fsspec.of_url(tmp_path.as_uri())))


def body_of(found: bytes | stores.Blob | None) -> bytes | None:
    return found.body if isinstance(found, stores.Blob) else found


def forbidden(key: str) -> None:
    raise PermissionError("no")


@pytest.mark.parametrize(
    "make",
    [lambda _: stores.Memory(), stores.Directory, lambda _: stores.Mops(Blobs(FakeStore()), "adls://a/c")],
    ids=["memory", "directory", "mops"],
)
def test_a_result_is_read_whole(make: Callable[[Path], stores.Store], tmp_path: Path) -> None:
    """Through a host, by the verb open where there is one, however large it is; and what is gone is said to be."""
    store, body = make(tmp_path), os.urandom(MOST * 3)
    host: Any = host_of(store)
    store.put("n/result", body)
    with host.open_object("n/result") as stream:
        assert (stream.read(9), stream.read()) == (body[:9], body[9:])
    with pytest.raises(Vacant, match="somebody has removed it"):
        host.open_object("m/result")
    setattr(store, "open" if hasattr(store, "open") else "get", forbidden)
    with pytest.raises(Unauthorized, match="n/result cannot be read.*check the credentials"):
        host.open_object("n/result")


@pytest.mark.parametrize("protocol", ["lastwriter", "strict"])
def test_exists_is_asked_by_get_where_a_store_has_no_such_verb(protocol: Any) -> None:
    """get and put are enough for lastwriter, also for the results of work."""
    verbs = ("get", "put") if protocol == "lastwriter" else ("get", "put", "create", "list", "delete")
    full, without = stores.Memory(), stores.Memory()
    less = SimpleNamespace(**{verb: getattr(full, verb) for verb in verbs})
    vars(without)["exists"] = refused
    for store in (less, without):
        for work in ("n", "m"):
            given = mopslock.invoke(store, work, lambda work: work.protocol.encode(), protocol=protocol)
            assert given.own
            assert mopslock.invoke(store, work, lambda _: None).read() == protocol.encode()
        with mopslock.lease(store, "n", protocol=protocol, ttl=30, wait=0), pytest.raises(mopslock.Held):
            mopslock.acquire(store, "n", protocol=protocol, wait=0)
    with pytest.raises(BadArgument, match="it has no put"):
        mopslock.acquire(SimpleNamespace(get=full.get), "n")


def refused(key: str) -> bool:
    raise NotImplementedError


def test_a_store_of_mops_that_caches_is_refused_and_says_what_to_make_instead(tmp_path: Path) -> None:
    """mops' own for adls:// is one by default: what it has read of a lease it says for eight hours."""
    blob_store = pytest.importorskip("thds.mops.pure.adls.blob_store")
    caching = blob_store.DangerouslyCachingStore(tmp_path, 28800)
    uri = "adls://account/container/locks"
    for blobs in (caching, type("Wrapped", (type(caching),), {})(tmp_path, 0)):
        with pytest.raises(BadArgument, match=re.escape(f"make stores.Mops.of_uri({uri!r})")):
            stores.Mops(blobs, uri)
    assert type(stores.Mops.of_uri(uri).blobs) is blob_store.AdlsBlobStore
    with mopslock.lease(stores.Mops.of_uri(tmp_path.as_uri()), "n", protocol="lastwriter"):
        assert (tmp_path / "n" / "lock.json").exists()


def test_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores.Directory(tmp_path)
    store.put("a/lock.json", b"1")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        store.put("a/lock.json", b"2")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock.json"]
    assert body_of(store.get("a/lock.json")) == b"1"


def test_files_are_read_and_written_whole_where_the_system_does_less_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, body = stores.Directory(tmp_path), os.urandom(50_000)
    read, write = os.read, os.write
    monkeypatch.setattr(os, "read", lambda file, most: read(file, min(most, 7_000)))
    monkeypatch.setattr(os, "write", lambda file, part: write(file, part[:9_000]))
    store.put("n/lock.json", body)
    found = store.get("n/lock.json")
    assert body_of(found) == body
    assert found
    assert found.modified_ns == (tmp_path / "n" / "lock.json").stat().st_mtime_ns


def test_a_directory_is_made_once_and_known_again(tmp_path: Path) -> None:
    """The rule of file://: what was moved, removed or unmounted is unreachable until it is back. Nothing is made."""
    root, aside = tmp_path / "store", tmp_path / "aside"
    store: Any = stores.Directory(root)
    assert root.is_dir()
    store.put("n/k", b"1")
    verbs: list[Callable[[], object]] = [
        lambda: store.get("n/k"), lambda: store.get("n/absent"), lambda: store.open("n/k"),
        lambda: store.exists("n/absent"), lambda: store.list(""), lambda: store.list_page("", "", 9),
        lambda: store.put("n/k", b"2"), lambda: store.put("m/k", b"2"),
        lambda: store.overwrite("n/k", b"2"), lambda: store.create("n/c", b"2"), lambda: store.delete("n/absent"),
        lambda: store.delete("n/k"),
    ]  # fmt: skip

    def nobody_answers() -> None:
        before = sorted(tmp_path.rglob("store/*"))
        for verb in verbs:
            with pytest.raises(Unreachable, match="mount it or move it back"):
                verb()
        assert sorted(tmp_path.rglob("store/*")) == before

    root.rename(aside)
    nobody_answers()
    shutil.copytree(aside, root)
    nobody_answers()
    shutil.rmtree(root)
    aside.rename(root)
    assert body_of(store.get("n/k")) == b"1"

    store.put("_mopslock/store.json", b'{"v": 1, "nonce": "a", "create": "honoured"}')
    shutil.copytree(root, aside)
    shutil.rmtree(root)
    aside.rename(root)  # as remounted: another inode, and the same record
    assert store.overwrite("n/k", b"3") is True
    (root / "_mopslock" / "store.json").write_text('{"v": 1, "nonce": "b"}')
    (root / "other").mkdir()
    nobody_answers()


def test_a_list_that_a_mount_comes_back_in_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was begun where nothing is."""
    root, aside = tmp_path / "store", tmp_path / "aside"
    store = stores.Directory(root)
    store.put("n/k", b"1")
    root.rename(aside)
    root.mkdir()

    def comes_back(*_: object) -> list[tuple[str, int]]:
        root.rmdir()
        aside.rename(root)
        return []

    monkeypatch.setattr(_files, "list_files", comes_back)
    with pytest.raises(Unreachable):
        store.list("n/")


def test_a_file_is_no_root_also_with_its_inode(tmp_path: Path) -> None:
    """The kernel may use the inode of what was removed again, also for a file."""
    root = Root(str(tmp_path / "store"))
    (tmp_path / "store").rmdir()
    (tmp_path / "store").touch()
    about = (tmp_path / "store").stat()
    root._known = (about.st_dev, about.st_ino, about.st_mtime_ns, "")
    with pytest.raises(Unreachable):
        root.check()


def test_a_beat_lets_go_of_the_gil_for_six_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of which can cost as long as a C call that keeps it. What follows the beat takes two."""
    store, called = stores.Directory(tmp_path), []
    store.put("n/k", b"1")
    assert store.exists("n/k")  # which tells by now that names differ by case

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any) -> Any:
            called.append(name)
            return call(*args)

        return note

    for name in ("open", "write", "close", "stat", "fstat", "read", "replace", "mkdir", "unlink", "urandom"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    assert store.overwrite("n/k", b"2") is True
    assert called == ["open", "write", "close", "stat", "replace", "stat"]
    called.clear()
    assert store.exists("n/k") is True
    assert called == ["stat", "stat"]


def test_a_delete_leaves_no_empty_directory(tmp_path: Path) -> None:
    """And a write beside deletes makes its directory again, but for one of what was there."""
    root = tmp_path / "store"
    store = stores.Directory(root)
    for key in ("n/1/v", "n/2/v"):
        store.put(key, b"")
    store.delete("n/1/v")
    store.delete("n/1/v")
    assert [path.name for path in sorted(root.rglob("*"))] == ["n", "2", "v"]
    store.delete("n/2/v")
    assert store.overwrite("n/2/v", b"") is False
    assert not [*root.iterdir()]

    def come_and_go(number: int) -> None:
        for _ in range(300):
            assert store.create(f"m/a/b/{number}", b"") is True
            store.delete(f"m/a/b/{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert not [*root.iterdir()]


def test_a_directory_reads_no_more_than_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many versions of a name there are, and where the client asks for it."""
    store = stores.Directory(tmp_path)
    for number in range(40):
        store.put(f"n/{number:02}/v", b"")
    looked, scandir = list[str](), os.scandir

    def look(path: str) -> Any:
        looked.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", look)
    answer, _ = attempt(store, {"kind": "list", "request": 1, "key": "n/", "after": "n/20/v", "count": 3}, None)
    assert ([key for key, _ in answer["entries"]], answer["more"]) == (["n/21/v", "n/22/v", "n/23/v"], True)
    assert len(looked) == 6, "n, the directory of after, and four that may be on the page"


def test_a_directory_that_must_exist_is_not_made(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path / "mnt", create=False, keeper=True)
    for verb in (lambda: store.get("n/k"), lambda: store.list(""), lambda: store.put("n/k", b"1")):
        with pytest.raises(NoSuchStore, match="create=False"):
            verb()
    again = pickle.loads(pickle.dumps(store))
    (tmp_path / "mnt").mkdir()
    store.put("n/k", b"1")
    assert (body_of(again.get("n/k")), again.keeper) == (b"1", True)


def test_a_directory_that_goes_before_a_write_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "store"
    store = stores.Directory(root)
    store.put("n/k", b"1")
    close = os.close

    def switch(file: int) -> None:
        close(file)
        monkeypatch.setattr(os, "close", close)
        root.rename(tmp_path / "aside")
        (root / "n").mkdir(parents=True)

    monkeypatch.setattr(os, "close", switch)
    with pytest.raises(Unreachable):
        store.put("n/k", b"2")
    assert [*(root / "n").iterdir()] == []
    assert (tmp_path / "aside" / "n" / "k").read_bytes() == b"1"


def test_records_are_put_with_their_content_type() -> None:
    """And an error is absence only where mops' BlobStore says so."""
    blobs = Blobs(FakeStore())
    store = stores.Mops(blobs, "adls://a/c")
    store.put("n/lock.json", b"1")
    assert blobs.hints == {stores._RECORD}
    assert [*blobs.store.objects] == ["adls://a/c/n/lock.json"]
    blobs.store.fail(FileNotFoundError())
    with pytest.raises(FileNotFoundError):
        store.get("n/lock.json")


# What a verb says, and what is made of that.


@pytest.mark.parametrize(
    ("said", "want"),
    [
        (None, {"outcome": "no"}),
        (b"", {"outcome": "yes"}),
        (stores.Blob(b"1", 7), {"outcome": "yes", "body": b"1", "stamp_ns": 7}),
        *((kind(b"x"), {"outcome": "yes", "body": b"x"}) for kind in (bytes, bytearray, memoryview, stores.Blob)),
        *((b"x" * n, {"outcome": "yes", "body": b"x" * min(n, MOST)}) for n in (MOST, MOST + 9)),
        *((odd, {"outcome": "unknown", "class": "other"}) for odd in (3, "text", ("a", "b", "c"), object())),
        (Throttled("later"), {"outcome": "unknown", "class": "throttled"}),
        (Throttled("later", retry_after=2), {"outcome": "unknown", "class": "throttled", "retry_after_ns": 2 * 10**9}),
    ],
)  # fmt: skip
def test_the_answer_of_a_verb(said: Any, want: dict[str, Any]) -> None:
    """Nonsense and exceptions are never a no. What is too long is seen to be, by the one byte more that is read."""

    class Store:
        def get(self, key: str) -> Any:
            if isinstance(said, Exception):
                raise said
            return said

        put = get

    answer, error = attempt(Store(), {"kind": "get", "request": 3, "key": "k", "body": b""}, None)
    assert answer == {"kind": "answer", "request": 3, **want}
    assert type(answer.get("body", b"")) is bytes
    assert error is said or not isinstance(said, Exception)


@pytest.mark.parametrize("word", [None, 1, "yes", []])
def test_a_verb_that_says_neither_yes_nor_no_has_said_nothing(word: Any) -> None:
    store = FakeStore()
    store.create = lambda key, body: word  # type: ignore[method-assign]
    answer, _ = attempt(store, {"kind": "create", "request": 1, "key": "k", "body": b""}, None)
    assert answer["outcome"] == "unknown"


def with_fields(**fields: Any) -> Exception:
    """As the exceptions of SDKs."""
    error = Exception("of an SDK")
    error.__dict__.update(fields)
    return error


SHAPES: dict[str, Callable[[Any], Exception]] = {
    "azure.core": lambda status: with_fields(status_code=status, response=object()),
    "botocore": lambda status: with_fields(response={"Error": {}, "ResponseMetadata": {"HTTPStatusCode": status}}),
    "google, gcsfs": lambda status: with_fields(code=status),
    "aiohttp": lambda status: with_fields(status=status),
}
STATUSES = {401: "unauthorized", 403: "unauthorized", 429: "throttled", 503: "throttled", 404: "other", 409: "other",
            412: "other", 500: "other", "403": "other", None: "other"}  # fmt: skip
ERRNOS = {
    "EROFS": "read_only", "ENOSPC": "full", "EDQUOT": "full", "EACCES": "unauthorized", "EPERM": "unauthorized",
    "ECONNREFUSED": "unreachable", "ECONNRESET": "unreachable", "EPIPE": "unreachable", "ETIMEDOUT": "unreachable",
    "EHOSTUNREACH": "unreachable", "ENETDOWN": "unreachable", "ESTALE": "unreachable", "EIO": "other",
}  # fmt: skip


def test_errors_are_classed() -> None:
    """A store may also say itself what kind of failure it was. Looking at an odd error raises none."""
    for status, want in STATUSES.items():
        assert {shape: stores.class_of(make(status)) for shape, make in SHAPES.items()} == dict.fromkeys(SHAPES, want)
    assert {name: stores.class_of(OSError(getattr(errno, name), "")) for name in ERRNOS} == ERRNOS
    assert {name: stores.class_of(type("Mine", (kind,), {})("x")) for name, kind in CLASSES.items()} == {
        n: n for n in CLASSES
    }
    assert [stores.class_of(error) for error in (TimeoutError(), ConnectionError())] == ["unreachable"] * 2
    odd = [with_fields(response={"ResponseMetadata": None}), with_fields(response={}), with_fields(response="text")]
    for error in (OSError("no number"), ValueError("x"), StoreError("x"), *odd):
        assert stores.class_of(error) == "other"


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (Throttled("slow down", retry_after=2.5), 2.5), (Throttled("slow down"), 0),
        (with_fields(retry_after="7"), 7), (with_fields(retry_after=1e9), 60), (with_fields(retry_after=-1), 0),
        (with_fields(response={"ResponseMetadata": {"HTTPHeaders": {"retry-after": "3"}}}), 3),
        (with_fields(response=SimpleNamespace(headers={"Retry-After": "4"})), 4),
        (with_fields(response=SimpleNamespace(headers={"Retry-After": "Fri, 13 Nov 2026 10:00:00 GMT"})), 0),
        (with_fields(response="none"), 0),
    ],
)  # fmt: skip
def test_how_long_a_store_asks_to_be_left_alone(error: Exception, asked: float) -> None:
    assert stores.retry_after_of(error) == asked * 1_000_000_000

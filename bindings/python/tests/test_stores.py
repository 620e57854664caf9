"""One set of rules for all adapters: a store is a dictionary, whose writes are whole and at once."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mopslock import stores
from mopslock._hosts import host_of
from mopslock._verbs import perform
from mopslock.errors import CLASSES, StoreError, Throttled, Unauthorized, Vacant

KEYS = (
    "lock.json", "a/lock.json", "a/b/lock.json", "a/b/c d/lock.json", "a.b/c..d/lock.json", "ab/lock.json",
    "Größe/名前/lock.json", "with space/ x/lock.json", "100%/a#b?c/lock.json", "a/b/other", "~/$HOME/*/[x]/lock.json",
)  # fmt: skip
BODIES = (b"", b"{}", b"0123456789" * 40, bytes(range(256)) * 256, b"\r\n\0\xff" * 16_400)


class FakeBlobs:
    """A BlobStore of mops' as a dictionary; that there is nothing is an exception of its own."""

    class Missing(Exception):
        """No such blob."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.hints: set[str] = set()

    def readbytesinto(self, uri: str, stream: IO[bytes], /, *, type_hint: str = "bytes") -> None:
        if uri not in self.blobs:
            raise self.Missing(uri)
        stream.write(self.blobs[uri])

    def putbytes(self, uri: str, data: Any, /, *, type_hint: str = "bytes") -> None:
        self.hints.add(type_hint)
        self.blobs[uri] = bytes(data)

    def exists(self, uri: str, /) -> bool:
        return uri in self.blobs

    def join(self, *parts: str) -> str:
        return "/".join(parts)

    def is_blob_not_found(self, error: Exception, /) -> bool:
        return isinstance(error, self.Missing)


def keys(store: Any, prefix: str) -> list[str]:
    """What a store lists, with modification times or without."""
    return sorted(item if isinstance(item, str) else item[0] for item in store.list(prefix))


def memory(_: Path) -> stores.Store:
    return stores.Memory()


def directory(folder: Path) -> stores.Store:
    return stores.Directory(folder / "not made yet")


def mops_file(folder: Path) -> stores.Store:
    from thds.mops.pure.core.file_blob_store import FileBlobStore  # noqa: PLC0415 - slow, and only here

    return stores.Mops(FileBlobStore(), (folder / "mops").as_uri())


def mops_fake(_: Path) -> stores.Store:
    return stores.Mops(FakeBlobs(), "adls://account/container/locks")


def fsspec_memory(folder: Path) -> stores.Store:
    return stores.Fsspec(MemoryFileSystem(), f"/{folder.name}/{os.urandom(6).hex()}")


def fsspec_memory_url(_: Path) -> stores.Store:
    return stores.Fsspec.of_url(f"memory://{os.urandom(6).hex()}/locks/")


def fsspec_local(folder: Path) -> stores.Store:
    return stores.Fsspec(fsspec.filesystem("file"), str(folder / "local"))


def fsspec_local_url(folder: Path) -> stores.Store:
    return stores.Fsspec.of_url((folder / "local url").as_uri())


MAKERS: tuple[Callable[[Path], stores.Store], ...] = (
    memory, directory, mops_file, mops_fake, fsspec_memory, fsspec_memory_url, fsspec_local, fsspec_local_url,
)  # fmt: skip
every = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def body_of(found: bytes | stores.Blob | None) -> bytes | None:
    return found.body if isinstance(found, stores.Blob) else found


@every
def test_a_result_is_read_whole(make: Callable[[Path], stores.Store], tmp_path: Path) -> None:
    """Through a host, by the verb open where there is one, however large it is; and what is gone is said to be."""
    store, body = make(tmp_path), os.urandom(stores.MOST * 3)
    host: Any = host_of(store)
    store.put("n/result", body)
    with host.open_object("n/result") as stream:
        assert (stream.read(9), stream.read()) == (body[:9], body[9:])
    with pytest.raises(Vacant, match="somebody has removed it"):
        host.open_object("m/result")


@pytest.mark.parametrize("verb", ["open", "get"])
def test_a_result_that_cannot_be_read(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(key: str) -> None:
        raise PermissionError("no")

    store = stores.Memory()
    monkeypatch.setattr(store, verb, fails, raising=False)
    host: Any = host_of(store)
    with pytest.raises(Unauthorized, match="n/result cannot be read.*check the credentials"):
        host.open_object("n/result")


@every
def test_is_a_dictionary(make: Callable[[Path], stores.Store], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever is done in whatever order: the answers are those of a dictionary, as far as a record is looked at."""

    class Rules(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.store, self.oracle = make(tmp_path_factory.mktemp("store")), dict[str, bytes]()

        @rule(key=st.sampled_from(KEYS), body=st.sampled_from(BODIES))
        def put(self, key: str, body: bytes) -> None:
            self.store.put(key, body)
            self.oracle[key] = body

        @rule(key=st.sampled_from(KEYS))
        def get(self, key: str) -> None:
            found, want = body_of(self.store.get(key)), self.oracle.get(key)
            assert (found is None) == (want is None)
            assert (found or b"")[: stores.MOST] == (want or b"")[: stores.MOST]

        @rule(key=st.sampled_from(KEYS))
        def exists(self, key: str) -> None:
            assert self.store.exists(key) == (key in self.oracle)

        @rule(
            prefix=st.sampled_from(["", "a", "a/", "a/b", "a/b/", "a.", "Größe/", "zzz", "zzz/y", "with s", "100%/a#"])
        )
        def list(self, prefix: str) -> None:
            if isinstance(self.store, stores.Listing):
                found = keys(self.store, prefix)
                assert sorted(found) == sorted(key for key in self.oracle if key.startswith(prefix))

        @invariant()
        def of_protocol(self) -> None:
            assert isinstance(self.store, stores.Store)

    run_state_machine_as_test(Rules, settings=settings(max_examples=12, stateful_step_count=30))


@pytest.mark.parametrize("make", [make for make in MAKERS if make is not mops_file], ids=lambda make: make.__name__)
def test_a_folder_is_no_object(make: Callable[[Path], stores.Store], tmp_path: Path) -> None:
    """Keys that lie above or below an object are absent. (Of mops' own files it is mops' word.)"""
    store = make(tmp_path)
    store.put("a/b/lock.json", b"1")
    assert not store.exists("a/b")
    assert not store.exists("a")
    assert not store.exists("a/b/lock.json/lock.json")


@every
@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 200_000])
def test_as_much_as_a_record_may_have_is_read(make: Callable[[Path], stores.Store], size: int, tmp_path: Path) -> None:
    """And one byte more, so that what is too long is seen to be."""
    store, body = make(tmp_path), os.urandom(size)
    store.put("n/lock.json", body)
    answer = perform(store, {"kind": "get", "request": 1, "key": "n/lock.json"})
    assert answer["outcome"] == "yes"
    assert answer["body"] == body[: stores.MOST]


@pytest.mark.parametrize("make", [directory, mops_file, fsspec_local], ids=lambda make: make.__name__)
def test_no_temporary_file_is_left_nor_listed(
    make: Callable[[Path], stores.Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(tmp_path)
    for _ in range(3):
        store.put("a/lock.json", b"1")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "replace", fail)
    if make is not mops_file:
        with pytest.raises(OSError, match="no room"):
            store.put("a/lock.json", b"2")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock.json"]
    assert body_of(store.get("a/lock.json")) == b"1"


@pytest.mark.parametrize("make", [directory, fsspec_local], ids=lambda make: make.__name__)
def test_what_a_killed_writer_leaves_is_no_key(make: Callable[[Path], stores.Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.put("a/lock.json", b"1")
    folder = next(tmp_path.rglob("lock.json")).parent
    (folder / f"{stores._TEMPORARY}0123").write_bytes(b"{")
    assert isinstance(store, stores.Listing)
    assert keys(store, "") == ["a/lock.json"]


@pytest.mark.parametrize("make", [memory, directory, mops_file, fsspec_local], ids=lambda make: make.__name__)
def test_readers_see_whole_objects(make: Callable[[Path], stores.Store], tmp_path: Path) -> None:
    """While two write, three read: nobody sees half an object, or none."""
    store = make(tmp_path)
    bodies = {bytes([letter]) * 40_000 for letter in b"abcd"}
    store.put("n/lock.json", min(bodies))
    wrong: list[str] = []
    over = threading.Event()

    def write() -> None:
        for _ in range(30):
            for body in bodies:
                store.put("n/lock.json", body)

    def read() -> None:
        while not over.is_set() and not wrong:
            found = body_of(store.get("n/lock.json"))
            if found not in bodies:
                wrong.append(f"{None if found is None else len(found)} bytes")

    writers = [threading.Thread(target=write) for _ in range(2)]
    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in [*writers, *readers]:
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in readers:
        thread.join()
    assert wrong == []


def test_files_are_read_and_written_whole_where_the_system_does_less_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, body = stores.Directory(tmp_path), os.urandom(50_000)
    read, write = os.read, os.write
    monkeypatch.setattr(os, "read", lambda file, most: read(file, min(most, 7_000)))
    monkeypatch.setattr(os, "write", lambda file, part: write(file, part[:9_000]))
    store.put("n/lock.json", body)
    assert body_of(store.get("n/lock.json")) == body


def test_modification_times_are_told() -> None:
    store = stores.Memory()
    store.put("k", b"1")
    found = store.get("k")
    assert found
    assert perform(store, {"kind": "get", "request": 7, "key": "k"}) == {
        "kind": "answer", "request": 7, "outcome": "yes", "stamp_ns": found.modified_ns, "body": b"1",
    }  # fmt: skip


def test_a_file_tells_its_modification_time(tmp_path: Path) -> None:
    store = stores.Directory(tmp_path)
    store.put("k", b"1")
    found = store.get("k")
    assert found
    assert found.modified_ns == (tmp_path / "k").stat().st_mtime_ns


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, stores.Blob])
def test_a_store_may_answer_with_any_bytes(kind: Callable[[bytes], Any]) -> None:
    class Store:
        def get(self, key: str) -> Any:
            return kind(b"body")

    answer = perform(Store(), {"kind": "get", "request": 1, "key": "k"})
    assert answer == {"kind": "answer", "request": 1, "outcome": "yes", "body": b"body"}
    assert type(answer["body"]) is bytes


def test_records_are_put_with_their_content_type() -> None:
    blobs = FakeBlobs()
    stores.Mops(blobs, "adls://a/c").put("n/lock.json", b"1")
    assert blobs.hints == {stores.RECORD}
    assert [*blobs.blobs] == ["adls://a/c/n/lock.json"]


def test_an_error_that_is_not_absence_is_not_absence() -> None:
    """mops' BlobStore alone says which of its exceptions mean that there is nothing."""

    class Broken(FakeBlobs):
        def readbytesinto(self, uri: str, stream: IO[bytes], /, *, type_hint: str = "bytes") -> None:
            raise FileNotFoundError(uri)

    with pytest.raises(FileNotFoundError):
        stores.Mops(Broken(), "adls://a/c").get("n/lock.json")


def status_code(number: int) -> Exception:
    """As azure.core's HttpResponseError."""
    error = Exception("azure")
    error.status_code = number  # type: ignore[attr-defined]
    error.response = object()  # type: ignore[attr-defined]
    return error


def botocore(number: int) -> Exception:
    """As botocore's ClientError."""
    error = Exception("botocore")
    error.response = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": number}}  # type: ignore[attr-defined]
    return error


def google(number: int) -> Exception:
    """As google.api_core's GoogleAPICallError, and gcsfs' HttpError."""
    error = Exception("google")
    error.code = number  # type: ignore[attr-defined]
    return error


def aiohttp(number: int) -> Exception:
    """As aiohttp's ClientResponseError."""
    error = Exception("aiohttp")
    error.status = number  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize("shape", [status_code, botocore, google, aiohttp], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize(
    ("number", "want"),
    [(401, "unauthorized"), (403, "unauthorized"), (429, "throttled"), (503, "throttled"), (404, "other"),
     (409, "other"), (412, "other"), (500, "other")],
)  # fmt: skip
def test_http_errors_of_sdks_are_classed(shape: Callable[[int], Exception], number: int, want: str) -> None:
    assert stores.class_of(shape(number)) == want


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (OSError(errno.EROFS, ""), "read_only"),
        (OSError(errno.ENOSPC, ""), "full"),
        (OSError(errno.EDQUOT, ""), "full"),
        (OSError(errno.EACCES, ""), "unauthorized"),
        (OSError(errno.EPERM, ""), "unauthorized"),
        (OSError(errno.ECONNREFUSED, ""), "unreachable"),
        (OSError(errno.ECONNRESET, ""), "unreachable"),
        (OSError(errno.EPIPE, ""), "unreachable"),
        (OSError(errno.ETIMEDOUT, ""), "unreachable"),
        (OSError(errno.EHOSTUNREACH, ""), "unreachable"),
        (OSError(errno.ENETDOWN, ""), "unreachable"),
        (OSError(errno.ESTALE, ""), "unreachable"),
        (TimeoutError(), "unreachable"),
        (ConnectionError(), "unreachable"),
        (OSError(errno.EIO, ""), "other"),
        (OSError("no number"), "other"),
        (ValueError("x"), "other"),
        (StoreError("x"), "other"),
    ],
    ids=repr,
)
def test_errors_of_the_system_are_classed(error: Exception, want: str) -> None:
    assert stores.class_of(error) == want


@pytest.mark.parametrize("name", CLASSES)
def test_a_store_may_say_itself_what_kind_of_failure_it_was(name: str) -> None:
    """Also with a subclass of one of ours."""
    kind = type("Mine", (CLASSES[name],), {})
    assert stores.class_of(kind("x")) == name


@pytest.mark.parametrize("odd", [{"response": {"ResponseMetadata": None}}, {"response": {}}, {"response": "text"},
                                 {"status_code": "403"}, {"status": None}, {"code": "AccessDenied"},
                                 {"response": {"ResponseMetadata": {"HTTPStatusCode": "403"}}}], ids=repr)  # fmt: skip
def test_odd_errors_are_classed_too(odd: dict[str, Any]) -> None:
    """Looking at an error must not raise one."""
    error = Exception("odd")
    error.__dict__.update(odd)
    assert stores.class_of(error) == "other"


@pytest.mark.parametrize("verb", ["get", "put"])
def test_a_verb_that_raises_is_unknown(verb: str) -> None:
    """Never a no, and never an end of the thread that asked."""

    class Store:
        def get(self, key: str) -> bytes:
            raise Throttled("later")

        def put(self, key: str, body: bytes) -> None:
            raise Throttled("later")

    answer = perform(Store(), {"kind": verb, "request": 3, "key": "k", "body": b""})
    assert type(answer.pop("error")) is Throttled
    assert answer == {"kind": "answer", "request": 3, "outcome": "unknown", "class": "throttled"}


@pytest.mark.parametrize("found", [3, "text", ("a", "b", "c"), object()], ids=repr)
def test_a_store_that_answers_nonsense_is_unknown(found: Any) -> None:
    """A verb with a bug in it is a store that fails."""

    class Store:
        def get(self, key: str) -> Any:
            return found

    answer = perform(Store(), {"kind": "get", "request": 3, "key": "k"})
    assert (answer["outcome"], answer["class"]) == ("unknown", "other")


@pytest.fixture(autouse=True)
def _forget_what_fsspec_remembers() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]

"""The rules of storetest on our own stores, and stores that break one rule each, which the rules find."""

from __future__ import annotations

import inspect
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import mopslock
from mopslock import stores
from mopslock.storetest import StoreRules
from world import Blobs, FakeStore

PROTOCOLS_OPEN = True


def mops_files(folder: Path) -> stores.Mops:
    from thds.mops.pure.core.file_blob_store import FileBlobStore  # noqa: PLC0415 - slow, and only here

    return stores.Mops(FileBlobStore(), folder.as_uri())


class Exclusive(MemoryFileSystem):  # type: ignore[misc] # it has no types
    """As s3fs: pipe_file with mode "create" fails if there is one, and the server decides that. It may send it twice,
    or ask a server that does not know the condition."""

    protocol = "s3"
    lock = threading.Lock()
    obeys, twice = True, False

    def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        with self.lock:
            for _ in range(2 if self.twice else 1):
                if mode == "create" and self.obeys and self.exists(path):
                    raise OSError(22, "PreconditionFailed") from ClientError()
                super().pipe_file(path, value)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """What users call."""
        self._pipe_file(path, value, mode)


class ClientError(Exception):
    """As botocore's."""

    response: ClassVar[dict[str, Any]] = {"ResponseMetadata": {"HTTPStatusCode": 412}}


def exclusive(tmp_path: Path, **how: Any) -> stores.Fsspec:
    """On objects of its own."""
    filesystem = Exclusive(skip_instance_cache=True)
    for name, value in how.items():
        setattr(filesystem, name, value)
    return stores.Fsspec(filesystem, str(tmp_path))


OURS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: stores.Memory(),
    "directory": stores.Directory,
    "fsspec local": lambda folder: stores.Fsspec(fsspec.filesystem("file"), str(folder)),
    "fsspec memory": lambda folder: stores.Fsspec.of_url(f"memory:/{folder}"),  # without create
    "fsspec exclusive": exclusive,  # with create
    "mops files": mops_files,
    "mops": lambda _: stores.Mops(Blobs(FakeStore()), "adls://account/container/locks"),
}


class TestOurs(StoreRules):
    """Each client of a directory has an object of its own."""

    @pytest.fixture(params=OURS)
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Any:
        return OURS[request.param](tmp_path / "store")

    def another(self, store: Any) -> Any:
        if isinstance(store, stores.Directory):
            return stores.Directory(store.root)
        return stores.Fsspec(fsspec.filesystem("file"), store.root) if hasattr(store, "_directory_url") else store

    def test_what_lies_above_or_below_an_object_is_none(self, store: Any) -> None:
        """mops' files raise, as mops has them."""
        if "File" not in type(getattr(store, "blobs", None)).__name__:
            super().test_what_lies_above_or_below_an_object_is_none(store)


def test_a_create_of_fsspec_is_only_where_the_service_decides(tmp_path: Path) -> None:
    """What looks and then writes has none, nor has a version that takes the argument and does not obey."""
    old = type("Old", (Exclusive,), {"_pipe_file": lambda self, path, value, **kwargs: None})(skip_instance_cache=True)
    for filesystem in (fsspec.filesystem("memory"), old):
        assert not hasattr(stores.Fsspec(filesystem, str(tmp_path)), "create")
    sent_twice: Any = exclusive(tmp_path, twice=True)
    assert sent_twice.create("n/v", b"1") is True
    assert sent_twice.create("n/v", b"2") is False
    other: Any = exclusive(tmp_path)
    assert (other.create("n/v", b"1"), other.create("n/v", b"2")) == (True, False), "equal bytes may be its own"


def test_a_server_that_does_not_know_the_condition_is_found_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the rules, and by the first lease."""
    said = broken_rules(lambda: exclusive(tmp_path, obeys=False))
    assert "test_a_create_makes_what_is_not_there" in said
    with mopslock.lease(exclusive(tmp_path / "other", obeys=False), "n") as lease:
        assert lease.protocol == "lastwriter"
    assert "does not honour create-if-absent" in caplog.text
    with mopslock.lease(exclusive(tmp_path / "third"), "n") as lease:
        assert lease.protocol == "strict"


class Wrong(stores.Memory):
    """A store whose verb answers something else."""

    def __init__(self, verb: str, answer: Callable[..., Any]) -> None:
        super().__init__()
        right = getattr(self, verb)
        setattr(self, verb, lambda *args: answer(right, *args))
        self.last: list[Any] = []


def stale(right: Callable[..., Any], *args: Any) -> Any:
    """What was read first, always."""
    seen = vars(right.__self__).setdefault("seen", {})  # type: ignore[attr-defined]
    return seen.setdefault(args, right(*args))


def old_of(right: Callable[..., Any], key: str) -> bytes:
    """What is there."""
    return getattr(right.__self__.get(key), "body", b"")  # type: ignore[attr-defined]


def writes(right: Callable[..., Any], key: str, body: bytes) -> bool:
    """And says no."""
    right.__self__.put(key, body)  # type: ignore[attr-defined]
    return False


def begin(right: Callable[..., Any], prefix: str) -> list[str]:
    return [key for key, _ in right.__self__.list(prefix)]  # type: ignore[attr-defined]


WRONG: list[tuple[str, str, Callable[..., Any], str]] = [
    ("get", "text", lambda right, key: (found := right(key)) and found.body.decode("latin-1"), "which is not bytes"),
    ("get", "b'' for absent", lambda right, key: right(key) or b"", "which is absent, returned b''"),
    ("get", "raises for absent", lambda right, key: right(key) or {}[key], "KeyError"),
    ("get", "an object with body", lambda right, key: right(key) and right, "which is not bytes"),
    ("get", "a triple", lambda right, key: (found := right(key)) and (*found, 1), "which is no Blob"),
    ("get", "cut off", lambda right, key: (found := right(key)) and found.body[:1000], "returned"),
    ("get", "stripped", lambda right, key: (found := right(key)) and found.body.strip(), "returned"),
    ("get", "cached", stale, "returned"),
    ("get", "any key below", lambda right, key: right(key) or right("n/lock.json"), "which is absent, returned"),
    ("get", "seconds", lambda right, key: (one := right(key)) and stores.Blob(one.body, 10**9), "no time of today"),
    ("put", "only the first", lambda right, key, body: right.__self__.create(key, body), "returned"),
    ("put", "lower case", lambda right, key, body: right(key.lower(), body), "returned None"),
    ("put", "appends", lambda right, key, body: right(key, old_of(right, key) + body), "returned"),
    ("exists", "None", lambda right, key: right(key) or None, "answered None, and not False"),
    ("exists", "a number", lambda right, key: int(right(key)), "answered 0, and not False"),
    ("exists", "always", lambda right, key: True, "answered True, and not False"),
    ("create", "None", lambda right, key, body: right(key, body) and None, "answered None, and not True"),
    ("create", "a key", lambda right, key, body: right(key, body) and key, "answered 'n/v', and not True"),
    ("create", "yes twice", lambda right, key, body: right(key, body) or True, "answered True, and not False"),
    ("create", "a put", lambda right, key, body: right.__self__.put(key, body) or True, "answered True, and not False"),
    ("create", "no, and writes", lambda right, key, body: right(key, body) or writes(right, key, body), "returned"),
    ("create", "raises another error", lambda right, key, body: right(key, body) or {}[key], "KeyError"),
    ("delete", "nothing", lambda right, key: None, "which is absent, returned"),
    ("delete", "raises for absent", lambda right, key: right(key) or {}[key], "KeyError"),
    ("delete", "all that begins so", lambda right, key: [right(one) for one in begin(right, key)], "returned None"),
    ("list", "leaves out the last", lambda right, prefix: right(prefix)[:-1], "left out"),
    ("list", "a thousand at most", lambda right, prefix: right(prefix)[:1000], "left out"),
    ("list", "cached", stale, "left out"),
    ("list", "all", lambda right, prefix: right(""), "which are not there"),
    ("list", "names below", lambda right, prefix: [key.removeprefix(prefix) for key, _ in right(prefix)], "left out"),
    ("list", "one level", lambda right, prefix: [one for one in right(prefix) if one[0].count("/") < 2], "left out"),
    ("list", "twice", lambda right, prefix: right(prefix) * 2, "twice"),
    ("list", "bytes", lambda right, prefix: [(key.encode(), at) for key, at in right(prefix)], "neither a key nor"),
    ("list", "None", lambda right, prefix: right(prefix) or None, "list returned None"),
    ("list", "other times", lambda right, prefix: [(key, at + 1) for key, at in right(prefix)], "and get"),
]  # fmt: skip


def broken_rules(make: Callable[[], Any]) -> dict[str, str]:
    """The rules that a store breaks, and what is said of each."""
    said = dict[str, str]()
    for name, rule in inspect.getmembers(StoreRules, inspect.isfunction):
        if name.startswith("test_"):
            try:
                rule(StoreRules(), make())
            except unittest.SkipTest:
                pass
            except Exception as error:
                said[name] = f"{type(error).__name__}: {error}"
    return said


@pytest.mark.parametrize(("verb", "what", "answer", "text"), WRONG, ids=[f"{verb} {what}" for verb, what, *_ in WRONG])
def test_a_wrong_answer_is_found(verb: str, what: str, answer: Callable[..., Any], text: str) -> None:
    said = broken_rules(lambda: Wrong(verb, answer))
    assert text in " ".join(said.values()), said


def test_no_right_answer_is_called_wrong() -> None:
    """get and put are enough; create may raise FileExistsError; times may be missing."""

    def raising(right: Callable[..., Any], key: str, body: bytes) -> bool:
        if not right(key, body):
            raise FileExistsError(key)
        return True

    for verb, answer in {
        "create": raising,
        "get": lambda right, key: (found := right(key)) and memoryview(found.body),
        "list": lambda right, prefix: {key: None for key, _ in right(prefix)},
    }.items():
        assert broken_rules(lambda verb=verb, answer=answer: Wrong(verb, answer)) == {}  # type: ignore[misc]

    class Least:
        def __init__(self) -> None:
            self.objects: dict[str, bytes] = {}

        def get(self, key: str) -> bytes | None:
            return self.objects.get(key)

        def put(self, key: str, body: bytes) -> None:
            self.objects[key] = bytes(body)

    assert broken_rules(Least) == {}

"""Functions whose results stay: what their calls are known by, what is kept, and how."""

from __future__ import annotations

import enum
import hashlib
import inspect
import json
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mopslock
from mopslock import _failure, _memo
from mopslock._ongoing import Wanted
from mopslock.stores import Directory, Memory
from ways import IMPORTS, SOON

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


def exactly(value: Any) -> Any:
    """Equal only if it is the same to whoever looks closely: 1, 1.0 and True are three, as are 0.0 and -0.0."""
    if type(value) is dict:
        return "dict", tuple(sorted((name, exactly(item)) for name, item in value.items()))
    if type(value) is list:
        return "list", tuple(exactly(item) for item in value)
    return type(value).__name__, repr(value)


@mopslock.memoize(Memory())
def some(a: Any, b: Any = 0, *rest: Any, c: Any = None, **others: Any) -> None:
    """Something."""


# What a call is known by.


@given(VALUES, VALUES, VALUES)
def test_the_same_arguments_are_the_same_call(a: Any, b: Any, c: Any) -> None:
    """Whether by name, by place or by default, and in whatever order."""
    again = json.loads(json.dumps([a, b, c]))
    assert some.key(a, b, c=c) == some.key(*again[:2], c=again[2])
    assert some.key(a, b, c=c) == some.key(c=c, b=b, a=a) == some.key(a, c=c, b=b)
    assert some.key(a) == some.key(a, 0) == some.key(a=a, c=None)
    assert some.key(a, x=b, y=c) == some.key(a, y=c, x=b)
    assert some.key({"x": a, "y": b}) == some.key({"y": b, "x": a})


@given(st.tuples(VALUES, VALUES), st.tuples(VALUES, VALUES))
def test_other_arguments_are_another_call(one: Any, other: Any) -> None:
    same = exactly(list(one)) == exactly(list(other))
    assert (some.key(*one) == some.key(*other)) == same
    assert some.key(one[0]) != some.key(one[0], 0, one[1])
    assert some.key(1, 2, one[0]) != some.key(1, 2, c=one[0]) or one[0] is None
    assert some.key(1, x=one[0]) != some.key(1, c={"x": one[0]})


def test_the_name_of_a_call() -> None:
    known = hashlib.sha256(b'{"a":1,"b":0,"c":null,"others":{},"rest":[]}').hexdigest()
    assert some.key(1) == f"memo/{__name__}.some/1/{known}"
    named = mopslock.memoize(Memory(), "v2", prefix="a/b", name="mine")(some.__wrapped__)  # type: ignore[attr-defined]
    assert named.key(1) == f"a/b/mine/v2/{known}"


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1, 2), "argument a of .*some is a tuple"),
        ({1}, "is a set"),
        (b"x", "is a bytes"),
        (object(), "is a object"),
        (Colour.RED, "is a Colour"),
        (float("nan"), "is nan"),
        (float("inf"), "is inf"),
        ({1: 2}, "is a dict with keys that are not str"),
        ([{"x": [0, (1,)]}], r"argument a\[0\]\['x'\]\[1\] of .*some is a tuple"),
    ],
)
def test_what_json_has_no_word_for_is_named(value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said + ".*give memoize key="):
        some.key(value)


def test_arguments_that_the_function_does_not_take() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        some.key()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="argument rest"):
        some.key(1, 2, b"")


def test_key_says_what_a_call_is_known_by() -> None:
    @mopslock.memoize(Memory(), key=lambda path, **_: [str(path), 1])
    def size(path: Path, loudly: bool = False) -> int:
        return len(str(path))

    assert size.key(Path("/a")) == size.key(Path("/a"), loudly=True) != size.key(Path("/b"))
    assert size(Path("/a")) == 2
    bad = mopslock.memoize(Memory(), key=lambda path: path)(lambda path: 1)
    with pytest.raises(TypeError, match="what key= returned for a call of"):
        bad(Path("/a"))


def test_a_script_is_known_by_its_file(tmp_path: Path) -> None:
    """Run or imported."""
    script = tmp_path / "report.py"
    script.write_text(
        "import mopslock, mopslock.stores\n@mopslock.memoize(mopslock.stores.Memory())\ndef f(): ...\nprint(f.key())\n"
    )
    runs = ([str(script)], ["-c", "import report"], ["-m", "report"])
    said = {
        subprocess.run(
            [sys.executable, *run], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=50
        ).stdout
        for run in runs
    }
    assert len(said) == 1
    assert said.pop().startswith("memo/report.f/1/")


@pytest.mark.parametrize("version", ["", 1, None])
def test_versions_that_cannot_be(version: Any) -> None:
    with pytest.raises(mopslock.BadArgument, match="version"):
        mopslock.memoize(Memory(), version)(some)


def test_another_version_is_another_call() -> None:
    store, done = Memory(), list[str]()
    for version in ("1", "2", "1"):

        @mopslock.memoize(store, version)
        def work(version: str = version) -> str:
            done.append(version)
            return version

        work()
    assert done == ["1", "2"]


# What is kept.


def test_a_function_is_called_once_for_each_of_its_calls() -> None:
    store, done = Memory(), list[int]()

    @mopslock.memoize(store)
    def square(n: int) -> dict[str, int]:
        """Squares."""
        done.append(n)
        return {"n": n * n}

    assert [square(n) for n in (2, 3, 2)] == [{"n": 4}, {"n": 9}, {"n": 4}]
    assert done == [2, 3]
    assert store.get(square.key(2) + "/result").body == b'{"n":4}'  # type: ignore[union-attr]
    assert (square.__name__, square.__doc__) == ("square", "Squares.")  # type: ignore[attr-defined]
    assert list(inspect.signature(square).parameters) == ["n"]


def test_cached_looks_and_takes_no_part() -> None:
    store = Memory()

    @mopslock.memoize(store)
    def work(n: int) -> int:
        return n

    assert not work.cached(1)
    assert store.list("") == []
    assert work(1) == 1
    assert work.cached(1)
    assert not work.cached(2)


def test_a_store_that_does_not_answer_has_said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not the same as no."""

    class Out(Memory):
        def exists(self, key: str) -> bool:
            raise ConnectionError("no route")

    monkeypatch.setattr(_memo, "LOOK", 0.3)
    work = mopslock.memoize(Out(), protocol="lastwriter")(lambda: 1)
    with pytest.raises(mopslock.Unreachable, match="did not say"):
        work.cached()


def test_what_is_returned_is_what_the_store_has() -> None:
    """To the first caller too, so that nobody relies on what others do not get."""

    @mopslock.memoize(Memory())
    def pair() -> tuple[int, int]:
        return 1, 2

    assert [pair(), pair()] == [[1, 2], [1, 2]]  # type: ignore[comparison-overlap]


def test_a_method_is_known_by_what_its_key_says() -> None:
    class Report:
        def __init__(self, year: int) -> None:
            self.year = year

        @mopslock.memoize(Memory(), key=lambda self, month: [self.year, month])
        def make(self, month: int) -> str:
            return f"{self.year}-{month}"

    assert Report(2026).make(11) == "2026-11"
    assert Report(2025).make(11) == "2025-11"


def test_a_serializer_of_ones_own() -> None:
    class Text:
        def dumps(self, value: Any) -> bytes:
            return str(value).encode()

        def loads(self, body: bytes) -> Any:
            return "read back: " + body.decode()

    @mopslock.memoize(Memory(), serializer=Text())
    def work() -> str:
        return "x"

    assert work() == work() == "read back: x"


def test_what_cannot_be_kept_is_an_error_of_the_work() -> None:
    store = Memory()

    @mopslock.memoize(store)
    def work() -> object:
        return object()

    with pytest.raises(TypeError, match="what .*work returned cannot be kept: .*mopslock.JSON"):
        work()
    assert not work.cached()


def test_pickle_only_by_choice() -> None:
    store = Memory()

    @mopslock.memoize(store)
    def plain() -> Any:
        return [1]

    @mopslock.memoize(store, serializer=mopslock.PICKLE)
    def pickled() -> Any:
        return (1, {2})

    assert plain() == [1]
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(store.get(plain.key() + "/result").body)  # type: ignore[union-attr]
    store.put(plain.key() + "/result", pickle.dumps([1]))
    with pytest.raises(ValueError, match=r"."):
        plain()
    assert pickled() == pickled() == (1, {2})
    assert "DANGER" in str(mopslock.PICKLE.__doc__)


def test_a_call_within_the_same_call_would_wait_for_itself() -> None:
    @mopslock.memoize(Memory())
    def factorial(n: int) -> int:
        return n * factorial(n - 1 if n != 3 else 3) if n else 1

    assert factorial(2) == 2
    with pytest.raises(RuntimeError, match="calls itself with the same arguments"):
        factorial(3)
    assert factorial(1) == 1


def test_threads_share_one_call() -> None:
    store, done, go = Memory(), list[int](), threading.Event()

    @mopslock.memoize(store, wait=SOON)
    def work() -> int:
        done.append(1)
        assert go.wait(SOON)
        return len(done)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(work) for _ in range(8)]
        go.set()
        assert [one.result(SOON) for one in asked] == [1] * 8


def test_only_functions_that_return_something() -> None:
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield 1

    with pytest.raises(TypeError, match=r"aio\.memoize"):
        mopslock.memoize(Memory())(coroutine)
    with pytest.raises(TypeError, match="generator"):
        mopslock.memoize(Memory())(generator)


# Failures that are kept.


def test_what_it_raises_is_not_kept() -> None:
    done: list[int] = []

    @mopslock.memoize(Memory())
    def work() -> int:
        done.append(1)
        if len(done) == 1:
            raise ValueError("its own")
        return len(done)

    with pytest.raises(ValueError, match="its own"):
        work()
    assert not work.cached()
    assert work() == work() == 2


@pytest.mark.parametrize("serializer", [mopslock.JSON, mopslock.PICKLE])
def test_a_kept_failure_is_raised_to_others(serializer: Any) -> None:
    store, done = Memory(), list[int]()

    @mopslock.memoize(store, memo_failures=True, serializer=serializer)
    def work() -> int:
        done.append(1)
        raise KeyError("its own")

    with pytest.raises(KeyError):
        work()
    with pytest.raises(mopslock.RememberedFailure, match="has failed on .*KeyError.*its own") as error:
        work()
    assert (error.value.type, error.value.text) == ("KeyError", "'its own'")
    assert isinstance(error.value.__cause__, KeyError) == (serializer is mopslock.PICKLE)
    assert done == [1]
    assert work.cached()
    kept = msgpack.unpackb(store.get(f"_mopslock/f/{work.key()}/result").body)  # type: ignore[union-attr]
    assert ("pickle" in kept) == (serializer is mopslock.PICKLE)


def test_a_pickle_of_somebody_elses_is_never_read_unless_chosen() -> None:
    """Also not where it was kept by one who chose it."""

    class Bomb:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("it ran",))

    store = Memory()

    @mopslock.memoize(store, memo_failures=True)
    def work() -> int:
        return 1

    body = msgpack.unpackb(_failure.dump(ValueError("x")))
    body["pickle"] = pickle.dumps(Bomb())
    store.put(f"_mopslock/f/{work.key()}/result", msgpack.packb(body))
    with pytest.raises(mopslock.RememberedFailure) as error:
        work()
    assert error.value.__cause__ is None


def test_an_exception_that_cannot_be_pickled_is_kept_in_words() -> None:
    @mopslock.memoize(Memory(), memo_failures=True, serializer=mopslock.PICKLE)
    def work() -> int:
        error = ValueError("its own")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(ValueError, match="its own"):
        work()
    with pytest.raises(mopslock.RememberedFailure, match="its own"):
        work()


COMMANDS = {
    "v": 1, "status": 7, "by": "mopslock-host remote", "at": "2026-11-21T07:09:54Z", "host": "vm",
    "stderr": b"no such file\n",
}  # fmt: skip
"""As the command keeps one."""


def test_the_commands_failures_can_be_read() -> None:
    failure, pickled = _failure.load("n", msgpack.packb(COMMANDS))
    assert (failure.status, failure.host, failure.at) == (7, "vm", "2026-11-21T07:09:54Z")
    assert (failure.type, failure.text, failure.stderr, pickled) == ("", "", "no such file\n", b"")
    assert "exit status 7 on vm" in str(failure)


def test_the_commands_can_read_ours() -> None:
    """The fields, in their types, that its struct has."""
    kept = msgpack.unpackb(_failure.dump(ValueError("x" * 100_000)))
    types = {name: type(value) for name, value in kept.items()}
    assert types == {
        "v": int, "status": int, "by": str, "at": str, "host": str, "stderr": bytes, "type": str, "text": str,
    }  # fmt: skip
    assert (kept["v"], kept["status"], len(kept["text"]), len(kept["stderr"])) == (1, 0, 4096, 4096)


@given(st.binary(max_size=60))
def test_whatever_lies_there_is_no_crash(body: bytes) -> None:
    failure, _ = _failure.load("n", body)
    assert str(failure).startswith("mopslock: work n has failed")


@given(
    st.dictionaries(
        st.sampled_from(["v", "status", "by", "at", "host", "stderr", "type", "text", "pickle"]),
        st.one_of(st.integers(0, 1), st.text(max_size=3), st.binary(max_size=3), st.none()),
    )
)
def test_whatever_it_says_is_text_that_can_be_shown(fields: dict[str, Any]) -> None:
    failure, pickled = _failure.load("n", msgpack.packb(fields))
    assert str(failure).isprintable()
    assert isinstance(pickled, bytes)


def test_what_a_newer_one_has_kept() -> None:
    with pytest.raises(mopslock.Unfit, match="newer") as error:
        _failure.load("n", msgpack.packb({"v": 2}))
    assert error.value.reason == "newer"


# Processes.


def test_two_processes_of_one_key_do_it_once(tmp_path: Path) -> None:
    code = (
        IMPORTS
        + f"""
@mopslock.memoize(mopslock.stores.Directory({str(tmp_path)!r}), name="work", wait=30, protocol="strict", ttl=5)
def work(n):
    with open({str(tmp_path / "count")!r}, "a") as file:
        file.write("once ")
    return os.getpid()
print("begun", flush=True)
sys.stdin.readline()
print(work(1))
"""
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
        said = [process.communicate("\n", timeout=40)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert len(set(said)) == 1
    assert int(said[0]) in {process.pid for process in processes}
    assert (tmp_path / "count").read_text() == "once "


def test_either_way_finds_what_the_other_has_stored(tmp_path: Path) -> None:
    """By URL and by an object: one directory, one result."""

    def work(n: int) -> int:
        return n

    own = mopslock.memoize(Directory(tmp_path), protocol="strict")(work)
    url = mopslock.memoize(tmp_path.as_uri(), protocol="strict")(work)
    assert own.key(7) == url.key(7)
    assert own(7) == 7
    assert url.cached(7)
    assert url(7) == 7
    assert url(8) == 8
    assert own.cached(8)
    assert not url.cached(9)


def test_looking_is_not_taking_part() -> None:
    wanted = _memo.looking(Wanted("a/b", mopslock.Terms()))
    assert (wanted.remote, wanted.without_lease, wanted.handle) == (True, True, None)

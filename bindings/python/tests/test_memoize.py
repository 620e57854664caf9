"""Functions whose results stay: what their calls are known by, what is kept, and how."""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import json
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mopslock
from mopslock import _failure, _memo
from mopslock.stores import Memory
from ways import Place

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


def exactly(value: Any) -> Any:
    """Equal only if type and value are the same: 1, 1.0 and True are three values, as are 0.0 and -0.0."""
    if type(value) is dict:
        return "dict", tuple(sorted((name, exactly(item)) for name, item in value.items()))
    if type(value) is list:
        return "list", tuple(exactly(item) for item in value)
    return type(value).__name__, repr(value)


@mopslock.memoize(Memory())
def some(a: Any, b: Any = 0, *rest: Any, c: Any = None, **others: Any) -> None:
    """Something."""


@settings(max_examples=25)
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
    for version in ("", 1, None):
        with pytest.raises(mopslock.BadArgument, match="version"):
            mopslock.memoize(Memory(), version)(some)  # type: ignore[arg-type]


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1, 2), "argument a of .*some is a tuple"), ({1}, "is a set"), (b"x", "is a bytes"), (object(), "is a object"),
        (Colour.RED, "is a Colour"), (float("nan"), "is nan"), (float("inf"), "is inf"),
        ({1: 2}, "is a dict with keys that are not str"),
        ([{"x": [0, (1,)]}], r"argument a\[0\]\['x'\]\[1\] of .*some is a tuple"),
    ],
)  # fmt: skip
def test_what_json_has_no_word_for_is_named(value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said + ".*give memoize key="):
        some.key(value)
    with pytest.raises(TypeError, match="argument rest"):
        some.key(1, 2, value)
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        some.key()  # type: ignore[call-arg]


def test_key_says_what_a_call_is_known_by() -> None:
    @mopslock.memoize(Memory(), name="size", key=lambda path, **_: [str(path), 1])
    def size(path: Path, loudly: bool = False) -> int:
        return len(str(path))

    assert size.key(Path("/a")) == size.key(Path("/a"), loudly=True) != size.key(Path("/b"))
    assert size(Path("/a")) == 2
    bad = mopslock.memoize(Memory(), name="bad", key=lambda path: path)(lambda path: 1)
    with pytest.raises(TypeError, match="what key= returned for a call of"):
        bad(Path("/a"))

    class Report:
        def __init__(self, year: int) -> None:
            self.year = year

        @mopslock.memoize(Memory(), key=lambda self, month: [self.year, month])
        def make(self, month: int) -> str:
            return f"{self.year}-{month}"

    assert [Report(2026).make(11), Report(2025).make(11)] == ["2026-11", "2025-11"]


def times(by: int) -> Callable[[Callable[[int], int]], Callable[[int], int]]:
    """Decorators that close over a value."""
    return lambda function: functools.wraps(function)(lambda x: by * function(x))


def wrapped(function: Callable[[int], int]) -> Callable[[int], int]:
    """A decorator that closes over nothing else."""
    return functools.wraps(function)(lambda x: 1 + function(x))


def plain(x: int) -> int:
    return x


@mopslock.memoize(Memory())
@times(2)
def twice(x: int) -> int:
    """Nothing else has its name, whatever decorates it."""
    return x


def outer(z: int) -> tuple[Any, Any, Any]:
    """Functions: one over z, one over itself, and one with a default."""

    def closure(x: int) -> list[int]:
        return [z, x]

    def calls_itself(x: int) -> int:
        return calls_itself(x - 1) if x else 1

    def default(x: int, z: int = z) -> list[int]:
        return [z, x]

    return closure, calls_itself, default


closure, calls_itself, default = outer(1)
EXECUTED: dict[str, Any] = {}
exec("def f(): ...", EXECUTED)  # which no module has


class Owner:
    """Has a method, and a class method."""

    def method(self) -> None: ...

    @classmethod
    def made(cls) -> None: ...

    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "key", "why"),
    [
        (lambda x: x, None, "all lambdas"), (closure, None, "over other values of z"),
        (default, lambda x: x, "other defaults"), (Owner().method, None, "bound to a Owner"),
        (Owner.made, None, "bound to a type"), (Owner(), None, "no name of its own"),
        (functools.partial(outer, 1), None, "a partial has no name"), ([].append, None, "bound to a list"),
        (EXECUTED["f"], None, "by exec"),
        (functools.wraps(closure)(lambda *given: given), None, "over other values of z"),
        (times(2)(plain), None, "wraps .*plain, which stands for itself, and .* other values of by"),
        (times(2)(wrapped(plain)), None, "other values of by"), (wrapped(times(2)(plain)), None, "other values of by"),
        (times(2)(default), None, "makes another one, over other values of by"),
    ],
)  # fmt: skip
def test_what_has_no_identity_of_its_own_needs_a_name(function: Any, key: Any, why: str) -> None:
    with pytest.raises(mopslock.BadArgument, match=f"{why}.*Give memoize name="):
        mopslock.memoize(Memory(), key=key)(function)
    if not isinstance(function, type([].append)):
        mopslock.memoize(Memory(), key=key, name="mine")(function)


def test_what_is_one_function_wherever_it_is_defined_needs_none() -> None:
    retried = functools.wraps(inspect.unwrap(some))(lambda *given: given)
    named = (
        (calls_itself, f"{__name__}.outer.<locals>.calls_itself"), (retried, f"{__name__}.some"),
        (default, f"{__name__}.outer.<locals>.default"), (Owner.method, f"{__name__}.Owner.method"),
        (wrapped(plain), f"{__name__}.plain"), (twice, f"{__name__}.twice"),
        (math.sqrt, "math.sqrt"), (int, "builtins.int"),
    )  # fmt: skip
    for function, name in named:
        assert _memo.identity(function, has_key=False) == name
    one, other = mopslock.memoize(Memory())(default), mopslock.memoize(Memory())(outer(2)[2])
    assert one.key(1) != other.key(1), "the default is an argument"


CALLED = "import mopslock, mopslock.stores, {}\n@mopslock.memoize(mopslock.stores.Memory(){})\ndef f(): ...\n"


def test_a_function_of_a_script_needs_a_name_and_one_of_a_module_that_is_run_does_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "script.py").write_text(CALLED.format("sys", ""))
    (tmp_path / "named.py").write_text(CALLED.format("sys", ", name='f'") + "print(f.key())\n")
    spawn = "multiprocessing.get_context('spawn').Process(target=int)"
    spawns = f"if __name__ == '__main__':\n    child = {spawn}\n    child.start(); child.join()\n"
    for module in ("a/__main__.py", "report.py"):
        (tmp_path / module).write_text(CALLED.format("multiprocessing", "") + "print(f.key())\n" + spawns)

    def run(*given: str) -> tuple[bytes, bytes]:
        done = subprocess.run([sys.executable, *given], cwd=tmp_path, capture_output=True, check=False)
        return done.stdout, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else b""

    for script in (["script.py"], ["-c", CALLED.format("sys", "")], ["a"]):
        assert b"f cannot be memoized under its own name: it is defined in a script" in run(*script)[1]
    assert run("named.py")[0].startswith(b"memo/f/1/")
    for module, called in (("report", ["-m", "report"]), ("a", ["-m", "a"]), ("report", ["-c", "import report"])):
        said = [line.rpartition(b"/")[0] for line in run(*called)[0].splitlines()]
        assert said == [b"memo/%s.f/1" % module.encode()] * (1 + (called == ["-m", "report"])), "also in its child"


def test_a_function_is_called_once_for_each_of_its_calls(either: Place) -> None:
    """Threads and tasks find each other's results."""
    store, done, memoize = Memory(), list[int](), either.api.memoize

    def squares(n: int) -> dict[str, int]:
        """Squares."""
        done.append(n)
        return {"n": n * n}

    square, plain = memoize(store, name="squares")(squares), mopslock.memoize(store, name="squares")(squares)
    assert not square.cached(2)
    assert store.list("") == [], "who looks takes no part"
    assert [square(n) for n in (2, 3, 2)] == [{"n": 4}, {"n": 9}, {"n": 4}]
    assert done == [2, 3]
    assert [square.cached(n) for n in (2, 4)] == [plain.cached(n) for n in (2, 4)] == [True, False]
    assert memoize(store, "2", name="squares")(squares)(2) == {"n": 4}
    assert done == [2, 3, 2], "another version is another call"
    assert store.get(square.key(2) + "/result").body == b'{"n":4}'  # type: ignore[union-attr]
    assert (square.__name__, square.__doc__) == ("squares", "Squares.")
    assert list(inspect.signature(plain).parameters) == ["n"]
    with pytest.raises(TypeError, match=r"mopslock\.memoize"):
        mopslock.aio.memoize(store)(squares)  # type: ignore[arg-type]


def test_a_store_that_does_not_answer_has_said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not the same as no."""

    class Out(Memory):
        def exists(self, key: str) -> bool:
            raise ConnectionError("no route")

    monkeypatch.setattr(_memo, "LOOK", 0.05)
    work = mopslock.memoize(Out(), name="one", protocol="lastwriter")(lambda: 1)
    with pytest.raises(mopslock.Unreachable, match="did not say"):
        work.cached()


def test_pickle_only_by_choice() -> None:
    """What is returned is what the store has, to the first caller too, so that nobody relies on what others do not
    get: by JSON, by pickle, or by a serializer of one's own."""
    store = Memory()

    class Text:
        def dumps(self, value: Any) -> bytes:
            return str(value).encode()

        def loads(self, body: bytes) -> Any:
            return "read back: " + body.decode()

    def work() -> Any:
        return (1, 2)

    plain = mopslock.memoize(store)(work)
    pickled = mopslock.memoize(store, "2", serializer=mopslock.PICKLE)(work)
    text = mopslock.memoize(store, "3", serializer=Text())(work)
    assert plain() == plain() == [1, 2]
    assert pickled() == pickled() == (1, 2)
    assert text() == text() == "read back: (1, 2)"
    with pytest.raises(TypeError, match="what .*object returned cannot be kept: .*mopslock.JSON"):
        mopslock.memoize(store)(object)()
    store.put(plain.key() + "/result", pickle.dumps([1]))
    with pytest.raises(ValueError, match=r"."):
        plain()
    assert "DANGER" in str(mopslock.PICKLE.__doc__)


def test_a_call_within_the_same_call_would_wait_for_itself() -> None:
    @mopslock.memoize(Memory())
    def factorial(n: int) -> int:
        return n * factorial(n - 1 if n != 3 else 3) if n else 1

    assert factorial(2) == 2
    with pytest.raises(RuntimeError, match="calls itself with the same arguments"):
        factorial(3)
    assert factorial(1) == 1


def test_only_functions_that_return_something() -> None:
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield 1

    with pytest.raises(TypeError, match=r"aio\.memoize"):
        mopslock.memoize(Memory())(coroutine)
    with pytest.raises(TypeError, match="generator"):
        mopslock.memoize(Memory())(generator)


@pytest.mark.parametrize("serializer", [mopslock.JSON, mopslock.PICKLE])
@pytest.mark.parametrize("error", [KeyError("its own"), KeyError("its own", threading.Lock())])
def test_a_kept_failure_is_raised_to_others(serializer: Any, error: Exception) -> None:
    """One that cannot be pickled in words. Unless it is to be kept, it is not."""
    store, done = Memory(), list[int]()

    def work() -> int:
        done.append(1)
        raise error

    for _ in range(2):
        with pytest.raises(KeyError):
            mopslock.memoize(store, name="work", serializer=serializer)(work)()
    kept = mopslock.memoize(store, name="work", memo_failures=True, serializer=serializer)(work)
    with pytest.raises(KeyError):
        kept()
    with pytest.raises(mopslock.RememberedFailure, match="has failed on .*KeyError.*its own") as raised:
        kept()
    assert raised.value.type == "KeyError"
    pickles = serializer is mopslock.PICKLE and len(error.args) == 1
    assert isinstance(raised.value.__cause__, KeyError) == pickles
    assert len(done) == 3
    assert kept.cached()
    assert ("pickle" in msgpack.unpackb(store.get(f"_mopslock/f/{kept.key()}/result").body)) == pickles  # type: ignore[union-attr]


def test_another_programs_pickle_is_never_read_unless_chosen() -> None:
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


COMMANDS = {
    "v": 1, "status": 7, "by": "mopslock-host remote", "at": "2026-11-21T07:09:54Z", "host": "vm",
    "stderr": b"no such file\n",
}  # fmt: skip
"""As the command keeps one."""


def test_the_command_and_we_can_read_each_others_failures() -> None:
    """Ours have the fields, in their types, that its struct has."""
    failure, pickled = _failure.load("n", msgpack.packb(COMMANDS))
    assert (failure.status, failure.host, failure.at) == (7, "vm", "2026-11-21T07:09:54Z")
    assert (failure.type, failure.text, failure.stderr, pickled) == ("", "", "no such file\n", b"")
    assert "exit status 7 on vm" in str(failure)
    kept = msgpack.unpackb(_failure.dump(ValueError("x" * 100_000)))
    types = {name: type(value) for name, value in kept.items()}
    assert types == {**{name: type(value) for name, value in COMMANDS.items()}, "type": str, "text": str}
    assert (kept["v"], kept["status"], len(kept["text"]), len(kept["stderr"])) == (1, 0, 4096, 4096)


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
    for body in (b"", b"\xc1", msgpack.packb([1]), msgpack.packb(fields)[:-1]):
        assert str(_failure.load("n", body)[0]).startswith("mopslock: work n has failed")
    with pytest.raises(mopslock.Incompatible, match="newer") as error:
        _failure.load("n", msgpack.packb({**fields, "v": 2}))
    assert error.value.reason == "newer"

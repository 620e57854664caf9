"""Functions whose results stay: the name of a call, what is stored of it, and the decorator."""

from __future__ import annotations

import functools
import hashlib
import inspect as inspection
import json
import math
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from . import _failure
from ._call import Found, StepFuture, WorkRequest
from ._caller import run
from ._frames import brief
from ._hosts import AnyStore
from ._inside import once
from ._invoke import Invoking, Result, Work, asking, content
from ._options import InvokeOptions, Unpack, spelled
from .errors import BadArgument, NoResult, Unreachable
from .terms import Terms

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

LOOK = 30.0  # seconds that cached waits for the store


class Serializer(Protocol):
    """How results become bytes and back. Any object with these two methods will do."""

    def dumps(self, value: Any, /) -> bytes:
        """The bytes to store."""

    def loads(self, body: bytes, /) -> Any:
        """The value to return, also in the process that computed it."""


class Json:
    """Results as JSON, which every language can read. A value comes back as JSON has it: a tuple as a list, the keys of
    a dict as text."""

    def dumps(self, value: Any, /) -> bytes:
        """TypeError: JSON cannot express it."""
        return json.dumps(value, separators=(",", ":")).encode()

    def loads(self, body: bytes, /) -> Any:
        """From JSON in UTF-8."""
        return json.loads(body)

    def __repr__(self) -> str:
        return "mopslock.JSON"


class Pickle:
    """Results as pickles. DANGER: anyone who can write to the store can run code in every process that reads a result.
    Choose it only if everyone with write access to the bucket may do whatever these processes may do."""

    def dumps(self, value: Any, /) -> bytes:
        """By the highest protocol that every supported Python reads."""
        return pickle.dumps(value, protocol=5)

    def loads(self, body: bytes, /) -> Any:
        """Runs what the pickle says."""
        return pickle.loads(body)

    def __repr__(self) -> str:
        return "mopslock.PICKLE"


JSON = Json()
PICKLE = Pickle()


class MemoOptions(InvokeOptions, total=False):
    """memoize's."""

    serializer: Serializer
    """How results become bytes and back: mopslock.JSON, mopslock.PICKLE, or an object with dumps and loads."""
    key: Callable[..., Any] | None
    """Called with the arguments of a call, it returns what that is known by, which JSON must be able to express."""
    prefix: str
    """What the names of all calls begin with."""
    name: str | None
    """Of the function, in place of its module.qualname."""


MEMO: dict[str, Any] = {"serializer": JSON, "key": None, "prefix": "memo", "name": None}
"""The defaults of what memoize alone takes."""


class Memoized(Protocol[P, R_co]):
    """A function whose results stay. Call it as before."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def __get__(self, instance: Any, owner: Any = None, /) -> Callable[..., R_co]:
        """A method, if the function belongs to a class."""

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of this call's work: its result lies at ``<key>/result``. It makes no request to the store."""

    def cached(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether this call would find its result, or a stored failure that it counts as one. It makes at most two
        requests, and takes no part."""


@spelled(MemoOptions, **MEMO)
def memoize(
    store: AnyStore, version: str = "1", **options: Unpack[MemoOptions]
) -> Callable[[Callable[P, R]], Memoized[P, R]]:
    """Computes each call of a function once, on all machines that share the store, and stores the result::

        @mopslock.memoize("s3://bucket/memo")
        def digits(n: int) -> str: ...

    Function, version and arguments identify a call. Its name is ``prefix/module.qualname/version/`` and the SHA-256 of
    its bound arguments as canonical JSON. So the order of the arguments makes no difference, and neither does whether
    they were given by name or by default. Arguments that JSON cannot express, such as tuples, are a TypeError that
    names them: give ``key(*args, **kwargs)``, which returns something that JSON can express. Change ``version`` when
    the function would return something else.

    ``name`` replaces module.qualname. What has no identity of its own needs one (BadArgument): a lambda, a function
    within a function that uses its variables, a wrapper over other values of a function that stands for itself, a bound
    method, a partial, and all that is defined in a script or a notebook: another script can have a function of the same
    name, and a path differs between machines.

    A call returns what the store has, read back by ``serializer``: ``mopslock.JSON``, ``mopslock.PICKLE`` (read its
    warning) or an object with dumps and loads. If the function raises, the exception is raised, and nothing is stored.
    With ``memo_failures`` it is stored: then other callers get RememberedFailure, which has type and text of the
    exception; with PICKLE the exception itself is its ``__cause__``.

    A function that calls itself with the same arguments is a RuntimeError: it would wait for itself. All else is as in
    ``invoke``, which does the work.
    """
    request = asking("memoize", "memo", options, MemoOptions)

    def decorate(function: Callable[P, R]) -> Memoized[P, R]:
        if any(kind(function) for kind in (inspection.iscoroutinefunction, inspection.isasyncgenfunction)):
            raise TypeError("mopslock: memoize() would keep the coroutine; use mopslock.aio.memoize()")
        if inspection.isgeneratorfunction(function):
            raise TypeError("mopslock: a generator is no result; memoize a function that returns a list")
        memo = Memo(function, version, request, options)

        @brief
        @functools.wraps(function)
        def memoized(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast(R, run(memo.call(Work, store, args, kwargs)))

        def cached(*args: P.args, **kwargs: P.kwargs) -> bool:
            return run(memo.is_there(Work, store, args, kwargs))

        made: Memoized[P, R] = offered(memoized, memo, cached)
        return made

    return decorate


def offered(memoized: Any, memo: Memo, cached: Callable[..., Any]) -> Any:
    """Adds key and cached to a memoized function. It stays a function, so it can be a method."""
    memoized.key, memoized.cached = memo.key, cached
    return memoized


def canonical(value: Any) -> bytes:
    """JSON with exactly one text for each value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _check(value: Any, what: str, function: str) -> None:
    """Two different values must not have the same JSON. So only types that JSON has itself will do."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return
    if kind is list:
        for at, item in enumerate(value):
            _check(item, f"{what}[{at}]", function)
        return
    if kind is dict and all(type(name) is str for name in value):
        for name, item in value.items():
            _check(item, f"{what}[{name!r}]", function)
        return
    said = f"{value!r}" if kind is float else f"a {kind.__qualname__}"
    said += " with keys that are not str" if kind is dict else ""
    raise TypeError(
        f"mopslock: {what} of {function} is {said}, for which JSON has no word of its own: give memoize key=, a "
        "function of the same arguments that returns what they are known by (None, bool, int, float, str, list, dict "
        "with keys of str)"
    )


def identity(function: Callable[..., Any], *, has_key: bool) -> str:
    """module.qualname, if that is one function, on every machine. BadArgument otherwise: two functions of one name
    would answer for each other."""
    plain = inspection.unwrap(function)
    module, named = _module(plain), str(getattr(plain, "__qualname__", ""))
    code = getattr(plain, "__code__", None)
    free = set(code.co_freevars) - {code.co_name} if code is not None else set()  # it may call itself
    over = _closed_over(function)
    defaults = getattr(plain, "__defaults__", None) or getattr(plain, "__kwdefaults__", None)
    owner = getattr(plain, "__self__", None)
    why = ""
    if not named:
        why = f"a {type(plain).__qualname__} has no name of its own"
    elif owner is not None and not inspection.ismodule(owner):
        why = f"it is bound to a {type(owner).__qualname__}, which is none of its arguments"
    elif "<lambda>" in named:
        why = "all lambdas have one name"
    elif "<locals>" in named and free | over:
        values = ", ".join(sorted(free | over))
        why = f"each call of what it is defined in makes another one, over other values of {values}"
    elif over and _stands_for_itself(plain, function):
        why = (
            f"it wraps {named}, which stands for itself, and can wrap it over other values of {', '.join(sorted(over))}"
        )
    elif "<locals>" in named and defaults and has_key:
        why = "each call of what it is defined in makes another one, over other defaults, which key= does not see"
    elif not module:
        why = "it is defined in a script, a notebook or by exec, and another one can have a function of the same name"
    if why:
        raise BadArgument(
            f"mopslock: {named or repr(plain)} cannot be memoized under its own name: {why}. Give memoize name=, which "
            "must be the same on every machine and no other function's, or define it at the top of a module that is "
            "imported or run with python -m"
        )
    return f"{module}.{named}"


def _closed_over(function: Any) -> set[str]:
    """The variables that wrappers of a function close over, but for what they wrap."""
    names = set[str]()
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        code = getattr(function, "__code__", None)
        for name, cell in zip(
            getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=True
        ):
            with suppress(ValueError):  # the cell is empty
                if cell.cell_contents is not inner:
                    names.add(name)
        function = inner
    return names


def _stands_for_itself(plain: Any, function: Any) -> bool:
    """Whether the plain function is found under its name, and not this one that wraps it. A decorator sees it before
    it has a name."""
    found: Any = sys.modules.get(getattr(plain, "__module__", None) or "")
    for part in plain.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not None and found is not function and inspection.unwrap(found) is plain


def _module(function: Callable[..., Any]) -> str:
    """The module's name, also if it is run by python -m, and in its children of multiprocessing. "" if it has none."""
    module = getattr(function, "__module__", None)
    if module in ("__main__", "__mp_main__"):
        spec = getattr(sys.modules.get(module), "__spec__", None)
        module = str(spec.name).removesuffix(".__main__") if spec is not None else ""
    return module if isinstance(module, str) and module != "__main__" else ""


class Memo:
    """What one memoized function stores: under which names, and how."""

    def __init__(
        self, function: Callable[..., Any], version: str, request: WorkRequest, options: Mapping[str, Any]
    ) -> None:
        """BadArgument: an option is invalid, or the function has no identity and is given no name. The first call
        checks the rest of the name, before any I/O."""
        given = {**MEMO, **options}
        self._function, self._request, self._serializer = function, request, given["serializer"]
        self._key = given["key"]
        self._what = given["name"] if given["name"] is not None else identity(function, has_key=self._key is not None)
        for part, value in (("prefix", given["prefix"]), ("name", self._what), ("version", version)):
            if not isinstance(value, str) or not value or (part == "version" and "/" in value):
                raise BadArgument(
                    f"mopslock: {part} {value!r}: must be text, not empty" + " and without /" * (part == "version")
                )
        if self._key is not None and not callable(self._key):
            raise BadArgument(f"mopslock: key {self._key!r}: must be callable")
        self._stem, self._signature = f"{given['prefix']}/{self._what}/{version}", inspection.signature(function)

    def key(self, /, *args: Any, **kwargs: Any) -> str:
        """The name of a call. TypeError: the function does not take these arguments, or JSON cannot express them."""
        bound = self._signature.bind(*args, **kwargs)
        if self._key is not None:
            known = self._key(*args, **kwargs)
            _check(known, "what key= returned for a call", self._what)
        else:
            bound.apply_defaults()
            several = [one.name for one in self._signature.parameters.values() if one.kind is one.VAR_POSITIONAL]
            known = {name: list(value) if name in several else value for name, value in bound.arguments.items()}
            for name, value in known.items():
                _check(value, f"argument {name}", self._what)
        return f"{self._stem}/{hashlib.sha256(canonical(known)).hexdigest()}"

    async def call(self, kind: type[Work], store: AnyStore, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the function, of a thread or a task."""
        name = self.key(*args, **kwargs)
        request = replace(self._request, name=name)
        with once(name, f"mopslock: {self._function.__qualname__} calls itself with the same arguments"):
            work = Invoking(
                kind, store, request, lambda _: self._function(*args, **kwargs), keep=self._keep, dumps=self._dumps
            )
            call, found = await work.until_found()
            body = await kind._caller.call(Result(call, found).read)
            return self._loads(name, body, failed=found.failed)

    async def is_there(self, kind: type[Work], store: AnyStore, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether there is a result. It looks as a remote without a lease, whose work ends before it has begun: one
        looks for what others have stored, and takes no part."""
        caller, next_step, name = kind._caller, StepFuture(), self.key(*args, **kwargs)
        terms, failures = Terms(protocol="lastwriter"), self._request.memo_failures
        looks = WorkRequest(name, terms, memo_failures=failures, remote=True, without_lease=True)
        call = (await caller.host(store)).begin_invocation(looks, next_step)
        try:
            if await caller.wait(next_step, LOOK, call.cancel) and not isinstance(next_step.result(), Found):
                # There is none, or the store did not answer. The output of the work, which is none, tells which.
                next_step = StepFuture()
                call.complete(next_step, well=True, body=None)
            if not await caller.wait(next_step, LOOK, call.cancel):
                raise Unreachable(
                    f"mopslock: the store did not say in {LOOK:g} s whether {name!r} has a result; try again later"
                )
            return isinstance(next_step.result(), Found)
        except NoResult:
            return False
        finally:
            call.cancel()

    def _dumps(self, value: Any) -> bytes:
        try:
            body = content(self._serializer.dumps(value))
        except TypeError as error:
            error.args = (
                f"mopslock: what {self._function.__qualname__} returned cannot be kept: {error}; "
                f"return something that {self._serializer!r} takes, or give another serializer",
            )
            raise
        assert isinstance(body, bytes)
        return body

    def _keep(self, error: BaseException) -> bytes:
        """A failure as it is stored. The exception itself is only in it if the caller trusts the store with pickles."""
        pickled = b""
        if self._serializer is PICKLE:
            with suppress(Exception):  # the words are stored all the same
                pickled = PICKLE.dumps(error)
        return _failure.dump(error, pickled)

    def _loads(self, name: str, body: bytes, *, failed: bool) -> Any:
        """What was stored. RememberedFailure: it was a failure."""
        if not failed:
            return self._serializer.loads(body)
        failure, pickled = _failure.load(name, body)
        cause: object = None
        if self._serializer is PICKLE and pickled:
            with suppress(Exception):  # its class is no longer here
                cause = PICKLE.loads(pickled)
        raise failure from cause if isinstance(cause, BaseException) else None

"""mopslock.lease as a context manager and as a decorator: both ways to a store behave alike."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import mopslock
from mopslock import _memo, _options
from mopslock.terms import PermitRequest
from test_api_accompany import TEXT
from ways import LIVES, SOON, Place, thread


def test_with_holds_and_then_releases(either: Place) -> None:
    with either.api.lease(either.store, "a/b", ttl=LIVES) as lease:
        lease.check()
        assert not lease.lost.is_set()
        assert either.holder("a/b") == lease.holder
        assert not either.released("a/b")
        with pytest.raises(mopslock.Held):
            either.api.acquire(either.other().store, "a/b", ttl=LIVES, wait=0)
    assert either.released("a/b")
    assert either.holder("a/b") == lease.holder
    with pytest.raises(mopslock.LeaseEnded, match="released"):
        lease.check()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_body_that_raises_releases_and_its_exception_goes_through(either: Place, error: type[BaseException]) -> None:
    raised = error("the body's own")
    with pytest.raises(error) as caught, either.api.lease(either.store, "n", ttl=LIVES):
        raise raised
    assert caught.value is raised
    assert either.released("n")


def test_one_object_can_be_entered_again_and_again_and_not_nested(either: Place) -> None:
    leasing, holders = either.api.lease(either.store, "n", ttl=LIVES, wait=0), set()
    with either.api.lease(either.other().store, "n", ttl=LIVES), pytest.raises(mopslock.Held), leasing:
        raise AssertionError("it must not be entered")
    for _ in range(3):
        with leasing as lease:
            with pytest.raises(RuntimeError, match="entered already"), leasing:
                raise AssertionError("it must not be entered")
            lease.check()
            holders.add(lease.holder)
            assert not either.released("n")
        assert either.released("n")
    assert len(holders) == 3, "each claim has a holder of its own"


def test_one_object_that_two_threads_enter_is_an_error_in_one_of_them(place: Place) -> None:
    """What one thread leaves must never be what the other entered."""
    waits, entered, leave = threading.Event(), threading.Event(), threading.Event()
    leasing = mopslock.lease(place.store, "n", ttl=LIVES, on_waiting=lambda _: waits.set())

    def enter() -> None:
        with leasing:
            entered.set()
            leave.wait(SOON)

    holds = mopslock.acquire(place.other().store, "n", ttl=LIVES)
    with thread(enter):
        assert waits.wait(SOON)
        with pytest.raises(RuntimeError, match="entered already"):
            leasing.__enter__()
        holds.release()
        assert entered.wait(SOON)
        leave.set()
    assert place.released("n")


def test_leaving_a_lost_lease_raises_the_loss_with_its_reason(either: Place) -> None:
    with pytest.raises(mopslock.LeaseTaken) as caught, either.api.lease(either.store, "n", ttl=LIVES) as lease:
        either.lose(lease)
    assert caught.value.reason == "taken"
    assert caught.value.seen is not None
    assert caught.value.seen.holder == "thief"
    assert "thief on elsewhere" in str(caught.value)
    assert either.holder("n") == "thief", "nothing of ours is written any more"


def test_leaving_a_lost_lease_raises_nothing_if_asked_for_and_what_the_body_raised_once(either: Place) -> None:
    with either.api.lease(either.store, "n", ttl=LIVES, raise_if_lost=False) as lease:
        either.lose(lease)
    with pytest.raises(mopslock.LeaseTaken) as caught, either.api.lease(either.store, "m", ttl=LIVES) as lease:
        either.lose(lease)
        lease.check()
    assert caught.value.__context__ is None
    with pytest.raises(ValueError, match="^the body's own") as other, either.api.lease(either.store, "k", ttl=LIVES):
        either.steal("k")
        raise ValueError("the body's own")
    assert sys.version_info < (3, 11) or "lost (taken)" in other.value.__notes__[0]


def test_each_call_of_a_decorated_function_runs_under_the_lease(either: Place) -> None:
    leased = either.api.lease(either.store, "n", ttl=LIVES)

    def work(a: int, *, b: int) -> int:
        """Works."""
        assert not either.released("n")
        return a // b

    for a, b in ((3, 1), (8, 2)):
        assert leased(work)(a, b=b) == a // b
        with pytest.raises(ZeroDivisionError):
            leased(work)(a, b=0)
        assert either.released("n")
    assert (leased(work).__name__, leased(work).__doc__) == ("work", "Works.")


def test_methods_can_be_decorated(store: mopslock.stores.Memory) -> None:
    leased = mopslock.lease(store, "n")

    class Worker:
        @leased
        def plain(self) -> Any:
            return self

        @classmethod
        @leased
        def of_class(cls) -> Any:
            return cls

        @staticmethod
        @leased
        def of_none() -> str:
            return "none"

    worker = Worker()
    assert (worker.plain(), worker.of_class(), worker.of_none()) == (worker, Worker, "none")


def test_recursion_would_wait_for_itself_and_is_an_error(either: Place) -> None:
    leased = either.api.lease(either.store, "n", ttl=LIVES)
    work: Any = leased(lambda depth: work(depth + 1) if depth < 1 else depth)

    with pytest.raises(RuntimeError, match="calls itself"):
        work(0)
    assert either.released("n")
    assert work(1) == 1, "it can be called again"


def test_functions_that_return_before_they_run_cannot_be_decorated(url: str) -> None:
    """With a lease of threads; nor any but coroutine functions with one of asyncio."""

    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    async def both() -> Any:
        yield 1

    functions: list[Callable[[], Any]] = [generator, coroutine, both]
    for function in functions:
        with pytest.raises(TypeError, match="would release before"):
            mopslock.lease(url, "n")(function)
    others: list[Any] = [generator, both, lambda: None]
    for function in others:
        with pytest.raises(TypeError, match="coroutine functions"):
            mopslock.aio.lease(url, "n")(function)


CALLS: dict[str, tuple[Any, ...]] = {
    "lease": ("s", "n"), "acquire": ("s", "n"), "try_acquire": ("s", "n"), "accompany": (TEXT,),
    "permit": ("s", "n"), "acquire_permit": ("s", "n"), "try_acquire_permit": ("s", "n"),
    "invoke": ("s", "n", print), "remote": ("s", "text", print), "memoize": ("s",),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("package", [mopslock, mopslock.aio], ids=lambda package: package.__name__)
def test_an_option_that_there_is_not_is_named(package: Any, name: str) -> None:
    function = getattr(package, name)
    given = {"capacity": 1} if "permit" in name else {}
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'tll'"):
        called = function(*CALLS[name], **given, tll=60)
        if inspect.iscoroutine(called):
            called.send(None)


@pytest.mark.parametrize("name", ["lease", "permit", "invoke", "memoize", "accompany"])
def test_threads_are_only_told_of_a_loss(name: str) -> None:
    given = {"capacity": 1} if name == "permit" else {}
    for how, said in (("cancel", "only a task can be cancelled"), ("stop", "must be tell or cancel")):
        with pytest.raises(mopslock.BadArgument, match=f"on_loss '{how}': {said}"):
            getattr(mopslock, name)(*CALLS[name], **given, on_loss=how)


@pytest.mark.parametrize("name", [*CALLS, "inspect", "break_lease", "set_limit"])
def test_help_shows_each_option_with_its_default_and_twins_have_the_same(name: str) -> None:
    ours, twins = (inspect.signature(getattr(package, name)).parameters for package in (mopslock, mopslock.aio))
    assert [(one.name, one.default) for one in ours.values()] == [(one.name, one.default) for one in twins.values()]
    assert [one.name for one in ours.values() if one.kind is one.VAR_KEYWORD] == []
    shown = str(inspect.signature(mopslock.lease))
    assert "ttl: 'Duration | None' = None, " in shown
    assert "release_timeout: 'Duration' = 10.0" in shown


@pytest.mark.parametrize("package", [mopslock, mopslock.aio], ids=lambda package: package.__name__)
def test_annotations_can_be_evaluated(package: Any) -> None:
    for function in (getattr(package, name) for name in package.__all__):
        if inspect.isfunction(function):
            assert "return" in get_type_hints(function)


@pytest.mark.parametrize("package", [mopslock, mopslock.aio], ids=lambda package: package.__name__)
def test_a_limiters_permit_is_shown_as_what_it_is(package: Any) -> None:
    for kind in (package.Limiter, package.LimiterHolder):
        assert inspect.signature(kind.permit).return_annotation == "LimiterPermitting"
        assert ("async with" in kind.permit.__doc__) == (package is mopslock.aio)


def test_an_option_has_one_type_wherever_it_stands() -> None:
    """In what a function takes, and in what becomes of it."""
    taken: dict[str, str] = {}
    for kind in (vars(_options) | vars(_memo)).values():
        if isinstance(kind, type) and hasattr(kind, "__total__"):
            for name, note in kind.__annotations__.items():
                assert taken.setdefault(name, note.__forward_arg__) == note.__forward_arg__, name
    for made in (mopslock.Terms, _options.Block, PermitRequest):
        for field in dataclasses.fields(made):
            assert taken.get(field.name, field.type) == field.type, field.name


BAD_DURATIONS = ["5", True, float("nan"), float("inf"), -1, timedelta(seconds=-1), [1]]
DURATIONS = ["ttl", "wait", "margin", "acquire_margin", "fleet_expire", "release_timeout"]
BAD: list[tuple[str, Any]] = [
    *((what, value) for what in DURATIONS for value in BAD_DURATIONS),
    ("ttl", 0), ("margin", 0), ("fleet_expire", 0), ("renewal", "often"), ("expiry", "never"), ("renewal", None),
    ("fleet_expire", "all"), ("on_lost", 5), ("on_waiting", "print"),
]  # fmt: skip


def test_what_cannot_be_so_is_refused_at_once_and_named(url: str) -> None:
    for what, value in BAD:
        with pytest.raises(mopslock.BadArgument, match=f"^mopslock: {what} "):
            mopslock.lease(url, "n", **{what: value}, protocol="lastwriter")
    nowhere = "nowhere://bucket"  # which is an error of its own, once it is opened
    for call, what in (
        (lambda: mopslock.break_lease(nowhere, "n", why=7), "why 7"),  # type: ignore[arg-type]
        (lambda: mopslock.break_lease(nowhere, "n", "stuck", holder="\0"), "holder "),
        (lambda: mopslock.set_limit(nowhere, "n", 0), "limit 0"),
        (lambda: mopslock.inspect(nowhere, "n", timeout=-1), "timeout -1"),
        (lambda: mopslock.ls(nowhere, timeout=-1), "timeout -1"),
    ):  # fmt: skip
        with pytest.raises(mopslock.BadArgument, match=f"^mopslock: {what}"):
            call()
    with pytest.raises(mopslock.BadArgument, match="ttl 0: only strict has leases without a TTL"):
        mopslock.lease(url, "n", ttl=0)
    with pytest.raises(mopslock.BadArgument, match="margin 0: must be above 0"):
        mopslock.lease(url, "n", margin=0)


NAMES = [
    "", "/a", "a/", "a//b", "a/../b", ".", "a\\b", "a\nb", "a\0b", "x" * 513, "x" * 201, "a.", "a ", "\udc80",
    "a/_mopslock/b", "lock.json", "a/result", 5, None, b"n",
]  # fmt: skip
TERMS = [{"ttl": 0.049}, {"ttl": 31 * 86400}, {"ttl": 2, "margin": 1}]
LASTWRITERS = [{"ttl": 2, "acquire_margin": 1.1}, {"ttl": 88, "fleet_expire": 0.01}]


def test_names_and_terms_that_cannot_be_are_refused_before_any_io(place: Place) -> None:
    names: list[Any] = NAMES
    for name in names:
        for call in (mopslock.lease(place.store, name).acquire, lambda name=name: mopslock.inspect(place.store, name)):
            with pytest.raises(mopslock.BadArgument, match="^mopslock: name "):
                call()
    terms: list[Any] = TERMS + (LASTWRITERS if place.protocol == "lastwriter" else [])
    for options in terms:
        with pytest.raises(mopslock.BadArgument):
            mopslock.acquire(place.store, "n", **options)
    with pytest.raises(mopslock.BadArgument) as caught:
        mopslock.acquire(place.store, "a/../b", ttl=0.001, margin=5, acquire_margin=99)
    only = ["acquire margin 1m39s"] if place.protocol == "lastwriter" else []
    assert [part for part in ['name "a/../b"', "ttl 1ms", "margin 5s", *only] if part not in str(caught.value)] == []
    assert list(place.root.iterdir()) == []


def test_terms_that_strict_has_no_use_for_are_no_trouble_to_it(url: str) -> None:
    for options in LASTWRITERS:
        terms: Any = options
        with mopslock.acquire(url, "n", protocol="strict", **terms):
            pass
    with mopslock.lease(url, "n", protocol="strict", ttl=0) as lease:
        assert lease.left == float("inf")


@pytest.mark.parametrize("store", [5, None, "", "no-url", "nix://x", "file://", object()], ids=repr)
def test_what_is_no_store_is_refused_with_what_it_must_be(store: Any) -> None:
    match = "MOPSLOCK_STORE is unset" if store in (None, "") else "^mopslock: "
    with pytest.raises(mopslock.BadArgument, match=match):
        mopslock.acquire(store, "n", wait=0)


def test_a_path_is_a_store_and_durations_may_be_timedeltas(tmp_path: Path) -> None:
    half = timedelta(seconds=30)
    with mopslock.lease(tmp_path, "n", ttl=2 * half, margin=half / 2, wait=half, release_timeout=half) as lease:
        assert lease.ttl == 60.0
        assert 0 < lease.left <= 45
        assert not Place.of("own", tmp_path).released("n")
    assert Place.of("own", tmp_path).released("n")
    mopslock.close(tmp_path)

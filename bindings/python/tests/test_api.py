"""mopslock.lease as a context manager and as a decorator: both ways to a store behave alike."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import held_up
import mopslock
from ways import KEPT, LIVES, NOTICES, SOON, WAYS, Place, opened, program, said, until


def _of(param: str, root: Path) -> tuple[str, Path, str]:
    way, _, protocol = param.partition("-")
    return way, root, protocol


@pytest.fixture(params=[f"{way}-{protocol}" for way in WAYS for protocol in KEPT])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(*_of(request.param, tmp_path / "store")) as place:
        yield place


# The context manager.


def test_with_holds_and_then_releases(place: Place) -> None:
    with mopslock.lease(place.store, "a/b", ttl=LIVES) as lease:
        lease.check()
        assert not lease.lost.is_set()
        assert place.holder("a/b") == lease.holder
        assert not place.released("a/b")
        with pytest.raises(mopslock.Held):
            mopslock.acquire(place.other().store, "a/b", ttl=LIVES, wait=0)
    assert place.released("a/b")
    assert place.holder("a/b") == lease.holder
    with pytest.raises(mopslock.LeaseEnded, match="released"):
        lease.check()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_body_that_raises_releases_and_its_exception_goes_through(place: Place, error: type[BaseException]) -> None:
    raised = error("the body's own")
    with pytest.raises(error) as caught, mopslock.lease(place.store, "n", ttl=LIVES):
        raise raised
    assert caught.value is raised
    assert place.released("n")


def test_it_renews_for_much_longer_than_its_ttl(tmp_path: Path) -> None:
    """In all ways at once: the TTL is one that a machine which stands still does not exceed."""
    with contextlib.ExitStack() as stack:
        held: list[tuple[Place, mopslock.Lease, set[int]]] = []
        for way, protocol in itertools.product(WAYS, KEPT):
            place = stack.enter_context(opened(way, tmp_path / f"{way}-{protocol}", protocol))
            lease = stack.enter_context(mopslock.lease(place.store, "n", ttl=NOTICES))
            held.append((place, lease, set()))

        def six() -> bool:
            for place, lease, seen in held:
                beat = place.path("n")
                if place.protocol == "strict":
                    beat = beat.parent / f"b.{lease.holder}"
                if beat.exists():
                    seen.add(beat.stat().st_mtime_ns)
            return all(len(seen) >= 6 for *_, seen in held)

        until(six)
        for _, lease, _ in held:
            lease.check()


def test_one_object_can_be_entered_again_and_again(place: Place) -> None:
    leasing = mopslock.lease(place.store, "n", ttl=LIVES)
    holders = set()
    for _ in range(3):
        with leasing as lease:
            holders.add(lease.holder)
        assert place.released("n")
    assert len(holders) == 3


def test_entering_it_nested_is_an_error_that_changes_nothing(place: Place) -> None:
    leasing = mopslock.lease(place.store, "n", ttl=LIVES)
    with leasing as lease:
        with pytest.raises(RuntimeError, match="entered already"), leasing:
            raise AssertionError("it must not be entered")
        lease.check()
        assert not place.released("n")
    assert place.released("n")


def test_an_entering_that_failed_can_be_tried_again(place: Place) -> None:
    leasing = mopslock.lease(place.store, "n", ttl=LIVES, wait=0)
    with mopslock.lease(place.other().store, "n", ttl=LIVES), pytest.raises(mopslock.Held), leasing:
        raise AssertionError("it must not be entered")
    with leasing as lease:
        lease.check()


def test_one_object_that_two_threads_enter_is_an_error_in_one_of_them(place: Place) -> None:
    """What one thread leaves must never be what the other entered."""
    waits = threading.Event()
    leasing = mopslock.lease(place.store, "n", ttl=LIVES, on_waiting=lambda _: waits.set())
    entered, leave = threading.Event(), threading.Event()

    def enter() -> None:
        with leasing:
            entered.set()
            leave.wait(SOON)

    with mopslock.lease(place.other().store, "n", ttl=LIVES):
        thread = threading.Thread(target=enter)
        thread.start()
        assert waits.wait(SOON)
        with pytest.raises(RuntimeError, match="entered already"):
            leasing.__enter__()
    assert entered.wait(SOON)
    leave.set()
    thread.join(SOON)
    assert place.released("n")


def test_making_one_does_no_io_and_loads_no_library(place: Place) -> None:
    code = f"""
made = mopslock.lease({place.code}, "n", ttl={LIVES})
decorated = made(print)
print(any("libmopslock" in line for line in open("/proc/self/maps")), threading.active_count())
with made: pass
print(any("libmopslock" in line for line in open("/proc/self/maps")))
"""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    with program(code) as process:
        assert said(process) == "False 1"
        assert said(process) == "True"


def test_leaving_a_lost_lease_raises_the_loss_with_its_reason(place: Place) -> None:
    with pytest.raises(mopslock.LeaseTaken) as caught, mopslock.lease(place.store, "n", ttl=NOTICES) as lease:
        place.steal("n")
        assert lease.lost.wait(SOON)
    assert caught.value.reason == "taken"
    assert caught.value.seen is not None
    assert caught.value.seen.holder == "thief"
    assert "thief on elsewhere" in str(caught.value)
    assert place.holder("n") == "thief", "nothing of ours is written any more"


def test_leaving_a_lost_lease_raises_nothing_where_that_was_asked_for(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=NOTICES, raise_if_lost=False) as lease:
        place.steal("n")
        assert lease.lost.wait(SOON)
    with pytest.raises(mopslock.LeaseTaken):
        lease.check()


def test_a_loss_never_hides_what_the_body_raised(place: Place) -> None:
    with pytest.raises(ValueError, match="^the body's own") as caught:  # noqa: SIM117
        with mopslock.lease(place.store, "n", ttl=NOTICES) as lease:
            place.steal("n")
            assert lease.lost.wait(SOON)
            raise ValueError("the body's own")
    if sys.version_info >= (3, 11):
        assert "lost (taken)" in caught.value.__notes__[0]


def test_a_loss_that_the_body_raised_itself_is_raised_once(place: Place) -> None:
    with pytest.raises(mopslock.LeaseTaken) as caught, mopslock.lease(place.store, "n", ttl=NOTICES) as lease:
        place.steal("n")
        lease.lost.wait(SOON)
        lease.check()
    assert caught.value.__context__ is None


# The decorator.

MARGIN = 0.15
"""Of lastwriter, which excludes only where nobody is held up for longer between a read and a write of its own."""


def test_a_decorated_function_runs_under_the_lease(place: Place) -> None:
    @mopslock.lease(place.store, "n", ttl=LIVES)
    def work(a: int, *, b: int) -> int:
        """Works."""
        assert not place.released("n")
        return a + b

    assert work(1, b=2) == 3
    assert work(3, b=4) == 7
    assert place.released("n")
    assert (work.__name__, work.__doc__) == ("work", "Works.")


def test_a_decorated_function_that_raises_releases(place: Place) -> None:
    @mopslock.lease(place.store, "n", ttl=LIVES)
    def work() -> None:
        raise ValueError("its own")

    for _ in range(2):
        with pytest.raises(ValueError, match="its own"):
            work()
        assert place.released("n")


def test_methods_can_be_decorated(place: Place) -> None:
    class Worker:
        @mopslock.lease(place.store, "n", ttl=LIVES)
        def work(self) -> Worker:
            return self

        @classmethod
        @mopslock.lease(place.store, "n", ttl=LIVES)
        def of_class(cls) -> type[Worker]:
            return cls

        @staticmethod
        @mopslock.lease(place.store, "n", ttl=LIVES)
        def of_none() -> str:
            return "none"

    worker = Worker()
    assert worker.work() is worker
    assert worker.of_class() is Worker
    assert worker.of_none() == "none"


def test_recursion_would_wait_for_itself_and_is_an_error(place: Place) -> None:
    @mopslock.lease(place.store, "n", ttl=LIVES)
    def work(depth: int) -> int:
        return work(depth + 1) if depth < 1 else depth

    with pytest.raises(RuntimeError, match="calls itself"):
        work(0)
    assert place.released("n")
    assert work(1) == 1, "it can be called again"


def test_functions_that_return_before_they_run_cannot_be_decorated(place: Place) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    async def both() -> Any:
        yield 1

    for function in (generator, coroutine, both):
        with pytest.raises(TypeError, match="would release before"):
            mopslock.lease(place.store, "n")(function)


def test_threads_that_call_a_decorated_function_exclude_each_other(place: Place, tmp_path: Path) -> None:
    inside, most, calls = 0, 0, 0

    @mopslock.lease(place.store, "n", ttl=LIVES, acquire_margin=MARGIN)
    def work() -> None:
        nonlocal inside, most, calls
        inside += 1
        most = max(most, inside)
        time.sleep(0.002)  # in which another could come in
        calls += 1
        inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    with held_up.measured(tmp_path / "held-up") as measured:
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
        assert calls == 8
        assert most == 1 or (place.protocol == "lastwriter" and measured.at_once(begin) > MARGIN / 2)


# Arguments.

NO_DURATIONS = ["5", True, float("nan"), float("inf"), -1, timedelta(seconds=-1), [1]]


@pytest.mark.parametrize("what", ["ttl", "wait", "margin", "acquire_margin", "fleet_expire", "release_timeout"])
@pytest.mark.parametrize("value", NO_DURATIONS, ids=repr)
def test_what_is_no_duration_is_refused_at_once(place: Place, what: str, value: Any) -> None:
    with pytest.raises(mopslock.BadArgument, match=f"^mopslock: {what} "):
        mopslock.lease(place.store, "n", **{what: value})


@pytest.mark.parametrize("what", ["ttl", "margin", "fleet_expire"])
def test_zero_is_no_default(place: Place, what: str) -> None:
    if what == "ttl":
        if place.protocol == "strict":
            with mopslock.lease(place.store, "n", ttl=0) as lease:
                assert lease.left == float("inf")
            return
        with pytest.raises(mopslock.BadArgument, match="ttl 0: only strict has leases without a TTL"):
            mopslock.lease(place.store, "n", ttl=0)
        return
    with pytest.raises(mopslock.BadArgument, match=f"{what} 0: must be above 0"):
        mopslock.lease(place.store, "n", **{what: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "value"),
    [("renewal", "often"), ("expiry", "never"), ("renewal", None), ("fleet_expire", "all"), ("on_lost", 5),
     ("on_waiting", "print")],
)  # fmt: skip
def test_words_and_callbacks_that_cannot_be_so_are_refused_at_once(place: Place, what: str, value: Any) -> None:
    with pytest.raises(mopslock.BadArgument, match=f"^mopslock: {what} "):
        mopslock.lease(place.store, "n", **{what: value})


BAD_NAMES = [
    "", "/a", "a/", "a//b", "a/../b", ".", "a\\b", "a\nb", "a\0b", "x" * 513, "x" * 201, "a.", "a ", "\udc80",
    "a/_mopslock/b", "lock.json", "a/result", 5, None, b"n",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name)[:20])
def test_names_that_cannot_be_are_refused_before_any_io(place: Place, name: Any) -> None:
    for call in (mopslock.lease(place.store, name).acquire, lambda: mopslock.inspect(place.store, name)):
        with pytest.raises(mopslock.BadArgument, match="^mopslock: name "):
            call()
    assert list(place.root.iterdir()) == []


def test_every_bad_field_is_listed_at_once_before_any_io(place: Place) -> None:
    with pytest.raises(mopslock.BadArgument) as caught:
        mopslock.acquire(place.store, "a/../b", ttl=0.001, margin=5, acquire_margin=99)
    only = ("acquire margin 1m39s",) if place.protocol == "lastwriter" else ()
    for part in ('name "a/../b"', "ttl 1ms", "margin 5s", *only):
        assert part in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert list(place.root.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [{"ttl": 0.049}, {"ttl": 31 * 86400}, {"ttl": 2, "margin": 1}, {"ttl": 2, "acquire_margin": 1.1},
     {"ttl": 88, "fleet_expire": 0.01}],
    ids=str,
)  # fmt: skip
def test_terms_that_cannot_be_are_refused_before_any_io(place: Place, options: Any) -> None:
    if place.protocol == "strict" and {"acquire_margin", "fleet_expire"} & set(options):
        with mopslock.acquire(place.store, "n", **options):
            return  # strict has no use for them
    with pytest.raises(mopslock.BadArgument):
        mopslock.acquire(place.store, "n", **options)
    assert not (place.root / "n").exists()


def test_durations_can_be_timedeltas(place: Place) -> None:
    half = timedelta(seconds=30)
    with mopslock.lease(place.store, "n", ttl=2 * half, margin=half / 2, wait=half, release_timeout=half) as lease:
        assert lease.ttl == 60.0
        assert 30 < lease.left <= 45


@pytest.mark.parametrize("store", [5, None, "no-url", "nix://x", "file://", object()], ids=repr)
def test_what_is_no_store_is_refused_with_what_it_must_be(store: Any) -> None:
    with pytest.raises(mopslock.BadArgument, match="^mopslock: "):
        mopslock.acquire(store, "n", wait=0)


def test_a_path_is_a_store(tmp_path: Path) -> None:
    with mopslock.lease(tmp_path, "n", ttl=LIVES):
        assert not Place.of("own", tmp_path).released("n")
    assert Place.of("own", tmp_path).released("n")
    mopslock.close(tmp_path)

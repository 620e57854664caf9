"""The tree of exceptions: as its page says, each class in reach of a caller, and all of them plain data,
with a traceback for users."""

from __future__ import annotations

import errno
import inspect
import pickle
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _failure, _texts, aio, errors, stores
from mopslock._frames import brief
from mopslock._future import Future
from mopslock._lease import not_released
from mopslock._own import host
from mopslock._own.kept import fault as told
from mopslock.errors import MopslockError
from ways import LIVES, SOON, WAYS, Place
from world import FakeStore

CLASSES: dict[str, type[MopslockError]] = {
    name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, MopslockError)
}


def test_a_holder_that_renews_in_time_is_told_by_when_it_did_and_a_breaker_is_no_holder() -> None:
    ago = {60.0: ", renewed 0.0 s ago", 59.5: ", renewed 0.5 s ago", 20.0: ", which can expire in 20.0s", 0.0: ""}
    for left, text in ago.items():
        seen = mopslock.Status(name="n", state="held", holder="h", host="vm", pid="7", ttl=60.0, left=left)
        assert seen.who() == "h on vm (pid 7)" + text
    for state, left, text in (
        ("broken", 59.5, "broken by 42@desk (stuck), and free in 59.5s at the latest"),
        ("released", 0.0, "released by 42@desk (stuck), and not free yet"),
    ):
        seen = mopslock.Status("n", state, "h", "desk", "42", ttl=60.0, left=left, by="42@desk", why="stuck")
        assert text in str(_texts.refused("n", "held", "", seen, None))
        assert text in _texts.waiting("lease", "n", seen)


def test_the_tree_on_the_page_is_the_tree_of_the_classes() -> None:
    assert errors.__doc__
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"^    ([│├└─ ]*)(\w+)(?:  +(\S.*))?$", line)
        if found:
            depth = len(found[1]) // 4
            assert found[3] or depth == 0, f"{found[2]} is not explained"
            above[depth:] = [found[2]]
            drawn[found[2]] = above[depth - 1] if depth else "Exception"
    assert drawn == {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}
    assert issubclass(mopslock.BadArgument, ValueError)
    assert issubclass(mopslock.NotReleased, TimeoutError)
    assert issubclass(mopslock.WaitOver, TimeoutError)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_exported_documented_and_passes_between_processes(name: str) -> None:
    assert name in mopslock.__all__
    assert getattr(mopslock, name) is CLASSES[name]
    assert CLASSES[name].__doc__
    error: Any = CLASSES[name]("mopslock: text")
    if hasattr(error, "reason"):
        error.reason = "word"
    if hasattr(error, "seen"):
        error.seen = mopslock.Status(name="n", state="held", holder="h")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


OF_FAULTS: dict[str, type[MopslockError]] = {
    "argument": errors.BadArgument, "too_heavy": errors.WeightExceedsLimit, "absent": errors.Vacant,
    "closed": errors.Closed, "engine": errors.EngineFailed, "stale": errors.Stale, "unsettled": errors.Unsettled,
    "raced": errors.Raced, "timeout": errors.Unreachable, "unfit": errors.Incompatible,
}  # fmt: skip
"""What a keeper says."""

OF_REASONS: dict[str, type[MopslockError]] = {
    "held": errors.Held, "raced": errors.Held, "cancelled": errors.Cancelled, "limit": errors.WaitOver,
    "newer": errors.Incompatible, "kind": errors.Incompatible, "unfit": errors.Incompatible, "vacant": errors.Vacant,
    "unreachable": errors.Unreachable, "unusable": errors.StoreError, "full": errors.Full,
    "crowded": errors.RecordFull,
}  # fmt: skip
OTHERS: dict[type[MopslockError], Callable[[], object]] = {
    errors.HeldByOneself: lambda: _texts.held_by_oneself("n", "thread"),
    errors.NotReleased: lambda: not_released("n"), errors.Forked: lambda: _texts.forked("n"),
    errors.LeaseEnded: lambda: _texts.ended("n"), errors.OutOfBuckets: lambda: errors.OutOfBuckets("t"),
    errors.NothingToJoin: lambda: _texts.nothing_to_join("n", "absent", "", None),
    errors.NoResult: lambda: _texts.no_result("n", "", "", None, None),
    errors.RememberedFailure: lambda: _failure.load("n", b"")[0],
}  # fmt: skip


def test_each_class_is_made_of_what_a_keeper_or_the_core_says() -> None:
    for fault, kind in OF_FAULTS.items():
        slot = {"token": 1, "holder": "h", "number": 1, "nonce": ""}
        error = told({"fault": fault, "class": "", "text": "said", "slot": slot})
        assert type(error) is kind
        assert str(error) == "mopslock: said"
    for reason, loss in errors.LOST.items():
        lost = _texts.lost("n", reason, None)
        assert type(lost) is loss
        assert isinstance(lost, errors.LeaseLost)
        assert (lost.reason, loss.__name__, loss("").reason) == (reason, "Lease" + reason.capitalize(), reason)
    for reason, kind in OF_REASONS.items():
        refused = _texts.refused("n", reason, "", None, None)
        assert type(refused) is kind
        assert reason == "full" or vars(refused)["reason"] == reason
    for class_ in ("other", *errors.CLASSES):
        kinds = {
            errors.error_class(class_), type(_texts.refused("n", "unusable", class_, None, None)),
            type(told({"fault": "store", "class": class_, "text": "t"})),
        }  # fmt: skip
        assert kinds == {errors.CLASSES.get(class_, errors.StoreError)}
    for name, store_error in errors.CLASSES.items():
        assert stores.class_of(store_error("")) == name
    for kind, make in OTHERS.items():
        assert type(make()) is kind
    of_stores = set(errors.CLASSES.values())
    roots = {errors.MopslockError, errors.NotAcquired}
    reached = {*OF_FAULTS.values(), *OF_REASONS.values(), *OTHERS, *errors.LOST.values(), *of_stores, errors.LeaseLost}
    assert set(CLASSES.values()) == reached | roots, "a class is out of reach"


FAILURES: dict[str, BaseException] = {
    "unauthorized": PermissionError(errno.EACCES, "no"), "no_such_store": mopslock.NoSuchStore("no bucket"),
    "unreachable": ConnectionRefusedError("nobody there"), "throttled": mopslock.Throttled("slow down"),
    "read_only": OSError(errno.EROFS, "read-only"), "full": OSError(errno.ENOSPC, "full"),
    "other": RuntimeError("odd"),
}  # fmt: skip


def test_what_a_store_raises_decides_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(FAILURES) == {*errors.CLASSES, "other"}
    monkeypatch.setattr(host, "RETRY", SOON)  # so that there is no time for another try
    store = FakeStore()
    for class_, cause in FAILURES.items():
        store.fail(cause)
        with pytest.raises(mopslock.StoreError) as caught:
            mopslock.inspect(store, "n", timeout=SOON)
        assert type(caught.value) is errors.CLASSES.get(class_, mopslock.StoreError)
        assert caught.value.__cause__ is cause
        assert str(cause) in str(caught.value)
        if class_ in ("unauthorized", "no_such_store", "read_only", "full"):
            store.fail(cause, "put")
            with pytest.raises(errors.CLASSES[class_], match="not acquired") as refused:
                mopslock.acquire(store, "n", ttl=LIVES)
            assert vars(refused.value)["reason"] == "unusable"
    monkeypatch.setattr(host, "RETRY", 0.0)
    passing = [ConnectionError("soon gone") for _ in range(2)]

    def passes(*_: object) -> None:
        if passing:
            raise passing.pop()

    store.fault = passes
    assert mopslock.inspect(store, "other").state == "vacant"
    assert passing == []


@pytest.mark.parametrize("way", WAYS)
def test_a_directory_that_cannot_be_is_no_such_store(tmp_path: Path, way: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(mopslock.NoSuchStore, match=r"not acquired: .*ot a directory"):
        mopslock.acquire(Place.of(way, tmp_path / "file").store, "n", ttl=LIVES)


PACKAGE = str(Path(mopslock.__file__).parent)


def frames(error: BaseException) -> list[str]:
    """The functions of a traceback; "ours" is any of the package."""
    return [
        "ours" if frame.filename.startswith(PACKAGE) else frame.name
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def check_brief(error: BaseException, name: str) -> None:
    found = frames(error)
    assert (found[-1], found.count("ours")) == ("ours", 1), (name, found)
    assert error.__context__ is None, name


def calls(api: Any, store: Any, launch: Any, **options: Any) -> dict[str, Callable[[], Any]]:
    lease = api.lease(store, "n", wait=0, **options)
    return {
        "enter": lease.__enter__ if api is mopslock else lease.__aenter__,
        "acquire": lambda: api.acquire(store, "n", wait=0, **options),
        "decorated": lambda: lease(launch)(None),
        "invoke": lambda: api.invoke(store, "n", launch, wait=0, **options),
        "permit": lambda: api.acquire_permit(store, "p", capacity=1, wait=0, ttl=LIVES),
    }


async def test_held_is_raised_from_one_frame_of_ours(place: Place) -> None:
    options: Any = {"ttl": LIVES, "protocol": place.protocol}

    async def launch(_: Any) -> bytes:
        return b""

    ours = calls(mopslock, place.store, lambda _: b"", **options)
    ours["oneself"] = lambda: mopslock.acquire(place.store, "n", **options)
    theirs = calls(aio, place.store, launch, **options)
    with mopslock.lease(place.store, "n", **options), mopslock.permit(place.store, "p", capacity=1, ttl=LIVES):
        for name, call in ours.items():
            with pytest.raises(mopslock.NotAcquired) as told:
                call()
            check_brief(told.value, name)
        for name, call in theirs.items():
            with pytest.raises(mopslock.NotAcquired) as told:
                await call()
            check_brief(told.value, f"aio.{name}")


def test_what_users_code_raises_keeps_its_own_frames(place: Place) -> None:
    def inner(_: object = None) -> bytes:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own") as told:
        mopslock.invoke(place.store, "n", inner)
    assert frames(told.value)[-2:] == ["ours", "inner"]
    with pytest.raises(ValueError, match="its own") as told:
        mopslock.lease(place.store, "n", ttl=LIVES)(inner)()
    assert frames(told.value)[-2:] == ["ours", "inner"]


@pytest.mark.parametrize(
    ("error", "kept"), [(errors.EngineFailed(), True), (KeyError(), True), (mopslock.Held(), False)]
)
def test_what_tells_of_an_error_in_mopslock_keeps_all_frames(error: Exception, kept: bool) -> None:
    asked: Future[None] = Future()
    asked.settle(error)
    with pytest.raises(type(error)) as told:
        brief(asked.result)()
    assert (frames(told.value).count("ours") > 1) == kept


def test_the_causes_of_an_error_stay() -> None:
    cause, before = OSError("the store's"), ValueError("before")

    def fails() -> None:
        raise mopslock.StoreError("no") from cause

    with pytest.raises(mopslock.StoreError) as told:
        try:
            raise before
        except ValueError:
            brief(fails)()
    assert told.value.__cause__ is cause
    assert told.value.__context__ is before

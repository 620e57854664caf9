"""The tree of exceptions: as its page says, each class in reach of a caller, and all of them plain data."""

from __future__ import annotations

import errno
import inspect
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _abi, _failure, _texts, errors
from mopslock._lease import not_released
from mopslock.errors import MopslockError
from ways import LIVES, SOON, WAYS, Failing, Place, opened, program, said

LEASE_OF_NOBODY = (
    '{"name":"n","store":"file:///","protocol":"lastwriter","holder":"h","epoch":0,"token":0,"ttl_s":88,'
    '"first_acquired_at":"2026-01-02T03:04:05.678901+00:00"}'
)


def classes() -> dict[str, type[MopslockError]]:
    """All that errors.py defines."""
    return {
        name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, MopslockError)
    }


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
    assert drawn == {name: kind.__bases__[0].__name__ for name, kind in classes().items()}


def test_every_class_is_exported_and_documented() -> None:
    for name, kind in classes().items():
        assert name in mopslock.__all__
        assert getattr(mopslock, name) is kind
        assert kind.__doc__


def test_what_python_calls_so_is_so() -> None:
    assert issubclass(mopslock.BadArgument, ValueError)
    assert issubclass(mopslock.NotReleased, TimeoutError)
    assert issubclass(mopslock.WaitOver, TimeoutError)


@pytest.mark.parametrize("name", classes())
def test_errors_pass_between_processes(name: str) -> None:
    error: Any = classes()[name]("mopslock: text")
    if hasattr(error, "reason"):
        error.reason = "word"
    if hasattr(error, "seen"):
        error.seen = mopslock.Status(name="n", state="held", holder="h")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


# Where each comes from. Others are in the tests of what raises them; here is one of each.


def failing(class_: str) -> BaseException:
    return {
        "unauthorized": PermissionError(errno.EACCES, "no"),
        "no_such_store": mopslock.NoSuchStore("no bucket"),
        "unreachable": ConnectionRefusedError("nobody there"),
        "throttled": mopslock.Throttled("slow down"),
        "read_only": OSError(errno.EROFS, "read-only"),
        "full": OSError(errno.ENOSPC, "full"),
        "other": RuntimeError("odd"),
    }[class_]


@pytest.mark.parametrize("class_", [*errors.CLASSES, "other"])
def test_what_a_store_raises_decides_the_class_of_a_read(tmp_path: Path, class_: str) -> None:
    cause = failing(class_)
    with pytest.raises(mopslock.StoreError) as caught:
        mopslock.inspect(Failing(tmp_path, get=cause), "n", timeout=0.05)
    assert type(caught.value) is errors.CLASSES.get(class_, mopslock.StoreError)
    assert caught.value.__cause__ is cause
    assert str(cause) in str(caught.value)


@pytest.mark.parametrize("class_", ["unauthorized", "no_such_store", "read_only", "full"])
def test_a_store_that_will_not_do_ends_an_acquire_at_once(tmp_path: Path, class_: str) -> None:
    with pytest.raises(errors.CLASSES[class_]) as caught:
        mopslock.acquire(Failing(tmp_path, put=failing(class_)), "n", ttl=LIVES)
    assert getattr(caught.value, "reason") == "unusable"  # noqa: B009
    assert "not acquired" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_directory_that_cannot_be_is_no_such_store(tmp_path: Path, way: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(mopslock.NoSuchStore, match=r"not acquired: .*ot a directory"):
        mopslock.acquire(Place.of(way, tmp_path / "file").store, "n", ttl=LIVES)


def test_a_wait_that_is_over_while_the_store_fails_is_wait_over(tmp_path: Path) -> None:
    place = Place("own", tmp_path, Failing(tmp_path))
    with mopslock.acquire(tmp_path.as_uri(), "n", ttl=30):
        waits = threading.Event()

        def fail(_: object) -> None:
            place.store.on_get = RuntimeError("odd")
            waits.set()

        with pytest.raises(mopslock.WaitOver) as caught:
            mopslock.acquire(place.store, "n", ttl=30, wait=1.5, on_waiting=fail)
        assert caught.value.reason == "limit"
        assert waits.wait(SOON)


def test_a_library_that_is_not_there_is_engine_failed(tmp_path: Path) -> None:
    code = """
for store in ("file:///tmp", mopslock.stores.Memory()):
    try: mopslock.inspect(store, "n")
    except mopslock.EngineFailed as error: print(error)
"""
    with program(code, MOPSLOCK_LIB=str(tmp_path)) as process:
        assert "there is no" in said(process)
        assert "install one, or build it" in said(process)


MADE: dict[type[MopslockError], Callable[[], object]] = {
    mopslock.BadArgument: lambda: _abi.make_error(_abi.Code.EINVAL, 0, "t", "n", None),
    mopslock.Held: lambda: _abi.make_error(_abi.Code.EHELD, 16, "t", "n", None),
    mopslock.WaitOver: lambda: _abi.make_error(_abi.Code.ETIMEOUT, 20, "t", "n", None),
    mopslock.Cancelled: lambda: _abi.make_error(_abi.Code.ECANCELLED, 18, "t", "n", None),
    mopslock.LeaseTaken: lambda: _abi.make_error(_abi.Code.ELOST, 1, "t", "n", None),
    mopslock.LeaseBroken: lambda: _abi.make_error(_abi.Code.ELOST, 2, "t", "n", None),
    mopslock.LeaseReleased: lambda: _abi.make_error(_abi.Code.ELOST, 3, "t", "n", None),
    mopslock.LeaseUnreachable: lambda: _abi.make_error(_abi.Code.ELOST, 4, "t", "n", None),
    mopslock.LeaseExpired: lambda: _abi.make_error(_abi.Code.ELOST, 5, "t", "n", None),
    mopslock.LeaseEnded: lambda: _abi.make_error(_abi.Code.EENDED, 0, "t", "n", None),
    mopslock.Closed: lambda: _abi.make_error(_abi.Code.ECLOSED, 0, "t", "n", None),
    mopslock.CannotMaintain: lambda: _abi.make_error(_abi.Code.ECANNOT_MAINTAIN, 32, "t", "n", None),
    mopslock.Unauthorized: lambda: _abi.make_error(_abi.Code.EUNAUTHORIZED, 19, "t", "n", None),
    mopslock.NoSuchStore: lambda: _abi.make_error(_abi.Code.ENOSTORE, 19, "t", "n", None),
    mopslock.Unreachable: lambda: _abi.make_error(_abi.Code.EUNREACHABLE, 4, "t", "n", None),
    mopslock.StoreError: lambda: _abi.make_error(_abi.Code.ESTORE, 19, "t", "n", None),
    mopslock.Forked: lambda: _abi.make_error(_abi.Code.EFORKED, 0, "t", "n", None),
    mopslock.EngineFailed: lambda: _abi.make_error(_abi.Code.EENGINE, 0, "t", "n", None),
    mopslock.Throttled: lambda: _texts.refused("n", "unusable", "throttled", None, None),
    mopslock.ReadOnly: lambda: _texts.refused("n", "unusable", "read_only", None, None),
    mopslock.StoreFull: lambda: _texts.refused("n", "unusable", "full", None, None),
    mopslock.NotReleased: lambda: not_released("n"),
    mopslock.Unfit: lambda: _abi.make_error(_abi.Code.EUNFIT, 0, "t", "n", None),
    mopslock.Vacant: lambda: _abi.make_error(_abi.Code.EVACANT, 23, "t", "n", None),
    mopslock.Stale: lambda: _abi.make_error(_abi.Code.ESTALE, 0, "t", "n", None),
    mopslock.Unsettled: lambda: _abi.make_error(_abi.Code.EUNKNOWN, 0, "t", "n", None),
    mopslock.Raced: lambda: mopslock.Raced("t"),
    mopslock.Full: lambda: _abi.make_error(_abi.Code.EFULL, 24, "t", "n", None),
    mopslock.TooHeavy: lambda: _abi.make_error(_abi.Code.ETOO_HEAVY, 25, "t", "n", None),
    mopslock.Crowded: lambda: _abi.make_error(_abi.Code.ECROWDED, 26, "t", "n", None),
    mopslock.OutOfBuckets: lambda: _abi.make_error(_abi.Code.EOUT_OF_BUCKETS, 27, "t", "n", None),
    mopslock.NoResult: lambda: _abi.make_error(_abi.Code.ENORESULT, 40, "t", "n", None),
    mopslock.RememberedFailure: lambda: _failure.load("n", b"")[0],
}


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_each_class_is_made_of_what_the_library_or_the_core_says(kind: type[MopslockError]) -> None:
    error: Any = MADE[kind]()
    assert type(error) is kind
    if isinstance(error, mopslock.LeaseLost):
        assert error.reason == vars(kind)["reason"]


def test_no_class_is_out_of_reach() -> None:
    roots = {mopslock.MopslockError, mopslock.NotAcquired, mopslock.LeaseLost}
    assert set(MADE) == set(classes().values()) - roots


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("held", mopslock.Held), ("raced", mopslock.Held), ("cancelled", mopslock.Cancelled),
     ("limit", mopslock.WaitOver), ("newer", mopslock.Unfit), ("kind", mopslock.Unfit),
     ("unfit", mopslock.Unfit), ("vacant", mopslock.Vacant),
     ("unreachable", mopslock.Unreachable), ("unusable", mopslock.StoreError)],
)  # fmt: skip
def test_each_reason_of_the_core_for_a_refusal_has_its_class(reason: str, kind: type[MopslockError]) -> None:
    error: Any = _texts.refused("n", reason, "", None, None)
    assert type(error) is kind
    assert vars(error)["reason"] == reason


def test_a_code_that_nobody_knows_is_engine_failed() -> None:
    assert type(_abi.make_error(-99, 0, "", "n", None)) is mopslock.EngineFailed


# Texts.


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


def test_texts_of_others_are_escaped(place: Place) -> None:
    place.write("n", writer_id="\x1b[31mred", hostname="ev\nil")
    with pytest.raises(mopslock.Held) as caught:
        mopslock.acquire(place.store, "n", ttl=60, wait=0)
    assert str(caught.value).isprintable()
    assert caught.value.seen is not None
    assert caught.value.seen.holder == "\x1b[31mred"


def test_texts_say_the_package_and_the_lease(place: Place) -> None:
    with (
        mopslock.acquire(place.store, "n", ttl=30),
        pytest.raises(mopslock.Held, match='^mopslock: lease "n" not acquired: '),
    ):
        mopslock.acquire(place.other().store, "n", ttl=30, wait=0)

"""The traceback of what we raise: the user's frames, and one of ours."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import aio, errors
from mopslock._frames import brief
from mopslock._future import Future
from ways import LIVES, Place

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

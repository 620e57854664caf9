"""A caller that begins to wait logs it once: for what, and which process has it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import mopslock
from mopslock import aio
from mopslock._held import logged
from mopslock.status import Status
from ways import LIVES, Place, thread, until


async def launch(_: aio.Work) -> bytes:
    return b""


@pytest.mark.parametrize("ask", ["lease", "invoke", "permit", "aio.lease", "aio.invoke", "aio.permit"])
def test_a_waiter_logs_its_holder_once(place: Place, ask: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mopslock")
    strict: Any = {"ttl": LIVES, "protocol": "strict"}
    store, kind = place.store, ask.rpartition(".")[2]

    def lines() -> list[str]:
        return [r.message for r in caplog.records if r.levelno == logging.INFO and "waiting" in r.message]

    async def main() -> None:
        if kind == "lease":
            await (await aio.acquire(store, "n", **strict)).release()
        elif kind == "invoke":
            await aio.invoke(store, "n", launch, **strict)
        else:
            await (await aio.acquire_permit(store, "p", capacity=1, ttl=LIVES)).release()

    def call() -> None:
        if ask != kind:
            asyncio.run(main())
        elif kind == "lease":
            mopslock.acquire(store, "n", **strict).release()
        elif kind == "invoke":
            mopslock.invoke(store, "n", lambda _: b"", **strict)
        else:
            mopslock.acquire_permit(store, "p", capacity=1, ttl=LIVES).release()

    held = mopslock.acquire(store, "n", **strict)
    permit = mopslock.acquire_permit(store, "p", capacity=1, ttl=LIVES)
    with thread(call):
        until(lines)
        held.release()
        permit.release()
    said = {
        "lease": f'waiting for lease "n": held by {held.holder} on ',
        "invoke": f'waiting for the result of "n": held by {held.holder} on ',
        "permit": 'waiting for permit of "p": full, with 1 held, by ',
    }
    assert len(lines()) == 1
    assert lines()[0].startswith("mopslock: " + said[kind])


def test_its_own_callback_hears_of_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mopslock")
    heard: list[Status] = []
    seen = [Status(name="n", state="held", holder=holder) for holder in ("a", "b")]
    tell = logged("lease", "n", heard.append)
    assert tell is not None
    for status in seen:
        tell(status)
    assert heard == seen
    assert [record.message for record in caplog.records] == ['mopslock: waiting for lease "n": held by a']
    caplog.set_level(logging.WARNING, "mopslock")
    assert logged("lease", "n", None) is None, "nobody keeps the log"
    assert logged("lease", "n", print) is print

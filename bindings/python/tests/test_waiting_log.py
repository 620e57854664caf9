"""A caller that begins to wait logs it once: for what, and which process has it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import mopslock
from mopslock._held import logged
from mopslock.status import Status
from ways import LIVES, Place, thread, until


@pytest.mark.parametrize("ask", ["lease", "invoke", "permit"])
def test_a_waiter_logs_its_holder_once(either: Place, ask: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mopslock")
    api, store, strict = either.api, either.store, {"ttl": LIVES, "protocol": "strict"}
    held: Any = mopslock.acquire_permit if ask == "permit" else mopslock.acquire
    held = held(store, "n", **({"capacity": 1} if ask == "permit" else strict))
    call = {
        "lease": lambda: api.acquire(store, "n", **strict).release(),
        "invoke": lambda: api.invoke(store, "n", lambda _: b"", **strict),
        "permit": lambda: api.acquire_permit(store, "n", capacity=1, ttl=LIVES).release(),
    }[ask]

    def lines() -> list[str]:
        return [r.message for r in caplog.records if r.levelno == logging.INFO and "waiting" in r.message]

    with thread(call):
        until(lines)
        held.release()
    said = {
        "lease": f'waiting for lease "n": held by {held.holder} on ',
        "invoke": f'waiting for the result of "n": held by {held.holder} on ',
        "permit": 'waiting for permit of "n": full, with 1 held, by ',
    }
    assert [line.startswith("mopslock: " + said[ask]) for line in lines()] == [True]


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

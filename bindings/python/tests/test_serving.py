"""A keeper that is written in Python, in this process: what its parent can read, and what it is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest

from mopslock._own import serving
from mopslock._own.belief import Belief
from mopslock._own.serving import Beliefs
from mopslock._units import FOREVER
from mopslock.terms import Terms
from world import TTL, FakeStore, World

pytestmark = pytest.mark.usefixtures("engine")


class Heard(serving.Parent):
    """The other side's parent, in this process, and what it was told."""

    def __init__(self) -> None:
        belief = Belief()
        super().__init__(belief.fd)
        os.close(belief.fd)
        self.heard: list[Mapping[str, Any]] = []

    def say(self, store: int, message: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
        self.heard.append(message)


def served(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Mapping[str, Any]]]:
    """The other side of a keeper over the world's store. It is given commands, and returns what it was told since."""
    monkeypatch.setattr(serving, "System", lambda: world.clock)
    monkeypatch.setattr(serving, "threads", world.share)
    parent = Heard()
    client = serving.ServedClient(parent, 1, world.store)

    def give(kind: str, claim: int, name: str, slot: int = 0, **more: Any) -> list[Mapping[str, Any]]:
        given = Terms(protocol="strict", ttl=TTL, **more)._asked(name)
        event = {"kind": kind, "wait_ns": FOREVER, "claim": claim, "terms": {k: v for k, v in given.items() if v}}
        client.post(lambda: client.take(event, {"slot": slot}))
        world.run(60)
        heard, parent.heard = parent.heard, []
        return heard

    return give


def test_a_keeper_in_python_watches_what_its_parent_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a hand-over takes a poll."""
    world, watched = World(FakeStore()), set[str]()

    def watch(key: str, _: Callable[[], None]) -> Callable[[], None]:
        watched.add(key)
        return lambda: watched.remove(key)

    world.store.watch = watch  # type: ignore[attr-defined]
    world.lease(name="n", terms=Terms(protocol="strict"))
    heard = served(world, monkeypatch)("acquire", 1, "n")
    assert heard[-1]["kind"] == "waiting"
    assert [key.partition("/")[0] for key in watched] == ["n"]


@pytest.mark.parametrize("slot", [0, 1])
def test_renewals_of_a_session_are_told_where_one_of_its_claims_has_no_word(
    slot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the parent takes it for lost."""
    heard = served(World(FakeStore()), monkeypatch)("acquire", 1, "n", slot, session=True)
    renewals = [message for message in heard if message["kind"] == "renewed" and "claim" not in message]
    assert bool(renewals) == (slot == 0)


def test_a_command_that_cannot_be_stepped_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller waits for it."""
    give = served(World(FakeStore()), monkeypatch)
    monkeypatch.setattr(serving.ServedClient, "_step", mock.Mock(side_effect=AttributeError("undefined symbol")))
    (said,) = give("acquire", 1, "n")
    assert (said["kind"], said["claim"], said["fault"]) == ("not_begun", 1, "engine")
    assert "undefined symbol" in said["text"]


def test_the_words_of_tenures_and_sessions() -> None:
    """As those of host/keep: TestWordsOfTenuresAndSessions, and what follows."""
    words = memoryview(bytearray(8 * 4)).cast("q")
    beliefs = Beliefs(words)
    for claim, slot, told in [(1, 1, False), (2, 2, False), (3, 0, False), (4, 3, True)]:
        beliefs.begin(claim, slot, told)
    steps = [
        ("held", 0, 10, 5, True, (0, 0), (0, 0)),
        ("held", 1, 3, 5, True, (10, 0), (0, 0)),
        ("held", 2, 4, 0, True, (10, 0), (4, 0)),
        ("renewed", 0, 20, 5, False, (20, 0), (4, 0)),
        ("renewed", 2, 6, 0, False, (20, 0), (6, 0)),
        ("deadline", 1, 12, 0, False, (12, 0), (6, 0)),  # a fix: the session counts no more
        ("renewed", 0, 30, 5, False, (12, 0), (6, 0)),
        ("lost", 1, 0, 0, True, (0, 0), (6, 0)),
        ("held", 1, 40, 0, True, (40, 1), (6, 0)),  # of work: another tenure
        ("found", 2, 0, 0, True, (40, 1), (0, 0)),
        ("renewed", 2, 50, 0, False, (40, 1), (0, 0)),  # a tenure that is over is not renewed
        ("deadline", 2, 50, 5, False, (40, 1), (0, 0)),
        ("held", 2, 51, 5, True, (40, 1), (51, 1)),
        ("absent", 1, 0, 0, True, (0, 0), (51, 1)),
        ("held", 3, 52, 5, True, (0, 0), (51, 1)),
        ("renewed", 0, 60, 5, True, (0, 0), (60, 1)),  # for the one without a word
        ("renewed", 3, 61, 5, True, (0, 0), (60, 1)),
        ("lost", 3, 0, 0, True, (0, 0), (60, 1)),
        ("renewed", 0, 62, 5, False, (0, 0), (62, 1)),
        ("held", 4, 63, 5, True, (0, 0), (62, 1)),
        ("renewed", 0, 64, 5, True, (0, 0), (64, 1)),  # for the one that hears of all
        ("lost", 0, 0, 5, True, (0, 0), (64, 1)),
        ("renewed", 0, 70, 5, False, (0, 0), (64, 1)),
    ]
    for kind, claim, at, on, told, *both in steps:
        action = {"kind": kind, "claim": claim, "at_ns": at << 8, "on": on}
        assert beliefs.take(action, last=False) == told, action
        assert [(word >> 8, word & 0xFF) for word in words[1:3]] == both, action
    beliefs.end(2)
    assert beliefs.take({"kind": "released", "claim": 4}, last=True)
    assert not any(words)
    assert beliefs.take({"kind": "left", "claim": 4}, last=False), "a claim that it does not know any more"


def test_lines_of_its_log_are_the_parents() -> None:
    parent = Heard()
    record = logging.makeLogRecord({"levelname": "WARNING", "msg": "mopslock: %s fails", "args": ("it",)})
    serving.ToParent(parent).handle(record)
    assert parent.heard == [{"kind": "log", "level": "warning", "text": "mopslock: it fails"}]

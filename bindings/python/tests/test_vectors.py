"""Every vector, in both engines: what went into the core, and what must come of it, as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgpack

from mopslock._engine import Engine
from mopslock._engine import engine as new_engine
from mopslock._machine import pack

VECTORS = sorted((Path(__file__).resolve().parents[3] / "core" / "testdata" / "vectors").glob("*.vec"))


class Line(NamedTuple):
    """A message and what must be answered."""

    verb: str
    machine: str
    message: bytes
    answer: bytes


def lines(path: Path) -> Iterator[Line]:
    """The messages of a file, each with its answer; a drop has neither."""
    verb, machine, message = "", "", b""
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        word, *fields = text.split(" ")
        if word == "answer":
            assert verb, f"{path.name}:{number}: an answer to nothing"
            yield Line(verb, machine, message, unhex(fields[0]))
            verb = ""
        elif word in ("new", "step"):
            assert not verb, f"{path.name}:{number}: the message before has no answer"
            verb, machine, message = word, fields[0], unhex(fields[1])
        elif word == "drop":
            yield Line("drop", fields[0], b"", b"")
        else:
            assert word == "#", f"{path.name}:{number}: {word}"
    assert not verb, f"{path.name}: the last message has no answer"


def unhex(text: str) -> bytes:
    return b"" if text == "-" else bytes.fromhex(text)


def replay(path: Path) -> str:
    """Gives every message of a file to the engine that is chosen, and returns what is wrong with its answers."""
    machines: dict[str, Engine] = {}
    count = 0
    for line in lines(path):
        if line.verb == "drop":
            machines.pop(line.machine).drop()
            continue
        if line.verb == "new":
            made = new_engine()
            answer = made.new(line.message)
            if not refused(line.answer):
                machines[line.machine] = made
        else:
            answer = machines[line.machine].step(line.message)
        if answer != line.answer:
            return f"message {count}: {msgpack.unpackb(answer)} and not {msgpack.unpackb(line.answer)}"
        count += 1
    return "" if count else "no message"


def test_there_are_vectors() -> None:
    """An installed package has none beside it: then this fails, rather than that nothing is tested."""
    assert len(VECTORS) >= 75


def test_every_answer_to_the_byte(engine: str) -> None:
    assert {path.stem: wrong for path in VECTORS if (wrong := replay(path))} == {}, engine


def refused(answer: bytes) -> bool:
    return "error" in msgpack.unpackb(answer)


def test_our_messages_are_the_cores_own_bytes() -> None:
    """What msgpack reads of a message and packs again, in the same order of keys, is the message."""
    for path in VECTORS:
        for line in lines(path):
            if line.verb != "drop" and not refused(line.answer):
                assert pack(msgpack.unpackb(line.message)) == line.message, path.stem

"""Every vector, in both engines: what went into the core, and what must come of it, as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgpack

from mopslock._machine import Engine, pack
from mopslock._machine import engine as new_engine

VECTORS = sorted((Path(__file__).resolve().parents[3] / "core" / "testdata" / "vectors").glob("*.vec"))


def messages(path: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Of a file: verb, machine, message and what must be answered; a drop has neither."""
    lines = (line.split() for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    for verb, machine, *message in lines:
        if verb == "drop":
            yield verb, machine, b"", b""
        else:
            yield verb, machine, unhex(*message), unhex(*next(lines)[1:])


def unhex(text: str) -> bytes:
    return b"" if text == "-" else bytes.fromhex(text)


def refused(answer: bytes) -> bool:
    return "error" in msgpack.unpackb(answer)


def replay(path: Path) -> str:
    """Gives every message of a file to the engine that is chosen, and returns what is wrong with its answers."""
    machines: dict[str, Engine] = {}
    for count, (verb, machine, message, want) in enumerate(messages(path)):
        if verb == "drop":
            machines.pop(machine).drop()
            continue
        made = machines[machine] if verb == "step" else new_engine()
        answer = made.step(message) if verb == "step" else made.new(message)
        if verb == "new" and not refused(want):
            machines[machine] = made
        if answer != want:
            return f"message {count}: {msgpack.unpackb(answer)} and not {msgpack.unpackb(want)}"
    return ""


def test_every_answer_to_the_byte(engine: str) -> None:
    """An installed package has no vectors beside it: then this fails, rather than that nothing is tested."""
    assert len(VECTORS) >= 75
    assert {path.stem: wrong for path in VECTORS if (wrong := replay(path))} == {}, engine


def test_our_messages_are_the_cores_own_bytes() -> None:
    """What msgpack reads of a message and packs again, in the same order of keys, is the message."""
    for path in VECTORS:
        for verb, _, message, answer in messages(path):
            if verb != "drop" and not refused(answer):
                assert pack(msgpack.unpackb(message)) == message, path.stem

"""Every vector, through ctypes, in both libraries: what went into the core, and what must come of it, as bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pytest

from mopslock import _library
from mopslock._machine import pack

VECTORS = sorted((Path(__file__).resolve().parents[3] / "core" / "testdata" / "vectors").glob("*.vec"))
ROOM = _library.MAX_MESSAGE


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


def replay(path: Path, lib: Any) -> str:
    """Gives a library every message of a file, and returns what is wrong with its answers."""
    handles: dict[str, int] = {}
    room, length, handle = ctypes.create_string_buffer(ROOM), ctypes.c_size_t(), ctypes.c_uint64()
    out = (ctypes.addressof(room), ROOM, ctypes.addressof(length))
    count = 0
    for line in lines(path):
        message = line.message
        if line.verb == "drop":
            if lib.drop(handles.pop(line.machine)) != _library.OK:
                return "drop is refused"
            continue
        if line.verb == "new":
            code = lib.new(message, len(message), ctypes.addressof(handle), *out)
            if code == _library.OK:
                handles[line.machine] = handle.value
        else:
            code = lib.step(handles[line.machine], message, len(message), *out)
        answer = room.raw[: length.value]
        if answer != line.answer:
            return f"message {count}: {msgpack.unpackb(answer)} and not {msgpack.unpackb(line.answer)}"
        if code != (_library.ECONTRACT if refused(line.answer) else _library.OK):
            return f"message {count}: code {code}"
        count += 1
    return "" if count else "no message"


def test_there_are_vectors() -> None:
    """An installed package has none beside it: then this fails, rather than that nothing is tested."""
    assert len(VECTORS) >= 75


@pytest.mark.parametrize("library", [_library.core, _library.full], ids=["core", "full"])
def test_every_answer_to_the_byte(library: Any) -> None:
    assert {path.stem: wrong for path in VECTORS if (wrong := replay(path, library()))} == {}


def refused(answer: bytes) -> bool:
    return "error" in msgpack.unpackb(answer)


def test_our_messages_are_the_cores_own_bytes() -> None:
    """What msgpack reads of a message and packs again, in the same order of keys, is the message."""
    for path in VECTORS:
        for line in lines(path):
            if line.verb != "drop" and not refused(line.answer):
                assert pack(msgpack.unpackb(line.message)) == line.message, path.stem

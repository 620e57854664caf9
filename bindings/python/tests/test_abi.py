"""What _abi.py and the errors say is what mopslock.h and the core's schema say."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest

from mopslock import _abi, _library, errors
from mopslock._own import base, claims, verbs, work
from mopslock._units import ENDLESS
from mopslock.status import of_sight


@pytest.fixture(scope="module")
def header(checkout: Path) -> str:
    text = (checkout / "bindings" / "c" / "mopslock.h").read_text()
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def names(checkout: Path) -> dict[str, list[str]]:
    """The table of the schema's enums."""
    text = (checkout / "bindings" / "README.md").read_text().split("### Names")[1].split("## A session")[0]
    rows = re.findall(r"^\| ([^|]+) \| (`[^|]+) \|$", text, re.MULTILINE)
    return {enum: re.findall(r"`(\w+)`", row) for enums, row in rows for enum in enums.split(", ")}


def enum(header: str, name: str) -> dict[str, int]:
    """The numbers of an enum, by their names without prefix."""
    body = re.search(r"enum mopslock_" + name + r"\s*\{([^}]*)\}", header)
    assert body
    found = re.findall(r"MOPSLOCK_(\w+)\s*=\s*(-?\d+)", body[1])
    assert len(found) == body[1].count("=")
    prefix = name.removesuffix("_kind").upper() + "_"
    return {key.removeprefix(prefix): int(value) for key, value in found}


def constant(header: str, name: str) -> int:
    found = re.search(rf"#define MOPSLOCK_{name} \(?(-?\d+)\)?", header)
    assert found
    return int(found[1])


def test_numbers_are_the_headers_and_words_the_schemas(header: str, names: dict[str, list[str]]) -> None:
    assert {code.name: code.value for code in _abi.Code} == enum(header, "code")
    assert {kind.name: kind.value for kind in _abi.EventKind} == enum(header, "event_kind")
    reasons = {(text or "none").upper(): number for number, text in _abi.REASONS.items()}
    assert reasons == enum(header, "reason")
    assert set(_abi.REASONS.values()) == {"", *names["Action.reason"]} - {"none"}
    classes = {(text or "none").upper(): number for number, text in enumerate(_abi.STORE_CLASSES)}
    assert classes == enum(header, "class")
    states = {(text or "none").upper(): number for number, text in enumerate(_abi.STATES)}
    assert states == enum(header, "state")
    assert list(_abi.STATES[1:]) == names["Sight.state"]
    assert {text.upper(): number for number, text in enumerate(_abi.PROTOCOLS)} == enum(header, "protocol")


def test_constants(header: str) -> None:
    assert constant(header, "ABI_VERSION") == _library.ABI
    assert constant(header, "MAX_MESSAGE") == _library.MAX_MESSAGE
    assert constant(header, "TRY") == _abi.TRY
    assert constant(header, "GUARDED_MAX") == _abi.MOST_GUARDED
    assert constant(header, "ENDLESS") == ENDLESS
    assert constant(header, "HOLDER_SIZE") == _abi.RawStatus.holder.size
    for name in ("OK", "ESHORT", "EFORKED", "ECONTRACT"):
        assert getattr(_library, name) == _abi.Code[name]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "mopslock_open_options": _abi.OpenOptions,
    "mopslock_status": _abi.RawStatus,
    "mopslock_options": _abi.Options,
    "mopslock_event": _abi.Event,
    "mopslock_break_options": _abi.BreakOptions,
    "mopslock_slot": _abi.RawSlot,
    "mopslock_result": _abi.RawResult,
    "mopslock_permit_holder": _abi.RawHolder,
}


def test_layouts_are_the_compilers(checkout: Path, header: str, tmp_path: Path) -> None:
    """Sizes, and each field's name, order, offset and size, of every struct of the header."""
    assert set(re.findall(r"typedef struct (\w+)", header)) == set(STRUCTS)
    want, program = [], ['#include <stdio.h>\n#include "mopslock.h"\nint main(void) {\n']
    for name, struct in STRUCTS.items():
        body = re.search(r"typedef struct " + name + r" \{(.*?)\} " + name, header, re.DOTALL)
        assert body
        fields = re.findall(r"(\w+)(?:\[[^\]]*\])?;", body[1])
        assert [field[0] for field in struct._fields_] == fields
        want.append(f"{name} {ctypes.sizeof(struct)}")
        program.append(f'printf("{name} %zu\\n", sizeof({name}));\n')
        for field in fields:
            described = getattr(struct, field)
            want.append(f"{field} {described.offset} {described.size}")
            program.append(
                f'printf("{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));\n'
            )
    program.append("return 0; }\n")
    source, binary = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text("".join(program))
    include = checkout / "bindings" / "c"
    subprocess.run(
        [os.environ.get("CC", "cc"), "-Wall", "-Werror", f"-I{include}", str(source), "-o", str(binary)], check=True
    )
    said = subprocess.run([str(binary)], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert said.splitlines() == want


def test_every_function_that_is_called_is_declared(header: str) -> None:
    """And its arguments are as many as the header has."""
    source = Path(_abi.__file__).read_text() + Path(_library.__file__).read_text()
    called = re.findall(r"declare\(\w+\.(mopslock_\w+)((?:, \w+(?:\(\w+\))?)*)\)", source)
    assert len(called) == source.count("declare(") - 1
    for name, arguments in called:
        declared = re.search(rf"^\w[\w ]*\b{name}\(([^)]*)\)", header, re.MULTILINE)
        assert declared, name
        count = 0 if declared[1] == "void" else declared[1].count(",") + 1
        assert arguments.count(",") == count, name


def test_every_notice_of_the_core_is_heard(names: dict[str, list[str]]) -> None:
    """Requests and the wake are what step itself looks for; all else is told by a method."""
    of_machines = {"called", "calibrate", "calibrated", "granted", "counted"}  # which are no clients
    unasked = {"watch", "unwatch", "remember", "forget"}  # of a host that says it can
    of_steps = {"wake", "more", "abandon", "tried"}
    of_looks, of_permits, of_work = {"broken", "seen"}, {"limited"}, {"launch", "found", "absent"}
    of_clients = set(base._NOTICES) - {"held", "renewed", "lost", "left", "warned"}
    told = set(names["Action.kind"]) - verbs.REQUESTS - of_machines - unasked - of_steps - of_looks - of_clients
    assert set(work._WORK) == told - of_permits
    assert set(claims.NOTICES) == told - of_permits - of_work
    assert of_clients == {"outage", "recovered", "closed"}


def test_classes_and_reasons_are_the_schemas(names: dict[str, list[str]]) -> None:
    """``other`` is what has no class of its own, and only a client is told of ``unsupported``.

    The first five reasons are those of a loss.
    """
    assert set(errors.CLASSES) == set(names["Input.class"]) - {"none", "other", "unsupported"}
    assert list(errors.LOST) == names["Action.reason"][1:6]


def test_a_sight_says_what_a_status_of_the_library_says() -> None:
    """Both ways to a Status agree on what is left of a record, dated in the past or in the future."""
    second = 10**9
    sight = {"state": "held", "holder": "h", "ttl_ns": 60 * second, "written_at_ns": 100 * second}
    status = of_sight("n", sight, 130 * second)
    assert (status.age, status.left) == (30.0, 30.0)
    assert of_sight("n", sight, 70 * second).left == 60.0
    assert of_sight("n", {**sight, "released_at_ns": 120 * second}, 130 * second).left == 0.0

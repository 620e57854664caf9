"""What Python says of the core's library and its messages is what mopslock.h and the core's schema say."""

from __future__ import annotations

import _ctypes
import re
from pathlib import Path

import pytest

from mopslock import _native, errors
from mopslock._own import base, claims, verbs, work
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


def constant(header: str, name: str) -> int:
    found = re.search(rf"#define MOPSLOCK_{name} \(?(-?\d+)\)?", header)
    assert found
    return int(found[1])


def test_constants(header: str) -> None:
    assert constant(header, "ABI_VERSION") == _native.ABI
    assert constant(header, "MAX_MESSAGE") == _native.MAX_MESSAGE
    for name in ("OK", "EFORKED", "ECONTRACT"):
        assert re.search(rf"MOPSLOCK_{name}\s*=\s*{getattr(_native, name)}\b", header)


def test_a_library_without_its_functions_is_refused() -> None:
    with pytest.raises(errors.EngineFailed, match="is no libmopslock-core"):
        _native.Library(Path(_ctypes.__file__))


def test_every_function_that_is_called_is_declared(header: str) -> None:
    """And its arguments are as many as the header has."""
    source = Path(_native.__file__).read_text()
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
    of_clients = {"outage", "recovered", "closed"}
    told = set(names["Action.kind"]) - verbs.REQUESTS - of_machines - unasked - of_steps - of_looks - of_clients
    heard: list[tuple[type, set[str]]] = [
        (work.Invocation, told - of_permits), (claims.Lease, told - of_permits - of_work), (claims.Permit, of_permits),
    ]  # fmt: skip
    for claim, notices in heard:
        assert {one for one in notices if not callable(getattr(claim, one, None))} == set()
    of_sessions = {"held", "renewed", "lost", "left", "warned"}
    assert {name for name in vars(base.AnyClient) if name.startswith("on_")} == {
        f"on_{one}" for one in of_clients | of_sessions
    }


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

"""The rules of the house, as far as a program can see whether they are kept."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mopslock

PACKAGE = Path(mopslock.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = ["mopslock", *sorted(name for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "mopslock."))]


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def test_all_names_are_there_and_sorted_and_say_what_they_are() -> None:
    """Class and function, and what they offer, inherited or not."""
    assert sorted(mopslock.__all__) == mopslock.__all__
    for name in mopslock.__all__:
        value = getattr(mopslock, name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for member, what in inspect.getmembers(value):
                if not member.startswith("_") and getattr(what, "__module__", "").startswith("mopslock"):
                    assert inspect.getdoc(what), f"{name}.{member}"
    shown = {name for name in vars(mopslock) if not name.startswith("_")}
    assert {name for name in shown if not inspect.ismodule(getattr(mopslock, name))} == set(mopslock.__all__)


# Who may import whom: each module only what stands before it.
LAYERS = [
    ["_units"],
    ["status"],
    ["errors"],
    ["_duration", "_clock", "_permit_request", "_library", "_notify", "_frames", "_future"],
    ["terms", "stores", "_texts", "_machine", "_event_loop", "_failure"],
    ["_verbs", "_held", "_abi"],
    ["_call", "_hosted_calls", "_limits", "_runner", "_validity"],
    ["_host_interface", "_hosted_lease", "_asks", "_resolve", "_services"],
    ["_inside", "_inspector", "_hosted_invocation", "_lease_runner"],
    ["_inline_driver", "_invocation", "_semaphore"],
    ["_stepped", "_hosted"],
    ["_hosts", "_lease"],
    ["_api", "guard", "_loop", "_limiter", "_permit"],
    ["_aio_lease", "_aio_limiter"],
    ["_aio_permit"],
    ["_invoke"],
    ["_memo"],
    ["_aio_invoke"],
    ["aio", "__init__", "mops"],
]
TYPES_ONLY = {
    ("_runner", "_stepped"), ("_validity", "_services"), ("_validity", "_stepped"), ("_lease_runner", "_invocation"),
    ("_lease_runner", "_stepped"), ("_services", "_stepped"), ("_services", "_lease_runner"),
    ("_services", "_invocation"), ("_invocation", "_stepped"), ("_services", "_semaphore"), ("_semaphore", "_stepped"),
}  # fmt: skip
"""The arrows that point up, for annotations alone: all of them inside of the host for one's own stores."""


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules of the package that a file imports, and whether only for types."""
    tree = ast.parse(path.read_text())
    folder = path.parent.relative_to(PACKAGE).parts
    typing = {
        inner for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" for inner in ast.walk(node)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "mopslock":
                    yield [*name.name.split("."), "__init__"][1], node in typing
        elif isinstance(node, ast.ImportFrom):
            where = node.module.split(".") if node.module else []
            if node.level:
                where = [*folder[: len(folder) - node.level + 1], *where]
            elif where[:1] == ["mopslock"]:
                where = where[1:]
            else:
                continue
            for name in node.names:
                yield (where or [name.name])[0], node in typing


def layer(module: str) -> int:
    first = module.partition("/")[0]
    found = [n for n, modules in enumerate(LAYERS) if first in modules]
    assert found, f"{module} has no layer: say where it stands"
    return found[0]


NEVER: dict[str, set[str]] = {
    "_machine": {"_stepped", "_hosted", "_hosts", "_lease_runner"},
    "stores": {"_hosted", "_abi", "_library", "_machine"},
    "_stepped": {"_hosted", "_abi"},
    "_hosted": {"_stepped", "_lease_runner", "_machine", "stores"},
    "_hosted_invocation": {"_stepped", "_invocation", "_machine", "stores"},
    "_invocation": {"_hosted", "_hosted_invocation", "_abi"},
    "_call": {"_invocation", "_hosted_invocation"},
    "_event_loop": {"_lease_runner", "_machine", "stores"},
    "_limits": {"_hosted", "_machine", "stores"},
    "_semaphore": {"_hosted", "_abi"},
}
"""The two kinds of hosts know nothing of each other, and the core's machine of neither."""


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_arrows_point_down(path: Path) -> None:
    me = relative(path)
    for other, types in imports(path):
        assert other not in NEVER.get(me, ()), f"{me} imports {other}"
        same = me.split("/")[0] == "mops" == other or other == me
        if same or (types and (me, other) in TYPES_ONLY):
            continue
        assert layer(other) < layer(me), f"{me} imports {other}"


@pytest.mark.parametrize("name", MODULES)
def test_every_module_can_be_imported_first(name: str) -> None:
    """No order of imports is a cycle. In one process for each would be slow: what was imported is forgotten."""
    if name.startswith("mopslock.mops"):
        pytest.importorskip("thds.mops")
    before = {key: module for key, module in sys.modules.items() if key.split(".")[0] == "mopslock"}
    registered = os.register_at_fork
    for key in before:
        del sys.modules[key]
    os.register_at_fork = lambda **_: None
    try:
        importlib.import_module(name)
    finally:
        os.register_at_fork = registered
        for key in [key for key in sys.modules if key.split(".")[0] == "mopslock"]:
            del sys.modules[key]
        sys.modules.update(before)


def test_importing_and_making_load_no_library_and_nothing_of_others() -> None:
    """A program that imports mopslock, decorates, and asks for nothing pays for nothing, and may fork."""
    program = """
import sys
before = set(sys.modules)
import mopslock, mopslock.aio, mopslock.stores, mopslock.errors, threading
for store in ("file:///nowhere", mopslock.stores.Memory()): mopslock.lease(store, "n")(print)
names = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(names & {"thds", "fsspec", "requests", "numpy", "azure", "boto3"}))
print(threading.active_count())
print(*[line.split()[-1] for line in open("/proc/self/maps") if "mopslock" in line] if sys.platform == "linux" else [])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=50,
    )
    assert done.stdout == "\n1\n\n"

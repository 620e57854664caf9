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
from typing import Any

import pytest

import mopslock

PACKAGE = Path(mopslock.__file__).parent
TESTS = Path(__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = ["mopslock", *sorted(name for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "mopslock."))]
LONGEST_FILE, LONGEST_FUNCTION = 520, 80


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Every function with its dotted name, and whether users can reach it."""

    def walk(node: ast.AST, name: str, public: bool) -> Iterator[tuple[str, Any, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                seen = public and (not child.name.startswith("_") or child.name == "__init__")
                yield f"{name}{child.name}", child, seen
                yield from walk(child, f"{name}{child.name}.", False)
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{name}{child.name}.", public and not child.name.startswith("_"))
            else:
                yield from walk(child, name, public)

    yield from walk(tree, "", True)


every_file = pytest.mark.parametrize("path", FILES, ids=relative)


@every_file
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE
    for name, function, _ in functions(ast.parse(text)):
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno < LONGEST_FUNCTION, name


@every_file
def test_modules_and_what_is_public_in_them_have_docstrings(path: Path) -> None:
    """But for constructors, protocols, and methods that do as a base in the same file says."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module"
    bases: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases[node.name] = [ast.unparse(base) for base in node.bases]
            assert node.name.startswith("_") or ast.get_docstring(node), node.name
    said = {name for name, function, _ in functions(tree) if ast.get_docstring(function)}
    for name, function, public in functions(tree):
        above = bases.get(name.partition(".")[0], [])
        if public and function.name != "__init__" and "Protocol" not in above:
            assert {name, *(f"{base}.{function.name}" for base in above)} & said, name


@every_file
def test_everything_is_annotated(path: Path) -> None:
    for name, function, _ in functions(ast.parse(path.read_text())):
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        bare = [a.arg for a in given if a is not None and a.annotation is None and a.arg not in ("self", "cls")]
        assert bare == [], name
        assert function.returns is not None, name


@pytest.mark.parametrize("name", sorted(mopslock.__all__))
def test_every_public_name_says_what_it_is(name: str) -> None:
    """Class and function, and what they offer, inherited or not."""
    value = getattr(mopslock, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for member, what in inspect.getmembers(value):
            if not member.startswith("_") and getattr(what, "__module__", "").startswith("mopslock"):
                assert inspect.getdoc(what), f"{name}.{member}"


def test_all_names_are_there_and_sorted() -> None:
    assert sorted(mopslock.__all__) == mopslock.__all__
    shown = {name for name in vars(mopslock) if not name.startswith("_")}
    assert {name for name in shown if not inspect.ismodule(getattr(mopslock, name))} == set(mopslock.__all__)


def test_names_are_what_they_say_they_are() -> None:
    """Errors are the module's own, and in its picture of the tree."""
    from mopslock import errors  # noqa: PLC0415

    kinds = {n for n, v in vars(errors).items() if inspect.isclass(v) and issubclass(v, Exception)}
    assert kinds <= set(mopslock.__all__)
    assert errors.__doc__
    drawn = {word for line in errors.__doc__.splitlines() for word in line.replace("─", " ").split() if word in kinds}
    assert drawn == kinds


# Who may import whom: each module only what stands before it.
LAYERS = [
    ["errors"],
    ["_duration", "_clock", "_demand", "_library", "status", "_notify"],
    ["terms", "stores", "_texts", "_machine", "_keeper", "_failure"],
    ["_verbs", "_member", "_abi"],
    ["_runner", "_belief", "_ongoing", "_hosted_member", "_limits"],
    ["_resolve", "_services", "_looks", "_hosted_invocation"],
    ["_claim"],
    ["_drive", "_invocation", "_semaphore"],
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
    ("errors", "status"), ("_member", "_ongoing"), ("_runner", "_stepped"), ("_belief", "_services"),
    ("_belief", "_stepped"), ("_claim", "_invocation"), ("_claim", "_stepped"), ("_services", "_stepped"),
    ("_services", "_claim"), ("_services", "_invocation"), ("_invocation", "_stepped"), ("_hosted_member", "_hosted"),
    ("_hosted_invocation", "_hosted"), ("_services", "_semaphore"), ("_semaphore", "_stepped"),
}  # fmt: skip
"""Imported for their annotations, and never when the program runs."""


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


@every_file
def test_arrows_point_down(path: Path) -> None:
    me = relative(path)
    for other, types in imports(path):
        if types and (me, other) in TYPES_ONLY:
            continue
        if me.split("/")[0] == "mops" and other == "mops":
            continue
        below = layer(other) < layer(me) or (layer(other) == layer(me) and other == "_duration" and me != other)
        assert below or other == me, f"{me} imports {other}"


@pytest.mark.parametrize(
    ("module", "never"),
    [("_machine", {"_stepped", "_hosted", "_hosts", "_claim"}), ("stores", {"_hosted", "_abi", "_library", "_machine"}),
     ("_stepped", {"_hosted", "_abi"}), ("_hosted", {"_stepped", "_claim", "_machine", "stores"}),
     ("_hosted_invocation", {"_stepped", "_invocation", "_machine", "stores"}),
     ("_invocation", {"_hosted", "_hosted_invocation", "_abi"}), ("_ongoing", {"_invocation", "_hosted_invocation"}),
     ("_keeper", {"_claim", "_machine", "stores"}), ("_limits", {"_hosted", "_machine", "stores"}),
     ("_semaphore", {"_hosted", "_abi"})],
)  # fmt: skip
def test_arrows_that_must_not_be(module: str, never: set[str]) -> None:
    """The two kinds of hosts know nothing of each other, and the core's machine of neither."""
    assert not {other for other, _ in imports(PACKAGE / f"{module}.py")} & never


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


def test_importing_loads_no_library_and_nothing_of_others() -> None:
    """A program that imports mopslock and asks for nothing pays for nothing, and may fork."""
    program = """
import sys
before = set(sys.modules)
import mopslock, mopslock.aio, mopslock.stores, mopslock.errors, threading
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


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()

"""The rules of the house, as far as a program can see whether they are kept."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mopslock

PACKAGE = Path(mopslock.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


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


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, also those that it needs only for annotations."""
    folder = path.parent.relative_to(PACKAGE).parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [name.name.split(".") for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            where = [*folder[: len(folder) - node.level + 1]] if node.level else []
            where = ["mopslock", *where] if node.level else where
            where += node.module.split(".") if node.module else []
            names = [[*where, name.name] for name in node.names]
        else:
            continue
        for parts in names:
            if parts[0] == "mopslock":
                yield module_of("/".join(parts[1:]))


def module_of(name: str) -> str:
    """The module in which a name is."""
    while name and name not in KNOWN:
        name = name.rpartition("/")[0]
    return name or "__init__"


KNOWN = {relative(path).removesuffix("/__init__") for path in FILES} - {"__init__"}
ARROWS = {module_of(relative(path).removesuffix("/__init__")): set(imports(path)) for path in FILES}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for annotations: a reader can go through them from the bottom to the top."""
    left = {module: arrows - {module} for module, arrows in ARROWS.items()}
    while free := {module for module, arrows in left.items() if not arrows & set(left)}:
        left = {module: arrows for module, arrows in left.items() if module not in free}
    assert not left


NEVER = [
    ("_machine", "_own/host"), ("_machine", "_own/client"), ("stores", "_native"), ("stores", "_machine"),
    ("_call", "_own/host"), ("_limits", "stores"), ("_own/threads", "_machine"), ("_own/threads", "stores"),
    ("_own/base", "_machine"), ("_own/base", "_own/keeper"), ("_own/client", "_own/keeper"),
    ("_own/keeper", "_machine"), ("_own/keeper", "stores"), ("_own/kept", "_machine"), ("_own/kept", "_own/client"),
]  # fmt: skip
"""A client in this process and one in a keeper know nothing of each other."""


def test_who_knows_nothing_of_whom() -> None:
    assert [(me, other) for me, other in NEVER if other in ARROWS[me]] == []


def test_importing_and_making_load_no_library_and_nothing_of_others() -> None:
    """A program that imports mopslock, decorates, and asks for nothing pays for nothing, and may fork. aio and mops are
    there all the same: they are imported when they are used."""
    program = """
import sys
sys.modules |= dict.fromkeys(("fcntl", "resource"))  # which Windows does not have
before = set(sys.modules)
import mopslock, mopslock.stores, mopslock.errors, threading
assert "asyncio" not in sys.modules
for store in ("file:///nowhere", mopslock.stores.Memory()):
    mopslock.lease(store, "n")(print), mopslock.aio.lease(store, "n")
names = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(names & {"thds", "fsspec", "requests", "numpy", "azure", "boto3"}))
print(threading.active_count())
print(*[line.split()[-1] for line in open("/proc/self/maps") if "mopslock" in line] if sys.platform == "linux" else [])
print(mopslock.mops.acquire.__module__, hasattr(mopslock, "nothing"))
"""
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("\n1\n\nmopslock.mops False\n", "")

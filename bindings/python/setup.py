"""Builds the shared libraries and the keeper's command, and adds them to the package, beside the WASM module.

pyproject.toml has the rest.

They are Go: `make python-parts` of the checkout builds them, so a build needs the
checkout, Go, a C compiler and make. Or it needs MOPSLOCK_LIB_DIR, a directory
in which all have been built before; nothing else is a shortcut.

Python loads the libraries by ctypes, so one wheel serves every Python of a platform: its
tag is py3-none-PLATFORM. With MOPSLOCK_ENGINE=wasm the build makes a wheel that
has the WASM module alone, needs wasmtime, and is for every platform.
"""

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar, NoReturn

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "c"
GO_MOD = HERE.parent.parent / "go.mod"

SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
LIBRARIES = ("libmopslock-core" + SUFFIX,)
PREBUILT = "MOPSLOCK_LIB_DIR"
MODULE = ("mopslock.wasm", "mopslock.wasm.sha256")
MODULE_FROM = HERE.parent.parent / "wasm"
WITHOUT_LIBRARIES = os.environ.get("MOPSLOCK_ENGINE") == "wasm"
COMMAND = "mopslock-host"
BUILT = () if WITHOUT_LIBRARIES else (*LIBRARIES, COMMAND)
FILES = (*BUILT, *MODULE)
"""What the package has in mopslock/_lib, and the command in mopslock/_bin."""


def fail(headline: str, problems: list[str], remedies: list[str]) -> NoReturn:
    """Ends the build with a message and, since this is no bug, without a traceback."""
    lines = ["", f"mopslock: {headline}", *(f"  - {p}" for p in problems), "What you can do:"]
    raise SystemExit("\n".join([*lines, *(f"  - {r}" for r in remedies)]))


PROVIDE = "provide that (Go, gcc, make), and in a checkout of the repository: pip install ./bindings/python"
INSTALL_A_WHEEL = "install a wheel, mopslock-VERSION-py3-none-PLATFORM.whl: it has the libraries and needs none of this"
SET_PREBUILT = f"set {PREBUILT} to the absolute path of a directory that has {', '.join((*LIBRARIES, COMMAND))}"
DO_WITHOUT = "set MOPSLOCK_ENGINE=wasm, which needs none of this, and pip install wasmtime"


class BuildLibraries(Command):
    """The step of a build that puts the library and the module into mopslock/_lib."""

    description = "build the shared libraries from the checkout, by Go"
    user_options: ClassVar[list[tuple[str, str | None, str | None]]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mopslock-lib-") as scratch:
            given = prebuilt()
            built = Path() if WITHOUT_LIBRARIES else given or build_from_checkout(Path(scratch))
            module = module_from(given)
            for name in FILES:
                # Renamed into place: a process that has the old one loaded, or runs it, keeps it.
                target = self.target(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                fresh = target.with_name(name + ".new")
                shutil.copyfile((module if name in MODULE else built) / name, fresh)
                fresh.chmod(0o644 if name in MODULE else 0o755)
                fresh.replace(target)

    def target(self, name: str) -> Path:
        """An editable install finds them in the source tree, a wheel where it is put together."""
        top = HERE / "src" if self.editable_mode else Path(str(self.build_lib))
        return top / "mopslock" / ("_bin" if name == COMMAND else "_lib") / name

    # The rest is what setuptools asks of the parts of a build.

    def get_outputs(self) -> list[str]:
        return [str(self.target(name)) for name in FILES]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        return []


def prebuilt() -> Path | None:
    """The directory that the environment names, if it names one."""
    value = os.environ.get(PREBUILT)
    if not value:
        return None
    problems = [] if Path(value).is_absolute() else [f"{value} is not an absolute path"]
    problems += [f"there is no {name} in it" for name in BUILT if not (Path(value) / name).is_file()]
    if problems:
        fail(
            f"{PREBUILT}={value} does not have what is to be packed:",
            problems,
            ["build it with `make python`; it is in bin/python-parts then", f"unset {PREBUILT}"],
        )
    return Path(value)


def module_from(given: Path | None) -> Path:
    """Where the module is: among what was built before, or in the checkout."""
    for folder in (given, MODULE_FROM):
        if folder is not None and all((folder / name).is_file() for name in MODULE):
            return folder
    fail(
        "the WASM module is missing:",
        [f"there is no {MODULE_FROM / MODULE[0]} with its SHA-256, so {HERE} is not in a checkout of the repository"],
        [f"put {' and '.join(MODULE)} into the directory that {PREBUILT} names", INSTALL_A_WHEEL],
    )


def build_from_checkout(scratch: Path) -> Path:
    if problems := missing():
        fail(
            "the shared libraries cannot be built here:",
            problems,
            [PROVIDE, INSTALL_A_WHEEL, SET_PREBUILT, DO_WITHOUT],
        )
    # Options of an outer make are not for this one.
    environment = {k: v for k, v in build_environment().items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "-C", str(GO_MOD.parent), "python-parts", f"GO={go()}", f"PARTS={scratch}"]
    print(shlex.join(command), flush=True)
    status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        fail(
            f"make ended with status {status}; what it said is above.",
            [shlex.join(command)],
            ["mend that, and repeat", INSTALL_A_WHEEL, SET_PREBUILT],
        )
    return scratch


def missing() -> list[str]:
    """All that keeps the libraries from being built, in words."""
    if sys.platform != "linux":
        return [f"bindings/c builds shared libraries on Linux, and this is {sys.platform}"]
    if not (SOURCES / "Makefile").is_file() or not GO_MOD.is_file():
        return [
            f"the checkout is missing: {HERE} is not bindings/python of the mopslock repository, "
            "whose Go sources the libraries are built from (an sdist does not have them)"
        ]
    problems = missing_of_go()
    if shutil.which("make") is None:
        problems.append("make is missing")
    if shutil.which("nm") is None:
        problems.append("nm is missing: install binutils")
    return problems


def missing_of_go() -> list[str]:
    match = re.search(r"^go (\d+)\.(\d+)", GO_MOD.read_text(), re.MULTILINE)
    if match is None:
        return [f"{GO_MOD} does not say which Go it needs"]
    need = f"{match[1]}.{match[2]}"
    if shutil.which(go()) is None:
        return [f"Go {need} or newer is missing: there is no command {go()!r} on PATH"]
    # In the module's directory the go command changes to a newer toolchain where it can.
    asked = subprocess.run(
        [go(), "env", "-json", "GOVERSION", "CC"],
        cwd=SOURCES,
        env=build_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        return [f"Go {need} or newer is missing: `{go()} env` says {asked.stderr.strip()}"]
    answer = json.loads(asked.stdout)
    have = re.match(r"go(\d+)\.(\d+)", answer["GOVERSION"])  # "devel go1.27-..." is a developer's business
    if have and tuple(map(int, have.groups())) < tuple(map(int, match.groups())):
        return [f"Go {need} or newer is missing: {go()} is {answer['GOVERSION']}"]
    compiler = (shlex.split(answer["CC"]) or ["gcc"])[0]
    if shutil.which(compiler) is None:
        return [f"a C compiler is missing: there is no command {compiler!r} on PATH (CC names another)"]
    return []


def go() -> str:
    return os.environ.get("GO") or "go"


def build_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "1"}


class Build(build):
    """A build in a fresh directory, so that no file of an earlier one gets into a wheel."""

    sub_commands: ClassVar = [*build.sub_commands, ("build_libraries", None)]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = tempfile.mkdtemp(prefix="mopslock-build-")
        atexit.register(shutil.rmtree, self.build_base, ignore_errors=True)


class BdistWheel(bdist_wheel):
    """A wheel for one platform, or without libraries for all, and for every Python there."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    """Not pure if it has libraries, which are for one platform."""

    def has_ext_modules(self) -> bool:
        return not WITHOUT_LIBRARIES


setup(
    distclass=BinaryDistribution,
    cmdclass={"build": Build, "build_libraries": BuildLibraries, "bdist_wheel": BdistWheel},
)

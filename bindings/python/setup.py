"""Adds libmopslock-core and the WASM module to the package. pyproject.toml has the rest.

The library is Go: `make lib` of the checkout builds it, so a build needs the checkout, Go, a C compiler and make. Or
MOPSLOCK_LIB_DIR is a directory in which it was built before. Python loads it by ctypes, so one wheel serves every
Python of a platform: its tag is py3-none-PLATFORM.

From an sdist, on musl, macOS and Windows, and with MOPSLOCK_ENGINE=wasm, a build makes a wheel that has the WASM module
alone, needs wasmtime, and is for every platform. MOPSLOCK_ENGINE=native has the library built all the same.
"""

import gzip
import os
import re
import shutil
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Distribution, setup
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import building  # noqa: E402

PREBUILT = "MOPSLOCK_LIB_DIR"
IS_SDIST = (HERE / "PKG-INFO").is_file()
ENGINE = os.environ.get("MOPSLOCK_ENGINE")
TRIED = sys.platform == "linux" and "musl" not in str(sysconfig.get_config_var("HOST_GNU_TYPE"))
"""Systems on which the library has been built and loaded. musl loads none that Go has made."""
PURE = ENGINE == "wasm" or (ENGINE != "native" and not os.environ.get(PREBUILT) and (IS_SDIST or not TRIED))
SYSTEM = os.environ.get("MOPSLOCK_PLATFORM", sys.platform)  # as win32 or windows-amd64
LIBRARY = "libmopslock-core" + {"dar": ".dylib", "win": ".dll"}.get(SYSTEM[:3], ".so")
MODULE = ("mopslock.wasm", "mopslock.wasm.sha256")
MODULE_FROM = (HERE if IS_SDIST else HERE.parent.parent) / "wasm"
BUILT = () if PURE else (LIBRARY,)
FILES = (*BUILT, *MODULE)
"""What the package has in mopslock/_lib."""

VERSION = re.findall(r'"(.+)"', (HERE / "src" / "mopslock" / "_version.py").read_text())[-1]


def one_of(variable: str, *values: str) -> str:
    return "(" + " or ".join(f"{variable} == '{value}'" for value in values) + ")"


SYSTEMS = one_of("sys_platform", "linux", "darwin", "win32")
MACHINES = one_of("platform_machine", "x86_64", "AMD64", "aarch64", "arm64", "ARM64")
ELSEWHERE = (
    "(sys_platform != 'linux' or (platform_machine != 'x86_64' and platform_machine != 'aarch64'))"
    " and (sys_platform != 'win32' or (platform_machine != 'AMD64' and platform_machine != 'ARM64'))"
)
REQUIRES = [
    "msgpack>=1.0",
    f"mopslock-host=={VERSION}; {SYSTEMS} and {MACHINES}",
    # A lock file has one list for all wheels. This is not asked for where there is a wheel with the library.
    "wasmtime>=45" + ("" if PURE else f"; {ELSEWHERE}"),
]

REMEDIES = [
    "provide that (Go, gcc, make, binutils), and in a checkout: pip install ./bindings/command ./bindings/python",
    "install a wheel, mopslock-VERSION-py3-none-PLATFORM.whl: it has the library and needs none of this",
    f"set {PREBUILT} to the absolute path of a directory that has {LIBRARY}; `make lib` leaves it in bin/lib",
    "set MOPSLOCK_ENGINE=wasm, which needs none of this",
]


class BuildLibrary(Command):
    """The step of a build that puts the library and the module into mopslock/_lib."""

    description = "build the shared library from the checkout, by Go"
    user_options: ClassVar[list[tuple[str, str | None, str | None]]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mopslock-lib-") as scratch:
            given = building.named(PREBUILT, *BUILT)
            built = Path() if PURE else given or build_from_checkout(Path(scratch))
            module = module_from(given)
            for name in FILES:
                # Renamed into place: a process that has the old one loaded keeps it.
                target = self.target(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                fresh = target.with_name(name + ".new")
                shutil.copyfile((module if name in MODULE else built) / name, fresh)
                fresh.chmod(0o644 if name in MODULE else 0o755)
                fresh.replace(target)

    def target(self, name: str) -> Path:
        """An editable install finds them in the source tree, a wheel where it is put together."""
        return (HERE / "src" if self.editable_mode else Path(str(self.build_lib))) / "mopslock" / "_lib" / name

    # The rest is what setuptools asks of the parts of a build.

    def get_outputs(self) -> list[str]:
        return [str(self.target(name)) for name in FILES]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        return []


def module_from(given: Path | None) -> Path:
    """Where the module is: among what was built before, or in the checkout or the sdist."""
    folders = [
        folder for folder in (given, MODULE_FROM) if folder and all((folder / name).is_file() for name in MODULE)
    ]
    if not folders:
        problem = f"there is no {MODULE_FROM / MODULE[0]} with its SHA-256: {HERE} is in no checkout, and is no sdist"
        building.fail("the WASM module is missing:", [problem], REMEDIES[1:3])
    return folders[0]


def build_from_checkout(scratch: Path) -> Path:
    if problems := building.missing("make", "nm", cgo=True):
        building.fail("the shared library cannot be built here:", problems, REMEDIES)
    building.make("-C", "bindings/c", "shared", f"LIB={scratch}", remedies=REMEDIES[1:])
    return scratch


class Build(building.Build):
    sub_commands: ClassVar = [*building.Build.sub_commands, ("build_library", None)]


class Sdist(sdist):
    """Python and the module. The same sources make the same bytes, with SOURCE_DATE_EPOCH in the environment."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        wasm = Path(base_dir) / "wasm"
        wasm.mkdir()
        for name in MODULE:
            shutil.copyfile(module_from(building.named(PREBUILT, *BUILT)) / name, wasm / name)

    def run(self) -> None:
        super().run()
        for file in self.archive_files or []:
            self.pack_again(Path(file))

    def pack_again(self, path: Path) -> None:
        """Without what differs from one build to the next: times, and whose files they are."""
        time, fresh = int(os.environ.get("SOURCE_DATE_EPOCH", "0")), path.with_suffix(".new")
        with (
            tarfile.open(path) as old,
            open(fresh, "wb") as file,
            gzip.GzipFile("", "wb", 9, file, time) as packed,
            tarfile.open(fileobj=packed, mode="w") as tar,
        ):
            for found in old.getmembers():
                member = tarfile.TarInfo(found.name)
                member.type, member.size, member.mtime = found.type, found.size, time
                member.mode = 0o755 if found.isdir() else 0o644
                tar.addfile(member, old.extractfile(found))
        fresh.replace(path)


class BinaryDistribution(Distribution):
    """Not pure if it has the library, which is for one platform."""

    def has_ext_modules(self) -> bool:
        return not PURE


setup(
    distclass=BinaryDistribution,
    install_requires=REQUIRES,
    cmdclass={"build": Build, "build_library": BuildLibrary, "bdist_wheel": building.BdistWheel, "sdist": Sdist},
)

"""Packs the command as a script of its wheel, so that pip puts it where it puts scripts. pyproject.toml has the rest.

The command is static and needs no Python: a system has one wheel, for every C library of Linux. Go builds it in the
checkout. Or MOPSLOCK_BINARY names one that was built before. MOPSLOCK_PLATFORM is the system that it is for, as Go
names it; without that it is for this machine.
"""

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Command, Distribution, setup

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
import building  # noqa: E402

TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    "darwin-amd64": "macosx_12_0_x86_64",  # the oldest that Go 1.26 builds for
    "darwin-arm64": "macosx_12_0_arm64",
    "windows-amd64": "win_amd64",
    "windows-arm64": "win_arm64",
}
BINARY, PLATFORM = "MOPSLOCK_BINARY", "MOPSLOCK_PLATFORM"


def system() -> str:
    """What the wheel is for."""
    machine = platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    here = f"{'windows' if sys.platform == 'win32' else sys.platform}-{machine}"
    asked = os.environ.get(PLATFORM) or here
    if asked != here and asked not in TAGS:
        building.fail(f"{PLATFORM}={asked}:", ["there is no such system"], [f"name one of {', '.join(TAGS)}"])
    return asked


NAME = "mopslock-host" + (".exe" if system().startswith("windows-") else "")


class BuildScripts(Command):
    """Puts the command where setuptools would put scripts, which are text."""

    user_options: ClassVar[list[tuple[str, str | None, str | None]]] = []

    def initialize_options(self) -> None:
        self.build_dir: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_scripts", "build_dir"))

    def get_source_files(self) -> list[str]:
        return []

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mopslock-host-") as scratch:
            found = building.named(BINARY) or build_from_checkout(Path(scratch))
            target = Path(str(self.build_dir)) / NAME
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, target)
            target.chmod(0o755)


def build_from_checkout(scratch: Path) -> Path:
    remedies = ["install a wheel, mopslock_host-VERSION-py3-none-PLATFORM.whl: it needs none of this"]
    remedies.append(f"set {BINARY} to the absolute path of a mopslock-host")
    if problems := building.missing("make", cgo=False):
        building.fail("the command cannot be built here:", problems, remedies)
    building.make("binaries", f"RELEASED={system()}", f"BINARIES={scratch}", remedies=remedies)
    return scratch / system() / NAME


class BdistWheel(building.BdistWheel):
    """A wheel for one system."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", TAGS.get(system()) or super().get_tag()[2]


class BinaryDistribution(Distribution):
    """Not for every system."""

    def has_ext_modules(self) -> bool:
        return True


commands: dict[str, Any] = {"build": building.Build, "build_scripts": BuildScripts, "bdist_wheel": BdistWheel}
setup(distclass=BinaryDistribution, scripts=[NAME], cmdclass=commands)

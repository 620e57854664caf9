"""What the builds of two packages share: the library's, in this folder, and the command's, in ../command."""

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

REPOSITORY = Path(__file__).resolve().parent.parent.parent
GO_MOD = REPOSITORY / "go.mod"


def fail(headline: str, problems: list[str], remedies: list[str]) -> NoReturn:
    """Ends the build with a message and, since this is no bug, without a traceback."""
    lines = ["", f"mopslock: {headline}", *(f"  - {p}" for p in problems), "What you can do:"]
    raise SystemExit("\n".join([*lines, *(f"  - {r}" for r in remedies)]))


def named(variable: str, *names: str) -> Path | None:
    """What a variable of the environment names, if it is set: a file, or a directory that has files of these names."""
    value = os.environ.get(variable)
    if not value:
        return None
    path = Path(value)
    problems = [] if path.is_absolute() else [f"{value} is not an absolute path"]
    problems += [f"there is no {name} in it" for name in names if not (path / name).is_file()]
    problems += [] if names or path.is_file() else ["there is no such file"]
    if problems:
        fail(f"{variable}={value} does not have what is to be packed:", problems, [f"unset {variable}", "or mend it"])
    return path


def go() -> str:
    return os.environ.get("GO") or "go"


def missing(*tools: str, cgo: bool) -> list[str]:
    """All that keeps Go from building, in words."""
    if not GO_MOD.is_file():
        return [f"the checkout is missing: {REPOSITORY} is not the mopslock repository, which has the Go sources"]
    return _missing_of_go(cgo) + [f"{tool} is missing" for tool in tools if shutil.which(tool) is None]


def _missing_of_go(cgo: bool) -> list[str]:
    match = re.search(r"^go (\d+)\.(\d+)", GO_MOD.read_text(), re.MULTILINE)
    if match is None:
        return [f"{GO_MOD} does not say which Go it needs"]
    need = f"{match[1]}.{match[2]}"
    if shutil.which(go()) is None:
        return [f"Go {need} or newer is missing: there is no command {go()!r} on PATH"]
    # In the module's directory the go command changes to a newer toolchain where it can.
    asked = subprocess.run(
        [go(), "env", "-json", "GOVERSION", "CC"], cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if asked.returncode != 0:
        return [f"Go {need} or newer is missing: `{go()} env` says {asked.stderr.strip()}"]
    answer = json.loads(asked.stdout)
    have = re.match(r"go(\d+)\.(\d+)", answer["GOVERSION"])  # "devel go1.27-..." is a developer's business
    if have and tuple(map(int, have.groups())) < tuple(map(int, match.groups())):
        return [f"Go {need} or newer is missing: {go()} is {answer['GOVERSION']}"]
    compiler = (shlex.split(answer["CC"]) or ["gcc"])[0]
    if cgo and shutil.which(compiler) is None:
        return [f"a C compiler is missing: there is no command {compiler!r} on PATH (CC names another)"]
    return []


def make(*words: str, remedies: list[str]) -> None:
    """Has the checkout's make build something. Options of an outer make are not for this one."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "-C", str(REPOSITORY), f"GO={go()}", *words]
    print(shlex.join(command), flush=True)
    status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        said = f"make ended with status {status}; what it said is above."
        fail(said, [shlex.join(command)], ["mend that, and repeat", *remedies])


class Build(build):
    """A build in a fresh directory, so that no file of an earlier one gets into a wheel."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = tempfile.mkdtemp(prefix="mopslock-build-")
        atexit.register(shutil.rmtree, self.build_base, ignore_errors=True)


class BdistWheel(bdist_wheel):
    """A wheel for every Python of its platform, of the same bytes whatever the umask of the checkout."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]

    def write_wheelfile(self, *args: Any, **options: Any) -> None:
        super().write_wheelfile(*args, **options)
        for file in Path(str(self.bdist_dir)).rglob("*"):
            if file.is_file():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)

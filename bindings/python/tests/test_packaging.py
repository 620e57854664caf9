"""What the wheels of library and command have in them, what it takes to build one, and what is said when that is
missing.

Nothing is built by Go here: `make shared` is what makes the library that this Python has loaded. pip never asks a
registry for anything, but for msgpack when a wheel is installed for another Python.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PACKAGE = Path(__file__).resolve().parent.parent
COMMAND_PACKAGE = PACKAGE.parent / "command"
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
MODULE = {"mopslock.wasm", "mopslock.wasm.sha256"}
LIBRARIES = {"libmopslock-core" + SUFFIX}
FILES = LIBRARIES | MODULE
COMMAND = "mopslock-host"
PLACES = {f"mopslock/_lib/{name}" for name in FILES}
PURE_PLACES = {f"mopslock/_lib/{name}" for name in MODULE}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the library is built on Linux")
VERSION = importlib.metadata.version("mopslock")


def installed(folder: Path) -> Path:
    """What the package of this Python was packed from, in a folder."""
    spec = importlib.util.find_spec("mopslock")
    assert spec
    assert spec.origin
    package = Path(spec.origin).parent
    assert {f.name for f in (package / "_lib").iterdir()} == FILES
    for file in (package / "_lib").iterdir():
        (folder / file.name).symlink_to(file)
    return folder


UNSET = ("MOPSLOCK_LIB_DIR", "MOPSLOCK_ENGINE", "MOPSLOCK_BINARY", "MOPSLOCK_PLATFORM", "MOPSLOCK_KEEPER", "GO", "CC")


def environment(**changed: str) -> dict[str, str]:
    """That of this process, without what a build would take from it."""
    return {k: v for k, v in os.environ.items() if k not in UNSET} | changed


Done = subprocess.CompletedProcess[str]


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = PACKAGE) -> Done:
    return subprocess.run(
        [str(c) for c in command], env=env or environment(), cwd=cwd, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def build(what: Path, to: Path, kind: str = "wheel", first: str = "", **changed: str) -> dict[str, bytes]:
    """As pip does, which would begin a process more. Returns the files of the wheel."""
    hook = f"{first}\nimport sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    done = run(sys.executable, "-c", hook, to, env=environment(**changed), cwd=what)
    assert done.returncode == 0, done.stdout
    return built(to) if kind != "sdist" else {}


def built(folder: Path) -> dict[str, bytes]:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def libraries(files: dict[str, bytes]) -> dict[str, str]:
    return {n.rpartition("/")[2]: c.decode() for n, c in files.items() if "/_lib/" in n}


SOURCES = {str(f.relative_to(PACKAGE / "src")) for f in (PACKAGE / "src").rglob("*.py")}
FAKES = {name: "fake " + name for name in FILES}


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """Prebuilt libraries and a module that are small."""
    folder = tmp_path / "fakes"
    folder.mkdir()
    for name, content in FAKES.items():
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package alone, copied out of its checkout."""
    left = shutil.ignore_patterns("__pycache__", "_lib", "*.egg-info", "tests", "LICENSE", "build")
    return Path(shutil.copytree(PACKAGE, tmp_path / "copied", ignore=left))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the libraries that this Python loads."""
    folder = tmp_path_factory.mktemp("wheel")
    build(PACKAGE, folder, MOPSLOCK_LIB_DIR=str(installed(tmp_path_factory.mktemp("parts"))))
    (found,) = folder.glob("*.whl")
    return found


HOST = {"msgpack", "mopslock-host"}
NATIVE = {
    ("linux", "x86_64"): HOST,
    ("linux", "aarch64"): HOST,
    ("darwin", "arm64"): HOST | {"wasmtime"},
    ("darwin", "x86_64"): HOST | {"wasmtime"},
    ("win32", "AMD64"): HOST,
    ("win32", "ARM64"): HOST,
    ("linux", "riscv64"): {"msgpack", "wasmtime"},
    ("freebsd14", "amd64"): {"msgpack", "wasmtime"},
}
"""What is installed beside a wheel with the library, or what a lock file made from its list has elsewhere."""
PURE = {system: needed | {"wasmtime"} for system, needed in NATIVE.items()}


def needs(metadata: str) -> dict[tuple[str, str], set[str]]:
    """What each system would install beside a wheel."""
    found = [Requirement(line) for line in re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)]
    assert {str(r.specifier) for r in found if r.name == "mopslock-host"} == {"==" + VERSION}
    return {
        (system, machine): {
            r.name for r in found
            if r.marker is None or r.marker.evaluate({"sys_platform": system, "platform_machine": machine, "extra": ""})
        }
        for system, machine in NATIVE
    }  # fmt: skip


@pytest.mark.slow
def test_wheel(wheel: Path) -> None:
    """One wheel for every Python of a platform: both engines, types and modules, and nothing else."""
    assert re.fullmatch(rf"mopslock-{re.escape(VERSION)}-py3-none-(linux|macosx)_\w+\.whl", wheel.name)
    files = built(wheel.parent)
    info = re.compile(r"mopslock-[^/]+\.dist-info/(METADATA|WHEEL|RECORD|top_level\.txt|licenses/LICENSE)")
    rest = {n for n in files if not info.fullmatch(n)}
    assert rest == SOURCES | PLACES | {"mopslock/py.typed"}
    content = {name.rpartition("/")[2]: text.decode() for name, text in files.items() if ".dist-info/" in name}
    assert "\nRoot-Is-Purelib: false\n" in content["WHEEL"]
    assert needs(content["METADATA"]) == NATIVE
    extras = set(re.findall(r"^Provides-Extra: (.+)$", content["METADATA"], re.MULTILINE))
    assert extras == {"fsspec", "mops", "test", "wasm", "watch"}


@pytest.mark.slow
def test_modes_in_a_wheel_are_not_the_checkouts(fakes: Path, copied: Path, tmp_path: Path) -> None:
    """Another build gets the same bytes, with any umask."""
    for file in copied.rglob("*"):
        file.chmod(file.stat().st_mode & 0o700)
    build(copied, tmp_path, MOPSLOCK_LIB_DIR=str(fakes))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert {mode for name, mode in modes.items() if not name.endswith("/RECORD")} == {0o644, 0o755}


@pytest.mark.slow
def test_a_wheel_without_libraries_is_for_every_platform(tmp_path: Path) -> None:
    """It takes nothing but the checkout to build one, and its leases need wasmtime, whose absence is said."""
    files = build(PACKAGE, tmp_path, MOPSLOCK_ENGINE="wasm", PATH=str(tmp_path))
    wheel = tmp_path / f"mopslock-{VERSION}-py3-none-any.whl"
    assert {n for n in files if "dist-info" not in n} == SOURCES | {"mopslock/py.typed"} | PURE_PLACES
    assert needs(files[f"mopslock-{VERSION}.dist-info/METADATA"].decode()) == PURE
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "there")
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'there')!r}); import mopslock"
    for more, said in {"": "held", "sys.modules['wasmtime'] = None": "pip install 'mopslock[wasm]'"}.items():
        if said == "held":
            pytest.importorskip("wasmtime")
        use = "with mopslock.lease(mopslock.stores.Memory(), 'n'): print('held', mopslock.__file__)"
        done = run(sys.executable, "-c", f"{program}\n{more}\n{use}", cwd=tmp_path, env=environment(MOPSLOCK_LIB=""))
        assert said in done.stdout, done.stdout
        assert str(tmp_path) in done.stdout


ELSEWHERE = {
    "musl": """
import sysconfig
real = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: "x86_64-alpine-linux-musl" if name == "HOST_GNU_TYPE" else real(name)
""",
    "macOS": """
import setuptools, sys, sysconfig
sysconfig.get_config_vars()
sys.platform = "darwin"
""",
}


@pytest.mark.parametrize("system", ELSEWHERE)
def test_a_build_has_no_library_where_none_was_ever_loaded(system: str, tmp_path: Path) -> None:
    """musl refuses it, and nobody has built it on macOS."""
    assert set(build(PACKAGE, tmp_path, first=ELSEWHERE[system], PATH=str(tmp_path))) >= PURE_PLACES
    assert [wheel.name for wheel in tmp_path.glob("*.whl")] == [f"mopslock-{VERSION}-py3-none-any.whl"]


def test_prebuilt_libraries(fakes: Path, copied: Path, tmp_path: Path) -> None:
    """MOPSLOCK_LIB_DIR needs neither Go nor checkout, and beats what lies in the source tree. What an earlier build
    had is in no later wheel."""
    stale, module = copied / "src" / "mopslock" / "_lib", copied / "src" / "mopslock" / "removed.py"
    stale.mkdir()
    for name in [*FILES, "libstale.so"]:
        (stale / name).write_text("stale")
    module.write_text("")
    for present in (True, False):
        files = build(copied, tmp_path / str(present), MOPSLOCK_LIB_DIR=str(fakes), PATH=str(tmp_path))
        assert libraries(files) == FAKES
        assert ("mopslock/removed.py" in files) is present
        module.unlink(missing_ok=True)


def test_editable_has_the_libraries_in_the_source_tree(fakes: Path, copied: Path, tmp_path: Path) -> None:
    content = build(copied, tmp_path, "editable", MOPSLOCK_LIB_DIR=str(fakes))
    assert {f.name for f in (copied / "src" / "mopslock" / "_lib").iterdir()} == FILES
    assert str(copied / "src").encode() in b"".join(c for n, c in content.items() if n.endswith(".pth"))
    assert libraries(content) == {}


# What is missing, and what is said. A failing build ends with a message that
# names all of it and the ways out; a traceback would hide it.


def assert_refused(what: Path, to: Path, *said: str, **changed: str) -> None:
    """The step of the build that makes the library, or the command, is refused."""
    done = run(sys.executable, "setup.py", "build", env=environment(**changed), cwd=what)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    for text in said:
        assert text in done.stdout, done.stdout


def tools(tmp_path: Path, **instead: str) -> str:
    """A PATH with what a build needs, some of it replaced by scripts; an empty one is missing."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in ("go", "gcc", "make", "nm", "cp", "sh", "mkdir"):
        if tool not in instead:
            found = shutil.which(tool)
            assert found, f"{tool} is needed for this test"
            (folder / tool).symlink_to(found)
        elif instead[tool]:
            (folder / tool).write_text(f"#!/bin/sh\n{instead[tool]}\n")
            (folder / tool).chmod(0o755)
    return str(folder)


REFUSED: list[tuple[dict[str, str], list[str]]] = [
    ({"go": ""}, ["Go 1.26 or newer is missing", "no command 'go'"]),
    ({"gcc": ""}, ["a C compiler is missing", "'gcc'"]),
    ({"go": "", "make": "", "nm": ""}, ["Go 1.26 or newer is missing", "make is missing", "nm is missing"]),
    ({"go": """echo '{"GOVERSION": "go1.19.2", "CC": "gcc"}'"""}, ["Go 1.26 or newer is missing: go is go1.19.2"]),
    ({"go": "echo toolchain not available >&2; exit 1"}, ["`go env` says toolchain not available"]),
    ({"make": "echo some compiler error; exit 2"}, ["some compiler error", "make ended with status 2"]),
]


@on_linux
@pytest.mark.parametrize(("instead", "said"), REFUSED, ids="-".join)
def test_missing_and_unfit_tools(tmp_path: Path, instead: dict[str, str], said: list[str]) -> None:
    # CC is what Go was built to call; a toolchain made elsewhere may call cc.
    path, more = tools(tmp_path, **instead), ["MOPSLOCK_LIB_DIR", "install a wheel"]
    more += ["set MOPSLOCK_ENGINE=wasm"] if "make" not in instead else []
    assert_refused(PACKAGE, tmp_path, *said, *more, PATH=path, CC="gcc")


@on_linux
def test_without_anything_prebuilt_make_is_asked_for_the_libraries(tmp_path: Path, fakes: Path) -> None:
    """Whatever lies in the source tree."""
    make = f'test "$1 $3 $4 $5 $6" = "-C GO=go -C bindings/c shared" && cp {fakes}/* "${{7#LIB=}}"'
    files = build(PACKAGE, tmp_path, PATH=tools(tmp_path, make=make), CC="gcc")
    for name in LIBRARIES:
        assert files[f"mopslock/_lib/{name}"].decode() == FAKES[name]
    assert files["mopslock/_lib/mopslock.wasm"] == (PACKAGE.parent.parent / "wasm" / "mopslock.wasm").read_bytes()


@on_linux
def test_without_the_checkout_and_from_an_sdist(copied: Path, tmp_path: Path) -> None:
    """An sdist has the module and no Go sources: it becomes a pure wheel. The same sources make the same bytes."""
    assert_refused(copied, tmp_path, "the checkout is missing", "install a wheel", "MOPSLOCK_LIB_DIR")
    folders = [tmp_path / "once", tmp_path / "again"]
    for folder in folders:
        build(PACKAGE, folder, "sdist", SOURCE_DATE_EPOCH="1767225600")
    (sdist,), (again,) = (folder.glob("*.tar.gz") for folder in folders)
    assert sdist.read_bytes() == again.read_bytes()
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "_lib/" in name]
        archive.extractall(tmp_path)
    assert_refused(tmp_path / f"mopslock-{VERSION}", tmp_path, "the checkout is missing", MOPSLOCK_ENGINE="native")
    files = build(tmp_path / f"mopslock-{VERSION}", tmp_path / "pure", PATH=str(tmp_path))
    assert {n for n in files if "dist-info" not in n} == SOURCES | {"mopslock/py.typed"} | PURE_PLACES
    assert needs(files[f"mopslock-{VERSION}.dist-info/METADATA"].decode()) == PURE


def test_wrong_prebuilt_folder(tmp_path: Path) -> None:
    """It is an error, and no silent build of something else."""
    missing = "there is no libmopslock-core" + SUFFIX
    assert_refused(PACKAGE, tmp_path, missing, MOPSLOCK_LIB_DIR=str(tmp_path))
    assert_refused(PACKAGE, tmp_path, "bin/lib is not an absolute path", MOPSLOCK_LIB_DIR="bin/lib")


# The wheel of the command.

TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    "darwin-arm64": "macosx_12_0_arm64",
    "windows-arm64": "win_arm64",
}


@pytest.mark.slow
@pytest.mark.parametrize("system", TAGS)
def test_the_wheel_of_the_command(system: str, tmp_path: Path) -> None:
    """It has the command alone, as a script that may be run, and no tool is needed to pack one that was built."""
    binary = tmp_path / "some-name"
    binary.write_text("fake")
    files = build(COMMAND_PACKAGE, tmp_path, MOPSLOCK_BINARY=str(binary), MOPSLOCK_PLATFORM=system, PATH=str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"mopslock_host-{VERSION}-py3-none-{TAGS[system]}.whl"
    place = f"mopslock_host-{VERSION}.data/scripts/mopslock-host" + (".exe" if "windows" in system else "")
    assert {n for n in files if "dist-info" not in n} == {place}
    assert files[place] == b"fake"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo(place).external_attr >> 16 & 0o777 == 0o755


@on_linux
def test_the_command_is_built_by_go_for_the_system_that_is_asked_for(tmp_path: Path) -> None:
    make = """test "$1 $3 $4 $5" = "-C GO=go binaries RELEASED=windows-amd64" && place="${6#BINARIES=}/windows-amd64" &&
        mkdir "$place" && cp "$0" "$place/mopslock-host.exe"
    """
    path = tools(tmp_path, make=make, gcc="")
    files = build(COMMAND_PACKAGE, tmp_path, PATH=path, MOPSLOCK_PLATFORM="windows-amd64")
    assert [name for name, content in files.items() if content.startswith(b"#!/bin/sh")]


REFUSED_COMMANDS: list[tuple[dict[str, str], list[str]]] = [
    ({"MOPSLOCK_BINARY": "/nowhere/at-all"}, ["there is no such file"]),
    ({"MOPSLOCK_BINARY": "bin/mopslock-host"}, ["is not an absolute path"]),
    ({"MOPSLOCK_PLATFORM": "plan9-amd64"}, ["there is no such system", "windows-arm64"]),
    ({"PATH": "/nowhere"}, ["the command cannot be built here", "no command 'go'", "install a wheel"]),
]


@pytest.mark.parametrize(("changed", "said"), REFUSED_COMMANDS)
def test_what_the_command_cannot_be_packed_from(changed: dict[str, str], said: list[str], tmp_path: Path) -> None:
    assert_refused(COMMAND_PACKAGE, tmp_path, *said, **changed)


# The wheel in every Python at hand.


def pythons() -> list[str]:
    """This Python, and every other that PATH has and that can make environments."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(10, 15):
        command = shutil.which(f"python3.{minor}")
        if command and (3, minor) not in found and run(command, "-c", "import venv", cwd=Path("/")).returncode == 0:
            found[3, minor] = command
    return [found[version] for version in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("python", pythons(), ids=lambda p: Path(p).name)
def test_wheel_in_every_python(python: str, wheel: Path, tmp_path: Path) -> None:
    """The same files are installed and imported, and the examples of both READMEs run, with keeper and library."""
    build(COMMAND_PACKAGE, tmp_path, MOPSLOCK_BINARY=str(Path(sysconfig.get_path("scripts")) / COMMAND))
    assert run(python, "-m", "venv", "--without-pip", tmp_path / "env").returncode == 0
    inside = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", inside, "install", "-q")
    done = run(*pip, "--only-binary", ":all:", wheel, *tmp_path.glob("*.whl"))
    assert done.returncode == 0, done.stdout
    store = environment(MOPSLOCK_STORE=(tmp_path / "leases").as_uri())
    for readme, said in EXAMPLES.items():
        code = example(readme) + OWN
        done = run(inside, "-I", "-W", "error", "-c", code, cwd=tmp_path, env=store)
        assert done.stdout == f"{said}{VERSION} True\n", f"{readme}: {done.stdout}"
        newest = min((tmp_path / "leases" / "nightly-report" / "_mopslock").iterdir())
        assert '"state": "released"' in (newest / "v").read_text()


OWN = """
import importlib.metadata, pathlib, sys
with mopslock.lease(mopslock.stores.Memory(), "n"):
    print(importlib.metadata.version("mopslock"), pathlib.Path(mopslock.__file__).is_relative_to(sys.prefix))
"""
EXAMPLES = {
    PACKAGE.parent.parent / "README.md": "only one of us runs this\n",
    PACKAGE / "README.md": "".join(f"only one of us does part {part}\n" for part in range(3)),
}


def example(readme: Path) -> str:
    """The first example of a document, as it stands there."""
    match = re.search(r"^```python\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    assert match
    return match[1]

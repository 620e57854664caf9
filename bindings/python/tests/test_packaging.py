"""What a wheel has in it, what it takes to build one, and what is said when that is missing.

A real build by Go is made once; every other one takes libraries that were built before. pip never asks a registry
for anything here, but for msgpack when a wheel is installed for another Python.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
MAKEFILE = PACKAGE.parent / "c" / "Makefile"
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
LIBRARIES = {"libmopslock" + SUFFIX, "libmopslock-core" + SUFFIX}


def project_version() -> str:
    match = re.search(r'^version = "([^"]+)"', (PACKAGE / "pyproject.toml").read_text(), re.MULTILINE)
    assert match
    return match[1]


def installed_libraries() -> Path:
    """The folder of the libraries that this Python loads."""
    spec = importlib.util.find_spec("mopslock")
    assert spec
    assert spec.origin
    folder = Path(spec.origin).parent / "_lib"
    assert {f.name for f in folder.iterdir()} == LIBRARIES
    return folder


def environment(**changed: str) -> dict[str, str]:
    """That of this process, without what a build would take from it."""
    return {k: v for k, v in os.environ.items() if k not in ("MOPSLOCK_LIB_DIR", "GO", "CC")} | changed


Done = subprocess.CompletedProcess[str]


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = PACKAGE) -> Done:
    return subprocess.run(
        [str(c) for c in command],
        env=env or environment(),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def build(what: Path, to: Path, env: Mapping[str, str]) -> Done:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps")
    return run(*pip, "--no-build-isolation", "-w", to, what, env=env)


def the_wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """Prebuilt libraries that are small."""
    folder = tmp_path / "fakes"
    folder.mkdir()
    for name in LIBRARIES:
        (folder / name).write_text("fake " + name)
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package alone, copied out of its checkout."""
    left = shutil.ignore_patterns("__pycache__", "_lib", "*.egg-info", "tests", "LICENSE")
    return Path(shutil.copytree(PACKAGE, tmp_path / "copied", ignore=left))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the libraries that this Python loads."""
    folder = tmp_path_factory.mktemp("wheel")
    done = build(PACKAGE, folder, environment(MOPSLOCK_LIB_DIR=str(installed_libraries())))
    assert done.returncode == 0, done.stdout
    return the_wheel(folder)


def test_versions_agree() -> None:
    match = re.search(r"^VERSION \?= (\S+)$", MAKEFILE.read_text(), re.MULTILINE)
    assert match
    assert match[1] == project_version() == importlib.metadata.version("mopslock")


@pytest.mark.slow
def test_wheel(wheel: Path) -> None:
    """One wheel for every Python of a platform: libraries, types and modules, and nothing else."""
    assert re.fullmatch(rf"mopslock-{re.escape(project_version())}-py3-none-(linux|macosx)_\w+\.whl", wheel.name)
    names = set(files(wheel))
    assert {f"mopslock/_lib/{name}" for name in LIBRARIES} | {"mopslock/py.typed"} <= names
    modules = {str(f.relative_to(PACKAGE / "src")) for f in (PACKAGE / "src").rglob("*.py")}
    info = re.compile(r"mopslock-[^/]+\.dist-info/(METADATA|WHEEL|RECORD|top_level\.txt|licenses/LICENSE)")
    rest = {n for n in names if not info.fullmatch(n)}
    assert rest == modules | {f"mopslock/_lib/{name}" for name in LIBRARIES} | {"mopslock/py.typed"}


@pytest.mark.slow
def test_wheel_metadata(wheel: Path) -> None:
    content = {name.rpartition("/")[2]: text.decode() for name, text in files(wheel).items() if ".dist-info/" in name}
    assert "\nRoot-Is-Purelib: false\n" in content["WHEEL"]
    assert re.findall(r"^Requires-Dist: ([^;\n]+)$", content["METADATA"], re.MULTILINE) == ["msgpack>=1.0"]
    extras = set(re.findall(r"^Provides-Extra: (.+)$", content["METADATA"], re.MULTILINE))
    assert extras == {"fsspec", "mops", "test"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are built on Linux")
def test_built_by_go(tmp_path: Path) -> None:
    """Without anything prebuilt it is Go that makes the libraries, whatever lies in the source tree."""
    done = build(PACKAGE, tmp_path, environment())
    assert done.returncode == 0, done.stdout
    for name, content in files(the_wheel(tmp_path)).items():
        if "/_lib/" in name:
            assert content.startswith(b"\x7fELF")
            assert b"mopslock_step" in content


def test_prebuilt_libraries(fakes: Path, copied: Path, tmp_path: Path) -> None:
    """MOPSLOCK_LIB_DIR needs neither Go nor checkout, and beats what lies in the source tree."""
    stale = copied / "src" / "mopslock" / "_lib"
    stale.mkdir()
    for name in [*LIBRARIES, "libstale.so"]:
        (stale / name).write_text("stale")
    done = build(copied, tmp_path, environment(MOPSLOCK_LIB_DIR=str(fakes), PATH=str(tmp_path)))
    assert done.returncode == 0, done.stdout
    content = files(the_wheel(tmp_path))
    assert {n.rpartition("/")[2]: c.decode() for n, c in content.items() if "/_lib/" in n} == {
        name: "fake " + name for name in LIBRARIES
    }


def test_removed_module_is_in_no_later_wheel(fakes: Path, copied: Path, tmp_path: Path) -> None:
    module = copied / "src" / "mopslock" / "removed.py"
    module.write_text("")
    for present in (True, False):
        folder = tmp_path / str(present)
        done = build(copied, folder, environment(MOPSLOCK_LIB_DIR=str(fakes)))
        assert done.returncode == 0, done.stdout
        assert ("mopslock/removed.py" in files(the_wheel(folder))) is present
        module.unlink(missing_ok=True)


def test_editable_has_the_libraries_in_the_source_tree(fakes: Path, copied: Path, tmp_path: Path) -> None:
    hook = "import sys; from setuptools import build_meta; print(build_meta.build_editable(sys.argv[1]))"
    done = run(sys.executable, "-c", hook, tmp_path, env=environment(MOPSLOCK_LIB_DIR=str(fakes)), cwd=copied)
    assert done.returncode == 0, done.stdout
    assert {f.name for f in (copied / "src" / "mopslock" / "_lib").iterdir()} == LIBRARIES
    content = files(the_wheel(tmp_path))
    assert str(copied / "src").encode() in b"".join(c for n, c in content.items() if n.endswith(".pth"))
    assert not any("/_lib/" in name for name in content)


# What is missing, and what is said. A failing build ends with a message that
# names all of it and the ways out; a traceback would hide it.


def assert_refused(done: Done, *said: str) -> None:
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    for text in said:
        assert text in done.stdout, done.stdout


def tools(tmp_path: Path, *without: str) -> str:
    """A PATH with what a build needs, less some of it."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in {"go", "gcc", "make", "nm"} - set(without):
        found = shutil.which(tool)
        assert found, f"{tool} is needed for this test"
        (folder / tool).symlink_to(found)
    return str(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are built on Linux")
@pytest.mark.parametrize(
    ("without", "said"),
    [
        (["go"], ["Go 1.26 or newer is missing", "no command 'go'"]),
        (["gcc"], ["a C compiler is missing", "'gcc'"]),
        (["make"], ["make is missing"]),
        (["nm"], ["install binutils"]),
        (["go", "make", "nm"], ["Go 1.26 or newer is missing", "make is missing", "install binutils"]),
    ],
    ids=" and ".join,
)
def test_missing_tools(tmp_path: Path, without: list[str], said: list[str]) -> None:
    path = tools(tmp_path, *without)
    # CC is what Go was built to call; a toolchain made elsewhere may call cc.
    done = build(PACKAGE, tmp_path, environment(PATH=path, CC="gcc"))
    assert_refused(done, *said, "pip install ./bindings/python", "install a wheel", "MOPSLOCK_LIB_DIR")
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are built on Linux")
@pytest.mark.parametrize(
    ("go", "said"),
    [
        ("""echo '{"GOVERSION": "go1.19.2", "CC": "gcc"}'""", "Go 1.26 or newer is missing: go is go1.19.2"),
        ("echo toolchain not available >&2; exit 1", "`go env` says toolchain not available"),
    ],
    ids=["too old", "fails"],
)
def test_unfit_go(tmp_path: Path, go: str, said: str) -> None:
    path = tools(tmp_path, "go")
    script = Path(path) / "go"
    script.write_text("#!/bin/sh\n" + go + "\n")
    script.chmod(0o755)
    assert_refused(build(PACKAGE, tmp_path, environment(PATH=path)), said, "MOPSLOCK_LIB_DIR")


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are built on Linux")
def test_failing_make(tmp_path: Path) -> None:
    """What make said is shown, and that it was make."""
    path = tools(tmp_path, "make")
    script = Path(path) / "make"
    script.write_text("#!/bin/sh\necho some compiler error\nexit 2\n")
    script.chmod(0o755)
    done = build(PACKAGE, tmp_path, environment(PATH=path))
    assert_refused(done, "some compiler error", "make ended with status 2", "MOPSLOCK_LIB_DIR")


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are built on Linux")
def test_without_the_checkout(copied: Path, tmp_path: Path) -> None:
    done = build(copied, tmp_path, environment())
    assert_refused(done, "the checkout is missing", str(copied), "install a wheel", "MOPSLOCK_LIB_DIR")


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are built on Linux")
def test_sdist_alone(copied: Path, tmp_path: Path) -> None:
    """An sdist can be made, has no libraries, and says why it cannot be installed."""
    hook = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    assert run(sys.executable, "-c", hook, tmp_path, cwd=copied).returncode == 0
    (sdist,) = tmp_path.glob("mopslock-*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "_lib/" in name]
    assert_refused(build(sdist, tmp_path, environment()), "the checkout is missing", "an sdist does not have them")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], sorted(LIBRARIES)),
        (["libmopslock" + SUFFIX], ["there is no libmopslock-core" + SUFFIX]),
    ],
    ids=["empty", "half"],
)
def test_wrong_prebuilt_folder(tmp_path: Path, names: list[str], said: list[str]) -> None:
    """It is an error, and no silent build of something else."""
    for name in names:
        (tmp_path / name).write_text("")
    done = build(PACKAGE, tmp_path, environment(MOPSLOCK_LIB_DIR=str(tmp_path)))
    assert_refused(done, *said, "make -C bindings/c shared")


def test_relative_prebuilt_folder(tmp_path: Path) -> None:
    assert_refused(build(PACKAGE, tmp_path, environment(MOPSLOCK_LIB_DIR="bin/lib")), "bin/lib is not an absolute path")


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
    """The same file is installed and imported, both libraries can be loaded, and the examples of both READMEs run."""
    assert run(python, "-m", "venv", "--without-pip", tmp_path / "env").returncode == 0
    inside = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", inside, "install", "-q")
    done = run(*pip, "--only-binary", ":all:", wheel)
    assert done.returncode == 0, done.stdout
    program = """
import ctypes, importlib.metadata, pathlib, sys
import mopslock
folder = pathlib.Path(mopslock.__file__).parent / "_lib"
assert folder.is_relative_to(sys.prefix), folder
abi = ctypes.CDLL(str(folder / sys.argv[1])).mopslock_abi_version()
print(importlib.metadata.version("mopslock"), abi > 0)
"""
    for name in LIBRARIES:
        done = run(inside, "-I", "-c", program, name, cwd=tmp_path)
        assert done.stdout == f"{project_version()} True\n", done.stdout
    store = environment(MOPSLOCK_STORE=(tmp_path / "leases").as_uri())
    for readme, said in EXAMPLES.items():
        done = run(inside, "-I", "-W", "error", "-c", example(readme), cwd=tmp_path, env=store)
        assert done.stdout == said, f"{readme}: {done.stdout}"
        newest = min((tmp_path / "leases" / "nightly-report" / "_mopslock").iterdir())
        assert '"state": "released"' in (newest / "v").read_text()


EXAMPLES = {
    PACKAGE.parent.parent / "README.md": "only one of us runs this\n",
    PACKAGE / "README.md": "".join(f"only one of us does part {part}\n" for part in range(3)),
}


def example(readme: Path) -> str:
    """The first example of a document, as it stands there."""
    match = re.search(r"^```python\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    assert match
    return match[1]

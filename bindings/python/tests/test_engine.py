"""Which engine decides, and the one in wasmtime: what it is loaded from, what is kept of it, and how it fails."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

import fork_jobs
import mopslock
from fork_jobs import TAKEN
from mopslock import _code_cache, _machine, _native, _wasm, stores
from mopslock._machine import Machine
from mopslock._native import Native
from mopslock._wasm import Guest
from mopslock.errors import EngineFailed
from ways import SOON, forked, thread

CONFIG = {"machine": "client", "own_store": True, "host": "h", "pid": "1", "seed": b"0123456789abcdef"}
WOKE = {"mono": 1, "wall": 1, "kind": "woke"}

SOURCE = r"""
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "sched_yield" (func $sched_yield (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 16) "\82\a5state\a4opem\a4idle\c3")
  (data (i32.const 64) "\48\00\00\00\1e\00\00\00panic: out of luck\n\ngoroutine 1")
  (func (export "_initialize"))
  (func (export "abi_version") (result i32) (i32.const VERSION))
  (func (export "buffer") (result i32) (i32.const 1024))
  (func (export "new") (param i32) (result i64) (i64.const 0x1000000012))
  (func (export "step") (param i64 i32) (result i64) STEP (i64.const 0x1000000012))
  (func (export "drop") (param i64) (result i32) (i32.const 1))
  (func (export "gc") (i32.store8 (i32.const 27) (i32.add (i32.load8_u (i32.const 27)) (i32.const 1)))))
"""
"""A module that is compiled in no time. Its answers count its collections: the state is opem, open, opeo, ..."""

PANICS = """
(drop (call $fd_write (i32.const 2) (i32.const 64) (i32.const 1) (i32.const 8)))
(call $proc_exit (i32.const 2))
"""


@pytest.fixture
def wasmtime() -> Any:
    return pytest.importorskip("wasmtime")


@pytest.fixture
def lib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which engines are looked for, with nothing in it. Nothing is loaded yet, and nothing kept."""
    folder = tmp_path / "lib"
    folder.mkdir()
    monkeypatch.setenv("MOPSLOCK_LIB", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(_machine.VARIABLE, raising=False)
    for engine in (_wasm, _native):
        monkeypatch.setattr(engine, "_loaded", engine._Loaded())
    return folder


def put(lib: Path, code: bytes) -> None:
    (lib / "mopslock.wasm").write_bytes(code)
    (lib / "mopslock.wasm.sha256").write_text(f"{hashlib.sha256(code).hexdigest()}  mopslock.wasm\n")


@pytest.fixture
def made(lib: Path, wasmtime: Any) -> Callable[..., Guest]:
    """Starts an instance of a small module."""

    def make(step: str = "", version: int = 1) -> Guest:
        put(lib, wasmtime.wat2wasm(SOURCE.replace("STEP", step).replace("VERSION", str(version))))
        _wasm._loaded.compiled = None
        return Guest()

    return make


def state(message: bytes) -> str:
    return str(msgpack.unpackb(message)["state"])


# Which one.


def test_it_is_native_where_the_package_has_it_or_as_it_is_told(
    lib: Path, made: Callable[..., Guest], monkeypatch: pytest.MonkeyPatch
) -> None:
    made()
    assert type(_machine.engine()) is Guest
    (lib / f"libmopslock-core{'.dylib' if sys.platform == 'darwin' else '.so'}").touch()
    monkeypatch.setattr("mopslock._native.core", object)
    assert type(_machine.engine()) is Native
    for asked, kind in {"native": Native, "wasm": Guest}.items():
        monkeypatch.setenv("MOPSLOCK_ENGINE", asked)
        assert type(_machine.engine()) is kind
    monkeypatch.setenv("MOPSLOCK_ENGINE", "quantum")
    with pytest.raises(EngineFailed, match=r"MOPSLOCK_ENGINE=quantum: must be native .* or wasm"):
        _machine.engine()


@pytest.mark.parametrize(
    ("error", "told"),
    [("Error loading shared library libgcc_s.so.1", "needs libgcc"), ("no GLIBC_2.99", "core needs none.*install one")],
)
def test_a_wasmtime_that_cannot_be_loaded(
    error: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wasmtime.py").write_text(f"raise OSError({error!r})")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "wasmtime"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(EngineFailed, match=f"{error}.*{told}"):
        _wasm._import()


def test_what_is_missing_is_said_with_the_next_step(
    lib: Path, made: Callable[..., Guest], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineFailed, match=f"no engine: neither libmopslock-core.* in {lib}.*install one, or build it"):
        Machine(CONFIG)
    monkeypatch.setenv("MOPSLOCK_ENGINE", "native")
    with pytest.raises(EngineFailed, match=r"there is no .*libmopslock-core.*install one, or build it"):
        Machine(CONFIG)
    monkeypatch.setenv("MOPSLOCK_ENGINE", "wasm")
    with pytest.raises(EngineFailed, match=r"mopslock.wasm cannot be read .*No such file.*install"):
        Machine(CONFIG)
    with pytest.raises(EngineFailed, match="of version 7, and this package needs 1; .*install one"):
        made(version=7)
    (lib / "mopslock.wasm").write_bytes(b"other")
    _wasm._loaded.compiled = None
    with pytest.raises(EngineFailed, match=r"not the module that was published: its SHA-256 is d9298a10.*install"):
        Machine(CONFIG)
    put(lib, b"\0asm, or not")
    with pytest.raises(EngineFailed, match=r"cannot be compiled: .*pip install 'mopslock\[wasm\]'"):
        Machine(CONFIG)
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(EngineFailed, match=r"wasmtime, which is not installed .*: pip install 'mopslock\[wasm\]'"):
        Machine(CONFIG)


def test_a_step_keeps_the_gil(engine: str) -> None:
    """Another thread that waits for it gets it only where somebody lets go: nobody has to, for an hour."""
    machine, begun, go, ran = Machine(CONFIG), threading.Event(), threading.Lock(), list[str]()

    def run() -> None:
        begun.set()
        go.acquire()
        ran.append(engine)

    go.acquire()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(4000)
    try:
        with thread(run):
            assert begun.wait(SOON)
            go.release()
            for now in range(1, 1502):
                machine.step({**WOKE, "mono": now})
            assert ran == []
    finally:
        sys.setswitchinterval(interval)


# What is kept of it.


def kept(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache" / "mopslock" / "wasmtime").iterdir()
    return file


@pytest.fixture
def compiles(wasmtime: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each time that a module is compiled."""
    told: list[str] = []
    compile_it = _wasm.Compiled._compile

    def compiling(self: Any, name: str, code: bytes) -> Any:
        told.append(name)
        return compile_it(self, name, code)

    monkeypatch.setattr(_wasm.Compiled, "_compile", compiling)
    return told


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def linked(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def of_another(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)


DISTRUSTED: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "damaged": (True, damage),
    "cut off": (True, lambda file: os.truncate(file, 1000)),
    "empty": (True, lambda file: os.truncate(file, 0)),
    "another's name": (True, lambda file: file.write_bytes(_code_cache._digest("other", b"x") + b"x")),
    "a digest of other settings": (True, lambda file: file.write_bytes(_code_cache._digest(file.name, b"x") + b"x")),
    "writable by others": (True, lambda file: file.chmod(0o622)),
    "a link": (True, linked),
    "another's": (True, of_another),
    "in a folder that others may write": (False, lambda file: file.parent.chmod(0o770)),
    "in a folder of another's": (False, lambda file: of_another(file.parent)),
}


@pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX's")
def test_a_compiled_module_is_kept_for_the_next_process(
    made: Callable[..., Guest], compiles: list[str], tmp_path: Path
) -> None:
    made()
    file = kept(tmp_path)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    assert importlib.metadata.version("wasmtime") in file.name
    made()
    assert len(compiles) == 1
    made("(nop)")
    assert len(compiles) == 2, "another module"
    for number in range(9):
        _code_cache.keep(f"old{number}", b"")
    assert {path.name for path in file.parent.iterdir()} == {f"old{number}" for number in range(5, 9)}


@pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX's")
@pytest.mark.parametrize("why", DISTRUSTED)
def test_what_is_kept_but_cannot_be_believed_is_compiled_again(
    made: Callable[..., Guest], compiles: list[str], tmp_path: Path, why: str
) -> None:
    mended, change = DISTRUSTED[why]
    made()
    file = kept(tmp_path)
    change(file)
    assert state(made().new(b"")) == "opem"
    assert len(compiles) == 2
    made()
    assert (len(compiles) == 2) is mended
    assert stat.S_ISREG(file.lstat().st_mode)


@pytest.mark.parametrize("cache", ["file", "relative", "/proc/none"])
def test_without_a_place_to_keep_it_each_process_compiles(
    made: Callable[..., Guest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    cache: str,
) -> None:  # fmt: skip
    """And that is said, if it takes long."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file") if cache == "file" else cache)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    made()
    assert not caplog.records
    monkeypatch.setattr(_wasm, "SLOW", 0.0)
    made()
    assert "so every process compiles it again" in caplog.text
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made()
    assert f"It is kept as {kept(tmp_path)}" in caplog.text


def test_a_cache_on_a_drive_that_is_not_there_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert _code_cache.read("n") is None
    with pytest.raises(FileNotFoundError):
        _code_cache.keep("n", b"")


# How it works, and fails.


def test_garbage_is_collected_every_thousand_steps(made: Callable[..., Guest]) -> None:
    guest = made()
    assert state(guest.new(b"")) == "opem"
    assert {state(guest.step(b"")) for _ in range(999)} == {"opem"}
    assert {state(guest.step(b"")) for _ in range(1000)} == {"open"}
    assert state(guest.step(b"")) == "opeo"


@pytest.mark.parametrize(
    ("step", "story"),
    [
        ("unreachable", "unreachable"),
        (PANICS, "its machine is gone: panic: out of luck$"),
        ("(return (i64.const -1))", "not in its memory"),
    ],
)
def test_one_that_fails_is_gone_and_no_other(made: Callable[..., Guest], step: str, story: str) -> None:
    guest, other = made(step), Guest()
    guest.new(b"")
    for _ in range(2):
        with pytest.raises(EngineFailed, match=story):
            guest.step(b"")
    assert state(other.new(b"")) == "opem"
    other.drop()
    other.drop()
    with pytest.raises(EngineFailed, match="dropped"):
        other.step(b"")


def test_an_interrupt_inside_is_raised_and_ends_it(
    made: Callable[..., Guest], wasmtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python runs there while the module asks for something, and only the main thread is interrupted."""

    def interrupted(*_: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(_wasm._WASI, "sched_yield", interrupted)
    guest = made("(drop (call $sched_yield))")
    with pytest.raises(KeyboardInterrupt):
        guest.step(b"")
    with pytest.raises(EngineFailed):
        guest.step(b"")
    Guest().new(b"")  # wasmtime remembers nothing of it, and no lock is left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("engine", ["wasm"], indirect=True)
def test_a_forked_child_has_an_instance_of_its_own(engine: str) -> None:
    """Also one that is forked while a thread is in wasmtime, which the fork waits for. And a child's child."""
    inside, go_on = threading.Event(), threading.Event()

    def starts() -> None:
        with _wasm._loaded.lock:
            inside.set()
            go_on.wait(SOON)

    def child() -> Any:
        mine = stores.Memory()
        return [*fork_jobs.take(mine), *forked(lambda: fork_jobs.take(mine)), fork_jobs.judge(lease)]

    with mopslock.lease(stores.Memory(), "n") as lease, thread(starts):
        assert inside.wait(SOON)
        threading.Timer(0, go_on.set).start()
        assert forked(child) == [TAKEN, TAKEN, fork_jobs.JUDGED]
        lease.check()

"""The core as a WASM module in wasmtime, for a system without libmopslock-core. bindings/README.md has its contract.

Each machine has an instance of its own: two megabytes, and a millisecond to begin. So no two threads meet in one, an
instance that traps ends one store's claims alone, and nothing is left of a machine that was dropped.

A call of wasmtime's own Python functions lets go of the GIL some ten times, and beside a thread that computes each time
can take 5 ms. So steps go to wasmtime's C functions by ctypes.PyDLL, as those of libmopslock-core do.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import platform
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from . import _code_cache
from ._log import log
from ._native import BUILD, MAX_MESSAGE, folder
from .errors import EngineFailed, Forked

MODULE = "mopslock.wasm"
ABI = 1

GC_EVERY = 1000  # steps. Nothing else collects garbage in the module.
SLOW = 1.0  # seconds of compiling after which people are told
EXPORTS = ("_initialize", "abi_version", "buffer", "new", "step", "gc")

MEMORY = 64 << 20
"""Bytes of addresses that an instance reserves. By default wasmtime reserves 4 GiB, which an address limit refuses."""

INSTALL = "pip install 'mopslock[wasm]'"


# What wasmtime makes of the module, once in a process.


class Compiled:
    """The module as machine code, with what it imports."""

    def __init__(self, *, alone: bool) -> None:
        """alone: compiled by this thread alone, since a forked child has none of the threads that helped before."""
        code, sha = _checked_module()
        self.wasmtime = wasmtime = _import()
        config = wasmtime.Config()
        try:
            self._bind()
            config.parallel_compilation = not alone
            config.memory_reservation, config.memory_guard_size = MEMORY, 0
            config.native_unwind_info = False
            # No signal handler in the user's process: bounds are checked by code.
            self.ffi.wasmtime_config_signals_based_traps_set(config.ptr(), False)
        except AttributeError as error:
            raise EngineFailed(
                f"mopslock: this wasmtime is none that mopslock knows ({error}): {INSTALL}, or an older one"
            ) from error
        self.engine = wasmtime.Engine(config)
        name = f"{_version()}-{platform.machine()}-{sha}"
        image = _code_cache.read(name)
        try:
            self.module = wasmtime.Module.deserialize(self.engine, image) if image else self._compile(name, code)
        except wasmtime.WasmtimeError:  # of other settings, or for another processor
            self.module = self._compile(name, code)
        self.linker = self._imports()

    def _bind(self) -> None:
        """The C functions that a step calls, without letting go of the GIL."""
        from wasmtime import _ffi  # noqa: PLC0415 - only who chose this engine pays for it

        self.ffi: Any = _ffi
        library = ctypes.PyDLL(str(_ffi.filename))
        p, size = ctypes.c_void_p, ctypes.c_size_t
        self.call = _declared(library.wasmtime_func_call_unchecked, p, p, p, p, size, p)
        self.memory_at = _declared(library.wasmtime_memory_data, p, p, p)
        self.memory_size = _declared(library.wasmtime_memory_data_size, size, p, p)
        self.context_of = _declared(library.wasmtime_caller_context, p, p)
        self.new_trap = _declared(library.wasmtime_trap_new, p, ctypes.c_char_p, size)
        self.define = _declared(
            library.wasmtime_linker_define_func_unchecked, p, p, *(ctypes.c_char_p, size) * 2, p, *(p,) * 3
        )
        self.error_type: Any = ctypes.POINTER(_ffi.wasmtime_error_t)
        self.trap_type: Any = ctypes.POINTER(_ffi.wasm_trap_t)

    def _compile(self, name: str, code: bytes) -> Any:
        begun = time.monotonic()
        try:
            module = self.wasmtime.Module(self.engine, code)
        except self.wasmtime.WasmtimeError as error:
            said = " ".join(str(error).split())
            raise EngineFailed(f"mopslock: {MODULE} cannot be compiled: {said}; {INSTALL}") from error
        try:
            kept = f"It is kept as {_code_cache.keep(name, module.serialize())}"
        except (OSError, RuntimeError) as error:
            kept = f"It cannot be kept, so every process compiles it again ({error})"
        took = time.monotonic() - begun
        if took > SLOW:
            log.warning("mopslock: compiling %s for this machine took %.1f s. %s", MODULE, took, kept)
        return module

    def told(self, error: int | None, trap: int | None) -> str:
        """The last line of what wasmtime says of a call that failed."""
        said = ""
        if error:
            said = str(self.wasmtime.WasmtimeError._from_ptr(ctypes.cast(error, self.error_type)))
        elif trap:
            said = self.wasmtime.Trap._from_ptr(ctypes.cast(trap, self.trap_type)).message
        return said.strip().rpartition("\n")[2].strip()

    def _imports(self) -> Any:
        """What Go's runtime asks of any host. The module gets nothing by it: each answers 0, and some do something."""
        linker = self.wasmtime.Linker(self.engine)
        self.callbacks = []
        for item in self.module.imports:
            callback = _Callback(partial(self._answer, _WASI.get(item.name, lambda *_: 0)))
            self.callbacks.append(callback)
            names = [part for name in (item.module, item.name) for part in (name.encode(), len(name))]
            place = ctypes.cast(linker.ptr(), ctypes.c_void_p), *names, ctypes.cast(item.type.ptr(), ctypes.c_void_p)
            if error := self.define(*place, ctypes.cast(callback, ctypes.c_void_p), None, None):
                raise EngineFailed(f"mopslock: {MODULE} cannot be given its {item.name}: {self.told(error, None)}")
        return linker

    def _answer(self, do: Callable[..., int], _: None, caller: int, values: Any, count: int) -> int:
        """A call from inside. What it raises is raised by the call that led there, which ends with a trap."""
        try:
            base = self.memory_at(self.context_of(caller), _inside.memory)
            values[0] = do(base, *(values[2 * number] & 0xFFFFFFFF for number in range(count)))
        except BaseException as error:
            _inside.raised = error
            trap: int = self.new_trap(b"", 0)
            return trap
        return 0


def _checked_module() -> tuple[bytes, str]:
    """The module and its SHA-256, which stands beside it as well."""
    path = folder() / MODULE
    try:
        code = path.read_bytes()
        published = path.with_name(path.name + ".sha256").read_text().split()[0]
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise EngineFailed(f"mopslock: {MODULE} cannot be read with its SHA-256: {error}; {BUILD}") from error
    sha = hashlib.sha256(code).hexdigest()
    if sha != published:
        raise EngineFailed(
            f"mopslock: {path} is not the module that was published: its SHA-256 is {sha}, and not {published}; {BUILD}"
        )
    return code, sha


def _import() -> Any:
    try:
        import wasmtime  # noqa: PLC0415 - only who chose this engine pays for it
    except ModuleNotFoundError as error:
        raise EngineFailed(
            f"mopslock: {MODULE} runs in wasmtime, which is not installed ({error}): {INSTALL}"
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        without = (
            "its wheel for musl needs libgcc" if "libgcc_s" in str(error) else f"libmopslock-core needs none: {BUILD}"
        )
        raise EngineFailed(f"mopslock: wasmtime cannot be loaded here ({error}); {without}") from error
    return wasmtime


def _version() -> str:
    try:
        import importlib.metadata  # noqa: PLC0415 - it takes a while

        return importlib.metadata.version("wasmtime")
    except ModuleNotFoundError:  # no files of a package, as in a frozen program; wasmtime knows its own images
        return "unknown"


def _declared(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


_ticks = itertools.count(1_000_000, 1_000_000)  # the module's clock counts how often it was read: a clock of 0 ends it


class _Inside(threading.local):
    """The instance that this thread is in."""

    memory = 0
    printed = b""  # by a panic
    raised: BaseException | None = None


_inside = _Inside()

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t
)
"""A value has 16 bytes: of what it points to, each second number counts."""


def _view(at: int, size: int) -> memoryview:
    """Memory. ctypes' own memmove and memset let go of the GIL."""
    return memoryview((ctypes.c_ubyte * size).from_address(at)).cast("B")


def _clock_time_get(base: int, _: int, __: int, at: int) -> int:
    ctypes.c_uint64.from_address(base + at).value = next(_ticks)
    return 0


def _sizes_get(base: int, count: int, size: int) -> int:
    for at in (count, size):
        ctypes.c_uint32.from_address(base + at).value = 0
    return 0


def _poll_oneoff(base: int, _: int, events: int, count: int, done: int) -> int:
    """It would only sleep, which is over at once. One that fails ends the module."""
    _view(base + events, 32 * count)[:] = bytes(32 * count)
    ctypes.c_uint32.from_address(base + done).value = count
    return 0


def _fd_write(base: int, _: int, vectors: int, count: int, written: int) -> int:
    pieces = (ctypes.c_uint32 * (2 * count)).from_address(base + vectors)
    _inside.printed += b"".join(
        ctypes.string_at(base + at, size) for at, size in zip(pieces[::2], pieces[1::2], strict=True)
    )
    ctypes.c_uint32.from_address(base + written).value = sum(pieces[1::2])
    return 0


def _proc_exit(_: int, status: int) -> int:
    raise EngineFailed(f"it ended with {status}")


_WASI: dict[str, Callable[..., int]] = {
    "clock_time_get": _clock_time_get,
    "args_sizes_get": _sizes_get,
    "environ_sizes_get": _sizes_get,
    "poll_oneoff": _poll_oneoff,
    "fd_write": _fd_write,
    "proc_exit": _proc_exit,
}


class _Loaded:
    """What this process has compiled. A forked child takes it over, since it does not change, and makes instances of
    its own. So no fork may come while a thread is in wasmtime, whose locks would stay locked in the child."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.compiled: Compiled | None = None
        self.is_child = False

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork(self) -> None:
        self.lock.release()

    def in_child(self) -> None:
        self.lock, self.is_child = threading.RLock(), True


_loaded = _Loaded()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loaded.before_fork, after_in_parent=_loaded.after_fork, after_in_child=_loaded.in_child)


# One instance.


class Guest:
    """An instance of the module, with room for one machine, as an Engine."""

    def __init__(self) -> None:
        self._failed: EngineFailed | None = None
        self._pid, self._handle, self._steps, self._seen = os.getpid(), 0, 0, 0
        with _loaded.lock:
            compiled = _loaded.compiled or Compiled(alone=_loaded.is_child)
            _loaded.compiled = self._compiled = compiled
            try:
                self._store: Any = compiled.wasmtime.Store(compiled.engine)
                exports = self._exports = compiled.linker.instantiate(self._store, compiled.module).exports(self._store)
                self._memory = ctypes.addressof(exports["memory"]._memory)
                self._functions = {name: ctypes.addressof(exports[name]._func) for name in EXPORTS}
            except (compiled.wasmtime.WasmtimeError, compiled.wasmtime.Trap, KeyError) as error:
                raise EngineFailed(f"mopslock: {MODULE} cannot be started ({error}); {BUILD}") from error
        self._context = ctypes.cast(self._store._context(), ctypes.c_void_p).value
        self._values, self._trap = (ctypes.c_uint64 * 4)(), ctypes.c_void_p()
        self._values_at, self._trap_at = ctypes.addressof(self._values), ctypes.addressof(self._trap)
        self._run("_initialize")
        version = self._run("abi_version") & 0xFFFFFFFF
        if version != ABI:
            raise EngineFailed(f"mopslock: {MODULE} is of version {version}, and this package needs {ABI}; {BUILD}")
        self._at = self._run("buffer") & 0xFFFFFFFF

    def new(self, config: bytes) -> bytes:
        answer = self._answer("new", config)
        self._handle = int.from_bytes(self._buffer()[:8], "little")
        return answer

    def step(self, given: bytes) -> bytes:
        if self._pid != os.getpid():
            raise Forked("mopslock: the engine was started before this process was forked")
        self._steps += 1
        if self._steps % GC_EVERY == 0:
            self._run("gc")
        return self._answer("step", given, self._handle)

    def drop(self) -> None:
        if self._failed is None and self._pid == os.getpid():
            self._end(EngineFailed("mopslock: the machine was dropped"))

    def _answer(self, export: str, message: bytes, *handle: int) -> bytes:
        """What a message is answered with. One that is too long is cut, and refused for its length all the same."""
        message = message[: MAX_MESSAGE + 1]
        if self._failed is None:
            self._buffer()[8 : 8 + len(message)] = message
        where = self._run(export, *handle, len(message))
        address, length = where >> 32, where & 0xFFFFFFFF
        if length > MAX_MESSAGE or address + length > self._compiled.memory_size(self._context, self._memory):
            raise self._end(EngineFailed("mopslock: the core's answer is not in its memory"))
        return ctypes.string_at(self._base() + address, length)

    def _base(self) -> int:
        """Where the memory is now: it moves when it grows."""
        at: int = self._compiled.memory_at(self._context, self._memory)
        return at

    def _buffer(self) -> memoryview:
        """Where the module reads a handle, and a message after it."""
        base = self._base()
        if base != self._seen:
            self._seen, self._room = base, _view(base + self._at, 8 + MAX_MESSAGE + 1)
        return self._room

    def _run(self, export: str, *numbers: int) -> int:
        if self._failed is not None:
            raise EngineFailed(str(self._failed))
        _inside.memory = self._memory
        for index, number in enumerate(numbers):
            self._values[2 * index] = number  # which has 16 bytes
        place, count = self._functions[export], max(1, len(numbers))  # what it returns takes the first one's place
        error = self._compiled.call(self._context, place, self._values_at, count, self._trap_at)
        if error or self._trap.value:
            raise self._trapped(error)
        value: int = self._values[0]
        return value

    def _trapped(self, error: int | None) -> BaseException:
        """The instance is gone. The story of a panic is its first line; an interrupt is raised as it is."""
        raised, _inside.raised = _inside.raised, None
        story, _inside.printed = _inside.printed.decode(errors="replace").partition("\n")[0], b""
        story = story or str(raised or self._compiled.told(error, self._trap.value))
        failed = self._end(EngineFailed(f"mopslock: the core has failed, and its machine is gone: {story}"))
        return failed if raised is None or isinstance(raised, Exception) else raised

    def _end(self, error: EngineFailed) -> EngineFailed:
        self._failed = error
        with _loaded.lock:
            self._store = self._exports = None
        return error

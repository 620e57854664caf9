"""Which engine decides: libmopslock-core by ctypes, or the same core as a WASM module in wasmtime."""

from __future__ import annotations

import os
from typing import Protocol

from . import _native, _wasm
from ._native import Native
from .errors import EngineFailed

VARIABLE = "MOPSLOCK_ENGINE"
"""The environment variable that chooses: native or wasm. Without it libmopslock-core decides, if the package has it."""


class Engine(Protocol):
    """Room for one machine, whose messages are bytes. One thread at a time may call it."""

    def new(self, config: bytes, /) -> bytes:
        """Makes the machine, if the answer has no error. EngineFailed: the engine has failed."""

    def step(self, given: bytes, /) -> bytes:
        """Gives the machine an input. EngineFailed: the engine has failed, and the machine is gone. Forked: it is the
        parent's."""

    def drop(self) -> None:
        """Forgets the machine. A second call, and a call in a forked child, does nothing."""


def engine() -> Engine:
    """Room for a new machine."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "native", "wasm"):
        raise EngineFailed(f"mopslock: {VARIABLE}={asked}: must be native (libmopslock-core) or wasm (wasmtime)")
    if asked == "native" or (not asked and _native.library_path().exists()):
        return Native()
    if asked or (_native.folder() / _wasm.MODULE).exists():
        return _wasm.Guest()
    raise EngineFailed(
        f"mopslock: there is no engine: neither libmopslock-core{_native.SUFFIX} nor {_wasm.MODULE} is in "
        f"{_native.folder()}. They come with a wheel: install one, or build it: pip install ./bindings/python of a "
        "checkout"
    )

"""One machine of the core: dictionaries in, dictionaries out. The core is in libmopslock-core, by ctypes, or the same
core is a WASM module, in wasmtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

import msgpack

from . import _native
from .errors import BadArgument, EngineFailed, WeightExceedsLimit

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
        return _native.Native()
    from . import _wasm  # noqa: PLC0415 - only who has this engine pays for it

    if asked or (_native.folder() / _wasm.MODULE).exists():
        return _wasm.Guest()
    raise EngineFailed(
        f"mopslock: there is no engine: neither libmopslock-core{_native.SUFFIX} nor {_wasm.MODULE} is in "
        f"{_native.folder()}; {_native.BUILD}"
    )


class Machine:
    """A machine. Only one thread at a time may step it. Drop it when it is idle and no longer needed."""

    __slots__ = ("_engine", "drop")

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Makes a machine from a Config. BadArgument lists every bad field."""
        self._engine = engine()
        self.drop = self._engine.drop
        _actions(self._engine.new(pack(config)))

    def step(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Gives the machine an Input, whose keys stand in the core's order, and returns its actions."""
        return _actions(self._engine.step(pack(given)))


pack: Any = msgpack.packb

_FAULTS = {"config": BadArgument, "too_heavy": WeightExceedsLimit}
"""What a caller may have said: a Config, or the terms of a client's command."""


def _actions(message: bytes) -> list[dict[str, Any]]:
    """What an answer says to do, as bindings/README.md describes it. A refusal is raised."""
    answer = msgpack.unpackb(message)
    if "error" in answer:
        fault, text = _FAULTS.get(answer["error"]), answer.get("text", "")
        if fault:
            raise fault(f"mopslock: {text}")
        raise EngineFailed(f"mopslock: the core refused a message: {text}; this is an error in mopslock")
    actions: list[dict[str, Any]] = answer.get("actions", [])
    return actions

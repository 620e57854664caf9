"""One machine of the core: dictionaries in, dictionaries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from ._engine import engine
from .errors import BadArgument, EngineFailed, WeightExceedsLimit


class Machine:
    """A machine. Only one thread at a time may step it. Drop it when it is idle and no longer needed."""

    __slots__ = ("_engine",)

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Makes a machine from a Config. BadArgument lists every bad field."""
        self._engine = engine()
        _read(self._engine.new(pack(config)))

    def step(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Gives the machine an Input, whose keys stand in the core's order, and returns its actions."""
        actions: list[dict[str, Any]] = _read(self._engine.step(pack(given))).get("actions", [])
        return actions

    def drop(self) -> None:
        """Forgets the machine. A second call, and a call in a forked child, does nothing."""
        self._engine.drop()


pack: Any = msgpack.packb

_FAULTS = {"config": BadArgument, "too_heavy": WeightExceedsLimit}
"""What a caller may have said: a Config, or the terms of a client's command."""


def _read(message: bytes) -> dict[str, Any]:
    """An answer, as bindings/README.md describes it. A refusal is raised."""
    answer: dict[str, Any] = msgpack.unpackb(message)
    if "error" in answer:
        fault, text = _FAULTS.get(answer["error"]), answer.get("text", "")
        if fault:
            raise fault(f"mopslock: {text}")
        raise EngineFailed(f"mopslock: the core refused a message: {text}; this is an error in mopslock")
    return answer

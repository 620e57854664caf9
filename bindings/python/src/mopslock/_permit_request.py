"""What a caller asks of a semaphore: how many permits it wants, and its view of how many there may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import BadArgument, WeightExceedsLimit

MOST_CAPACITY, MOST_WIDTH, MOST_WEIGHT = 1 << 20, 1 << 16, (1 << 32) - 1
MOST_LIMIT = MOST_CAPACITY * MOST_WIDTH
_BOUNDS = (
    ("capacity", 1, MOST_CAPACITY), ("width", 1, MOST_WIDTH), ("weight", 1, MOST_WEIGHT), ("spare", 0, MOST_WEIGHT),
)  # fmt: skip


@dataclass(frozen=True)
class PermitRequest:
    """A caller's view, capacity permits in each of width buckets, and how many of them it wants.

    BadArgument lists every invalid field. WeightExceedsLimit: there would never be room.
    """

    capacity: int
    width: int = 1
    weight: int = 1
    spare: int = 0

    def __post_init__(self) -> None:
        wrong = [
            f"{what} {value!r}: from {least} to {most}"
            for what, least, most in _BOUNDS
            if not _is(value := getattr(self, what), least, most)
        ]
        if wrong:
            raise BadArgument("mopslock: " + "; ".join(wrong))
        if self.weight + self.spare > self.limit:
            raise WeightExceedsLimit(
                f"mopslock: weight {self.weight} and spare {self.spare}: more than the {self.limit} of capacity "
                f"{self.capacity} x width {self.width}, so there is never room"
            )

    @property
    def limit(self) -> int:
        """How many permits this view allows."""
        return self.capacity * self.width


def _is(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def limit_of(limit: int | None) -> int:
    """A limit as it is stored; 0 is none."""
    if limit is None:
        return 0
    if not _is(limit, 1, MOST_LIMIT):
        raise BadArgument(f"mopslock: limit {limit!r}: from 1 to {MOST_LIMIT}, or None for none")
    return limit

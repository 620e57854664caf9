"""What a caller asks of a semaphore: how many permits it wants, and its view of how many there may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import BadArgument, WeightExceedsLimit

MOST_CAPACITY, MOST_WIDTH = 1 << 20, 1 << 16

MOST_LIMIT = MOST_CAPACITY * MOST_WIDTH


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
            f"{what} {value!r}: {rule}"
            for what, value, least, most, rule in (
                ("capacity", self.capacity, 1, MOST_CAPACITY, f"from 1 to {MOST_CAPACITY}"),
                ("width", self.width, 1, MOST_WIDTH, f"from 1 to {MOST_WIDTH}"),
                ("weight", self.weight, 1, None, "at least 1"),
                ("spare", self.spare, 0, None, "not negative"),
            )
            if not _is(value, least, most)
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


def _is(value: Any, least: int, most: int | None) -> bool:
    return type(value) is int and value >= least and (most is None or value <= most)


def limit_of(limit: int | None) -> int:
    """A limit as it is stored; 0 is none."""
    if limit is None:
        return 0
    if not _is(limit, 1, MOST_LIMIT):
        raise BadArgument(f"mopslock: limit {limit!r}: from 1 to {MOST_LIMIT}, or None for none")
    return limit

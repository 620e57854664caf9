"""Durations: users give seconds or a timedelta, the core counts nanoseconds."""

from __future__ import annotations

import math
from datetime import timedelta

from ._units import FOREVER, LONGEST, SECOND
from .errors import BadArgument

Duration = float | timedelta
"""Seconds, or a timedelta."""


def nanoseconds(what: str, duration: Duration) -> int:
    """A duration that is not negative, in whole nanoseconds."""
    if isinstance(duration, timedelta):
        ns = (duration.days * 86_400 + duration.seconds) * SECOND + duration.microseconds * 1000
    elif isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise BadArgument(f"mopslock: {what} {duration!r}: must be seconds or a timedelta")
    elif isinstance(duration, float) and not math.isfinite(duration):
        raise BadArgument(f"mopslock: {what} {duration!r}: must be finite")
    else:
        ns = int(max(-1, min(duration, LONGEST // SECOND)) * SECOND)  # not beyond what 64 bits and floats can hold
    if ns < 0:
        raise BadArgument(f"mopslock: {what} {duration!r}: must not be negative")
    return min(ns, LONGEST)


def optional(what: str, duration: Duration | None) -> int:
    """A duration that may be None: 0, the core's default. A duration of 0 is invalid."""
    if duration is None:
        return 0
    ns = nanoseconds(what, duration)
    if ns == 0:
        raise BadArgument(f"mopslock: {what} 0: must be above 0; leave it out for the default")
    return ns


def waiting(wait: Duration | None) -> int:
    """How long to wait for another holder: None is until it is held, 0 is not at all."""
    return FOREVER if wait is None else nanoseconds("wait", wait)

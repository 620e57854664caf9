"""Numbers of the core's durations, which are nanoseconds."""

SECOND = 1_000_000_000

FOREVER = -1
"""As wait_ns: until it is held."""

LONGEST = 1 << 61
"""Longer than any duration that a user means, and short enough for 64 bits."""

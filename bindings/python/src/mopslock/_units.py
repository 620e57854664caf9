"""Numbers of the core's durations, which are nanoseconds."""

SECOND = 1_000_000_000

FOREVER = -1
"""As wait_ns: until it is held."""

LONGEST = 1 << 61
"""A duration above all that anybody means, and below what 64 bits hold."""

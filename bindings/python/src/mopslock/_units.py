"""Numbers of the core's durations, which are nanoseconds."""

SECOND = 1_000_000_000
FOREVER = -1  # as wait_ns: until it is held
ENDLESS = -1  # as a TTL: until it is released or broken; as fleet_expire: there is no mops on the name
DEFAULT_TTL = {"lastwriter": 88 * SECOND, "bridge": 88 * SECOND, "strict": 60 * SECOND}
LONGEST = 1 << 61  # longer than any duration that a user means, and short enough for 64 bits

"""The host: clocks, threads and futures around the core's client, which decides.

From the bottom: ``clock``; ``verbs``, a store's answer to one request; ``threads``, which ask it and wait for time to
pass; ``client``, which is stepped; ``claims`` and ``work``, what callers hold; ``host``, what they ask. Or the client
is in another process: ``keeper``, that process; ``kept``, a client and a host on it; ``serving``, its other side.
"""

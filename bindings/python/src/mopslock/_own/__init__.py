"""The host for a store that is written in Python: clocks, threads and futures around the core's client, which decides.

From the bottom: ``clock``; ``verbs``, a store's answer to one request; ``threads``, that ask it and wait for time to
pass; ``client``, which is stepped; ``claims`` and ``work``, what callers hold; ``host``, what they ask.
"""

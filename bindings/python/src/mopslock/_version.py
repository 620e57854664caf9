"""The version of the package, and of the command that keeps its leases."""

VERSION = "0.1.0"  # core.Version; tests/house of the checkout holds them together

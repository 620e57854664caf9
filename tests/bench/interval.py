"""Prints how often mops puts a held lease's record in an hour: by its maintenance's share of the expire of its runner."""

from thds.mops.pure.core.lease import maintain

EXPIRE_S = 88  # thds.mops.pure.runner.local

print(3600 / (EXPIRE_S * maintain._MAINTENANCE_MARGIN))

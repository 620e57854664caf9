"""mops' two exceptions. If mops is installed, ours are subclasses of its own: code that catches theirs catches ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import errors

if TYPE_CHECKING:

    class _TheirCannot(ValueError): ...

    class _TheirLost(ValueError): ...
else:
    try:
        from thds.mops.pure.core.lease.maintain import CannotMaintainLease as _TheirCannot
        from thds.mops.pure.core.lease.maintain import LeaseLostError as _TheirLost
    except ImportError:
        _TheirCannot = _TheirLost = ValueError


class CannotMaintainLease(errors.NothingToJoin, _TheirCannot):
    """There is nothing to keep alive. ``reason`` is ``absent``, ``no_expiry``, ``never_acquired`` or ``unreadable``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _portable(self, _TheirCannot)


class LeaseLostError(errors.LeaseLost, _TheirLost):
    """The lease is another's, or was released. ``reason`` is ``taken`` or ``released``; ``seen`` the record."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _portable(self, _TheirLost)


def _portable(error: Exception, theirs: type[Exception]) -> tuple[Any, ...]:
    """A remote of mops hands its exception to an orchestrator, which may know only mops' own."""
    if theirs is ValueError:
        return (type(error), error.args, error.__dict__)
    return (theirs, error.args)


FINAL: tuple[type[Exception], ...] = (errors.LeaseLost, errors.NothingToJoin)
"""What a renewal may raise that no other renewal will mend."""
if _TheirLost is not ValueError:
    FINAL = (*FINAL, _TheirCannot, _TheirLost)


def translated(error: BaseException, uri: str) -> BaseException:
    """The core's word for it in mops' classes; whatever mops has no class for stays as it is."""
    if isinstance(error, errors.LeaseLost):
        return LeaseLostError(f"{error} ({uri})", reason=error.reason, seen=error.seen)
    if isinstance(error, errors.NothingToJoin):
        return CannotMaintainLease(f"{error} ({uri})", reason=error.reason)
    return error

"""The options that functions share. Name, type, default and meaning of each stand here or in Terms, and nowhere else.

A function takes them as ``**options: Unpack[LeaseOptions]``, which type checkers and editors understand. ``spelled``
has help() show them one by one, and makes the function brief.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

from ._duration import Duration, nanoseconds, waiting
from ._frames import brief
from ._held import OnWaiting
from ._hosts import AnyStore
from .errors import BadArgument, LeaseLost
from .terms import Expiry, PermitRequest, Protocol, Renewal, Terms

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack  # noqa: PLC0414 - for others
else:
    Unpack = dict  # Python 3.10 has no Unpack; get_type_hints shows a dict of the options

F = TypeVar("F", bound=Callable[..., Any])

OnLost = Callable[[LeaseLost], object]
OnLoss = Literal["tell", "cancel"]

RELEASE = 10.0  # seconds to wait for a release, by default


class AskOptions(TypedDict, total=False):
    """Of all who ask for a lease, a permit, or work. What is of Terms is explained there."""

    ttl: Duration | None
    margin: Duration | None
    expiry: Expiry
    label: str
    on_waiting: OnWaiting | None
    """Called with the Status of the name, on a thread of ours: it says for whom the caller waits."""


class TermOptions(AskOptions, total=False):
    acquire_margin: Duration | None
    fleet_expire: Duration | Literal["none"] | None
    renewal: Renewal
    protocol: Protocol
    session: bool


class WaitOptions(TypedDict, total=False):
    wait: Duration | None
    """The longest to wait for another holder, in seconds or as a timedelta. None: until it is ours; 0: try once."""


class LossOptions(TypedDict, total=False):
    on_loss: OnLoss
    """ "tell": check(), lost and on_lost say so, and the end of the block. "cancel", in mopslock.aio: the task of the
    block is also cancelled, at the deadline or when the loss is known, and the block raises LeaseLost."""


class BlockOptions(LossOptions, total=False):
    on_lost: OnLost | None
    """Called with the LeaseLost, once, on a thread of ours, when it is lost; not when it is released."""
    raise_if_lost: bool
    """Whether leaving the block raises LeaseLost if it was lost meanwhile. What the block itself raised goes first."""
    release_timeout: Duration
    """How long leaving the block waits for the store. After that the release is tried on, or the lease expires."""


class TryOptions(TermOptions, BlockOptions, total=False):
    """lease's but for how long to wait."""


class LeaseOptions(WaitOptions, TryOptions, total=False):
    """lease's."""


class TryPermitOptions(AskOptions, BlockOptions, total=False):
    width: int
    """Buckets of ``capacity`` permits each, in this caller's view."""
    weight: int
    """How many permits it takes, all or none."""
    spare: int
    """How many more must fit beside it."""


class PermitOptions(WaitOptions, TryPermitOptions, total=False):
    """permit's."""


class InvokeOptions(WaitOptions, TermOptions, LossOptions, total=False):
    memo_failures: bool
    """Whether an Exception of the work is stored as its result, and such a result is one for this caller."""


class CompanionOptions(BlockOptions, total=False):
    store: AnyStore | None
    """The holder's store, if it is no URL."""
    margin: Duration | None


class RemoteOptions(TypedDict, total=False):
    without_lease: bool
    """Whether the work is done even if the lease cannot be kept alive, or if there is none."""
    memo_failures: bool
    name: str | None
    """The name of the work, if there is no lease that says it."""
    margin: Duration | None


@dataclass(frozen=True)
class Block:
    """All that a caller says that is no term of the lease, checked before any I/O."""

    wait: Duration | None = None
    on_waiting: OnWaiting | None = None
    on_loss: OnLoss = "tell"
    on_lost: OnLost | None = None
    raise_if_lost: bool = True
    release_timeout: Duration = RELEASE

    def __post_init__(self) -> None:
        if self.on_loss not in ("tell", "cancel"):
            raise BadArgument(f"mopslock: on_loss {self.on_loss!r}: must be tell or cancel")
        self.wait_ns()
        nanoseconds("release_timeout", self.release_timeout)
        for what, call in (("on_waiting", self.on_waiting), ("on_lost", self.on_lost)):
            if call is not None and not callable(call):
                raise BadArgument(f"mopslock: {what} {call!r}: must be callable")

    def wait_ns(self) -> int:
        """How long to wait for another holder."""
        return waiting(self.wait)


_DEFAULTS: dict[str, Any] = {
    **{field.name: field.default for kind in (PermitRequest, Block, Terms) for field in fields(kind)},
    "memo_failures": False, "without_lease": False,
}  # fmt: skip
"""Of all options whose default is not None."""


def spelled(kind: Any, **defaults: Any) -> Callable[[F], F]:
    """Of a function that users call: help() shows its options, and tracebacks are brief. defaults are those of options
    that only it has."""
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, _DEFAULTS.get(name)),
            annotation=getattr(note, "__forward_arg__", note),
        )
        for name, note in kind.__annotations__.items()
    ]  # fmt: skip

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
        return cast("F", brief(function))

    return decorate


def known(call: str, kind: Any, options: Mapping[str, Any]) -> None:
    """TypeError, as Python's own, for an option that the function does not have."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")


def asked(call: str, kind: Any, options: Mapping[str, Any], *, is_task: bool, **fixed: Any) -> tuple[Terms, Block]:
    """What options say to a function of threads or of tasks. BadArgument: one is invalid, or a thread was to be
    cancelled."""
    known(call, kind, options)
    terms, block = Terms(**part(Terms, options), **fixed), Block(**part(Block, options))
    terms._check()
    if block.on_loss == "cancel" and not is_task:
        raise BadArgument(
            "mopslock: on_loss 'cancel': only a task can be cancelled, by mopslock.aio; a thread is told of a "
            "loss, by check(), lost and on_lost"
        )
    return terms, block


def part(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are fields of a dataclass."""
    return {name: options[name] for name in kind.__dataclass_fields__ if name in options}

"""What this process does with its leases and stores, counted by the names, units and labels of the Go host's metrics.

Each client has a Meter, which hears its commands, notices and requests. ``metrics`` reads what all have counted. No
label has a name, a holder, a URL or any other text of users in it.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple, overload

from ._log import log
from ._own.clock import Clock
from ._units import DEFAULT_TTL, SECOND


class Family(NamedTuple):
    type: str
    unit: str
    labels: str
    help: str
    bounds: tuple[float, ...] = ()


WAITS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
ANSWERS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SHARES = (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

FAMILIES = {
    "acquire.duration": Family("histogram", "s", "kind protocol outcome",
                               "Time from a caller's question to the answer.", WAITS),
    "handover.duration": Family("histogram", "s", "protocol from",
                                "Time from a lease's release until a waiter holds it.", WAITS),
    "takeovers": Family("counter", "{lease}", "protocol", "Leases taken from dead holders."),
    "renewals": Family("counter", "{renewal}", "kind protocol outcome", "Renewals by outcome."),
    "renewal.left": Family("histogram", "1", "kind protocol",
                           "Share of the TTL that was left to the deadline when a renewal's answer came.", SHARES),
    "losses": Family("counter", "{loss}", "kind protocol reason", "Losses of what was held, by reason."),
    "requests": Family("counter", "{request}", "verb outcome", "Requests to the store by verb and outcome."),
    "request.duration": Family("histogram", "s", "verb", "Time that requests to the store took.", ANSWERS),
    "requests.in_flight": Family("gauge", "{request}", "", "Requests to which the store has not answered yet."),
    "leases.held": Family("gauge", "{lease}", "kind protocol", "Leases held, or kept alive for another."),
    "permits.held": Family("gauge", "{permit}", "", "Permits held, by their weights."),
    "sessions": Family("gauge", "{session}", "", "Sessions in force."),
    "waiters": Family("gauge", "{waiter}", "kind", "Callers that have asked and have no answer yet."),
}  # fmt: skip


Values = dict[tuple[str, ...], list[float]]
"""By labels: a number, or of a histogram the sum and what fell below each bound and above all."""


class Registry:
    """What was counted in this process. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._values: dict[str, Values] = {name: {} for name in FAMILIES}
        self.meters: weakref.WeakSet[Meter] = weakref.WeakSet()

    def count(self, name: str, *labels: str) -> None:
        with self._lock:
            _add(self._values[name], labels, [1])

    def record(self, name: str, value: float, *labels: str) -> None:
        """In a histogram."""
        bounds = FAMILIES[name].bounds
        more = [value, *[0] * (len(bounds) + 1)]
        more[1 + bisect_left(bounds, value)] = 1
        with self._lock:
            _add(self._values[name], labels, more)

    def read(self) -> dict[str, list[dict[str, Any]]]:
        """All of it, and what keepers have counted."""
        read = self._now()
        for counted in [counted for ask in elsewhere for counted in ask()]:
            name = counted["name"].removeprefix("mopslock.")
            if name in OF_KEEPERS:
                labels = tuple(counted["labels"].get(label, "") for label in FAMILIES[name].labels.split())
                more = [counted["sum"], *counted["buckets"]] if FAMILIES[name].bounds else [counted["value"]]
                _add(read[name], labels, more)
        return {
            f"mopslock.{name}": [_sample(FAMILIES[name], *one) for one in sorted(values.items())]
            for name, values in read.items()
        }

    def counted(self) -> list[dict[str, Any]]:
        """What a keeper tells its parent."""
        values = self._now()
        return [
            {"name": f"mopslock.{name}", "labels": dict(zip(FAMILIES[name].labels.split(), labels, strict=True))}
            | ({"value": value[0]} if not FAMILIES[name].bounds else {"sum": value[0], "buckets": value[1:]})
            for name in OF_KEEPERS
            for labels, value in values[name].items()
        ]

    def _now(self) -> dict[str, Values]:
        """A gauge is what the meters have at this moment. What had it before is 0."""
        with self._lock:
            for name, family in FAMILIES.items():
                if family.type == "gauge":
                    self._values[name] = {labels: [0] for labels in self._values[name]}
            for meter in list(self.meters):
                for name, labels, n in meter.now():
                    _add(self._values[name], labels, [n])
            return {name: dict(values) for name, values in self._values.items()}


OF_KEEPERS = ("requests", "request.duration", "requests.in_flight", "renewals", "renewal.left")
"""What only a keeper can count of what it keeps."""

elsewhere: list[Callable[[], Iterable[dict[str, Any]]]] = []  # who asks the keepers


def _add(values: Values, labels: tuple[str, ...], more: list[float]) -> None:
    values[labels] = [a + b for a, b in zip(values.get(labels, [0] * len(more)), more, strict=True)]


def _sample(family: Family, labels: tuple[str, ...], value: list[float]) -> dict[str, Any]:
    named = dict(zip(family.labels.split(), labels, strict=True))
    if not family.bounds:
        return {"labels": named, "value": value[0]}
    below = [*accumulate(value[1:])]
    buckets = dict(zip(family.bounds, below, strict=False))
    return {"labels": named, "count": below[-1], "sum": value[0], "buckets": buckets}


registry = Registry()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=registry.__init__)  # type: ignore[misc]


@overload
def metrics() -> dict[str, list[dict[str, Any]]]: ...
@overload
def metrics(format: Literal["prometheus"]) -> str: ...
def metrics(format: str = "dict") -> dict[str, list[dict[str, Any]]] | str:  # noqa: A002
    """What this process has counted since it began, or was forked::

        mopslock.metrics()["mopslock.leases.held"]   # [{"labels": {"kind": "lease", "protocol": "strict"}, "value": 2}]

    The names, units and labels are those of the Go host, which its package's comment explains. There is one such dict
    for each combination of labels. One of a histogram has ``count``, ``sum`` and ``buckets`` in place of a value: how
    many were no more than each bound.

    With ``format="prometheus"`` it is text as Prometheus reads it: ``mopslock_leases_held{kind="lease",…} 2``. There a
    name has underscores, ``_seconds`` if it is in seconds and ``_total`` if it is a counter. What keepers count
    is asked of them, for a second at most; a keeper that has ended takes its counts along.
    """
    if format == "dict":
        return registry.read()
    if format != "prometheus":
        raise ValueError(f"mopslock: format {format!r}: must be dict or prometheus")
    return "".join(f"{line}\n" for name, found in registry.read().items() if found for line in _lines(name, found))


def _lines(name: str, samples: list[dict[str, Any]]) -> Iterator[str]:
    family = FAMILIES[name.removeprefix("mopslock.")]
    name = name.replace(".", "_") + "_seconds" * (family.unit == "s") + "_total" * (family.type == "counter")
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {family.type}"
    for sample in samples:
        labels = ",".join(f'{key}="{value}"' for key, value in sample["labels"].items())
        braced = f"{{{labels}}}" if labels else ""
        if not family.bounds:
            yield f"{name}{braced} {sample['value']}"
            continue
        for bound, below in [*sample["buckets"].items(), ("+Inf", sample["count"])]:
            yield f'{name}_bucket{{{labels},le="{bound}"}} {below}'
        yield f"{name}_sum{braced} {sample['sum']}"
        yield f"{name}_count{braced} {sample['count']}"


ASKS = {
    "acquire": ("lease", "lease"), "accompany": ("companion", "companion"), "permit": ("permit", "permit"),
    "invoke": ("invocation", "lease"), "remote": ("invocation", "companion"),
}  # fmt: skip
"""Commands that a caller waits for: as what it is counted, and what it holds."""

UNAVAILABLE = ("unauthorized", "no_such_store", "read_only", "full")  # classes of failures that waiting does not mend


def outcome_of(action: dict[str, Any]) -> str:
    """How a question has ended. "" is an argument that was wrong: no store was asked."""
    kind, reason = action["kind"], action.get("reason", "")
    if kind in ("held", "launch", "found"):
        return "found" if kind == "found" else "held"
    if reason == "terms":
        return ""
    if reason == "cancelled" or kind == "left":
        return "cancelled"
    if action.get("class") in UNAVAILABLE or reason in ("unreachable", "unusable", "unreadable", "no_session"):
        return "unavailable"
    if reason in ("newer", "kind", "no_create", "crowded"):
        return "unfit"
    return "lost" if kind == "lost" else "refused"


ANSWERS_ARE = {"held", "launch", "found", "refused", "absent", "cannot_maintain", "lost", "left"}
"""Notices that answer a caller. The first one counts; of an invocation held is none."""


@dataclass(slots=True)
class _Counted:
    """What was asked for, and is held; or a session."""

    kind: str
    holds: str
    protocol: str
    ttl: int
    weight: int = 1
    begun: int | None = None  # Mono, until the caller has its answer
    is_held: bool = False
    renews: bool = False
    until: int = 0

    def gone(self, reason: str = "") -> None:
        """It is held no more. A reason says that it is lost."""
        if self.is_held and reason:
            registry.count("losses", self.holds, self.protocol, reason)
        self.is_held = False

    def now(self) -> Iterator[tuple[str, tuple[str, ...], int]]:
        if self.begun is not None:
            yield "waiters", (self.kind,), 1
        if not self.is_held:
            return
        if self.kind == "session":
            yield "sessions", (), 1
        elif self.kind == "permit":
            yield "permits.held", (), self.weight
        else:
            yield "leases.held", (self.holds, self.protocol), 1


class Meter:
    """What one client does. It is called under the client's lock."""

    def __init__(self, clock: Clock, *, renewals: bool = True) -> None:
        self._clock, self._renewals = clock, renewals
        self._counted: dict[int, _Counted] = {}  # claims, and sessions by their negative numbers
        self._sent: dict[int, int] = {}  # requests, and when
        registry.meters.add(self)

    def now(self) -> Iterator[tuple[str, tuple[str, ...], int]]:
        """What it has for the gauges. Any thread may ask."""
        yield "requests.in_flight", (), len(self._sent)
        for one in list(self._counted.values()):
            yield from one.now()

    def asked(self, number: int, command: dict[str, Any], terms: dict[str, Any]) -> None:
        if command["kind"] in ASKS:
            self._counted[number] = _Counted(
                *ASKS[command["kind"]], terms.get("protocol", "unknown"), terms.get("ttl_ns", 0),
                command.get("weight", 1), self._clock.mono(),
            )  # fmt: skip

    def told(self, action: dict[str, Any]) -> None:
        """A notice. What is wrong here costs a line of the log, and no lease."""
        try:
            number = action["claim"] if "claim" in action else -action.get("on", 0)
            if action["kind"] == "held" and number < 0:
                self._counted[number] = _Counted("session", "session", "strict", action.get("ttl_ns", 0))
            if (one := self._counted.get(number)) is not None:
                self._hear(one, action)
        except Exception:
            log.exception("mopslock: a metric was not counted; this is an error in mopslock")

    def _hear(self, one: _Counted, action: dict[str, Any]) -> None:
        kind = action["kind"]
        if kind == "held":
            one.protocol = action.get("protocol", one.protocol)
            one.until, one.renews = action.get("at_ns", 0), one.kind == "session" or not action.get("on")
            if one.holds == "lease" and not one.is_held:
                _handed_over(action)
            one.is_held = True
        elif kind == "renewed":
            self._renewed(one)
            one.until = action["at_ns"]
        elif kind == "deadline":
            one.until = action.get("at_ns", 0)
        elif kind in ("lost", "released", "left", "cannot_maintain"):
            one.gone(action["reason"] if kind == "lost" else "")
        if kind in ANSWERS_ARE and (kind != "held" or one.kind != "invocation"):
            self._answer(one, outcome_of(action))

    def _renewed(self, one: _Counted) -> None:
        """What stands on a session is renewed by that."""
        if one.renews and self._renewals:
            ttl = one.ttl or DEFAULT_TTL.get(one.protocol, 0)
            if ttl > 0:
                registry.record("renewal.left", (one.until - self._clock.mono()) / ttl, one.holds, one.protocol)
            registry.count("renewals", one.holds, one.protocol, "renewed")

    def _answer(self, one: _Counted, outcome: str) -> None:
        if one.begun is None:
            return
        took, one.begun = (self._clock.mono() - one.begun) / SECOND, None
        if outcome:
            registry.record("acquire.duration", took, one.kind, one.protocol, outcome)

    def forgot(self, number: int, outcome: str = "", reason: str = "") -> None:
        """Nothing more is told of a claim."""
        one = self._counted.pop(number, None)
        if one is not None:
            self._answer(one, outcome)
            one.gone(reason if one.holds != "companion" else "")

    def stranded(self) -> None:
        """The client has failed, or is gone."""
        for number in list(self._counted):
            self.forgot(number, "unavailable", "unreachable")
        self._sent.clear()

    def sent(self, action: dict[str, Any]) -> None:
        self._sent[action["request"]] = self._clock.mono()

    def answered(self, action: dict[str, Any], answer: dict[str, Any]) -> None:
        """The store has answered, or nobody waits for it any more."""
        sent = self._sent.pop(action["request"], None)
        if sent is None:
            return
        verb, outcome = action["kind"], answer["outcome"]
        registry.count("requests", verb, answer.get("class", "other") if outcome == "unknown" else outcome)
        registry.record("request.duration", (self._clock.mono() - sent) / SECOND, verb)
        if outcome == "unknown" and action.get("purpose") == "renewal":
            one = self._counted.get(action.get("claim", 0))
            holds, protocol = (one.holds, one.protocol) if one is not None else ("session", "strict")
            registry.count("renewals", holds, protocol, "failed")


def _handed_over(action: dict[str, Any]) -> None:
    origin = action.get("origin", "")
    if origin == "dead":
        registry.count("takeovers", action["protocol"])
    elif origin in ("here", "elsewhere"):
        registry.record("handover.duration", action.get("took_ns", 0) / SECOND, action["protocol"], origin)

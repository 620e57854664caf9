"""What is counted of leases and stores, and how it is read: by the names, units and labels of the Go host."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import _metrics
from mopslock._units import FOREVER
from mopslock.stores import Directory
from mopslock.terms import PermitRequest, Terms
from ways import LIVES, NOTICES, SOON, Place, forked, until, waiting
from world import TTL, FakeStore, World

PROTOCOLS_OPEN = True
STRICT = Terms(ttl=TTL, protocol="strict")


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(_metrics, "registry", _metrics.Registry())
    if "world" in request.fixturenames:  # in which no keeper is, but one of another test may live
        monkeypatch.setattr(_metrics, "elsewhere", [])


@pytest.fixture
def world() -> World:
    """Whose store honours create-if-absent."""
    return World(FakeStore())


def value(name: str, **labels: str) -> float:
    """Of the samples that have these labels; of a histogram how many there were."""
    found = mopslock.metrics()[f"mopslock.{name}"]
    counts = [one.get("value", one.get("count", 0)) for one in found if labels.items() <= one["labels"].items()]
    return float(sum(counts))


def holds() -> dict[str, float]:
    """What is held now, or under way."""
    names = ("leases.held", "permits.held", "sessions", "waiters", "requests.in_flight")
    return {name: n for name in names if (n := value(name))}


def test_the_metrics_are_those_of_the_go_host(checkout: Path) -> None:
    table = (checkout / "host/metrics.go").read_text()
    rows = re.findall(r"^//\t(mopslock\.\S+) +(\w+) +(\S+) +(.*?)  +\S", table, re.M)
    theirs = {name: (type_.replace("updowncounter", "gauge"), unit, labels) for name, type_, unit, labels in rows}
    ours = {f"mopslock.{name}": (one.type, one.unit, one.labels or "-") for name, one in _metrics.FAMILIES.items()}
    assert ours == theirs
    assert list(mopslock.metrics()) == list(theirs)
    meter = (checkout / "host/internal/telemetry/meter.go").read_text()
    for name, one in _metrics.FAMILIES.items():
        assert f'"mopslock.{name}", "{one.unit}", "{one.help}"' in meter
    for bounds in (_metrics.WAITS, _metrics.ANSWERS, _metrics.SHARES):
        assert f"[]float64{{{', '.join(f'{bound:g}'.removeprefix('0') or '0' for bound in bounds)}}}" in meter


def test_a_lease_from_the_question_to_its_end(world: World) -> None:
    host = world.host()
    lease = world.lease(host, terms=STRICT)
    strict = {"kind": "lease", "protocol": "strict"}
    assert holds() == {"leases.held": 1}
    assert value("acquire.duration", **strict, outcome="held") == 1
    world.run(10 * TTL)
    assert value("renewals", **strict, outcome="renewed") == value("renewal.left", **strict) >= 20
    (left,) = mopslock.metrics()["mopslock.renewal.left"]
    assert 0.5 < left["sum"] / left["count"] < 0.7, "a third of the TTL has passed, and a tenth is the margin"
    asked = world.store.asked()
    assert all(value("requests", verb=verb) == asked.count(verb) for verb in set(asked))
    assert value("request.duration") == len(asked)
    world.result(lease.finish())
    assert holds() == {}
    assert value("losses") == 0


def test_a_caller_that_waits_is_refused_or_follows(world: World) -> None:
    first, second, third = world.host(), world.host(), world.host()
    lease = world.lease(first, terms=STRICT)
    world.error(second.begin_acquire("n", STRICT, 0, None))
    assert value("acquire.duration", outcome="refused", protocol="strict") == 1
    waits = second.begin_acquire("n", STRICT, FOREVER, None)
    given_up = third.begin_acquire("n", STRICT, FOREVER, None)
    world.run(1)
    assert value("waiters", kind="lease") == 2
    given_up.cancel()
    world.run(1)
    assert value("acquire.duration", outcome="cancelled") == value("waiters") == 1
    world.result(lease.finish())
    followed = world.result(waits)
    assert value("handover.duration", **{"from": "elsewhere"}) == 1
    waits = third.begin_acquire("n", STRICT, FOREVER, None)
    world.run(1)
    second.paused = True
    world.result(waits)
    assert value("takeovers", protocol="strict") == 1
    second.paused = False
    world.run(1)
    assert isinstance(followed.failure(), mopslock.LeaseLost)
    assert value("losses", kind="lease", protocol="strict") == 1
    assert holds()["leases.held"] == 1


def test_a_store_that_fails(world: World) -> None:
    host = world.host()
    lease = world.lease(host, terms=Terms(ttl=TTL, protocol="strict", session=True))
    assert holds() == {"leases.held": 1, "sessions": 1}
    world.run(5 * TTL)
    assert value("renewals", kind="session", outcome="renewed") >= 10
    assert value("renewals", kind="lease") == 0, "its session is renewed for it"
    world.store.fail(ConnectionError("gone"))
    assert isinstance(world.error(host.begin_acquire("other", STRICT, 0, None)), mopslock.WaitOver)
    world.run(TTL)
    assert isinstance(lease.failure(), mopslock.LeaseUnreachable)
    assert value("requests", outcome="unreachable") >= 2
    assert value("requests") == value("request.duration")
    assert value("renewals", kind="session", outcome="failed") >= 1
    assert value("losses", kind="lease", reason="unreachable") == value("losses", kind="session") == 1
    assert value("acquire.duration", outcome="refused") == 1
    assert holds().keys() <= {"requests.in_flight"}
    world.store.fail(PermissionError("no"))
    assert isinstance(world.error(world.host().begin_acquire("another", STRICT, 0, None)), mopslock.Unauthorized)
    assert value("acquire.duration", outcome="unavailable") == 1
    assert value("requests", outcome="unauthorized") >= 1


def test_permits_by_their_weights_and_what_ends_with_its_client(world: World) -> None:
    host = world.host()
    permit = world.result(host.begin_permit("p", STRICT, PermitRequest(4, weight=3), FOREVER, None))
    assert holds() == {"permits.held": 3, "sessions": 1}
    full = world.error(host.begin_permit("p", STRICT, PermitRequest(4, weight=2), 0, None))
    assert isinstance(full, mopslock.Full)
    assert value("acquire.duration", kind="permit") == 2
    world.result(permit.finish())
    world.result(host.begin_permit("p", STRICT, PermitRequest(4, weight=2), FOREVER, None))
    host.begin_acquire("n", STRICT, FOREVER, None)
    world.hold()
    world.settle()
    assert holds()["requests.in_flight"] > 0
    host.client.meter.stranded()
    assert holds() == {}
    assert value("losses", kind="permit", reason="unreachable") == 1


def test_by_url_and_by_an_object_it_is_the_same(place: Place) -> None:
    options: Any = {"ttl": LIVES, "protocol": place.protocol}
    with mopslock.lease(place.store, "n", **options) as lease:
        assert holds() == {"leases.held": 1}
        assert mopslock.try_acquire(place.store, "n", **options) is None
        with mopslock.accompany(lease.text, store=place.store):
            assert value("leases.held", kind="companion") == 1
        until(lambda: value("leases.held", kind="companion") == 0)
        with waiting(mopslock.acquire, place.store, "n", **options) as (waits, _):
            assert value("waiters", kind="lease") == 1
            lease.release()
            waits.result(SOON).release()
    mopslock.invoke(place.store, "w", lambda _: b"%d" % value("leases.held", kind="lease"), **options)
    result = mopslock.invoke(place.store, "w", lambda _: b"", **options)
    assert result.read() == b"1"
    until(lambda: not holds())
    outcomes = {(one["labels"]["kind"], one["labels"]["outcome"]): one["count"] for one in mopslock.metrics()[ACQUIRE]}
    assert outcomes == {
        ("companion", "held"): 1, ("invocation", "found"): 1, ("invocation", "held"): 1, ("lease", "held"): 2,
        ("lease", "refused"): 1,
    }  # fmt: skip
    assert value("handover.duration") == 1
    assert value("losses") == 0
    assert value("requests", verb="get", outcome="yes") > 0  # a keeper counts those that it makes
    assert value("request.duration", verb="get") == value("requests", verb="get")


ACQUIRE = "mopslock.acquire.duration"


@pytest.mark.parametrize("store", [Path.as_uri, lambda path: Directory(path, keeper=True)], ids=["url", "own"])
def test_a_keeper_counts_its_renewals(store: Callable[[Path], Any], tmp_path: Path) -> None:
    with mopslock.lease(store(tmp_path), "n", ttl=NOTICES):
        before = value("renewals", outcome="renewed")  # of other tests
        until(lambda: value("renewals", outcome="renewed") > before)
        assert value("renewal.left") > 0


def test_a_metric_that_cannot_be_counted_costs_a_line_of_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_metrics.Meter, "_hear", None)
    lease = world.lease(world.host())
    lease.failure()
    assert "a metric was not counted" in caplog.text


def test_a_forked_child_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # of the registry that a fork begins anew
    _metrics.registry.count("takeovers", "strict")
    assert forked(lambda: value("takeovers")) == 0
    assert value("takeovers") >= 1


def test_prometheus_reads_the_text(world: World) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    world.run(TTL * 2, lambda: False)
    lease = world.lease(terms=STRICT)
    waits = world.host().begin_acquire("n", STRICT, FOREVER, None)
    world.run(TTL)
    assert holds() == {"leases.held": 1, "waiters": 1}
    waits.cancel()
    world.result(lease.finish())
    text = mopslock.metrics(format="prometheus")
    read = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert read["mopslock_leases_held"].type == "gauge"
    assert [one.value for one in read["mopslock_leases_held"].samples] == [0], "it was seen before"
    assert read["mopslock_renewals"].type == "counter"
    (renewals,) = read["mopslock_renewals"].samples
    assert (renewals.name, renewals.value) == ("mopslock_renewals_total", value("renewals"))
    took = read["mopslock_acquire_duration_seconds"]
    labels = {"kind": "lease", "protocol": "strict", "outcome": "held"}
    assert (took.type, took.documentation) == ("histogram", _metrics.FAMILIES["acquire.duration"].help)
    held = [one for one in took.samples if labels.items() <= one.labels.items()]
    assert [one.labels for one in held if not one.name.endswith("_bucket")] == [labels] * 2
    assert [one.value for one in held if one.labels.get("le") in ("0.001", "+Inf")] == [0, 1]
    assert {one.labels.get("le") for one in took.samples} >= {"0.5", "1", "2.5", "7200"}
    assert read["mopslock_requests_in_flight"].samples[0].value == 0
    assert "mopslock_takeovers" not in read
    assert read.keys() >= {"mopslock_renewal_left", "mopslock_waiters", "mopslock_request_duration_seconds"}
    with pytest.raises(ValueError, match="must be dict or prometheus"):
        mopslock.metrics("xml")  # type: ignore[call-overload]


def test_the_readmes_collector_shows_them(place: Place) -> None:
    client = pytest.importorskip("prometheus_client")
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    (example,) = re.findall(r"```python\n(import prometheus_client\n.*?)```", readme, re.S)
    names: dict[str, Any] = {}
    exec(example, names)
    with mopslock.lease(place.store, "n", ttl=LIVES, protocol=place.protocol):
        shown = client.generate_latest(names["registry"]).decode()
    assert f'mopslock_leases_held{{kind="lease",protocol="{place.protocol}"}} 1.0' in shown
    assert 'mopslock_acquire_duration_seconds_bucket{kind="lease",le="+Inf",outcome="held"' in shown

"""The names of mops' lease package, with leases of mopslock underneath.

::

    import mopslock.mops

    mopslock.mops.install()     # mops' runner, and its remotes, use our leases from now on

The names, signatures and results are those of ``thds.mops.pure.core.lease``. The records have mops' own form to the
byte, so both packages may be used on one lease at the same time. They differ on bad days. A renewal reads before it
writes, so it never overwrites another's lease and never brings a released one back. A renewal that fails is tried again
until the lease expires. A release overwrites no other holder's record.

mops' ``lookup_blob_store`` finds stores, without its cache. We read and write mops' own file store by faster verbs of
ours, on the same files.

Call ``install()`` on both sides: in an orchestrator, and at the entry point of a remote before mops runs anything. If a
remote does not call it, mops' own maintenance keeps our lease alive. It writes blindly, as always, so it may bring back
a lease that was released under it. If only the remote calls it, it keeps mops' lease alive.

Exceptions are those of mops where mops has some: CannotMaintainLease and LeaseLostError are subclasses of mops' own,
and travel between processes as these. A store that fails is tried for ten seconds, at most a third of ``expire``. Then
its StoreError is raised, with the store's own exception as its cause. mops' runner hands either to the caller that
waits for the result; a None would tell it that another process is doing the work.

Leases are not released when the process ends, since a remote may go on with the work: they expire. A forked child keeps
none of its parent's leases alive, and the releasers that it inherits do nothing there. The leases themselves are plain
data: the child may maintain, add or release its copy, as any other process may.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

from .. import errors
from .._duration import nanoseconds
from .._log import log
from .._own.verbs import looked_at
from .._units import FOREVER, SECOND
from ..stores import _lookup
from . import _leases
from ._engine import LEASE_DIRNAME, RECORD, Engine, Place, engine
from ._keeping import add_lease_to_maintenance_daemon
from ._leases import CannotMaintainLease, Claim, Lease, LeaseAcquired, LeaseLostError, RemoteLease, translated

EMPTY_READS = 5
RETRY = 0.2  # seconds between two tries of a store that failed
JOIN = 88.0  # seconds for which a remote tries to read the record that it is to keep alive
_PERMANENT = (errors.Unauthorized, errors.NoSuchStore, errors.ReadOnly, errors.StoreFull)
_PASSING = ("other", "unreachable", "throttled")


def acquire(
    lease_dir_uri: str,
    *,
    expire: timedelta = timedelta(seconds=30),
    acquire_margin: timedelta = timedelta(seconds=0.0),
    debug: bool = True,
    block: timedelta | None = timedelta(seconds=0),
) -> LeaseAcquired | None:
    """Takes a lease. None: another holds it, or was faster, and has not released it within block.

    ``block`` zero tries once, None waits until it is held. ``expire`` must be the same for all on the lease.
    ``acquire_margin`` is the least time between the claim and its verification; zero is twice what the store took.
    ``debug`` is for mops' traces; we write none.

    The lease is not renewed by itself: maintain it, or add it to the maintenance. ValueError: an argument is invalid;
    nothing was done. StoreError: the store failed, nothing is held, and what was written is released or expires.
    """
    for what, duration in (("expire", expire), ("acquire_margin", acquire_margin), ("block", block)):
        if not isinstance(duration, timedelta) and not (what == "block" and duration is None):
            raise TypeError(f"mopslock: {what} {duration!r}: must be a timedelta")
    if expire <= timedelta(0):
        raise errors.BadArgument(f"mopslock: expire {expire}: must be above 0")
    if acquire_margin < timedelta(0):
        raise errors.BadArgument(f"mopslock: acquire_margin {acquire_margin}: must not be negative")
    if acquire_margin * 2 > expire:
        raise errors.BadArgument(f"mopslock: acquire_margin {acquire_margin}: must be at most half of expire {expire}")
    wait_ns = FOREVER if block is None else nanoseconds("block", max(block, timedelta(0)))
    on = engine()
    until = on.clock.mono() + int(_leases.patience(expire.total_seconds()) * SECOND)
    while True:
        try:
            return _acquire(on, lease_dir_uri, expire.total_seconds(), acquire_margin.total_seconds(), wait_ns)
        except errors.Held:
            return None
        except _PERMANENT:
            raise
        except (errors.StoreError, errors.WaitOver) as error:
            if on.clock.mono() >= until:
                raise
            log.warning("mopslock: lease %s: tried again: %s", lease_dir_uri, error)
            time.sleep(RETRY)


def _acquire(on: Engine, lease_dir_uri: str, expire_s: float, margin_s: float, wait_ns: int) -> Lease:
    """One attempt, or one wait."""
    lease = Lease(lease_dir_uri, "", expire_s, margin_s)
    _settle(on, lease, Claim(lease.place(on), guarded=True), "acquire", wait_ns)
    return lease


def _settle(on: Engine, lease: Lease, claim: Claim, kind: str, wait_ns: int = 0, **more: str) -> None:
    """Waits until it is held or joined."""
    try:
        claim.begin(kind, lease.expire_s, lease.acquire_margin_s, wait_ns, **more)
        claim.settled.wait(None)
        claim.settled.result()
        lease.writer_id = lease.writer_id or claim.holder
        lease.keep(on, claim)
    except BaseException:  # also an interrupt, when it is held perhaps
        if not claim.settled.cancel() and claim.settled.exception() is None:
            claim.finish()
        raise


def make_remote_lease_writer(lease_dir_uri: str, expected_writer_id: str = "") -> LeaseAcquired:
    """Joins a lease that another process has acquired, to keep it alive. Its release does nothing.

    It writes once, as ``remote``; add it to the maintenance. It revives an expired lease that no other holder has
    taken. LeaseLostError: another holder has it, or it was released. CannotMaintainLease: there is none, it has no
    expiry, it was never acquired, or it could not be read for a TTL. It waits for another's claim that is in progress.
    """
    on = engine()
    writer_id, expire_s = _particulars(on, lease_dir_uri, expected_writer_id)
    lease = RemoteLease(lease_dir_uri, writer_id, expire_s)
    joined = Claim(lease.place(on), guarded=False)
    try:
        _settle(on, lease, joined, "accompany", holder=writer_id, role=lease.role)
    except errors.BadArgument as error:
        raise CannotMaintainLease(f"{error} ({lease_dir_uri})", reason="no_expiry") from error
    except errors.MopslockError as error:
        raise translated(error, lease_dir_uri) from joined.cause
    return lease


def _particulars(on: Engine, lease_dir_uri: str, writer_id: str) -> tuple[str, float]:
    """Which holder to join, and with which TTL. The machine made from these reads and judges by itself."""
    try:
        place = on.place(lease_dir_uri)
    except errors.BadArgument as error:
        raise _cannot(lease_dir_uri, "unreadable", str(error)) from error
    until, pause = on.clock.mono() + int(JOIN * SECOND), RETRY
    while True:
        try:
            record = _read(place)
            break
        except Exception as error:
            class_, _, cause = looked_at(error)
            if on.clock.mono() >= until or class_ not in _PASSING:
                raise _cannot(lease_dir_uri, "unreadable", repr(cause)) from cause
            log.warning("mopslock: lease %s: its record is read again: %r", lease_dir_uri, cause)
            time.sleep(pause)
            pause = min(5.0, pause * 1.5)
    if record is None:
        raise _cannot(lease_dir_uri, "absent", "there is no record; is it the right store?")
    expire_s = record.get("expire_s")
    if isinstance(expire_s, bool) or not isinstance(expire_s, (int, float)) or not 0 < expire_s < float("inf"):
        raise _cannot(lease_dir_uri, "no_expiry", f"expire_s is {expire_s!r}")
    found = record.get("writer_id")
    if not isinstance(found, str) or not found:
        raise _cannot(lease_dir_uri, "unreadable", f"writer_id is {found!r}")
    return writer_id or found, float(expire_s)


def _cannot(uri: str, reason: str, why: str) -> CannotMaintainLease:
    return CannotMaintainLease(f"mopslock: lease {uri} cannot be maintained ({reason}): {why}", reason=reason)


def maintain_to_release(acquired_lease: LeaseAcquired) -> Callable[[], None]:
    """Keeps a lease alive, unless mops is configured not to, and returns the function that releases it."""
    with contextlib.suppress(ImportError):
        from thds.mops.pure.core.lease.maintain import MAINTAIN_LEASES  # noqa: PLC0415 - mops may be missing

        if not MAINTAIN_LEASES():
            return acquired_lease.release
    return add_lease_to_maintenance_daemon(acquired_lease)


def lease_uri_for(memo_uri: str) -> str:
    """Where the record of an invocation's lease is."""
    blobs = _lookup(memo_uri)
    return blobs.join(blobs.join(memo_uri, LEASE_DIRNAME), RECORD)


def read_lease(memo_uri: str) -> dict[str, Any] | None:
    """The record of an invocation's lease, as it is. None: there is none, or it cannot be read. It never raises."""
    try:
        blobs = _lookup(memo_uri)
        return _read(engine().place(blobs.join(memo_uri, LEASE_DIRNAME)))
    except Exception:
        log.debug("mopslock: the lease of %s cannot be read", memo_uri, exc_info=True)
        return None


def _read(place: Place) -> dict[str, Any] | None:
    """A record; None if there is none. An empty one is read again, since another process may be writing it."""
    for _ in range(EMPTY_READS):
        found = place.record.get(RECORD)
        if found is None:
            return None
        body = found if isinstance(found, bytes) else found[0]
        if body:
            break
        time.sleep(RETRY / 10)
    record = json.loads(body)
    if not isinstance(record, dict):
        raise errors.MopslockError(f"mopslock: the record of {place.uri} is no JSON object")
    return record


# In mops' place.

_OURS: dict[str, Callable[..., Any]] = {
    ours.__name__: ours
    for ours in (
        acquire, add_lease_to_maintenance_daemon, lease_uri_for, maintain_to_release, make_remote_lease_writer,
        read_lease,
    )
}  # fmt: skip
_replaced: list[tuple[ModuleType, str, Any]] = []


def install() -> None:
    """Replaces mops' own functions by these, in its lease package and wherever mops has imported them from it.

    It is for this process, at any time, any number of times. mops goes on with the leases that it maintains already.
    The exceptions stay mops' own, which catch ours. ModuleNotFoundError: mops is not installed.
    """
    from thds.mops.pure.core import lease as theirs  # noqa: PLC0415 - mops may be missing

    originals = {id(getattr(theirs, name)): name for name in _OURS if getattr(theirs, name) is not _OURS[name]}
    if not originals:
        return
    for module_name, module in list(sys.modules.items()):
        if module is None or not module_name.startswith("thds.mops"):
            continue
        for attribute, value in list(vars(module).items()):
            name = originals.get(id(value))
            if name is not None:
                _replaced.append((module, attribute, value))
                setattr(module, attribute, _OURS[name])


def uninstall() -> None:
    """Undoes install, for tests. Leases that are maintained here stay so."""
    while _replaced:
        module, attribute, value = _replaced.pop()
        setattr(module, attribute, value)


__all__ = [
    "LEASE_DIRNAME", "CannotMaintainLease", "LeaseAcquired", "LeaseLostError", "acquire",
    "add_lease_to_maintenance_daemon", "install", "lease_uri_for", "maintain_to_release", "make_remote_lease_writer",
    "read_lease", "uninstall",
]  # fmt: skip

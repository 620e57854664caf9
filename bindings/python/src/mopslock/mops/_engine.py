"""What all leases of mops in this process stand on: one host, and the stores that mops itself would use."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakValueDictionary

from .. import stores
from .._duration import nanoseconds
from .._event_loop import Do, Lane
from .._lease_runner import LeaseRunner
from .._stepped import SteppedHost, lane
from .._verbs import Event
from ..errors import BadArgument

LEASE_DIRNAME = "lock"
"""The directory of an invocation's lease, below its memo URI."""

RECORD = "lock.json"


class Engine:
    """One for each process: a forked child has its own, and none of what the parent keeps."""

    def __init__(self, host: SteppedHost | None = None, submit: Callable[[Do], None] | None = None) -> None:
        """A host, and a way to run the verbs of other people's leases, are for tests."""
        self._own_threads = host is None
        self.host = host or SteppedHost(_NoStore())
        self.submit = submit or lane().submit  # they may hang, and our own requests must not wait for them
        self._lanes: dict[str, Lane] = {}
        self.kept: dict[tuple[str, bool], Callable[[], None]] = {}  # releasers, by writer_id and whether for a remote
        self.litter: deque[LeaseRunner] = deque()
        self._places: WeakValueDictionary[str, _Object] = WeakValueDictionary()

    def place(self, lease_dir_uri: str) -> Place:
        """Where a lease lies. All leases of one URI share a store, by which their waiters hear of each other."""
        name = name_of(lease_dir_uri)
        uri = lease_dir_uri.rstrip("/")
        store = self._places.get(uri)
        if store is None:
            store = self._places.setdefault(uri, _store(lease_dir_uri))
            store.title = uri
            if self._own_threads:
                store.lane = self._lane(uri)
        return Place(lease_dir_uri, name, store)

    def _lane(self, uri: str) -> Lane:
        """The share of the workers of all leases on one store of mops': one that hangs costs no other its leases."""
        root = "/".join(uri.split("/")[:3])
        return self._lanes.get(root) or self._lanes.setdefault(root, lane())

    def sweep(self) -> None:
        """Drops the machines of leases that nothing refers to. Their finalizers may not take a lock; we may."""
        with contextlib.suppress(IndexError):  # empty; another thread may also be sweeping
            while True:
                self.discard(self.litter.popleft())

    def discard(self, runner: LeaseRunner | None) -> None:
        """Its record stays as it is, and expires."""
        if runner is not None and runner.host is self.host:
            self.host.forget(runner)
            runner.forget_machine()


class Place:
    """The URI of a lease's directory, its last segment, and the store of its record."""

    __slots__ = ("name", "store", "uri")

    def __init__(self, uri: str, name: str, store: _Object) -> None:
        self.uri, self.name, self.store = uri, name, store


def name_of(lease_dir_uri: str) -> str:
    """The last segment of a URI, which the core takes for the lease's name; what is before it may be anything."""
    if not isinstance(lease_dir_uri, str):
        raise BadArgument(f"mopslock: lease_dir_uri {lease_dir_uri!r}: must be text")
    root, _, name = lease_dir_uri.rstrip("/").rpartition("/")
    if not root.strip("/") or root.rstrip("/").endswith(":"):
        raise BadArgument(f"mopslock: lease_dir_uri {lease_dir_uri!r}: must have a root and a last segment below it")
    return name


def lookup(uri: str) -> stores.BlobStore:
    """mops' own store for a URI, without its cache: a lease's record must be read from the store itself."""
    try:
        from thds.mops.pure.core.control_cache import CONTROL_CACHE_TTL_IN_SECONDS  # noqa: PLC0415
        from thds.mops.pure.core.uris import lookup_blob_store  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"mopslock.mops finds stores through mops, which is not installed ({error}): pip install 'mopslock[mops]'",
            name=error.name,
        ) from error
    with CONTROL_CACHE_TTL_IN_SECONDS.set_local(-1):
        return cast("stores.BlobStore", lookup_blob_store(uri))


def _store(lease_dir_uri: str) -> _Object:
    blobs = lookup(lease_dir_uri)
    from thds.core.files import path_from_uri  # noqa: PLC0415
    from thds.mops.pure.core.file_blob_store import FileBlobStore  # noqa: PLC0415

    if type(blobs) is FileBlobStore:
        return _File(str(path_from_uri(blobs.join(lease_dir_uri, RECORD))))
    return _Blob(blobs, lease_dir_uri)


class _Object:
    """A store of one record, whatever the key: the URI is joined exactly as mops joins it."""

    title: str  # of the lease, in what people are told: its name is mostly "lock"
    lane: Lane | None = None

    def get(self, key: str) -> bytes | stores.Blob | None:
        raise NotImplementedError

    def put(self, key: str, body: bytes) -> None:
        raise NotImplementedError

    def exists(self, key: str) -> bool:
        return self.get(key) is not None


class _Blob(_Object):
    """A record in a BlobStore."""

    def __init__(self, blobs: stores.BlobStore, lease_dir_uri: str) -> None:
        self._mops = stores.Mops(blobs, lease_dir_uri)

    def get(self, key: str) -> bytes | None:
        return self._mops.get(RECORD)

    def put(self, key: str, body: bytes) -> None:
        self._mops.put(RECORD, body)


class _File(_Object):
    """The same file as mops' FileBlobStore, by verbs that cost a third of its."""

    prompt = True  # its verbs run where they are asked for

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, key: str) -> stores.Blob | None:
        return stores.read_file(self.path)

    def put(self, key: str, body: bytes) -> None:
        stores.write_file(self.path, body)


class _NoStore(_Object):
    """The store of the host itself: every claim brings its own."""

    url = "mops"


class _Current:
    """The engine of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.engine: Engine | None = None


_current = _Current()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_current.__init__)  # type: ignore[misc]


def engine() -> Engine:
    """The engine of this process, made when it is first needed."""
    found = _current.engine
    if found is None:
        with _current.lock:
            found = _current.engine = _current.engine or Engine()
    return found


def terms(expire_s: float, acquire_margin_s: float) -> Event:
    """What the core is told of a lease. The rest is its default: others may judge us by mops' own 88 s."""
    fields: dict[str, Any] = {"ttl_ns": nanoseconds("expire", expire_s)}
    if acquire_margin_s:
        fields["acquire_margin_ns"] = nanoseconds("acquire_margin", acquire_margin_s)
    return fields

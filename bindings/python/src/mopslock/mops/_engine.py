"""What all leases of mops in this process stand on: one host, and the stores that mops itself would use."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from .. import _files, stores
from .._mops_store import lookup
from .._own.client import Share
from .._own.clock import Clock, System
from .._own.host import OwnHost
from .._own.threads import Timer, threads
from .._units import SECOND
from .._workers import Workers
from ..errors import BadArgument

LEASE_DIRNAME = "lock"
"""The directory of an invocation's lease, below its memo URI."""

RECORD = "lock.json"

MOST_FOREIGN = 32
"""Threads for the verbs of other people's leases."""


class Engine:
    """One for each process: a forked child has its own, and none of what the parent keeps."""

    def __init__(
        self, make: Callable[[Any], OwnHost] = OwnHost, clock: Clock | None = None, share: Share | None = None
    ) -> None:
        """How a host is made, a clock and threads are for tests."""
        self._make, self.clock, self._share = make, clock or System(), share or threads()
        self._roots: dict[str, tuple[OwnHost, _Records]] = {}
        self._places: WeakValueDictionary[str, Place] = WeakValueDictionary()
        self.submit = share.soon if share else Workers(MOST_FOREIGN).submit  # for verbs of other people's leases
        self.kept: dict[tuple[str, bool], Callable[[], None]] = {}  # releasers, by writer_id and whether for a remote

    def place(self, lease_dir_uri: str) -> Place:
        """Where a lease lies. All leases of one URI are of one name, by which their waiters hear of each other."""
        check(lease_dir_uri)
        uri = lease_dir_uri.rstrip("/")
        found = self._places.get(uri)
        if found is None:
            host, records = self._root(uri)
            found = self._places.setdefault(uri, Place(uri, host, records.add(_store(lease_dir_uri))))
        return found

    def _root(self, uri: str) -> tuple[OwnHost, _Records]:
        """One host for all leases on one store of mops': one that hangs costs no other its leases."""
        root = "/".join(uri.split("/")[:3])
        found = self._roots.get(root)
        if found is None:
            records = _Records()
            found = self._roots.setdefault(root, (self._make(records), records))
        return found

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Has something done when so many seconds have passed."""
        self._share.expect(Timer(self.clock, self.clock.mono() + int(seconds * SECOND), lambda: self._share.soon(do)))


class Place:
    """The URI of a lease's directory, its host, and its record there."""

    __slots__ = ("__weakref__", "host", "name", "record", "uri")

    def __init__(self, uri: str, host: OwnHost, record: tuple[str, Record]) -> None:
        self.uri, self.host = uri, host
        self.name, self.record = f"{record[0]}/{uri.rpartition('/')[2]}", record[1]


def check(lease_dir_uri: str) -> None:
    """BadArgument: it has no root, or nothing below it."""
    if not isinstance(lease_dir_uri, str):
        raise BadArgument(f"mopslock: lease_dir_uri {lease_dir_uri!r}: must be text")
    root = lease_dir_uri.rstrip("/").rpartition("/")[0]
    if not root.strip("/") or root.rstrip("/").endswith(":"):
        raise BadArgument(f"mopslock: lease_dir_uri {lease_dir_uri!r}: must have a root and a last segment below it")


def _store(lease_dir_uri: str) -> Record:
    blobs = lookup(lease_dir_uri)
    from thds.core.files import path_from_uri, remove_file_scheme  # noqa: PLC0415
    from thds.mops.pure.core.file_blob_store import FileBlobStore  # noqa: PLC0415

    if type(blobs) is FileBlobStore:
        path = remove_file_scheme(uri := blobs.join(lease_dir_uri, RECORD))
        if not os.path.isabs(path) or ".." in path:  # otherwise there is nothing to resolve, which takes a while
            path = str(path_from_uri(uri))
        return _File(path)
    return Record(blobs, lease_dir_uri)


class Record:
    """A record in a BlobStore: its URI is joined exactly as mops joins it."""

    def __init__(self, blobs: stores.BlobStore, lease_dir_uri: str) -> None:
        self._mops = stores.Mops(blobs, lease_dir_uri)

    def get(self) -> bytes | stores.Blob | None:
        """As a store's."""
        return self._mops.get(RECORD)

    def put(self, body: bytes) -> None:
        """As a store's."""
        self._mops.put(RECORD, body)


class _File(Record):
    """The same file as mops' FileBlobStore, by verbs that cost a third of its."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self) -> stores.Blob | None:
        return _files.read_file(self.path)

    def put(self, body: bytes) -> None:
        _files.write_file(self.path, body)


class _Records:
    """The store of a host: records wherever they are. A lease's name begins with the number of its record."""

    url = "mops"

    def __init__(self) -> None:
        self._records: WeakValueDictionary[str, Record] = WeakValueDictionary()
        self._numbers = itertools.count(1)

    def add(self, record: Record) -> tuple[str, Record]:
        """With its number."""
        number = str(next(self._numbers))
        self._records[number] = record
        return number, record

    def get(self, key: str) -> bytes | stores.Blob | None:
        return self._records[key.partition("/")[0]].get()

    def put(self, key: str, body: bytes) -> None:
        self._records[key.partition("/")[0]].put(body)


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

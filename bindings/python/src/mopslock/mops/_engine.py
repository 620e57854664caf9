"""What all leases of mops in this process stand on: one host, and the stores that mops itself would use."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from .. import _files, stores
from .._log import log
from .._own.client import Share
from .._own.clock import Clock, System
from .._own.host import OwnHost
from .._own.kept import KeptHost, opened
from .._own.threads import Timer, threads
from .._units import SECOND
from .._workers import Workers
from ..errors import BadArgument, EngineFailed
from ..stores import _lookup

LEASE_DIRNAME = "lock"  # the directory of an invocation's lease, below its memo URI
RECORD = "lock.json"

ALL_FILES = "file:///"
"""The store in which each file is an object. It is asked for names of lastwriter, whose records are mops' files."""

LONGEST_NAME = 400  # bytes. Longer paths are kept in this process.
MOST_FOREIGN = 32  # threads for the verbs of other people's leases


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

        self._lock = threading.RLock()
        self._files: KeptHost | None = None
        self._keeps = make is OwnHost  # until it is found that there can be no keeper

    def place(self, lease_dir_uri: str) -> Place:
        """Where a lease lies. All leases of one URI are of one name, by which their waiters hear of each other.
        BadArgument: it has no root, or nothing below it."""
        wrong = f"mopslock: lease_dir_uri {lease_dir_uri!r}: must"
        if not isinstance(lease_dir_uri, str):
            raise BadArgument(f"{wrong} be text")
        uri = lease_dir_uri.rstrip("/")
        above, _, last = uri.rpartition("/")
        if not above.strip("/") or above.rstrip("/").endswith(":"):
            raise BadArgument(f"{wrong} have a root and a last segment below it")
        found = self._places.get(uri)
        if found is None:
            host, records = self._root(uri)
            record = _store(lease_dir_uri)
            name = f"{records.add(record)}/{last}"
            found = self._places.setdefault(uri, Place(uri, host, name, record))
        return found

    def keeps(self, place: Place) -> tuple[KeptHost, str] | None:
        """The host in a keeper, and the name there, for leases that outlive a call; None where they stay here. It may
        take a while, once."""
        name = place.record.name() if isinstance(place.record, _File) and self._keeps else ""
        if not name:
            return None
        try:
            return self._file_host(), name
        except EngineFailed as error:
            log.warning("%s; mops' leases are kept in this process", error)
            self._keeps = False
            return None

    def _file_host(self) -> KeptHost:
        with self._lock:
            if self._files is None or self._files.is_gone():
                self._files = opened(ALL_FILES, lambda: self._file_host().client)
            return self._files

    def _root(self, uri: str) -> tuple[OwnHost, _Records]:
        """One host for all leases on one store of mops': one that hangs costs no other its leases."""
        root = "/".join(uri.split("/")[:3])
        found = self._roots.get(root)
        if found is None:
            records = _Records()
            found = self._roots.setdefault(root, (self._make(records), records))
        return found

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        self._share.expect(Timer(self.clock, self.clock.mono() + int(seconds * SECOND), lambda: self._share.soon(do)))


@dataclass(eq=False)
class Place:
    """The URI of a lease's directory, the host and the name by which it is kept, and the store of its record."""

    uri: str
    host: OwnHost
    name: str
    record: stores.Store


def _store(lease_dir_uri: str) -> stores.Store:
    blobs = _lookup(lease_dir_uri)
    from thds.core.files import path_from_uri, remove_file_scheme  # noqa: PLC0415
    from thds.mops.pure.core.file_blob_store import FileBlobStore  # noqa: PLC0415

    if type(blobs) is FileBlobStore:
        path = remove_file_scheme(uri := blobs.join(lease_dir_uri, RECORD))
        if not os.path.isabs(path) or ".." in path:  # otherwise there is nothing to resolve, which takes a while
            path = str(path_from_uri(uri))
        return _File(path)
    return stores.Mops(blobs, lease_dir_uri)


class _File:
    """The same file as mops' FileBlobStore, by verbs that cost a third of its. It has one key."""

    def __init__(self, path: str) -> None:
        self.path = path

    def name(self) -> str:
        """Of the lease in the keeper, where all files are one store; "" if that has no name for it."""
        name = os.path.dirname(self.path).lstrip(os.sep)
        plain = name.isprintable() and name.isascii() and len(name) <= LONGEST_NAME
        return name if plain and os.sep == "/" and "//" not in name else ""

    def get(self, key: str) -> stores.Blob | None:
        return _files.read_file(self.path)

    def put(self, key: str, body: bytes) -> None:
        _files.write_file(self.path, body)


class _Records:
    """The store of a host: records wherever they are. A lease's name begins with the number of its record."""

    url = "mops"

    def __init__(self) -> None:
        self._records: WeakValueDictionary[str, stores.Store] = WeakValueDictionary()
        self._numbers = itertools.count(1)

    def add(self, record: stores.Store) -> str:
        number = str(next(self._numbers))
        self._records[number] = record
        return number

    def get(self, key: str) -> bytes | stores.Blob | None:
        return self._records[key.partition("/")[0]].get(RECORD)

    def put(self, key: str, body: bytes) -> None:
        self._records[key.partition("/")[0]].put(RECORD, body)


class _Current:
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

"""Bring your own store: what an object must offer, and adapters for existing stores.

A store keeps small objects (a few hundred bytes, at most 64 KiB) under keys: text with "/" between segments. Protocol
lastwriter needs two verbs. Any object that has them is a store. Several threads call its verbs at once::

    class Store:
        def get(self, key: str) -> bytes | Blob | None: ...      # None: there is no such object
        def put(self, key: str, body: bytes) -> None: ...        # whole, and at once, over whatever there was

Protocol strict needs three more verbs and a stronger promise from all of them: once one client has an answer, every
other client sees the same (S3, GCS, Azure and a local disk promise that; a cache in between, or two replicas, do not)::

        def create(self, key: str, body: bytes) -> bool: ...    # True: made. False: there is one, which stays as it was
        def list(self, prefix: str): ...                        # all keys that begin so; or (key, modified_ns) each
        def delete(self, key: str) -> None: ...                 # a missing object is no error

``create`` must have exactly one winner, even if two calls come at the same instant: S3's If-None-Match, GCS's
ifGenerationMatch=0, link(2). A look followed by a write is not create. mopslock tests once for each store that a second
create is refused. It cannot test that there is only one winner. ``exists`` and ``create`` must return True or False,
nothing else. ``list`` must show each object whose write was answered before. If these verbs are missing, or if create
makes one object twice, ``protocol="auto"`` falls back to lastwriter, with a warning; ``"strict"`` raises Incompatible.

Set these attributes if they are true. ``stamp_unit_ns`` is the resolution of the modification times from get and list.
``store_clock = True`` says that these times come from a clock that is never set while leases are held, such as a
cloud's. Then a dead holder's lease can be taken when its TTL is over by that clock. ``orderly = True`` says that only
this machine writes the store, that these times are by its clock, and that a write has been applied when its verb
returns, or never is: so it is in memory, or on a local file system. Then a process of the same boot can take the lease
when its TTL is over by that boot's clock. Otherwise it can be taken after it was seen unchanged for a TTL.

Results of work (mopslock.invoke) are whole objects of any size, and put and create get all their bytes at once. They
are read by one more verb if the store has it; otherwise by get, which must then return the whole object, however
large::

        def open(self, key: str) -> BinaryIO | None: ...        # a stream of the whole object; None: there is none

One more verb saves bytes. Without it we call get where we only want to know whether there is an object::

        def exists(self, key: str) -> bool: ...

A store with directories, which others can remove, should have one more verb. It puts an object that was there before,
and makes no directory for it::

        def overwrite(self, key: str, body: bytes) -> bool: ...  # True: put. False: its directory is gone

A store whose lists can begin after a key should have one more verb. Without it each list reads all keys, of which a
name that is taken often has thousands::

        def list_page(self, prefix: str, after: str, count: int): ...  # as list: the first count keys after a key

``creates = True`` says that create is known to have one winner. Then the store is not tested, unless ``probes = True``
says that it has to be looked at all the same.

A store that can tell of changes may have one more verb. Then who waits for a name looks when it has changed, and not
only now and then. Hints may come for nothing, on any thread, until the function that it returns is called::

        def watch(self, key: str, changed: Callable[[], object]) -> Callable[[], object]: ...

``mopslock.storetest`` has the rules of all these verbs as tests for your store.

An exception means "unknown": a put that raised may have been applied, may be applied later, or never; the core finds
out by reading. So do not retry for long within a verb. Raise one of mopslock's StoreError classes to say what kind of
failure it was. The kind of an OSError or a TimeoutError is known anyway; that of any other exception is not. If the
store asks to be left alone for a while, say so by an attribute ``retry_after`` of the exception, in seconds, as
Throttled has it. NotImplementedError says that the store has no such verb after all.

A put must be refused or applied soon: one that a server applies minutes later can take a lease from its next holder.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import io
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast, runtime_checkable

from . import _files
from ._files import MOST, TEMPORARY, Blob, Root, unkeepable
from ._spelling import Spelling
from ._units import SECOND
from ._watcher import Watcher, is_there
from .errors import CLASSES, BadArgument

__all__ = ["Blob", "BlobStore", "Creating", "Directory", "Fsspec", "Listing", "Memory", "Mops", "Store"]


@runtime_checkable
class Store(Protocol):
    """The verbs that every store must have."""

    def get(self, key: str, /) -> bytes | Blob | None:
        """The object, or None if there is none."""

    def put(self, key: str, body: bytes, /) -> None:
        """Writes the whole object, whether or not there was one."""


@runtime_checkable
class Listing(Protocol):
    """A store that can also be listed, for mopslock.ls and for protocol strict."""

    def list(self, prefix: str, /) -> Iterable[str | tuple[str, int]]:
        """The keys that begin with prefix, at any depth, in any order; or each with its modification time in
        nanoseconds since 1970."""


@runtime_checkable
class Creating(Listing, Protocol):
    """What protocol strict needs in addition to the verbs of Store."""

    def create(self, key: str, body: bytes, /) -> bool:
        """Writes the object if there is none, with exactly one winner. False: there is one."""

    def delete(self, key: str, /) -> None:
        """Removes the object. A missing object is no error."""


def class_of(error: BaseException) -> str:
    """The core's name for how a store failed; ``other`` if that is unknown."""
    for kind, name in _BY_KIND.items():
        if isinstance(error, kind):
            return name
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    return _BY_STATUS.get(_answer_of(error)[0], "other")


_BY_KIND: dict[type[BaseException], str] = {
    NotImplementedError: "unsupported", **{kind: name for name, kind in CLASSES.items()},
    PermissionError: "unauthorized", NotADirectoryError: "no_such_store", ConnectionError: "unreachable",
    TimeoutError: "unreachable",
}  # fmt: skip
_BY_ERRNO = {
    errno.EROFS: "read_only", errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EHOSTUNREACH: "unreachable",
    errno.EHOSTDOWN: "unreachable", errno.ENETUNREACH: "unreachable", errno.ENETDOWN: "unreachable",
    errno.ETIMEDOUT: "unreachable", errno.ENOTCONN: "unreachable", errno.ESTALE: "unreachable",
}  # fmt: skip
_BY_STATUS = {401: "unauthorized", 403: "unauthorized", 429: "throttled", 501: "unsupported", 503: "throttled"}


def retry_after_of(error: BaseException) -> int:
    """How many nanoseconds a store asks to be left alone: its error's ``retry_after``, in seconds, or the header
    Retry-After of the HTTP answer that an SDK's error has. 0: it does not ask."""
    seconds = getattr(error, "retry_after", None)
    if seconds is None and hasattr(headers := _answer_of(error)[1], "get"):
        seconds = headers.get("retry-after", headers.get("Retry-After"))
    try:
        return int(max(0.0, min(float(seconds or 0), LONGEST_RETRY_AFTER)) * SECOND)
    except (TypeError, ValueError):  # a date, which nobody sends
        return 0


LONGEST_RETRY_AFTER = 60.0  # seconds


def _answer_of(error: BaseException | None) -> tuple[int, Any]:
    """The HTTP status in the errors of Azure's, Google's and Amazon's SDKs and of aiohttp, or 0; and the headers."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        metadata = response.get("ResponseMetadata")
        answer = metadata if isinstance(metadata, dict) else {}
        numbers, headers = [answer.get("HTTPStatusCode")], answer.get("HTTPHeaders")
    else:
        numbers = [getattr(error, name, None) for name in ("status_code", "status", "code")]
        headers = getattr(response, "headers", None) or getattr(error, "headers", None)
    return next((number for number in numbers if isinstance(number, int)), 0), headers


class Memory(Store, Creating):
    """A store in this process's memory, for tests. It excludes no other process."""

    creates = orderly = True

    def __init__(self) -> None:
        self._objects: dict[str, Blob] = {}  # each verb is one call of it

    def get(self, key: str) -> Blob | None:
        return self._objects.get(key)

    def put(self, key: str, body: bytes) -> None:
        self._objects[key] = Blob(bytes(body), time.time_ns())

    def create(self, key: str, body: bytes) -> bool:
        made = Blob(bytes(body), time.time_ns())
        return self._objects.setdefault(key, made) is made

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        return key in self._objects

    def delete(self, key: str) -> None:
        self._objects.pop(key, None)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        objects = self._objects.copy()
        return sorted((key, blob.modified_ns) for key, blob in objects.items() if key.startswith(prefix))

    def __reduce__(self) -> Any:
        raise TypeError("a Memory is this process's own: a store that processes share is a Directory, or a URL")


class Directory(Store, Creating):
    """A directory of this machine or of a network filesystem, without the Go host.

    ``file://`` URLs do the same in a process of their own, which no GIL can stop. Use this class to start none.
    """

    creates = probes = True

    def __init__(self, root: str | os.PathLike[str], *, create: bool = True, keeper: bool = False) -> None:
        """The directory is made now, and never again. With ``create=False`` it must be there: use that where it is on
        a mount, below which a process would otherwise make it while the mount is away. With ``keeper`` its leases are
        kept by a child."""
        self.root, self.keeper = os.path.abspath(os.fspath(root)), keeper
        self._root, self._watcher = Root(self.root, create), Watcher()
        self._spelling = Spelling(self.root)

    def keeper_terms(self) -> tuple[Any, ...]:
        """How a keeper makes it."""
        return "mopslock.stores:Directory", self.root

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Directory, create=self._root.make, keeper=self.keeper), (self.root,)

    @property
    def orderly(self) -> bool:
        """Whether the directory lies on a file system of this machine alone, as far as is known yet."""
        return self._root.is_local

    @property
    def stamp_unit_ns(self) -> int:
        """A tick of the kernel's clock, or a second where times have no fractions."""
        return TICK if self._root.is_fine else SECOND

    def get(self, key: str) -> Blob | None:
        """At most the first 64 KiB and one byte of the file, and its modification time. None: there is no such file."""
        found = None if unkeepable(key) else self._root.ask(_files.read_file, self._path(key))
        if found is not None:
            self._spelling.check(key)
        return found

    def open(self, key: str) -> BinaryIO | None:
        """The whole file."""
        if unkeepable(key):
            return None
        with contextlib.ExitStack() as opened:
            stream = self._root.ask(lambda: (file := _files.open_file(self._path(key))) and opened.enter_context(file))
            if stream is not None:
                self._spelling.check(key)
            opened.pop_all()
        return stream

    def put(self, key: str, body: bytes) -> None:
        self._root.write(_files.write_file, self._path(key), body)

    def overwrite(self, key: str, body: bytes) -> bool:
        """As put, but makes no directory. False: the directory is gone."""
        return self._root.ask(_files.overwrite_file, self._path(key), body, self._root)

    def create(self, key: str, body: bytes) -> bool:
        created = self._root.write(_files.create_file, self._path(key), body)
        if created:
            self._spelling.check(key)
        return created

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        there = not unkeepable(key) and self._root.ask(_files.is_file, self._path(key))
        if there:
            self._spelling.check(key)
        return there

    def delete(self, key: str) -> None:
        """Removes the file, and the directories that it leaves empty."""
        self._root.ask(_files.remove_file, self._path(key), self._root)

    def list_page(self, prefix: str, after: str, count: int | None) -> list[tuple[str, int]]:
        """The first keys that begin with prefix and come after a key, in order, and when they were written."""
        folder = prefix.rpartition("/")[0]
        if "/" in prefix and unkeepable(folder):
            return []
        return self._root.look(_files.list_files, self.root, prefix, after, count)

    def list(self, prefix: str) -> Iterable[tuple[str, int]]:
        return self.list_page(prefix, "", None)

    @property
    def watch(self) -> Callable[[str, Callable[[], object]], Callable[[], object]] | None:
        """Tells of changes where watchfiles is installed (pip install 'mopslock[watch]'); otherwise there is no such
        verb, and who waits looks now and then."""
        return self._watch if is_there() else None

    def _watch(self, key: str, changed: Callable[[], object]) -> Callable[[], object]:
        return self._watcher.watch(self._path(key), changed)

    def _directory_url(self) -> str:
        return Path(self.root).as_uri()

    def _path(self, key: str) -> str:
        if why := unkeepable(key):
            raise BadArgument(f"mopslock: a directory has no object {key!r}: {why}")
        return os.path.join(self.root, *key.split("/"))

    def __repr__(self) -> str:
        return f"Directory({self.root!r})"


TICK = 16_000_000  # nanoseconds: the coarsest step of the clock with which kernels stamp files


OF_DIRECTORY = (
    "get", "open", "put", "overwrite", "create", "exists", "delete", "list", "list_page", "_directory_url", "creates",
    "probes", "orderly", "stamp_unit_ns", "watch",
)  # fmt: skip
"""What an Fsspec on a local directory takes from a Directory."""


class Fsspec(Store, Listing):
    """An fsspec filesystem as a store. Keys lie below one of its paths.

    This class never trusts cached listings: each get reads the object itself. A local directory is a Directory. Of all
    others only s3fs, gcsfs and adlfs have a create, and so protocol strict: there the service itself decides. Elsewhere
    fsspec looks and then writes, which can have two winners. Those three send a create again whose answer was lost. So
    their create is also True where there are the same bytes already, up to 64 KiB: records differ, results may not.
    """

    def __init__(self, filesystem: Any, root: str = "") -> None:
        if isinstance(filesystem, (str, os.PathLike)):
            raise BadArgument(
                f"mopslock: filesystem {filesystem!r}: must be a filesystem of fsspec; of a URL make "
                f"Fsspec.of_url({filesystem!r})"
            )
        self.filesystem, self.root = filesystem, root.rstrip("/")
        protocol = filesystem.protocol
        names = {protocol} if isinstance(protocol, str) else {*protocol}
        how = next((how for name, how in _SERVICES.items() if name in names), None)
        self._has_directories = how is None
        if "file" in names:
            directory = Directory(self.root or os.sep)
            for verb in OF_DIRECTORY:
                setattr(self, verb, getattr(directory, verb))
        elif how and {*how} <= {*inspect.signature(getattr(filesystem, "_pipe_file", len)).parameters}:
            self.create = functools.partial(self._create, how)

    @classmethod
    def of_url(cls, url: str, **options: Any) -> Fsspec:
        """The store at an fsspec URL, such as ``gcs://bucket/locks`` or ``sftp://host/dir``."""
        import fsspec  # noqa: PLC0415 - only this method needs it

        filesystem, root = fsspec.core.url_to_fs(url, **options)
        return cls(filesystem, root)

    def get(self, key: str) -> bytes | None:
        """At most the first 64 KiB and one byte of the object. None: there is none."""
        self.filesystem.invalidate_cache(self._parent(key))
        try:
            body: bytes = self.filesystem.cat_file(self._path(key), start=0, end=MOST)
        except FileNotFoundError:
            return None
        return body

    def open(self, key: str) -> BinaryIO | None:
        """A stream of the object, in pieces if the filesystem supports that."""
        self.filesystem.invalidate_cache(self._parent(key))
        try:
            stream: BinaryIO = self.filesystem.open(self._path(key), "rb")
        except FileNotFoundError:
            return None
        return stream

    def put(self, key: str, body: bytes) -> None:
        if self._has_directories:
            self.filesystem.makedirs(self._parent(key), exist_ok=True)
        self.filesystem.pipe_file(self._path(key), body)

    def _create(self, how: dict[str, Any], key: str, body: bytes) -> bool:
        """What is there may be ours: filesystems send a request again when an answer is lost."""
        try:
            self.filesystem.pipe_file(self._path(key), body, **how)
        except Exception as error:
            statuses = [_answer_of(one)[0] for one in (error, error.__cause__)]
            if not isinstance(error, FileExistsError) and 412 not in statuses:
                raise
            return len(body) < MOST and self.get(key) == body
        return True

    def delete(self, key: str) -> None:
        """Removes the object. A missing object is no error."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.rm_file(self._path(key))

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        self.filesystem.invalidate_cache(self._parent(key))
        return bool(self.filesystem.isfile(self._path(key)))

    def list(self, prefix: str) -> list[str]:
        self.filesystem.invalidate_cache()
        folder = prefix.rpartition("/")[0]
        below = self._path(folder) if folder else self.root
        skip = len(self.root) + 1 if self.root else 0
        try:
            found = self.filesystem.find(below)
        except FileNotFoundError:
            return []
        return sorted(key for path in found if (key := str(path)[skip:]).startswith(prefix) and TEMPORARY not in key)

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}" if self.root else key

    def _parent(self, key: str) -> str:
        return self._path(key).rpartition("/")[0]

    def __repr__(self) -> str:
        return f"Fsspec({self.filesystem!r}, {self.root!r})"


_SERVICES: dict[str, dict[str, Any]] = {
    "s3": {"mode": "create"}, "gcs": {"mode": "create"}, "abfs": {"overwrite": False},
}  # fmt: skip
"""Filesystems without directories, and what pipe_file is given there to write only what is absent. Others, and older
versions of these, take such an argument and do not obey."""


_RECORD = "application/mops-lease"  # the content type of a lease's record


class BlobStore(Protocol):
    """What mops calls a blob store, as far as a lease needs it."""

    def readbytesinto(self, uri: str, stream: IO[bytes], /, *, type_hint: str = "bytes") -> None: ...
    def putbytes(self, uri: str, data: Any, /, *, type_hint: str = "bytes") -> None: ...
    def exists(self, uri: str, /) -> bool: ...
    def join(self, *parts: str) -> str: ...
    def is_blob_not_found(self, error: Exception, /) -> bool: ...


def _lookup(uri: str) -> BlobStore:
    """mops' own store for a URI, without its cache: a lease's record must be read from the store itself."""
    try:
        from thds.mops.pure.core.control_cache import CONTROL_CACHE_TTL_IN_SECONDS  # noqa: PLC0415
        from thds.mops.pure.core.uris import lookup_blob_store  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"mopslock finds mops' stores through mops, which is not installed ({error}): pip install 'mopslock[mops]'",
            name=error.name,
        ) from error
    with CONTROL_CACHE_TTL_IN_SECONDS.set_local(-1):
        return cast("BlobStore", lookup_blob_store(uri))


_CACHING = "DangerouslyCachingStore"  # mops' class of stores that remember for hours what they have read


class Mops(Store):
    """mops' BlobStore as a store. Keys lie below one of its URIs: ``Mops.of_uri("adls://account/container/locks")``.

    BadArgument: the BlobStore caches what it reads, as those of mops' own ``lookup_blob_store`` do for ``adls://``. A
    lease that was read from a cache looks held for hours after its release.
    """

    def __init__(self, blobs: BlobStore, root: str) -> None:
        if any(kind.__name__ == _CACHING and kind.__module__.startswith("thds.mops.") for kind in type(blobs).__mro__):
            raise BadArgument(
                f"mopslock: blobs {blobs!r}: caches what it reads, and a lease must be read from the store itself; "
                f"make stores.Mops.of_uri({root!r})"
            )
        self.blobs, self.root, self.keeper = blobs, root, False

    @classmethod
    def of_uri(cls, uri: str, *, keeper: bool = False) -> Mops:
        """The store at a URI that mops can read, without mops' cache. With ``keeper`` a child keeps its leases, which
        finds the store by its URI, and no GIL can stop that."""
        store = cls(_lookup(uri), uri)
        store.keeper = keeper
        return store

    def keeper_terms(self) -> tuple[str, str]:
        """How a keeper makes it."""
        return "mopslock.stores:Mops.of_uri", self.root

    def get(self, key: str) -> bytes | None:
        """The object. The BlobStore decides whether an exception means that there is none."""
        stream = io.BytesIO()
        try:
            self.blobs.readbytesinto(self._uri(key), stream, type_hint="lease")
        except Exception as error:
            if self.blobs.is_blob_not_found(error):
                return None
            raise
        return stream.getvalue()

    def put(self, key: str, body: bytes) -> None:
        self.blobs.putbytes(self._uri(key), body, type_hint=_RECORD)

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        return self.blobs.exists(self._uri(key))

    def _uri(self, key: str) -> str:
        return self.blobs.join(self.root, *key.split("/"))

    def __repr__(self) -> str:
        return f"Mops({self.root!r})"

"""mops' BlobStore as a store: mopslock.stores has it."""

from __future__ import annotations

import io
from typing import IO, Any, Protocol, cast

from .errors import BadArgument

RECORD = "application/mops-lease"
"""The content type of a lease's record."""


class BlobStore(Protocol):
    """What mops calls a blob store, as far as a lease needs it."""

    def readbytesinto(self, uri: str, stream: IO[bytes], /, *, type_hint: str = "bytes") -> None: ...
    def putbytes(self, uri: str, data: Any, /, *, type_hint: str = "bytes") -> None: ...
    def exists(self, uri: str, /) -> bool: ...
    def join(self, *parts: str) -> str: ...
    def is_blob_not_found(self, error: Exception, /) -> bool: ...


def lookup(uri: str) -> BlobStore:
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


CACHING = "DangerouslyCachingStore"
"""mops' class of stores that remember for hours what they have read."""


class Mops:
    """mops' BlobStore as a store. Keys lie below one of its URIs: ``Mops.of_uri("adls://account/container/locks")``.

    BadArgument: the BlobStore caches what it reads, as those of mops' own ``lookup_blob_store`` do for ``adls://``. A
    lease that was read from a cache looks held for hours after its release.
    """

    def __init__(self, blobs: BlobStore, root: str) -> None:
        if any(kind.__name__ == CACHING and kind.__module__.startswith("thds.mops.") for kind in type(blobs).__mro__):
            raise BadArgument(
                f"mopslock: blobs {blobs!r}: caches what it reads, and a lease must be read from the store itself; "
                f"make stores.Mops.of_uri({root!r})"
            )
        self.blobs, self.root = blobs, root
        self.keeper = False

    @classmethod
    def of_uri(cls, uri: str, *, keeper: bool = False) -> Mops:
        """The store at a URI that mops can read, without mops' cache. With ``keeper`` a child keeps its leases, which
        finds the store by its URI, and no GIL can stop that."""
        store = cls(lookup(uri), uri)
        store.keeper = keeper
        return store

    def keeper_terms(self) -> tuple[str, str]:
        return "mopslock.stores:Mops.of_uri", self.root

    def get(self, key: str) -> bytes | None:
        """The object. The BlobStore decides whether an exception means that there is none."""
        stream = io.BytesIO()
        try:
            self.blobs.readbytesinto(self.blobs.join(self.root, *key.split("/")), stream, type_hint="lease")
        except Exception as error:
            if self.blobs.is_blob_not_found(error):
                return None
            raise
        return stream.getvalue()

    def put(self, key: str, body: bytes) -> None:
        self.blobs.putbytes(self.blobs.join(self.root, *key.split("/")), body, type_hint=RECORD)

    def exists(self, key: str) -> bool:
        return self.blobs.exists(self.blobs.join(self.root, *key.split("/")))

    def __repr__(self) -> str:
        return f"Mops({self.root!r})"

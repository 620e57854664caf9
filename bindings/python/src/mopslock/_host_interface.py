"""What both kinds of host have in common: one store, and what this process holds on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ._call import Call, StepFuture, WorkRequest
from ._future import Future
from ._held import Handle, HeldThing, OnWaiting
from ._permit_request import PermitRequest
from .status import Status
from .terms import Protocol, Terms


@dataclass(frozen=True)
class Break:
    """How a lease is to be broken."""

    why: str
    now: bool
    protocol: Protocol
    holder: str


class Host(ABC):
    """One store and what this process holds on it."""

    url: str

    @abstractmethod
    def place(self) -> str:
        """The same for all hosts on one store, as far as that can be told; otherwise ""."""

    @abstractmethod
    def begin_acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> Future[HeldThing]:
        """Takes the lease. The caller may give the future up at any time, and then nothing is held."""

    @abstractmethod
    def begin_accompany(self, handle: Handle, terms: Terms, into: Future[HeldThing] | None = None) -> Future[HeldThing]:
        """Joins a lease as its companion. The future can be given up as that of begin_acquire."""

    @abstractmethod
    def begin_invocation(self, request: WorkRequest, next_step: StepFuture) -> Call:
        """Begins one call of a piece of work; next_step gets its first step."""

    @abstractmethod
    def begin_permit(
        self, name: str, terms: Terms, request: PermitRequest, wait_ns: int, waits: OnWaiting | None, *,
        into: Future[HeldThing] | None = None,
    ) -> Future[HeldThing]:  # fmt: skip
        """Takes a permit of a semaphore. The future can be given up as that of begin_acquire. Of the terms it uses the
        session's."""

    @abstractmethod
    def set_limit(self, name: str, limit: int, timeout_ns: int) -> None:
        """Stores a limit; 0 removes it."""

    @abstractmethod
    def open_object(self, key: str) -> BinaryIO:
        """An object whole, from its beginning; StoreError, or Vacant. On the caller's thread."""

    @abstractmethod
    def inspect(self, name: str, timeout_ns: int) -> Status:
        """Reads a record, and takes no part in it."""

    @abstractmethod
    def break_lease(self, name: str, request: Break, timeout_ns: int) -> Status:
        """Ends another process's lease, on the record."""

    @abstractmethod
    def list(self, prefix: str, timeout_ns: int) -> Iterator[Status]:
        """Every lease whose name begins with prefix, in the order of the names."""

    @abstractmethod
    def close(self, timeout_ns: int) -> None:
        """Releases what is held and ends what waits. NotReleased: something was not, and expires by itself."""

    def __reduce__(self) -> Any:
        raise TypeError("what is held on a store is this process's own: give the other process the store's URL")

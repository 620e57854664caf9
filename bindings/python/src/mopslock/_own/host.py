"""What this process asks of one store, and how it ends, wherever the client of that store runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeVar

from .. import _texts
from .._call import StepFuture, WorkRequest
from .._future import Future
from .._held import Handle, OnWaiting
from .._log import log
from .._place import place_of
from .._units import SECOND
from ..errors import BadArgument, MopslockError, NotReleased, StoreError, Vacant, error_class
from ..status import Status
from ..stores import Listing, Store
from ..terms import PermitRequest, Terms
from .base import AnyClient, Claim
from .claims import HeldThing, Lease, Look, Permit, reason_of
from .client import Client
from .clock import System
from .threads import threads
from .verbs import Action, Event, keys, looked_at, opened
from .work import Invocation

RECORD, REGISTER = "/lock.json", "/_mopslock/"
PASSING = ("unreachable", "throttled")
RETRY = 0.5  # seconds between two reads for somebody who only looks
TURN = 0.05  # seconds after which who closes looks whether it has to wake the client

C = TypeVar("C", bound=Claim)


class OwnHost:
    """What this process does with one store: an object with verbs, whose client is in this process. KeptHost, whose
    client is in a keeper, derives from it."""

    def __init__(self, store: Store | None, client: AnyClient | None = None) -> None:
        self.store = store
        self.client: AnyClient = client or Client(store, System(), threads())
        self.client.host = self  # it lives as long as anything is under way
        self.url = self.client.url

    def __reduce__(self) -> Any:
        raise TypeError("what is held on a store is this process's own: give the other process the store's URL")

    def is_gone(self) -> bool:
        """Whether another is needed."""
        return False

    def place(self) -> str:
        """A directory is one store, whichever object or URL leads to it."""
        url = getattr(self.store, "_directory_url", None)
        return place_of(url()) if url is not None else ""

    # Leases.

    def begin_acquire(
        self, name: str, terms: Terms, wait_ns: int, waits: OnWaiting | None, into: Future[HeldThing] | None = None
    ) -> Future[HeldThing]:
        asked = terms._asked(plain("name", name))
        into = Future() if into is None else into  # of which the lease lets go when it is held
        lease = Lease(self.client, name, guarded=True, ttl_ns=terms.ttl_ns(), waits=waits, into=into)
        self.begin(lease, "acquire", asked, wait_ns)
        return into

    def begin_accompany(self, handle: Handle, terms: Terms, into: Future[HeldThing] | None = None) -> Future[HeldThing]:
        into = Future() if into is None else into
        companion = Lease(self.client, handle.name, guarded=False, ttl_ns=handle.ttl_ns, into=into)
        companion.token = handle.token
        self.begin(companion, "accompany", _come(handle, terms))
        return into

    def begin(self, claim: C, kind: str, terms: Event, wait_ns: int = 0, **more: Any) -> C:
        """Begins a claim. The keys of terms stand in the core's order, and those of more; zeros are left out."""
        command = {key: value for key, value in {"kind": kind, "wait_ns": wait_ns, **more}.items() if value}
        terms = {key: value for key, value in terms.items() if value}
        if self.client.closing:
            raise _texts.closed()
        self.client.begin(claim, command, terms)
        return claim

    # Semaphores.

    def begin_permit(
        self, name: str, terms: Terms, request: PermitRequest, wait_ns: int, waits: OnWaiting | None, *,
        into: Future[HeldThing] | None = None,
    ) -> Future[HeldThing]:  # fmt: skip
        into = Future() if into is None else into
        permit = Permit(self.client, name, request, ttl_ns=terms.ttl_ns(), waits=waits, into=into)
        more = {**vars(request), "label": terms.label}
        self.begin(permit, "permit", _shared(name, terms), wait_ns, **more)
        return into

    def set_limit(self, name: str, limit: int, timeout_ns: int) -> None:
        """Whichever machine of the name there is sets it."""
        settled: Future[HeldThing] = Future()
        asked = Permit(self.client, name, None, into=settled)
        self.begin(asked, "limit", _shared(name, Terms(protocol="strict")), store_limit=limit)
        try:
            if not settled.wait(timeout_ns / SECOND):
                raise _texts.refused(name, "unset", "unreachable", None, None, what="limit of")
        finally:
            settled.cancel()
        settled.result()

    # Work.

    def begin_invocation(self, request: WorkRequest, next_step: StepFuture) -> Invocation:
        plain("name", request.name)
        handle, more = request.handle, Event(memo_failures=request.memo_failures)
        if request.remote:
            more["without_lease"] = request.without_lease
        if handle is not None:
            ttl, terms = handle.ttl_ns, _come(handle, request.terms, **more)
        else:
            ttl, terms = request.terms.ttl_ns(), request.terms._asked(request.name, **more)
        call = Invocation(self.client, request, next_step, ttl_ns=ttl)
        return self.begin(call, "remote" if request.remote else "invoke", terms, request.wait_ns)

    def open_object(self, key: str) -> BinaryIO:
        try:
            return opened(self.store, key)
        except Vacant:
            raise
        except Exception as error:
            class_, _, cause = looked_at(error)
            raise failed(f"{key} cannot be read", class_, cause) from cause

    # Looking, and breaking.

    def inspect(self, name: str, timeout_ns: int) -> Status:
        """Under either protocol: a strict lease before an old client's record beside it, if it is held."""
        return self._inspect(name, self.client.clock.mono() + timeout_ns, {})

    def _inspect(self, name: str, until: int, protocol: Event) -> Status:
        """The store's word, asked for again until there is no more time, or no hope."""
        clock = self.client.clock
        while True:
            look = Look(self.client, name)
            said = self._wait(look, "look", {**protocol, "name": plain("name", name)}, until)
            if said["kind"] == "seen":
                return look.status
            class_ = said.get("class", "")
            if said["reason"] in ("newer", "kind"):
                raise _texts.refused(name, said["reason"], class_, None, look.cause) from look.cause
            if class_ not in PASSING or clock.mono() + RETRY * SECOND >= until:
                raise failed(f"lease {_texts.quoted(name)} cannot be read", class_, look.cause) from look.cause
            time.sleep(RETRY)

    def _wait(self, look: Look, kind: str, terms: Event, until: int) -> Action:
        """The last word on a look or a break; after until it is unknown."""
        self.begin(look, kind, terms)
        try:
            if look.future.wait((until - self.client.clock.mono()) / SECOND):
                return look.future.result()
        finally:
            self.client.command(look, "cancel")
        return {"kind": "refused", "reason": "unreachable", "class": "unreachable"}

    def break_lease(self, name: str, timeout_ns: int, *, protocol: str, holder: str, why: str, now: bool) -> Status:
        """Under strict by a version that says so; under lastwriter by a release in the holder's name."""
        terms: Event = {
            "protocol": "" if protocol == "auto" else protocol, "name": plain("name", name),
            "holder": plain("holder", holder), "why": plain("why", why), "now": bool(now),
        }  # fmt: skip
        look = Look(self.client, name, breaks=True)
        said = self._wait(look, "break", terms, self.client.clock.mono() + timeout_ns)
        if said["kind"] == "broken":
            return look.status
        reason, class_ = reason_of(said), said.get("class", "")
        if reason == "held":
            raise _texts.not_broken(name, look.status)
        if reason == "terms":
            raise BadArgument(f"mopslock: {said.get('body', b'').decode()}")
        seen = look.status if said.get("sight") else None
        raise _texts.refused(name, reason, class_, seen, look.cause) from look.cause

    def list(self, prefix: str, timeout_ns: int) -> Iterator[Status]:
        """One look a lease; one that cannot be read is left out."""
        until = self.client.clock.mono() + timeout_ns
        prefix = plain("prefix", prefix)
        seen: set[str] = set()
        for key in self._keys(prefix, timeout_ns):
            at = key.find(REGISTER)
            if at <= 0 and not key.endswith(RECORD):
                continue
            name = key[:at] if at > 0 else key.removesuffix(RECORD)
            if name in seen or not name.startswith(prefix):
                continue
            seen.add(name)
            if self.client.clock.mono() >= until:
                raise StoreError(f"mopslock: the store was not listed in time; {_texts.advice('')}")
            try:
                status = self._inspect(name, until, {} if at > 0 else {"protocol": "lastwriter"})
            except BadArgument:
                continue  # some other object, which only looks like a record
            except MopslockError as error:
                log.warning("%s", error)
                continue
            if status.state != "vacant" or status.is_semaphore:
                yield status

    def _keys(self, prefix: str, timeout_ns: int) -> Any:
        store: object = self.store
        if not isinstance(store, Listing):
            raise BadArgument(f"mopslock: {self.url} has no verb list, so nobody can say what is in it")
        listed = Future[Any]()

        def walk() -> None:
            try:
                listed.settle(keys(store, prefix))
            except BaseException as error:
                listed.settle(error)

        self.client.soon(walk)
        if not listed.wait(timeout_ns / SECOND):
            raise failed("the store cannot be listed", "unreachable", None)
        if (error := listed.exception()) is not None:
            class_, _, error = looked_at(error)
            raise failed("the store cannot be listed", class_, error) from error
        return listed.result()

    # The end.

    def close(self, timeout_ns: int) -> None:
        """Everything is asked to end at once, and waited for together."""
        client, end = self.client, time.monotonic() + timeout_ns / SECOND
        client.closing = True
        ending = list(client.claims.values())
        for claim in ending:
            claim.hurry()
        client.close()
        while not client.closed.wait(min(end - time.monotonic(), TURN)) and time.monotonic() < end:
            client.drive()
        left = len(client.claims)
        if left or (client.sessions and not client.closed.done()):
            raise NotReleased(
                f"mopslock: {left} of {max(left, len(ending))} leases were not released in time, and expire"
            )


def _come(handle: Handle, terms: Terms, **more: Any) -> Event:
    """The terms of who comes to a lease that exists."""
    epoch = 0 if handle.protocol == "lastwriter" else handle.epoch
    more |= {"ttl_ns": handle.ttl_ns, "holder": handle.holder, "epoch": epoch}
    return terms._asked(plain("name", handle.name), handle.protocol, on_session=False, **more)


def _shared(name: str, terms: Terms) -> Event:
    """The terms of a permit, or of its limit: those of the session."""
    return terms._asked(plain("name", name), "strict", on_session=False, label="")


def failed(what: str, class_: str, cause: BaseException | None) -> StoreError:
    """The error for a store that fails: what cannot be done, what the store said, and the next step."""
    return error_class(class_)(f"mopslock: {what}{_texts.said(class_, cause)}; {_texts.advice(class_)}")


def plain(what: str, text: Any) -> str:
    """Text that can be encoded, or BadArgument. All else about it is the core's business."""
    _texts.encode(what, text)
    checked: str = text
    return checked

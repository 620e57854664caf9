"""One host for each URL and each store object, as long as it is needed."""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
import weakref
from pathlib import Path
from urllib.parse import unquote

from . import _texts
from ._duration import Duration, nanoseconds
from ._future import Future, wait
from ._log import log
from ._own.host import OwnHost
from ._own.keeper import NoKeeper, keeper
from ._own.kept import KeptHost, opened
from ._own.threads import shared
from ._units import SECOND
from ._workers import begin_thread
from .errors import BadArgument, MopslockError
from .stores import Directory, Store

AnyStore = str | os.PathLike[str] | Store
"""A gocloud URL, a directory's path, or an object with get and put."""

AT_EXIT = 10.0
"""Seconds that the end of the process waits for releases."""

DIRECTORY = re.compile(r"^(file:///[^?#]*[^?#/:])/+\Z")
"""A directory's URL that ends with a slash. A drive's URL, file:///C:/, needs its slash."""

PLAIN = re.compile(r"file://(/(?:[^?#%\x00-\x1f\x7f]|%(?!00)[0-9A-Fa-f]{2})*)(?:\?(?:create=(true|false))?)?\Z")
"""A directory's URL that means the same without a keeper."""


class _Hosts:
    """The hosts of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.urls: dict[str, Future[OwnHost]] = {}
        self.said = False  # that there is no keeper
        self.objects: weakref.WeakValueDictionary[int, OwnHost] = weakref.WeakValueDictionary()


_hosts = _Hosts()


def _one_url(store: AnyStore) -> str | Store:
    """The one URL of a directory, which users give as a path, or as a URL with or without a slash at its end."""
    if isinstance(store, os.PathLike):
        return Path(store).absolute().as_uri()
    return DIRECTORY.sub(r"\1", store) if isinstance(store, str) else store


def host_of(store: AnyStore) -> OwnHost:
    """The host of a store, made with the first call. It asks nothing of the store yet."""
    store = _one_url(store)
    if store is None or store == "":
        raise BadArgument(
            "mopslock: there is no store URL, as where MOPSLOCK_STORE is unset; give one such as file:///dir or "
            "s3://bucket/prefix"
        )
    if isinstance(store, str):
        return _of_url(store)
    missing = [verb for verb in ("get", "put") if not callable(getattr(store, verb, None))]
    if missing:
        raise BadArgument(
            f"mopslock: store {store!r}: must be a URL such as file:///dir or s3://bucket/prefix, a path, "
            f"or an object with get and put; it has no {' and no '.join(missing)}"
        )
    with _hosts.lock:
        host = _hosts.objects.get(id(store))
        if host is not None and not host.is_gone():
            return host
        if getattr(store, "keeper", False) is not True:
            host = _hosts.objects[id(store)] = OwnHost(store)
            return host
    return _kept_object(store)


def _kept_object(store: Store) -> OwnHost:
    """In a keeper that makes the store anew; the store has asked for it."""
    if not callable(getattr(store, "keeper_terms", None)):
        raise BadArgument(
            f"mopslock: store {store!r}: has keeper=True and no keeper_terms(), which says how a keeper makes it"
        )
    host: OwnHost
    try:
        host = opened(repr(store), lambda: host_of(store).client, store)
    except NoKeeper as error:
        log.warning("%s; the leases of %r are kept in this process", error, store)
        host = OwnHost(store)
    with _hosts.lock:
        known = _hosts.objects.get(id(store))
        if known is None or known.is_gone():
            _hosts.objects[id(store)] = known = host
        return known


def known_host(store: AnyStore) -> OwnHost | None:
    """The host of a store, if it exists already. Making one can wait; this never does."""
    store = _one_url(store)
    with _hosts.lock:
        if not isinstance(store, str):
            host = _hosts.objects.get(id(store))
            return None if host is None or host.is_gone() else host
        found = _opened(_hosts.urls.get(store))
    return found[0] if found else None


def _of_url(url: str) -> OwnHost:
    if "://" not in url:
        raise BadArgument(
            f"mopslock: store {url!r}: must be a URL such as file:///dir, s3://bucket/prefix, gs:// or azblob://; "
            "for a directory give a pathlib.Path"
        )
    _texts.encode("store", url)
    with _hosts.lock:
        found = _opened(_hosts.urls.get(url))
    if found:
        return found[0]
    opened: Future[OwnHost] = Future()
    shared.workers.submit(lambda: _open(url, opened))
    return opened.result()


def _open(url: str, into: Future[OwnHost]) -> None:
    """Opens a URL, unless another call does. On a worker: no caller can be interrupted half-way."""
    ours: Future[OwnHost] = Future()
    with _hosts.lock:  # but not while it is opened: some clouds take their time
        opening = _hosts.urls.get(url)
        if opening is None or (opening.done() and not _opened(opening)):
            opening = _hosts.urls[url] = ours
    if opening is ours:
        ours.run(lambda: _host_of_url(url))
    opening.add_done_callback(lambda done: into.settle(done.exception() or done.result()))


def _host_of_url(url: str) -> OwnHost:
    """In a keeper, or a directory's here if there can be none."""
    try:
        return KeptHost(url, keeper(), lambda: _of_url(url).client)
    except NoKeeper as error:
        if not (plain := PLAIN.match(url)):
            raise
        if not _hosts.said:
            _hosts.said = True
            log.warning("%s; directories are kept in this process", error)
        return OwnHost(Directory(unquote(plain[1]), create=plain[2] != "false"))


def close(store: AnyStore | None = None, *, timeout: Duration = AT_EXIT) -> None:
    """Releases what this process holds on a store, or on all stores, and ends what waits there.

    A store can be used again afterwards. NotReleased: something was not released within ``timeout`` seconds; it expires
    a TTL after its last renewal. The end of the interpreter calls it.
    """
    deadline = time.monotonic() + nanoseconds("timeout", timeout) / SECOND
    with _hosts.lock:
        hosts = _taken(store)
    closed = [_closing(host, deadline) for host in hosts]
    wait(closed, deadline - time.monotonic() + 2)
    failed = [error for over in closed if (error := over.exception()) is not None]
    if failed:
        raise failed[0]


def _closing(host: OwnHost, deadline: float) -> Future[None]:
    """Closes a host on a thread of its own: hosts are closed together, since each may take the whole time."""
    over: Future[None] = Future()

    def run() -> None:
        over.run(lambda: host.close(max(0, int((deadline - time.monotonic()) * SECOND))))

    def note(thread: threading.Thread | None) -> None:
        if thread is None:  # so late in the interpreter's end that no thread can begin
            run()

    begin_thread(run, "mopslock-close", note)
    return over


def _taken(store: AnyStore | None) -> list[OwnHost]:
    if store is None:
        hosts: list[OwnHost] = [*_opened(*_hosts.urls.values()), *_hosts.objects.values()]
        _hosts.urls.clear()
        _hosts.objects.clear()
        return hosts
    store = _one_url(store)
    if isinstance(store, str):
        return [*_opened(_hosts.urls.pop(store, None))]
    found = _hosts.objects.pop(id(store), None)
    return [found] if found is not None else []


def _opened(*openings: Future[OwnHost] | None) -> list[OwnHost]:
    """Those that are open. A thread that is just opening one holds nothing there."""
    done = [opening for opening in openings if opening is not None and opening.done() and opening.exception() is None]
    return [host for opening in done if not (host := opening.result()).is_gone()]


def _at_exit() -> None:
    try:
        close(timeout=AT_EXIT)
    except MopslockError as error:
        log.warning("%s", error)


atexit.register(_at_exit)

if hasattr(os, "register_at_fork"):  # what the parent holds is the parent's
    os.register_at_fork(after_in_child=_hosts.__init__)  # type: ignore[misc]

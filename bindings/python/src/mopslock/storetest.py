"""The rules of a store, as tests for your own::

    import pytest
    from mopslock.storetest import StoreRules

    class TestMyStore(StoreRules):
        @pytest.fixture
        def store(self):
            return MyStore("locks")  # with nothing in it

        def another(self, store):
            return MyStore("locks")  # another client of the same place, as another process has one

pytest runs them all. Rules for verbs that the store does not have are skipped. Each failure says what the store did.
This module needs no pytest itself.

The rules are about what callers rely on: an object is at its key, or the key is refused; a create has one winner; a
reader never sees a part of an object; lists are complete and fresh; and every verb answers what ``mopslock.stores``
says, and nothing that only looks like it. They measure nothing, and cannot show what comes once in a million times: a
create that looks and then writes can pass.
"""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

SOON = 60.0  # seconds after which what a rule waits for does not come any more
WHOLE = 64 << 10  # bytes of an object that a get must return, if there are as many
KEYS = (
    "n/lock.json", "a b/c d", "100%/x", "a%2Fb/x", "a+b/x", "a&b=c/x", "q?x/y", "hash#x/y", 'quote"/x', "it's/x",
    "a;b/x", "a:b/x", "\xfcn\xef/c\xf6d\xe9", "\u65e5\u672c/\u8a9e", "emoji/\U0001f512", "~tilde/x", "-dash/--x",
    ".hidden/.x", "a.b.c/d", "[x]/{y}", "a*b/x", "a|b/x", "<a>/x", "a@b/x", "$a/x", "!a/x", "a,b/x", "(a)/x", "UPPER/x",
    "a..b/x", "...a/x", "_mopslock/store.json", "space end/ x", "s" * 200 + "/x", "deep/" * 40 + "x", "..%2fx",
    "%2e%2e/x", "..%5cx", "\u2024\u2024/x", "..\uff0fx", "__0x2e____0x2e__/x", "x?prefix=..",
)  # fmt: skip
"""What can be names. Somewhere some of them are read as ways out of the store."""

MOST_REFUSED = 12  # how many of them a store may refuse


class StoreRules:
    """Give it a fixture ``store``: an empty store, made anew for each test."""

    def another(self, store: Any) -> Any:
        """Another client of the same place. By default the store itself, as of a dictionary."""
        return store

    # Every store.

    def test_nothing_is_there(self, store: Any) -> None:
        """An absent object is None, and not an exception, which would be no answer."""
        _is_absent(store, "n/lock.json")

    def test_what_was_put_is_there_for_everybody(self, store: Any) -> None:
        """And at no other key."""
        other = self.another(store)
        store.put("n/lock.json", b"1")
        for client in (store, other):
            _has(client, "n/lock.json", b"1")
            for key in ("n/lock.jso", "n/lock.json2", "lock.json"):
                _is_absent(client, key)

    def test_what_lies_above_or_below_an_object_is_none(self, store: Any) -> None:
        """Where keys are paths, a folder is no object, and nothing lies below a file."""
        store.put("n/d/k", b"1")
        for key in ("n", "n/d", "n/d/k/k"):
            _is_absent(store, key)

    def test_a_put_replaces_all(self, store: Any) -> None:
        """Also by something shorter, or longer, and for who has read it before."""
        other = self.another(store)
        for body in (b"a", b"long" * 1000, b"b", b"\r\n\0\xff", b"c"):
            store.put("n/k", body)
            _has(other, "n/k", body)

    def test_bytes_come_back_as_they_were(self, store: Any) -> None:
        """Of a large object at least as many as a record can have."""
        for size in (1, 511, 512, 513, WHOLE - 1, WHOLE, 3 * WHOLE):
            body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            store.put("size/k", body)
            found = _get(store, "size/k")
            _check(found is not None and found[:WHOLE] == body[:WHOLE], f"get of {size} bytes returned others")
            _check(found == body[: len(found or b"")], f"get of {size} bytes returned more than was put")

    def test_a_key_is_kept_as_it_is_or_refused(self, store: Any) -> None:
        """Two keys are never one."""
        kept = list[str]()
        for key in KEYS:
            try:
                store.put(key, key.encode())
            except Exception:
                continue
            kept.append(key)
        _check(len(kept) >= len(KEYS) - MOST_REFUSED, f"put refused all keys but {kept}")
        for key in kept:
            _has(store, key, key.encode())
        if _can(store, "list"):
            _lists(store, "", kept)

    def test_neighbours_are_left_alone(self, store: Any) -> None:
        """Keys that begin alike are different objects."""
        for key in ("n/lock", "n/lock.json", "nn/lock"):
            store.put(key, key.encode())
        if _can(store, "delete"):
            store.delete("n/lock")
            _is_absent(store, "n/lock")
        for key in ("n/lock.json", "nn/lock"):
            _has(store, key, key.encode())

    def test_readers_see_whole_objects(self, store: Any) -> None:
        """While two write, three read: nobody sees a part of an object, or none."""
        other, over = self.another(store), threading.Event()
        bodies = [bytes([65 + number]) * (1 + number * 7919) for number in range(8)]
        store.put("n/k", bodies[0])

        def write(client: Any) -> None:
            for body in bodies * 6:
                client.put("n/k", body)

        def read(client: Any) -> None:
            while not over.is_set():
                found = _get(client, "n/k")
                _check(found in bodies, f"get returned {_short(found)} while whole objects were put")

        with ThreadPoolExecutor(5) as pool:
            readers = [pool.submit(read, client) for client in (store, other, store)]
            writers = [pool.submit(write, client) for client in (store, other)]
            try:
                for writer in writers:
                    writer.result()
            finally:
                over.set()
            for reader in readers:
                reader.result()

    def test_times_are_times(self, store: Any) -> None:
        """What get and list say of when an object was put: nanoseconds since 1970, and the same from both."""
        last = 0
        for number in range(3):
            store.put("n/k", b"%d" % number)
            found = store.get("n/k")
            stamp = 0 if isinstance(found, (bytes, bytearray, memoryview)) else found[1]
            if not stamp:
                raise unittest.SkipTest("get tells no times")
            unit = getattr(store, "stamp_unit_ns", 0)
            _check(abs(stamp - time.time_ns()) < 86_400 * 10**9, f"get says {stamp}, which is no time of today")
            _check(stamp >= last - unit, f"the time went back from {last} to {stamp}")
            for key, told in _pairs(store, "n/k") if _can(store, "list") else ():
                _check(told in (0, stamp), f"list says {told} of {key}, and get {stamp}")
            last = stamp

    # What protocol strict needs.

    def test_a_create_makes_what_is_not_there(self, store: Any) -> None:
        """True: made. False: there is one, which stays as it was. Nothing else is an answer, also not None."""
        _needs(store, "create")
        other = self.another(store)
        _said(store.create("n/v", b"first"), True, "create of what is absent")
        for client in (store, other):
            _said(_create(client, "n/v", b"second"), False, "create of what is there")
            _has(client, "n/v", b"first")
        store.put("n/w", b"put")
        _said(_create(other, "n/w", b"created"), False, "create of what was put")
        _has(store, "n/w", b"put")
        _said(_create(store, "n/lock.json", b""), True, "create of a neighbour")

    def test_a_create_has_one_winner(self, store: Any) -> None:
        """Of sixteen at once."""
        _needs(store, "create")
        clients = [store, *(self.another(store) for _ in range(3))]
        for turn in range(20):
            key, start, racers = f"race/{turn}/v", threading.Barrier(16), range(16)

            def race(racer: int, key: str = key, start: threading.Barrier = start) -> object:
                start.wait(SOON)
                return _create(clients[racer % len(clients)], key, b"%d" % racer)

            with ThreadPoolExecutor(16) as pool:
                said = [*pool.map(race, racers)]
            _check(all(word is True or word is False for word in said), f"creates answered {said}")
            won = [racer for racer in racers if said[racer] is True]
            _check(len(won) == 1, f"{len(won)} of 16 creates at once answered True: two may hold a lease")
            _has(store, key, b"%d" % won[0])

    def test_a_delete_removes_one_object(self, store: Any) -> None:
        """Twice is no error. Then it can be created again."""
        _needs(store, "delete")
        other = self.another(store)
        store.put("a/b/c/d", b"1")
        store.put("a/b/e", b"2")
        for _ in range(2):
            store.delete("a/b/c/d")
            _is_absent(other, "a/b/c/d")
        store.delete("a/b")  # what begins keys is no object
        store.delete("never/there")
        _has(store, "a/b/e", b"2")
        if _can(store, "create"):
            _said(_create(store, "a/b/c/d", b"3"), True, "create of what was deleted")
            _has(other, "a/b/c/d", b"3")

    def test_a_list_shows_all_that_begin_so(self, store: Any) -> None:
        """At any depth, and nothing else."""
        _needs(store, "list")
        keys = ["ab/1", "ab/2", "ab/2-/x", "abc", "abd/x", "abd/y/z/v", "b/ab"]
        for key in keys:
            store.put(key, b"1")
        for prefix in ("", "a", "ab", "ab/", "ab/2", "ab/2/", "abd", "abd/", "abd/x", "abd/xx", "abd/y/", "c", "c/d/e"):
            _lists(self.another(store), prefix, [key for key in keys if key.startswith(prefix)])

    def test_a_list_is_complete(self, store: Any) -> None:
        """However many there are: many stores list a thousand at a time."""
        _needs(store, "list")
        keys = [f"many/{number:04}/v" for number in range(1_050)]
        with ThreadPoolExecutor(16) as pool:
            for _ in pool.map(lambda key: store.put(key, b""), keys):
                pass
        _lists(self.another(store), "many/", keys)

    def test_a_list_is_fresh(self, store: Any) -> None:
        """It shows every object whose write was answered, and none whose delete was."""
        _needs(store, "list", "delete")
        other = self.another(store)
        _lists(other, "fresh/", [])
        for number in range(20):
            key = f"fresh/{number:02}/v"
            store.put(key, b"1")
            _lists(other, "fresh/", [key])
            store.delete(key)
            _lists(other, "fresh/", [])

    def test_a_page_is_the_first_keys_after_one(self, store: Any) -> None:
        """In the order of their bytes."""
        _needs(store, "list_page")
        keys = sorted(["a+", "a-b/c", "a.b", "a/b-c/d", "a/b/c", "a/b/d/e", "a/b0", "a0/b", "aa", "b/~", "b/\xe9", "z"])
        for key in keys:
            store.put(key, b"1")
        for prefix in ("", "a", "a/b", "b/"):
            for after in ("", *keys, "a/b/c!", "zz"):
                for count in (1, 2, 30):
                    want = [key for key in keys if key.startswith(prefix) and key > after][:count]
                    found = [_key(item) for item in store.list_page(prefix, after, count)]
                    _check(found == want, f"list_page({prefix!r}, {after!r}, {count}) returned {found} and not {want}")

    # What a store may have.

    def test_exists_says_whether_there_is_one(self, store: Any) -> None:
        """True or False."""
        _needs(store, "exists")
        _said(store.exists("n/k"), False, "exists of what is absent")
        self.another(store).put("n/k", b"")
        _said(store.exists("n/k"), True, "exists of what is there")

    def test_overwrite_makes_no_object_where_its_directory_is_gone(self, store: Any) -> None:
        """True: put. False: its directory is gone, and nothing was made."""
        _needs(store, "overwrite")
        store.put("n/d/k", b"1")
        _said(store.overwrite("n/d/k", b"2"), True, "overwrite of what is there")
        _has(store, "n/d/k", b"2")
        if _can(store, "delete", "list"):
            store.delete("n/d/k")
            said = store.overwrite("n/d/k", b"3")
            _check(said is True or said is False, f"overwrite answered {said!r}, which is neither True nor False")
            _lists(store, "", ["n/d/k"] if said else [])

    def test_open_streams_the_whole_object(self, store: Any) -> None:
        """What was opened ends in the same object, also if another is put meanwhile."""
        _needs(store, "open")
        _check(store.open("n/result") is None, "open of what is absent is not None")
        body = bytes(range(251)) * 20_000
        store.put("n/result", body)
        with store.open("n/result") as stream:
            _check(stream.read() == body, "open streams other bytes than were put")
        store.put("n/result", b"")
        with store.open("n/result") as stream:
            _check(stream.read() == b"", "open of an empty object streams bytes")

    def test_watch_tells_of_changes(self, store: Any) -> None:
        """Hints may come for nothing, but come for each kind of change until they are stopped."""
        _needs(store, "watch", "create", "delete")
        other = self.another(store)
        store.put("w/lock.json", b"0")
        with _watching(store, "w/lock.json") as record, _watching(store, "w/_mopslock/ff/v") as deep:
            other.put("w/lock.json", b"1")
            record("an overwrite")
            other.create("w/_mopslock/ff/v", b"v")
            deep("a create")
            other.delete("w/_mopslock/ff/v")
            deep("a delete")
            other.create("w/_mopslock/ff/v", b"again")
            deep("a second create")
        with _watching(store, "w/lock.json") as again:
            other.put("w/lock.json", b"2")
            again("an overwrite after an earlier watch")


@contextmanager
def _watching(store: Any, key: str) -> Iterator[Callable[[str], None]]:
    """What waits until the next change of a key is told. A hint of the one before may be on its way still."""
    told = threading.Event()
    stop = store.watch(key, told.set)

    def wait(what: str) -> None:
        _check(told.wait(SOON), f"watch did not tell of {what} of {key}")
        told.clear()

    try:
        yield wait
    finally:
        stop()
        stop()  # no error


def _check(right: bool, text: str) -> None:
    if not right:
        raise AssertionError(text)


def _can(store: Any, *verbs: str) -> bool:
    return all(callable(getattr(store, verb, None)) for verb in verbs)


def _needs(store: Any, *verbs: str) -> None:
    if not _can(store, *verbs):
        raise unittest.SkipTest(f"the store has no {' and no '.join(verb for verb in verbs if not _can(store, verb))}")


def _said(word: object, want: bool, what: str) -> None:
    _check(word is want, f"{what} answered {_short(word)}, and not {want}")


def _create(store: Any, key: str, body: bytes) -> object:
    try:
        return store.create(key, body)
    except FileExistsError:
        return False


def _get(store: Any, key: str) -> bytes | None:
    """The bytes of an object, from any answer that get may give."""
    found = store.get(key)
    if found is None:
        return None
    if isinstance(found, tuple):
        _check(len(found) == 2 and isinstance(found[1], int), f"get returned {_short(found)}, which is no Blob")
        found = found[0]
    _check(isinstance(found, (bytes, bytearray, memoryview)), f"get returned {_short(found)}, which is not bytes")
    return bytes(found)


def _has(store: Any, key: str, body: bytes) -> None:
    found = _get(store, key)
    _check(found == body, f"get of {key!r} returned {_short(found)}, and not {_short(body)}")
    if _can(store, "exists"):
        _said(store.exists(key), True, f"exists of {key!r}, which is there,")


def _is_absent(store: Any, key: str) -> None:
    found = _get(store, key)
    _check(found is None, f"get of {key!r}, which is absent, returned {_short(found)}")
    if _can(store, "exists"):
        _said(store.exists(key), False, f"exists of {key!r}, which is absent,")


def _key(item: Any) -> str:
    key = item if isinstance(item, str) else item[0]
    _check(isinstance(key, str), f"list returned {_short(item)}, which is neither a key nor a key with a time")
    return str(key)


def _pairs(store: Any, prefix: str) -> Iterator[tuple[str, int]]:
    found = store.list(prefix)
    _check(found is not None, "list returned None, and not the keys")
    for item in found:
        yield _key(item), 0 if isinstance(item, str) else item[1]


def _lists(store: Any, prefix: str, want: list[str]) -> None:
    found = sorted(key for key, _ in _pairs(store, prefix))
    missing, more = sorted({*want} - {*found}), sorted({*found} - {*want})
    _check(not missing, f"list of {prefix!r} left out {_short(missing)}: a lease that is held looks free")
    _check(not more, f"list of {prefix!r} showed {_short(more)}, which are not there")
    _check(len(found) == len(want), f"list of {prefix!r} showed a key twice")


def _short(what: object) -> str:
    text = repr(what)
    return text if len(text) <= 100 else f"{text[:100]}... ({len(text)} letters)"

"""Hosts without threads, on a clock that stands still until told to go, and a store that fails when told to.

::

    world = World()
    host = world.host()
    lease = world.acquired(host.begin_acquire("n", Terms(), FOREVER, None))
    world.run(30)                      # seconds of fake time; all that is due in them happens, in order

A request is applied a latency after it was made, and answered at that same instant. World.hold keeps requests back.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta, timezone
from typing import IO, Any, TypeVar

from mopslock._future import Future
from mopslock._own.claims import HeldThing, Lease
from mopslock._own.client import Client
from mopslock._own.host import OwnHost
from mopslock._own.threads import Lane, Request, Sleeper
from mopslock._units import FOREVER, SECOND
from mopslock._workers import Do
from mopslock.stores import Store
from mopslock.terms import Terms

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATENCY = 10_000_000  # nanoseconds that a request takes

ACQUIRE = ["get", "put", "get", "put"]
RENEW = RELEASE = ["get", "put"]
"""What is asked of a store for it."""

TTL = 88.0
MARGIN = TTL / 10  # what a holder gives up early, unless told otherwise

MEMO = "world://memo/"  # where mops finds a world's store

T = TypeVar("T")
NEVER = 1 << 62


def seconds(ns: int) -> float:
    """Nanoseconds as people count."""
    return ns / SECOND


class FakeClock:
    """Both clocks of one machine."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND
        self.offset = 1_767_225_600 * SECOND

    def mono(self) -> int:
        return self.now

    def wall(self) -> int:
        return self.now + self.offset

    def sleep(self, ns: int) -> None:
        self.now += ns


class PlainStore:
    """The one fake store, with the verbs that every store has: objects in memory, what was asked for, and what goes
    wrong, as data.

    ``fault`` is called before each verb, as fault(verb, key): an exception that it raises is the store's, and while it
    does not return the store is silent. One from ``after`` is raised once the verb was applied, so that its answer is
    lost.
    """

    fault: Callable[[str, str], None]
    after: Callable[[str, str], None]

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.log: list[str] = []
        self.lines: list[str] = []  # with the keys
        self.mend()
        self._lock = threading.Lock()

    def _note(self, verb: str, key: str) -> None:
        with self._lock:
            self.log.append(verb)
            self.lines.append(f"{verb} {key}")
        self.fault(verb, key)

    def get(self, key: str) -> bytes | None:
        self._note("get", key)
        found = self.objects.get(key)
        self.after("get", key)
        return found

    def put(self, key: str, body: bytes) -> None:
        self._note("put", key)
        self.objects[key] = bytes(body)
        self.after("put", key)

    def exists(self, key: str) -> bool:
        self._note("exists", key)
        return key in self.objects

    def silence(self, prefix: str = "") -> threading.Event:
        """From now on no verb on a key that begins so comes back until the event is set."""
        over = threading.Event()

        def fault(_: str, key: str) -> None:
            if key.startswith(prefix):
                over.wait(60)

        self.fault = fault
        return over

    def fail(self, error: BaseException, *verbs: str) -> None:
        """From now on the verbs, or all, fail before they are applied."""

        def fault(verb: str, _: str) -> None:
            if not verbs or verb in verbs:
                raise error

        self.fault = fault

    def mend(self) -> None:
        """From now on nothing fails."""
        self.fault = self.after = lambda verb, key: None

    def asked(self) -> list[str]:
        """The verbs since the last time this was asked."""
        said, self.log = self.log, []
        self.lines.clear()
        return said

    def record(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.objects[f"{name}/lock.json"])
        return found

    def holder(self, name: str) -> str | None:
        """Who holds a name, by its record alone; None if nobody does."""
        if f"{name}/lock.json" not in self.objects:
            return None
        found = self.record(name)
        return None if found["released_at"] else str(found["writer_id"])

    def write(self, name: str, wall: int, **fields: Any) -> None:
        """Puts a record of another's, written and acquired now, in mops' own words."""
        now = stamp(wall)
        record = {
            "writer_id": "thief", "written_at": now, "expire_s": 88.0, "write_count": 1, "hostname": "elsewhere",
            "pid": "1", "tid": 0, "first_written_at": now, "first_acquired_at": now, "released_at": "", **fields,
        }  # fmt: skip
        self.objects[f"{name}/lock.json"] = json.dumps(record).encode()


class FakeStore(PlainStore):
    """With all verbs. A careless one takes each create for a put."""

    creates = False  # whether that is so has to be tried

    def __init__(self, *, careless: bool = False) -> None:
        super().__init__()
        self.careless = careless

    def create(self, key: str, body: bytes) -> bool:
        self._note("create", key)
        with self._lock:
            made = self.careless or key not in self.objects
            if made:
                self.objects[key] = bytes(body)
        self.after("create", key)
        return made

    def list(self, prefix: str) -> list[str]:
        self._note("list", prefix)
        with self._lock:
            return [key for key in self.objects if key.startswith(prefix)]

    def delete(self, key: str) -> None:
        self._note("delete", key)
        self.objects.pop(key, None)


class Blobs:
    """A store as mops sees one: by URIs, and with an exception of its own where there is nothing."""

    def __init__(self, store: PlainStore) -> None:
        self.store = store
        self.hints: set[str] = set()

    def readbytesinto(self, uri: str, stream: IO[bytes], /, *, type_hint: str = "bytes") -> None:
        found = self.store.get(uri.removeprefix(MEMO))
        if found is None:
            raise LookupError(uri)
        stream.write(found)

    def putbytes(self, uri: str, data: Any, /, *, type_hint: str = "bytes") -> None:
        self.hints.add(type_hint)
        self.store.put(uri.removeprefix(MEMO), data)

    def exists(self, uri: str, /) -> bool:
        return self.store.exists(uri.removeprefix(MEMO))

    def join(self, *parts: str) -> str:
        return "/".join(parts)

    def is_blob_not_found(self, error: Exception, /) -> bool:
        return isinstance(error, LookupError)


def stamp(wall: int) -> str:
    """An instant as records have it."""
    return (EPOCH + timedelta(microseconds=wall // 1000)).isoformat(timespec="microseconds")


class TurnedLane(Lane):
    """Requests take their time on the world's network."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def take(self, request: Request) -> bool:
        if super().take(request):
            self._world.submit(request.perform)
        return False

    def leave(self, request: Request) -> None:
        if (held_back := super().leave(request)) is not None:
            self._world.submit(held_back.perform)


class Turned:
    """The threads of one client: the world does what they would."""

    naps = False
    sleeper = Sleeper(NotImplemented)

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: list[Do] = []
        self.waits: set[Any] = set()
        self._lanes = TurnedLane(world), TurnedLane(world)
        self.soon, self.expect = self.jobs.append, self.waits.add

    def lane(self, *, transfer: bool) -> Lane:
        return self._lanes[transfer]


class TurnedClient(Client):
    """A client that nobody steps while its host is paused."""

    host: Host

    def __init__(self, world: World, store: Store) -> None:
        super().__init__(store, world.clock, Turned(world), world.chance(16))
        self._later: list[Any] = []

    def news(self, *said: Any) -> Any:
        if self.host.paused:
            self._later += [said] if said else []
            return None
        while self._later:
            if (request := super().news(*self._later.pop(0))) is not None:
                request.start()
        return super().news(*said)

    def look(self) -> bool:
        self.turn()
        return not self.host.paused


class Host(OwnHost):
    """A host that a World turns, unless it is paused."""

    client: TurnedClient

    def __init__(self, world: World, store: Store) -> None:
        self.paused = False  # nobody steps its client
        super().__init__(store, TurnedClient(world, store))


class World:
    """Some hosts on one clock, and the network between them and their store, which is a plain one unless given."""

    def __init__(self, store: PlainStore | None = None) -> None:
        self.clock = FakeClock()
        self.store = store or PlainStore()
        self.hosts: list[Host] = []
        self.shares: list[Turned] = []
        self.held: list[Do] | None = None  # requests that the network keeps, while it does
        self._jobs: list[tuple[int, int, Do]] = []
        self._order, self._seeds = itertools.count(), itertools.count()

    def chance(self, size: int) -> bytes:
        """Not by chance."""
        return hashlib.sha256(b"%d" % next(self._seeds)).digest()[:size]

    def host(self, store: Store | None = None) -> Host:
        """One more process."""
        made = Host(self, store or self.store)
        self.hosts.append(made)
        self.shares.append(made.client.threads)  # type: ignore[arg-type]
        return made

    def share(self) -> Turned:
        """Threads for something else."""
        self.shares.append(Turned(self))
        return self.shares[-1]

    def at(self, instant: int, do: Do) -> None:
        """Has something done then."""
        heapq.heappush(self._jobs, (instant, next(self._order), do))

    def submit(self, job: Do) -> None:
        """What is done elsewhere, and takes its time."""
        if self.held is not None:
            self.held.append(job)
        else:
            self.at(self.clock.now + LATENCY, job)

    def hold(self) -> None:
        """From now on requests get nowhere."""
        self.held = []

    def invalidate(self) -> None:
        """What was held is done now, late as it is."""
        jobs, self.held = self.held or [], None
        for job in jobs:
            job()
        self.settle()

    def settle(self) -> None:
        """Does all that is due at this instant."""
        busy = True
        while busy:
            busy = False
            while self._jobs and self._jobs[0][0] <= self.clock.now:
                heapq.heappop(self._jobs)[2]()
                busy = True
            for share in self.shares:
                for job in [share.jobs.pop(0) for _ in share.jobs[:]]:
                    job()
                    busy = True
                for waits in [one for one in share.waits if _due(one) <= self.clock.now]:
                    if (do := waits.pass_time()) is not None:
                        do()
                    busy = True

    def next(self) -> int:
        """The instant at which something is due."""
        due = [_due(waits) for share in self.shares for waits in share.waits]
        return min([*due, self._jobs[0][0] if self._jobs else NEVER])

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Lets so much time pass, and all happen that is due in it, or less if until is true before."""
        end = self.clock.now + round(seconds * SECOND)
        self.settle()
        while not until() and (at := self.next()) <= end:
            self.clock.now = at
            self.settle()
        if not until():
            self.clock.now = end

    def jump(self, seconds: float) -> None:
        """The machine sleeps: time passes, and nothing happens in it."""
        self.clock.now += round(seconds * SECOND)

    def result(self, future: Future[T], within: float = 1000) -> T:
        """Lets time pass until a future is done."""
        self.run(within, future.done)
        assert future.done()
        return future.result()

    def error(self, future: Future[Any], within: float = 1000) -> BaseException:
        """As result, of one that fails."""
        self.run(within, future.done)
        error = future.exception()
        assert error is not None
        return error

    def lease(self, host: Host | None = None, name: str = "n", terms: Terms | None = None) -> Lease:
        """A lease that is held, on a host of its own unless one is given."""
        return claim(self.result((host or self.host()).begin_acquire(name, terms or Terms(), FOREVER, None)))

    def close(self, host: Host, timeout: float) -> BaseException | None:
        """Closes a host, which waits in real time and must see the fake one pass."""
        with ThreadPoolExecutor(1) as pool:
            closed = pool.submit(host.close, round(timeout * SECOND))
            while not closed.done():
                self.settle()
                self.clock.now = max(self.clock.now, min(self.next(), self.clock.now + SECOND))
                wait([closed], 0.001)
        return closed.exception()


def claim(held: HeldThing) -> Lease:
    """What is held, as what it is here."""
    assert isinstance(held, Lease)
    return held


def _due(waits: Any) -> int:
    return NEVER if isinstance(waits, TurnedClient) and waits.host.paused else waits.due()

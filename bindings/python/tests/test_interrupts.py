"""An exception between any two bytecodes, as Ctrl-C is one: whatever was being acquired or given back is held no more.

The interpreter looks for signals after calls, at jumps backwards and where a function begins. At the edges of ``with``,
which pass on what is held, the exception comes before every bytecode all the same; elsewhere only where it can.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import gc
import itertools
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import mopslock
from mopslock import aio
from mopslock._hosts import host_of
from mopslock.stores import Memory
from ways import thread, until

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # nor begun

PACKAGE = os.path.dirname(mopslock.__file__) + os.sep
EDGES = {
    "_api.py", "_call.py", "_caller.py", "_frames.py", "_future.py", "_held.py", "_invoke.py", "_lease.py",
    "_request.py",
}  # fmt: skip
POLLED = ("CALL", "RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE")


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> Iterator[None]:
    """Collections look at what this module makes, and not again and again at what the tests before it have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Interrupt(KeyboardInterrupt):
    """As the handler of a signal raises it."""


class Opcodes:
    """Which bytecode is where in a function."""

    def __init__(self) -> None:
        self._names: dict[CodeType, dict[int, str]] = {}

    def at(self, frame: FrameType) -> str:
        code = frame.f_code
        if code not in self._names:
            self._names[code] = {one.offset: one.opname for one in dis.get_instructions(code)}
        return self._names[code].get(frame.f_lasti, "CACHE")


opcodes = Opcodes()


def callers(frame: FrameType | None) -> Iterator[CodeType]:
    """A function, and those that have called it."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


class Interrupter:
    """Raises before the nth bytecode of the package that runs on this thread, or calls a handler there."""

    def __init__(self, n: int, handler: Callable[[], object] | None = None, edges: set[str] = EDGES) -> None:
        self.left, self.delivered, self.where, self._handler, self._edges = n, False, "", handler, edges

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        """A function begins. What a finalizer raises is raised to nobody."""
        code = frame.f_code
        chain = list(itertools.islice(callers(frame), 6))
        ours = any(one.co_filename.startswith(PACKAGE) for one in chain[:2])
        if not ours or any(one.co_name == "__del__" for one in chain):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        every, before = os.path.basename(code.co_filename) in self._edges, "RESUME"

        def local(frame: FrameType, event: str, _: object) -> Any:
            nonlocal before
            if event == "opcode":
                now = opcodes.at(frame)
                # An exception that comes as one begins to be handled would be handled together with it, forever.
                if now != "PUSH_EXC_INFO" and (every or before.startswith(POLLED)):
                    self.left -= 1
                    if self.left < 0:
                        self._raise(frame)
                before = now
            return local

        return local

    def _raise(self, frame: FrameType) -> None:
        sys.settrace(None)
        self.delivered = True
        self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} {opcodes.at(frame)}"
        if self._handler is None:
            raise Interrupt(self.where)
        self._handler()


@contextlib.contextmanager
def traced(interrupter: Interrupter) -> Iterator[None]:
    sys.settrace(interrupter)
    try:
        yield
    finally:
        sys.settrace(None)


def interrupted(n: int, do: Callable[[], object], edges: set[str] = EDGES) -> Interrupter:
    """Does it, and interrupts it there."""
    interrupter = Interrupter(n, edges=edges)
    with contextlib.suppress(Interrupt), traced(interrupter):
        do()
    return interrupter


@pytest.fixture(params=["own", "url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return Memory() if request.param == "own" else tmp_path.as_uri()


TERMS: dict[str, Any] = {"ttl": 60, "protocol": "strict"}
BLOCKS: dict[str, Callable[[Any, str], Any]] = {
    "lease": lambda store, name: mopslock.lease(store, name, **TERMS),
    "permit": lambda store, name: mopslock.permit(store, name, capacity=1, ttl=60),
}


def use(store: Any, name: str, kind: str = "lease") -> None:
    if kind == "invoke":
        mopslock.invoke(store, name, lambda _: b"1", **TERMS)
        return
    with BLOCKS[kind](store, name) as held:
        held.check()


def seen_held(store: Any) -> list[str]:
    return [seen.name for seen in mopslock.ls(store) if seen.state == "held" or seen.permits]


@pytest.mark.parametrize("kind", [*BLOCKS, "invoke"])
def test_an_interrupt_before_any_bytecode_leaves_nothing_held(kind: str, store: Any) -> None:
    use(store, "first", kind)  # which makes the host, and begins its threads
    host, places = host_of(store), list[str]()
    for n in itertools.count():
        interrupter = interrupted(n, lambda: use(store, f"n{n}", kind))  # noqa: B023
        if not interrupter.delivered:
            break
        places.append(interrupter.where)
    gc.collect()
    until(lambda: not host.client.claims)
    assert [places[int(name[1:])] for name in seen_held(store)] == []
    assert len(places) > 100, "they were too few"
    use(store, "last")


UNGUARDED = re.compile(r" __exit__ | RETURN_VALUE$| leave (RESUME|LOAD_CONST|STORE_FAST|NOP)$")


@pytest.mark.parametrize("kind", BLOCKS)
def test_an_interrupted_block_that_lives_on_holds_nothing(kind: str) -> None:
    """So no finalizer helps. Nothing can guard a return, nor what __exit__ does before its try."""
    store, blocks = Memory(), list[Any]()
    use(store, "first", kind)
    for n in itertools.count():
        blocks.append(BLOCKS[kind](store, f"n{n}"))

        def enter(block: Any = blocks[-1]) -> None:
            with block as held:
                held.check()

        interrupter = interrupted(n, enter)
        if not interrupter.delivered:
            break
        entered = blocks[-1]._use()
        if entered.held is not None and UNGUARDED.search(interrupter.where):
            blocks[-1].__exit__(None, None, None)
        assert entered.held is None or entered.held.lost.is_set(), interrupter.where
    assert n > 100


# A release or leave by name, in no block.


def accompanied(store: Any, name: str) -> Any:
    lease = mopslock.acquire(store, name, **TERMS)
    companion = mopslock.accompany(lease.text, store=store)
    companion.on_lost(lambda _, lease=lease: lease)  # type: ignore[misc] # so that the lease lives as long
    return companion


ASKS: dict[str, Callable[[Any, str], Any]] = {
    "lease": lambda store, name: mopslock.acquire(store, name, **TERMS),
    "session": lambda store, name: mopslock.acquire(store, name, session=True, **TERMS),
    "permit": lambda store, name: mopslock.acquire_permit(store, name, capacity=1, ttl=60),
    "companion": accompanied,
    "aio_lease": lambda store, name: asyncio.run(aio.acquire(store, name, **TERMS)),
    "aio_permit": lambda store, name: asyncio.run(aio.acquire_permit(store, name, capacity=1, ttl=60)),
}
NOT_BEGUN = re.compile(r" (release|leave|run) | _end (RESUME|NOP|RETURN_GENERATOR|POP_TOP)$")


def give_back(held: Any) -> None:
    ended = held.leave() if hasattr(held, "leave") else held.release()
    if ended is not None:
        asyncio.run(ended)


RELEASED = [*(("own", kind) for kind in ASKS), ("url", "lease"), ("url", "permit")]
"""By URL alone what carries a command is another one, which is the same for all."""


@pytest.mark.parametrize(("store", "kind"), RELEASED, indirect=["store"])
@pytest.mark.parametrize("twice", [False, True])
def test_an_interrupted_release_goes_on(kind: str, twice: bool, store: Any) -> None:
    """The object lives on, so no finalizer helps. It does if the first interrupt has come already: then nothing around
    what begins the release helps."""
    give_back(ASKS[kind](store, "first"))
    host, live_on = host_of(store), list[Any]()
    for n in itertools.count():
        held = ASKS[kind](store, f"n{n}")
        thing = held._held
        interrupter = interrupted(n, thing.finish if twice else partial(give_back, held))
        if not twice:
            live_on.append(held)
            if interrupter.delivered and not held.lost.is_set():
                assert NOT_BEGUN.search(interrupter.where)
                give_back(held)
        del held
        gc.collect()
        until(lambda: thing not in host.client.claims.values())  # noqa: B023
        if not interrupter.delivered:
            break
    assert n > (5 if twice else 20)


def use_limiter(limiter: Any) -> None:
    """In a block, by a holder, without either, and in vain."""
    with limiter.permit("n", capacity=2):
        pass
    with limiter.holder() as holder, holder.permit("n", capacity=2):
        pass
    limiter.acquire("n", capacity=2, wait=0).release()
    _ = limiter.acquire("n", capacity=2, wait=0)
    limiter.down()
    owner = limiter.holder()
    with owner, owner.permit("n", capacity=2), contextlib.suppress(mopslock.Full):
        limiter.acquire("n", capacity=1, wait=1e-9)


def test_an_interrupt_leaves_nothing_held_in_a_limiter() -> None:
    limiter = mopslock.Limiter()
    use_limiter(limiter)
    for n in itertools.count():
        interrupter = interrupted(n, lambda: use_limiter(limiter), set())
        if not interrupter.delivered:
            break
        until(lambda: (limiter.held("n"), limiter.waiting("n")) == (0, 0))
        with limiter.permit("n", capacity=1) as permit:  # the core knows of no other, either
            assert permit.total == 1, interrupter.where
    assert n > 100


def test_a_signals_handler_may_use_the_limiter_that_it_interrupts() -> None:
    limiter = mopslock.Limiter()
    use_limiter(limiter)
    for n in itertools.count():
        holder, ended = limiter.holder(), list[int]()
        held = holder.acquire("n", capacity=2)

        def handler(holder: Any = holder, held: Any = held, ended: list[int] = ended) -> None:
            held.release()
            with contextlib.suppress(mopslock.Full):  # which it is while the limiter itself was interrupted
                limiter.acquire("n", capacity=9, wait=None).release()
            ended.append(holder.down())

        interrupter = Interrupter(n, handler)
        with traced(interrupter):
            use_limiter(limiter)
        if not interrupter.delivered:
            break
        assert len(ended) == 1
        with limiter.permit("n", capacity=1) as permit:
            assert permit.total == 1, interrupter.where
    assert n > 200


def test_an_interrupted_release_lets_others_in() -> None:
    """And it can be made again, if it had not begun."""
    limiter = mopslock.Limiter()
    for n in itertools.count():
        permit, others = limiter.acquire("n", capacity=1), list[Any]()
        with thread(lambda: others.append(limiter.acquire("n", capacity=1))):  # noqa: B023
            until(lambda: limiter.waiting("n") == 1)
            interrupter = interrupted(n, permit.release)
            if permit._grant.held:
                permit.release()
        assert [other.total for other in others] == [1]
        until(lambda: limiter.held("n") == 0)
        if not interrupter.delivered:
            break
    assert n > 20


# Tasks: each is cancelled at each of its awaits, while it waits and when what it waits for has just come.


class Cancelling:
    """Awaits something, and cancels it at the nth future that it waits for: before that is done, or after."""

    def __init__(self, of: Any, n: int, *, late: bool) -> None:
        self._of, self._left, self._late, self.cancelled = of, n, late, False

    def __await__(self) -> Generator[Any, Any, Any]:
        waits = self._of.__await__()
        given: Any = None
        while True:
            try:
                future = waits.send(given)
                self._left -= 1
                if self._left < 0 and not self.cancelled:
                    self.cancelled = True
                    if self._late and future is not None:
                        yield future
                    future = waits.throw(asyncio.CancelledError())
            except StopIteration as end:
                return end.value
            given = yield future


async def use_aio(store: Any, name: str, kind: str) -> None:
    async def launch(_: aio.Work) -> bytes:
        await asyncio.sleep(0)
        return b"1"

    if kind == "invoke":
        await aio.invoke(store, name, launch, **TERMS)
        return
    block = aio.lease(store, name, **TERMS) if kind == "lease" else aio.permit(store, name, capacity=1, ttl=60)
    async with block as held:
        held.check()


@pytest.mark.parametrize("kind", [*BLOCKS, "invoke"])
async def test_a_task_that_is_cancelled_at_any_await_leaves_nothing_held(kind: str, store: Any) -> None:
    await use_aio(store, "first", kind)
    host = host_of(store)
    for late in (False, True):
        for n in itertools.count():
            cancelling = Cancelling(use_aio(store, f"{n}{late}", kind), n, late=late)
            with contextlib.suppress(asyncio.CancelledError):
                await cancelling
            if not cancelling.cancelled:
                break
            await asyncio.to_thread(until, lambda: not host.client.claims)
            assert await asyncio.to_thread(seen_held, store) == [], f"cancelled at {n}"
        assert n > 1

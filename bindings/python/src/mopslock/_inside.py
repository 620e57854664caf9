"""The blocks that this thread, or task, is in. If it waits for the lease of one of them, it waits for itself.

A block counts if it was entered here and its lease has not ended. A lease that was only acquired does not count:
another thread may be about to release it.

This does not see everything. asyncio.to_thread runs on another thread, and asyncio.wait_for makes another task in
Python 3.11. If one thread enters a block and another leaves it, it counts as the first one's until its lease ends.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from . import _texts
from ._own.claims import HeldThing
from ._own.host import OwnHost


class _Block(NamedTuple):
    """Tasks inherit a context, and threads can be given one. So each block knows which thread and task entered it."""

    lease: weakref.ref[Any]  # a user's lease, or work
    thread: int
    task: weakref.ref[Any] | None


_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("mopslock-blocks", default=())


def enter(lease: Any) -> _Block:
    """From now on this thread, or task, is in a block of this lease, until the lease ends."""
    task = _task()
    block = _Block(weakref.ref(lease), threading.get_ident(), weakref.ref(task) if task is not None else None)
    _blocks.set((*(one for one in _blocks.get() if _live(one) is not None), block))
    return block


_once: ContextVar[frozenset[object]] = ContextVar("mopslock-once", default=frozenset())


@contextlib.contextmanager
def once(call: object, text: str) -> Iterator[None]:
    """RuntimeError with this text, if this thread or task is in such a call: it would wait for itself."""
    inside = _once.get()
    if call in inside:
        raise RuntimeError(text)
    token = _once.set(inside | {call})
    try:
        yield
    finally:
        _once.reset(token)


def leave(entered: _Block) -> None:
    """Leaves the block; the lease may live on. A coroutine of a closed loop leaves it in another context."""
    _blocks.set(tuple(one for one in _blocks.get() if one is not entered))


def refuse(host: OwnHost, name: str, protocol: str, *, awaits: bool) -> None:
    """Raises HeldByOneself if the caller is about to wait for a lease in a block of that lease."""
    task, thread = _task(), threading.get_ident()
    for block in _blocks.get():
        held = _live(block)
        if held is None or held.name != name or not _is_one_store(held.client.host, host):
            continue
        ours = block.task is not None and block.task() is task if awaits else block.thread == thread
        if ours and protocol in ("auto", held.protocol):
            raise _texts.held_by_oneself(name, "task" if awaits else "thread")


def _is_one_store(one: OwnHost, other: OwnHost) -> bool:
    return one is other or (one.place() != "" and one.place() == other.place())


def _live(block: _Block) -> HeldThing | None:
    held: HeldThing | None = getattr(block.lease(), "_held", None)
    return held if held is not None and held.failure() is None else None


def _task() -> Any:
    """The current task, if any. A program without asyncio does not pay for its import."""
    if "asyncio" not in sys.modules:
        return None
    from asyncio import current_task  # noqa: PLC0415

    try:
        return current_task()
    except RuntimeError:  # no loop runs in this thread
        return None

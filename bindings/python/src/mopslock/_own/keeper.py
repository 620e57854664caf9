"""A keeper: a child process that runs a host, which no thread and no lock of this interpreter can hold up.

Commands and notices of the core's client go over a socket pair, or pipes, as msgpack; until when a claim may be relied
on is a word in memory that both share. bindings/README.md of the checkout has the messages.

::

    any thread      inbox ─► mopslock-keeper-out ─► wire ─► keeper
    waits            ◄─ claims ◄─ mopslock-keeper-in ◄─ wire ◄─ keeper
    check()          ◄─────────── one word ◄─────────────────────  keeper

No caller's thread writes to it: an interrupt between two halves of a message would leave a keeper that
understands nothing more.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import queue
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgpack

from .._future import Future
from .._log import log
from .._version import VERSION
from .._workers import Do, begin_thread
from ..errors import BadArgument, EngineFailed, MopslockError
from . import wire
from .belief import Belief
from .clock import System
from .threads import shared
from .verbs import Event

COMMAND = "mopslock-host"
NAMED = "MOPSLOCK_KEEPER"
"""The environment variable that names the command."""

MESSAGES = 1
"""The version of the messages."""

STARTING = 20.0
"""Seconds that a keeper may take to begin, on a machine that is busy."""

LOOKING, HANGING = 2.0, 4
"""Seconds of silence after which it is looked whether the keeper answers and the wire is still our own, and how often
in turn for one that does not answer to be left. In looks, since this process may itself be stopped, or starved."""

STEP = 20_000_000
"""Nanoseconds: a clock's coarsest step, which is that of Windows."""

Call = dict[str, Any]


class Listener(Protocol):
    """A store in the keeper."""

    def take(self, message: Event, more: Mapping[str, Any]) -> None:
        """A notice. Under the keeper's lock."""

    def gone(self, error: MopslockError) -> None:
        """The keeper is, or the store's client. Under the keeper's lock."""


def command() -> Path | None:
    """The keeper's command: what the environment names, of this Python's scripts, of the package mopslock-host wherever
    that lies, or in PATH; never what just lies in the current directory, where Windows looks first."""
    if named := os.environ.get(NAMED):
        return Path(named).absolute()  # a name alone is sought in PATH
    name = COMMAND + (".exe" if sys.platform == "win32" else "")
    script = Path(sysconfig.get_path("scripts")) / name
    if script.is_file():
        return script
    in_path = _of_the_package(name) or shutil.which(COMMAND)
    return Path(in_path) if in_path and os.path.isabs(in_path) else None


def _of_the_package(name: str) -> Path | None:
    """As where it was installed for a user alone, or into a directory of its own."""
    import importlib.metadata  # noqa: PLC0415 - it takes a while

    try:
        package = importlib.metadata.distribution(COMMAND)
    except ModuleNotFoundError:
        return None
    files = [str(file) for file in package.files or () if file.name == name]
    for file in (*files, f"bin/{name}"):  # pip moves the scripts of a directory, and does not say so in the list
        found = Path(os.path.abspath(str(package.locate_file(file))))
        if found.is_file():
            return found
    return None


class Keeper:
    """A keeper's process, as its parent has it."""

    def __init__(self, path: Path, *, python: bool = False) -> None:
        """Starts it, and waits until it is ready. EngineFailed says what is missing. On a thread of ours."""
        self.path, self.python = path, python
        self.lock = threading.Lock()  # held by threads of ours alone
        self.belief = Belief()
        self.dead: MopslockError | None = None
        self.environment = dict(os.environ)
        self._stores: dict[int, Listener] = {}
        self._calls: dict[int, Future[Call]] = {}
        self._numbers = iter(range(1, 1 << 62))
        self._inbox: queue.SimpleQueue[Do | None] = queue.SimpleQueue()
        self._out: list[bytes] = []  # what was said under the lock, and is to be sent
        self._packer = msgpack.Packer(unicode_errors="surrogateescape")  # as the environment has its text
        self._unpacker = msgpack.Unpacker(max_buffer_size=0)
        self._wire: wire.Wire | None = None
        self._stderr = -1
        self._asked = False  # whether it answers
        self._silent = -1  # looks since that was sent, in which it said nothing; -1: it was not sent
        try:
            self._start()
        except BaseException:
            self.forget()
            raise
        finally:
            self.belief.opened()
        begun: list[threading.Thread | None] = []
        begin_thread(self._receive, "mopslock-keeper-in", begun.append)
        begin_thread(self._send, "mopslock-keeper-out", begun.append)
        if None in begun:
            self._end(RuntimeError("this process cannot begin a thread"))
            raise self.dead or EngineFailed("mopslock: this process cannot begin a thread for its keeper")

    def _start(self) -> None:
        theirs = self._lay()
        self._stderr, says = os.pipe()
        if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12
            os.set_blocking(says, False)  # a keeper does not hang on what nobody reads
            os.set_blocking(self._stderr, False)
        if self.python:
            words = [sys.executable, "-I", "-S", str(self.path), str(os.getpid()), str(self.belief.fd)]
            words.append(os.pathsep.join(sys.path))
        else:
            words = [str(self.path), "keep", "--detach", "--parent", str(os.getpid())]
            words += ["--belief", self.belief.path]
        apart: dict[str, Any] = {"start_new_session": True, "pass_fds": self.belief.passed}
        if sys.platform == "win32":  # where only what is a stream of its is inherited
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS}
        try:
            status = subprocess.call(
                words, stdin=theirs[0], stdout=theirs[-1], stderr=says, timeout=STARTING, **apart
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            kind = NoKeeper if getattr(error, "errno", None) in NO_PROCESS else EngineFailed
            raise kind(f"mopslock: {self.path} cannot be started: {error}; {INSTALL}") from error
        finally:
            for fd in (*theirs, says):
                os.close(fd)
        ready = self._next()
        if not ready:
            raise EngineFailed(
                f"mopslock: {self.path} keep ended with {status}: {self._last_words() or 'no word'}; {INSTALL}"
            )
        version = ready.get("version", "?")
        if ready.get("messages") != MESSAGES or "pid" not in ready or (version != VERSION and not self.python):
            raise EngineFailed(
                f"mopslock: {self.path} is mopslock-host {version}, and this is mopslock {VERSION}; {INSTALL}"
            )
        self.pid: int = ready["pid"]
        self._check_clock()

    def _lay(self) -> tuple[int, ...]:
        """The keeper's ends of a new wire: a socket, or the ends of two pipes."""
        if not wire.PIPES:
            ours, theirs = (end.detach() for end in socket.socketpair())
            self._wire = wire.Wire(ours, ours)
            return (theirs,)
        stdin, says = os.pipe()
        hears, stdout = os.pipe()
        self._wire = wire.Wire(hears, says)
        return stdin, stdout

    def _check_clock(self) -> None:
        """Whether it reads our clock: each of the deadlines that it writes is an instant of that."""
        assert self._wire is not None
        before = System.mono()
        self._wire.say(self._packer.pack([0, {"kind": "ping", "call": 0}]))
        theirs, after = self._next().get("mono_ns", 0), System.mono()
        if not before - STEP <= theirs <= after + STEP:
            raise EngineFailed(
                f"mopslock: the clock of {self.path} is not this program's: it reads {theirs} ns between {before} and "
                f"{after}; start the program in the time namespace of its keeper, and tell us of it"
            )

    def _next(self) -> Call:
        """Its next word, as long as it is not served."""
        with contextlib.suppress(OSError, ValueError):
            while self._wire is not None and self._wire.wait(STARTING) and (piece := self._wire.read()):
                self._unpacker.feed(piece)
                for message in self._unpacker:
                    if not isinstance(message, list) or len(message) < 2 or not isinstance(message[1], dict):
                        return {}  # some other program's words
                    found: Call = message[1]
                    return found
        return {}

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return os.read(self._stderr, 1 << 14).decode(errors="replace").strip()
        return ""

    # What any thread may call.

    def attach(self, store: Listener) -> int:
        """The number of a new store."""
        number = next(self._numbers)
        self._stores[number] = store
        return number

    def detach(self, number: int) -> None:
        """The store was closed."""
        self._stores.pop(number, None)

    def post(self, do: Do) -> None:
        """Has do run under the lock, after what was posted before, and what it says sent."""
        self._inbox.put(do)
        if self.dead is not None:
            shared.workers.submit(self._drain)

    def ask(self, number: int, kind: str, **fields: Any) -> Future[Call]:
        """Asks the keeper itself. The future has its answer, or EngineFailed."""
        answer: Future[Call] = Future()
        call = next(self._numbers)

        def ask() -> None:
            if self.dead is not None:
                answer.settle(self.dead)
                return
            self._calls[call] = answer
            try:
                self.say(number, {"kind": kind, "call": call, **fields})
            except MopslockError as error:
                answer.settle(error)
            except Exception as error:
                answer.settle(EngineFailed(f"mopslock: {kind} cannot be said to a keeper: {error!r}"))

        answer.add_done_callback(lambda _: self._calls.pop(call, None))
        self.post(ask)
        return answer

    def is_ours(self) -> bool:
        """Whether it can still be spoken to, as far as that can be told at once."""
        try:
            return self.dead is None and self._wire is not None and self._wire.is_ours()
        except OSError:
            return False

    def changed(self) -> dict[str, str]:
        """What was put into the environment since the keeper began."""
        return {key: value for key, value in os.environ.items() if self.environment.get(key) != value}

    # Under the lock.

    def say(self, number: int, message: Event, more: Mapping[str, Any] | None = None, most: float = math.inf) -> None:
        """Says something to a store. BadArgument: it has more bytes."""
        said = self._packer.pack([number, message] if more is None else [number, message, more])
        if len(said) > most:
            raise BadArgument(
                f"mopslock: {message['kind']}: its name, label and other texts have {len(said):,} bytes together: "
                f"must be at most {most:,}"
            )
        self._out.append(said)

    # What threads of ours do.

    def _send(self) -> None:
        while self.dead is None:
            do = self._inbox.get()
            with self.lock:
                while do is not None:
                    self._safely(do)
                    do = None if self._inbox.empty() else self._inbox.get_nowait()
                out, self._out = self._out, []
            try:
                if out:
                    self._check_wire().say(b"".join(out))
            except BaseException as error:
                self._end(error)
        self._drain()

    def _drain(self) -> None:
        """What was posted to a keeper that has ended."""
        with self.lock:
            while not self._inbox.empty():
                with contextlib.suppress(queue.Empty):
                    if (do := self._inbox.get_nowait()) is not None:
                        self._safely(do)

    def _check_wire(self) -> wire.Wire:
        """Ours, or OSError."""
        ours = self._wire
        if ours is None:
            raise OSError("its messages are closed")
        if not ours.is_ours():
            self._wire, self._stderr = None, -1
            _foreign.append(self.belief)  # nor are our other descriptors our own any more
            raise OSError("this process has closed the keeper's descriptors")
        return ours

    def _receive(self) -> None:
        error: BaseException | None = None
        ends = -1
        with contextlib.suppress(AttributeError, OSError):  # a forked child can have the other end of the socket open
            ends = os.pidfd_open(self.pid)  # type: ignore[attr-defined, unused-ignore]
        try:
            while self._hear(ends):
                pass
        except BaseException as failed:
            error = failed
        finally:
            if ends >= 0 and self._wire is not None:
                os.close(ends)
        self._end(error)

    def _hear(self, ends: int) -> bool:
        """Takes what has come, or looks whether the keeper still answers. False: it has ended."""
        ours = self._wire
        if ours is None:
            return False
        ready = ours.wait(LOOKING, ends)
        self._check_wire()
        if ready is False:
            return self._still_answers()
        if ready is None:
            return False
        piece = ours.read()
        self._asked, self._silent = False, -1  # whatever it says, it answers
        self._unpacker.feed(piece)
        with self.lock:
            for number, message, *more in self._unpacker:
                self._safely(partial(self._take, number, message, more[0] if more else {}))
        return bool(piece)

    def _still_answers(self) -> bool:
        """One that is stopped, or hangs, is left: nobody would hear of a loss, and callers wait. When it goes on it
        finds that its messages have ended."""
        if self._silent >= 0:
            self._silent += 1
            if self._silent >= HANGING:
                raise TimeoutError(f"it has not answered for {HANGING * LOOKING:g} s")
        elif self._stores and not self._asked:
            self._asked = True
            self.post(self._ask_whether_it_answers)
        return True

    def _ask_whether_it_answers(self) -> None:
        self.say(0, {"kind": "ping"})
        self._silent = 0

    def _end(self, error: BaseException | None) -> None:
        """The keeper has ended, or cannot be reached any more. Once."""
        said = str(error) if error is not None else self._last_words()
        with self.lock:
            if self.dead is not None:
                return
            self.dead = EngineFailed(
                f"mopslock: the keeper (process {self.pid} of {self.path}) has ended{': ' + said if said else ''}; "
                "what it held ends at its deadline, and the next call starts another"
            )
            self.dead.__cause__ = error
            log.error("%s", self.dead)
            for answer in list(self._calls.values()):
                answer.settle(self.dead)
            stores, self._stores = self._stores, {}
            for store in stores.values():
                self._safely(partial(store.gone, self.dead))
        self._inbox.put(None)
        with contextlib.suppress(OSError):
            self._check_wire()
        self.forget()

    def _take(self, number: int, message: Event, more: Mapping[str, Any]) -> None:
        answer = self._calls.pop(message.get("call", 0), None)
        if answer is not None:
            answer.settle(message)
            return
        store = self._stores.get(number)
        if store is not None:
            store.take(message, more)

    def _safely(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception:
            log.exception("mopslock: a keeper's message could not be taken; this is an error in mopslock")

    def forget(self) -> None:
        """Lets go of it, once. A forked child must not be taken for its parent."""
        with contextlib.suppress(OSError):
            self._check_wire()
        ours, self._wire = self._wire, None
        stderr, self._stderr = self._stderr, -1
        with contextlib.suppress(OSError):
            if ours is not None:
                ours.close()
            if stderr >= 0:
                os.close(stderr)


_foreign: list[Belief] = []
"""What would close a descriptor of the user's if it were freed."""

INSTALL = f"pip install {COMMAND}=={VERSION}, or name that command by {NAMED}"


NO_PROCESS = (errno.EAGAIN, errno.ENOMEM, errno.ENOSYS, errno.EPERM)
"""As where a limit or a filter of system calls lets this process have no child."""


class NoKeeper(EngineFailed):
    """There can be none here: no command, or no other process."""


class _Current:
    """The keepers of this process, one of each kind: the command, and for stores that are written in Python."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.keepers: dict[bool, Keeper] = {}


_current = _Current()


def keeper(*, python: bool = False) -> Keeper:
    """One of this process, started when it is first needed, and again when it has ended. On a thread of ours."""
    with _current.lock:
        found = _current.keepers.get(python)
        if found is not None and not found.is_ours():
            found._end(OSError("this process has closed the keeper's descriptors"))
        if found is None or found.dead is not None:
            path = Path(__file__).parent.parent / "_keeper.py" if python else command()
            if python and wire.PIPES:
                raise NoKeeper("mopslock: on Windows no keeper can make a store that is written in Python")
            if python and (getattr(sys, "frozen", False) or not sys.executable):
                raise NoKeeper("mopslock: this program has no Python of its own that could keep a store's leases")
            if python and path is not None and not path.is_file():
                raise NoKeeper(f"mopslock: there is no file {path}, as where a package lies in an archive")
            if path is None:
                raise NoKeeper(f"mopslock: there is no {COMMAND}, which keeps leases on stores of URLs; {INSTALL}")
            try:
                found = _current.keepers[python] = Keeper(path, python=python)
            except OSError as error:  # out of descriptors, or of memory
                raise EngineFailed(f"mopslock: a keeper cannot be started: {error}") from error
        return found


def keepers() -> list[Keeper]:
    """Those of this process that have not ended."""
    return [found for found in list(_current.keepers.values()) if found.dead is None]


def _in_child() -> None:
    for found in _current.keepers.values():
        found.forget()
    _current.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

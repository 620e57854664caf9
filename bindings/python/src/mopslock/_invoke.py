"""Work that is done once, and whose result stays: what users call, and what they get."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from . import _failure, _inside, _texts
from ._api import ENVIRONMENT, store_of
from ._call import Found, Step, StepFuture, WorkRequest, give_up
from ._caller import Caller, run
from ._held import Handle, logged
from ._hosts import AnyStore
from ._lease import AcquiredLease
from ._options import RELEASE, Block, InvokeOptions, RemoteOptions, Unpack, asked, known, spelled
from ._own.claims import HeldThing
from ._own.host import OwnHost
from ._own.work import Invocation, NoLease
from .errors import BadArgument, LeaseLost, MopslockError, RememberedFailure
from .terms import Terms

W = TypeVar("W", bound="Work")

WorkOutput = bytes | bytearray | memoryview | os.PathLike[str] | None
"""The output of work: bytes, the path of the file that has them, or None: another process stores it."""

KEEPING = 60.0  # seconds to wait until a failure is stored, before it is raised


class Work(AcquiredLease):
    """A piece of work to do now, and its lease, which is kept alive until launch returns.

    The lease cannot stop code that never checks: look at ``lost`` or call ``check()`` before anything that must not be
    done twice. A remote's lease is also lost once it was released, but its work may go on: the first result wins. To
    hand the work to another process, give that process ``text``, as MOPSLOCK_LEASE. A remote that works without a lease
    has none to lose: ``holder``, ``protocol`` and ``text`` are "", ``fencing_token`` is 0.
    """

    def __init__(self, held: HeldThing) -> None:
        super().__init__(held, Block())

    @property
    def text(self) -> str:
        """What another process needs to do this work under the same lease, as one line of JSON: put it into that
        process's environment as MOPSLOCK_LEASE. It names the store, so it is as secret as the store's URL."""
        return "" if isinstance(self._held, NoLease) else self._held.handle().text()

    def __repr__(self) -> str:
        return f"<{self._home}.Work {self.name!r}>"

    def __del__(self) -> None:
        """It ends with its call, and not with this object."""

    def __reduce__(self) -> Any:
        raise TypeError("work is this process's own: give its text to the other process, which calls remote() with it")


Launch = Callable[[Work], WorkOutput]


class Result:
    """A result that is in the store, and stays there. Making this object has read nothing of it."""

    def __init__(self, call: Invocation, found: Found) -> None:
        self._call, self._found, self._pid = call, found, os.getpid()

    @property
    def name(self) -> str:
        """The name of the work."""
        return self._call.name

    @property
    def key(self) -> str:
        """Where it is in the store."""
        return self._found.key

    @property
    def failed(self) -> bool:
        """It is the stored failure of the work (``memo_failures``)."""
        return self._found.failed

    @property
    def own(self) -> bool:
        """This call has stored it. It is also False if that is unknown. On s3, gcs and abfs by stores.Fsspec it is also
        True where another call has stored the same bytes, up to 64 KiB: such a filesystem sends a create again whose
        answer was lost, and then its own object refuses it."""
        return self._found.own

    def open(self) -> BinaryIO:
        """A stream of it, from its beginning; call it as often as you like, and close the stream. On the store of a URL
        only a piece of it is in memory at a time. Errors, also of the stream's read(): StoreError, Vacant (another
        process has removed it), Closed."""
        if self._pid != os.getpid():
            raise _texts.forked(self.name)
        return self._call.open()

    def read(self) -> bytes:
        """All of it. Errors are those of open."""
        with Result.open(self) as stream:
            return stream.read()

    def failure(self) -> RememberedFailure | None:
        """The stored failure, to raise or to look at; None if the work succeeded. Errors are those of open, and
        Incompatible: a newer mopslock has stored it."""
        return _failure.load(self.name, Result.read(self))[0] if self.failed else None

    def __reduce__(self) -> Any:
        raise TypeError("a result lies in the store: give the other process its bytes, or its key")

    def __repr__(self) -> str:
        return f"<mopslock.Result {self.key!r}{' failed' if self.failed else ''}>"


@spelled(InvokeOptions)
def invoke(store: AnyStore, name: str, launch: Launch, **options: Unpack[InvokeOptions]) -> Result:
    """The result of a piece of work. The work is done only if there is no result yet and no other process is doing it::

        result = mopslock.invoke("s3://bucket/runs", "report/2026-11", lambda work: make_report().encode())
        print(result.read())

    If the result is there, it is returned, and nothing is done. If another process is doing the work, we wait for its
    result or for its lease. Otherwise we take the lease on ``name``, look for the result once more, and call
    ``launch(work)``. What launch returns is stored as ``name/result``, unless there is a result by then: the first
    result wins, and is returned. launch may return None if another process stores the result, such as one that was
    given ``work.text`` and calls ``remote``. Then we wait for that process as long as it keeps the lease alive.

    If launch raises, the lease is released, and the exception is raised; also a KeyboardInterrupt. With
    ``memo_failures`` an Exception that is not mopslock's is also stored. It is then the result for all callers with
    ``memo_failures``: ``result.failed``. If the lease is lost meanwhile, launch goes on unless it checks
    (``work.check()``). What it returns is stored only where that does no harm, and we wait again: launch can be called
    a second time.

    ``wait`` is the longest to wait for another process, in seconds (None: until there is a result; 0: try once). The
    other options are those of ``lease``, but ``ttl=0`` is invalid. A thread of ours calls ``on_waiting(status)``, whose
    status says for whom we wait.

    Held, WaitOver, StoreError: nothing was done. NoResult: the work has ended, and there is none. BadArgument: before
    any I/O.
    """
    return Result(*run(Invoking(Work, store, asking("invoke", name, options), launch).until_found()))


@spelled(InvokeOptions)
def submit(
    store: AnyStore, name: str, launch: Launch, **options: Unpack[InvokeOptions]
) -> concurrent.futures.Future[Result]:
    """As invoke, while this thread goes on: a concurrent.futures.Future of the Result. launch gets a thread of its own.

    The future's ``cancel()`` gives the claim up, and leaves nothing held. It returns False once launch has begun, which
    cannot be cancelled. The end of the interpreter waits for work that has begun, and gives up what waits.
    """
    from ._submit import Submitted  # noqa: PLC0415 - asyncio takes a while to import

    request = asking("submit", name, options)
    submitted: Submitted[Result] = Submitted(id)

    def on_thread(work: Work) -> WorkOutput:
        with under(work, request):
            return launch(work)

    async def invoked(*, caller: Caller) -> Result:
        launched = Invoking(Work, store, request, lambda work: submitted.launch(lambda: on_thread(work)), caller=caller)
        return Result(*await launched.until_found())

    return submitted.begin(invoked)


def asking(
    call: str, name: str, options: Mapping[str, Any], kind: Any = InvokeOptions, *, is_task: bool = False
) -> WorkRequest:
    """The request of invoke, memoize and their twins."""
    terms, block = asked(call, kind, options, is_task=is_task)
    memo_failures = bool(options.get("memo_failures"))
    return WorkRequest(name, terms, block.wait_ns(), block.on_waiting, memo_failures, on_loss=block.on_loss)


@spelled(RemoteOptions)
def remote(
    store: AnyStore | None, lease_text: str | None, launch: Launch, **options: Unpack[RemoteOptions]
) -> Result | None:
    """For the process that a launcher has started: does the work under the launcher's lease, and stores the result::

        mopslock.remote(None, None, lambda work: compute())     # the lease of MOPSLOCK_LEASE

    If the result is there, it is returned, and nothing is done. Otherwise we join the lease of ``lease_text`` (None:
    MOPSLOCK_LEASE), keep it alive even after the launcher dies, and call ``launch(work)``. What launch returns is
    stored if there is no result by then. A remote that comes late, when the lease was released or belongs to another
    tenure, gets None: it has done nothing, and the work belongs to another process now. Losing contact with the store
    does not end the work.

    Give ``store`` if the text's own store is no URL. With ``without_lease`` the work is done even if the lease cannot
    be kept alive, or if there is none: then give ``store`` and ``name``. An exception of launch is raised, and the
    lease lives on: it is the launcher's.

    NothingToJoin: there is nothing to keep alive, and nothing was done. NoResult, StoreError, BadArgument: as in
    invoke.
    """
    found = run(joining(Work, store, lease_text, launch, options))
    return Result(*found) if found is not None else None


async def joining(
    kind: type[Work], store: AnyStore | None, text: str | None, launch: Callable[[Any], Any], options: Mapping[str, Any]
) -> tuple[Invocation, Found] | None:
    """remote and its twin."""
    known("remote", RemoteOptions, options)
    name, without_lease = options.get("name"), bool(options.get("without_lease"))
    text = text if text is not None else os.environ.get(ENVIRONMENT) or None
    handle = Handle.parse(text) if text is not None else None
    if handle is not None:
        if name is not None and name != handle.name:
            raise BadArgument(f"mopslock: name {name!r}: the lease is that of {handle.name!r}")
        name, store = handle.name, store_of(handle, store)
    elif not without_lease:
        raise BadArgument(
            f"mopslock: there is no lease to work under: give its text, or set {ENVIRONMENT}, or say without_lease"
        )
    elif name is None or store is None:
        raise BadArgument("mopslock: without a lease's text, store and name must be given")
    terms = Terms(margin=options.get("margin"), protocol=handle.protocol if handle is not None else "lastwriter")
    request = WorkRequest(
        name, terms, memo_failures=bool(options.get("memo_failures")), remote=True, handle=handle,
        without_lease=without_lease,
    )  # fmt: skip
    work = Invoking(kind, store, request, launch)
    try:
        return await work.until_found()
    except LeaseLost:
        if work.raised is None:  # it came late: it has done nothing, and has nothing to do
            return None
        raise


def content(value: object) -> bytes | Path | None:
    """What launch returned. TypeError, or OSError for a file that cannot be read."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, os.PathLike):
        path = Path(value).absolute()
        with path.open("rb"):
            return path
    raise TypeError(f"mopslock: launch returned {type(value).__name__}: must be bytes, a pathlib.Path, or None")


@contextlib.contextmanager
def under(work: W, request: WorkRequest) -> Iterator[W]:
    """A block of the lease under which work is done. A remote's lease does not count: its launcher may release it at
    any time, so the work may wait for it."""
    if request.remote:
        yield work
        return
    entered = _inside.enter(work)
    try:
        yield work
    finally:
        _inside.leave(entered)


class Invoking:
    """One call of a thread or a task, which gets kind for its work. keep says how a failure is stored, and dumps how
    the output of launch is."""

    def __init__(
        self, kind: type[Work], store: AnyStore, request: WorkRequest, launch: Callable[[Any], Any], *,
        caller: Caller | None = None, keep: Callable[[BaseException], bytes] = _failure.dump,
        dumps: Callable[[Any], Any] = lambda output: output,
    ) -> None:  # fmt: skip
        self._kind, self._caller, self._store = kind, caller or kind._caller, store
        self._request, self._launch, self._keep, self._dumps = request, launch, keep, dumps
        self._begun = False
        self.raised: BaseException | None = None  # by launch, if the caller is to get it

    async def until_found(self) -> tuple[Invocation, Found]:
        next_step = first = StepFuture()
        call: Invocation | None = None
        try:
            host = await self._caller.host(self._store)
            call = host.begin_invocation(self._asked(host), first)
            while True:
                step = await self._next(call, next_step)
                if isinstance(step, Found):
                    return call, step
                next_step = StepFuture()
                await self._work(call, step.held, next_step)
        except BaseException as error:  # also an interrupt before call was set
            give_up(first)
            over = call.cancel() if call is not None else None
            if over is not None and self._begun and not isinstance(error, GeneratorExit):  # a closed loop cannot wait
                await self._caller.wait(over, RELEASE)  # what was held is released before the error is raised
            raise

    def _asked(self, host: OwnHost) -> WorkRequest:
        """It may wait, but not for itself. A remote waits for no other holder."""
        request = self._request
        if request.remote or not request.wait_ns:
            return request
        _inside.refuse(host, request.name, request.terms.protocol, awaits=self._caller.is_task)
        return replace(request, waits=logged("the result of", request.name, request.waits))

    async def _next(self, call: Invocation, next_step: StepFuture) -> Step:
        """The next step, or the exception of launch if that counts for more: there may be a result all the same."""
        came: Step | BaseException = TimeoutError()
        keeping = KEEPING if self._request.memo_failures else RELEASE
        try:
            if await self._caller.wait(next_step, keeping if self.raised is not None else None, call.cancel):
                came = next_step.result()
        except MopslockError as error:
            came = error
        if self.raised is not None and not (isinstance(came, Found) and not came.failed):
            raise self.raised
        if isinstance(came, BaseException):
            raise came
        return came

    async def _work(self, call: Invocation, held: HeldThing, next_step: StepFuture) -> None:
        if held.failure() is not None:
            call.complete(next_step, well=True, body=None)
            return
        self._begun = True
        try:
            request = self._request
            with under(self._kind(held), request) as work, self._caller.stopped(held, request.on_loss):
                output = self._launch(work)
                body = content(self._dumps(await output if self._caller.is_task else output))
            if isinstance(body, Path):
                await self._caller.call(lambda: call.complete(next_step, well=True, body=body))
            else:
                call.complete(next_step, well=True, body=body)
        except Exception as error:
            well, kept = self._failed(held, error)
            call.complete(next_step, well=well, body=kept)

    def _failed(self, held: HeldThing, error: Exception) -> tuple[bool, bytes | None]:
        """launch has raised. Returns whether the work counts as successful all the same, and what to store."""
        if isinstance(error, LeaseLost) and isinstance(held.failure(), LeaseLost):
            self.raised = error if self._request.remote else None  # otherwise another process may have the result soon
            return True, None
        self.raised = error
        if not self._request.memo_failures or isinstance(error, MopslockError):
            return False, None
        return False, self._keep(error)

"""Work that is done once, by real processes: signals, forks, kills, and the end of an interpreter."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import mopslock
from ways import KEPT, NOTICES, SOON, WAYS, Place, ended, forked, opened, program, said

TTL = 30


@pytest.fixture(params=[f"{way}-{kept}" for way in WAYS for kept in KEPT])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    way, _, kept = request.param.partition("-")
    with opened(way, tmp_path / "store", kept) as place:
        yield place


def calls(place: Place, launch: str = "raise AssertionError('it was launched')", *, ttl: float = TTL) -> str:
    """A program that calls for the work of "n", and says whether it waits."""
    return f"""
def launch(work):
    {launch}
try:
    waits = lambda _: print("waits", flush=True)
    result = mopslock.invoke({place.code}, "n", launch, ttl={ttl}, protocol={place.protocol!r}, on_waiting=waits)
    print("result", result.read().decode(), result.own, flush=True)
except BaseException as error:
    print("ended", type(error).__name__, flush=True)
"""


def freed(place: Place) -> bool:
    """Whether somebody else could take the lease."""
    return place.path("n").exists() and place.released("n")


HANGS = "print(work.text, flush=True); [time.sleep(0.05) for _ in range(1200)]"  # a minute, which nobody waits for
"""One long sleep can miss a signal that comes as it begins."""


def test_ctrl_c_in_the_work_releases(place: Place) -> None:
    with program(calls(place, HANGS)) as process:
        said(process)
        process.send_signal(signal.SIGINT)
        assert said(process) == "ended KeyboardInterrupt"
        assert freed(place)


def test_ctrl_c_of_who_waits(place: Place) -> None:
    """He waits for no result any more; the other's work goes on."""
    with program(calls(place, HANGS)) as holder:
        said(holder)
        with program(calls(place)) as process:
            assert said(process) == "waits"
            process.send_signal(signal.SIGINT)
            assert said(process) == "ended KeyboardInterrupt"
            assert ended(process)[0] == 0
        assert not freed(place)


def test_ctrl_c_at_any_moment_strands_nobody(place: Place) -> None:
    """From before there is a call until after it has ended: the next one gets the lease soon, or the result."""
    code = f"""
def again(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, again)
def call(name, launch, **more):
    return mopslock.invoke({place.code}, name, launch, ttl=30, protocol={place.protocol!r}, **more)
call("first", lambda work: b"")
heard = 0
for i in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + i * 0.0003)
        call(f"n/{{i}}", lambda work: b"x")
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        heard += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    call(f"n/{{i}}", lambda work: b"y", wait=20)
print(heard > 0)
"""
    with program(code) as process:
        assert said(process) == "True"


def test_the_end_of_the_interpreter_releases(place: Place) -> None:
    code = f"""
begun = threading.Event()
def launch(work):
    begun.set()
    threading.Event().wait(60)
def call():
    mopslock.invoke({place.code}, "n", launch, ttl={TTL}, protocol={place.protocol!r})
threading.Thread(target=call, daemon=True).start()
begun.wait(30)
"""
    with program(code) as process:
        assert ended(process)[0] == 0
    assert freed(place)


def test_a_killed_orchestrator_is_followed_by_one_that_waits_for_its_remote(place: Place) -> None:
    remote = f"""
def launch(work):
    print("joined", flush=True)
    sys.stdin.readline()
    return b"by the remote"
result = mopslock.remote({place.code}, os.environ["TEXT"], launch)
print(result.own, flush=True)
"""
    with program(calls(place, HANGS, ttl=NOTICES)) as first:
        text = said(first)
        with program(remote, TEXT=text) as process:
            assert said(process) == "joined"
            first.kill()
            first.wait(SOON)
            with program(calls(place, ttl=NOTICES)) as second:
                assert said(second) == "waits"
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
                assert said(process) == "True"
                assert said(second) == "result by the remote False"


def test_both_are_killed_and_the_next_one_does_it(place: Place) -> None:
    remote = f"""
def launch(work):
    print("joined", flush=True)
    sys.stdin.read()
mopslock.remote({place.code}, os.environ["TEXT"], launch)
"""
    with program(calls(place, HANGS, ttl=0.5)) as first:
        text = said(first)
        with program(remote, TEXT=text) as process:
            assert said(process) == "joined"
            first.kill()
            process.kill()
        result = mopslock.invoke(
            place.store, "n", lambda work: b"by the next", wait=SOON, ttl=0.5, protocol=place.protocol
        )
    assert (result.read(), result.own) == (b"by the next", True)


# fork.


def test_a_forked_childs_work_is_its_parents(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        def child() -> list[str]:
            with pytest.raises(mopslock.Forked):
                work.check()
            return [str(work.lost.is_set())]

        assert forked(child) == ["True"]
        work.check()
        return b"the parent's"

    assert mopslock.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol).read() == b"the parent's"


def test_a_child_that_returns_from_launch_ends_nothing(place: Place) -> None:
    """It is told so, and the parent's work goes on."""

    def child() -> str:
        result = mopslock.invoke(place.store, "m", lambda _: b"the child's", ttl=TTL, protocol=place.protocol)
        return result.read().decode()

    code = f"""
def launch(work):
    pid = os.fork()
    if pid == 0:
        return b"the child's"
    os.waitpid(pid, 0)
    work.check()
    return b"the parent's"
try:
    result = mopslock.invoke({place.code}, "n", launch, ttl={TTL}, protocol={place.protocol!r})
    print(result.read().decode(), flush=True)
except mopslock.Forked:
    os._exit(3)
"""
    with program(code) as process:
        assert said(process) == "the parent's"
    assert (place.root / "n" / "result").read_bytes() == b"the parent's"
    assert forked(child) == "the child's"


def test_a_result_is_read_where_it_was_got(place: Place) -> None:
    result = mopslock.invoke(place.store, "n", lambda work: b"x", ttl=TTL, protocol=place.protocol)

    def child() -> str:
        try:
            result.read()
        except mopslock.Forked:
            return mopslock.invoke(place.store, "n", lambda work: b"y", protocol=place.protocol).read().decode()
        return "read"

    assert forked(child) == "x"
    assert result.read() == b"x"

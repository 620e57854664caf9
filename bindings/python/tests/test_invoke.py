"""Work that is done once: invoke and remote, by both ways and under both protocols, and by real processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock._invoke import WorkOutput
from mopslock.stores import Directory
from ways import NOTICES, SOON, Place, forked, program, said, until, waiting

TTL = 30


def invoke(place: Place, name: str, launch: Callable[[Any], WorkOutput], **options: Any) -> Any:
    """With the place's protocol, and with a bound."""
    given = {"wait": SOON, "ttl": TTL, "protocol": place.protocol, **options}
    return place.api.invoke(place.store, name, launch, **given)


def never(_: mopslock.Work) -> bytes:
    """Work that nobody has to do."""
    raise AssertionError("it was launched")


def test_what_launch_returns_is_stored_and_returned_and_nothing_done_again(either: Place) -> None:
    result = invoke(either, "a/b", lambda work: b"the result")
    assert (result.name, result.key, result.own, result.failed) == ("a/b", "a/b/result", True, False)
    assert result.read() == result.read() == b"the result"
    assert (either.root / "a" / "b" / "result").read_bytes() == b"the result"
    assert result.failure() is None
    until(lambda: either.freed("a/b"))
    assert mopslock.invoke(either.other().store, "a/b", never, protocol=either.protocol).read() == b"the result"
    Directory(either.root).put("n/result", b"before")
    result = invoke(either, "n", never)
    assert (result.read(), result.own) == (b"before", False)
    assert not either.path("n").exists()


def test_launch_may_return_any_bytes_or_a_file(place: Place, tmp_path: Path) -> None:
    """A large result is a stream, as often as wanted."""
    big, file = os.urandom(3 << 20), tmp_path / "result of mine"
    file.write_bytes(big)
    came = {b"": b"", b"\0\xff\0": b"\0\xff\0", memoryview(b"abc")[1:]: b"bc", file: big}
    for number, (value, body) in enumerate([*came.items(), (bytearray(b"ab"), b"ab")]):
        assert invoke(place, f"n{number}", lambda work, value=value: value).read() == body  # type: ignore[misc]
    result = invoke(place, "n3", never)
    with result.open() as stream:
        assert (stream.read(7), stream.read(1 << 20)) == (big[:7], big[7 : 7 + (1 << 20)])
        assert stream.read() == big[7 + (1 << 20) :]
        assert stream.read() == b""
    with result.open() as again:
        assert again.read(5) == big[:5]


@pytest.mark.parametrize(
    ("came", "error"),
    [
        ("text", "TypeError: mopslock: launch returned str: must be bytes"),
        (["a list"], "TypeError: mopslock: launch returned list: must be bytes"),
        (Path("/nowhere/at all"), "FileNotFoundError"), (ValueError("its own"), "ValueError: its own"),
        (StopIteration("its own"), "StopIteration: its own"), (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_goes_wrong_in_the_work_is_raised_and_releases(place: Place, came: Any, error: str) -> None:
    def launch(work: mopslock.Work) -> Any:
        if isinstance(came, BaseException):
            raise came
        return came

    with pytest.raises(BaseException) as raised:  # noqa: PT011 - any
        invoke(place, "n", launch)
    assert f"{raised.type.__name__}: {raised.value}".startswith(error)
    assert raised.value is came or not isinstance(came, BaseException)
    assert place.freed("n")
    assert not (place.root / "n" / "result").exists()
    assert invoke(place, "n", lambda work: b"better").read() == b"better"


def test_a_failure_is_kept_where_that_is_asked_for_unless_it_is_one_of_ours(either: Place) -> None:
    def launch(error: Exception) -> Callable[[object], bytes]:
        def raises(_: object) -> bytes:
            raise error

        return raises

    with pytest.raises(mopslock.Throttled):
        invoke(either, "n", launch(mopslock.Throttled("of some store")), memo_failures=True)
    assert invoke(either, "n", lambda work: b"well", memo_failures=True).read() == b"well"
    with pytest.raises(ValueError, match="its own"):
        invoke(either, "m", launch(ValueError("its own")))
    assert either.freed("m")
    with pytest.raises(ValueError, match="its own"):
        invoke(either, "m", launch(ValueError("its own")), memo_failures=True)
    result = invoke(either, "m", never, memo_failures=True)
    assert (result.failed, result.failure().text) == (True, "its own")
    with pytest.raises(mopslock.NoResult) as none:
        invoke(either, "k", lambda work: None, ttl=0.5)
    assert none.value.reason == "none"
    assert either.freed("k")


def test_work_knows_its_lease(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        work.check()
        assert (work.name, work.protocol, work.ttl) == ("n", place.protocol, TTL)
        assert work.holder == place.holder("n")
        assert 0 < work.left <= TTL
        assert (work.fencing_token > 0) == (work.epoch > 0) == (place.protocol == "strict")
        assert not work.lost.is_set()
        text = json.loads(work.text)
        assert (text["name"], text["holder"], text["token"]) == ("n", work.holder, work.fencing_token)
        kept.append(work)
        return b""

    kept: list[mopslock.Work] = []
    invoke(place, "n", launch)
    with pytest.raises(mopslock.LeaseEnded):
        kept[0].check()
    assert kept[0].lost.wait(0)


def test_many_at_once_do_it_once_and_all_get_the_same(place: Place) -> None:
    done: list[int] = []

    def launch(work: mopslock.Work) -> bytes:
        done.append(1)
        return b"by %d" % len(done)

    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(lambda i: invoke(place if i % 2 else place.other(), "n", launch), range(12)))
    assert {result.read() for result in results} == {b"by 1"}
    assert sum(result.own for result in results) == 1
    assert len(done) == 1


@pytest.mark.parametrize("well", [True, False])
def test_a_result_that_is_there_all_the_same_counts_for_more(place: Place, well: bool) -> None:
    """The first one wins, also where the launcher could not wait for what it had started."""

    def launch(work: mopslock.Work) -> bytes:
        Directory(place.root).put("n/result", b"the remote's")
        if not well:
            raise ConnectionError("cannot watch the job")
        return b"ours"

    result = invoke(place, "n", launch)
    assert (result.read(), result.own) == (b"the remote's", False)


@pytest.mark.parametrize("raises", [True, False])
def test_a_lost_lease_makes_a_waiter_that_gets_the_winners_result(place: Place, raises: bool) -> None:
    """What the loser computed is not written anywhere, whether it looks or is told."""

    def launch(work: mopslock.Work) -> bytes:
        place.steal("n")
        assert work.lost.wait(SOON)
        with pytest.raises(mopslock.LeaseTaken):
            work.check()
        if raises:
            work.check()
        return b"ours"

    def waits(status: mopslock.Status) -> None:
        assert status.holder == "thief"
        Directory(place.root).put("n/result", b"the thief's")

    result = mopslock.invoke(place.store, "n", launch, ttl=NOTICES, protocol=place.protocol, on_waiting=waits)
    assert (result.read(), result.own) == (b"the thief's", False)


def test_names_and_terms_that_cannot_be(place: Place) -> None:
    for name, text in (("a/lock", "last segment"), ("a/../b", r'name "a/\.\./b"'), ("a/result", "result")):
        with pytest.raises(mopslock.BadArgument, match=text):
            invoke(place, name, never)
    with pytest.raises(mopslock.BadArgument, match="ttl"):
        mopslock.invoke(place.store, "n", never, ttl=0, protocol=place.protocol)
    with pytest.raises(mopslock.BadArgument, match="on_waiting"):
        invoke(place, "n", never, on_waiting=7)
    assert list(place.root.iterdir()) == []


def test_a_remote_does_the_work_under_its_launchers_lease(either: Place) -> None:
    def launch(work: mopslock.Work) -> None:
        def fails(_: object) -> bytes:
            raise ConnectionError("its own")

        def job(theirs: mopslock.Work) -> bytes:
            assert (theirs.holder, theirs.fencing_token) == (work.holder, work.fencing_token)
            theirs.check()
            return b"by the remote"

        with pytest.raises(ConnectionError):  # which leaves the lease to its launcher
            either.api.remote(either.store, work.text, fails)
        work.check()
        assert not either.released("n")
        result = either.api.remote(either.other().store, work.text, job)
        assert (result.read(), result.own) == (b"by the remote", True)

    result = invoke(either, "n", launch)
    assert (result.read(), result.own) == (b"by the remote", False)
    until(lambda: either.freed("n"))


def test_the_text_comes_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = place.api.remote

    def launch(work: mopslock.Work) -> None:
        monkeypatch.setenv("MOPSLOCK_LEASE", work.text)
        assert remote(None if place.way == "url" else place.store, None, lambda theirs: b"done", name="n").own
        monkeypatch.delenv("MOPSLOCK_LEASE")
        with pytest.raises(mopslock.BadArgument, match="the lease is that of 'n'"):
            remote(place.store, work.text, never, name="m")
        assert remote(place.store, work.text, never).read() == b"done"

    assert invoke(place, "n", launch).read() == b"done"
    with pytest.raises(mopslock.BadArgument, match="MOPSLOCK_LEASE"):
        remote(place.store, None, never)


def test_a_remote_that_comes_late_does_nothing(either: Place) -> None:
    texts: list[str] = []

    def launch(work: mopslock.Work) -> bytes:
        texts.append(work.text)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        invoke(either, "n", launch)
    assert either.api.remote(either.store, texts[0], never) is None
    with mopslock.lease(either.store, "n", ttl=TTL, protocol=either.protocol):
        assert either.api.remote(either.store, texts[0], never) is None


def test_without_any_lease(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        work.check()
        assert (work.holder, work.text, work.fencing_token) == ("", "", 0)
        return b"done"

    remote = place.api.remote
    for own in (True, False):
        result = remote(place.store, None, launch if own else never, without_lease=True, name="n")
        assert (result.read(), result.own) == (b"done", own)
    with pytest.raises(mopslock.BadArgument, match="store and name"):
        remote(place.store, None, launch, without_lease=True)
    with mopslock.lease(place.store, "m", ttl=TTL, protocol=place.protocol) as lease:
        text = json.dumps({**json.loads(lease.text), "name": "other"})
    with pytest.raises(mopslock.NothingToJoin):
        remote(place.store, text, never)
    assert remote(place.store, text, launch, without_lease=True).read() == b"done"


def test_a_killed_orchestrator_is_followed_by_one_that_waits_for_its_remote(place: Place) -> None:
    remote = f"""
def launch(work):
    print("joined", flush=True)
    sys.stdin.readline()
    return b"by the remote"
print(mopslock.remote({place.code}, os.environ["TEXT"], launch).own, flush=True)
"""
    launches = f"""
def launch(work):
    print(work.text, flush=True)
    signal.pause()
mopslock.invoke({place.code}, "n", launch, ttl={TTL}, protocol={place.protocol!r})
"""
    with program(launches) as first, program(remote, TEXT=said(first)) as process:
        assert said(process) == "joined"
        first.kill()
        first.wait(SOON)
        with waiting(invoke, place, "n", never) as (second, _):
            print(file=process.stdin, flush=True)
            assert said(process) == "True"
            assert second.result(SOON).read() == b"by the remote"


def test_a_forked_childs_work_is_its_parents(place: Place) -> None:
    """What it got is the parent's too; the child asks for its own."""

    def launch(work: mopslock.Work) -> bytes:
        def child() -> list[str]:
            with pytest.raises(mopslock.Forked):
                work.check()
            return [str(work.lost.is_set())]

        assert forked(child) == ["True"]
        work.check()
        return b"the parent's"

    result = mopslock.invoke(place.store, "n", launch, ttl=TTL, protocol=place.protocol)

    def child() -> str:
        with pytest.raises(mopslock.Forked):
            result.read()
        return mopslock.invoke(place.store, "n", lambda work: b"y", protocol=place.protocol).read().decode()

    assert forked(child) == "the parent's"
    assert result.read() == b"the parent's"


def test_a_child_that_returns_from_launch_ends_nothing(place: Place) -> None:
    """It is told so, and the parent's work goes on."""
    pid = 0

    def launch(work: mopslock.Work) -> bytes:
        nonlocal pid
        pid = os.fork()
        if not pid:
            return b"the child's"
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        work.check()
        return b"the parent's"

    try:
        result = invoke(place, "n", launch)
    except mopslock.Forked:
        os._exit(3)
    finally:
        if not pid:
            os._exit(4)
    assert result.read() == b"the parent's"

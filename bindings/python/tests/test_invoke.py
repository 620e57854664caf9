"""Work that is done once: invoke and remote, by both ways and under both protocols."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock._invoke import CameTo
from mopslock.stores import Directory
from ways import KEPT, NOTICES, SOON, WAYS, Place, opened, until

TTL = 30


@pytest.fixture(params=[f"{way}-{kept}" for way in WAYS for kept in KEPT])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    way, _, kept = request.param.partition("-")
    with opened(way, tmp_path / "store", kept) as place:
        yield place


def invoke(
    place: Place, name: str, launch: Callable[[mopslock.Work], CameTo], *, wait: float | None = SOON, **options: Any
) -> mopslock.Result:
    """With the place's protocol, and not for ever."""
    return mopslock.invoke(place.store, name, launch, wait=wait, ttl=TTL, protocol=place.protocol, **options)


def never(_: mopslock.Work) -> bytes:
    """Work that nobody has to do."""
    raise AssertionError("it was launched")


def fails(_: mopslock.Work) -> bytes:
    """Work that goes wrong."""
    raise ValueError("its own")


def freed(place: Place, name: str) -> bool:
    """Whether somebody else could take the lease."""
    return place.path(name).exists() and place.released(name)


# Once.


def test_what_launch_returns_is_stored_and_returned(place: Place) -> None:
    result = invoke(place, "a/b", lambda work: b"what it came to")
    assert (result.name, result.key, result.own, result.failed) == ("a/b", "a/b/result", True, False)
    assert result.read() == result.read() == b"what it came to"
    assert (place.root / "a" / "b" / "result").read_bytes() == b"what it came to"
    assert result.failure() is None
    until(lambda: freed(place, "a/b"))


def test_a_result_that_is_there_is_returned_and_nothing_done(place: Place) -> None:
    Directory(place.root).put("n/result", b"before")
    result = invoke(place, "n", never)
    assert (result.read(), result.own) == (b"before", False)
    assert not place.path("n").exists()


def test_either_way_finds_what_the_other_has_stored(place: Place) -> None:
    invoke(place, "n", lambda work: b"ours")
    assert invoke(place.other(), "n", never).read() == b"ours"


@pytest.mark.parametrize(
    ("came", "body"),
    [(b"", b""), (b"\0\xff\0", b"\0\xff\0"), (bytearray(b"ab"), b"ab"), (memoryview(b"abc")[1:], b"bc")],
)
def test_launch_may_return_any_bytes(place: Place, came: Any, body: bytes) -> None:
    assert invoke(place, "n", lambda work: came).read() == body


def test_launch_may_return_a_file(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "result of mine"
    file.write_bytes(os.urandom(1 << 20) * 5)
    assert invoke(place, "n", lambda work: file).read() == file.read_bytes()


def test_a_large_result_is_a_stream(place: Place) -> None:
    body = os.urandom(3 << 20)
    result = invoke(place, "n", lambda work: body)
    with result.open() as stream:
        assert (stream.read(7), stream.read(1 << 20)) == (body[:7], body[7 : 7 + (1 << 20)])
        assert stream.read() == body[7 + (1 << 20) :]
        assert stream.read() == b""
    with result.open() as again:
        assert again.read(5) == body[:5]


@pytest.mark.parametrize("came", ["text", 7, ["a list"]])
def test_what_is_no_result_is_an_error_of_the_work(place: Place, came: Any) -> None:
    with pytest.raises(TypeError, match=r"launch returned \w+: must be bytes"):
        invoke(place, "n", lambda work: came)
    assert freed(place, "n")


def test_a_file_that_is_not_there_is_an_error_of_the_work(place: Place, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        invoke(place, "n", lambda work: tmp_path / "nowhere")
    assert freed(place, "n")


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


def test_the_first_result_wins(place: Place) -> None:
    """Somebody without manners has stored one while the work was done."""

    def launch(work: mopslock.Work) -> bytes:
        Directory(place.root).put("n/result", b"theirs")
        return b"ours"

    result = invoke(place, "n", launch)
    assert (result.read(), result.own) == (b"theirs", False)


def test_who_waits_is_woken_by_the_result(place: Place) -> None:
    """In this process no poll is waited for: those come seconds apart."""
    begun, go = threading.Event(), threading.Event()
    told: list[mopslock.Status] = []

    def launch(work: mopslock.Work) -> bytes:
        begun.set()
        assert go.wait(SOON)
        return b"theirs"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(invoke, place, "n", launch)
        assert begun.wait(SOON)
        second = pool.submit(invoke, place, "n", never, on_waiting=told.append)
        until(lambda: told)
        assert told[0].holder == place.holder("n")
        go.set()
        assert second.result(SOON).read() == first.result(SOON).read() == b"theirs"
        assert not second.result().own


# Badly.


def test_what_launch_raises_is_raised_and_the_lease_released(place: Place) -> None:
    with pytest.raises(ValueError, match="its own") as raised:
        invoke(place, "n", fails)
    assert raised.value.__cause__ is None
    assert freed(place, "n")
    assert not (place.root / "n" / "result").exists()
    assert invoke(place, "n", lambda work: b"better").read() == b"better"


def test_a_result_that_is_there_all_the_same_counts_for_more(place: Place) -> None:
    """The launcher could not wait for what it had started."""

    def launch(work: mopslock.Work) -> bytes:
        Directory(place.root).put("n/result", b"the remote's")
        raise ConnectionError("cannot watch the job")

    assert invoke(place, "n", launch).read() == b"the remote's"


def test_whatever_ends_the_work_releases(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        invoke(place, "n", launch)
    assert freed(place, "n")


def test_no_result_after_launch(place: Place) -> None:
    with pytest.raises(mopslock.NoResult) as error:
        mopslock.invoke(place.store, "n", lambda work: None, ttl=0.5, protocol=place.protocol)
    assert error.value.reason == "none"
    assert freed(place, "n")


def test_held_elsewhere_and_no_wait(place: Place) -> None:
    with mopslock.lease(place.store, "n", ttl=TTL, protocol=place.protocol) as lease:
        with pytest.raises(mopslock.Held) as error:
            invoke(place.other(), "n", never, wait=0)
        assert error.value.seen is not None
        assert error.value.seen.holder == lease.holder


def test_a_lost_lease_makes_a_waiter_who_gets_the_winners_result(place: Place) -> None:
    """What the loser computed is not written anywhere."""

    def launch(work: mopslock.Work) -> bytes:
        place.steal("n")
        assert work.lost.wait(SOON)
        with pytest.raises(mopslock.LeaseTaken):
            work.check()
        return b"ours"

    def waits(status: mopslock.Status) -> None:
        assert status.holder == "thief"
        Directory(place.root).put("n/result", b"the thief's")

    result = mopslock.invoke(place.store, "n", launch, ttl=NOTICES, protocol=place.protocol, on_waiting=waits)
    assert (result.read(), result.own) == (b"the thief's", False)


def test_who_asks_and_hears_of_the_loss_waits_too(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        place.steal("n")
        Directory(place.root).put("n/result", b"the thief's")
        assert work.lost.wait(SOON)
        work.check()
        raise AssertionError("it is lost")

    result = mopslock.invoke(place.store, "n", launch, ttl=NOTICES, protocol=place.protocol)
    assert result.read() == b"the thief's"


def test_closing_the_store_ends_what_waits_and_what_works(place: Place) -> None:
    begun = threading.Event()
    ended: list[BaseException] = []

    def launch(work: mopslock.Work) -> bytes:
        begun.set()
        assert work.lost.wait(SOON)
        return b"too late"

    def call(launch: Callable[[mopslock.Work], bytes]) -> None:
        try:
            invoke(place, "n", launch)
        except mopslock.MopslockError as error:
            ended.append(error)

    threads = [threading.Thread(target=call, args=(launch,)), threading.Thread(target=call, args=(never,))]
    threads[0].start()
    assert begun.wait(SOON)
    threads[1].start()
    mopslock.close(place.store)
    for thread in threads:
        thread.join(SOON)
    assert [type(error) for error in ended] == [mopslock.Closed, mopslock.Closed], ended
    assert freed(place, "n")
    assert not (place.root / "n" / "result").exists()


# Failures that are kept.


def test_a_kept_failure_is_the_result_of_all_who_keep_them(place: Place) -> None:
    with pytest.raises(ValueError, match="its own"):
        invoke(place, "n", fails, memo_failures=True)
    result = invoke(place.other(), "n", never, memo_failures=True)
    assert (result.failed, result.own, result.key) == (True, False, "_mopslock/f/n/result")
    failure = result.failure()
    assert failure is not None
    assert (failure.type, failure.text, failure.status) == ("ValueError", "its own", 0)
    assert "in fails" in failure.stderr
    assert invoke(place, "n", lambda work: b"well").read() == b"well"
    assert invoke(place, "n", never, memo_failures=True).read() == b"well"


def test_a_failure_of_ours_is_no_failure_of_the_work(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        raise mopslock.Throttled("of some store")

    with pytest.raises(mopslock.Throttled):
        invoke(place, "n", launch, memo_failures=True)
    assert invoke(place, "n", lambda work: b"well", memo_failures=True).read() == b"well"


# What names and terms can be.


def test_names_that_cannot_be(place: Place) -> None:
    with pytest.raises(mopslock.BadArgument, match="last segment"):
        invoke(place, "a/lock", never)
    with pytest.raises(mopslock.BadArgument, match=r'name "a/\.\./b"'):
        invoke(place, "a/../b", never)
    with pytest.raises(mopslock.BadArgument):
        invoke(place, "a/result", never)
    assert list(place.root.iterdir()) == []


def test_terms_that_cannot_be(place: Place) -> None:
    with pytest.raises(mopslock.BadArgument, match="ttl"):
        mopslock.invoke(place.store, "n", never, ttl=0, protocol=place.protocol)
    with pytest.raises(mopslock.BadArgument, match="on_waiting"):
        invoke(place, "n", never, on_waiting=7)


# Remotes.


def test_a_remote_does_the_work_under_its_launchers_lease(place: Place) -> None:
    def launch(work: mopslock.Work) -> None:
        def job(theirs: mopslock.Work) -> bytes:
            assert (theirs.holder, theirs.fencing_token) == (work.holder, work.fencing_token)
            theirs.check()
            return b"by the remote"

        result = mopslock.remote(place.other().store, work.text, job)
        assert result is not None
        assert (result.read(), result.own) == (b"by the remote", True)

    result = invoke(place, "n", launch)
    assert (result.read(), result.own) == (b"by the remote", False)
    until(lambda: freed(place, "n"))


def test_a_launcher_that_ends_at_once_waits_for_its_remote(place: Place) -> None:
    go = threading.Event()
    texts: list[str] = []

    def launch(work: mopslock.Work) -> None:
        texts.append(work.text)

    def job(work: mopslock.Work) -> bytes:
        go.set()
        return b"by the remote"

    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(invoke, place, "n", launch)
        until(lambda: texts)
        assert mopslock.remote(place.store, texts[0], job) is not None
        assert go.is_set()
        assert waits.result(SOON).read() == b"by the remote"


def test_the_text_comes_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(work: mopslock.Work) -> None:
        monkeypatch.setenv("MOPSLOCK_LEASE", work.text)
        store = None if place.way == "url" else place.store
        assert mopslock.remote(store, None, lambda theirs: b"done", name="n") is not None
        monkeypatch.delenv("MOPSLOCK_LEASE")

    assert invoke(place, "n", launch).read() == b"done"
    with pytest.raises(mopslock.BadArgument, match="MOPSLOCK_LEASE"):
        mopslock.remote(place.store, None, never)


def test_a_remote_finds_a_result_and_does_nothing(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        Directory(place.root).put("n/result", b"before")
        found = mopslock.remote(place.store, work.text, never)
        assert found is not None
        assert found.read() == b"before"
        return b""

    invoke(place, "n", launch)


def test_a_remote_that_comes_late_does_nothing(place: Place) -> None:
    texts: list[str] = []

    def launch(work: mopslock.Work) -> bytes:
        texts.append(work.text)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        invoke(place, "n", launch)
    assert mopslock.remote(place.store, texts[0], never) is None
    with mopslock.lease(place.store, "n", ttl=TTL, protocol=place.protocol):
        assert mopslock.remote(place.store, texts[0], never) is None


def test_a_remote_that_fails_leaves_the_lease_to_its_launcher(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        with pytest.raises(ValueError, match="its own"):
            mopslock.remote(place.store, work.text, fails)
        work.check()
        assert not place.released("n")
        return b"all the same"

    assert invoke(place, "n", launch).read() == b"all the same"


def test_there_is_nothing_to_keep_alive(place: Place) -> None:
    texts: list[str] = []

    def launch(work: mopslock.Work) -> bytes:
        texts.append(work.text)
        return b"x"

    invoke(place, "n", launch)
    text = json.dumps({**json.loads(texts[0]), "name": "other"})
    with pytest.raises(mopslock.CannotMaintain):
        mopslock.remote(place.store, text, never)
    result = mopslock.remote(place.store, text, lambda work: work.text.encode(), without_lease=True)
    assert result is not None
    assert result.read() == b""


def test_without_any_lease(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        work.check()
        assert (work.holder, work.text, work.fencing_token) == ("", "", 0)
        return b"done"

    result = mopslock.remote(place.store, None, launch, without_lease=True, name="n")
    assert result is not None
    assert (result.read(), result.own) == (b"done", True)
    second = mopslock.remote(place.store, None, lambda work: b"again", without_lease=True, name="n")
    assert second is not None
    assert (second.read(), second.own) == (b"done", False)
    with pytest.raises(mopslock.BadArgument, match="store and name"):
        mopslock.remote(place.store, None, launch, without_lease=True)


def test_a_text_of_another_name(place: Place) -> None:
    def launch(work: mopslock.Work) -> bytes:
        with pytest.raises(mopslock.BadArgument, match="the lease is that of 'n'"):
            mopslock.remote(place.store, work.text, never, name="m")
        return b""

    invoke(place, "n", launch)

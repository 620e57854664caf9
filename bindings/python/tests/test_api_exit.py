"""How a process ends: by itself, by an error, by Ctrl-C. Whatever it held is released, and it ends promptly."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import mopslock
from held_up import promptly
from ways import WAYS, Place, ended, opened, program, said, until

PROMPT = 5.0
"""Seconds that an end may take on a busy machine: half of what it waits for a store that hangs."""


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "store") as place:
        yield place


ENDINGS = {
    "falls off the end": ("", 0, ""),
    "sys.exit": ("sys.exit(7)", 7, ""),
    "unhandled exception": ("raise ValueError('its own')", 1, "ValueError: its own"),
    "sys.exit in a body": ("with lease: sys.exit(3)", 3, ""),
    "exit beside a thread": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", 0, ""),
    "exit after a thread": ("threading.Thread(target=time.sleep, args=(0.3,)).start()", 0, ""),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_whatever_ends_the_interpreter_releases_what_is_held(place: Place, how: str, tmp_path: Path) -> None:
    last, status, error = ENDINGS[how]
    code = f"""
store = {place.code}
leases = [mopslock.acquire(store, f"n{{i}}", ttl=30, on_lost=print) for i in range(3)]
lease = leases[0]
print("held")
{last}
"""
    with program(code) as process:
        assert said(process) == "held"
        with promptly(tmp_path, PROMPT):
            code_, out, err = ended(process)
    assert (code_, out) == (status, "")
    assert err.splitlines()[-1:] == ([error] if error else [])
    assert all(place.released(f"n{i}") for i in range(3))


def test_an_exit_after_all_threads_of_ours_have_gone_to_rest_releases(place: Place) -> None:
    """From Python 3.12 on no thread can be begun once the interpreter ends."""
    code = f"""
import mopslock._keeper
mopslock._keeper.IDLE = 0.05
lease = mopslock.acquire({place.code}, "n", ttl=30, on_lost=print)
while any(thread.name == "mopslock-store" for thread in threading.enumerate()): time.sleep(0.01)  # until they rest
print("held")
"""
    with program(code) as process:
        assert said(process) == "held"
        assert ended(process) == (0, "", "")
    assert place.released("n")


def test_an_exit_releases_through_a_host_that_never_had_a_thread_but_its_keeper(tmp_path: Path) -> None:
    place = Place.of("own", tmp_path)
    with program(f'lease = mopslock.acquire({place.code}, "n", ttl=30)\nlease.on_lost(print)') as process:
        assert ended(process) == (0, "", "")
    assert place.released("n")


def test_a_companion_left_by_an_exit_does_not_release(place: Place) -> None:
    with mopslock.acquire(place.store, "n", ttl=30) as lease:
        code = f"companion = mopslock.accompany({lease.text!r}, store={place.code})\nprint('joined')"
        with program(code) as process:
            assert said(process) == "joined"
            assert ended(process)[0] == 0
        lease.check()
        assert not place.released("n")


def test_a_store_that_hangs_holds_the_exit_up_for_its_bound_and_no_longer(tmp_path: Path) -> None:
    code = f"""
import mopslock._hosts
mopslock._hosts.AT_EXIT = 0.5
class Hanging(mopslock.stores.Directory):
    hang = False
    def put(self, key, body):
        if self.hang: time.sleep(60)  # it hangs
        super().put(key, body)
store = Hanging({str(tmp_path)!r})
lease = mopslock.acquire(store, "n", ttl=30)
store.hang = True
print("held")
"""
    with program(code) as process:
        assert said(process) == "held"
        started = time.monotonic()
        with promptly(tmp_path, PROMPT):
            status, _, err = ended(process)
        assert time.monotonic() - started > 0.4
    assert status == 0
    assert "not released in time" in err


def test_an_exit_with_a_thread_that_waits_ends_the_wait(place: Place, tmp_path: Path) -> None:
    with mopslock.acquire(place.store, "n", ttl=30) as lease:
        code = f"""
def wait():
    mopslock.acquire({place.code}, "n", ttl=30, on_waiting=lambda _: print("waiting"))
threading.Thread(target=wait, daemon=True).start()

sys.stdin.readline()
"""
        with program(code) as process:
            assert said(process) == "waiting"
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            with promptly(tmp_path, PROMPT):
                assert ended(process)[0] == 0
        lease.check()
        assert place.record("n")["writer_id"] == lease.holder


# Ctrl-C.

INTERRUPTED = -signal.SIGINT


def test_ctrl_c_ends_a_wait_for_another_holder_promptly(place: Place, tmp_path: Path) -> None:
    with mopslock.acquire(place.other().store, "n", ttl=30) as lease:
        code = f'mopslock.acquire({place.code}, "n", ttl=30, on_waiting=lambda _: print("waiting"))'
        with program(code) as process:
            assert said(process) == "waiting"
            time.sleep(0.1)  # whatever it does while it waits
            with promptly(tmp_path, PROMPT):
                process.send_signal(signal.SIGINT)
                status, out, err = ended(process)
        assert (status, out) == (INTERRUPTED, "")
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert "lost" not in err, "what was never held is not lost"
        lease.check()
        assert place.record("n")["writer_id"] == lease.holder
    lease_after = mopslock.acquire(place.store, "n", ttl=30, wait=0)
    lease_after.release()


def test_ctrl_c_in_the_middle_of_a_claim_leaves_nothing_held(place: Place) -> None:
    code = f"""
try: mopslock.acquire({place.code}, "n", ttl=30, acquire_margin=15)
except KeyboardInterrupt: print("interrupted")
sys.stdin.readline()
"""
    with program(code) as process:
        until(lambda: place.path("n").exists())  # claimed, and not verified yet
        process.send_signal(signal.SIGINT)
        assert said(process) == "interrupted"
        until(lambda: place.released("n"))  # while it lives on
        process.send_signal(signal.SIGKILL)


def test_ctrl_c_in_the_body_releases(place: Place, tmp_path: Path) -> None:
    code = f"""
with mopslock.lease({place.code}, "n", ttl=30):
    print("held")
    while True: time.sleep(0.05)  # until it is interrupted; one long sleep can miss a signal that comes as it begins
"""
    with program(code) as process:
        assert said(process) == "held"
        with promptly(tmp_path, PROMPT):
            process.send_signal(signal.SIGINT)
            status, _, err = ended(process)
    assert status == INTERRUPTED
    assert re.search(r"^KeyboardInterrupt$", err, re.MULTILINE)
    assert place.released("n")


@pytest.mark.parametrize("what", ["lost.wait()", "release(timeout=None)"])
def test_ctrl_c_ends_what_else_waits(tmp_path: Path, what: str) -> None:
    code = f"""
class Hanging(mopslock.stores.Directory):
    hang = False
    def put(self, key, body):
        if self.hang: time.sleep(60)  # it hangs
        super().put(key, body)
import mopslock._hosts
mopslock._hosts.AT_EXIT = 0.1
store = Hanging({str(tmp_path / "store")!r})
lease = mopslock.acquire(store, "n", ttl=30)
store.hang = True
try:
    print("held")
    lease.{what}
except KeyboardInterrupt: print("interrupted")
"""
    (tmp_path / "store").mkdir()
    with program(code) as process:
        assert said(process) == "held"
        time.sleep(0.2)  # until it waits
        process.send_signal(signal.SIGINT)
        with promptly(tmp_path, PROMPT):
            assert said(process) == "interrupted"
            assert ended(process)[0] == 0


def test_ctrl_c_ends_a_read_that_hangs(place: Place) -> None:
    """A named pipe blocks whoever opens it, as a dead mount does."""
    place.path("n").parent.mkdir()
    os.mkfifo(place.path("n"))
    code = f"""
try:
    print("reading")
    print(mopslock.inspect({place.code}, "n"))
except KeyboardInterrupt: print("interrupted")
except mopslock.StoreError: print("refused")
os._exit(0)
"""
    with program(code) as process:
        assert said(process) == "reading"
        time.sleep(0.3)  # until it reads
        process.send_signal(signal.SIGINT)
        assert said(process) in ("interrupted", "refused")

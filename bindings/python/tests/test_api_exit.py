"""How a process ends: by itself, by an error, by Ctrl-C. Whatever it held is released, and it ends.

No end waits for another's lease, nor for a store that hangs: the bound on waiting for a child would be over first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mopslock
from ways import LIVES, SOON, Place, ended, program

HANGING = """
import mopslock._hosts
mopslock._hosts.AT_EXIT = 0.1
class Hanging(mopslock.stores.Directory):
    hang = False
    def get(self, key):
        if self.hang: threading.Event().wait()
        return super().get(key)
"""
RESTED = "[thread.join() for thread in threading.enumerate() if thread.name == 'mopslock-store']"
ENDINGS = {
    "falls off the end": ("", 0, ""),
    "sys.exit": ("sys.exit(7)", 7, ""),
    "unhandled exception": ("raise ValueError('its own')", 1, "ValueError: its own"),
    "sys.exit in a body": ("with lease: sys.exit(3)", 3, ""),
    "exit beside a thread": ("threading.Thread(target=threading.Event().wait, daemon=True).start()", 0, ""),
    "exit after a thread": ("threading.Thread(target=lambda: threading.main_thread().join()).start()", 0, ""),
    # From Python 3.12 on no thread can be begun once the interpreter ends.
    "exit after all threads of ours have gone to rest": (RESTED, 0, ""),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_whatever_ends_the_interpreter_releases_what_is_held(place: Place, how: str) -> None:
    last, status, error = ENDINGS[how]
    code = f"""
import mopslock._own.threads, mopslock._workers
mopslock._own.threads.IDLE = mopslock._workers.IDLE = 0.05
leases = [mopslock.acquire({place.code}, f"n{{i}}", ttl=30, on_lost=print) for i in range(3)]
lease = leases[0]
{last}
"""
    with program(code) as process:
        code_, out, err = ended(process)
    assert (code_, out) == (status, "")
    assert err.splitlines()[-1:] == ([error] if error else [])
    assert all(place.released(f"n{i}") for i in range(3))


def test_an_exit_leaves_a_companions_lease_and_ends_a_thread_that_waits(place: Place) -> None:
    with mopslock.acquire(place.store, "n", ttl=LIVES) as lease:
        code = f"""
companion = mopslock.accompany({lease.text!r}, store={place.code})
waiting = threading.Event()
def wait():
    mopslock.acquire({place.code}, "n", ttl=30, on_waiting=lambda _: waiting.set())
threading.Thread(target=wait, daemon=True).start()
waiting.wait()
"""
        with program(code) as process:
            assert ended(process)[0] == 0
        lease.check()
        assert place.holder("n") == lease.holder
        assert not place.released("n")


def test_a_store_that_hangs_holds_the_exit_up_for_its_bound_and_no_longer(tmp_path: Path) -> None:
    code = f"""{HANGING}
store = Hanging({str(tmp_path)!r})
lease = mopslock.acquire(store, "n", ttl=30)
store.hang = True
"""
    with program(code) as process:
        status, _, err = ended(process)
    assert status == 0
    assert "not released in time" in err


ONCE_IT_WAITS = """
def once_it_waits(*_):
    def interrupt():
        same = last = 0
        while same < 20:  # looks at which the main thread was at the same instruction
            frame = sys._current_frames()[threading.main_thread().ident]
            at = id(frame), frame.f_lasti
            same, last = same + 1 if at == last else 0, at
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
"""


def test_programs_ignore_no_signal() -> None:
    """Not even where the tests were started by a shell that ignores signals."""
    code = """
import conftest, subprocess, sys
code = "import signal; print([s for s in (1, 2, 3, 15, 20) if signal.getsignal(s) is signal.SIG_IGN])"
sys.exit(subprocess.check_output([sys.executable, "-c", code]) != b"[]\\n")
"""
    shell = ["sh", "-c", 'trap "" HUP INT QUIT TERM TSTP; exec "$@"', "sh", sys.executable, "-c", code]
    folder = str(Path(__file__).parent)
    done = subprocess.run(shell, check=False, timeout=SOON, env={**os.environ, "PYTHONPATH": folder})
    assert done.returncode == 0


WAITS = {
    "lost": "lease.lost.wait()",
    "a release that hangs": "store.hang = True\n    lease.release(timeout=None)",
    "another holder": "mopslock.acquire({url!r}, 'n', ttl=30)",
    "a read that hangs": "store.hang = True\n    mopslock.inspect(store, 'n', timeout=3600)",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_ends_a_wait_for(what: str, url: str) -> None:
    place = Place.of("url", Path(url.removeprefix("file://")))
    code = f"""{HANGING}{ONCE_IT_WAITS}
store = Hanging({str(place.root)!r})
lease = mopslock.acquire(store, "m", ttl=30)
try:
    once_it_waits()
    {WAITS[what].format(url=url)}
except KeyboardInterrupt: print("interrupted")
os._exit(0)
"""
    with mopslock.acquire(place.other().store, "n", ttl=LIVES) as lease:
        with program(code) as process:
            status, out, err = ended(process)
        assert (status, out) == (0, "interrupted\n"), err
        assert "lost (" not in err, "what was never held is not lost"
        lease.check()
        assert place.holder("n") == lease.holder
    mopslock.acquire(place.store, "n", ttl=LIVES, wait=0).release()

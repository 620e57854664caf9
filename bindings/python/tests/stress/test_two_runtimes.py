"""Both libraries, each with a Go runtime of its own, in one process under load and with garbage."""

from __future__ import annotations

import json
from pathlib import Path

from stress.conftest import Stress
from ways import ended, program

LOAD = """
import gc, json, random, sys

root, seconds = sys.argv[1], float(sys.argv[2])
own, url = mopslock.stores.Directory(root + "/own"), "file://" + root + "/url"
terms = dict(ttl=10, fleet_expire=10)

small = [mopslock.acquire(own, f"kept/{n}", **terms) for n in range(20)]    # loads the small library
assert mopslock._library._loaded.full is None
big = [mopslock.acquire(url, f"kept/{n}", **terms) for n in range(20)]      # and now the big one
assert mopslock._library._loaded.core is not None and mopslock._library._loaded.full is not None

end, turns, wrong = time.monotonic() + seconds, [0] * 8, []

def loop(number):
    store = (own, url)[number % 2]
    try:
        while time.monotonic() < end:
            name = f"free/{number}/{random.randrange(50)}"
            with mopslock.lease(store, name, **terms) as lease:
                lease.check()
                _ = [{"garbage": [lease]} for _ in range(100)]
            assert mopslock.inspect(store, name).state == "released"
            assert mopslock.try_acquire(store, f"kept/{number}", **terms) is None
            turns[number] += 1
    except BaseException as error:
        wrong.append(repr(error))

threads = [threading.Thread(target=loop, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
collected = 0
while time.monotonic() < end:
    cycle = []; cycle.append(cycle); del cycle
    collected += gc.collect() > 0
    time.sleep(0.02)
for thread in threads: thread.join(20)
wrong += ["hangs" for thread in threads if thread.is_alive()]
for lease in small + big: lease.check()
for lease in small + big: lease.release()
mopslock.close()
print(json.dumps({"wrong": wrong, "turns": turns, "collected": collected}))
"""


def test_both_libraries_live_together(tmp_path: Path, stress: Stress) -> None:
    """Nothing crashes, hangs or is lost, whichever library made a machine."""
    seconds = stress.seconds - 1
    with program(f"import sys; sys.argv[1:] = {[str(tmp_path), str(seconds)]!r}\n{LOAD}", stop=seconds + 60) as process:
        status, out, err = ended(process, seconds + 45)
    assert status == 0, err
    seen = json.loads(out)
    turns = seen["turns"]
    stress.figures(f"{sum(turns[::2])} turns on an object, {sum(turns[1::2])} by URL, {seen['collected']} collections")
    assert seen["wrong"] == []
    assert min(turns) > 0
    assert "Traceback" not in err, err

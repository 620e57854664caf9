"""Leases on an own store beside C calls that keep the GIL, back to back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import mopslock
from mopslock import stores
from stress.conftest import Stress
from ways import SOON, program

TTL = 6.0

HOLDER = """
import ctypes, json
ttl, terms = {ttl}, {terms!r}
lease = mopslock.acquire(mopslock.stores.Directory({root!r}), "n", ttl=ttl, raise_if_lost=False, **terms)
print("held", flush=True)
call, end, least = ctypes.PyDLL(None).usleep, time.monotonic() + {seconds}, ttl
while time.monotonic() < end and not lease.lost.is_set():
    call(int(ttl / {calls} * 1e6))
    least = min(least, lease.left)
print(json.dumps(dict(lost=lease.lost.is_set(), least=least)), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("calls", [20, 12])
@pytest.mark.parametrize("protocol", ["strict", "lastwriter"])
def test_a_lease_is_kept_beside_long_c_calls(protocol: str, calls: int, tmp_path: Path, stress: Stress) -> None:
    """Each time that a thread of ours lets go of the GIL can cost one of them. A lease is kept beside twenty in a TTL.
    Beside twelve, as mops' own thread keeps its lease, a busy machine loses some: that is a figure, and so is any loss
    in a short run, which shares its machine. Nobody has the name before it is lost."""
    terms: dict[str, Any] = {"protocol": protocol} | ({"fleet_expire": "none"} if protocol == "lastwriter" else {})
    seconds = stress.seconds + 3 * TTL
    code = HOLDER.format(ttl=TTL, terms=terms, root=str(tmp_path), seconds=seconds, calls=calls)
    with program(code, stop=seconds + SOON) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        store, taken = stores.Directory(tmp_path), None
        while process.poll() is None and taken is None:
            taken = mopslock.try_acquire(store, "n", ttl=TTL, **terms)
            time.sleep(TTL / 60)
        seen = json.loads(process.stdout.read())
    stress.figures(f"{calls} calls in {TTL:g} s: {seen}")
    assert not seen["lost"] or calls == 12 or not stress.long
    assert taken is None or seen["lost"]

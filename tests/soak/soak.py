"""Keeps a process full of leases and waiters, and regularly prints a line of JSON with what it uses.

usage: soak.py ORDERS, which is JSON; see startSnake

Waiters are tasks of asyncio, on names that the same process holds. It ends when its time is over, or stdin is closed.
"""

import asyncio
import gc
import json
import os
import sys
import time

import mopslock.aio

TICK = 0.1
CALLERS = 64


class Fleet:
    def __init__(self, orders: dict) -> None:
        self.o = orders
        self.held: list[mopslock.aio.Lease | None] = [None] * orders["leases"]
        self.crowded = orders["waiters"] // orders["crowd"]
        self.turns = self.lost = 0
        self.late = 0.0
        self.tasks: set[asyncio.Task] = set()
        self.before: tuple[float, int, float] | None = None

    def acquire(self, i: int):
        return mopslock.aio.acquire(self.o["url"], f"soak/{i:05d}", protocol="strict", session=True, ttl=self.o["ttl"])

    async def take(self, i: int) -> None:
        self.held[i] = await self.acquire(i)

    async def give(self, i: int) -> bool:
        lease, self.held[i] = self.held[i], None
        return lease is not None and await self.end(lease)

    async def end(self, lease) -> bool:
        try:
            await lease.release()
        except mopslock.LeaseLost:
            self.lost += 1
            return False
        return True

    async def fill(self) -> None:
        left = iter(range(len(self.held)))

        async def caller() -> None:
            for i in left:
                await self.take(i)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def wait(self, i: int) -> None:
        """Takes turn after turn, each on the next name."""
        while not self.over.is_set():
            await self.have_turn(i)
            i = (i + 1) % self.crowded

    async def have_turn(self, i: int) -> None:
        lease = await self.acquire(i)
        self.turns += 1
        await asyncio.sleep(self.o["turn"])
        await self.end(lease)

    async def turn_over(self) -> None:
        """Gives leases back and takes them again: in turns one that has waiters and one that has none."""
        n, steady = 0, len(self.held) - 1 - self.crowded
        while not self.over.is_set():
            await asyncio.sleep(1 / self.o["churn"])
            if n % 2 == 0:
                self.start(self.again(n // 2 % self.crowded, self.o["pause"]))
            else:
                self.start(self.again(self.crowded + n // 2 % steady, 0))
            n += 1

    async def again(self, i: int, pause: float) -> None:
        if await self.give(i):
            await asyncio.sleep(pause)
            await self.take(i)

    async def watch_lateness(self) -> None:
        """A renewal is due a third of the TTL after the one before was sent: the time that is missing beyond that third
        is how late it is. The last lease is never given back."""
        ttl = self.o["ttl"]
        while not self.over.is_set():
            if self.held[-1] is not None:
                self.late = max(self.late, ttl - ttl / 10 - ttl / 3 - self.held[-1].left)
            await asyncio.sleep(TICK)

    def start(self, work) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.done)

    def done(self, task: asyncio.Task) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
            self.over.set()

    def sample(self, at: float) -> None:
        gc.collect()
        values = {"objects": len(gc.get_objects()), "late, session": self.late * 1e3}
        self.late = 0.0
        held = 0
        for i, lease in enumerate(self.held):
            if lease is not None and lease.lost:
                self.lost += 1
                self.held[i] = None
            held += lease is not None
        values |= {"held": held, "lost": self.lost} | system()
        now = (at, self.turns, time.process_time())
        if self.before is not None:
            gone = now[0] - self.before[0]
            values["turns"] = (now[1] - self.before[1]) / gone
            values["core"] = 100 * (now[2] - self.before[2]) / gone
        self.before = now
        print(json.dumps({"at": at, "values": values}), flush=True)

    async def soak(self) -> None:
        self.over, self.failure = asyncio.Event(), None
        # Nothing is ever written to stdin, so it is readable only once it was closed.
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self.over.set)
        await self.fill()
        for w in range(self.o["waiters"]):
            self.start(self.wait(w % self.crowded))
        self.start(self.turn_over())
        self.start(self.watch_lateness())
        begun = time.monotonic()
        for n in range(int(self.o["for"] / self.o["every"]) + 1):
            try:
                await asyncio.wait_for(self.over.wait(), max(0, begun + n * self.o["every"] - time.monotonic()))
                break
            except asyncio.TimeoutError:  # not TimeoutError before Python 3.11
                self.sample(time.monotonic() - begun)
        self.over.set()
        for task in set(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.to_thread(mopslock.close)
        if self.failure is not None:
            raise self.failure


def system() -> dict:
    """Returns what the system says of this process, if there is a /proc."""
    values: dict = {}
    try:
        with open("/proc/self/status") as status:
            for line in status:
                word, _, rest = line.partition(":")
                if word == "VmRSS":
                    values["rss"] = 1024 * int(rest.split()[0])
                elif word == "Threads":
                    values["threads"] = int(rest)
        values["files"] = len(os.listdir("/proc/self/fd"))
        values["watches"] = watches()
    except OSError:
        pass
    return values


def watches() -> int:
    found = 0
    for name in os.listdir("/proc/self/fdinfo"):
        try:
            with open(f"/proc/self/fdinfo/{name}") as info:
                found += info.read().count("inotify wd:")
        except OSError:  # closed meanwhile
            pass
    return found


asyncio.run(Fleet(json.loads(sys.argv[1])).soak())

"""The trace of renewals that every engine plays, for the steps that are called from Python."""

import os
import time

ROUNDS = 20


def spent() -> int:
    """Nanoseconds of processors' time that this process and its keepers have had."""
    from mopslock._own.keeper import keepers

    total = time.process_time_ns()
    for keeper in keepers():
        with open(f"/proc/{keeper.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        total += sum(map(int, fields[11:13])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return total


def read(vector: str):
    """The configs, the steps as (machine, input), and how many of them come before what is timed."""
    configs, steps, untimed = [], [], 0
    with open(vector, encoding="ascii") as lines:
        for line in lines:
            verb, number, *rest = line.split()
            if line == "# time\n":
                untimed = len(steps)
            elif verb == "new":
                configs.append(bytes.fromhex(rest[0]))
            elif verb == "step":
                steps.append((int(number), bytes.fromhex(rest[0])))
    return configs, steps, untimed


def play(step, calls, answer, length) -> None:
    capacity = len(answer)
    for handle, given, size in calls:
        if step(handle, given, size, answer, capacity, length):
            raise SystemExit("a step was refused")


def measure(vector: str, make, step, drop, answer, length) -> None:
    """Prints the median over rounds of the nanoseconds of a step; machines are made anew for each."""
    configs, steps, untimed = read(vector)
    spent = []
    for _ in range(ROUNDS):
        handles = [make(config) for config in configs]
        calls = [(handles[number - 1], given, len(given)) for number, given in steps]
        play(step, calls[:untimed], answer, length)
        begin = time.perf_counter_ns()
        play(step, calls[untimed:], answer, length)
        spent.append((time.perf_counter_ns() - begin) / len(calls[untimed:]))
        for handle in handles:
            drop(handle)
    print(median(spent))


def median(figures):
    return sorted(figures)[len(figures) // 2]

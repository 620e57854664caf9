"""Prints the nanoseconds of one step as the package makes it: a dictionary in, a state and dictionaries out.

usage: step_package.py VECTOR
"""

import sys
import time

import msgpack
from mopslock._machine import Machine

import renewals


def play(calls) -> None:
    for step, given in calls:
        step(given)


def main(vector: str) -> None:
    configs, steps, untimed = renewals.read(vector)
    configs = [msgpack.unpackb(config) for config in configs]
    steps = [(number, msgpack.unpackb(given)) for number, given in steps]
    spent = []
    for _ in range(renewals.ROUNDS):
        machines = [Machine(config) for config in configs]
        calls = [(machines[number - 1].step, given) for number, given in steps]
        play(calls[:untimed])
        begin = time.perf_counter_ns()
        play(calls[untimed:])
        spent.append((time.perf_counter_ns() - begin) / len(calls[untimed:]))
        for machine in machines:
            machine.drop()
    print(renewals.median(spent))


main(*sys.argv[1:])

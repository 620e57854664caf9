"""Prints the nanoseconds of one step through ctypes, with buffers used again.

usage: step_ctypes.py LIBRARY VECTOR
"""

import ctypes
import sys
import time

ROUNDS = 20


def play(step, calls, answer, said) -> None:
    capacity = len(answer)
    for number, given, size in calls:
        if step(number, given, size, answer, capacity, said):
            raise SystemExit("a step was refused")


def main(library: str, vector: str) -> None:
    lib = ctypes.CDLL(library)
    lib.mopslock_step.argtypes = [
        ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
    ]
    answer, length, handle = ctypes.create_string_buffer(98304), ctypes.c_size_t(), ctypes.c_uint64()
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
    said = ctypes.addressof(length)
    spent = []
    for _ in range(ROUNDS):
        handles = [0]
        for config in configs:
            status = lib.mopslock_new(
                config, ctypes.c_size_t(len(config)), ctypes.byref(handle), answer, ctypes.c_size_t(len(answer)), ctypes.byref(length)
            )
            assert status == 0, status
            handles.append(handle.value)
        calls = [(handles[number], given, len(given)) for number, given in steps]
        play(lib.mopslock_step, calls[:untimed], answer, said)
        begin = time.perf_counter_ns()
        play(lib.mopslock_step, calls[untimed:], answer, said)
        spent.append((time.perf_counter_ns() - begin) / len(calls[untimed:]))
        for number in handles[1:]:
            lib.mopslock_drop(ctypes.c_uint64(number))
    print(sorted(spent)[ROUNDS // 2])


main(*sys.argv[1:])

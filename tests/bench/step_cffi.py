"""Prints the nanoseconds of one step through cffi's API mode.

usage: step_cffi.py HEADER_DIRECTORY LIBRARY_DIRECTORY VECTOR
"""

import importlib.util
import os
import sys
import tempfile
import time

import cffi

ROUNDS = 20
DECLARED = """
int mopslock_new(const void *, size_t, uint64_t *, void *, size_t, size_t *);
int mopslock_step(uint64_t, const void *, size_t, void *, size_t, size_t *);
int mopslock_drop(uint64_t);
"""


def load(headers: str, libraries: str, directory: str):
    """Builds the extension module and imports it."""
    builder = cffi.FFI()
    builder.cdef(DECLARED)
    builder.set_source(
        "_mopslock_bench", '#include "mopslock.h"', include_dirs=[os.path.abspath(headers)], library_dirs=[libraries],
        libraries=["mopslock-core"], extra_link_args=["-Wl,-rpath," + libraries],
    )
    path = builder.compile(tmpdir=directory)
    spec = importlib.util.spec_from_file_location("_mopslock_bench", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ffi, module.lib


def play(step, calls, answer, length) -> None:
    capacity = len(answer)
    for number, given, size in calls:
        if step(number, given, size, answer, capacity, length):
            raise SystemExit("a step was refused")


def main(headers: str, libraries: str, vector: str, directory: str) -> None:
    ffi, lib = load(headers, libraries, directory)
    answer, length, handle = ffi.new("char[98304]"), ffi.new("size_t *"), ffi.new("uint64_t *")
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
    spent = []
    for _ in range(ROUNDS):
        handles = [0]
        for config in configs:
            assert lib.mopslock_new(config, len(config), handle, answer, len(answer), length) == 0
            handles.append(handle[0])
        calls = [(handles[number], given, len(given)) for number, given in steps]
        play(lib.mopslock_step, calls[:untimed], answer, length)
        begin = time.perf_counter_ns()
        play(lib.mopslock_step, calls[untimed:], answer, length)
        spent.append((time.perf_counter_ns() - begin) / len(calls[untimed:]))
        for number in handles[1:]:
            lib.mopslock_drop(number)
    print(sorted(spent)[ROUNDS // 2])


with tempfile.TemporaryDirectory() as scratch:
    main(*sys.argv[1:], scratch)

"""Prints the nanoseconds of one step through cffi's API mode.

usage: step_cffi.py HEADER_DIRECTORY LIBRARY_DIRECTORY VECTOR
"""

import importlib.util
import os
import sys
import tempfile

import cffi

import renewals

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


def main(headers: str, libraries: str, vector: str, directory: str) -> None:
    ffi, lib = load(headers, libraries, directory)
    answer, length, handle = ffi.new("char[98304]"), ffi.new("size_t *"), ffi.new("uint64_t *")

    def make(config: bytes) -> int:
        if lib.mopslock_new(config, len(config), handle, answer, len(answer), length):
            raise SystemExit("a config was refused")
        return handle[0]

    renewals.measure(vector, make, lib.mopslock_step, lib.mopslock_drop, answer, length)


with tempfile.TemporaryDirectory() as scratch:
    main(*sys.argv[1:], scratch)

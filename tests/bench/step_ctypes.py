"""Prints the nanoseconds of one step through ctypes, with buffers used again.

usage: step_ctypes.py LOADER LIBRARY VECTOR

LOADER is PyDLL, whose calls keep the GIL, or CDLL, whose calls release it.
"""

import ctypes
import sys

import renewals


def main(loader: str, library: str, vector: str) -> None:
    lib = getattr(ctypes, loader)(library)
    lib.mopslock_new.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
    ]
    lib.mopslock_step.argtypes = [
        ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
    ]
    lib.mopslock_drop.argtypes = [ctypes.c_uint64]
    answer, length, handle = ctypes.create_string_buffer(98304), ctypes.c_size_t(), ctypes.c_uint64()
    said = ctypes.addressof(length)

    def make(config: bytes) -> int:
        if lib.mopslock_new(config, len(config), ctypes.addressof(handle), answer, len(answer), said):
            raise SystemExit("a config was refused")
        return handle.value

    renewals.measure(vector, make, lib.mopslock_step, lib.mopslock_drop, answer, said)


main(*sys.argv[1:])

"""Fails if a wheel is not for what its name says that it is for: `python tags.py WHEEL…`

auditwheel judges the library's wheels for Linux: which symbols of glibc they ask for. In all others the header of the
program, or of the library, says where it runs.
"""

import json
import re
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

ELF = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
MACH = {"x86_64": 0x01000007, "arm64": 0x0100000C}
PE = {"amd64": 0x8664, "arm64": 0xAA64}


def check(wheel: Path) -> str:
    """What is wrong with a wheel, or nothing."""
    tags = wheel.name.removesuffix(".whl").split("-")[-1].split(".")
    with zipfile.ZipFile(wheel) as archive:
        (info,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        said = re.findall(r"^Tag: py3-none-(\S+)$", archive.read(info).decode(), re.MULTILINE)
        programs = [archive.read(name) for name in archive.namelist() if ".data/scripts/" in name]
        libraries = [archive.read(name) for name in archive.namelist() if "/libmopslock" in name]
    if sorted(said) != sorted(tags):
        return f"{info} says {said}"
    if programs or (libraries and "linux" not in tags[0]):
        (binary,) = programs + libraries
        return "".join(f"{tag}: what it has does not run there; " for tag in tags if not runs(tag, binary))
    if not libraries:
        return "" if tags == ["any"] else "it has nothing that is for one platform"
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["overall_tag"]
    return "" if len(tags) == 1 and newest(found) <= newest(tags[0]) else f"auditwheel says {found}"


def newest(tag: str) -> tuple[str, int, int]:
    """The machine and the glibc of a platform."""
    match = re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", tag)
    return (match[3], int(match[1]), int(match[2])) if match else (tag, 0, 0)


def runs(tag: str, program: bytes) -> bool:
    """Whether a program runs on all systems of a platform."""
    match = re.fullmatch(r"(manylinux|musllinux|macosx|win)_(?:(\d+)_(\d+)_)?(\w+)", tag)
    assert match, tag
    system, machine = match[1], match[4]
    if system == "win":
        at = word(program, 0x3C)
        return program[at : at + 4] == b"PE\0\0" and word(program, at + 4) & 0xFFFF == PE[machine]
    if system == "macosx":
        return oldest(program) <= (int(match[2]), int(match[3])) and word(program, 4) == MACH[machine]
    elf = ELFFile(BytesIO(program))
    static = all(segment["p_type"] not in ("PT_INTERP", "PT_DYNAMIC") for segment in elf.iter_segments())
    return static and bool(elf["e_machine"] == ELF[machine])


def oldest(program: bytes) -> tuple[int, int]:
    """The oldest macOS that a program runs on: its LC_BUILD_VERSION."""
    assert word(program, 0) == 0xFEEDFACF, "no Mach-O"
    at = 32
    for _ in range(word(program, 16)):
        if word(program, at) == 0x32:
            return word(program, at + 12) >> 16, word(program, at + 12) >> 8 & 0xFF
        at += word(program, at + 4)
    raise ValueError("it does not say for which macOS it is")


def word(program: bytes, at: int) -> int:
    return int.from_bytes(program[at : at + 4], "little")


wrong = [f"{wheel}: {said}" for wheel in map(Path, sys.argv[1:]) if (said := check(wheel))]
sys.exit("\n".join(wrong) or None)

"""How a keeper starts: where its command is, what is refused before the first message, and what is done without one."""

from __future__ import annotations

import errno
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from unittest import mock

import pytest

import mopslock
from mopslock import _hosts
from mopslock._own import clock, keeper
from mopslock._own.clock import System
from ways import alone

READY = r"\x92\x00\x84\xa4kind\xa5ready\xa7version\xa39.9\xa3pid\x01\xa8messages\x01"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("#!/bin/sh\nexit 3", "ended with 3"), ("#!/bin/sh\necho no such flag >&2", "no such flag"),
        ("#!/bin/sh\necho yyyy", "pip install mopslock-host=="),
        (f"#!{sys.executable}\nimport sys\nsys.stdout.buffer.write(b'{READY}')", r"host 9\.9, .* mopslock \d.*pip"),
    ],
)  # fmt: skip
def test_what_is_no_keeper_of_this_version_is_refused_before_the_first_command(
    words: str, told: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.write_text(words + "\n")
    other.chmod(0o755)
    monkeypatch.setenv(keeper.NAMED, str(other))
    with alone(), pytest.raises(mopslock.EngineFailed, match=told):
        mopslock.acquire(url, "n")


@pytest.mark.parametrize("listed", ["../home/bin/mopslock-host", "../../bin/mopslock-host"])
def test_the_command_is_found_where_its_package_lies(
    listed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip installs it for a user, and as it moves it for --target, without a change of the list."""
    monkeypatch.delenv(keeper.NAMED, raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "nowhere"))
    site, command = tmp_path / "site", tmp_path / ("home/bin" if "home" in listed else "site/bin") / "mopslock-host"
    info = site / "mopslock_host-0.1.0.dist-info"
    for folder in (info, command.parent):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: mopslock-host\nVersion: 0.1.0\n")
    (info / "RECORD").write_text(f"{listed},,\n")
    command.touch()
    monkeypatch.syspath_prepend(site)
    assert keeper.command() == command
    command.unlink()
    here = tmp_path / "mopslock-host"
    here.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert keeper.command() == here
    monkeypatch.setenv("PATH", ".")
    assert keeper.command() is None


@pytest.mark.parametrize("missing", ["there is no mopslock-host", "Resource temporarily unavailable"])
def test_without_a_keeper_a_directory_is_kept_in_this_process(
    missing: str, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For want of a command, or of a process. A cloud says what is missing."""
    if "no mopslock-host" in missing:
        monkeypatch.setattr(keeper, "command", lambda: None)
    else:
        monkeypatch.setattr(subprocess, "call", mock.Mock(side_effect=OSError(errno.EAGAIN, missing)))
    monkeypatch.setattr(_hosts._hosts, "said", False)
    with alone():
        for name in "ab":
            with mopslock.lease(url + "?create=false", name, protocol="strict") as lease:
                lease.check()
        with pytest.raises(mopslock.EngineFailed, match=f"{missing}.*pip install mopslock-host=="):
            mopslock.acquire("s3://bucket", "n")
        mopslock.close()
    assert sum("in this process" in record.message for record in caplog.records) == 1


def test_a_keeper_whose_clock_is_another_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deadlines would be instants of that, and believed for hours too long."""
    monkeypatch.setattr(System, "mono", staticmethod(lambda mono=System.mono: mono() - 3600 * 1_000_000_000))
    with alone(), pytest.raises(mopslock.EngineFailed, match="is not this program's"):
        keeper.keeper()


def test_the_clock_is_that_of_a_keeper_in_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """host/internal/clock: the one that counts the time asleep. On macOS that of time.monotonic does not."""
    for system, number in (("darwin", time.CLOCK_MONOTONIC), ("linux", getattr(time, "CLOCK_BOOTTIME", None))):
        monkeypatch.setattr(sys, "platform", system)
        assert getattr(clock._monotonic(), "args", (None,)) == (number,)

"""Ctrl-C on a `tcpx tune` that runs in a terminal: its exit status, and what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

SECONDS = 120.0
"""How long anything here may take."""
MARK = "TCPX_TEST_MARK"
COMPILER = """\
#!/bin/sh
case "$*" in *" -o "*)
  if [ -e "$SLOW" ]; then
    mktemp
    sleep 600 &
    touch "$SLOW.begun"
    wait
  fi
esac
exec gcc "$@"
"""
"""A compiler that, once it is told to, takes longer than anybody waits, in a process of its own beside a file."""


def _processes(mark: str) -> Iterator[tuple[int, str]]:
    """The processes that have this mark in their environment, with their names."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().strip()
        except OSError:  # it has just ended, or is somebody else's
            continue
        if is_marked:
            yield int(folder.name), name


def _wait(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"in {SECONDS:g} s there was no {what}"
        time.sleep(0.005)


def _left(folder: Path) -> list[str]:
    """The files in a folder, but for the empty ones that tuners of one user lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and (path.stat().st_size or "lock" not in path.name)]
    return [str(path.relative_to(folder)) for path in files]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the limits of the machine, once they are measured, and a compiler."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "cc").write_text(COMPILER)
    (folder / "cc").chmod(0o755)
    return folder


@pytest.mark.parametrize("when", ["preparing", "searching", "compiling", "comparing"])
def test_what_ctrl_c_leaves(when: str, files: SimpleNamespace, tmp_path: Path, cache: Path) -> None:
    """The signal goes to the group, as a terminal sends it: one ends the search after the candidates at hand, and a
    preparation at once; several, of somebody who does not wait, end all at once, also a compiler."""
    scratch, mark, slow = tmp_path / "scratch", f"{os.getpid()}-{when}", tmp_path / "slow"
    scratch.mkdir()
    words = ["tune", files.payload, "-s", files.schedule, "--size", "N=64", "--target", "generic", "--plain"]
    words += ["--storage", str(tmp_path / "tune.db"), "--quick", "--sampler", "grid", "--trials", "3"]
    told = {MARK: mark, "TMPDIR": str(scratch), "TCPX_CACHE_DIR": str(cache), "CC": f"{cache}/cc", "SLOW": str(slow)}
    environment = {**os.environ, **told}
    said = tmp_path / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tcpx.cli", *words], stdout=out, stderr=out, env=environment, start_new_session=True
        )
    try:
        first = {"preparing": "ledger: ", "comparing": "set 1 of "}.get(when, "#0 ")
        _wait(f"line with {first}", lambda: first in said.read_text() or process.poll() is not None)
        if when == "compiling":
            slow.touch()
            _wait("compiler", Path(f"{slow}.begun").exists)
        os.killpg(process.pid, signal.SIGINT)
        while when == "compiling" and process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        status = process.wait(SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    text = said.read_text()
    assert (status, "Traceback" in text) == (130, False), text
    assert "to go on:\n  tcpx tune " in text or when == "compiling"  # one more may come before that is printed
    _wait("end of its processes", lambda: not list(_processes(mark)))
    assert _left(scratch) == []

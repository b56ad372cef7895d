"""What users of other systems suffer: each folder shows, as a transcript of shell commands, that tcpx does not have it.

A line `$ COMMAND` of `transcript.txt` is run by sh in a copy of the folder; what follows is what it printed, both
streams in order, and `[exit status N]` where that is not 0. Lines that begin with `#` are remarks. `--update-golden`
writes what is printed. Commands see the repository as $REPO, and print it so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parents[1]
TRANSCRIPT = "transcript.txt"
OTHERS = {10: "the tuner's"}
"""Sufferings of the design that have no folder, and why."""
FOLDERS = sorted(path.parent for path in FOLDER.glob("*/README.md"))

VOLATILE = (
    # The work of a step and the time it took are measurements.
    (re.compile(r"\b[\d.]+ (?:s|ms|us), \d+ operations?"), "<time>"),
    (re.compile(r"\b\d+\.\d+ s\b"), "<time>"),
    (re.compile(r"\b\d+ us\b"), "<time>"),
    (re.compile(r"\b[\d.]+ ms\b"), "<time>"),
    (re.compile(r"^[a-z ]+: \d+ s so far\n", re.MULTILINE), ""),  # on a busy machine
    # What a change would gain is modelled for the machine at hand, where no target is named.
    (re.compile(r"\b\d+\.\d+ times as fast"), "<factor> times as fast"),
    (re.compile(r"\b\d+% of the time of its instructions"), "<share> of the time of its instructions"),
)


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What the command prints, with its exit status."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    text = done.stdout.replace(f"{folder}/", "").replace(str(REPOSITORY), "$REPO")
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    if text and not text.endswith("\n"):
        text += "\n"
    return text + (f"[exit status {done.returncode}]\n" if done.returncode else "")


def replay(transcript: str, folder: Path, environment: dict[str, str]) -> str:
    """The transcript with what its commands print now."""
    lines: list[str] = []
    for line in transcript.splitlines():
        if line.startswith("# "):
            lines.append(f"\n{line}\n" if lines else f"{line}\n")
        if line.startswith("$ "):
            if lines and not lines[-1].lstrip().startswith("# "):
                lines.append("\n")
            printed = run(line[2:], folder, environment)
            assert not re.search(r"^[#$] ", printed, re.MULTILINE), f"`{line}` prints what reads as a remark or command"
            lines += [f"{line}\n", printed]
    return "".join(lines)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`tcpx` is that of this interpreter; nothing of a terminal."""
    programs = tmp_path / "bin"
    programs.mkdir()
    tcpx = programs / "tcpx"
    tcpx.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tcpx.cli "$@"\n', encoding="utf-8")
    tcpx.chmod(0o755)
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "120",
        "REPO": str(REPOSITORY),
        "LC_ALL": "C",
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_transcript(folder: Path, tmp_path: Path, environment: dict[str, str], update_golden: bool) -> None:
    path, scratch = folder / TRANSCRIPT, tmp_path / "folder"
    shutil.copytree(folder, scratch)
    kept = path.read_text(encoding="utf-8")
    found = replay(kept, scratch, environment)
    assert "tcpx " in found
    assert "internal error" not in found
    assert "Traceback" not in found
    if update_golden:
        path.write_text(found, encoding="utf-8")
        return
    assert found == kept, "read the difference; if it is meant, run pytest --update-golden tests/sufferings"


def test_every_suffering_has_a_folder() -> None:
    numbers = [int(folder.name[:2]) for folder in FOLDERS]
    assert numbers == [k for k in range(1, 15) if k not in OTHERS]

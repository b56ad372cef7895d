"""Rows that are checked in a process of their own: a row that is wrong may touch what it must not, or never end.

    python -m tcpx.verification.vector_rows.process JOB

JOB is a pickle of this user's own: the path of the library, its rows, tolerances, the names of the rows to check.
Prints a line of JSON for each of these: its name, and what is wrong.
"""

import json
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.target import InstructionRow
from tcpx.verification.vector_rows.checks import wrong_row
from tcpx.verification.vector_rows.library import RowLibrary

SECONDS: Final = 300.0
"""How long all rows together may take; they take about a millisecond each."""


def wrong_rows(path: Path, rows: Sequence[InstructionRow], tolerances: dict[str, int]) -> dict[str, str]:
    """What the rows of a library do that they should not, by their names. Raises CompileError where the library cannot
    be loaded."""
    found: dict[str, str] = {}
    left = [row.name for row in rows]
    with tempfile.TemporaryDirectory(prefix="tcpx-rows-") as folder:
        job = Path(folder, "job")
        job.touch(mode=0o600)
        while left:
            job.write_bytes(pickle.dumps((str(path), tuple(rows), tolerances, left)))
            said, end = _run(job)
            found |= {name: wrong for name, wrong in said if wrong}
            if len(said) < len(left):
                found[left[len(said)]] = end
            left = left[len(said) + 1 :]
    return found


def _run(job: Path) -> tuple[list[tuple[str, str]], str]:
    """What a process said of the rows that it was through with, and how it ended in the next."""
    command = [sys.executable, "-m", __name__, str(job)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        return _said(error.stdout or b""), f"no end within {SECONDS:g} s"
    if done.returncode > 0:
        raise CompileError(
            Diagnostic(
                "the compiled rows cannot be run",
                required="a shared library that this process can load",
                found=done.stderr.decode(errors="replace")[-400:].strip(),
            )
        )
    name = signal.Signals(-done.returncode).name if done.returncode else ""
    return _said(done.stdout), f"the end of the process by {name}: it touches memory that it should not"


def _said(lines: bytes) -> list[tuple[str, str]]:
    return [cast("tuple[str, str]", tuple(json.loads(line))) for line in lines.splitlines()]


def main(path: str) -> None:
    """Check the rows of a job."""
    held: object = pickle.loads(Path(path).read_bytes())
    library, rows, tolerances, left = cast("tuple[str, tuple[InstructionRow, ...], dict[str, int], list[str]]", held)
    built = RowLibrary(Path(library), rows, tolerances)
    for row in rows:
        if row.name in left:
            sys.stdout.write(json.dumps([row.name, wrong_row(built, row) or ""]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])

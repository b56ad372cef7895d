"""`make mutants`: plant each fault of the catalogue in a copy of the repository; the tests must fail there.

    python -m tests.mutants.run [--workers N] [NAME-PART ..]

First the tests are run without a fault: one that fails then shows nothing. Exit status 1 if a fault survives.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, ROOT, Mutant

TIMEOUT = 600
"""Seconds for one file of tests: several times what the slowest takes on a machine that does nothing else."""
NOTICED = (1, 2)
"""Exit statuses of pytest: a test failed, or could not be collected."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault: the test that noticed it, or None; None too where the tests did not end."""

    name: str
    killer: str | None
    seconds: float
    is_undecided: bool = False

    @property
    def verdict(self) -> str:
        """For a person."""
        if self.killer is not None:
            return f"noticed by {self.killer}"
        return "UNDECIDED, its tests did not run to an end" if self.is_undecided else "SURVIVES"


def copy_sources(folder: Path) -> None:
    """What git tracks, or would track, as it is on disk now, into an empty folder."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def run_tests(folder: Path, tests: tuple[str, ...], stop: bool, workers: int = 0) -> tuple[int | None, str]:
    """The exit status of pytest, None if it took too long, and what it printed. The package is that of `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "--tb=line", "-m", "not slow", "-n", str(workers), *(["-x"] if stop else [])]
    command = [sys.executable, "-m", "pytest", *options]
    try:
        done = subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT if stop else None,
        )
    except subprocess.TimeoutExpired:
        return None, f"no end after {TIMEOUT} s"
    return done.returncode, done.stdout + done.stderr


def run_mutant(mutant: Mutant, original: Path) -> Outcome:
    """Plant one fault in a copy of `original` and look for the first test that fails."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tcpx-mutant-") as scratch:
        folder = Path(scratch, "copy")
        shutil.copytree(original, folder)
        (folder / "tcpx" / mutant.file).write_text(mutant.mutated(folder), encoding="utf-8")
        killer, status = None, 0
        for test in mutant.tests:
            status, output = run_tests(folder, (test,), stop=True)
            if status in NOTICED:
                found = FAILED.search(output)
                killer = found[1] if found else f"tests/{test}"
            if status != 0:
                break
    return Outcome(mutant.name, killer, time.monotonic() - started, status not in (0, *NOTICED))


def baseline(mutants: list[Mutant], original: Path, workers: int) -> str | None:
    """None if all tests pass without a fault; else what they print. Also checks that the copy is what runs."""
    tests = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    where = subprocess.run(
        [sys.executable, "-c", "import tcpx; print(tcpx.__file__)"],
        cwd=original,
        env={**os.environ, "PYTHONPATH": str(original)},
        capture_output=True,
        text=True,
        check=True,
    )
    if not where.stdout.startswith(str(original)):
        return f"the tests would run {where.stdout.strip()}, not the copy in {original}"
    with tempfile.TemporaryDirectory(prefix="tcpx-mutant-") as scratch:
        folder = Path(scratch, "copy")
        shutil.copytree(original, folder)
        status, output = run_tests(folder, tests, stop=False, workers=workers)
    return None if status == 0 else output


def main() -> int:
    """Run the faults whose name contains one of the words, or all."""
    parser = argparse.ArgumentParser(description="plant faults; the tests must notice them")
    parser.add_argument("words", nargs="*", help="only faults with one of these in their name")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a fault first")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
    say = sys.stdout.write
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="tcpx-mutants-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        original = Path(scratch)  # of one moment, though the sources may be worked on
        copy_sources(original)
        broken = None if options.no_baseline else baseline(chosen, original, options.workers)
        if broken is not None:
            say(f"{broken}\nthe tests fail without a fault: what they say of faults would count for nothing\n")
            return 1
        for outcome in pool.map(lambda mutant: run_mutant(mutant, original), chosen):
            outcomes.append(outcome)
            say(f"{outcome.seconds:6.1f} s  {outcome.name}: {outcome.verdict}\n")
            sys.stdout.flush()
    survivors = [o.name for o in outcomes if o.killer is None]
    say(f"{len(outcomes) - len(survivors)} of {len(outcomes)} faults noticed\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

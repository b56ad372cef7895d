"""Batches of cases, each in a process of its own: crashes and hangs become failures, and the rest goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import tcpx
from tcpx.processor import missing_flags
from tests.independent.known import expected

ROOT = Path(__file__).parents[2]
TARGETS = ["generic", "x86_avx2", "x86_avx512"]
CONFIGURATIONS = [(target, threads) for target in TARGETS for threads in (1, 2)]
CASES_PER_BATCH = 17
SECONDS_PER_BATCH = 280


def runs_here(target: str) -> bool:
    """Whether this CPU runs kernels of a target."""
    return not missing_flags(tcpx.load_target(target).cpu_flags)


@dataclass
class Outcome:
    """What a batch did: counts, failures that are not expected, and expected ones by the name of their finding."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    expected: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, message: str, details: str, reproducer: str) -> None:
        finding = expected(kind, message, reproducer)
        if finding is None:
            self.failures.append(f"{kind}: {message}\n{details}\n{reproducer}")
        else:
            self.expected[finding] += 1


def run_batch(seeds: list[str], target: str, threads: int, folder: Path) -> Outcome:
    """Run these cases. What ends the process is a failure of the case that it was at."""
    outcome, options = Outcome(), list[str]()
    for attempt in range(len(seeds) + 2):
        log = folder / f"{attempt}.jsonl"
        command = [sys.executable, "-m", "tests.independent.runner", "--target", target, "--threads", str(threads)]
        for seed in seeds:
            command += ["--case", seed]
        try:
            process = subprocess.run(
                [*command, "--log", str(log), *options],
                cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_PER_BATCH, check=False,
            )  # fmt: skip
            code, said = process.returncode, process.stderr
        except subprocess.TimeoutExpired:
            code, said = -1, "the batch took too long"
        last, done = _read(log, outcome)
        if code == 0:
            return outcome
        if last["begin"] == "all":
            options = ["--separate"]
        else:
            outcome.add(
                f"ended with {code}", str(last["stage"]), said[-4000:], str(last.get("reproducer", last["begin"]))
            )
            done.add(str(last["begin"]))
        seeds = [seed for seed in seeds if seed not in done]
        if not seeds:
            return outcome
    raise AssertionError("every attempt ends at least one case")


def _read(log: Path, outcome: Outcome) -> tuple[dict[str, object], set[str]]:
    """The last thing that a process began, and the cases that it ended."""
    last: dict[str, object] = {"begin": "all", "stage": "start"}
    done = set[str]()
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        entry = json.loads(line)
        if "begin" in entry:
            last = entry
            continue
        done.add(entry["end"])
        outcome.counts.update(entry["counts"])
        outcome.counts["cases"] += 1
        for failure in entry["failures"]:
            outcome.add(failure["kind"], failure["message"], failure["details"], entry["reproducer"])
    return last, done

"""Programs and schedules written from the documentation alone, against a reference of their own.

Every commit draws new cases, and the same ones wherever it is tested; every run of `make conformance` does. The seed is
printed, and `TCPX_INDEPENDENT_SEED` draws the same again. What failed is shown with the program, the schedule, the
sizes and the command that runs this case alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

import tcpx
from tests.independent.batches import CASES_PER_BATCH, CONFIGURATIONS, Outcome, run_batch, runs_here
from tests.optional_tools import require_cpu_of

BATCHES = 12
BATCHES_OF_CONFORMANCE = 240
WITH_A_TABLE = ("lower_to",)
"""What only does something with a target of one's own."""
COMMON = ["tile", "fuse", "vectorize", "pack", "split_reduction", "peel", "bufferize"]
"""Transforms that 200 cases reach with room to spare; those of `make conformance` reach all."""
RARE = {"loop", "sigmoid", "silu", "reduce_max", "pad", "fma", "round", "div"}
"""Operations that 200 cases may miss once in many thousand runs; those of `make conformance` do not."""
VECTORIZED = 0.25
"""What part of the products becomes vectors where no schedule is given, at least: of 14 it was 11."""
PAYLOAD_OPS = [
    "add", "sub", "mul", "div", "max", "min", "fma", "less", "select", "exp", "round", "scale2", "gelu", "silu",
    "sigmoid", "cast", "broadcast", "transpose", "pad", "reshape", "materialize", "fill", "const", "reduce_sum",
    "reduce_max", "softmax", "layer_norm", "contract", "matmul", "generic", "convolution", "loop",
]  # fmt: skip


def commit() -> str:
    """The commit that is tested; empty outside of a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return done.stdout.strip() if done is not None else ""


def session_seed(of_commit: str = "") -> str:
    """One seed for all workers of a session: that of a commit, or another for each session."""
    given = os.environ.get("TCPX_INDEPENDENT_SEED") or of_commit or os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if given is None:
        given = os.environ["TCPX_INDEPENDENT_SEED"] = str(time.time_ns())
    return given


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder of all workers."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / f"independent-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def check(outcome: Outcome, seed: str) -> None:
    shown = "\n".join("-" * 80 + "\n" + text for text in outcome.failures[:5])
    assert not outcome.failures, (
        f"{len(outcome.failures)} failure(s) with TCPX_INDEPENDENT_SEED={seed}; the first five:\n{shown}"
    )
    counts = outcome.counts
    assert counts["cases"] == CASES_PER_BATCH, f"required {CASES_PER_BATCH} cases, found {counts['cases']}"
    assert counts["compiled"] >= 0.8 * counts["cases"], (
        f"{counts['compiled']} of {counts['cases']} kernels were compiled"
    )
    assert counts["calls"] >= counts["compiled"]


def check_floors(total: Counter[str], batches: int) -> None:
    """What all batches together exercised, in parts of what 200 cases do at least."""
    part = batches / BATCHES
    schedules = total["schedules"]
    missed = [op for op in PAYLOAD_OPS if not total[f"op {op}"] and (op not in RARE or batches != BATCHES)]
    assert not missed, f"in no program: {missed}"
    assert schedules >= 0.6 * total["cases"]
    assert total["with fuse"] >= 0.4 * schedules, f"{total['with fuse']} of {schedules} schedules hold a fuse"
    assert total["with vectorize"] >= 0.2 * schedules, f"{total['with vectorize']} of {schedules} hold a vectorize"
    assert total["with parallel"] >= 0.1 * schedules, f"{total['with parallel']} of {schedules} are parallel"
    assert total["symbolic calls"] >= 100 * part
    assert total["empty calls"] >= 30 * part
    assert total["evaluated"] >= 100 * part
    products = total["products by default"]
    in_vectors = total["products in vectors by default"]
    assert in_vectors >= VECTORIZED * products, f"{in_vectors} of {products} products become vectors"
    assert total["unknown elements"] <= 0.25 * total["elements"], "too many bounds are infinite"
    wanted = COMMON if batches == BATCHES else [name for name in tcpx.transforms() if name not in WITH_A_TABLE]
    missed = [name for name in wanted if not total[f"step {name}"]]
    assert not missed, f"never applied: {missed}"
    assert total["step specialize when"] or batches == BATCHES


def run(factory: pytest.TempPathFactory, batch: int, batches: int) -> None:
    seed = session_seed(commit() if batches == BATCHES else "")
    target, threads = CONFIGURATIONS[batch % len(CONFIGURATIONS)]
    require_cpu_of(tcpx.load_target(target))
    folder = shared_folder(factory, f"{batches}-{batch}")
    outcome = run_batch([f"{seed}/{batch}/{k}" for k in range(CASES_PER_BATCH)], target, threads, folder)
    print(f"TCPX_INDEPENDENT_SEED={seed} {target} {threads} {outcome.expected}")  # noqa: T201
    totals = shared_folder(factory, f"{batches}-totals")
    (totals / f"{batch}.part").write_text(json.dumps(outcome.counts), encoding="utf-8")
    (totals / f"{batch}.part").rename(totals / f"{batch}.json")
    check(outcome, seed)
    ended = list(totals.glob("*.json"))
    if len(ended) == sum(runs_here(CONFIGURATIONS[k % len(CONFIGURATIONS)][0]) for k in range(batches)):
        total = Counter[str]()
        for path in ended:
            total.update(json.loads(path.read_text(encoding="utf-8")))
        check_floors(total, len(ended))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_drawn_cases(tmp_path_factory: pytest.TempPathFactory, batch: int) -> None:
    run(tmp_path_factory, batch, BATCHES)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES_OF_CONFORMANCE))
def test_drawn_cases_of_conformance(tmp_path_factory: pytest.TempPathFactory, batch: int) -> None:
    run(tmp_path_factory, batch, BATCHES_OF_CONFORMANCE)

"""The default schedule refuses no contraction, and makes vectors of as many as it did; drawn at random, some compiled.

The floors are what the schedule reached on the same seeds when it still refused some.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import pytest

import tcpx
from tcpx.api import lowered
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tcpx.interp import Run
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Module
from tcpx.target import Target, load_target
from tests.guard_pages import run_guarded
from tests.nets.contractions import Drawn, drawn
from tests.nets.oracle import Array, arguments, expectation
from tests.nets.test_nets import conformance_seed

TARGETS = ("generic", "x86_avx2", "x86_avx512")
CASES = 40
"""Of each target."""
COMPILED = 6
"""Kernels of each target that are called."""
MOST_POINTS = 200_000
"""Of the iteration space of a payload whose numbers are compared."""
REFUSED = (("generic", 2171275618), ("x86_avx512", 2171275618))
"""Seeds of which something was left as it is: sums of an empty dim of length 2 behind it."""
VECTORIZED = {"generic": 22 / CASES, "x86_avx2": 22 / CASES, "x86_avx512": 19 / CASES}
"""What part of the contractions becomes vectors, on the seeds of `make test`: as many as when some were refused."""
VECTORIZED_ON_NEW_SEEDS = 0.42
"""The same of 400 that are drawn anew: three standard deviations less."""
TRAITS = (
    "symbolic",
    "diagonal",
    "generic",
    "empty",
    "pad before",
    "elementwise before",
    "cast before",
    "transpose before",
    "constant before",
    "fill before",
    "init argument",
    "init fill",
    "init elementwise",
    "combiner tcp.max",
    "combiner tcp.min",
    "combiner tcp.mul",
    "bias behind",
    "chain behind",
    "cast behind",
    "two behind",
    "sum behind",
)
"""What is drawn at least once of each; of `empty` there are few."""


@dataclass(slots=True)
class Counted:
    """What a number of cases exercised."""

    cases: int = 0
    vectorized: int = 0
    compared: int = 0
    traits: Counter[str] = field(default_factory=Counter[str])
    remarks: list[Diagnostic] = field(default_factory=list[Diagnostic])


def is_vectorized(run: Run) -> bool:
    """Whether a step made vectors of a copy of the contraction, which is called `r`."""
    names = (
        change.split(" = ")[0].lstrip("%")
        for entry in run.trace.entries
        if entry.transform == "vectorize"
        for change in entry.changed
    )
    return any(name.split("~")[0].split(".")[0] == "r" for name in names)


def compiled(case: Drawn, target: Target, counted: Counted) -> tuple[Module, Run]:
    """The payload of a case, and what the default schedule makes of it, lowered. Nothing is refused."""
    module = tcpx.parse(case.text)
    try:
        run = lowered(tcpx.CompileRequest(module), target, case.threads)
    except tcpx.TcpxError as error:
        message = f"seed {case.seed}, {target.name}, {case.threads} thread(s): {error}\n\n{case.text}"
        raise AssertionError(message) from error
    for remark in run.remarks:
        if remark.message.endswith(" is computed lane by lane"):
            continue
        assert remark.message.startswith("%r"), remark
        assert remark.payload is not None, remark
        assert remark.schedule is not None, f"seed {case.seed}: {remark}\n\n{case.text}"
        assert "definite error" not in remark.message, f"seed {case.seed}: {remark}\n\n{case.text}"
    counted.cases += 1
    counted.traits.update(case.traits)
    counted.remarks += run.remarks
    counted.vectorized += is_vectorized(run)
    return module, run


def sizes_for(module: Module, seed: int) -> list[dict[str, int]]:
    """Small values of the symbols, and values beyond a tile; as far as the evaluator gets with them."""
    draw, made = random.Random(seed), []
    for choices in ((0, 1, 2, 3, 4, 16), (5, 7, 12, 13, 16, 33), (17, 19, 32, 40, 48)):
        sizes = {}
        for s in module.main.symbols:
            upper = max(choices) if s.upper is None else s.upper
            allowed = [n for n in choices if s.lower <= n <= upper and n % s.multiple_of == 0]
            sizes[s.name] = draw.choice(allowed or [max(s.lower, s.multiple_of)])
        evaluation = Evaluation(module.constants, sizes)
        domains = [op.domain() for op in module.main.body.ops if isinstance(op, Tileable)]
        if all(prod(evaluation.size(d) for d in domain) <= MOST_POINTS for domain in domains):
            made.append(sizes)
    return made


def check_numbers(kernel: Kernel, module: Module, case: Drawn) -> int:
    """Call a kernel at several sizes; how many had a result to compare with."""
    compared = 0
    for k, sizes in enumerate(sizes_for(module, case.seed)):
        given = arguments(module, sizes, "whole" if k else "real", case.seed)
        wanted = expectation(module, given, sizes)
        if wanted is None:
            continue
        compared += 1
        for array, expected in zip(_called(kernel, given, case.threads), wanted, strict=True):
            difference = expected.difference(np.asarray(array))
            shown = f"seed {case.seed}, {case.target}, {case.threads} thread(s), {sizes}: {difference}\n\n{case.text}"
            assert difference is None, shown
    return compared


def _called(kernel: Kernel, given: Sequence[Array], threads: int) -> Iterable[Array]:
    if threads == 1:
        return run_guarded(kernel, *given)
    results = kernel(*given)
    return results if isinstance(results, tuple) else (results,)


def run_cases(seeds: Iterable[int], target: Target, compiled_cases: int) -> Counted:
    """Draw cases and compile them, some down to a kernel that is called."""
    counted = Counted()
    called: dict[int, list[tuple[Drawn, Module, Run]]] = {1: [], 2: []}
    for seed in seeds:
        case = drawn(seed, target.name)
        module, run = compiled(case, target, counted)
        if len(called[case.threads]) < compiled_cases // 2:
            called[case.threads].append((case, module, run))
    for threads, cases in called.items():
        requests = [KernelRequest(run.module, f"case{case.seed}") for case, _, run in cases]
        for kernel, (case, module, _) in zip(build_many(requests, target, threads), cases, strict=True):
            counted.compared += check_numbers(kernel, module, case)
    return counted


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", TARGETS)
def test_no_contraction_is_refused(name: str) -> None:
    position = TARGETS.index(name)
    counted = run_cases(range(position, len(TARGETS) * CASES, len(TARGETS)), load_target(name), COMPILED)
    assert counted.cases == CASES
    assert counted.vectorized >= VECTORIZED[name] * CASES, f"{counted.vectorized} of {CASES} became vectors"
    assert counted.compared >= COMPILED, f"{counted.compared} results were compared"


@pytest.mark.parametrize(("name", "seed"), REFUSED)
def test_what_was_refused(name: str, seed: int) -> None:
    counted = run_cases([seed], load_target(name), 2)
    assert counted.compared > 0
    assert not counted.remarks


def test_what_is_drawn() -> None:
    counts = Counter(t for seed in range(len(TARGETS) * CASES) for t in drawn(seed, "generic").traits)
    missing = [trait for trait in TRAITS if not counts[trait]]
    assert not missing, f"never drawn: {missing}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_no_contraction_of_new_seeds_is_refused(name: str) -> None:
    start = conformance_seed()
    print(f"TCPX_NETS_SEED={start}")  # noqa: T201 - shown with a failure
    counted = run_cases(range(start, start + 400), load_target(name), 60)
    assert counted.vectorized >= VECTORIZED_ON_NEW_SEEDS * 400, f"{counted.vectorized} of 400 became vectors"
    assert counted.compared >= 60, f"{counted.compared} results were compared"

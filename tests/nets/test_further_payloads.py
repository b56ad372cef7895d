"""The same checks of payloads that no draw of one operation after the other gives: loops on overlapping subsets, reads
behind writes and branches, as people write them; reads behind yields of one iteration; operations that a user declared,
between a producer and a consumer.

All numbers are whole, so that results are exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tests.nets.cases import Case, exact_trials, scheduled
from tests.nets.compiled import Lowered, check_compiled, lowered
from tests.nets.counts import Counts
from tests.nets.declarations import declared
from tests.nets.loops import RandomProgram
from tests.nets.rereads import RereadProgram
from tests.nets.rows import target_with_rows
from tests.nets.test_nets import TARGETS, conformance_seed
from tests.transform.payloads import arguments

pytestmark = pytest.mark.optimized

LOOPS, DECLARED, REREADS = 10, 12, 8
"""Cases of each target."""
COMPILED = 6
EXTENTS = (0, 1, 2, 5, 17)
SIZES = (
    {"I": 7, "J": 5, "L": 3, "R": 6, "T": 4, "S": 9, "V": 5},
    {"I": 1, "J": 2, "L": 1, "R": 1, "T": 2, "S": 1, "V": 1},
    {"I": 0, "J": 3, "L": 2, "R": 5, "T": 1, "S": 2, "V": 3},
    {"I": 3, "J": 17, "L": 1, "R": 0, "T": 3, "S": 0, "V": 2},
)
"""Of the symbols of declared operations."""
OF_DECLARED = ("tile", "fuse", "vectorize", "pad", "generalize", "bufferize")
"""What has to succeed in payloads of declared operations."""
RARE, MANY = ("peel",), 50
"""What has to succeed, too, in so many of them: once in some 15."""


def loops(seed: int) -> Case | None:
    """A program of loops, brought to buffers; None where the program itself has a race: it has no meaning."""
    module = RandomProgram(seed).make()
    case = Case(seed, module.text(), module.constants)
    has_symbol = bool(module.main.symbols)
    calls = [({"N": n} if has_symbol else {}, arguments(module, {"N": n}, seed)) for n in EXTENTS]
    try:
        case.trials = exact_trials(module, calls)
    except VerifyError as error:
        if "a race in a parallel loop" not in str(error):
            raise
        return None
    return case


def of_declared(seed: int) -> Case:
    """A function of the operation of this number."""
    drawn = declared(seed).drawn
    module: Module = parse(drawn.payload())
    calls: list[tuple[dict[str, int], list[Array]]] = []
    for sizes in SIZES:
        own = {name: sizes[name] for name in drawn.symbols}
        if own not in [known for known, _ in calls]:
            calls.append((own, drawn.arguments(own)))
    case = Case(seed, module.text(), module.constants)
    case.trials = exact_trials(module, calls)
    return case


def rereads(seed: int) -> Case:
    """A program of loops that read again what they have yielded."""
    module = RereadProgram(seed).make()
    case = Case(seed, module.text(), module.constants)
    known = {symbol.name for symbol in module.main.symbols}
    calls: list[tuple[dict[str, int], list[Array]]] = []
    for sizes in ({"N": 3, "K": 2}, {"N": 1, "K": 3}, {"N": 4, "K": 0}):
        own = {name: size for name, size in sizes.items() if name in known}
        given = arguments(module, own, seed)
        given[2:] = [np.asarray(sizes["K"]) for _ in given[2:]]
        calls.append((own, given))
    case.trials = exact_trials(module, calls if known else calls[:1])
    return case


def run(made: Callable[[int], Case | None], seeds: range, target: str, lowers: bool) -> Counts:
    """Cases of these seeds, of which some are compiled and called."""
    machine, counts, compilable = target_with_rows(target), Counts(), list[Lowered]()
    for seed in seeds:
        case = made(seed)
        if case is None:
            continue
        scheduled(case, counts, machine, lowers)
        done = lowered(case, machine) if len(compilable) < COMPILED else None
        compilable += [] if done is None else [done]
    counts.broken_by_compiler = check_compiled(compilable, machine)
    counts.compiled = len(compilable)
    return counts


def seeds_of(group: int, count: int, start: int = 0) -> range:
    return range(start + group * count, start + (group + 1) * count)


def check_loops(counts: Counts, cases: int) -> None:
    assert counts.cases >= 0.8 * cases, f"{counts.cases} of {cases} programs have a meaning"
    assert counts.by_transform["bufferize"] >= 0.9 * counts.cases, counts.by_transform
    assert counts.by_transform["plan_memory"] >= 0.9 * counts.cases, counts.by_transform
    assert counts.compiled == COMPILED


def check_declared(counts: Counts, cases: int) -> None:
    assert counts.cases == cases
    assert counts.succeeded >= 3 * cases, f"{counts.succeeded} statements succeed"
    wanted = (*OF_DECLARED, *(RARE if cases >= MANY else ()))
    never = [name for name in wanted if not counts.by_transform[name]]
    assert not never, f"transforms that never succeed: {never}"
    assert counts.compiled == COMPILED


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("target", TARGETS)
def test_loops(target: str) -> None:
    check_loops(run(loops, seeds_of(TARGETS.index(target), LOOPS), target, lowers=True), LOOPS)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("target", TARGETS)
def test_declared_operations(target: str) -> None:
    check_declared(run(of_declared, seeds_of(TARGETS.index(target), DECLARED), target, lowers=False), DECLARED)


def test_reads_behind_yields() -> None:
    """Cases of one target: they ask what steps move, not what machines do."""
    counts, machine = Counts(), target_with_rows(TARGETS[0])
    for seed in seeds_of(0, REREADS):
        scheduled(rereads(seed), counts, machine)
    assert counts.cases == REREADS
    assert counts.succeeded >= 3 * REREADS, f"{counts.succeeded} statements succeed"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", range(30))
def test_on_new_seeds(group: int) -> None:
    start, target = conformance_seed(), TARGETS[group % len(TARGETS)]
    print(f"TCPX_NETS_SEED={start}")  # noqa: T201 - shown with a failure
    check_loops(run(loops, seeds_of(group, 100, start), target, lowers=True), 100)
    check_declared(run(of_declared, seeds_of(group, 50, start), target, lowers=False), 50)
    run(rereads, seeds_of(group, 100, start), target, lowers=False)

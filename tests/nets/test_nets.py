"""At least 2,000 random payloads with random schedules: right after every step, or a located diagnostic; never a crash.

The cases are drawn in groups. A group draws what it exercised least before, and has to show that it exercised all: the
floors are asserted group by group, so that they hold for all groups together.
"""

from __future__ import annotations

import os

import pytest

from tcpx.target import Target
from tests.nets.cases import BrokenError, Case, new_case
from tests.nets.compiled import Lowered, check_compiled, lowered
from tests.nets.counts import KEY, RANGES, SPECIALIZE_WHEN, Counts
from tests.nets.rows import target_with_rows
from tests.nets.schedules import built_in

pytestmark = pytest.mark.optimized  # as for users: C that is wrong may be found only so

GROUPS = 10
CASES = 200
COMPILED = 30
TARGETS = ("generic", "x86_avx2", "x86_avx512")
EACH_TRANSFORM = 25
EACH_PAIR = 10
SHARE_OF_ONE_MESSAGE = 0.1
EACH_RANGE = 25
SHARE_OF_UNPROVEN = 0.01
"""So many failed attempts may fail because sizes that agree are not seen to."""
FEW_FAILURES = 20
"""So few failures of a group have no distribution."""


def run_group(first: int, target: Target) -> Counts:
    """Cases from a seed on, with those that are compiled. Raises BrokenError with a reproducer."""
    counts = Counts()
    compilable: list[Lowered] = []
    for seed in range(first, first + CASES):
        case, _ = new_case(seed, counts, target)
        if len(compilable) < COMPILED:
            _add(compilable, case, target, counts)
    counts.broken_by_compiler = check_compiled(compilable, target)
    counts.compiled = len(compilable)
    return counts


def _add(compilable: list[Lowered], case: Case, target: Target, counts: Counts) -> None:
    made = lowered(case, target)
    if made is None:
        counts.refused += 1
    else:
        compilable.append(made)


FEWER = {"cancel_transposes": 2 * GROUPS}
"""Floors of transforms that few payloads of the net are worth: those that stand between two transposes."""


def check_floors(counts: Counts) -> None:
    """The net is not empty."""
    assert counts.cases == CASES
    assert counts.compiled == COMPILED
    assert counts.broken_by_compiler <= 1, f"{counts.broken_by_compiler} kernels do not survive the compiler"
    assert counts.refused <= COMPILED, f"{counts.refused} cases do not lower"
    assert counts.succeeded >= 0.6 * counts.statements, f"{counts.succeeded} of {counts.statements} statements succeed"
    assert counts.long_schedules >= 0.5 * counts.cases, f"{counts.long_schedules} schedules apply 5 statements or more"
    wanted = [*built_in(), SPECIALIZE_WHEN]
    floors = {name: FEWER.get(name, EACH_TRANSFORM) for name in wanted}
    rare = {n: counts.by_transform[n] for n, floor in floors.items() if counts.by_transform[n] * GROUPS < floor}
    assert not rare, f"transforms that hardly ever succeed: {rare}"
    pairs = [(a, b) for at, a in enumerate(KEY) for b in KEY[at + 1 :]]
    apart = {p: counts.pairs[p] for p in pairs if counts.pairs[p] * GROUPS < EACH_PAIR}
    assert not apart, f"transforms that hardly ever meet: {apart}"
    ranges = {r: counts.ranges[r] for r in RANGES if counts.ranges[r] < EACH_RANGE}
    assert not ranges, f"ranges that loops hardly ever have: {ranges}"
    assert counts.unproven <= SHARE_OF_UNPROVEN * counts.failed_attempts, f"{counts.unproven} steps could not be proven"
    total = counts.messages.total()
    if total >= FEW_FAILURES:
        message, often = counts.messages.most_common(1)[0]
        assert often <= SHARE_OF_ONE_MESSAGE * total, f"{often} of {total} failures say: {message}"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", range(GROUPS))
def test_nets(group: int) -> None:
    check_floors(run_group(group * CASES, target_with_rows(TARGETS[group % len(TARGETS)])))


def conformance_seed() -> int:
    """Where the seeds of this run begin: of the clock, or of TCPX_NETS_SEED to run the same again."""
    given = os.environ.get("TCPX_NETS_SEED")
    return int(given) if given is not None else int.from_bytes(os.urandom(4), "big")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", range(10 * GROUPS))
def test_nets_on_new_seeds(group: int) -> None:
    start = conformance_seed()
    print(f"TCPX_NETS_SEED={start}")  # noqa: T201 - shown with a failure
    try:
        check_floors(run_group(start + group * CASES, target_with_rows(TARGETS[group % len(TARGETS)])))
    except BrokenError as error:
        raise BrokenError(f"TCPX_NETS_SEED={start}: {error}") from error

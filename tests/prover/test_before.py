"""What a size is written as equals what it was before it was simplified, wherever its operation runs."""

from __future__ import annotations

import pytest

from tcpx.payload.sizes import Symbol, Var, maximum
from tcpx.target import load_target
from tests.nets.cases import new_case
from tests.nets.counts import Counts
from tests.prover.before import Found, before, remembering

FIRST, CASES = 26, 12


@pytest.mark.parametrize("group", range(6), ids=["sample", *(f"further{k}" for k in range(1, 6))])
def test_nets(group: int) -> None:
    """Random payloads and schedules, each step evaluated at sizes of which many are 0 to 5."""
    counts, target = Counts(), load_target("x86_avx2")
    with remembering() as found:
        for seed in range(FIRST + group * CASES, FIRST + (group + 1) * CASES):
            new_case(seed, counts, target)
    assert not found.different, found.different.most_common(5)
    assert found.compared >= 500
    assert found.unknown <= 0.5 * found.compared


def test_a_size_that_leaves_its_loop_is_noticed() -> None:
    size, found = Symbol("N"), Found()
    with remembering():
        inside = maximum(0, size - Var("i", 4, size.size()))
    assert str(inside) == "N - %i"
    assert str(before(inside)) == "max(0, N - %i)"
    found.compare("tcp.fill", [inside], {"N": 8, "i": 4})
    assert not found.different
    found.compare("tcp.fill", [inside], {"N": 2, "i": 4})
    assert list(found.different) == ["tcp.fill: N - %i is -2, max(0, N - %i) is 0"]

"""What a branch says of sizes, a step knows: each is accepted there, prints, reads back and computes the same."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, RELU, check

EQUAL = "size(mm.m) == 8 and size(mm.k) == 4 and size(mm.n) == 16"
SHORT = "size(mm.m) <= 8 and size(mm.k) <= 4 and size(mm.n) <= 16"
WHOLE = "size(mm.m) % 8 == 0 and size(mm.k) % 4 == 0 and size(mm.n) % 16 == 0 and size(mm.m) > 0"
CASES = {
    "pad": (SHORT, "pad(mm, [m: 16])"),
    "pad a reduction": (EQUAL, "pad(mm, [k: 8])"),
    "unroll": (EQUAL, "tile(mm, [m: 4])\nunroll(mm.loop(m))"),
    "unroll by a factor": (WHOLE, "tile(mm, [m: 4])\nunroll(mm.loop(m), factor: 2)"),
    "unroll_and_jam": (WHOLE, "tile(mm, [m: 4])\ntile(mm, [n: 4])\nunroll_and_jam(mm.loop(m), factor: 2)"),
    "split_reduction": (WHOLE, "split_reduction(mm, k, factor: 4)"),
    "digits": (EQUAL, "pack(mm.lhs, [k/4, m, k%4])"),
    "vectors": (WHOLE, "tile(mm, [m: 1, n: 16, k: 4])\nvectorize(mm.loop(k))"),
    "streaming": (WHOLE, "tile(mm, [m: 4])\nstream(mm.loop(m))"),
}
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((8, 16, 4), (16, 32, 8), (1, 3, 2), (0, 16, 4), (9, 17, 5))]


@pytest.mark.parametrize("name", CASES)
def test_a_step_knows_what_its_branch_says(name: str) -> None:
    condition, steps = CASES[name]
    check(RELU, f"{MM}specialize mm when {condition} {{\n{steps}\n}} else {{ }}", sizes=SIZES)

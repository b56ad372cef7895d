"""Random affine questions: what isl decides is decided, nearly always; nothing is decided otherwise."""

from __future__ import annotations

import random

import pytest

from tests.optional_tools import ISLPY
from tests.prover.affine import ImpossibleError, decided_by_isl, drawn

PARTS, EACH = 20, 1000
"""The first part is in `make test`."""
WANTED = 0.95
"""Of what isl decides."""


@ISLPY.needed
@pytest.mark.parametrize("part", range(PARTS), ids=["sample", *(f"further{part}" for part in range(1, PARTS))])
def test_beside_isl(part: int) -> None:
    draw = random.Random(part)
    decided = missed = 0
    for _ in range(EACH):
        question = drawn(draw)
        try:
            expected = decided_by_isl(question)
        except ImpossibleError:
            continue
        answer = question.answer()
        assert answer is None or answer is expected, question.text()
        decided += expected is not None
        missed += expected is not None and answer is None
    assert decided >= 0.6 * EACH
    assert missed <= (1 - WANTED) * decided

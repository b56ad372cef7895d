"""docs/cookbook.md: each payload, by the default schedule and by its own, computes what the evaluator does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.verification.rounding import relative_differences

PAGE = Path(__file__).parents[1] / "docs" / "cookbook.md"
BLOCKS = re.findall(r"^```(tcp|tcps) (\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PAYLOADS = {name: text for kind, name, text in BLOCKS if kind == "tcp"}
SCHEDULES = {name: text for kind, name, text in BLOCKS if kind == "tcps"}
SIZES = {
    "stencil": {"H": 9, "W": 37, "T": 3},
    "sweep": {"H": 9, "W": 37},
    "conv": {"N": 1, "H": 5, "W": 11},
    "reduction": {"M": 3, "N": 71},
    "scan": {"T": 11, "N": 67},
    "gather": {"V": 13, "B": 5},
    "cell": {"T": 3, "B": 5},
    "sparse": {"K": 40, "V": 9, "R": 8, "D": 67},
}


def test_every_recipe_has_a_payload_a_schedule_and_sizes() -> None:
    assert PAYLOADS.keys() == SCHEDULES.keys() == SIZES.keys()


@pytest.mark.parametrize("name", SIZES)
def test_recipe(name: str) -> None:
    module = tcpx.parse(PAYLOADS[name])
    arrays = tcpx.random_inputs(module, 3, sizes=SIZES[name])
    wanted = tcpx.evaluate(module, *arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for schedule in (None, tcpx.parse_schedule(SCHEDULES[name])):
        found = tcpx.compile(module, schedule)(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        limits = relative_differences(module, arrays)
        for result, reference, relative in zip(found, wanted, limits, strict=True):
            atol = relative * float(np.abs(reference).max())
            difference = np.asarray(result, np.float64) - np.asarray(reference, np.float64)
            assert float(np.abs(difference).max()) <= atol

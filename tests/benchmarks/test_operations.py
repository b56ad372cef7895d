"""The table of the speed of operations: its cases are payloads, and compute what NumPy does."""

from __future__ import annotations

import pytest

import tcpx
from benchmarks import operations
from benchmarks.operations import BAR, CASES, LAYOUTS, measure, table


def test_cases_are_payloads() -> None:
    """Each has a name of its own, and is one in both layouts."""
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        for layout in LAYOUTS:
            tcpx.parse(case.payload(layout))


def test_a_case_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside NumPy, at each size and in each layout; the page has a row for it."""
    monkeypatch.setattr(operations, "ROUNDS", 1)
    monkeypatch.setattr(operations, "SIZES", ((3, 17), (5, 4)))
    case = next(case for case in CASES if case.name == "slice")
    found = measure(case)
    assert {layout: len(ratios) for layout, ratios in found.items()} == dict.fromkeys(LAYOUTS, 2)
    assert all(cell.ratio > 0 for cells in found.values() for cell in cells)
    assert found[LAYOUTS[0]][0].name == "slice of 3x17, side by side"


def test_what_is_slower_is_bold() -> None:
    rows = {"some": {layout: [BAR, BAR - 0.1, 2.0, 1.0] for layout in LAYOUTS}}
    page = table(rows)
    assert "| some | 0.90 | **0.80** | 2.00 | 1.00 | 0.90 | **0.80** | 2.00 | 1.00 |" in page
    assert "2 of 8" in page


def test_a_wrong_result_is_an_error() -> None:
    case = next(case for case in CASES if case.name == "add")
    kernel = tcpx.compile(tcpx.parse(case.payload(LAYOUTS[0]).replace("tcp.add", "tcp.sub")))
    with pytest.raises(ValueError, match="add of 3x5, side by side"):
        operations.ratio(case, kernel, 3, 5, LAYOUTS[0])

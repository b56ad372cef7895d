"""Whether a run counts: the figures of peers, and rows that are missing or went wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.peer_figures import PeerFigure, judge_run, load_peer_figures
from benchmarks.registry import peers
from benchmarks.workloads import default_files, load_workloads
from tcpx.measure.rows import Row

FIGURES = [PeerFigure("a", 1, "numpy", 0.8), PeerFigure("a", 2, "jax", 0.9), PeerFigure("b", 1, "jax", 0.5)]
ROWS = [
    Row("machine", 1, "machine"),
    Row("a", 1, "tcpx", status="failed", reason="judged by bars"),
    Row("a", 1, "numpy", median_s=1.0, fraction=0.76, error=0.1),
    Row("a", 1, "jax", status="unsupported", reason="no such thing"),
]
UNSTEADY = Row("a", 1, "numpy", status="unsteady")


def test_every_figure_is_of_a_peer_and_a_workload() -> None:
    workloads = {workload.name for workload in load_workloads(default_files())}
    figures = load_peer_figures()
    assert {figure.workload for figure in figures} <= workloads
    assert {figure.peer for figure in figures} <= set(peers())
    assert {figure.threads for figure in figures} == {1, 2}
    assert all(0 < figure.fraction <= 1 for figure in figures)


def test_a_run_that_counts() -> None:
    verdict = judge_run(FIGURES, ["numpy", "jax"], ROWS)
    assert verdict.counts
    assert verdict.text().splitlines() == [
        "        ok  a, 1 thread(s): numpy >= 0.95 * 0.8 of the limit: 0.760",
        "the run counts: 1 of 1 figures of peers reached, 0 faults",
    ]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (replace(ROWS[2], fraction=0.75), "LOW  a, 1 thread(s): numpy >= 0.95 * 0.8 of the limit: 0.750"),
        (UNSTEADY, "LOW  a, 1 thread(s): numpy >= 0.95 * 0.8 of the limit: not measured"),
        (UNSTEADY, "FAULT  numpy: unsteady in 1 of 1 workloads"),
        (replace(ROWS[2], status="wrong", reason="off by 7"), "FAULT  numpy: wrong in 1 of 1 workloads"),
        (replace(ROWS[2], error=None), "FAULT  numpy: not verified in 1 of 1 workloads"),
        (Row("a", 1, "jax", status="unsupported"), "FAULT  jax: unsupported without a reason in 1 of 1 workloads"),
        (Row("a", 1, "jax", status="crashed", reason="signal 11"), "FAULT  jax: crashed in 1 of 1 workloads"),
    ],
)
def test_a_run_that_does_not_count(row: Row, line: str) -> None:
    rows = [row if (row.workload, row.peer) == (made.workload, made.peer) else made for made in ROWS]
    verdict = judge_run(FIGURES, ["numpy", "jax"], rows)
    assert not verdict.counts
    shown = [each.strip() for each in verdict.text().splitlines()]
    assert line in shown
    assert shown[-1].startswith("the run does not count: ")


@pytest.mark.parametrize(("again", "counts"), [(1.01, True), (1.02, False)])
def test_tcpx_is_as_fast_as_tcpx(again: float, counts: bool) -> None:
    rows = [*ROWS[2:], Row("a", 1, "tcpx", median_s=1.0), Row("a", 1, "tcpx-again", median_s=again, error=0.1)]
    verdict = judge_run(FIGURES, ["numpy", "jax", "tcpx-again"], rows)
    assert verdict.counts == counts
    assert f"tcpx against tcpx, 1 thread(s): {again - 1:.2%} apart, required under 1.5%" in verdict.text()


def test_a_peer_without_a_row_is_missing_from_every_workload() -> None:
    more = [*ROWS, Row("b", 1, "numpy", median_s=1.0, fraction=0.9, error=0.1)]
    verdict = judge_run(FIGURES, ["numpy", "jax", "halide"], more)
    assert verdict.faults == ("jax: missing in 1 of 2 workloads", "halide: missing in 2 of 2 workloads")
    assert [(each.figure.workload, each.found) for each in verdict.figures] == [("a", 0.76), ("b", None)]

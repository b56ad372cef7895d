"""What is slower than the fastest peer is listed with the remarks on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import slow_cells
from benchmarks.slow_cells import Cell, cells_of, report
from tcpx.measure.kernel_peer import prepare
from tcpx.measure.protocol import Input, Task
from tcpx.measure.rows import Row, write_rows

COPIES = {"cause": "element_copy", "factor": 2.25, "message": "`t` copies element by element"}


def row(workload: str, peer: str, seconds: float | None, *remarks: dict[str, object]) -> Row:
    return Row(workload, 1, peer, median_s=seconds, facts={"remarks": remarks} if remarks else {})


ROWS = [
    *(row("a", "tcpx", 2.0, COPIES), row("a", "numpy", 1.0), row("a", "torch", 3.0), row("a", "tcpx-again", 0.1)),
    *(row("b", "tcpx", 3.0), row("b", "numpy", 1.0)),
    *(row("c", "tcpx", 1.0), row("c", "numpy", 1.0)),
    *(row("d", "tcpx", None), row("d", "numpy", 1.0)),
    *(row("e", "tcpx", 1.0), row("e", "numpy", None), row("e", "tcpx@main", 0.1)),
]


def test_the_fastest_peer_counts() -> None:
    """Neither other builds and revisions of tcpx, nor workloads that one side does not do."""
    found = cells_of(ROWS)
    assert [(cell.name, cell.peer, cell.ratio, cell.is_slow) for cell in found] == [
        ("a", "numpy", 0.5, True),
        ("b", "numpy", 1 / 3, True),
        ("c", "numpy", 1.0, False),
    ]
    assert found[0].causes == [("element_copy", 2.25)]


def test_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    write_rows(path, ROWS)
    monkeypatch.setattr("sys.argv", ["slow_cells", str(path)])
    assert slow_cells.main() == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["cell", "threads", "ratio", "fastest", "peer", "factor", "cause"],
        ["b", "1", "0.33", "numpy", "no", "remark"],
        ["a", "1", "0.50", "numpy", "2.2", "element_copy:", "`t`", "copies", "element", "by", "element"],
        "2 of 3 cells are below 0.7 of the fastest peer, 1 of them have a remark".split(),
    ]
    assert report([Cell("c", 1, 1.0, "numpy")]).startswith("0 of 1 cells are below")
    monkeypatch.setattr("sys.argv", ["slow_cells", str(tmp_path / "none.json")])
    assert slow_cells.main() == 1


def test_remarks_are_facts_of_a_kernel(tmp_path: Path) -> None:
    """They are judged at the sizes of the arrays."""
    payload = """func @f(%x: tensor<[M]x16xf32>, %w: tensor<16x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
  %r = tcp.matmul(%x, %w) : tensor<[M]x16xf32>
  tcp.return(%r)
}
"""
    schedule = "language 2\nschedule s(root: func) {\n}\n"
    np.save(tmp_path / "w.npy", np.ones((16, 16), np.float32))
    inputs = (Input("x", "float32"), Input("w", "float32"))
    task = Task("t", "payload", 1, str(tmp_path), inputs, payload=payload, schedule=schedule, target="x86_avx2")
    found = {}
    for rows in (2, 2000):
        np.save(tmp_path / "x.npy", np.ones((rows, 16), np.float32))
        found[rows] = [remark["cause"] for remark in prepare(task).facts["remarks"]]
    assert found == {2: [], 2000: ["scalar"]}

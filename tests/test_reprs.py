"""What shells and notebooks show of public objects is short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.cells import LARGEST_CELL, page_cell, table_cell, text_cell

PAYLOAD = """\
func @f(%x: tensor<[M]x8xf32>, %w: tensor<8x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %o = tcp.matmul(%x, %w) : tensor<[M]x4xf32>
  tcp.return(%o)
}
"""
SCHEDULE = """\
language 1
import "default.tcps" as default
schedule s(root: func) {
  knob rows: int = 2 in [2, 4]
  require rows <= 4
  let mm = match one matmul in root
  tile(mm, [m: rows])
}
"""
LONGEST = 200


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    module, x, w = tcpx.parse(PAYLOAD), np.ones((3, 8), np.float32), np.ones((8, 4), np.float32)
    schedule = tcpx.parse_schedule(SCHEDULE)
    with pytest.warns(tcpx.ScheduleWarning):
        kernel = tcpx.compile(module, schedule, target="generic")
    run = tcpx.apply_schedule(module, schedule, target="generic")
    source = tcpx.emit(module, schedule, target="generic")
    space = tcpx.search_space(module, schedule, target="generic")
    profile = tcpx.profile(module, schedule, x, w, target="generic", seconds=0.001)
    verified = tcpx.verify_steps(module, schedule, target="generic", sizes={"M": 1})
    found: list[Any] = [
        *(module, schedule, kernel, run, source, space, profile, verified, kernel.trace, kernel.signature),
        *(tcpx.explain(module, schedule, target="generic"), kernel.bind(x, w), kernel.report({"M": 3})),
        *(tcpx.ScheduleFile("f.tcps"), tcpx.CompileRequest(module, schedule), tcpx.cache_info()),
        *(space.variables[0], kernel.target, kernel.target.rows[0], profile.rows[0], run.trace.entries[0]),
        *(
            tcpx.bisect(module, schedule, target="generic", sizes={"M": 1}, run_kernel=False),
            next(iter(source.origins)),
        ),
        *(source.origins[next(iter(source.origins))], tcpx.EvaluationProgress(), tcpx.Diagnostic("m" * 1000)),
        tcpx.Location("f", 1, 1),
    ]
    return {type(held).__name__: held for held in found}


def test_reprs_are_short(objects: dict[str, Any]) -> None:
    long = {name: len(repr(held)) for name, held in objects.items() if len(repr(held)) >= LONGEST}
    assert long == {}
    assert repr(objects["Module"]) == "<Module @f 1 function(s)>"
    assert repr(objects["Trace"]).startswith("<Trace of ")


def test_long_names_are_cut() -> None:
    name = "f" * 10_000
    module = tcpx.parse(PAYLOAD.replace("@f", f"@{name}"))
    assert len(repr(module)) < LONGEST
    assert len(module._repr_html_()) < LARGEST_CELL


@pytest.mark.parametrize("name", ["Module", "Kernel", "Explanation", "Profile", "Trace"])
def test_notebooks_show_html(objects: dict[str, Any], name: str) -> None:
    html = objects[name]._repr_html_()
    assert html.startswith("<")
    assert 100 < len(html.encode()) <= LARGEST_CELL


def test_what_is_too_large_is_cut() -> None:
    for html in (
        text_cell("a", "ä<\n" * 100_000),
        text_cell("a", "ä" * 300_000),
        table_cell("a", ("x", "y"), [(k, "<" * 90) for k in range(10_000)]),
        page_cell("<b>" * 100_000, lambda: text_cell("other", "")),
    ):
        assert len(html.encode()) <= LARGEST_CELL
    assert "srcdoc=" in page_cell("<b>x</b>", lambda: "")
    assert ".. and " in text_cell("a", "b\n" * 200_000)

"""What shells and notebooks show of public objects is short."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from html import escape, unescape
from pathlib import Path
from typing import Any
from zlib import decompress

import numpy as np
import pytest

import tcpx
from tcpx.cells import LARGEST_CELL, page_cell, table_cell, text_cell
from tcpx.tune.ledger import StudyKey
from tcpx.tune.model_study import ModelStudy, Outcome
from tcpx.tune.problem import Problem
from tcpx.tune.progress import Progress
from tcpx.tune.revalidation import Revalidated, Revalidation
from tcpx.tune.space import Space
from tcpx.tune.study import Study
from tcpx.tune.verdicts import Candidate, Comparison, Verdict
from tcpx.tuned import Setting

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


def of_tuning(module: tcpx.Module, schedule: tcpx.Schedule) -> list[Any]:
    """A study with long texts in it, and what it is made of."""
    point = {f"layer{k}/packed_gemm.mc": k for k in range(100)}
    comparison = Comparison(0.5, 0.4, 0.6, 3, 1e-6)
    candidate = Candidate(0, point, point, Verdict.OK, reason="r" * 1000, comparison=comparison, relative=1.0)
    key = StudyKey(1, "abc", {"cpu": "c" * 1000}, 0.0)
    study = Study(module, schedule, "generic", 1, key, (candidate,) * 100, candidate, candidate)
    setting = Setting("p", "s", "generic", "c" * 1000, "f" * 1000, 1, "cpu")
    record = tcpx.TunedRecord(setting, point, "s" * 1000)
    outcome = Outcome("net", ("layer" * 100,) * 12, 0.5, 12)
    problem = Problem(module, schedule, tcpx.load_target("generic"), 1, (0,), (), point)
    progress = Progress((candidate,), (candidate,) * 100, candidate, 1.0, None, 100, phase="p" * 1000)
    revalidation = Revalidation(Path("r" * 1000), (Revalidated(record, comparison, "r" * 1000, None),))
    space = Space(tcpx.search_space(module, schedule, target="generic"))
    held = [study, candidate, key, setting, record, comparison, outcome, problem, progress, revalidation, space]
    return [*held, ModelStudy(module, Path("r"), (outcome,) * 100, params=point), revalidation.records[0]]


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
        *(tcpx.Location("f", 1, 1), *of_tuning(module, tcpx.program_or_default(schedule))),
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


def page_in(cell: str) -> str:
    """The page that a cell has in a frame."""
    (source,) = re.findall(r'srcdoc="([^"]*)"', cell)
    return unescape(source)


@pytest.mark.parametrize("name", ["Module", "Kernel", "Explanation", "Profile", "Trace"])
def test_notebooks_show_html(objects: dict[str, Any], name: str) -> None:
    html = objects[name]._repr_html_()
    assert html.startswith("<")
    assert 100 < len(html.encode()) <= LARGEST_CELL
    assert "Left out" not in html
    assert "<style" not in html
    assert "<script" not in html


def test_notebooks_show_the_pages(objects: dict[str, Any], tmp_path: Path) -> None:
    explanation, profile = objects["Explanation"], objects["Profile"]
    assert page_in(explanation._repr_html_()) == tcpx.html_page(explanation)
    profile.html(tmp_path / "made" / "profile.html")
    assert page_in(profile._repr_html_()) == (tmp_path / "made" / "profile.html").read_text(encoding="utf-8")
    report = str(objects["Kernel"].report())
    assert escape(report) in objects["Kernel"]._repr_html_()


def test_a_page_is_compressed_or_left_out() -> None:
    page = "".join(f'<p title="ä{k}">&amp;</p>' for k in range(20_000))
    cell = page_cell(page, lambda: "", "study.html('page.html')")
    assert "Left out" not in cell
    (data,) = re.findall(r'atob\("(.*?)"\)', page_in(cell))
    assert decompress(b64decode(data)).decode() == page
    noise = b64encode(np.random.default_rng(0).bytes(400_000)).decode()
    assert page_cell(noise, lambda: text_cell("other", "", ""), "study.html('page.html')") == (
        text_cell("other", "", "") + "<p>Left out: a page of 533336 bytes. "
        "All of it: <code>study.html(&#x27;page.html&#x27;)</code></p>"
    )


def test_what_is_too_large_is_cut() -> None:
    for cell in (
        text_cell("a" * 10**6, "ä<\n" * 100_000, "x"),
        text_cell("a", "ä" * 300_000, "x"),
        text_cell("a", "<" * 300_000, "x"),
        table_cell("<" * 10**6, ("x", "y"), [(k, "<" * 90) for k in range(10_000)], "x"),
        table_cell("a", ("x",), [("<" * 10**6,)] * 100, "x"),
        page_cell("<b>" * 100_000, lambda: text_cell("other", "", ""), "x"),
    ):
        assert len(cell.encode()) <= LARGEST_CELL
        assert cell.count("Left out") == ("iframe" not in cell)
        assert not re.search(r"&[^;]*$", cell.partition("</pre>")[0])
    assert text_cell("a", "b\n" * 200_000, "print(module.text())").endswith(
        "<p>Left out: 208001 bytes. All of it: <code>print(module.text())</code></p>"
    )
    rows = [("b" * 1000,)] * 200
    assert table_cell("a", ("x",), rows, "profile.rows").endswith(
        "<p>Left out: 8 rows. All of it: <code>profile.rows</code></p>"
    )


def test_texts_are_data() -> None:
    hostile = "</pre></table><script>alert(1)</script>&\0\ud800'\""
    for cell in (
        text_cell(hostile, hostile, ""),
        table_cell(hostile, ("x",), [(hostile,)], ""),
        page_cell(hostile, lambda: "", ""),
    ):
        assert "<script" not in cell
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in cell
        cell.encode()

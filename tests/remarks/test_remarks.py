"""Slow code is named: the statement, the cause, the factor; and fast code is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.api import program_or_default
from tcpx.judging import run_and_judge
from tcpx.remarks import causes
from tests.remarks.programs import ALONG_COLUMNS, LARGEST

PRODUCT = """\
func @f(%x: tensor<{m}x256xf32>, %w: tensor<256x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %e = tcp.exp(%x) : tensor<{m}x256xf32>
  %y = tcp.matmul(%e, %w) : tensor<{m}x{n}xf32>
  tcp.return(%y)
}}
"""
TILES = """\
language 2
schedule s(root: func) {{
  let y = match one matmul in root
  let n, m = tile(y, [n: 2 * lanes(dtype(y.acc)), m: {rows}], tail: pad)
  {fuse}
  let k = tile(y, [k: 1])
  vectorize(m)
  hoist_accumulator(y, out_of: k)
  {rest}
}}
"""
REST = "for e in match some elementwise in root where not scheduled { vectorize(e) }"
IN_TILES = TILES.replace("2 * lanes", "lanes").format(rows=4, fuse="fuse(match one exp in root, into: m)", rest="")
DISCOUNTED = """\
func @f(%x: tensor<5000x12xf32>) -> tensor<5000x12xf32> {
  %y, %last = tcp.generic(%x) {iterators = [["t", "sequential"], ["n", "parallel"]],
      maps = [[t, n], [t, n], [n]], neutral = [0.0]} ({ (%e: f32, %before: f32):
    %s = tcp.multiply_add(%before, 0.9, %e) : f32
    tcp.yield(%s, %s)
  }) : tensor<5000x12xf32>, tensor<12xf32>
  tcp.return(%y)
}
"""
WIDE_TILES = """\
language 2
schedule s(root: func) {
  let y = match one "y" in root
  let n, t = tile(y, [n: 4 * lanes(f32), t: 8], tail: pad)
  vectorize(t)
  hoist_accumulator(y, out_of: t)
}
"""
INVARIANT = """\
func @f(%a: tensor<200x200xf32>, %v: tensor<200xf32>) -> tensor<200xf32> {
  %y = gml_st.for %i in 0 to 30 (%d = %v) {
    %s = tcp.softmax(%a) {dim = 1} : tensor<200x200xf32>
    %n = tcp.matvec(%s, %d) : tensor<200xf32>
    gml_st.yield(%n, %d) full
  } : tensor<200xf32>
  tcp.return(%y)
}
"""
BROADCAST = """\
func @f(%x: tensor<500x256xf32>, %p: tensor<256xf32>) -> tensor<500x256xf32> {
  %b = tcp.broadcast(%p) {dims = [1]} : tensor<500x256xf32>
  %s = tcp.gelu(%b) : tensor<500x256xf32>
  %y = tcp.mul(%x, %s) : tensor<500x256xf32>
  tcp.return(%y)
}
"""
GELU = """\
func @f(%x: tensor<64x700xf32>) -> tensor<64x700xf32> {
  %y = tcp.gelu(%x) : tensor<64x700xf32>
  tcp.return(%y)
}
"""
IN_PARTS = """\
language 2
schedule s(root: func) {{
  let y = match one "y" in root
  let i, j = tile(y, [d0: 1, d1: {columns}]{tail})
  {vectors}
}}
"""
ALONG_ROWS = (
    BROADCAST.replace("tensor<256xf32>", "tensor<500xf32>").replace("dims = [1]", "dims = [0]").replace("x256", "x250")
)
ROW_BY_ROW = """\
language 2
schedule s(root: func) {{
  let y = match one "y" in root
  let i, j = tile(y, [d0: 1, d1: 16]{tail})
  fuse(match one "s" in root, into: j)
  vectorize(j)
}}
"""
PADDED_ROWS = ROW_BY_ROW.format(tail=", tail: pad")
CONSTANT = """\
func @f(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {
  %w = tcp.const {constant = "w"} : tensor<256x256xf32>
  %e = tcp.exp(%w) : tensor<256x256xf32>
  %y = tcp.matmul(%x, %e) : tensor<8x256xf32>
  tcp.return(%y)
}
"""
VECTORS = """\
language 2
schedule s(root: func) {
  for e in match some elementwise in root { vectorize(e) }
}
"""
NOTHING = "language 2\nschedule s(root: func) { print(root) }\n"
TRIANGLE = """\
func @f(%x: tensor<512x512xf32>, %v: tensor<512xf32>) -> tensor<512xf32> {
  %i = tcp.iota {dim = 0} : tensor<512x512xsi32>
  %j = tcp.iota {dim = 1} : tensor<512x512xsi32>
  %m = tcp.less_equal(%j, %i) : tensor<512x512xi1>
  %t = tcp.select(%m, %x, 0.0) : tensor<512x512xf32>
  %vb = tcp.broadcast(%v) {dims = [1]} : tensor<512x512xf32>
  %p = tcp.mul(%t, %vb) : tensor<512x512xf32>
  %y = tcp.reduce_sum(%p) {dims = [1]} : tensor<512xf32>
  tcp.return(%y)
}
"""
RUNNING_SUM = """\
func @f(%x: tensor<20x2000xf32>) -> tensor<20x2000xf32> {
  %r, %s = tcp.cumsum(%x) {dim = 1} : tensor<20x2000xf32>, tensor<20xf32>
  tcp.return(%r)
}
"""
BYTES = """\
func @f(%x: tensor<64x256xui8>, %w: tensor<256x64xsi8>) -> tensor<64x64xf32> {
  %a = tcp.cast(%x) : tensor<64x256xf32>
  %b = tcp.cast(%w) : tensor<256x64xf32>
  %y = tcp.matmul(%a, %b) : tensor<64x64xf32>
  tcp.return(%y)
}
"""
EVERY_SECOND = """\
func @f(%x: tensor<300x400xf64>) -> tensor<300x200xf64> {
  %p = gml_st.materialize(%x) tile [0, 0] [300, 200] [1, 2] : tensor<300x200xf64>
  %y = tcp.transpose(%p) {permutation = [0, 1]} : tensor<300x200xf64>
  tcp.return(%y)
}
"""
PASSES = """\
func @f(%x: tensor<2000000xf32>) -> tensor<2000000xf32> {
  %a = tcp.multiply_add(%x, 0.1, 0.2) : tensor<2000000xf32>
  %b = tcp.multiply_add(%a, %x, 0.3) : tensor<2000000xf32>
  tcp.return(%b)
}
"""
ROWS_APART = """\
func @f(%x: tensor<1024x{n}xf32>) -> tensor<{n}xf32> {{
  %s = tcp.reduce_sum(%x) {{dims = [0]}} : tensor<{n}xf32>
  tcp.return(%s)
}}
"""
NARROW_SUMS = """\
language 2
schedule s(root: func) {
  let s = match one reduce_sum in root
  let columns = tile(s, [d1: 16])
  let rows = tile(s, [d0: 1])
  vectorize(columns)
  hoist_accumulator(s, out_of: rows)
}
"""


SHORT = """\
func @f(%x: tensor<{rows}x256xf32>, %w: tensor<256x{columns}xf32>) -> tensor<{rows}x{columns}xf32>{symbols} {{
  %y = tcp.matmul(%x, %w) : tensor<{rows}x{columns}xf32>
  tcp.return(%y)
}}
"""
IN_STEP = """\
func @f(%x: tensor<64x32xf32>, %h: tensor<1x64xf32>, %u: tensor<64x64xf32>) -> tensor<1x64xf32> {
  %y = gml_st.for %t in 0 to 64 (%d = %h) {
    %o = gml_st.materialize(%d) full : tensor<1x64xf32>
    %b = tcp.matmul(%o, %u) : tensor<1x64xf32>
    gml_st.yield(%b, %d) full
  } : tensor<1x64xf32>
  tcp.return(%y)
}
"""


def remarks(payload: str, schedule: str | None = None, target: str = "x86_avx512") -> list[tcpx.Diagnostic]:
    module = tcpx.parse(payload, constants={"w": np.ones((256, 256), np.float32)} if '"w"' in payload else None)
    program = program_or_default(tcpx.parse_schedule(schedule) if schedule is not None else None)
    run = run_and_judge(module, program, tcpx.load_target(target), threads=1)
    return [remark for remark in run.remarks if remark.factor]


@pytest.mark.parametrize(
    ("payload", "schedule", "cause", "statement", "line", "least", "most"),
    [
        (PRODUCT.format(m=15, n=512), TILES.format(rows=14, fuse="", rest=REST), "padding", "y/n1", 3, 1.4, 2.0),
        (PRODUCT.format(m=64, n=512), IN_TILES, "recomputation", "y/n1", 2, 1.3, 20.0),
        (INVARIANT, None, "recomputation", "i", 3, 2.0, 40.0),
        (BROADCAST, None, "recomputation", "y/d01", 3, 2.0, 20.0),
        (CONSTANT, TILES.format(rows=8, fuse="", rest=""), "constant_work", "e/d0", 3, 1.1, 200.0),
        (BYTES, VECTORS, "dot_product", "y/m", 4, 1.5, 16.0),
        (RUNNING_SUM, None, "below_limit", "r/d0", 2, 4.0, 16.0),
        (EVERY_SECOND, NOTHING, "element_copy", "p/copy/d0", 4, 1.5, 16.0),
        (PASSES, VECTORS, "below_limit", "b/d0", 3, 1.3, 3.0),
        (PRODUCT.format(m=64, n=64), NOTHING, "scalar", "e/d0", 2, 1.3, 20.0),
        (ROWS_APART.format(n=1024), NARROW_SUMS, "below_limit", "s/d1", 2, 4.0, 12.0),
        (BROADCAST.replace("gelu(%b)", "pow(%b, 0.3)"), None, "recomputation", "y/d01", 3, 2.0, 20.0),
        (DISCOUNTED, WIDE_TILES, "padding", "y/n1", 4, 2.0, 5.0),
        (ALONG_ROWS.replace("gelu(%b)", "pow(%b, 0.3)"), PADDED_ROWS, "recomputation", "y/d01", 3, 2.0, 20.0),
        (ALONG_ROWS, PADDED_ROWS, "recomputation", "y/d01", 3, 2.0, 20.0),
        (GELU, IN_PARTS.format(columns=20, tail="", vectors=""), "scalar", "y/d01", 2, 1.7, 5.0),
        (
            GELU.replace("64x", "256x").replace("gelu", "sigmoid"),
            IN_PARTS.format(columns=16, tail=", tail: pad", vectors=""),
            "scalar",
            "y/d01",
            2,
            1.7,
            5.0,
        ),
    ],
    ids=["padding", "recomputed tiles", "in each iteration", "broadcast", "constant", "bytes", "running sum", "steps",
         "passes", "scalar", "rows at a power of two", "broadcast and number", "temporary of padding",
         "broadcast in a branch", "broadcast beside masked stores", "left over by vectors", "copies of padded tiles"],
)  # fmt: skip
def test_slow_statements_are_named(
    payload: str, schedule: str | None, cause: str, statement: str, line: int, least: float, most: float
) -> None:
    found = remarks(payload, schedule)
    those = [remark for remark in found if remark.cause == cause]
    assert those, [remark.message for remark in found]
    assert those[0].message.startswith(f"`{statement}")
    assert those[0].payload is not None
    assert those[0].payload.line == line
    assert least <= those[0].factor <= most


@pytest.mark.parametrize("target", ["x86_avx2", "x86_avx512", "generic"])
@pytest.mark.parametrize(
    "payload",
    [
        PRODUCT.format(m=64, n=128),
        "func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {\n"
        "  %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x[N]xf32>\n  tcp.return(%y)\n}\n",
        "func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M, N] {\n"
        "  %y = tcp.reduce_sum(%x) {dims = [1]} : tensor<[M]xf32>\n  tcp.return(%y)\n}\n",
    ],
    ids=["product", "softmax", "sum"],
)
def test_fast_code_has_no_remark(payload: str, target: str) -> None:
    assert remarks(payload, None, target) == []


@pytest.mark.parametrize(
    ("payload", "schedule"),
    [
        (SHORT.format(rows="[B]", columns=256, symbols=" symbols [B: 1..5]"), TILES.format(rows=12, fuse="", rest="")),
        (
            SHORT.format(rows=512, columns=17, symbols=""),
            TILES.replace("2 * lanes", "4 * lanes").format(rows=4, fuse="", rest=""),
        ),
        (IN_STEP, None),
    ],
    ids=["rows", "columns", "steps of a loop"],
)
def test_padding_that_is_not_in_the_code_is_not_counted(payload: str, schedule: str | None) -> None:
    assert [remark.message for remark in remarks(payload, schedule) if remark.cause == "padding"] == []


@pytest.mark.parametrize("function", ["exp", "log", "sigmoid"])
def test_what_the_compiler_moves_out_of_a_loop_is_computed_once(function: str) -> None:
    """Along rows: 12.5 us on a Zen 4, where 12.0 are needed."""
    assert remarks(ALONG_ROWS.replace("500x250", "500x256").replace("gelu", function)) == []


POSITIONS = """\
func @f(%x: tensor<512x256xf32>) -> tensor<512x256xf32> {
  %i = tcp.iota {dim = 0} : tensor<512x256xsi32>
  %p = tcp.cast(%i) : tensor<512x256xf32>
  %a = tcp.mul(%p, 0.01) : tensor<512x256xf32>
  %c = tcp.cos(%a) : tensor<512x256xf32>
  %y = tcp.mul(%x, %c) : tensor<512x256xf32>
  tcp.return(%y)
}
"""
AS_WRITTEN = """\
language 2
import "default.tcps" as default
schedule s(root: func) {
  default.rest(root)
}
"""


def test_what_a_row_computes_once_of_its_position_is_not_stored_instead() -> None:
    """To read a table takes 1.35 times as long on a Zen 4."""
    assert remarks(POSITIONS, AS_WRITTEN) == []


def test_vectors_that_divide_rows_have_no_masked_store_that_keeps_reads_in_the_loop() -> None:
    assert remarks(ALONG_ROWS.replace("500x250", "500x256"), ROW_BY_ROW.format(tail="")) == []


@pytest.mark.parametrize(
    ("function", "columns", "vectors"), [("gelu", "28", "vectorize(j)"), ("gelu", "28 * 25", ""), ("sqrt", "20", "")]
)
def test_few_elements_that_vectors_leave_over_are_no_remark(function: str, columns: str, vectors: str) -> None:
    payload = GELU.replace("gelu", function).replace("64x", "256x")
    assert remarks(payload, IN_PARTS.format(columns=columns, tail="", vectors=vectors)) == []


def test_a_cause_is_named_for_its_own_part_of_the_time() -> None:
    (remark,) = remarks(LARGEST, ALONG_COLUMNS)
    assert remark.cause == "below_limit"
    assert "at a distance of a power of two" in remark.message


def test_a_mask_of_positions_costs_less_than_to_read_it() -> None:
    """The stored mask takes 1.22 times as long on a Zen 4: all data come from L3."""
    assert remarks(TRIANGLE, target="zen4") == []


def test_the_whole_text_of_a_remark() -> None:
    (remark,) = remarks(RUNNING_SUM)
    assert remark.render() == (
        "warning: `r/d0` waits for the result of the operation before: without that, the kernel would be 5.1 times as "
        "fast\n"
        "  --> <text>:2:3 (payload)\n"
        "    2 |   %r, %s = tcp.cumsum(%x) {dim = 1} : tensor<20x2000xf32>, tensor<20xf32>\n"
        "      |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  required: results that do not depend on each other\n"
        "  found: 80% of the time of its instructions\n"
        "  hint: compute several rows, or parts of a sum, side by side: a larger tile, or `unroll_and_jam`"
    )


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_unit_sizes_are_judged(rows: int) -> None:
    assert isinstance(remarks(PRODUCT.format(m=rows, n=3)), list)


def test_the_docs_have_each_cause() -> None:
    page = (Path(__file__).parents[2] / "docs" / "profiling.md").read_text(encoding="utf-8")
    known = {cause.name for cause in vars(causes).values() if isinstance(cause, causes.Cause)} | {"fallback"}
    assert all(f"| `{name}` |" in page for name in known)


def test_rows_at_a_distance_that_is_known_at_the_call() -> None:
    text = """
func @f(%x: tensor<[M]x64xf32> strided) -> tensor<[M]x64xf32> symbols [M] {
  %y = tcp.exp(%x) : tensor<[M]x64xf32>
  tcp.return(%y)
}
"""
    module = tcpx.parse(text)
    assert not tcpx.remarks_of(module, target="x86_avx2")
    assert not tcpx.remarks_of(module, target="x86_avx2", sizes={"M": 100})

"""Hints are tried on the model before they are said: they give the factor that is stated, and where none helps, none is
said."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from benchmarks.slow_programs.follow import Texts, followed
from tcpx.api import lowered
from tcpx.drafts import draft
from tcpx.payload.diagnostics import Direction
from tcpx.remarks import cuts, trials
from tcpx.remarks.finding import kernel_cycles
from tests.remarks.programs import ALONG_COLUMNS, LARGEST

PRODUCT = """\
func @f(%x: tensor<13x256xf32>, %w: tensor<256x40xf32>) -> tensor<13x40xf32> {
  %y = tcp.matmul(%x, %w) : tensor<13x40xf32>
  tcp.return(%y)
}
"""
TWO_DIMS = """\
language 2
schedule s(root: func) {
  let y = match one matmul in root
  let n, m = tile(y, [n: 4 * lanes(f32), m: 6], tail: pad)
  let k = tile(y, [k: 1])
  vectorize(m)
  hoist_accumulator(y, out_of: k)
}
"""
CONSTANT = """\
func @f(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {
  %w = tcp.const {value = 0.5} : tensor<256x256xf32>
  %e = tcp.exp(%w) : tensor<256x256xf32>
  %y = tcp.matmul(%x, %e) : tensor<8x256xf32>
  tcp.return(%y)
}
"""
LATER_MATCH = """\
language 2
schedule s(root: func) {
  let e = match one "e" in root
  tile(e, [d0: 8])
  let y = match one matmul in root
  let n, m = tile(y, [n: 4 * lanes(f32), m: 4], tail: pad)
  let k = tile(y, [k: 1])
  vectorize(m)
  hoist_accumulator(y, out_of: k)
}
"""
QUOTIENTS = """\
func @f(%x: tensor<100000xsi64>, %d: tensor<100000xsi64>) -> tensor<100000xsi64> {
  %y = tcp.floordiv(%x, %d) : tensor<100000xsi64>
  tcp.return(%y)
}
"""
HISTOGRAM = """\
func @f(%i: tensor<40000xsi64> in 0 to 100, %x: tensor<40000xf32>, %z: tensor<100xf32>) -> tensor<100xf32> {
  %y = tcp.scatter_add(%x, %i, init = %z) {dim = 0} : tensor<100xf32>
  tcp.return(%y)
}
"""
VECTORIZED = """\
language 2
schedule s(root: func) {
  let y = match one "y" in root
  vectorize(y)
}
"""
NOTHING = """\
language 2
schedule s(root: func) {
  print(root)
}
"""
CHAIN = """\
func @f(%x: tensor<4000000xf32>) -> tensor<4000000xf32> {
  %a = tcp.multiply_add(%x, 0.1, 0.2) : tensor<4000000xf32>
  %b = tcp.multiply_add(%a, 0.3, 0.3) : tensor<4000000xf32>
  %c = tcp.multiply_add(%b, 0.5, 0.7) : tensor<4000000xf32>
  tcp.return(%c)
}
"""
EACH = """\
language 2
schedule s(root: func) {
  for e in match some elementwise in root { vectorize(e) }
}
"""

OF_TWO = """\
func @f(%x: tensor<4000000xf32>) -> tensor<4000000xf32> {
  %a = tcp.multiply_add(%x, 0.1, 0.2) : tensor<4000000xf32>
  %b = tcp.multiply_add(%a, 0.3, 0.3) : tensor<4000000xf32>
  tcp.return(%b)
}
"""
EACH_ALONE = """\
language 2
schedule s(root: func) {
  let a = match one "a" in root
  let b = match one "b" in root
  let i = tile(b, [d0: 4 * lanes(f32)])
  vectorize(i)
  vectorize(a)
}
"""
SMALL = """\
func @f(%x: tensor<2048xf32>, %w: tensor<40x2048xf32>) -> tensor<40xf32> {
  %s, %l = tcp.cumsum(%x) {dim = 0} : tensor<2048xf32>, tensor<f32>
  %y = tcp.matvec(%w, %s) : tensor<40xf32>
  tcp.return(%y)
}
"""
ROWS = """\
language 2
schedule s(root: func) {
  let y = match one "y" in root
  let i = tile(y, [m: 4])
  let k = tile(y, [k: 4 * lanes(f32)])
  vectorize(k)
  hoist_accumulator(y, out_of: k)
}
"""


SOFTMAX_AND_TANH = """\
func @f(%x: tensor<256x512xf32>, %z: tensor<256x16xf32>) -> (tensor<256x512xf32>, tensor<256x16xf32>) {
  %m = tcp.reduce_max(%x) {dims = [1]} : tensor<256xf32>
  %mb = tcp.broadcast(%m) {dims = [0]} : tensor<256x512xf32>
  %s = tcp.sub(%x, %mb) : tensor<256x512xf32>
  %e = tcp.exp(%s) : tensor<256x512xf32>
  %t = tcp.reduce_sum(%e) {dims = [1]} : tensor<256xf32>
  %tb = tcp.broadcast(%t) {dims = [0]} : tensor<256x512xf32>
  %q = tcp.div(%e, %tb) : tensor<256x512xf32>
  %h = tcp.tanh(%z) : tensor<256x16xf32>
  tcp.return(%q, %h)
}
"""
TANH = """\
language 2
schedule s(root: func) {
  let h = match one "h" in root
  let i = tile(h, [d0: 1])
  vectorize(i)
}
"""
TRANSPOSED_FACTOR = """\
func @f(%x: tensor<4x512xf32>, %w: tensor<1024x512xf32>) -> tensor<4x1024xf32> {
  %t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<512x1024xf32>
  %y = tcp.matmul(%x, %t) : tensor<4x1024xf32>
  tcp.return(%y)
}
"""
BILINEAR = """\
func @f(%x: tensor<16x24xf32>, %w: tensor<24x20x16xf32>, %z: tensor<20xf32>) -> tensor<20xf32> {{
  %y = tcp.contract({factors}) {{lhs = {lhs}, rhs = {rhs}, out = ["n"]}} : tensor<20xf32>
  tcp.return(%y)
}}
"""
RECIPES = """\
language 2
import "default.tcps" as usual
schedule s(root: func) {
  usual.rest(root)
}
"""


def remarks(payload: str, schedule: str | None = None, target: str = "zen4") -> list[tcpx.Diagnostic]:
    given = None if schedule is None else tcpx.parse_schedule(schedule)
    found = tcpx.remarks_of(tcpx.parse(payload), given, target=target)
    return [remark for remark in found if remark.factor]


def mended_text(payload: str, remark: tcpx.Diagnostic, *, rtol: float, atol: float) -> str:
    """The payload as the fix of a remark says, which computes the same."""
    mended = followed(Texts(payload, None), remark)
    assert mended is not None
    given = tcpx.random_inputs(tcpx.parse(payload), seed=0)
    texts = (payload, mended.payload)
    before, after = (np.asarray(tcpx.evaluate(tcpx.parse(text), *given), np.float64) for text in texts)
    np.testing.assert_allclose(after, before, rtol=rtol, atol=atol)
    return mended.payload


def test_a_padded_tile_of_two_dims_names_both() -> None:
    """72 columns: of 40, which one tile holds, vectors that are all padding are not computed."""
    payload = PRODUCT.replace("13x", "9x").replace("40xf32", "72xf32")
    (remark,) = remarks(payload, TWO_DIMS.replace("m: 6", "m: 8"))
    assert remark.cause == "padding"
    assert remark.fix == (
        "in place of this statement of the schedule write:\nlet n, m = tile(y, [n: 48, m: 5], tail: pad)"
    )


def test_a_fold_takes_the_statements_along_that_match_what_it_replaces() -> None:
    found = [remark for remark in remarks(CONSTANT, LATER_MATCH) if remark.cause == "constant_work"]
    assert found[0].fix == (
        "leave out lines 3 to 4 of the schedule, end it with `default.whole(root)`, write "
        '`import "default.tcps" as default` after the line of its language and as its first statement write:\n'
        'constant_fold(match one "e" in root)'
    )
    texts = followed(Texts(CONSTANT, LATER_MATCH), found[0])
    assert texts is not None
    assert not remarks(texts.payload, texts.schedule)


@pytest.mark.parametrize("schedule", [None, VECTORIZED], ids=["default", "vectorized"])
@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (QUOTIENTS, "zen4 has no instruction on vectors for `floordiv(a, b)` of si64"),
        (HISTOGRAM, "elements of another array say where it reads or writes"),
    ],
    ids=["quotients", "histogram"],
)
def test_no_fix_is_said_where_none_helps(payload: str, why: str, schedule: str | None) -> None:
    (remark,) = remarks(payload, schedule)
    assert isinstance(remark.fix, Direction)
    assert remark.fix == f"no change is known that helps: {why}"


def test_a_schedule_that_is_kept_ends_with_all_that_the_default_does() -> None:
    """A softmax by its parts is one for recipes only once it is recognized."""
    texts = Texts(SOFTMAX_AND_TANH, TANH)
    (remark,) = remarks(texts.payload, texts.schedule)
    assert remark.fix == (
        "end the schedule with `default.whole(root)` and write "
        '`import "default.tcps" as default` after the line of its language'
    )
    mended = followed(texts, remark)
    assert mended is not None
    recipes = Texts(mended.payload, (mended.schedule or "").replace("default.whole", "default.rest"))
    assert _cycles(mended) < 0.9 * _cycles(recipes)
    assert _cycles(texts) / _cycles(mended) == pytest.approx(remark.factor, rel=1e-3)


def test_recipes_of_the_default_schedule_alone_are_mended_to_all_of_it() -> None:
    """A factor that is read as it is stored is not transposed."""
    texts = Texts(TRANSPOSED_FACTOR, RECIPES)
    (remark,) = remarks(texts.payload, texts.schedule)
    assert remark.fix == "in place of this statement of the schedule write:\nusual.whole(root)"
    mended = followed(texts, remark)
    assert mended is not None
    assert not remarks(mended.payload, mended.schedule)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_factors_whose_dims_are_in_another_order_are_turned(is_swapped: bool) -> None:
    """The smaller one; whatever the dims are called, and whichever stands first."""
    factors = [("%x", '["a", "b"]', '["b", "a"]'), ("%w", '["b", "n", "a"]', '["b", "n", "a"]')]
    first, second = reversed(factors) if is_swapped else factors
    payload = BILINEAR.format(factors=f"{first[0]}, {second[0]}", lhs=first[1], rhs=second[1])
    found = remarks(payload)
    turned = ", ".join(name.replace("%x", "%y.turned") for name, *_ in (first, second))
    assert [remark.fix for remark in found] == [
        "in place of this statement of the payload write:\n"
        "%y.turned = tcp.transpose(%x) {permutation = [1, 0]} : tensor<24x16xf32>\n"
        f'%y = tcp.contract({turned}) {{lhs = {first[2]}, rhs = {second[2]}, out = ["n"]}} : tensor<20xf32>'
    ]
    assert not remarks(mended_text(payload, found[0], rtol=1e-3, atol=1e-3))


def test_what_sums_start_with_is_no_factor() -> None:
    """The start has fewer elements than both factors, and is not transposed."""
    payload = BILINEAR.format(factors="%x, %w, init = %z", lhs='["a", "b"]', rhs='["b", "n", "a"]')
    (remark,) = remarks(payload)
    assert "transpose" not in (remark.fix or "")


ROW_BY_ROW = """\
func @f(%x: tensor<[N]x256xf32>, %w: tensor<256x256xf32>) -> tensor<[N]x256xf32> symbols [N] {
  %z = tcp.empty : tensor<[N]x256xf32>
  %y = gml_st.for %i in 0 to N (%d = %z) {
    %r = gml_st.materialize(%x) tile [%i, 0] [1, 256] : tensor<1x256xf32>
    %o = tcp.matmul(%r, %w) : tensor<1x256xf32>
    gml_st.yield(%o, %d) tile [%i, 0] [1, 256]
  } : tensor<[N]x256xf32>
  tcp.return(%y)
}
"""


def test_rows_of_a_loop_are_computed_at_once() -> None:
    (remark,) = remarks(ROW_BY_ROW)
    assert remark.fix == (
        "in place of this statement of the payload write:\n%y = tcp.matmul(%x, %w) : tensor<[N]x256xf32>"
    )
    assert remark.payload is not None
    assert remark.payload.line == 3
    assert 1.5 < remark.factor < 3.0
    mended = followed(Texts(ROW_BY_ROW, None), remark)
    assert mended is not None
    assert not remarks(mended.payload)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gml_st.materialize(%x) tile [%i, 0] [1, 256]", "gml_st.materialize(%d) tile [max(0, %i - 1), 0] [1, 256]"),
        ("in 0 to N", "in 0 to N step 2"),
    ],
    ids=["rows that depend on each other", "every second row"],
)
def test_rows_of_another_loop_are_not(old: str, new: str) -> None:
    """Of every second row there is no text."""
    payload = ROW_BY_ROW.replace(old, new)
    assert all(isinstance(remark.fix, Direction) for remark in remarks(payload))


RECURRENCE = """\
func @f(%h0: tensor<1024xf32>, %w: tensor<1024x1024xf32>, %x: tensor<32x1024xf32>) -> tensor<1024xf32> {
  %y = gml_st.for %t in 0 to 32 step 1 (%h = %h0) {
    %row = gml_st.materialize(%x) tile [%t, 0] [1, 1024] drop [0] : tensor<1024xf32>
    %p = tcp.vecmat(%row, %w) : tensor<1024xf32>
    %s = tcp.add(%p, %h) : tensor<1024xf32>
    %n = tcp.tanh(%s) : tensor<1024xf32>
    gml_st.yield(%n, %h) full
  } : tensor<1024xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("is_dropped", [True, False], ids=["a vector", "a matrix of one row"])
def test_products_that_need_nothing_of_the_loop_are_computed_before_it(is_dropped: bool) -> None:
    payload = RECURRENCE
    if not is_dropped:
        payload = (
            payload.replace(" drop [0]", "")
            .replace("tcp.vecmat", "tcp.matmul")
            .replace("tensor<1024xf32>", "tensor<1x1024xf32>")
        )
    remark = next(each for each in remarks(payload) if not isinstance(each.fix, Direction))
    own, all_rows = (" drop [0] : tensor<1024xf32>", '"row0"') if is_dropped else (" : tensor<1x1024xf32>", '"m"')
    head, product, _, row, *_ = str(remark.fix).splitlines()
    assert head == "in place of this statement of the payload write:"
    assert product == (
        f'%p.rows = tcp.contract(%x, %w) {{lhs = [{all_rows}, "k"], rhs = ["k", "n"], out = [{all_rows}, "n"]}} : '
        "tensor<32x1024xf32>"
    )
    assert row == f"  %p = gml_st.materialize(%p.rows) tile [%t, 0] [1, 1024]{own}"
    assert "%row" not in mended_text(payload, remark, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("old", "new"),
    [("materialize(%x)", "materialize(%x2)"), ("in 0 to 32", "in 1 to 32"), ("vecmat(%row", "vecmat(%h")],
    ids=["rows of a longer array", "not all rows", "of what the loop carries"],
)
def test_products_that_need_the_loop_stay(old: str, new: str) -> None:
    payload = RECURRENCE.replace(old, new).replace("%x: tensor<32x", "%x: tensor<32x1024xf32>, %x2: tensor<33x")
    assert all("tcp.contract" not in str(remark.fix) for remark in remarks(payload))


PACKED_IN_EACH_CALL = """\
language 2
schedule s(root: func) {
  let y = match one contract in root
  let j = tile(y, [n: 32])
  tile(y, [m: 8])
  pack(y.rhs, [k, n], at: j)
  let k = tile(y, [k: 1])
  vectorize(k)
  hoist_accumulator(y, out_of: k)
}
"""


def test_columns_at_a_distance_of_a_power_of_two_are_not_read_in_place_of_a_pack() -> None:
    """Without the `pack`, each vector reads 16 lines that fall into two sets of the first cache: 1.5 times slower."""
    payload = (
        "func @f(%x: tensor<8x512xf32>) -> tensor<8x512xf32> {\n"
        "  %w = tcp.const {value = 0.5} : tensor<512x512xf32>\n"
        '  %y = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]} : tensor<8x512xf32>\n'
        "  tcp.return(%y)\n}\n"
    )
    found = remarks(payload, PACKED_IN_EACH_CALL)
    assert "element_copy" in [remark.cause for remark in found]
    assert all("leave out" not in str(remark.fix) for remark in found)


COLUMNS = """\
func @f(%x: tensor<64x1024xf32>, %s: tensor<64xf32>) -> tensor<64xf32> {
  %y = gml_st.for %i in 0 to 1024 step 1 (%d = %s) {
    %col = gml_st.materialize(%x) tile [0, %i] [64, 1] drop [1] : tensor<64xf32>
    %n = tcp.max(%d, %col) : tensor<64xf32>
    gml_st.yield(%n, %d) full
  } : tensor<64xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize(("combine", "notes"), [("max", ()), ("add", ("the result may round differently",))])
def test_a_loop_that_combines_columns_is_a_reduction(combine: str, notes: tuple[str, ...]) -> None:
    """Measured on a Zen 4: 31 to 61 times."""
    payload = COLUMNS.replace("tcp.max", f"tcp.{combine}")
    (remark,) = remarks(payload)
    name = "sum" if combine == "add" else combine
    assert remark.fix == (
        "in place of this statement of the payload write:\n"
        f"%y = tcp.reduce_{name}(%x, init = %s) {{dims = [1]}} : tensor<64xf32>"
    )
    assert remark.notes == notes
    assert remark.factor is not None
    assert remark.factor > 25
    mended_text(payload, remark, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new"),
    [("tcp.max(%d, %col)", "tcp.sub(%d, %col)"), ("tcp.max(%d, %col)", "tcp.max(%col, %col)"), ("to 1024", "to 1023")],
    ids=["no combiner", "of one column alone", "not all columns"],
)
def test_another_loop_over_columns_is_none(old: str, new: str) -> None:
    assert all("tcp.reduce" not in str(remark.fix) for remark in remarks(COLUMNS.replace(old, new)))


BODY = """\
func @f(%x: tensor<64x96xf32>, %a: tensor<96x80xf32>, %z: tensor<64x80xf32>) -> tensor<64xf32> {
  %y = tcp.generic(%x, %a, %z) {iterators = [["b", "parallel"], ["i", "reduction"], ["j", "reduction"]],
      maps = [[b, i], [i, j], [b, j], [b]], combiner = "tcp.add"} ({ (%e: f32, %f: f32, %g: f32, %acc: f32):
    %h = tcp.const {value = 0.5} : f32
    %k = tcp.sub(%e, %h) : f32
    %l = tcp.abs(%k) : f32
    %p = tcp.mul(%g, %f) : f32
    %q = tcp.multiply_add(%l, %p, %acc) : f32
    tcp.yield(%q)
  }) : tensor<64xf32>
  tcp.return(%y)
}
"""


def test_a_body_of_products_becomes_contractions() -> None:
    """Each factor is computed alone, once for all products that it is in."""
    (remark,) = remarks(BODY)
    assert remark.fix == (
        "in place of this statement of the payload write:\n"
        "%y.0.k = tcp.sub(%x, 0.5) : tensor<64x96xf32>\n"
        "%y.0.l = tcp.abs(%y.0.k) : tensor<64x96xf32>\n"
        '%y.part1 = tcp.contract(%y.0.l, %a) {lhs = ["b", "i"], rhs = ["i", "j"], out = ["b", "j"]} : '
        "tensor<64x80xf32>\n"
        '%y = tcp.contract(%y.part1, %z) {lhs = ["b", "j"], rhs = ["b", "j"], out = ["b"]} : tensor<64xf32>'
    )
    mended_text(BODY, remark, rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("old", "new"),
    [("tcp.sub(%e, %h)", "tcp.sub(%e, %g)"), ("tcp.abs(%k)", "tcp.mul(%k, %e)")],
    ids=["of two operands", "of one operand twice"],
)
def test_another_body_does_not(old: str, new: str) -> None:
    assert all("tcp.contract" not in str(remark.fix) for remark in remarks(BODY.replace(old, new)))


STEPS_OF_ROWS = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 1.., N: 1..] {
  %y = gml_st.for %i in 1 to M (%rows = %x) {
    %z = gml_st.for %j in 1 to N (%d = %rows) {
      %above = gml_st.materialize(%d) tile [%i - 1, %j] [1, 1] : tensor<1x1xf32>
      %g = tcp.exp(%above) : tensor<1x1xf32>
      %h = tcp.mul(%g, 0.5) : tensor<1x1xf32>
      gml_st.yield(%h, %d) tile [%i, %j] [1, 1]
    } : tensor<[M]x[N]xf32>
    gml_st.yield(%z, %rows) full
  } : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""


def test_elements_of_a_row_are_computed_in_one_iteration() -> None:
    """Where rows may be empty, no loop takes steps of their length."""
    assert all(isinstance(remark.fix, Direction) for remark in remarks(STEPS_OF_ROWS))
    payload = STEPS_OF_ROWS.replace("N: 1..", "N: 2..")
    (remark,) = remarks(payload)
    assert str(remark.fix).splitlines()[1:] == [
        "%z = gml_st.for %j in 1 to N step N - 1 (%d = %rows) {",
        "  %above = gml_st.materialize(%d) tile [%i - 1, %j] [1, N - 1] : tensor<1x[N - 1]xf32>",
        "  %g = tcp.exp(%above) : tensor<1x[N - 1]xf32>",
        "  %h = tcp.mul(%g, 0.5) : tensor<1x[N - 1]xf32>",
        "  gml_st.yield(%h, %d) tile [%i, %j] [1, N - 1]",
        "} : tensor<[M]x[N]xf32>",
    ]
    mended = followed(Texts(payload, None), remark)
    assert mended is not None
    given = tcpx.random_inputs(tcpx.parse(payload), sizes={"M": 5, "N": 7})
    texts = (payload, mended.payload)
    before, after = (np.asarray(tcpx.evaluate(tcpx.parse(text), *given), np.float64) for text in texts)
    np.testing.assert_array_equal(after, before)


def test_elements_that_need_those_beside_them_are_not() -> None:
    payload = STEPS_OF_ROWS.replace("N: 1..", "N: 2..").replace("[%i - 1, %j]", "[%i, %j - 1]")
    assert all(isinstance(remark.fix, Direction) for remark in remarks(payload))


def test_one_change_that_repairs_several_statements_is_said_once() -> None:
    (remark,) = remarks(CHAIN, EACH)
    assert remark.notes == (
        "the same change repairs that `c/d01` reads a temporary from beyond the caches that another statement wrote",
    )
    assert 2.0 < remark.factor < 4.0


def test_the_factor_is_that_of_the_hint() -> None:
    """With other text than the least possible: what else the change repairs counts, too."""
    texts = Texts(PRODUCT, NOTHING)
    (remark,) = remarks(texts.payload, texts.schedule)
    assert remark.cause == "scalar"
    assert not isinstance(remark.fix, Direction)
    mended = followed(texts, remark)
    assert mended is not None
    assert not remarks(mended.payload, mended.schedule)
    cycles = [_cycles(each) for each in (texts, mended)]
    assert remark.factor == pytest.approx(cycles[0] / cycles[1], rel=1e-3)


def _cycles(texts: Texts) -> float:
    schedule, target = tcpx.parse_schedule(texts.schedule or ""), tcpx.load_target("zen4")
    run = lowered(tcpx.CompileRequest(tcpx.parse(texts.payload), schedule), target, 1, is_judged=False)
    return kernel_cycles(run.module, {}, target, 1)


def test_what_a_tuner_only_ranks_is_not_judged() -> None:
    drafted = draft(tcpx.parse(QUOTIENTS), tcpx.parse_schedule(VECTORIZED), target="zen4")
    assert not any(remark.factor for remark in drafted.run.remarks)


@pytest.mark.parametrize(
    ("sizes", "tile", "means", "fix", "least", "most"),
    [
        ("256x256x256", "m: 12", "stores and loads vectors that no register has room for", "m: 6]", 1.5, 2.5),
        (
            "512x4096x528",
            "m: 6",
            "reads parts of rows again that the second cache no longer has",
            "compile without a schedule",
            1.3,
            2.3,
        ),
    ],
    ids=["spills", "deep"],
)
def test_slow_products_are_named(sizes: str, tile: str, means: str, fix: str, least: float, most: float) -> None:
    """Measured on a Zen 4: 1.9 and 1.7 times as slow."""
    m, k, n = sizes.split("x")
    payload = (
        PRODUCT.replace("13x", f"{m}x").replace("x40x", f"x{n}x").replace("256x", f"{k}x").replace("x256x", f"x{k}x")
    )
    (remark,) = remarks(payload.replace("<256x4096", f"<{m}x4096"), TWO_DIMS.replace("m: 6", tile))
    assert means in remark.message
    assert remark.fix is not None
    assert fix in remark.fix
    assert least < remark.factor < most


@pytest.mark.parametrize("rows", [8, 9])
def test_spills_that_the_core_hides_are_none(rows: int) -> None:
    payload = PRODUCT.replace("13x", f"{9 * rows}x").replace("x40x", "x256x")
    assert not remarks(payload, TWO_DIMS.replace("m: 6", f"m: {rows}"))


def test_a_temporary_is_computed_where_it_is_read() -> None:
    (remark,) = remarks(OF_TWO, EACH_ALONE)
    assert remark.fix == (
        "in place of this statement of the schedule write, without lines 3 and 7:\n"
        "let i = tile(b, [d0: 4 * lanes(f32)])\n"
        'fuse(match one "a" in root, into: i)'
    )
    assert remark.schedule is not None
    assert remark.schedule.line == 5
    texts = followed(Texts(OF_TWO, EACH_ALONE), remark)
    assert texts is not None
    assert not remarks(texts.payload, texts.schedule)
    assert remark.factor == pytest.approx(2.0, rel=0.05)


def test_a_temporary_that_the_first_cache_holds_is_no_cause() -> None:
    """Fused, it would be computed while rows arrive: that is no reason to compute it for each of them."""
    assert not [remark for remark in remarks(SMALL, ROWS) if "beyond the caches" in remark.message]


LANES = """\
func @f(%x: tensor<8000xsi8>, %y: tensor<8000xsi8>) -> tensor<8000xsi8> {
  %z = tcp.pow(%x, %y) : tensor<8000xsi8>
  tcp.return(%z)
}
"""
OTHERWISE = """\
language 2
schedule s(root: func) {
  for y in match any matmul in root { try { tile(y, [q: 4]) } else remark y }
}
"""
SMALL_PRODUCT = PRODUCT.replace("13x", "2x").replace("256x", "4x").replace("x256", "x4")


def test_what_a_step_noted_is_a_reason_of_the_remark_on_its_nest() -> None:
    (remark,) = tcpx.remarks_of(tcpx.parse(LANES), target="zen4")
    assert remark.cause == "scalar"
    assert remark.factor > 2
    assert remark.notes == ("tcp.pow of si8 is computed lane by lane",)
    (remark,) = tcpx.remarks_of(tcpx.parse(PRODUCT), tcpx.parse_schedule(OTHERWISE), target="zen4")
    assert remark.notes == (
        "<schedule>:3:45: %y is left as it is: %y has no dim `q`, which takes a dim of tcp.matmul: m, n, k",
    )
    assert isinstance(remark.fix, str)
    assert not isinstance(remark.fix, Direction)


LAST_ROW = """\
func @f(%x: tensor<400x{k}xf32>, %w: tensor<{k}x128xf32>, %ix: tensor<3xsi64> in 0 to 400) -> tensor<{n}x128xf32> {{
  %h = tcp.matmul(%x, %w) : tensor<400x128xf32>
  %n = tcp.layer_norm(%h) {{dims = [1]}} : tensor<400x128xf32>
  %y = {part} : tensor<{n}x128xf32>
  tcp.return(%y)
}}
"""
PARTS = {
    "a slice": (1, "tcp.slice(%n) {offsets = [399, 0]}"),
    "each so many": (33, "tcp.slice(%n) {offsets = [7, 0], strides = [12, 1]}"),
    "a gather": (3, "tcp.gather(%n, %ix) {dim = 0}"),
}

TRANSPOSED = """\
func @f(%x: tensor<256x512xf32>, %w: tensor<512x512xf32>) -> tensor<32x256xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<256x512xf32>
  %s = tcp.softmax(%mm) {dim = 0} : tensor<256x512xf32>
  %t = tcp.transpose(%s) {permutation = [1, 0]} : tensor<512x256xf32>
  %y = tcp.slice(%t) {offsets = [0, 0]} : tensor<32x256xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("kind", PARTS)
def test_what_is_not_read_is_not_computed_once_the_fix_is_followed(kind: str) -> None:
    """Measured on a Zen 4 for the last row: 117 times."""
    n, part = PARTS[kind]
    payload = LAST_ROW.format(k=65, n=n, part=part)
    remark = next(each for each in remarks(payload) if each.cause == "unread")
    assert remark.factor > 5
    assert remark.required == "operations on the part that is read"
    assert str(remark.fix).startswith("in place of this statement of the payload write, without lines 2 to 3:\n%y.x = ")
    mended = mended_text(payload, remark, rtol=1e-4, atol=1e-5)
    assert "unread" not in [each.cause for each in remarks(mended)]


def test_a_transpose_before_what_is_read_is_of_that_part_too() -> None:
    """Measured on a Zen 4: 15.8 times."""
    remark = next(each for each in remarks(TRANSPOSED) if each.cause == "unread")
    assert remark.fix == (
        "in place of this statement of the payload write, without lines 2 to 4:\n"
        "%y.w = tcp.slice(%w) {offsets = [0, 0]} : tensor<512x32xf32>\n"
        "%y.mm = tcp.matmul(%x, %y.w) : tensor<256x32xf32>\n"
        "%y.s = tcp.softmax(%y.mm) {dim = 0} : tensor<256x32xf32>\n"
        "%y = tcp.transpose(%y.s) {permutation = [1, 0]} : tensor<32x256xf32>"
    )
    assert remark.factor is not None
    assert 12 < remark.factor < 20


def test_a_part_of_which_all_is_needed_elsewhere_has_no_remark() -> None:
    payload = LAST_ROW.format(k=65, n=1, part=PARTS["a slice"][1]).replace("tcp.return(%y)", "tcp.return(%y, %n)")
    payload = payload.replace("tensor<1x128xf32> {\n  %h", "(tensor<1x128xf32>, tensor<400x128xf32>) {\n  %h")
    assert "unread" not in [each.cause for each in remarks(payload)]


IN_TURN = """\
language 2
schedule s(root: func) {{
  let y = match one exp in root
  try {{
    {first}
    vectorize(j)
  }} else {{
    {other}
  }}
}}
"""
TILED = "let i, j = tile(y, [d0: 1, d1: 16])"
PLAIN = IN_TURN.format(first=TILED, other="tile(y, [d0: 4])")
RAGGED = """\
func @f(%x: tensor<300x250xf32>) -> tensor<300x250xf32> {
  %y = tcp.exp(%x) : tensor<300x250xf32>
  tcp.return(%y)
}
"""


def test_a_first_alternative_that_was_refused_is_named() -> None:
    """Each of both forms, in the words of the statement that was refused, with an argument that lets it apply."""
    for schedule in (PLAIN, PLAIN.replace("  }\n}", "  } else remark y\n}")):
        (remark,) = tcpx.remarks_of(tcpx.parse(RAGGED), tcpx.parse_schedule(schedule), target="zen4")
        assert remark.cause == "fallback"
        assert "is not computed as the schedule tries first" in remark.message
        assert remark.found is not None
        assert remark.found.startswith("it computes element by element: ")
        assert remark.notes[0].startswith("<schedule>:6:5: ")
        assert remark.notes[0].endswith(" in the loop y/d11 cannot be vectorized, which takes full static tiles")
        assert f"{TILED[:-1]}, tail: pad)" in str(remark.fix)
        texts = followed(Texts(RAGGED, schedule), remark)
        assert texts is not None
        assert "fallback" not in [each.cause for each in remarks(texts.payload, texts.schedule)]


def test_what_a_condition_refuses_is_found_by_the_steps_of_the_other_alternative() -> None:
    narrow = f'{TILED[:-1]}, tail: pad); require false "a narrow one"'
    (remark,) = tcpx.remarks_of(tcpx.parse(RAGGED), tcpx.parse_schedule(PLAIN.replace(TILED, narrow)), target="zen4")
    assert remark.cause == "fallback"
    assert (
        remark.notes[0]
        == "<schedule>:5:53: the first alternative of a `try` is refused: a narrow one, which takes false"
    )


def test_an_alternative_that_is_fast_has_no_remark() -> None:
    fast = f"{TILED[:-1]}, tail: pad)\n    vectorize(j)"
    assert not remarks(RAGGED, IN_TURN.format(first=TILED, other=fast))


def test_a_note_on_what_takes_no_time_is_none_unless_the_schedule_says_remark() -> None:
    small = LANES.replace("8000", "40")
    assert not tcpx.remarks_of(tcpx.parse(small), target="zen4")
    (note,) = tcpx.remarks_of(tcpx.parse(SMALL_PRODUCT), tcpx.parse_schedule(OTHERWISE), target="zen4")
    assert (note.message, note.factor) == ("%y is left as it is: %y has no dim `q`", 0.0)


BY_PARTS = """\
func @f(%x: tensor<64x256xsi16>, %w: tensor<256x64xsi16>) -> tensor<64x64xsi32> {
  %a = tcp.cast(%x) : tensor<64x256xsi32>
  %b = tcp.cast(%w) : tensor<256x64xsi32>
  %ab = tcp.broadcast(%a) {dims = [0, 2]} : tensor<64x64x256xsi32>
  %bt = tcp.transpose(%b) {permutation = [1, 0]} : tensor<64x256xsi32>
  %bb = tcp.broadcast(%bt) {dims = [1, 2]} : tensor<64x64x256xsi32>
  %p = tcp.mul(%ab, %bb) : tensor<64x64x256xsi32>
  %y = tcp.reduce_sum(%p) {dims = [2]} : tensor<64x64xsi32>
  tcp.return(%y)
}
"""
NARROW = """\
func @f(%x: tensor<2000x3x3xf32>, %w: tensor<2000x3x3xf32>) -> tensor<2000x3x3xf32> {
  %y = tcp.batch_matmul(%x, %w) : tensor<2000x3x3xf32>
  tcp.return(%y)
}
"""
OF_A_SYMBOL = """\
func @f(%x: tensor<[B]x256xf32>, %w: tensor<256x96xf32>) -> tensor<[B]x96xf32> symbols [B] {
  %y = tcp.matmul(%x, %w) : tensor<[B]x96xf32>
  tcp.return(%y)
}
"""


def test_a_product_of_16_bits_by_parts_is_a_dot_product() -> None:
    """Measured on a Zen 4: 4.7 times as slow."""
    (remark,) = remarks(BY_PARTS)
    assert remark.cause == "dot_product"
    assert 3.5 < remark.factor < 6.0
    mended = followed(Texts(BY_PARTS, None), remark)
    assert mended is not None
    assert not remarks(mended.payload)


def test_lanes_that_a_short_dim_leaves_out_are_padding() -> None:
    (remark,) = remarks(NARROW)
    assert remark.cause == "padding"
    assert remark.found == "576,000 operations where 108,000 are asked for"
    assert str(remark.fix).startswith("let vectors lie along a dim that has as many elements")


def test_no_multiple_is_asked_of_a_size_that_is_less() -> None:
    (remark,) = tcpx.remarks_of(tcpx.parse(OF_A_SYMBOL), sizes={"B": 1}, target="zen4")
    assert remark.cause == "padding"
    assert remark.fix == "write the size of `B` in place of the symbol"


def test_hints_of_large_payloads_are_tried_on_the_part_that_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = remarks(BY_PARTS)
    for module in (cuts, trials):
        monkeypatch.setattr(module, "MOST_SCHEDULED_AGAIN", 3)
    (remark,) = remarks(BY_PARTS)
    assert remark.fix == whole.fix
    assert remark.factor == pytest.approx(whole.factor, rel=0.3)
    (remark,) = remarks(CONSTANT.replace("256x256", "300x300").replace("8x256", "8x300"))
    assert isinstance(remark.fix, Direction)
    assert remark.notes == ("whether this helps was not tried",)


def test_padding_of_half_a_product_is_named() -> None:
    """Measured on a Zen 4: 1.3 times as slow as with the fix."""
    payload = PRODUCT.replace("13x", "64x").replace("x40x", "x130x")
    (remark,) = remarks(payload, TWO_DIMS.replace("m: 6", "m: 4"))
    assert remark.cause == "padding"
    assert 1.25 < remark.factor < 1.4
    assert remark.fix is not None
    assert "tile(y, [n: 48, m: 4]" in remark.fix


IN_MEMORY = """\
language 2
schedule s(root: func) {
  let y = match one matmul in root
  let n, m = tile(y, [n: 32, m: 8], tail: pad)
  let k = tile(y, [k: 1])
  vectorize(k)
}
"""
SYMBOLIC_COLUMNS = """\
func @f(%x: tensor<256x256xf32>, %w: tensor<256x[N]xf32>) -> tensor<256x[N]xf32> symbols [N: 32.. multiple_of 32] {
  %y = tcp.matmul(%x, %w) : tensor<256x[N]xf32>
  tcp.return(%y)
}
"""
BYTES = """\
func @f(%x: tensor<{m}xsi8>, %w: tensor<{n}xsi8>) -> tensor<{out}xsi32> {{
  %y = tcp.contract(%x, %w) {{lhs = ["a", "k"], rhs = {rhs}, out = ["a", "b"]}} : tensor<{out}xsi32>
  tcp.return(%y)
}}
"""
INTERLEAVED = """\
func @f(%x: tensor<100000xf32>, %z: tensor<100000xf32>) -> tensor<200000xf32> {
  %a = tcp.reshape(%x) : tensor<100000x1xf32>
  %b = tcp.reshape(%z) : tensor<100000x1xf32>
  %c = tcp.concat(%a, %b) {dim = 1} : tensor<100000x2xf32>
  %y = tcp.reshape(%c) : tensor<200000xf32>
  tcp.return(%y)
}
"""


def test_where_nothing_of_a_schedule_is_left_the_hint_is_to_give_none() -> None:
    """The sequence `rest` of the default schedule is a part of it: transposes are cancelled before that."""
    (remark,) = remarks(LARGEST, ALONG_COLUMNS)
    assert remark.fix == "compile without a schedule"
    assert followed(Texts(LARGEST, ALONG_COLUMNS), remark) == Texts(LARGEST, None)
    assert not remarks(LARGEST)


def test_a_line_that_a_schedule_lacks_is_a_smaller_change_than_the_default_schedule() -> None:
    static = PRODUCT.replace("13x", "256x").replace("x40x", "x256x")
    assert not remarks(static, IN_MEMORY)  # gcc keeps the sums in registers where it knows how far rows are apart
    payload = SYMBOLIC_COLUMNS
    (remark,) = remarks(payload, IN_MEMORY)
    assert remark.fix == "end the schedule with `hoist_accumulator(y, out_of: k)`"
    texts = followed(Texts(payload, IN_MEMORY), remark)
    assert texts is not None
    assert not remarks(texts.payload, texts.schedule)


def test_sums_that_correct_dot_products_are_no_statement_of_the_payload() -> None:
    """A target whose dot products multiply unsigned integers needs them; nobody can write another payload for that."""
    payload = BYTES.format(m="128x256", n="96x256", out="128x96", rhs='["b", "k"]')
    assert not remarks(payload, target="x86_avx512")


def test_without_a_schedule_no_hint_is_about_a_statement_of_one() -> None:
    payload = BYTES.format(m="1x1024", n="1024x1024", out="1x1024", rhs='["k", "b"]')
    found = remarks(payload, target="x86_avx512")
    assert {remark.cause for remark in found} == {"dot_product", "recomputation"}
    for remark in found:
        assert remark.fix is not None
        assert remark.fix.startswith("no change is known that helps: the default schedule")


CONVOLUTION = """\
func @f(%x: tensor<1x{c}x{n}x{n}xf32>, %w: tensor<64x{c}x3x3xf32>) -> tensor<1x64x{n}x{n}xf32> {{
  %y = tcp.convolution(%x, %w) {{low = [1, 1], high = [1, 1]}} : tensor<1x64x{n}x{n}xf32>
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize(("c", "n"), [(64, 28), (17, 27)])
def test_taps_in_the_padding_are_no_masks_where_the_operand_is_padded_before(c: int, n: int) -> None:
    """Measured on a Zen 4 with 64 channels: 1.09 ms and 0.55 ms. The masks, which iterations share, are the padding."""
    payload = CONVOLUTION.format(c=c, n=n)
    (remark,) = remarks(payload)
    assert remark.cause == "padding"
    assert 1.3 < remark.factor < 2.2
    assert remark.notes == (
        "weights that are infinite, or no numbers, then give NaN where windows reach into the padding",
    )
    assert not remarks(mended_text(payload, remark, rtol=1e-4, atol=1e-4))


def test_copies_of_two_statements_at_a_place_count_together() -> None:
    """Without each of them a kernel would be 1.2 times as fast; without both, 1.4 times."""
    (remark,) = remarks(INTERLEAVED)
    assert remark.cause == "element_copy"
    assert 1.35 < remark.factor < 1.6
    assert remark.notes == ("the same change repairs that `b/copy/d0` copies element by element",)

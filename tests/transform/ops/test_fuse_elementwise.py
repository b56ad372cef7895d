"""fuse_elementwise and clusters: which operations become one, and what that computes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tcpx
from tcpx.interp.clusters import clusters, row_clusters
from tcpx.payload.ops.generic import Generic
from tcpx.payload.text.parser import parse
from tests.transform.payloads import check, check_kernels, refusal, run

BIAS = """\
func @bias(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xsi32>) symbols [M, N] {
  %two = tcp.const {value = 2.0} : f32
  %bias = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %twice = tcp.broadcast(%two) {dims = []} : tensor<[M]x[N]xf32>
  %s = tcp.add(%x, %bias) : tensor<[M]x[N]xf32>
  %zero = tcp.fill {value = 0.0} : tensor<[M]x[N]xf32>
  %t = tcp.max(%s, %zero) : tensor<[M]x[N]xf32>
  %u = tcp.mul(%t, %twice) : tensor<[M]x[N]xf32>
  %v = tcp.cast(%s) : tensor<[M]x[N]xsi32>
  tcp.return(%u, %v)
}
"""
ROWS = """\
func @rows(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]xf32>) symbols [M, N] {
  %e = tcp.sub(%x, %y) : tensor<[M]x[N]xf32>
  %a = tcp.mul(%y, %y) : tensor<[M]x[N]xf32>
  %s = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  %h = tcp.neg(%s) : tensor<[M]xf32>
  %spread = tcp.broadcast(%h) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.mul(%e, %spread) : tensor<[M]x[N]xf32>
  %r = tcp.add(%d, %a) : tensor<[M]x[N]xf32>
  tcp.return(%r, %h)
}
"""
MIRROR = """\
func @mirror(%x: tensor<[N]x[N]xf32>) -> tensor<[N]x[N]xf32> symbols [N] {
  %p = tcp.add(%x, %x) : tensor<[N]x[N]xf32>
  %t = tcp.transpose(%p) {permutation = [1, 0]} : tensor<[N]x[N]xf32>
  %r = tcp.mul(%t, %x) : tensor<[N]x[N]xf32>
  tcp.return(%r)
}
"""
TURNED = """\
func @turned(%x: tensor<[N]x[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %p = tcp.add(%x, %x) : tensor<[N]x[N]xf32>
  %r = tcp.generic(%p, %p) {iterators = [["a", "parallel"], ["b", "parallel"]], maps = [[b, a], [a, b], [a, b]]} ({
    (%e: f32, %f: f32):
    %v = tcp.sub(%e, %f) : f32
    tcp.yield(%v)
  }) : tensor<[N]x[N]xf32>
  %q = tcp.abs(%r) : tensor<[N]x[N]xf32>
  %s = tcp.reduce_sum(%q) {dims = [1]} : tensor<[N]xf32>
  tcp.return(%s)
}
"""
PLACES = """\
func @places(%x: tensor<[M]x[N]xsi32>, %q: tensor<[N]x[M]xsi32>) -> (tensor<[M]x[N]xsi32>, tensor<[M]x[N]xsi1>)
    symbols [M, N: 0..64] {
  %i = tcp.iota {dim = 1} : tensor<[M]x[N]xsi32>
  %s = tcp.add(%x, %i) : tensor<[M]x[N]xsi32>
  %t = tcp.transpose(%q) {permutation = [1, 0]} : tensor<[M]x[N]xsi32>
  %c = tcp.less(%s, %t) : tensor<[M]x[N]xsi1>
  tcp.return(%s, %c)
}
""".replace("si1>", "i1>")
CLAMPED = """\
func @clamped(%x: tensor<[M]xsi64>, %v: tensor<[M]xf32>, %z: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[M]xf32>)
    symbols [M: 0.., N: 1..] {
  %zero = tcp.fill {value = 0} : tensor<[M]xsi64>
  %last = tcp.fill {value = N - 1} : tensor<[M]xsi64>
  %s = tcp.add(%x, %x) : tensor<[M]xsi64>
  %a = tcp.max(%s, %zero) : tensor<[M]xsi64>
  %c = tcp.min(%a, %last) : tensor<[M]xsi64>
  %g = tcp.gather(%z, %c) {dim = 0} : tensor<[M]xf32>
  %r = tcp.scatter_add(%v, %c, init = %z) {dim = 0} : tensor<[N]xf32>
  tcp.return(%r, %g)
}
"""
ALL = "let all = match some elementwise in root\n"
NESTS = """\
for ops in clusters(match any op in root where not scheduled) {
  let e = fuse_elementwise(ops)
  for d in e.dims("parallel") { tile(e, [d: 5]) }
}
"""
VECTORS = """\
for ops in clusters(match any op in root) {
  let e = fuse_elementwise(ops)
  let n = innermost(e.dims("parallel"))
  for d in without(e.dims("parallel"), [n]) { tile(e, [d: 1]) }
  let i = tile(e, [n: 2 * lanes(e)], tail: pad)
  vectorize(i)
}
"""
CASES = {
    "one": (BIAS, ALL + "fuse_elementwise(all)"),
    "tiled": (BIAS, ALL + "let f = fuse_elementwise(all)\ntile(f, [d1: 3, d0: 2])"),
    "nests": (ROWS, NESTS),
    "transposed operand": (PLACES, NESTS),
    "vectors": (BIAS, VECTORS),
    "vectors of rows": (ROWS, VECTORS),
    "vectors of positions": (PLACES, VECTORS),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_stay(name: str) -> None:
    check(*CASES[name])


def test_compiles() -> None:
    check_kernels(CASES, [{"M": 3, "N": 37}, {"M": 1, "N": 1}, {"M": 0, "N": 5}, {"M": 2, "N": 0}])


@pytest.mark.parametrize("last", ["N - 1", "4"])
@pytest.mark.parametrize(
    "later", ["", "\ntile(f, [d0: 3])", "\nlet i = tile(r, [d0: 2])\nfuse(f, into: i, keep: true)"]
)
def test_indices_stay_in_the_range_that_the_payload_proves(last: str, later: str) -> None:
    """What is before the bounds, a sum that may wrap, has no range of its own."""
    payload = CLAMPED.replace("N - 1", last).replace("N: 1..", "N: 1.." if last == "N - 1" else "N: 5..")
    chain = "fuse_elementwise([s, a, c])" if last == "N - 1" else "fuse_elementwise([s, zero, a, c])"
    names = "".join(f'let {name} = match one "{name}" in root\n' for name in ("s", "zero", "a", "c", "r"))
    sizes = [{"M": 7, "N": 5}, {"M": 0, "N": 17}, {"M": 13, "N": 6}]
    done = check(payload, f"{names}let f = {chain}{later}", sizes)
    assert len([op for op in done.module.main.walk() if isinstance(op, Generic)]) == 1


def test_handles_of_all_denote_the_one() -> None:
    text = 'let s = match one "s" in root\nlet u = match one "u" in root\n' + ALL + "let f = fuse_elementwise(all)\n"
    done = check(BIAS, text + "assert(f == s and f == u)\ntile(s, [d0: 2])")
    made = [op for op in done.module.main.walk() if isinstance(op, Generic)]
    assert [len(op.results) for op in made] == [2]
    assert [inner.opcode for inner in made[0].regions[0].ops[:-1]] == [
        "tcp.add",
        "tcp.const",
        "tcp.max",
        "tcp.const",
        "tcp.mul",
        "tcp.cast",
    ]


def found(payload: str) -> list[str]:
    """The names of the operations of each cluster."""
    ops = parse(payload).main.body.ops
    return sorted(" ".join(op.name for op in together) for together in clusters(ops))


def test_clusters_end_where_something_else_is_between() -> None:
    assert found(BIAS) == ["s t u v"]
    assert found(ROWS) == ["a d r", "e", "h"]
    assert found(MIRROR) == ["p", "r"]
    assert found(PLACES) == ["i s c"]
    assert found(TURNED) == ["p", "r q"]


def test_rows_do_not_read_columns() -> None:
    ops = parse(TURNED).main.body.ops
    assert [[op.name for op in together] for together in row_clusters(ops)] == [["r", "q", "s"]]


def test_clusters_are_of_those_that_are_asked_for() -> None:
    run(BIAS, 'let ops = match any op in root where it.name != "t"\nassert(len(clusters(ops)) == 2)')


def test_a_transposed_reader_is_refused() -> None:
    diagnostic = refusal(
        MIRROR, 'let p = match one "p" in root\nlet r = match one "r" in root\nfuse_elementwise([p, r])'
    )
    assert diagnostic.message == "%t (tcp.transpose): %t reads %p at other places than those that it computes"
    assert diagnostic.found == "element [d0, d1] is computed, element [d1, d0] is read"


def test_a_reduction_on_the_way_is_refused() -> None:
    diagnostic = refusal(ROWS, 'let e = match one "e" in root\nlet d = match one "d" in root\nfuse_elementwise([e, d])')
    assert diagnostic.message == "%s is not computed element by element"
    assert diagnostic.required == "elementwise operations, and nothing else on the paths between them"
    assert diagnostic.found == "tcp.reduce_sum"


def test_shapes_that_differ_are_refused() -> None:
    diagnostic = refusal(ROWS, 'let h = match one "h" in root\nlet a = match one "a" in root\nfuse_elementwise([h, a])')
    assert diagnostic.message == "%a and %h have different shapes"
    assert diagnostic.required == "operations of one shape: tensor<[M]xf32>"


def test_clusters_of_copies_are_apart() -> None:
    """A step on a cluster of one branch leaves the other branch alone; the chain there is another one."""
    text = """
let all = match any op in root where it.name != "bias" and it.name != "twice" and it.name != "zero"
let s   = match one "s" in root
specialize all when size(s.d0) >= 2 { } else { }
for ops in clusters(match any op in root where not scheduled) {
  let e = fuse_elementwise(ops)
  let i, j = tile(e, [d0: 1, d1: 8], tail: pad)
  vectorize(i)
}
"""
    check_kernels({"copies": (BIAS, text)}, [{"M": 1, "N": 37}, {"M": 3, "N": 9}])


COUNTED = """\
func @counted(%x: tensor<[M]x[N]xDTYPE>) -> tensor<[M]x[N]xDTYPE> symbols [M: 0.., N: 0..] {
  %r = tcp.iota {dim = 0} : tensor<[M]xsi64>
  %past = tcp.fill {value = N - M} : tensor<[M]xsi64>
  %q = tcp.add(%r, %past) : tensor<[M]xsi64>
  %column = tcp.reshape(%q) : tensor<[M]x1xsi64>
  %flat = tcp.reshape(%column) : tensor<[M]xsi64>
  %c = tcp.iota {dim = 0} : tensor<[N]xsi64>
  %t = tcp.less(broadcast(%flat, [0]), broadcast(%c, [1])) : tensor<[M]x[N]xi1>
  %y = tcp.select(%t, -inf, %x) : tensor<[M]x[N]xDTYPE>
  tcp.return(%y)
}
"""
"""A causal mask as exporters write it: positions of rows that are reshaped, and of columns."""


def test_positions_are_computed_and_not_read() -> None:
    body = "let e = fuse_elementwise([match one less in root, match one select in root])\n"
    done = check(COUNTED.replace("DTYPE", "f32"), body)
    assert "tcp.iota" not in done.module.text()
    assert "positions = [d0, d1], origins = [N - M, 0]" in done.module.text()


def test_indices_that_data_choose_are_read() -> None:
    """The operand is an integer, and no position; nor is what a product of positions is."""
    text = """\
func @read(%x: tensor<[N]xsi64>) -> tensor<[N]x[N]xi1> symbols [N: 0..] {
  %r = tcp.iota {dim = 0} : tensor<[N]xsi64>
  %s = tcp.mul(%r, %r) : tensor<[N]xsi64>
  %a = tcp.less(broadcast(%x, [0]), broadcast(%s, [1])) : tensor<[N]x[N]xi1>
  tcp.return(%a)
}
"""
    done = check(text, "let e = fuse_elementwise([match one less in root])\n")
    assert "positions" not in done.module.text()


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_a_causal_mask_has_as_many_lanes_as_scores(dtype: str) -> None:
    """8 on AVX2, which has 4 of 64 bits."""
    source = tcpx.emit(tcpx.parse(COUNTED.replace("DTYPE", dtype)), target="x86_avx2")
    assert not [remark for remark in source.remarks if not remark.factor]
    assert "_mm256_cmpgt_epi32" in source.c_source
    assert "cmpgt_epi64" not in source.c_source
    assert "_buf" not in source.c_source


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 7), (17, 33), (9, 4)])
def test_a_causal_mask_beside_numpy(m: int, n: int) -> None:
    x = np.random.default_rng(0).standard_normal((m, n)).astype(np.float16)
    x[0, 0] = np.nan
    kept = np.arange(n) <= np.arange(m)[:, None] + n - m
    np.testing.assert_array_equal(_masked()(x), np.where(kept, x, np.float16(-np.inf)))


@cache
def _masked() -> tcpx.Kernel:
    return tcpx.compile(tcpx.parse(COUNTED.replace("DTYPE", "f16")))


def test_only_positions() -> None:
    """What counts, and what only moves or shifts that; not what data are in."""
    body = """\
let counting = match any op in root where only_positions(it)
require len(match any iota in root where not only_positions(it)) == 0
require contains(counting, match one add in root) and not contains(counting, match one less in root)
"""
    check(COUNTED.replace("DTYPE", "f32"), body)


def test_a_branch_behind_which_nothing_stands() -> None:
    payload = """\
func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = gml_st.for %i in 0 to 3 step 1 (%d = %a) {
    %p = tcp.exp(%d) : tensor<4xf32>
    gml_st.if %i == 1 {
      %q = tcp.neg(%p) : tensor<4xf32>
      gml_st.yield(%q, %d) full
    }
  } : tensor<4xf32>
  tcp.return(%y)
}
"""
    error = refusal(payload, 'let y = fuse_elementwise([match one "p" in root, match one "q" in root])')
    assert error.message == "gml_st.if is not computed element by element"

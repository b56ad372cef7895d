"""split_reduction: partial results, and a second reduction that combines them."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.gml_st import Loop
from tests.tolerance import gamma
from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, ROWS, SOFTMAX, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (3, 5, 16))
)
BODIES = {
    "parts": "split_reduction(mm, k, parts: 3)",
    "parts at once": "split_reduction(mm, k, parts: 3, parallel: true)",
    "side by side": "split_reduction(mm, k, factor: 4)",
    "parts, then side by side": "split_reduction(mm, k, parts: 2)\nsplit_reduction(mm, k, factor: 4)",
    "parts of parts": "split_reduction(mm, k, parts: 2)\nsplit_reduction(mm, k, parts: 2)",
    "parts, then tiled": "split_reduction(mm, k, parts: 2, parallel: true)\n"
    "let j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet q = tile(mm, [k: 1])\nvectorize(i)\n"
    "hoist_accumulator(mm, out_of: q)",
    "tiled, then parts": "let i = tile(mm, [m: 6])\nsplit_reduction(mm, k, parts: 2)",
    "inside a reduction loop": "tile(mm, [k: 3])\nsplit_reduction(mm, k, parts: 2)",
    "peeled": "let l, c = split_reduction(mm, k, factor: 4)\npeel(l)",
    "the combination is tiled": "let l, c = split_reduction(mm, k, parts: 3)\ntile(c, [d1: 4, d2: 8], tail: pad)",
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", BODIES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + BODIES[name], SIZES)


INIT = """\
func @added(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %c: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.matmul(%x, %w, init = %c) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
GREATEST = """\
func @greatest(%x: tensor<[M]x[K]xf32>) -> tensor<[M]xf32> symbols [M: 0.., K: 0..] {
  %mm = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%mm)
}
"""


@pytest.mark.parametrize("way", ["parts: 3, parallel: true", "factor: 4"])
def test_the_combination_takes_over_the_first_value(way: str) -> None:
    check(INIT, MM + f"let l, c = split_reduction(mm, k, {way})", SIZES)


FOUND = """\
func @found(%x: tensor<[M]x[N]x{dtype}>) -> (tensor<[M]x{dtype}>, tensor<[M]x{index}>) symbols [M: 0.., N: 1..{most}] {
  %mm, %i = tcp.reduce_argmax(%x) {dims = [1]} : tensor<[M]x{dtype}>, tensor<[M]x{index}>
  tcp.return(%mm, %i)
}
"""


@pytest.mark.parametrize("factor", [4, 64])
@pytest.mark.parametrize(
    ("dtype", "index", "most"), [("f32", "si64", ""), ("si8", "si64", "99"), ("f64", "ui32", "99")]
)
def test_several_results(factor: int, dtype: str, index: str, most: str) -> None:
    text = FOUND.replace("{dtype}", dtype).replace("{index}", index).replace("{most}", most)
    steps = f"{MM}let l, c = split_reduction(mm, d1, factor: {factor})"
    check(text, steps, ({"M": 3, "N": 1}, {"M": 2, "N": 4}, {"M": 5, "N": 63}, {"M": 0, "N": 7}))


def test_rows_of_what_nothing_goes_before() -> None:
    """The first of equals is an element, and no padding."""
    text = FOUND.replace("{dtype}", "f32").replace("{index}", "si64").replace("{most}", "")
    low, nan = np.full(13, -np.inf, np.float32), np.full(13, np.nan, np.float32)
    x = np.stack([low, nan, np.r_[low[:9], nan[:4]], np.r_[low[:12], np.float32(1)]])
    program = tcpx.parse_schedule(
        f"language 1\nschedule s(root: func) {{\n{MM}split_reduction(mm, d1, factor: 8)\n}}\n"
    )
    for schedule in (None, program):
        _, indices = tcpx.compile(tcpx.parse(text), schedule)(x)
        np.testing.assert_array_equal(indices, [0, 0, 9, 12])


def test_positions_of_two_dims_with_sizes_are_refused() -> None:
    text = """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<si64> symbols [M: 1.., N: 1..] {
  %mm, %i = tcp.reduce_argmin(%x) {dims = [0, 1]} : tensor<f32>, tensor<si64>
  tcp.return(%i)
}
"""
    error = refusal(text, f"{MM}tile(mm, [d0: 1])\nsplit_reduction(mm, d1, factor: 8)")
    assert error.message == "%mm counts its elements by sizes, which no body can with `d1` as a parallel dim"
    assert error.found == "N*d0 + d1"


def test_indices_that_may_wrap_around_are_not_padded() -> None:
    text = FOUND.replace("{dtype}", "f32").replace("{index}", "ui8").replace("{most}", "200")
    error = refusal(text, f"{MM}split_reduction(mm, d1, factor: 8)")
    assert error.message == "`d1` of %mm cannot be padded to whole rounds of 8"


@pytest.mark.parametrize("way", ["parts: 3", "factor: 4"])
def test_any_combiner(way: str) -> None:
    done = check(GREATEST, MM + f"let l, c = split_reduction(mm, d1, {way})", SIZES)
    assert [op.opcode for op in done.module.walk()].count("tcp.reduce_max") == 2
    sums = 'let s = match one "s" in root\n'
    check(ROWS, sums + f"let l, c = split_reduction(s, d1, {way})", SIZES)


@pytest.mark.parametrize("way", ["parts: 2", "parts: 3, parallel: true"])
def test_a_part_without_iterations_reads_nothing(way: str) -> None:
    payload = """func @f(%x: tensor<[3*K]xf32>, %w: tensor<[K]xf32>) -> tensor<[K]xf32> symbols [K: 0..] {
      %y = tcp.generic(%x, %w) {iterators = [["i", "parallel"], ["w", "reduction"]], maps = [[i + 2*w], [w], [i]],
                                combiner = "tcp.add"} ({ (%a: f32, %b: f32, %acc: f32):
        %p = tcp.mul(%a, %b) : f32
        %s = tcp.add(%acc, %p) : f32
        tcp.yield(%s) }) : tensor<[K]xf32>
      tcp.return(%y)
    }"""
    body = f'let y = match one "y" in root\nsplit_reduction(y, w, {way})'
    check(payload, body, [{"K": k} for k in (0, 1, 2, 5)], exact=False)
    found = refusal(payload, body.replace(way, "factor: 4"))
    assert found.found == "K elements, and `in0` without `w` alone: i + 2*w"


def test_the_partial_product_keeps_its_class_and_its_handle() -> None:
    done = check(RELU, MM + "let l, c = split_reduction(mm, k, parts: 2)\nlet j = tile(mm, [n: 8])", SIZES)
    assert [op.opcode for op in done.module.walk()].count("tcp.matmul") == 1
    names = [op.name for op in done.module.walk() if isinstance(op, Loop)]
    assert names == ["mm/k1", "mm/n1"]


@pytest.mark.parametrize(
    ("sizes", "slices"),
    [
        ({"M": 4, "N": 8}, "2x4x8xf32"),
        ({"M": 3, "N": 5}, "2x7x5xf32"),
        ({"M": 3, "N": 40}, "2x4x40xf32"),
        ({}, "2x[M + 16]x[N]xf32"),
    ],
)
def test_parts_that_run_at_once_share_no_cache_line(sizes: Sizes, slices: str) -> None:
    payload = INIT
    for name, extent in sizes.items():
        payload = payload.replace(f"[{name}]", str(extent)).replace(f"{name}: 0.., ", "").replace(f", {name}: 0..", "")
    body = MM + "split_reduction(mm, k, parts: 2, parallel: true)"
    assert f"tcp.empty : tensor<{slices}>" in check(payload, body, SIZES).module.text()


def test_what_is_computed_from_the_sum_is_fused_with_the_combination() -> None:
    body = "let l, c = split_reduction(mm, k, parts: 2)\nlet i = tile(c, [d1: 4])\nfuse(epilogue(c), into: i)"
    check(RELU, MM + body, SIZES)


DOT = """\
func @dot(%x: tensor<[K]xf32>, %y: tensor<[K]xf32>) -> tensor<f32> symbols [K: 0..] {
  %mm = tcp.contract(%x, %y) {lhs = ["k"], rhs = ["k"], out = []} : tensor<f32>
  tcp.return(%mm)
}
"""
ACCUMULATORS = """\
language 1
schedule s(root: func) {
  let mm   = match one "mm" in root
  let p, c = split_reduction(mm, k, parts: threads, parallel: true)
  let r, d = split_reduction(mm, k, factor: 4 * lanes(f32))
  peel(r)
  vectorize(p)
  hoist_accumulator(mm, out_of: r)
}
"""


@pytest.mark.parametrize("target", ["x86_avx512", "x86_avx2", "generic"])
def test_a_dot_product_on_two_threads_with_four_accumulators(target: str) -> None:
    kernel = tcpx.compile(tcpx.parse(DOT), tcpx.parse_schedule(ACCUMULATORS), target=target, threads=2)
    assert "#pragma omp parallel for num_threads(2)" in kernel.c_source
    random = np.random.default_rng(1)
    for extent in (0, 1, 2, 63, 64, 65, 1009, 300_007):
        x, y = (random.standard_normal(extent).astype(np.float32) for _ in range(2))
        wide = x.astype(np.float64), y.astype(np.float64)
        bound = gamma(extent + 1) * float(np.abs(wide[0]) @ np.abs(wide[1]))
        found = np.asarray(kernel(x, y), dtype=np.float64)
        assert abs(found - wide[0] @ wide[1]) <= bound


FUSED = """\
func @f(%x: tensor<[K]xf32>) -> tensor<f32> symbols [K] {
  %mm = tcp.generic(%x) {iterators = [["k", "reduction"]], maps = [[k], []], combiner = "tcp.add"} ({ (%a: f32, %acc: f32):
    %zero = tcp.const {value = 0.0} : f32
    %positive = tcp.less(%zero, %a) : i1
    %s = tcp.fma(%a, %a, %acc) : f32
    %next = tcp.select(%positive, %s, %acc) : f32
    tcp.yield(%next)
  }) : tensor<f32>
  tcp.return(%mm)
}
"""  # noqa: E501
WITHOUT_K = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N, K] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["n"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""


@pytest.mark.parametrize(
    ("payload", "body", "message"),
    [
        (RELU, "split_reduction(mm, k)", "a reduction is split into `parts` or by a `factor`"),
        (RELU, "split_reduction(mm, k, parts: 2, factor: 2)", "a reduction is split into `parts` or by a `factor`"),
        (RELU, "split_reduction(mm, m, parts: 2)", "`m` is not a reduction dim of %mm"),
        (RELU, "split_reduction(mm, k, parts: 1)", "`k` of %mm cannot be split into this many partial results"),
        (RELU, "split_reduction(mm, k, factor: 5000)", "`k` of %mm cannot be split into this many partial results"),
        (RELU, "split_reduction(mm, k, factor: 4, parallel: true)",
         "the rounds of `k` add into one set of accumulators and cannot run at once"),
        (RELU, "let i, j = tile(mm, [m: 6, n: 8], tail: pad)\ntile(mm, [k: 1])\nvectorize(j)\n"
         "split_reduction(mm, k, parts: 2)", "%mm is not on tensors any more"),
        (WITHOUT_K, "split_reduction(mm, k, factor: 4)", "`k` of %mm cannot be padded to whole rounds of 4"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str) -> None:
    assert refusal(payload, MM + body).message == message


def test_a_body_that_joins_its_accumulator_by_fma_and_select() -> None:
    check(FUSED, 'let mm = match one "mm" in root\nsplit_reduction(mm, k, parts: 3)', [{"K": k} for k in (0, 1, 7, 31)])


def test_a_composite_operation_is_decomposed_first() -> None:
    body = 'let y = match one "y" in root\nsplit_reduction(y, d1, parts: 2)'
    assert refusal(SOFTMAX, body).message == "the reduction of %y cannot be split"


@pytest.mark.parametrize("way", ["parts: 3", "factor: 4"])
def test_names_of_the_payload_are_not_taken_again(way: str) -> None:
    payload = GREATEST.replace("%x", "%acc").replace(
        "[M]xf32>\n  tcp", "[M]xf32>\n  %e0 = tcp.add(%mm, %mm) : tensor<[M]xf32>\n  tcp"
    )
    body = f"let l, c = split_reduction(mm, d1, {way})\nsplit_reduction(c, d0, factor: 2)"
    check(payload, MM + body.replace("d0", "d1" if "factor" in way else "d0"), SIZES)


TRANSPOSED = """\
func @f(%a: tensor<3x70xf32>, %b: tensor<70x3xf32>) -> tensor<f32> {
  %t = tcp.transpose(%b) {permutation = [1, 0]} : tensor<3x70xf32>
  %r = tcp.contract(%a, %t) {lhs = ["a", "c"], rhs = ["a", "c"], out = []} : tensor<f32>
  tcp.return(%r)
}
"""


def test_a_transposed_operand_is_read_once() -> None:
    """The tile that was there before it was padded is gone: it has no static size, and was not vectorized."""
    body = (
        "let mm = match one contract in root\nlet t = match one transpose in root\ntile(mm, [a: 1])\n"
        "let kk, _ = split_reduction(mm, mm.c, factor: 64)\npeel(kk)\nrequire len(t) == 2\nvectorize(kk)"
    )
    done = check(TRANSPOSED, body, exact=False)
    assert [op.opcode for op in done.module.walk()].count("tcp.transpose") == 2


@pytest.mark.parametrize("way", ["parts: 2", "factor: 4", "parts: 2, parallel: true"])
def test_a_sequential_dim_is_no_reduction_dim(way: str) -> None:
    text = """func @f(%x: tensor<[M]x[N]xDTYPE>) -> tensor<[M]x[N]xDTYPE> symbols [M, N] {
      %c, %t = tcp.cumsum(%x) {dim = 1} : tensor<[M]x[N]xDTYPE>, tensor<[M]xDTYPE>
      tcp.return(%c)
    }"""
    for dtype, more in (("f32", ", reassociate: true"), ("si32", "")):
        body = f"let c = match one cumsum in root\nsplit_reduction(c, d1, {way})"
        found = refusal(text.replace("DTYPE", dtype), body)
        assert found.message == "`d1` of %c is a sequential dim: each iteration goes on from the one before it"
        assert found.required == "a reduction dim: it has none"
        assert found.found == "`d1` is sequential"
        assert found.fix == f"`scan_in_lanes(c, d1{more})`, which combines its elements in groups"

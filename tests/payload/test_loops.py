"""Loops with destinations: a tiled matmul, carried values, conditionals, and what the evaluator refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcpx.payload.diagnostics import ArgumentError, VerifyError
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import Loop, Parallel
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.subsets import Tile
from tcpx.payload.text.parser import load, parse
from tests.comparison import structurally_equal

M = Symbol("M")
SAMPLES = Path(__file__).parent / "samples"

REDUCTION_OUTSIDE = """
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %zero = tcp.fill {value = 0.0} : tensor<[M]x[N]xf32>
  %r = gml_st.for %k in 0 to K step 3 (%ck = %zero) {
    %rk = gml_st.parallel %n in 0 to N step 5 (%cn = %ck) {
      %cols = gml_st.materialize(%cn) tile [0, %n] [M, min(5, N - %n)] : tensor<[M]x[min(5, N - %n)]xf32>
      %rn = gml_st.for %m in 0 to M step 4 (%cm = %cols) {
        %xt = gml_st.materialize(%x) tile [%m, %k] [min(4, M - %m), min(3, K - %k)]
          : tensor<[min(4, M - %m)]x[min(3, K - %k)]xf32>
        %wt = gml_st.materialize(%w) tile [%k, %n] [min(3, K - %k), min(5, N - %n)]
          : tensor<[min(3, K - %k)]x[min(5, N - %n)]xf32>
        %ct = gml_st.materialize(%cm) tile [%m, 0] [min(4, M - %m), min(5, N - %n)]
          : tensor<[min(4, M - %m)]x[min(5, N - %n)]xf32>
        %q = tcp.matmul(%xt, %wt, init = %ct) : tensor<[min(4, M - %m)]x[min(5, N - %n)]xf32>
        gml_st.yield(%q, %cm) tile [%m, 0] [min(4, M - %m), min(5, N - %n)]
      } : tensor<[M]x[min(5, N - %n)]xf32>
      gml_st.yield(%rn, %cn) tile [0, %n] [M, min(5, N - %n)]
    } : tensor<[M]x[N]xf32>
    gml_st.yield(%rk, %ck) tile [0, 0] [M, N]
  } : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""


def operands(m: int, k: int, n: int) -> list[Array]:
    random = np.random.default_rng(m + 10 * k + 100 * n)
    return [random.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n))]


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (4, 3, 5), (7, 5, 11), (13, 4, 6), (3, 0, 4), (0, 2, 3), (2, 3, 0)], ids=str
)
def test_a_tiled_matmul_is_a_matmul(sizes: tuple[int, int, int]) -> None:
    x, w = operands(*sizes)
    module = parse(REDUCTION_OUTSIDE)
    again = parse(module.text())
    assert structurally_equal(module, again) is None
    for seed in range(3):
        np.testing.assert_array_equal(evaluate_func(module, module.main, [x, w], seed)[0], np.matmul(x, w))
    np.testing.assert_array_equal(evaluate_func(again, again.main, [x, w])[0], np.matmul(x, w))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 5, 11), (13, 4, 8), (2, 0, 5), (101, 2, 4)], ids=str)
def test_a_tiled_matmul_with_bias_in_branches(sizes: tuple[int, int, int]) -> None:
    module = load(SAMPLES / "loops.tcp")
    x, w = operands(*sizes)
    b = np.arange(sizes[2], dtype=np.float32)
    made = evaluate_func(module, module.main, [x, w, b])[0]
    np.testing.assert_array_equal(made, np.add(np.matmul(x, w), b))


def loop(kind: str, body: str, result: str = "tensor<[M]xf32>", least: int = 2) -> Module:
    return parse(
        f"""func @f(%x: tensor<[M]xf32>) -> {result} symbols [M: {least}..] {{
          %init = tcp.fill {{value = 0.0}} : {result}
          %r = gml_st.{kind} %i in 0 to M step 1 (%o = %init) {{
            {body}
          }} : {result}
          tcp.return(%r)
        }}"""
    )


ONE = "%v = gml_st.materialize(%x) tile [%i] [1] : tensor<1xf32>"
RACES = {
    "all write one element": (f"{ONE} gml_st.yield(%v, %o) tile [0] [1]", "writes what another iteration writes"),
    "tiles overlap": (
        "%v = gml_st.materialize(%x) tile [%i] [min(2, M - %i)] : tensor<[min(2, M - %i)]xf32>"
        " gml_st.yield(%v, %o) tile [%i] [min(2, M - %i)]",
        "writes what another iteration writes",
    ),
    "reads a neighbour": (
        "%v = gml_st.materialize(%o) tile [max(0, %i - 1)] [1] : tensor<1xf32> gml_st.yield(%v, %o) tile [%i] [1]",
        "another iteration",
    ),
    "all read what one writes": (
        "%v = gml_st.materialize(%o) tile [0] [1] : tensor<1xf32> gml_st.if %i == M - 1 {"
        " gml_st.yield(%v, %o) tile [0] [1] }",
        "another iteration",
    ),
    "an operation reads all": (
        f"{ONE} %all = tcp.exp(%o) : tensor<[M]xf32> gml_st.yield(%v, %o) tile [%i] [1]",
        "another iteration",
    ),
    "an inner loop starts from all": (
        "%all = gml_st.for %j in 0 to 1 (%p = %o) { } : tensor<[M]xf32>"
        " %v = gml_st.materialize(%all) tile [%i] [1] : tensor<1xf32> gml_st.yield(%v, %o) tile [%i] [1]",
        "another iteration",
    ),
}


REFUSED = {"all write one element", "tiles overlap", "all read what one writes"}
"""Races that the verifier sees too, because of what is written."""


def parallel(module: Module) -> Module:
    """The module with its loop parallel, not verified."""
    rewriter = Rewriter(module)
    (old,) = (op for op in module.main.body.ops if isinstance(op, Loop))
    made = rewriter.insert(Parallel.over(old.var, old.operands, old.body), InsertPoint.before(old), "r")
    rewriter.replace_uses(old.results[0], made.results[0])
    module.main.body.remove(old)
    return module


@pytest.mark.parametrize("name", RACES)
def test_races_are_caught(name: str) -> None:
    body, what = RACES[name]
    if name in REFUSED:
        with pytest.raises(VerifyError, match=r"yields to %o are not proved disjoint"):
            loop("parallel", body)
    x = np.arange(6, dtype=np.float32)
    for seed in range(4):
        module = parallel(loop("for", body))
        with pytest.raises(VerifyError, match=f"a race in a parallel loop: iteration . of %o .*{what}"):
            evaluate_func(module, module.main, [x], seed)
    sequential = loop("for", body)
    evaluate_func(sequential, sequential.main, [x])


def test_disjoint_iterations_are_no_race() -> None:
    body = "%v = gml_st.materialize(%o) tile [%i] [1] : tensor<1xf32> %w = tcp.exp(%v) : tensor<1xf32>"
    module = loop("parallel", f"{body} gml_st.yield(%w, %o) tile [%i] [1]")
    np.testing.assert_array_equal(evaluate_func(module, module.main, [np.ones(5, np.float32)])[0], np.ones(5))


def test_nested_parallel_loops() -> None:
    module = parse(
        """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
          %e = tcp.empty : tensor<[M]x[N]xf32>
          %r = gml_st.parallel %i in 0 to M (%o = %e) {
            %row = gml_st.materialize(%o) tile [%i, 0] [1, N] drop [0] : tensor<[N]xf32>
            %done = gml_st.parallel %j in 0 to N step 2 (%p = %row) {
              %v = gml_st.materialize(%x) tile [%i, %j] [1, min(2, N - %j)] drop [0] : tensor<[min(2, N - %j)]xf32>
              gml_st.yield(%v, %p) tile [%j] [min(2, N - %j)]
            } : tensor<[N]xf32>
            gml_st.yield(%done, %o) tile [%i, 0] [1, N] drop [0]
          } : tensor<[M]x[N]xf32>
          tcp.return(%r)
        }"""
    )
    x = np.random.default_rng(0).random((3, 5), dtype=np.float32)
    np.testing.assert_array_equal(evaluate_func(module, module.main, [x])[0], x)


def test_what_is_not_yielded_keeps_its_value() -> None:
    module = loop("for", f"{ONE} gml_st.if mod(%i, 2) == 1 {{ gml_st.yield(%v, %o) tile [%i] [1] }}")
    x = np.arange(5, dtype=np.float32)
    assert evaluate_func(module, module.main, [x])[0].tolist() == [0, 1, 0, 3, 0]


def test_carried_values() -> None:
    module = loop(
        "for",
        "%v = vector.read(%x) tile [%i] [1] drop [0] : f32 %s = tcp.add(%o, %v) : f32 gml_st.yield(%s, %o) tile [] []",
        "f32",
    )
    assert evaluate_func(module, module.main, [np.arange(5, dtype=np.float32)])[0] == 10


def test_masked_reads_and_writes() -> None:
    module = parse(
        """func @f(%x: tensor<[M]xf32>) -> (tensor<[M]xf32>, tensor<4xf32>) symbols [M] {
          %e = tcp.empty : tensor<[M]xf32>
          %n = tcp.fill {value = -1.0} : tensor<4xf32>
          %r, %l = gml_st.for %i in 0 to M step 4 (%o = %e, %p = %n) {
            %v = vector.read(%x) tile [%i] [min(4, M - %i)] {value = 9.0} : vector<4xf32>
            gml_st.yield(%v, %o) tile [%i] [min(4, M - %i)]
            gml_st.yield(%v, %p) tile [0] [4]
          } : tensor<[M]xf32>, tensor<4xf32>
          tcp.return(%r, %l)
        }"""
    )
    x = np.arange(6, dtype=np.float32)
    copy, last = evaluate_func(module, module.main, [x])
    np.testing.assert_array_equal(copy, x)
    assert last.tolist() == [4, 5, 9, 9]


def test_what_nobody_writes_is_poison() -> None:
    module = parse("func @f() -> (tensor<2xf32>, tensor<2xsi8>) { %a = tcp.empty : tensor<2xf32> %b = tcp.empty"
                   " : tensor<2xsi8> tcp.return(%a, %b) }")  # fmt: skip
    a, b = evaluate_func(module, module.main, [])
    assert np.isnan(a.astype(np.float64)).all()
    assert b.tolist() == [0x5A, 0x5A]


@pytest.mark.parametrize(("offset", "size"), [(M.size() - 1, 2), (-1, 1), (M.size(), 1)], ids=str)
def test_a_subset_outside_its_source_is_an_error(offset: Dim, size: int) -> None:
    """No text that is read says so, but a step might do it."""
    module = loop("for", f"%v = gml_st.materialize(%x) tile [0] [{size}] : tensor<{size}xf32>")
    (read,) = (op for op in module.walk() if op.name == "v")
    read.attributes["subset"] = Tile((offset,), (size,))
    with pytest.raises(VerifyError) as caught:
        evaluate_func(module, module.main, [np.zeros(3, np.float32)])
    assert caught.value.diagnostic.message == "%v (gml_st.materialize): a subset leaves its source"
    assert caught.value.diagnostic.payload is not None


def test_arguments_are_checked() -> None:
    module = loop("for", "")
    func = module.main
    for arrays, message in (
        ([], r"@f takes 1 argument"),
        ([np.zeros((3, 2), np.float32)], r"argument `x` does not fit tensor<\[M\]xf32>"),
        ([np.zeros(3)], r"required: dtype float32"),
        ([np.zeros(1, np.float32)], r"the size `M` is out of its range"),
    ):
        with pytest.raises(ArgumentError, match=message):
            evaluate_func(module, func, arrays)


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ("gml_st.yield(%l, %o) tile [%i] [1]", [7, 7, 7]),  # where it was read: in its place
        ("gml_st.yield(%l, %o) tile [2 - %i] [1]", [7, 7, 7]),
        ("%s = tcp.sub(%l, %t) : tensor<[1]xf32> gml_st.yield(%s, %o) tile [%i] [1]", [6, 5, 4]),
        ("%u = gml_st.materialize(%o) tile [%i] [1] : tensor<1xf32> %s = tcp.add(%l, %u) : tensor<1xf32>"
         " gml_st.yield(%s, %o) tile [%i] [1]", [8, 9, 10]),
        ("gml_st.if %i > 0 { gml_st.yield(%l, %o) tile [%i] [1] } else { }", [1, 7, 7]),
    ],
)  # fmt: skip
def test_tiles_do_not_change_under_those_who_read_them(end: str, wanted: list[float]) -> None:
    module = parse(
        f"""func @f(%x: tensor<[M]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>) symbols [M: 3..] {{
          %c = tcp.fill {{value = 7.0}} : tensor<1xf32>
          %r = gml_st.for %i in 0 to 3 step 1 (%o = %x) {{
            %t = gml_st.materialize(%o) tile [%i] [1] : tensor<1xf32>
            %l = gml_st.for %j in 0 to 1 step 1 (%d = %t) {{
              gml_st.yield(%c, %d) tile [%j] [1]
            }} : tensor<1xf32>
            {end.replace("[1]xf32", "1xf32")}
          }} : tensor<[M]xf32>
          %all = gml_st.materialize(%x) tile [0] [M] : tensor<[M]xf32>
          tcp.return(%r, %all)
        }}"""
    )
    given = np.array([1, 2, 3], np.float32)
    made, unchanged = evaluate_func(module, module.main, [given])
    assert (made.tolist(), unchanged.tolist(), given.tolist()) == (wanted, [1, 2, 3], [1, 2, 3])

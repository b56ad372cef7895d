"""vectorize of one operation: tiles are made for it."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.types import VectorType
from tests.transform.payloads import (
    CHAIN,
    PAYLOADS,
    PRODUCTS,
    ROWS,
    SOFTMAX,
    check,
    check_kernels,
    refusal,
    run,
)

COLUMNS = """\
func @columns(%x: tensor<[M]x[N]xf32>) -> tensor<[N]xf32> symbols [M: 0.., N: 0..] {
  %s = tcp.reduce_max(%x) {dims = [0]} : tensor<[N]xf32>
  tcp.return(%s)
}
"""
ALL = """\
func @all(%x: tensor<[M]x[N]xf64>) -> tensor<f64> symbols [M: 0.., N: 0..] {
  %s = tcp.reduce_sum(%x) {dims = [0, 1]} : tensor<f64>
  tcp.return(%s)
}
"""
TURNED = """\
func @turned(%x: tensor<[M]x[N]xf32>, %y: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [M: 0.., N: 0..] {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<[N]x[M]xf32>
  %s = tcp.add(%t, %y) : tensor<[N]x[M]xf32>
  tcp.return(%s)
}
"""
WIDENED = """\
func @widened(%x: tensor<[M]x[N]xsi8>) -> tensor<[M]x[N]xsi32> symbols [M: 0.., N: 0..] {
  %s = tcp.cast(%x) : tensor<[M]x[N]xsi32>
  tcp.return(%s)
}
"""
SMALL = """\
func @small(%x: tensor<[M]x3xf32>) -> tensor<[M]x3xf32> symbols [M: 0..] {
  %s = tcp.mul(%x, %x) : tensor<[M]x3xf32>
  tcp.return(%s)
}
"""
OF = {"columns": COLUMNS, "all": ALL, "turned": TURNED, "widened": WIDENED, "small": SMALL, "rows": ROWS}
S = 'vectorize(match one "s" in root)'
EACH = "for e in match any elementwise in root { vectorize(e) }"
CASES = {
    **{name: (text, S) for name, text in OF.items()},
    **{f"product {name}": (PAYLOADS[name], 'vectorize(match one "mm" in root)') for name in PRODUCTS},
    "chain": (CHAIN, EACH),
    "a transpose": (TURNED, 'vectorize(match one "t" in root)'),
    "in a tile": (CHAIN, 'let r = match one "r" in root\nlet i, j = tile(r, [d0: 3, d1: 40])\nvectorize(r)'),
    "in a parallel loop": (ROWS, 'let s = match one "s" in root\ntile(s, [d0: 3], parallel: true)\nvectorize(s)'),
    "all copies": (CHAIN, 'let r = match one "r" in root\nlet i = tile(r, [d0: 4])\npeel(i)\nvectorize(r)'),
}


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    done = check(*CASES[name])
    assert any(isinstance(op, Structured) and isinstance(op.result.type, VectorType) for op in done.module.walk())


SIZES = tuple({"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 33, 0), (13, 17, 5), (1, 16, 1)))


def test_kernels() -> None:
    check_kernels(CASES, SIZES)


@pytest.mark.parametrize("on", ["generic", "x86_avx2", "x86_avx512"])
def test_a_vector_is_as_long_as_the_target_says(on: str) -> None:
    done = run(CHAIN, EACH, on=tcpx.load_target(on))
    lanes = tcpx.load_target(on).lanes("f32")
    assert {str(op.result.type) for op in _vectors(done.module)} == {f"vector<1x{lanes}xf32>"}


def _vectors(module: Module) -> list[Structured]:
    return [op for op in module.walk() if isinstance(op, Structured) and isinstance(op.result.type, VectorType)]


def test_handles_follow() -> None:
    body = (
        'let s = match one "s" in root\nvectorize(s)\nrequire len(s) == 1 "one"\n'
        'let r = match one "y" in root\nvectorize(r)\nrequire len(r) == 2 "main and tail"\n'
        'unroll(r.copy("main").loop(d1), factor: 2, explicit: false)\nprint(s.loop(d1))'
    )
    done = run(ROWS, body)
    (loop,) = [op for op in done.module.walk() if isinstance(op, Loop) and op.unrolled == 2]
    assert loop.name == "y/d11"


def test_the_sum_of_a_row_stays_in_a_register() -> None:
    text = f"language 1\nschedule main(root: func) {{ {S} }}"
    source = tcpx.emit(tcpx.parse(ROWS), schedule=tcpx.parse_schedule(text), target="x86_avx512").c_source
    assert "s_5_0 = _mm512_add_ps(s_5_0, y_v_0_0);" in source


def test_whole_vectors_are_not_masked() -> None:
    text = f"language 1\nschedule main(root: func) {{ {EACH} }}"
    source = tcpx.emit(tcpx.parse(CHAIN), schedule=tcpx.parse_schedule(text), target="x86_avx2").c_source
    assert source.count(" _mm256_storeu_ps(out + ") == 1
    assert source.count(" tcpx_masked_store_f32x8(out + ") == 1
    kernel = tcpx.compile(tcpx.parse(CHAIN), schedule=tcpx.parse_schedule(text), target="native")
    x = np.linspace(-2, 3, 7 * 37, dtype=np.float32).reshape(7, 37)
    np.testing.assert_array_equal(kernel(x, x), np.minimum(x * x - x, x))


SCAN = """\
func @f(%x: tensor<4x[N]xf32>) -> tensor<4x[N]xf32> symbols [N] {
  %s, %c = tcp.cumsum(%x) {dim = 1} : tensor<4x[N]xf32>, tensor<4xf32>
  tcp.return(%s)
}
"""
ONE = """\
func @f(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %s = tcp.exp(%x) : tensor<1x1xf32>
  tcp.return(%s)
}
"""
PADDED = """\
func @f(%x: tensor<[N]xf32>) -> tensor<[N + 2]xf32> symbols [N] {
  %s = tcp.pad(%x) {value = 0.0} : tensor<[N + 2]xf32>
  tcp.return(%s)
}
"""


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (SOFTMAX, 'let y = match one "y" in root\nvectorize(y)',
         ("%y has no scalar body, so it does not become vectors on its own", "a structured operation", "tcp.softmax",
          "`decompose(y)` before it")),
        (PADDED, S,
         ("%s has no scalar body, so it does not become vectors on its own", "a structured operation", "tcp.pad",
          None)),
        (SCAN, S,
         ("%s does not become vectors on its own", "an operation whose iterations are in no order and write where "
          "they are", "sequential dim `d1`", None)),
        (ONE, S,
         ("%s has nothing that vectors could be made of", "a dim with more than one element", "tensor<1x1xf32>",
          None)),
        (CHAIN, "vectorize(root)",
         ("@chain is a function", "a loop or an operation", "func",
          "for x in match any elementwise in root { vectorize(x) }")),
        (CHAIN, 'let r = match one "r" in root\nvectorize(r)\nvectorize(r)',
         ("%r is not on tensors any more", "an operation on tensors", "vector<1x16xf32>",
          "do this before `vectorize` and `bufferize`")),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str, str | None]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found, found.fix) == said

"""decompose: a softmax as the operations it stands for."""

from __future__ import annotations

import pytest

import tcpx
from tests.transform.payloads import MM, RELU, SOFTMAX, check, check_kernels, refusal

Y = 'let y = match one "y" in root\n'


@pytest.mark.parametrize(
    "body",
    [
        "let d = decompose(y)",
        "let d = decompose(y)\nlet i = tile(d, [d0: 4])",
        "let i = tile(y, [d0: 4])\nlet d = decompose(y)\nlet j = tile(d, [d1: 8])",
        "let i = tile(y, [d0: 4], tail: pad)\nlet d = decompose(y)",
        "let i = tile(y, [d0: 4], tail: peel)\nlet d = decompose(y)",
    ],
)
def test_computes_the_same(body: str) -> None:
    done = check(SOFTMAX, Y + body, exact=False)
    assert not any(op.opcode == "tcp.softmax" for op in done.module.walk())


PLACES = """
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M, N: 1..] {
  %y, %i = tcp.reduce_argmax(%x) {dims = [1]} : tensor<[M]xf32>, tensor<[M]xsi64>
  tcp.return(%y, %i)
}
"""


@pytest.mark.parametrize("steps", ["", "\nlet k, c = split_reduction(p, d1, factor: 4)\nvectorize(k)"])
def test_a_tile_that_counts(steps: str) -> None:
    body = "let i = tile(y, [d1: 8])\ndecompose(y)\nlet p = match one reduce in i" + steps
    sizes = {"M": 3, "N": 1}, {"M": 2, "N": 29}, {"M": 0, "N": 9}
    done = check(PLACES, Y + "let r = tile(y, [d0: 1])\n" + body, sizes)
    assert any("si32" in str(r.type) for op in done.module.walk() for r in op.results)


def test_what_is_no_tile_is_not_made_of_others() -> None:
    assert refusal(PLACES, Y + "decompose(y)").message == "%y is not made of others"


def test_refused() -> None:
    assert refusal(RELU, MM + "decompose(mm)").message == "%mm is not made of others"


SINE = """
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %y = tcp.sin(%x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""


def test_of_tensors_there_is_no_branch() -> None:
    check(SINE, Y + "decompose(y)", exact=False)


def test_a_branch_in_vectors_is_refused() -> None:
    found = refusal(SINE, Y + "let i = tile(y, [d0: 16], tail: pad)\nvectorize(i)\ndecompose(y)")
    assert found.message == "%y has a branch in vectors"
    assert found.fix == "decompose it before vectorize"


NORM = """\
func @norm(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>, %n: tensor<[M]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M: 0.., N: 0..] {
  %s = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %y = tcp.add(%x, %s) : tensor<[M]x[N]xf32>
  %one = tcp.fill {value = 1.0} : tensor<[M]x[N]xf32>
  %w = tcp.broadcast(%n) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.sub(%y, %one) : tensor<[M]x[N]xf32>
  %r = tcp.mul(%d, %w) : tensor<[M]x[N]xf32>
  tcp.return(%r, %y)
}
"""  # noqa: E501
MAPPED = """\
func @mapped(%x: tensor<64x[N]xf64>, %y: tensor<[N]x32xsi32>) -> tensor<[N]x32xf64> symbols [N: 0..] {
  %r = tcp.generic(%x, %y) {iterators = [["i", "parallel", 32], ["j", "parallel"]], maps = [[2*i + 1, j], [j, i], [j, i]]} ({ (%a: f64, %b: si32):
    %c = tcp.cast(%b) : f64
    %two = tcp.const {value = 2.0} : f64
    %m = tcp.mul(%a, %two) : f64
    %l = tcp.less(%m, %c) : i1
    %p = tcp.select(%l, %a, %c) : f64
    tcp.yield(%p)
  }) : tensor<[N]x32xf64>
  tcp.return(%r)
}
"""  # noqa: E501
FUSE = "let all = match some elementwise in root\nlet g = fuse_elementwise(all)\n"


def test_the_way_back_from_one_operation() -> None:
    done = check(NORM, f"{FUSE}decompose(g)")
    assert sorted(op.opcode for op in done.module.main.body.ops) == sorted(
        op.opcode for op in tcpx.parse(NORM).main.body.ops
    )


@pytest.mark.parametrize("then", ["", "\nvectorize(r)", "\nlet i = tile(r, [d0: 3])"])
def test_maps_of_all_kinds(then: str) -> None:
    check(MAPPED, f'let r = match one "r" in root\ndecompose(r){then}')


def test_kernels_of_single_operations() -> None:
    cases = {"norm": (NORM, f"{FUSE}decompose(g)"), "mapped": (MAPPED, 'decompose(match one "r" in root)')}
    check_kernels(cases, [{"M": m, "N": n} for m, n in ((0, 3), (5, 17))])


def test_a_generic_that_reduces_is_not_split() -> None:
    found = refusal(RELU, 'let mm = match one "mm" in root\ngeneralize(mm)\ndecompose(mm)')
    assert (found.message, found.required, found.found) == (
        "the body of %mm is not made of operations on tensors",
        "parallel dims alone, operands that maps over them index, and a body that is the same everywhere",
        "reduction dim `k`",
    )

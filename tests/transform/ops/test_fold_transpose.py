"""fold_transpose: operands are read in the order in which they lie."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = ({"M": 0, "N": 3}, {"M": 5, "N": 0}, {"M": 1, "N": 1}, {"M": 7, "N": 9})
SCORES = """func @f(%q: tensor<[M]x3x5xf32>, %k: tensor<[N]x3x5xf32>) -> tensor<3x[M]x[N]xf32>
    symbols [M: 0.., N: 0..] {
  %qt = tcp.transpose(%q) {permutation = [1, 0, 2]} : tensor<3x[M]x5xf32>
  %kt = tcp.transpose(%k) {permutation = [1, 2, 0]} : tensor<3x5x[N]xf32>
  %mm = tcp.batch_matmul(%qt, %kt) : tensor<3x[M]x[N]xf32>
  tcp.return(%mm)
}
"""
TWICE = """func @f(%x: tensor<[M]x[N]x4xf32>) -> tensor<4x[M]xf32> symbols [M: 0.., N: 0..] {
  %a = tcp.transpose(%x) {permutation = [2, 0, 1]} : tensor<4x[M]x[N]xf32>
  %b = tcp.transpose(%a) {permutation = [1, 0, 2]} : tensor<[M]x4x[N]xf32>
  %c = tcp.transpose(%b) {permutation = [1, 0, 2]} : tensor<4x[M]x[N]xf32>
  %mm = tcp.reduce_sum(%c) {dims = [2]} : tensor<4x[M]xf32>
  tcp.return(%mm)
}
"""
ADDED = """func @f(%x: tensor<[M]x[N]xf32>, %y: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [M: 0.., N: 0..] {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<[N]x[M]xf32>
  %z = tcp.add(%t, %y) : tensor<[N]x[M]xf32>
  %r = tcp.mul(%z, %t) : tensor<[N]x[M]xf32>
  tcp.return(%r)
}
"""
VIEWED = """func @f(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<6x4xf32>
  %r = tcp.reshape(%t) : tensor<24xf32>
  tcp.return(%r)
}
"""


def test_a_product_of_heads() -> None:
    done = check(SCORES, MM + "fold_transpose(mm.lhs)\nfold_transpose(mm.rhs)", SIZES)
    assert "tcp.transpose" not in done.module.text()
    assert 'lhs = ["m", "b", "k"], rhs = ["n", "b", "k"]' in done.module.text()


def test_what_is_read_is_tiled() -> None:
    check(SCORES, MM + "fold_transpose(mm.rhs)\nlet j, i = tile(mm, [m: 4, n: 3], tail: pad)\nvectorize(i)", SIZES)


def test_transposes_of_transposes() -> None:
    done = check(TWICE, "let r = match one reduce in root\nfold_transpose(r.operand)", SIZES)
    assert "tcp.transpose" not in done.module.text()


def test_a_transpose_that_others_read_stays() -> None:
    done = check(ADDED, "let z = match one add in root\nfold_transpose(z.lhs)", SIZES)
    text = done.module.text()
    assert text.count("tcp.transpose") == 1
    assert "tcp.generic(%x, %y)" in text


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (ADDED, "let z = match one add in root\nfold_transpose(z.rhs)", "%y is no transpose"),
        (SCORES, MM + "fold_transpose(mm.out)", "what is read is an operand, not a value"),
        (
            VIEWED,
            "let r = match one reshape in root\nfold_transpose(r.operand)",
            "%r does not read the operand by a map",
        ),
    ],
)
def test_refusals(payload: str, body: str, said: str) -> None:
    assert refusal(payload, body).message == said

"""sink: scales move behind what is linear."""

from __future__ import annotations

import pytest

from tests.transform.payloads import check, refusal

PAYLOAD = """\
func @f(%e: tensor<[M]x[N]xf32>, %l: tensor<[M]xf32>, %v: tensor<[N]x3xf32>) -> tensor<[M]x3xf32>
    symbols [M: 0.., N: 0..] {
  %b = tcp.broadcast(%l) {dims = [0]} : tensor<[M]x[N]xf32>
  %p = tcp.mul(%e, %b) : tensor<[M]x[N]xf32>
  %o = tcp.matmul(%p, %v) : tensor<[M]x3xf32>
  tcp.return(%o)
}
"""
BODY = 'let p = match one "p" in root\nlet o = match one "o" in root\nsink(p, behind: o)'
SIZES = [{"M": m, "N": n} for m in (0, 1, 5) for n in (0, 1, 4)]


def _reads(reader: str, result: str = "tensor<[M]xf32>") -> str:
    head, end = PAYLOAD.replace("tensor<[M]x3xf32>\n    symbols", f"{result}\n    symbols").split("  %o = ")
    return f"{head}  %o = {reader} : {result}\n{end.split(chr(10), 1)[1]}"


CASES = {
    "product": PAYLOAD,
    "the other operand": PAYLOAD.replace("tcp.mul(%e, %b)", "tcp.mul(%b, %e)"),
    "a number": PAYLOAD.replace("tcp.mul(%e, %b)", "tcp.mul(%e, 0.5)"),
    "a number that divides": PAYLOAD.replace("tcp.mul(%e, %b)", "tcp.div(%e, 4.0)"),
    "sum": _reads("tcp.reduce_sum(%p) {dims = [1]}"),
    "transpose": _reads("tcp.transpose(%p) {permutation = [1, 0]}", "tensor<[N]x[M]xf32>"),
    "negative": _reads("tcp.neg(%p)", "tensor<[M]x[N]xf32>"),
    "wider": _reads("tcp.cast(%p)", "tensor<[M]x[N]xf64>"),
    "product with another": _reads("tcp.mul(%p, %e)", "tensor<[M]x[N]xf32>"),
    "whole": _reads("tcp.reduce_sum(%p) {dims = [0, 1]}", "tensor<f32>")
    .replace("%l: tensor<[M]xf32>", "%l: tensor<f32>")
    .replace("{dims = [0]}", "{dims = []}"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name: str) -> None:
    check(CASES[name], BODY + "\nassert(producer(p.lhs) == o or producer(p.rhs) == o)", SIZES)


RANK_2 = """\
func @f(%e: tensor<[M]x[N]x3xf32>, %l: tensor<[M]x[N]xf32>) -> tensor<3x[N]x[M]xf32> symbols [M: 0.., N: 0..] {
  %b = tcp.broadcast(%l) {dims = [0, 1]} : tensor<[M]x[N]x3xf32>
  %p = tcp.mul(%e, %b) : tensor<[M]x[N]x3xf32>
  %o = tcp.transpose(%p) {permutation = [2, 1, 0]} : tensor<3x[N]x[M]xf32>
  tcp.return(%o)
}
"""


def test_scales_in_another_order() -> None:
    check(RANK_2, BODY, SIZES)


REFUSED = {
    "scan": (
        _reads("tcp.cummax(%p) {dim = 1}", "tensor<[M]x[N]xf32>").replace(
            "%o = tcp.cummax(%p) {dim = 1} : tensor<[M]x[N]xf32>",
            "%o, %r = tcp.cummax(%p) {dim = 1} : tensor<[M]x[N]xf32>, tensor<[M]xf32>",
        ),
        "nothing says by how much %o changes when %p is scaled",
        "tcp.cummax",
    ),
    "narrower": (
        _reads("tcp.cast(%p)", "tensor<[M]x[N]xf16>"),
        "nothing says by how much %o changes when %p is scaled",
        "`tcp.cast` to f16, which may hold no more than the scaled numbers",
    ),
    "maxima": (
        _reads("tcp.reduce_max(%p) {dims = [1]}"),
        "what %o has reduced does not change as what it reduces does",
        "`tcp.max`",
    ),
    "along what is summed": (
        _reads("tcp.reduce_sum(%p) {dims = [0]}", "tensor<[N]xf32>"),
        "nothing says by how much %o changes when %p is scaled",
        "a reduction of `d0`, with a change for each",
    ),
    "exponential": (
        _reads("tcp.exp(%p)", "tensor<[M]x[N]xf32>"),
        "nothing says by how much %o changes when %p is scaled",
        "`tcp.exp` of it",
    ),
    "square": (
        _reads("tcp.mul(%p, %p)", "tensor<[M]x[N]xf32>"),
        "nothing says by how much %o changes when %p is scaled",
        "`tcp.mul`",
    ),
    "no scale": (
        PAYLOAD.replace("tcp.mul(%e, %b)", "tcp.mul(%e, %e)"),
        "%p is no scale",
        "tcp.mul(%e, %e)",
    ),
    "divisor": (
        PAYLOAD.replace("tcp.mul(%e, %b)", "tcp.div(%b, %e)"),
        "%p is no scale",
        "tcp.div(%b, %e)",
    ),
    "two readers": (
        PAYLOAD.replace(
            "tcp.return(%o)",
            "%q = tcp.matmul(%p, %v) : tensor<[M]x3xf32>\n  %r = tcp.add(%o, %q) : tensor<[M]x3xf32>\n  tcp.return(%r)",
        ),
        "%p cannot move behind %o",
        "%q, which reads it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    payload, message, found = REFUSED[name]
    diagnostic = refusal(payload, BODY)
    assert (diagnostic.message, diagnostic.found) == (message, found)

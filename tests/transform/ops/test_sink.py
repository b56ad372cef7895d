"""sink: scales move behind what is linear."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.evaluator import evaluate_func
from tests.transform.payloads import check, refusal, run

PAYLOAD = """\
func @f(%e: tensor<[M]x[N]xf32>, %l: tensor<[M]xf32>, %v: tensor<[N]x3xf32>) -> tensor<[M]x3xf32>
    symbols [M: 0.., N: 1..] {
  %b = tcp.broadcast(%l) {dims = [0]} : tensor<[M]x[N]xf32>
  %p = tcp.mul(%e, %b) : tensor<[M]x[N]xf32>
  %o = tcp.matmul(%p, %v) : tensor<[M]x3xf32>
  tcp.return(%o)
}
"""
BODY = 'let p = match one "p" in root\nlet o = match one "o" in root\nsink(p, behind: o)'
SIZES = [{"M": m, "N": n} for m in (0, 1, 5) for n in (1, 4)]


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
    "a choice": PAYLOAD.replace("%l: tensor<[M]xf32>", "%l: tensor<[M]xi1>")
    .replace(
        "tcp.broadcast(%l) {dims = [0]} : tensor<[M]x[N]xf32>", "tcp.broadcast(%l) {dims = [0]} : tensor<[M]x[N]xi1>"
    )
    .replace("tcp.mul(%e, %b)", "tcp.select(%b, 0.0, %e)"),
    "whole": _reads("tcp.reduce_sum(%p) {dims = [0, 1]}", "tensor<f32>")
    .replace("%l: tensor<[M]xf32>", "%l: tensor<f32>")
    .replace("{dims = [0]}", "{dims = []}")
    .replace("M: 0..", "M: 1.."),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name: str) -> None:
    sizes = [chosen for chosen in SIZES if chosen["M"] or name != "whole"]
    behind = "producer(p.c) == o" if name == "a choice" else "producer(p.lhs) == o or producer(p.rhs) == o"
    check(CASES[name], f"{BODY}\nassert({behind})", sizes)


OTHER_ARM = CASES["a choice"].replace("tcp.select(%b, 0.0, %e)", "tcp.select(%b, %e, 0.0)")


def test_choices_leave_sums_without_elements() -> None:
    check(OTHER_ARM.replace("N: 1..", "N: 0.."), BODY + "\nassert(producer(p.b) == o)", [*SIZES, {"M": 3, "N": 0}])


EMPTY = PAYLOAD.replace("N: 1..", "N: 0..").replace("tcp.mul(%e", "tcp.div(%e")
GUARDED = """\
let p = match one "p" in root
let o = match one "o" in root
specialize [p, o] when size(o.k) >= 1 { sink(p, behind: o) } else { }
"""


def test_sums_without_elements() -> None:
    check(EMPTY.replace("tcp.div(%e, %b)", "tcp.mul(%e, %b)"), GUARDED, [*SIZES, {"M": 3, "N": 0}])
    done = run(EMPTY, GUARDED)
    given = [np.ones((2, 0), np.float32), np.array([0, 3], np.float32), np.ones((0, 3), np.float32)]
    assert evaluate_func(done.module, done.module.main, given)[0].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_a_number_leaves_a_sum_without_elements() -> None:
    sizes = [*SIZES, {"M": 3, "N": 0}]
    check(EMPTY.replace("tcp.div(%e, %b)", "tcp.div(%e, -4.0)"), BODY, sizes)
    refused = refusal(EMPTY.replace("tcp.div(%e, %b)", "tcp.div(%e, 0.0)"), BODY)
    assert refused.message == "%o may be 0.0 where %p has no element"


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
    "no elements": (EMPTY, "%o may be 0.0 where %p has no element", "`k` of N"),
    "no elements, scaled": (
        EMPTY.replace("tcp.div(%e, %b)", "tcp.mul(%b, %e)"),
        "%o may be 0.0 where %p has no element",
        "`k` of N",
    ),
    "no rows": (
        CASES["whole"].replace("M: 1..", "M: 0.."),
        "%o may be 0.0 where %p has no element",
        "`d0` of M",
    ),
    "padding": (
        _reads("tcp.pad(%p) {value = 0.0}", "tensor<[M]x[N + 2]xf32>"),
        "%o may be 0.0 where %p has no element",
        "padding with 0.0",
    ),
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
    "choice of other numbers": (
        CASES["a choice"].replace("tcp.select(%b, 0.0, %e)", "tcp.select(%b, 1.0, %e)"),
        "%p is no scale",
        "tcp.select(%b, %p.b, %e)",
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

"""interchange, generalize and specialize: walks on the operation tree and back."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.generic import Generic
from tests.transform.payloads import (
    CHAIN,
    INTEGERS,
    MIN_PLUS,
    MM,
    RELU,
    ROWS,
    SOFTMAX,
    TRANSPOSED,
    TWO_K,
    check,
    refusal,
    run,
)


def one(name: str) -> str:
    """A handle x to the operation of this name."""
    return f'let x = match one "{name}" in root\n'


ROUND_TRIPS = [
    (RELU, "mm", "matmul"),
    (RELU, "mm", "contract"),
    (RELU, "bias", "broadcast"),
    (RELU, "zero", "fill"),
    (RELU, "r", "max"),
    (CHAIN, "q", "sub"),
    (CHAIN, "q", "elementwise"),
    (INTEGERS, "mm", "matmul"),
    (TWO_K, "mm", "contract"),
    (TRANSPOSED, "t", "transpose"),
    (ROWS, "s", "reduce_sum"),
]


@pytest.mark.parametrize(("payload", "name", "to"), ROUND_TRIPS)
def test_there_and_back(payload: str, name: str, to: str) -> None:
    forth = check(payload, one(name) + "let g = generalize(x)")
    assert any(isinstance(op, Generic) for op in forth.module.walk())
    back = check(payload, one(name) + f"let g = generalize(x)\nlet s = specialize(g, to: {to})\nrequire s == x")
    assert not any(isinstance(op, Generic) for op in back.module.walk())


@pytest.mark.parametrize("order", ["[k, m, n]", "[n, m, k]", "[n, k, m]"])
def test_interchange(order: str) -> None:
    check(RELU, MM + f"let g = interchange(mm, {order})")
    check(MIN_PLUS, MM + f"let g = interchange(mm, {order})\ntile(g, [m: 4, k: 2])")
    back = check(RELU, MM + f"let g = interchange(mm, {order})\nlet s = specialize(g, to: matmul)")
    assert not any(isinstance(op, Generic) for op in back.module.walk())


def test_down_and_up_by_one() -> None:
    check(RELU, MM + "let c = specialize(mm, to: contract)\nlet m = specialize(c, to: matmul)")


def test_on_tiles() -> None:
    body = "let k, i = tile(mm, [k: 2, m: 4])\nlet g = generalize(mm)\nlet s = specialize(g, to: matmul)"
    check(RELU, MM + body)


@pytest.mark.parametrize(
    ("payload", "body", "message", "notes"),
    [
        (MIN_PLUS, one("mm") + "specialize(x, to: matmul)", "%mm is no matmul",
         ("tcp.matmul: combines with tcp.add, not tcp.min",)),
        (TWO_K, one("mm") + "specialize(x, to: matmul)", "%mm is no matmul",
         ("tcp.matmul: `lhs` has the wrong rank (%x: tensor<[M]x[K]x3xf32>)",)),
        (CHAIN, one("q") + "let g = generalize(x)\nspecialize(g, to: add)", "%q is no add",
         ("tcp.add: the body has tcp.add: f32 where %e2 is tcp.sub: f32",)),
        (CHAIN, one("q") + "specialize(x, to: exp)", "%q is no exp", ("tcp.exp: takes 1 operand(s), not 2",)),
        (RELU, one("mm") + "specialize(x, to: matmul)", "%mm is matmul already", ()),
        (RELU, one("mm") + "specialize(x, to: convolve)", "there is no class `convolve`", ()),
        (SOFTMAX, one("y") + "specialize(x, to: matmul)", "%y cannot be specialized", ()),
        (SOFTMAX, one("y") + "generalize(x)", "%y cannot be generalized", ()),
        (MIN_PLUS, one("mm") + "generalize(x)", "%mm cannot be generalized", ()),
        (RELU, one("mm") + "interchange(x, [m, k])", "[m, k] is no new order of the dims of %mm", ()),
        (RELU, one("mm") + "interchange(x, [m, n, k])", "[m, n, k] is no new order of the dims of %mm", ()),
        (SOFTMAX, one("y") + "interchange(x, [d1, d0])", "%y has no iteration dims", ()),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str, notes: tuple[str, ...]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.notes) == (message, notes)


ARGMAX = """\
func @argmax(%x: tensor<7x5xf32>) -> (tensor<7xf32>, tensor<7xsi64>) {
  %r, %at = tcp.reduce_argmax(%x) {dims = [1]} : tensor<7xf32>, tensor<7xsi64>
  tcp.return(%r, %at)
}
"""


PLACES = """\
func @argmax(%x: tensor<[M]x[N]xf32>) -> (tensor<f32>, tensor<si64>) symbols [M: 1.., N: 1..] {
  %r, %at = tcp.reduce_argmax(%x) {dims = [0, 1]} : tensor<f32>, tensor<si64>
  tcp.return(%r, %at)
}
"""


def test_positions_that_sizes_are_in() -> None:
    error = refusal(PLACES, one("r") + "generalize(x)")
    assert error.message == "%r cannot be generalized"
    assert (error.required, error.found) == ("positions of numbers and dims, no sizes", "the position `N*d0 + d1`")
    assert error.fix == "coalesce its reduction dims first"
    assert "tcp.generic" in run(PLACES, one("r") + "let c = coalesce(x)\ngeneralize(c)").module.text()


def test_an_argmax_comes_back_and_is_no_argmin() -> None:
    done = check(ARGMAX, one("r") + "let g = generalize(x)\nspecialize(g, to: reduce_argmax)")
    assert "tcp.reduce_argmax" in done.module.text()
    error = refusal(ARGMAX, one("r") + "let g = generalize(x)\nspecialize(g, to: reduce_argmin)")
    assert (error.message, error.notes) == (
        "%r is no reduce_argmin",
        ("tcp.reduce_argmin: combines partial results in another order, or begins with others",),
    )

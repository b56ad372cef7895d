"""`pack` lays operands of operations with several results out in other orders of dims, and by digits of them."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.text.parser import parse
from tests.outside import operations  # noqa: F401  (registers them)
from tests.transform.payloads import Sizes, arguments, check, same_numbers

ARGMAX = """\
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M, N] {
  %v, %i = outside.argmax(%x) {dim = 1} : tensor<[M]xf32>, tensor<[M]xsi64>
  tcp.return(%v, %i)
}
"""
ORDERED = """\
func @f(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>)
    symbols [M, N] {
  %v, %w = outside.ordered(%x, %y) : tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>
  tcp.return(%v, %w)
}
"""
MOMENTS = """\
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>, tensor<[M]xf32>) symbols [M, N: 1..] {
  %v, %w, %z = outside.moments(%x) {dim = 1} : tensor<[M]xf32>, tensor<[M]xf32>, tensor<[M]xf32>
  tcp.return(%v, %w, %z)
}
"""
PAYLOADS = {"argmax": (ARGMAX, "operand"), "ordered": (ORDERED, "b"), "moments": (MOMENTS, "operand")}
LAYOUTS = ("d0, d1", "d1, d0", "d0, d1/4, d1%4", "d1/2, d0, d1%2", "d1, d0/2, d0%2")
SIZES: tuple[Sizes, ...] = tuple({"M": m, "N": n} for m, n in ((1, 1), (5, 9), (8, 16), (13, 7)))


def _body(name: str, layout: str, tail: str) -> str:
    return (
        f'let v = match one "v" in root\nlet i, j = tile(v, [d0: 4, d1: 8]{tail})\n'
        f"pack(v.{PAYLOADS[name][1]}, [{layout}], at: i)\n"
    )


@pytest.mark.parametrize("tail", ["", ", tail: pad"], ids=["short", "padded"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PAYLOADS)
def test_it_computes_the_same(name: str, layout: str, tail: str) -> None:
    check(PAYLOADS[name][0], _body(name, layout, tail), SIZES, exact=name != "moments")


@pytest.mark.parametrize("name", ["argmax", "ordered"])
@pytest.mark.parametrize("layout", ["d1, d0", "d1/2, d0, d1%2"])
def test_the_kernel_computes_the_same(name: str, layout: str) -> None:
    payload, program = PAYLOADS[name][0], f"language 1\nschedule s(root: func) {{\n{_body(name, layout, '')}}}\n"
    module = parse(payload)
    kernel = tcpx.compile(parse(payload), schedule=tcpx.parse_schedule(program))
    for sizes in SIZES:
        given = arguments(module, sizes)
        wanted = tcpx.evaluate(module, *given)
        assert isinstance(wanted, tuple)
        assert same_numbers([np.asarray(made) for made in kernel(*given)], wanted), sizes

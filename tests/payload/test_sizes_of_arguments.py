"""Sizes that follow from dims such as `2*N` and `N + 1` of arguments, which are checked where a kernel is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.payload.sizes import Symbol, floordiv
from tcpx.payload.sizes_of_arguments import telling_dims

N, M = Symbol("N").size(), Symbol("M").size()


def module_of(dim: str, symbols: str = "N") -> tcpx.Module:
    type_ = f"tensor<[{dim}]xf32>"
    return tcpx.parse(
        f"func @f(%x: {type_}) -> {type_} symbols [{symbols}] {{\n  %y = tcp.exp(%x) : {type_}\n  tcp.return(%y)\n}}"
    )


def test_the_dim_that_tells_a_symbol() -> None:
    assert telling_dims([[2 * N, 3], [N + 1, N], [N]]) == {"N": (1, 1)}
    assert telling_dims([[2 * N], [N + 1]]) == {"N": (0, 0)}
    assert telling_dims([[N + M, floordiv(M, 2), 8 - N, N * N, 4]]) == {}


@pytest.mark.parametrize(
    ("dim", "symbols", "fit", "other"),
    [
        ("2*N", "N", (0, 4, 6), {3: r"\[2\*N\] = 2"}),
        ("N + 1", "N", (1, 5), {0: "N = -1|found: -1"}),
        ("3*N + 2", "N: 1..", (5, 8), {2: "found: (N = )?0", 6: r"\[3\*N \+ 2\] = 5", 1: "-1"}),
        ("N - 2", "N: 2..", (0, 3), {}),
        ("2*N", "N: 2..8 multiple_of 2", (4, 8), {6: "N = 3|multiple|3", 20: "10"}),
    ],
)
def test_a_symbol_by_an_affine_dim(dim: str, symbols: str, fit: tuple[int, ...], other: dict[int, str]) -> None:
    module = module_of(dim, symbols)
    assert not tcpx.check(None, module)
    kernel = tcpx.compile(module, target="generic")
    for extent in fit:
        x = np.linspace(-1, 1, extent, dtype=np.float32)
        found: Any = (kernel(x), tcpx.evaluate(module, x))
        np.testing.assert_allclose(found, [np.exp(x)] * 2, rtol=1e-6)
    for extent, found in other.items():
        for run in (kernel, lambda x: tcpx.evaluate(module, x)):
            with pytest.raises(tcpx.ArgumentError, match=found):
                run(np.zeros(extent, np.float32))


def test_a_function_whose_operand_tells_a_symbol() -> None:
    text = """func @main(%x: tensor<[2*N]xf32>, %z: tensor<[N + 1]xf32>) -> tensor<[N + 1]xf32> symbols [N] {
  %a, %b = tcp.call @g(%x, %z) : tensor<[2*N]xf32>, tensor<[N + 1]xf32>
  tcp.return(%b)
}
func @g(%x: tensor<[2*M]xf32>, %z: tensor<[M + 1]xf32>) -> (tensor<[2*M]xf32>, tensor<[M + 1]xf32>) symbols [M] {
  %a = tcp.exp(%x) : tensor<[2*M]xf32>
  %b = tcp.neg(%z) : tensor<[M + 1]xf32>
  tcp.return(%a, %b)
}"""
    module = tcpx.parse(text)
    x, z = np.ones(6, np.float32), np.arange(4, dtype=np.float32)
    for found in (tcpx.compile(module, target="generic")(x, z), tcpx.evaluate(module, x, z)):
        np.testing.assert_array_equal(found, -z)
    with pytest.raises(tcpx.ArgumentError, match=r"\[N \+ 1\] = 4"):
        tcpx.compile(module, target="generic")(x, z[:3])
    with pytest.raises(tcpx.VerifyError):
        tcpx.parse(
            text.replace("%z: tensor<[N + 1]xf32>) -> tensor<[N + 1]", "%z: tensor<[N + 2]xf32>) -> tensor<[N + 1]")
        )

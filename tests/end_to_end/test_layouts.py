"""The default schedule takes products whose operands and result are stored with their dims in either order."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tcpx
from tcpx.installed import LIBRARY
from tcpx.interp import run_schedule
from tcpx.payload.types import VectorType
from tcpx.target import Target
from tests.guard_pages import run_guarded

PRODUCT = """\
func @{name}(%x: tensor<{lhs}xf32>, %w: tensor<{rhs}xf32>) -> tensor<{out}xf32> symbols [M, N, K] {{
  %mm = tcp.contract(%x, %w) {{lhs = {lhs_dims}, rhs = {rhs_dims}, out = {out_dims}}} : tensor<{out}xf32>
  tcp.return(%mm)
}}
"""
LAYOUTS = tuple(product(("mk", "km"), ("kn", "nk"), ("mn", "nm")))
SIZES = ((0, 4, 3), (4, 0, 3), (3, 5, 0), (5, 7, 3), (13, 70, 33))


def payload(lhs: str, rhs: str, out: str) -> str:
    named = tuple(zip(("lhs", "rhs", "out"), (lhs, rhs, out), strict=True))
    shapes = {role: "x".join(f"[{d.upper()}]" for d in dims) for role, dims in named}
    names = {f"{role}_dims": str(list(dims)).replace("'", '"') for role, dims in named}
    return PRODUCT.format(name=f"{lhs}_{rhs}_{out}", **shapes, **names)


def test_products(target: Target) -> None:
    kernels = tcpx.compile_many([tcpx.CompileRequest(tcpx.parse(payload(*dims))) for dims in LAYOUTS], target=target)
    random = np.random.default_rng(5)
    for (lhs, rhs, out), kernel in zip(LAYOUTS, kernels, strict=True):
        for sizes in SIZES:
            extents = dict(zip("mnk", sizes, strict=True))
            given = [random.integers(-4, 5, [extents[d] for d in dims]).astype(np.float32) for dims in (lhs, rhs)]
            (found,) = run_guarded(kernel, *given)
            np.testing.assert_array_equal(found, np.einsum(f"{lhs},{rhs}->{out}", *given), err_msg=f"{lhs} {rhs} {out}")


def test_an_outer_product(target: Target) -> None:
    """A contraction that sums nothing is an elementwise operation, in vectors."""
    outer = tcpx.parse(
        "func @outer(%x: tensor<[M]xf32>, %w: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {\n"
        '  %mm = tcp.contract(%x, %w) {lhs = ["m"], rhs = ["n"], out = ["m", "n"]} : tensor<[M]x[N]xf32>\n'
        "  tcp.return(%mm)\n}\n"
    )
    run = run_schedule(outer, tcpx.load_schedule(LIBRARY / "default.tcps"), target)
    assert run.coverage.untouched == ()
    assert any(
        isinstance(r.type, VectorType) and op.opcode == "tcp.generic" for op in run.module.walk() for r in op.results
    )
    kernel = tcpx.compile(outer, target=target)
    random = np.random.default_rng(5)
    for m, n, _ in SIZES:
        x, w = (random.integers(-4, 5, extent).astype(np.float32) for extent in (m, n))
        np.testing.assert_array_equal(run_guarded(kernel, x, w)[0], np.outer(x, w))


def test_what_is_left_is_said(target: Target) -> None:
    scan = tcpx.parse(
        "func @scan(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {\n"
        "  %sums, %all = tcp.cumsum(%x) {dim = 0} : tensor<[N]xf32>, tensor<f32>\n"
        "  tcp.return(%sums)\n}\n"
    )
    default = tcpx.load_schedule(LIBRARY / "default.tcps")
    assert run_schedule(scan, default, target).coverage.untouched == ("sums",)


@pytest.mark.parametrize("order", ["channels outermost", "channels innermost"])
@pytest.mark.parametrize(("a", "b", "f", "h", "cut"), [(16, 8, 32, 14, 0), (7, 5, 19, 9, 0), (7, 5, 19, 9, 2)])
def test_a_concat_before_a_convolution_is_copied_by_rows(order: str, a: int, b: int, f: int, h: int, cut: int) -> None:
    """In both orders of dims, also where it is cut; not element by element where a tile reads it."""
    is_outer = order == "channels outermost"
    x, z, s, y = (
        f"1x{n}x{k}x{h}xf32" if is_outer else f"1x{k}x{h}x{n}xf32"
        for n, k in ((a, h + cut), (b, h + cut), (a + b, h), (f, h))
    )
    read = '["b", "c", "h+p", "w+q"]' if is_outer else '["b", "h+p", "w+q", "c"]'
    out = '["b", "f", "h", "w"]' if is_outer else '["b", "h", "w", "f"]'
    joined = f"1x{a + b}x{h + cut}x{h}xf32" if is_outer else f"1x{h + cut}x{h}x{a + b}xf32"
    sliced = f"  %s = tcp.slice(%c) {{offsets = [0, 0, 0, 0]}} : tensor<{s}>\n" if cut else ""
    text = (
        f"func @f(%x: tensor<{x}>, %z: tensor<{z}>, %w: tensor<3x3x{a + b}x{f}xf32>) -> tensor<{y}> {{\n"
        f"  %c = tcp.concat(%x, %z) {{dim = {1 if is_outer else 3}}} : tensor<{joined}>\n{sliced}"
        f'  %y = tcp.convolution({"%s" if cut else "%c"}, %w) {{input = {read}, filter = ["p", "q", "c", "f"], '
        f"out = {out}, low = [1, 1], high = [1, 1]}} : tensor<{y}>\n  tcp.return(%y)\n}}\n"
    )
    module = tcpx.parse(text)
    kernel = tcpx.compile(module, target="x86_avx2")
    draw = np.random.default_rng(4)
    given = [draw.standard_normal([int(n) for n in t.split("x")[:-1]]).astype(np.float32) for t in (x, z)]
    given.append(draw.standard_normal((3, 3, a + b, f)).astype(np.float32))
    found, wanted = (np.asarray(each, np.float64) for each in (kernel(*given), tcpx.evaluate(module, *given)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert kernel.c_source.count("memcpy(") == 2
    assert "_copy = *(" not in kernel.c_source


@pytest.mark.parametrize("channels", [32, 24])
def test_a_layer_that_is_called_with_two_orders(channels: int) -> None:
    """Of three equal layers, the first reads the argument as it is, and the others what it gives, in another order."""
    shape = f"{channels}x9x7xf32"
    text = (
        f"func @f(%x: tensor<{shape}>, %w: tensor<{channels}x{channels}x3x3xf32>) -> tensor<{shape}> {{\n"
        f"  %a = tcp.call @layer(%x, %w) : tensor<{shape}>\n  %b = tcp.call @layer(%a, %w) : tensor<{shape}>\n"
        f"  %c = tcp.call @layer(%b, %w) : tensor<{shape}>\n  tcp.return(%c)\n}}\n"
        f"func @layer(%x: tensor<{shape}>, %w: tensor<{channels}x{channels}x3x3xf32>) -> tensor<{shape}> {{\n"
        '  %y = tcp.convolution(%x, %w) {input = ["c", "h+p", "w+q"], filter = ["f", "c", "p", "q"],\n'
        f'      out = ["f", "h", "w"], low = [1, 1], high = [1, 1]}} : tensor<{shape}>\n'
        f"  %r = tcp.relu(%y) : tensor<{shape}>\n  tcp.return(%r)\n}}\n"
    )
    module = tcpx.parse(text)
    draw = np.random.default_rng(6)
    given = [draw.standard_normal(n).astype(np.float32) for n in ((channels, 9, 7), (channels, channels, 3, 3))]
    given[1] /= channels
    kernel = tcpx.compile(module, target="x86_avx2")
    found, wanted = (np.asarray(each, np.float64) for each in (kernel(*given), tcpx.evaluate(module, *given)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert "layer_1(" in kernel.c_source
    assert "layer_2(" not in kernel.c_source

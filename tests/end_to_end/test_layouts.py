"""The default schedule takes products whose operands and result are stored with their dims in either order."""

from __future__ import annotations

from itertools import product

import numpy as np

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

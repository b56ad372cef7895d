"""Tiles of a padding between elements: of any size, also of fewer elements than lie between two of the operand."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.transform.payloads import Sizes, arguments, check, same_numbers

SIZES: tuple[Sizes, ...] = tuple({"N": n, "M": m} for n, m in ((1, 1), (2, 7), (5, 3), (7, 2)))
HEAD = 'let e = match one "e" in root\nlet y = match one "y" in root\n'


def payload(dim: int, interior: int, low: int = 1) -> str:
    """A padding between the elements along a dim of what is computed, read by something that computes."""
    spaced, other = ("N", "M") if dim == 0 else ("M", "N")
    extents = {spaced: f"[{interior + 1}*{spaced} + {low + 1}]", other: f"[{other} + 1]"}
    shape = f"tensor<{extents['N']}x{extents['M']}xf32>"
    lows, interiors = ([low, 0], [interior, 0]) if dim == 0 else ([0, low], [0, interior])
    return f"""func @f(%x: tensor<[N]x[M]xf32>) -> {shape} symbols [N: 1.., M: 1..] {{
  %e = tcp.mul(%x, %x) : tensor<[N]x[M]xf32>
  %p = tcp.pad(%e) {{value = 3.0, low = {lows}, interior = {interiors}}} : {shape}
  %y = tcp.add(%p, %p) : {shape}
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize("interior", [2, 3])
@pytest.mark.parametrize("dim", [0, 1])
def test_tiles_of_any_size(dim: int, interior: int) -> None:
    """Nested ones too, and those whose sizes do not divide one another."""
    for tile in ("D: 1", "D: 2", "D: 3", "D: 5", "D: 5, D: 1", "D: 5, D: 2", "D: 7, D: 3"):
        body = f'tile(match one "p" in root, [{tile.replace("D", f"d{dim}")}])'
        for low in (0, 1, 4):
            check(payload(dim, interior, low), body, SIZES)


def test_both_dims_at_once() -> None:
    text = """func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[4*N]x[3*M + 2]xf32> symbols [N: 1.., M: 1..] {
  %p = tcp.pad(%x) {value = 1.0, low = [0, 1], interior = [3, 2]} : tensor<[4*N]x[3*M + 2]xf32>
  tcp.return(%p)
}
"""
    for tile in (1, 2, 3, 5):
        check(text, f'tile(match one "p" in root, [d0: {tile}, d1: {tile}])', SIZES)


@pytest.mark.parametrize("interior", [2, 3])
@pytest.mark.parametrize("dim", [0, 1])
def test_producers_are_fused(dim: int, interior: int) -> None:
    for tile in (1, 2, 3, 5):
        body = HEAD + f"let i = tile(y, [d{dim}: {tile}])\nfuse(e, into: i, recompute: true)"
        done = check(payload(dim, interior), body, SIZES)
        assert [op.opcode for op in done.module.main.body.ops] == ["tcp.empty", "gml_st.for", "tcp.return"]


def test_known_sizes() -> None:
    for interior, wide in ((2, 27), (3, 35)):
        text = f"""func @f(%x: tensor<6x9xf32>) -> tensor<6x{wide}xf32> {{
  %y = tcp.pad(%x) {{value = 0.0, low = [0, 1], interior = [0, {interior}]}} : tensor<6x{wide}xf32>
  tcp.return(%y)
}}
"""
        for tile in ("d1: 1", "d1: 2", "d1: 5, d1: 2"):
            check(text, f'tile(match one "y" in root, [{tile}])', [{}])


def test_a_result_that_is_one_element_too_short() -> None:
    """The last element of the operand lies behind it."""
    with pytest.raises(tcpx.VerifyError, match="padding makes no dim smaller") as caught:
        tcpx.parse(payload(1, 2, low=4).replace("[3*M + 5]", "[3*M + 1]"))
    found = caught.value.diagnostic
    assert (found.required, found.found) == ("at least 3*M + 2", "3*M + 1 in tensor<[N + 1]x[3*M + 1]xf32>")


@pytest.mark.parametrize("interior", [2, 3])
def test_the_default_schedule_vectorizes(interior: int) -> None:
    """Each row of the result, and a sum over the rows; nothing is left with a remark."""
    wide = f"tensor<[{interior + 1}*N + 2]x40xf32>"
    for statement, shape in (
        (f"tcp.exp(%p) : {wide}", wide),
        (f"tcp.softmax(%p) {{dim = 1}} : {wide}", wide),
        ("tcp.reduce_sum(%p) {dims = [0]} : tensor<40xf32>", "tensor<40xf32>"),
    ):
        module = tcpx.parse(
            f"""func @f(%x: tensor<[N]x40xf32>) -> {shape} symbols [N: 1..] {{
  %p = tcp.pad(%x) {{value = 0.0, low = [1, 0], interior = [{interior}, 0]}} : {wide}
  %y = {statement}
  tcp.return(%y)
}}
"""
        )
        kernel = tcpx.compile(module, target="x86_avx2")
        assert not [remark for remark in kernel.remarks if not remark.factor], statement
        assert "_mm256_" in kernel.c_source, statement
        for rows in (1, 7):
            given = arguments(module, {"N": rows})
            assert same_numbers([np.asarray(kernel(*given))], [np.asarray(tcpx.evaluate(module, *given))], exact=False)

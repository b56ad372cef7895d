"""No call packs, transposes or converts a constant: stores of what is computed of constants alone are counted."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.api import program_or_default
from tcpx.lowering import run_and_lower
from tests.constant_copies import copies_of_constants
from tests.frontends.onnx.decoder import decoder
from tests.frontends.onnx.transformer import encoder

TARGETS = ("x86_avx512", "x86_avx2")


def _copies(module: tcpx.Module, target: str, schedule: str = "") -> list[str]:
    program = program_or_default(tcpx.parse_schedule(schedule) if schedule else None)
    return copies_of_constants(run_and_lower(module, program, tcpx.load_target(target), threads=1).module)


def _product(rows: str, k: int, n: int, is_transposed: bool) -> tcpx.Module:
    stored = (n, k) if is_transposed else (k, n)
    symbols = " symbols [S: 0..512]" if rows == "[S]" else ""
    weight = f'  %w = tcp.const {{constant = "w"}} : tensor<{stored[0]}x{stored[1]}xf32>\n'
    turned = f"  %t = tcp.transpose(%w) {{permutation = [1, 0]}} : tensor<{k}x{n}xf32>\n" if is_transposed else ""
    text = (
        f"func @f(%x: tensor<{rows}x{k}xf32>) -> tensor<{rows}x{n}xf32>{symbols} {{\n{weight}{turned}"
        f"  %y = tcp.matmul(%x, %{'t' if is_transposed else 'w'}) : tensor<{rows}x{n}xf32>\n  tcp.return(%y)\n}}\n"
    )
    return tcpx.parse(text, constants={"w": _array(*stored)})


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


TIED = """\
func @tied(%ids: tensor<[S]xsi64> in 0 to 99) -> tensor<[S]x100xf32> symbols [S: 0..64] {
  %w = tcp.const {constant = "w"} : tensor<100x48xf32>
  %e = tcp.gather(%w, %ids) {dim = 0} : tensor<[S]x48xf32>
  %x = tcp.exp(%e) : tensor<[S]x48xf32>
  %t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<48x100xf32>
  %y = tcp.matmul(%x, %t) : tensor<[S]x100xf32>
  tcp.return(%y)
}
"""
CALLED = """\
func @main(%x: tensor<[S]x48xf32>) -> tensor<[S]x48xf32> symbols [S: 0..64] {
  %w = tcp.const {constant = "w"} : tensor<48x48xf32>
  %v = tcp.const {constant = "v"} : tensor<48x48xf32>
  %a = tcp.call @layer(%x, %w) : tensor<[S]x48xf32>
  %b = tcp.call @layer(%a, %v) : tensor<[S]x48xf32>
  tcp.return(%b)
}
func @layer(%x: tensor<[S]x48xf32>, %w: tensor<48x48xf32>) -> tensor<[S]x48xf32> symbols [S: 0..64] {
  %t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<48x48xf32>
  %y = tcp.matmul(%x, %t) : tensor<[S]x48xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(("rows", "k", "n"), [("[S]", 100, 37), ("1", 64, 96), ("4", 64, 96), ("128", 96, 200)])
def test_products_read_a_constant_as_it_is_stored(rows: str, k: int, n: int, is_transposed: bool, target: str) -> None:
    assert _copies(_product(rows, k, n, is_transposed), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_tied_embeddings(target: str) -> None:
    assert _copies(tcpx.parse(TIED, constants={"w": _array(100, 48)}), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_constants_that_calls_pass(target: str) -> None:
    assert _copies(tcpx.parse(CALLED, constants={"w": _array(48, 48), "v": _array(48, 48)}), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_models(target: str) -> None:
    for model in (encoder(2), decoder(cached=False), decoder(cached=True)):
        assert _copies(tcpx.onnx.load(model).module, target) == []


def test_what_is_counted() -> None:
    """A transposition that each call computes is found, through loops and calls; rows of a table are not."""
    plain = "language 2\nschedule s(root: func) { print(root) }"
    assert _copies(_product("4", 64, 96, is_transposed=True), "x86_avx512", plain) != []
    called = tcpx.parse(CALLED, constants={"w": _array(48, 48), "v": _array(48, 48)})
    assert {each.partition(":")[0] for each in _copies(called, "x86_avx512", plain)} == {"@layer"}
    tied = _copies(tcpx.parse(TIED, constants={"w": _array(100, 48)}), "x86_avx512", plain)
    assert tied
    assert all("%t" in each for each in tied)

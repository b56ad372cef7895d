"""No call packs, transposes or converts a constant: stores of what is computed of constants alone are counted."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tcpx
from tcpx.api import program_or_default
from tcpx.costs.dependence import stores_of_constants
from tcpx.lowering import run_and_lower
from tests.frontends.onnx.decoder import decoder
from tests.frontends.onnx.transformer import encoder

TARGETS = ("x86_avx512", "x86_avx2")


def _copies(module: tcpx.Module, target: str, schedule: str = "") -> list[str]:
    program = program_or_default(tcpx.parse_schedule(schedule) if schedule else None)
    return stores_of_constants(run_and_lower(module, program, tcpx.load_target(target), threads=1).module)


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


NARROW = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "si8": np.int8}


def _widened(rows: str, dtype: str, form: str) -> tcpx.Module:
    """A product with a narrow constant that is widened: the right factor as stored, or transposed, or scaled for each
    column; the left factor; one of many; or read by two products."""
    text = {
        "right": "%c = tcp.cast(%w) : tensor<48x40xf32>\n%y = tcp.matmul(%x, %c) : tensor<{m}x40xf32>",
        "turned": "%c = tcp.cast(%v) : tensor<40x48xf32>\n"
        "%t = tcp.transpose(%c) {{permutation = [1, 0]}} : tensor<48x40xf32>\n"
        "%y = tcp.matmul(%x, %t) : tensor<{m}x40xf32>",
        "scaled": "%c = tcp.cast(%w) : tensor<48x40xf32>\n%b = tcp.broadcast(%s) {{dims = [1]}} : tensor<48x40xf32>\n"
        "%d = tcp.mul(%c, %b) : tensor<48x40xf32>\n%y = tcp.matmul(%x, %d) : tensor<{m}x40xf32>",
        "left": "%c = tcp.cast(%v) : tensor<40x48xf32>\n%t = tcp.transpose(%x) {{permutation = [1, 0]}} : "
        "tensor<48x{m}xf32>\n%y = tcp.matmul(%c, %t) : tensor<40x{m}xf32>",
        "two": "%c = tcp.cast(%w) : tensor<48x40xf32>\n%e = tcp.exp(%x) : tensor<{m}x48xf32>\n"
        "%a = tcp.matmul(%e, %c) : tensor<{m}x40xf32>\n%b = tcp.matmul(%x, %c) : tensor<{m}x40xf32>\n"
        "%y = tcp.sub(%a, %b) : tensor<{m}x40xf32>",
    }[form].format(m=rows)
    result = f"tensor<40x{rows}xf32>" if form == "left" else f"tensor<{rows}x40xf32>"
    symbols = " symbols [S: 0..512]" if rows == "[S]" else ""
    stored = {"w": f"48x40x{dtype}", "v": f"40x48x{dtype}", "s": "40xf32"}
    consts = "".join(
        f'%{name} = tcp.const {{constant = "{name}"}} : tensor<{type_}>\n'
        for name, type_ in stored.items()
        if f"%{name})" in text
    )
    arrays = {
        "w": np.round(8 * _array(48, 40)).astype(NARROW[dtype]),
        "v": np.round(8 * _array(40, 48)).astype(NARROW[dtype]),
        "s": np.round(8 * _array(40)),
    }
    module = f"func @f(%x: tensor<{rows}x48xf32>) -> {result}{symbols} {{\n{consts}{text}\ntcp.return(%y)\n}}\n"
    return tcpx.parse(module, constants={name: a for name, a in arrays.items() if f"%{name} =" in consts})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("rows", ["3", "32", "[S]"])
def test_products_widen_a_constant_once_or_in_registers(rows: str, dtype: str, target: str) -> None:
    assert _copies(_widened(rows, dtype, "right"), target) == []


@pytest.mark.parametrize("form", ["turned", "scaled", "left", "two"])
def test_other_products_with_a_constant_that_is_widened(form: str) -> None:
    assert _copies(_widened("[S]", "si8", form), "x86_avx2") == []


READERS = {
    "a loop": """\
  %y = gml_st.for %i in 0 to 5 step 1 (%d = %x) {
    %r = gml_st.materialize(%d) tile [%i, 0] [1, 48] : tensor<1x48xf32>
    %p = tcp.matmul(%r, %v) : tensor<1x48xf32>
    gml_st.yield(%p, %d) tile [%i, 0] [1, 48]
  } : tensor<5x48xf32>""",
    "a product in a loop": """\
  %y = gml_st.for %i in 0 to 3 step 1 (%d = %x) {
    %c = tcp.const {constant = "w"} : tensor<48x48xsi8>
    %g = tcp.cast(%c) : tensor<48x48xf32>
    %h = tcp.transpose(%g) {permutation = [1, 0]} : tensor<48x48xf32>
    %p = tcp.matmul(%d, %h) : tensor<5x48xf32>
    gml_st.yield(%p, %d) full
  } : tensor<5x48xf32>""",
    "calls": "  %z = tcp.call @layer(%x, %v) : tensor<5x48xf32>\n  %y = tcp.call @layer(%z, %v) : tensor<5x48xf32>",
    "a call, of a view": """\
  %s = tcp.reshape(%f) : tensor<2x24x48xf32>
  %y = tcp.call @of_two(%x, %s) : tensor<5x48xf32>""",
}


@pytest.mark.parametrize("reader", READERS)
def test_what_loops_and_calls_read_of_a_narrow_constant_is_widened_once(reader: str) -> None:
    text = f"""\
func @main(%x: tensor<5x48xf32>) -> tensor<5x48xf32> {{
  %w = tcp.const {{constant = "w"}} : tensor<48x48xsi8>
  %f = tcp.cast(%w) : tensor<48x48xf32>
  %v = tcp.transpose(%f) {{permutation = [1, 0]}} : tensor<48x48xf32>
{READERS[reader]}
  tcp.return(%y)
}}
func @layer(%x: tensor<5x48xf32>, %v: tensor<48x48xf32>) -> tensor<5x48xf32> {{
  %y = tcp.matmul(%x, %v) : tensor<5x48xf32>
  tcp.return(%y)
}}
func @of_two(%x: tensor<5x48xf32>, %s: tensor<2x24x48xf32>) -> tensor<5x48xf32> {{
  %v = tcp.reshape(%s) : tensor<48x48xf32>
  %y = tcp.matmul(%x, %v) : tensor<5x48xf32>
  tcp.return(%y)
}}
"""
    if reader == "a product in a loop":
        text = text.replace("5x48xf32", "[S]x48xf32").replace("> {", "> symbols [S: 0..64] {")
    module = tcpx.parse(text, constants={"w": np.round(8 * _array(48, 48)).astype(np.int8)})
    assert _copies(module, "x86_avx2") == []


def test_a_large_constant_is_widened_in_registers() -> None:
    """One that would fill more than half of L3 stays as narrow as it is stored."""
    text = (
        "func @f(%x: tensor<[S]x2048xf32>) -> tensor<[S]x2048xf32> symbols [S: 0..64] {\n"
        '  %w = tcp.const {constant = "w"} : tensor<2048x2048xsi8>\n  %c = tcp.cast(%w) : tensor<2048x2048xf32>\n'
        "  %y = tcp.matmul(%x, %c) : tensor<[S]x2048xf32>\n  tcp.return(%y)\n}\n"
    )
    stored = np.ones((2048, 2048), np.int8)
    module = run_and_lower(
        tcpx.parse(text, constants={"w": stored}), program_or_default(None), tcpx.load_target("x86_avx2"), threads=1
    ).module
    assert stores_of_constants(module) == []
    kept = [module.constants.get(name) for name in module.constants]
    assert all(array is None or array.dtype == np.int8 for array in kept)


@pytest.mark.parametrize("form", ["right", "two"])
def test_numbers_of_a_widened_constant(form: str) -> None:
    """Each version, no rows, and rows with infinities and NaN."""
    kernel = tcpx.compile(_widened("[S]", "bf16", form), target="generic", threads=1)
    w = np.round(8 * _array(48, 40)).astype(NARROW["bf16"]).astype(np.float32)
    for rows in (0, 1, 5, 7, 33):
        x = np.round(8 * _array(rows, 48)) / 8
        if rows == 7:
            x[2, 3], x[4, 5] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            wanted = x @ w if form == "right" else np.exp(x) @ w - x @ w
        np.testing.assert_allclose(np.asarray(kernel(x), np.float32), wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_tied_embeddings(target: str) -> None:
    assert _copies(tcpx.parse(TIED, constants={"w": _array(100, 48)}), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_constants_that_calls_pass(target: str) -> None:
    assert _copies(tcpx.parse(CALLED, constants={"w": _array(48, 48), "v": _array(48, 48)}), target) == []


ROWS_OF_POSITIONS = {"@encoder: %Gather_5.1.buf = vector.write", "@decoder: %wpe/Gather.1.buf = vector.write"}
"""A gather of rows of a table by positions that are stored, and follow one another: it is not read as a slice yet."""


@pytest.mark.parametrize("target", TARGETS)
def test_models(target: str) -> None:
    for model in (encoder(2), decoder(cached=False), decoder(cached=True)):
        assert set(_copies(tcpx.onnx.load(model).module, target)) <= ROWS_OF_POSITIONS


def test_what_is_counted() -> None:
    """A transposition that each call computes is found, through loops and calls; rows of a table are not."""
    plain = "language 2\nschedule s(root: func) { print(root) }"
    assert _copies(_product("4", 64, 96, is_transposed=True), "x86_avx512", plain) != []
    called = tcpx.parse(CALLED, constants={"w": _array(48, 48), "v": _array(48, 48)})
    assert {each.partition(":")[0] for each in _copies(called, "x86_avx512", plain)} == {"@layer"}
    tied = _copies(tcpx.parse(TIED, constants={"w": _array(100, 48)}), "x86_avx512", plain)
    assert tied
    assert all("%t" in each for each in tied)

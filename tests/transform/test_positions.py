"""Comparisons of positions in tiles: vectors are as wide as elements, wherever the tile lies."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.transform.payloads import Sizes, check, refusal

MASKED = """\
func @f(%x: tensor<[M]x[N]xDTYPE>) -> tensor<[M]x[N]xDTYPE> symbols [M: 0.., N: 0..] {
  %m = tcp.generic(%x) {iterators = [["d0", "parallel"], ["d1", "parallel"]], maps = [[d0, d1], [d0, d1]],
      positions = [POSITIONS]} ({ (%a: DTYPE, %i: si64, %j: si64):
    %o = tcp.const {value = OFFSET} : si64
    %k = tcp.add(%i, %o) : si64
    %c = tcp.COMPARISON(%k, %j) : i1
    %z = tcp.const {value = 0.0} : DTYPE
    %r = tcp.select(%c, %a, %z) : DTYPE
    tcp.yield(%r)
  }) : tensor<[M]x[N]xDTYPE>
  tcp.return(%m)
}
"""
TILED = """\
let m = match one "m" in root
let _, i = tile(m, [d0: 3, d1: 16], tail: pad)
vectorize(i)
"""
SIZES: tuple[Sizes, ...] = ({"M": 5, "N": 37}, {"M": 1, "N": 1}, {"M": 40, "N": 3}, {"M": 0, "N": 4})


def payload(comparison: str = "greater_equal", offset: int = 0, positions: str = "d0, d1", dtype: str = "f32") -> str:
    given = {"COMPARISON": comparison, "OFFSET": str(offset), "POSITIONS": positions, "DTYPE": dtype}
    text = MASKED
    for name, value in given.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("comparison", ["greater_equal", "greater", "less_equal", "less", "equal", "not_equal"])
@pytest.mark.parametrize("offset", [0, -7, 2**40, -(2**40)])
def test_comparisons_count_from_the_tile(comparison: str, offset: int) -> None:
    text = check(payload(comparison, offset), TILED, SIZES).module.text()
    assert "si64" not in text


@pytest.mark.parametrize("positions", ["2*d0 + 1, d1", "d1, d0", "d0, 36 - d1", "d0 + d1, 2*d1", "d1, 5"])
def test_positions_of_any_linear_kind(positions: str) -> None:
    assert "si64" not in check(payload(positions=positions), TILED, SIZES).module.text()


@pytest.mark.parametrize("positions", ["floordiv(d0, 2), d1", "d0, mod(d1, 3)", "d0*d1, d1"])
def test_tiles_of_what_is_not_linear_are_refused(positions: str) -> None:
    """They had the positions of other elements."""
    found = refusal(payload(positions=positions), TILED)
    assert "a position is not linear in it" in found.message
    assert found.fix == "compute it in the body, of the position of the dim"
    text = payload(positions=positions)
    x = np.arange(5 * 37, dtype=np.float32).reshape(5, 37)
    np.testing.assert_array_equal(tcpx.compile(tcpx.parse(text))(x), tcpx.evaluate(tcpx.parse(text), x))


def test_elements_as_wide_stay() -> None:
    assert "si64" in check(payload(dtype="f64"), TILED, SIZES).module.text()


def test_a_position_that_is_read_too_stays() -> None:
    wide = payload().replace("tcp.select(%c, %a, %z)", "tcp.select(%c, %b, %z)")
    wide = wide.replace("    %r =", "    %n = tcp.cast(%j) : f32\n    %b = tcp.add(%a, %n) : f32\n    %r =")
    text = check(wide, TILED, SIZES).module.text()
    assert "%j" not in text or "si64" in text
    assert "si32" in text


def test_a_mask_of_unknown_lengths_does_not_narrow_the_product() -> None:
    """A causal mask is compared in 16 lanes, as many as scores have."""
    attention = """
func @f(%q: tensor<2x[M]x64xf32>, %k: tensor<2x[N]x64xf32>, %v: tensor<2x[N]x64xf32>) -> tensor<2x[M]x64xf32>
    symbols [M: 4.., N: 1..] {
  %o = tcp.attention(%q, %k, %v) {causal = true} : tensor<2x[M]x64xf32>
  tcp.return(%o)
}
"""
    library = 'language 1\nimport "lib/attention.tcps" as a\nschedule s(root: func) { a.attention(root) }\n'
    source = tcpx.emit(tcpx.parse(attention), tcpx.parse_schedule(library), target="x86_avx512").c_source
    assert "_mm512_cmpge_epi32_mask" in source
    assert "epi64_mask" not in source

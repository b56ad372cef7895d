"""One computation, written in several ways: the default schedule computes it in the same way."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.target import Target

STORED = {
    "argument": ("", ", %w: tensor<{}xf32>"),
    "constant": ('  %w = tcp.const {{constant = "w"}} : tensor<{}xf32>\n', ""),
}


def linear(where: str, spelling: str, m: str = "[M]") -> tcpx.Module:
    """x [M, 40] times a weight that is stored as [24, 40]."""
    body, given = (text.format("24x40") for text in STORED[where])
    product = {
        "contract": '%y = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}',
        "transpose": "%t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<40x24xf32>\n  %y = tcp.matmul(%x, %t)",
        "twice": "%a = tcp.transpose(%w) {permutation = [1, 0]} : tensor<40x24xf32>\n"
        "  %b = tcp.transpose(%a) {permutation = [1, 0]} : tensor<24x40xf32>\n"
        "  %t = tcp.transpose(%b) {permutation = [1, 0]} : tensor<40x24xf32>\n  %y = tcp.matmul(%x, %t)",
    }[spelling]
    symbols = " symbols [M: 0..]" if m == "[M]" else ""
    text = (
        f"func @f(%x: tensor<{m}x40xf32>{given}) -> tensor<{m}x24xf32>{symbols} {{\n{body}"
        f"  {product} : tensor<{m}x24xf32>\n  tcp.return(%y)\n}}\n"
    )
    weights = np.random.default_rng(0).integers(-4, 5, (24, 40)).astype(np.float32)
    return tcpx.parse(text, constants=Constants({"w": weights} if where == "constant" else {}))


def statements(module: tcpx.Module, target: Target, threads: int = 1) -> str:
    """The C without comments, which quote the payload, with its words numbered as they come: names do not count."""
    source = tcpx.emit(module, target=target, threads=threads).c_source
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL)
    words: dict[str, str] = {}
    return re.sub(r"[A-Za-z_]\w*", lambda word: words.setdefault(word[0], f"w{len(words)}"), code)


@pytest.mark.parametrize("where", STORED)
@pytest.mark.parametrize("m", ["[M]", "1", "33"])
def test_a_transposed_factor_is_one_that_is_stored_so(target: Target, where: str, m: str) -> None:
    wanted = statements(linear(where, "contract", m), target)
    assert statements(linear(where, "transpose", m), target) == wanted
    assert statements(linear(where, "twice", m), target) == wanted


BATCH = """\
func @f(%x: tensor<[S]x[B]x40xf32>, %r: tensor<[S]x[B]x24xf32>) -> tensor<[S]x[B]x24xf32> symbols [S: 0.., B: 0..] {
  %w = tcp.const {constant = "w"} : tensor<40x24xf32>
  %c = tcp.const {constant = "c"} : tensor<24xf32>
  %y = tcp.contract(%x, %w) {lhs = ["s", "b", "k"], rhs = ["k", "n"], out = ["s", "b", "n"]} : tensor<[S]x[B]x24xf32>
  %z = tcp.add(%y, broadcast(%c, [2])) : tensor<[S]x[B]x24xf32>
  %q = tcp.add(%z, %r) : tensor<[S]x[B]x24xf32>
  tcp.return(%q)
}
"""


def test_rows_of_a_batch_fill_tiles_together(target: Target) -> None:
    """Also where the inner of the two dims is short: it was padded to whole tiles alone."""
    draw = np.random.default_rng(1)
    w, c = draw.integers(-4, 5, (40, 24)).astype(np.float32), draw.integers(-4, 5, 24).astype(np.float32)
    module = tcpx.parse(BATCH, constants=Constants({"w": w, "c": c}))
    made = tcpx.apply_schedule(module, None, target=target).module.text()
    assert "[B*S]x24xf32" in made
    kernel = tcpx.compile(module, target=target)
    for s, b in ((33, 1), (1, 33), (5, 7), (0, 3), (3, 0)):
        x = draw.integers(-4, 5, (s, b, 40)).astype(np.float32)
        r = draw.integers(-4, 5, (s, b, 24)).astype(np.float32)
        np.testing.assert_array_equal(kernel(x, r), x @ w + c + r)


def test_a_weight_is_transposed_and_scaled_once(target: Target) -> None:
    """What depends on constants alone is no work of a call."""
    text = """\
func @f(%x: tensor<[M]x40xf32>) -> tensor<[M]x24xf32> symbols [M: 0..] {
  %w = tcp.const {constant = "w"} : tensor<24x40xf32>
  %c = tcp.const {constant = "c"} : tensor<24xf32>
  %s = tcp.mul(%w, broadcast(%c, [0])) : tensor<24x40xf32>
  %t = tcp.transpose(%s) {permutation = [1, 0]} : tensor<40x24xf32>
  %y = tcp.matmul(%x, %t) : tensor<[M]x24xf32>
  tcp.return(%y)
}
"""
    draw = np.random.default_rng(1)
    w, c = draw.integers(-4, 5, (24, 40)).astype(np.float32), draw.integers(-4, 5, 24).astype(np.float32)
    kernel = tcpx.compile(tcpx.parse(text, constants=Constants({"w": w, "c": c})), target=target)
    x = draw.integers(-4, 5, (7, 40)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), x @ (w * c[:, None]).T)
    scaled = tcpx.parse(text, constants=Constants({"w": w, "c": c}))
    assert "tcp.transpose" not in tcpx.apply_schedule(scaled, None, target=target).module.text()

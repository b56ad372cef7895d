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


ROWS = {
    "softmax": (
        "  %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x40xf32>\n",
        """\
  %m = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
  %s = tcp.sub(%x, broadcast(%m, [0])) : tensor<[M]x40xf32>
  %e = tcp.exp(%s) : tensor<[M]x40xf32>
  %t = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  %i = tcp.reciprocal(%t) : tensor<[M]xf32>
  %y = tcp.mul(broadcast(%i, [0]), %e) : tensor<[M]x40xf32>
""",
    ),
    "norm": (
        """\
  %n = tcp.rms_norm(%x) {dims = [1], epsilon = 0.5} : tensor<[M]x40xf32>
  %y = tcp.mul(%n, 3.0) : tensor<[M]x40xf32>
""",
        """\
  %q = tcp.pow(%x, 2.0) : tensor<[M]x40xf32>
  %a = tcp.reduce_mean(%q) {dims = [1]} : tensor<[M]xf32>
  %k = tcp.reshape(%a) : tensor<[M]x1xf32>
  %v = tcp.add(%k, 0.5) : tensor<[M]x1xf32>
  %r = tcp.sqrt(%v) : tensor<[M]x1xf32>
  %i = tcp.div(1.0, %r) : tensor<[M]x1xf32>
  %b = tcp.reshape(%i) : tensor<[M]xf32>
  %n = tcp.mul(%x, broadcast(%b, [0])) : tensor<[M]x40xf32>
  %y = tcp.mul(%n, 3.0) : tensor<[M]x40xf32>
""",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_by_their_parts(target: Target, name: str) -> None:
    """As exporters write them, with dims of one index, too."""
    head = "func @f(%x: tensor<[M]x40xf32>) -> tensor<[M]x40xf32> symbols [M: 0..] {\n"
    whole, parts = (tcpx.parse(f"{head}{body}  tcp.return(%y)\n}}\n") for body in ROWS[name])
    assert statements(parts, target) == statements(whole, target)


def attention(softmax: str) -> tcpx.Module:
    scores = "tensor<2x[M]x[N]xf32>"
    return tcpx.parse(
        f"""\
func @f(%q: tensor<2x[M]x16xf32>, %k: tensor<2x[N]x16xf32>, %v: tensor<2x[N]x16xf32>) -> tensor<2x[M]x16xf32>
    symbols [M, N: 1..] {{
  %s = tcp.contract(%q, %k) {{lhs = ["h", "m", "d"], rhs = ["h", "n", "d"], out = ["h", "m", "n"]}} : {scores}
{softmax.replace("TYPE", scores)}
  %o = tcp.contract(%p, %v) {{lhs = ["h", "m", "n"], rhs = ["h", "n", "d"], out = ["h", "m", "d"]}}
      : tensor<2x[M]x16xf32>
  tcp.return(%o)
}}
"""
    )


def test_attention_by_its_parts(target: Target) -> None:
    """No array over all queries and keys remains."""
    whole = attention("  %p = tcp.softmax(%s) {dim = 2} : TYPE")
    parts = attention(
        """\
  %m = tcp.reduce_max(%s) {dims = [2]} : tensor<2x[M]xf32>
  %d = tcp.sub(%s, broadcast(%m, [0, 1])) : TYPE
  %e = tcp.exp(%d) : TYPE
  %t = tcp.reduce_sum(%e) {dims = [2]} : tensor<2x[M]xf32>
  %p = tcp.div(%e, broadcast(%t, [0, 1])) : TYPE"""
    )
    assert statements(parts, target) == statements(whole, target)

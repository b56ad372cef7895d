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


def shown_as(shape: str, body: str, result: str, reduced: str = "") -> str:
    """A payload of x [6, 40], which `body` reads as %a under another shape; %b, its result, is shown as `result`."""
    return (
        f"func @f(%x: tensor<6x40xf32>) -> tensor<{result}xf32> {{\n"
        f"  %a = tcp.reshape(%x) : tensor<{shape}xf32>\n  %b = {body} : tensor<{reduced or shape}xf32>\n"
        f"  %y = tcp.reshape(%b) : tensor<{result}xf32>\n  tcp.return(%y)\n}}\n"
    )


PAIRS = '{lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}'
OF_ONE = PAIRS.replace('["m"', '["u", "m"')
SHOWN = {
    "one element innermost": (
        shown_as("6x40", "tcp.tanh(%a)", "6x40"),
        shown_as("6x1x40x1", "tcp.tanh(%a)", "6x40"),
    ),
    "sums of rows, each element alone": (
        shown_as("6x40", "tcp.reduce_sum(%a) {dims = [1]}", "6", "6"),
        shown_as("6x40x1", "tcp.reduce_sum(%a) {dims = [1, 2]}", "6", "6"),
    ),
    "sums of columns, each element alone": (
        shown_as("6x40", "tcp.reduce_sum(%a) {dims = [0]}", "40", "40"),
        shown_as("6x40x1", "tcp.reduce_sum(%a) {dims = [0, 2]}", "40", "40"),
    ),
    "rows in two dims": (
        shown_as("6x40", "tcp.reduce_max(%a) {dims = [1]}", "6", "6"),
        shown_as("6x8x5", "tcp.reduce_max(%a) {dims = [1, 2]}", "6", "6"),
    ),
    "columns in two dims": (
        shown_as("6x40", "tcp.reduce_max(%a) {dims = [0]}", "40", "40"),
        shown_as("6x8x5", "tcp.reduce_max(%a) {dims = [0]}", "40", "8x5"),
    ),
    "transposed, each element alone": (
        shown_as("6x40", "tcp.transpose(%a) {permutation = [1, 0]}", "40x6", "40x6"),
        shown_as("6x1x40", "tcp.transpose(%a) {permutation = [2, 0, 1]}", "40x6", "40x6x1"),
    ),
    "a batch of one product": (
        shown_as("6x40", f"tcp.contract(%a, %x) {PAIRS}", "6x6", "6x6"),
        shown_as("1x6x40", f"tcp.contract(%a, %x) {OF_ONE}", "6x6", "1x6x6"),
    ),
}  # fmt: skip
"""Payloads that compute the same, of which the second has dims of one index, or several dims for one."""


@pytest.mark.parametrize("name", SHOWN)
def test_dims_of_one_index_and_dims_side_by_side_change_nothing(target: Target, name: str) -> None:
    plain, other = (tcpx.parse(text) for text in SHOWN[name])
    assert statements(other, target) == statements(plain, target)
    x = np.random.default_rng(2).integers(-4, 5, (6, 40)).astype(np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(other, x), tcpx.evaluate(plain, x))


BIAS = """\
func @f(%x: tensor<[N]x8x5xf32>, %b: tensor<8x5xf32>) -> tensor<[N]x8x5xf32> symbols [N: 0..] {
  %y = tcp.add(%x, broadcast(%b, [1, 2])) : tensor<[N]x8x5xf32>
  tcp.return(%y)
}
"""


def test_dims_that_all_operands_have_side_by_side_are_one(target: Target) -> None:
    module = tcpx.parse(BIAS)
    assert "[N]x40xf32" in tcpx.apply_schedule(module, None, target=target).module.text()
    kernel = tcpx.compile(module, target=target)
    for n in (0, 1, 7):
        x, b = (np.arange(s, dtype=np.float32).reshape(-1, 8, 5)[: max(n, 1)] for s in (40 * n, 40))
        np.testing.assert_array_equal(kernel(x.reshape(n, 8, 5), b[0]), x.reshape(n, 8, 5) + b[0])

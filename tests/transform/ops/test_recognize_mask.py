"""recognize_mask: masks as exporters write them become positions, and broadcasts of what they read."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tcpx.transform.language import program_of_text
from tests.transform.payloads import Sizes, check, refusal, target

SCORES = "%s: tensor<[H]x[N]x[N]xf32>"
ROWS = {
    "Trilu and Where": """
  %t = tcp.select(%ge, 1.0, 0.0) : tensor<[N]x[N]xf32>
  %q = tcp.equal(%t, 0.0) : tensor<[N]x[N]xi1>
  %m = tcp.select(%q, -inf, 0.0) : tensor<[N]x[N]xf32>
  %a = tcp.add(%s, broadcast(%m, [1, 2])) : tensor<[H]x[N]x[N]xf32>""",
    "the least number, above the diagonal": """
  %o = tcp.add(%i, 1) : tensor<[N]x[N]xsi64>
  %u = tcp.less_equal(%o, %j) : tensor<[N]x[N]xi1>
  %m = tcp.select(%u, -3.4028234663852886e+38, 0.0) : tensor<[N]x[N]xf32>
  %a = tcp.add(broadcast(%m, [1, 2]), %s) : tensor<[H]x[N]x[N]xf32>""",
    "Where of scores": """
  %r = tcp.reshape(%ge) : tensor<1x[N]x[N]xi1>
  %r2 = tcp.reshape(%r) : tensor<[N]x[N]xi1>
  %a = tcp.select(broadcast(%r2, [1, 2]), %s, -inf) : tensor<[H]x[N]x[N]xf32>""",
    "one less, times the least number": """
  %c = tcp.cast(%ge) : tensor<[N]x[N]xf32>
  %n = tcp.sub(1.0, %c) : tensor<[N]x[N]xf32>
  %m = tcp.mul(%n, -3.4028234663852886e+38) : tensor<[N]x[N]xf32>
  %a = tcp.add(%s, broadcast(%m, [1, 2])) : tensor<[H]x[N]x[N]xf32>""",
    "Range": """
  %x = tcp.iota {dim = 0} : tensor<[N]xsi64>
  %y = tcp.mul(%x, 1) : tensor<[N]xsi64>
  %l = tcp.less_equal(broadcast(%y, [1]), broadcast(%x, [0])) : tensor<[N]x[N]xi1>
  %not = tcp.not(%l) : tensor<[N]x[N]xi1>
  %a = tcp.select(broadcast(%not, [1, 2]), -inf, %s) : tensor<[H]x[N]x[N]xf32>""",
    "a window": """
  %w = tcp.add(%j, 3) : tensor<[N]x[N]xsi64>
  %near = tcp.greater(%w, %i) : tensor<[N]x[N]xi1>
  %k = tcp.and(%ge, %near) : tensor<[N]x[N]xi1>
  %m = tcp.select(%k, 0.0, -3.4028234663852886e+38) : tensor<[N]x[N]xf32>
  %a = tcp.add(%s, broadcast(%m, [1, 2])) : tensor<[H]x[N]x[N]xf32>""",
}
"""What makes %a of %s, and of whether a key %j is not behind a query %i."""


def payload(masked: str, arguments: str = "") -> str:
    return f"""\
func @f({SCORES}{arguments}) -> tensor<[H]x[N]x[N]xf32> symbols [H: 0.., N: 1..] {{
  %i = tcp.iota {{dim = 0}} : tensor<[N]x[N]xsi64>
  %j = tcp.iota {{dim = 1}} : tensor<[N]x[N]xsi64>
  %ge = tcp.greater_equal(%i, %j) : tensor<[N]x[N]xi1>{masked}
  %p = tcp.softmax(%a) {{dim = 2}} : tensor<[H]x[N]x[N]xf32>
  tcp.return(%p)
}}
"""


P = 'let p = match one "p" in root\n'
SIZES: tuple[Sizes, ...] = ({"H": 2, "N": 5}, {"H": 1, "N": 1}, {"H": 0, "N": 3})


def opcodes(run: Run) -> list[str]:
    return [op.opcode.removeprefix("tcp.") for op in run.module.main.body.ops]


@pytest.mark.parametrize("name", ROWS)
def test_positions(name: str) -> None:
    done = check(payload(ROWS[name]), P + "recognize_mask(p)\noptional dce(root)", SIZES)
    assert opcodes(done) == ["generic", "softmax", "return"]
    assert "positions = [d1, d2" in done.module.text()


def test_a_choice_of_zero_for_nan_goes() -> None:
    text = payload(ROWS["Trilu and Where"]).replace(
        "  tcp.return(%p)",
        "  %n = tcp.isnan(%p) : tensor<[H]x[N]x[N]xi1>\n"
        "  %g = tcp.select(%n, 0.0, %p) : tensor<[H]x[N]x[N]xf32>\n  tcp.return(%g)",
    )
    assert opcodes(check(text, P + "recognize_mask(p)\noptional dce(root)", SIZES)) == ["generic", "softmax", "return"]


def folded(text: str, arrays: dict[str, np.ndarray]) -> tuple[tcpx.Module, tcpx.Module]:
    module = tcpx.parse(text, constants=arrays)
    program = program_of_text(f"language 1\nschedule main(root: func) {{\n{P}recognize_mask(p)\n}}")
    return module, run_schedule(module, program, target()).module


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["i1", "f32"])
def test_stored_triangles(offset: int, upper: bool, dtype: str) -> None:
    text = f"""\
func @f(%s: tensor<2x[N]x[N]xf32>) -> tensor<2x[N]x[N]xf32> symbols [N: 1..8] {{
  %b = tcp.const {{constant = "b"}} : tensor<1x9x9x{dtype}>
  %c = tcp.slice(%b) {{offsets = [0, 1, 0]}} : tensor<1x[N]x[N]x{dtype}>
  %d = tcp.reshape(%c) : tensor<[N]x[N]x{dtype}>
  %e = tcp.not_equal(%d, 0) : tensor<[N]x[N]xi1>
  %a = tcp.select(broadcast(%e, [1, 2]), %s, -inf) : tensor<2x[N]x[N]xf32>
  %p = tcp.softmax(%a) {{dim = 2}} : tensor<2x[N]x[N]xf32>
  tcp.return(%p)
}}
"""
    rows = np.tri(9, 9, offset)
    stored = (1 - rows if upper else rows)[None].astype(np.bool_ if dtype == "i1" else np.float32)
    before, after = folded(text.replace(", 0)", ", 0.0)") if dtype == "f32" else text, {"b": stored})
    assert [op.opcode for op in after.main.body.ops] == ["tcp.generic", "tcp.softmax", "tcp.return"]
    for n in (1, 4, 8):
        s = np.random.default_rng(n).standard_normal((2, n, n)).astype(np.float32)
        np.testing.assert_array_equal(tcpx.evaluate(after, s), tcpx.evaluate(before, s))


def test_a_mask_of_keys_is_no_array_of_queries() -> None:
    masked = """
  %e = tcp.broadcast(%k) {dims = [0, 3]} : tensor<[H]x1x[N]x[N]xi1>
  %m = tcp.select(%e, 0.0, -10000.0) : tensor<[H]x1x[N]x[N]xf32>
  %n = tcp.reshape(%m) : tensor<[H]x[N]x[N]xf32>
  %a = tcp.add(%s, %n) : tensor<[H]x[N]x[N]xf32>"""
    done = check(payload(masked, ", %k: tensor<[H]x[N]xi1>"), P + "recognize_mask(p)\noptional dce(root)", SIZES)
    assert opcodes(done) == ["generic", "broadcast", "add", "softmax", "return"]
    assert "tensor<[H]x[N]xf32>" in done.module.text()
    again = refusal(done.module.text().replace(" symbols [H, N: 1..]", " symbols [H, N: 1..]"), P + "recognize_mask(p)")
    assert again.message == "what %p reads has no mask that follows from positions or is repeated"


BOTH = """
  %e = tcp.broadcast(%k) {dims = [0, 2]} : tensor<[H]x[N]x[N]xi1>
  %f = tcp.broadcast(%ge) {dims = [1, 2]} : tensor<[H]x[N]x[N]xi1>
  %g = tcp.and(%e, %f) : tensor<[H]x[N]x[N]xi1>
  %m = tcp.select(%g, 0.0, NUMBER) : tensor<[H]x[N]x[N]xf32>
  %a = tcp.add(%s, %m) : tensor<[H]x[N]x[N]xf32>"""
KEYS = ", %k: tensor<[H]x[N]xi1>"


def test_positions_and_data() -> None:
    done = check(payload(BOTH.replace("NUMBER", "-inf"), KEYS), P + "recognize_mask(p)\noptional dce(root)", SIZES)
    assert opcodes(done) == ["generic", "broadcast", "add", "generic", "softmax", "return"]


def test_what_is_assumed() -> None:
    text = payload(BOTH.replace("NUMBER", "-10000.0"), KEYS)
    module = tcpx.parse(text)
    program = program_of_text(f"language 1\nschedule main(root: func) {{\n{P}recognize_mask(p, assume: true)\n}}")
    after = run_schedule(module, program, target()).module
    keys = np.array([[True, True, False, True]])
    s = np.random.default_rng(0).standard_normal((1, 4, 4)).astype(np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(after, s, keys), tcpx.evaluate(module, s, keys))


REFUSED = {
    "no mask": (
        "\n  %a = tcp.exp(%s) : tensor<[H]x[N]x[N]xf32>",
        "",
        "what %p reads has no mask that follows from positions or is repeated",
        "%a: tcp.exp",
    ),
    "a number that may count": (
        ROWS["the least number, above the diagonal"].replace("-3.4028234663852886e+38", "-10000.0"),
        "",
        "what %a masks may count beside other scores",
        "-10000.0",
    ),
    "rows that may be empty": (
        BOTH.replace("NUMBER", "-3.4028234663852886e+38"),
        KEYS,
        "%a may mask all of a row, whose weights are then equal",
        "-3.4028234663852886e+38",
    ),
    "the first row is empty": (
        ROWS["the least number, above the diagonal"].replace("tcp.add(%i, 1)", "tcp.add(%i, 0)"),
        "",
        "%a may mask all of a row, whose weights are then equal",
        "-3.4028234663852886e+38",
    ),
    "products of positions": (
        """
  %o = tcp.mul(%i, %i) : tensor<[N]x[N]xsi64>
  %u = tcp.less_equal(%o, %j) : tensor<[N]x[N]xi1>
  %a = tcp.select(broadcast(%u, [1, 2]), %s, -inf) : tensor<[H]x[N]x[N]xf32>""",
        "",
        "what %p reads has no mask that follows from positions or is repeated",
        "%a: tcp.select",
    ),
    "a bonus": (
        """
  %m = tcp.select(%ge, 0.0, 1.0) : tensor<[N]x[N]xf32>
  %a = tcp.add(%s, broadcast(%m, [1, 2])) : tensor<[H]x[N]x[N]xf32>""",
        "",
        "what %p reads has no mask that follows from positions or is repeated",
        "%a: tcp.add",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    masked, arguments, message, found = REFUSED[name]
    diagnostic = refusal(payload(masked, arguments), P + "recognize_mask(p)")
    assert (diagnostic.message, diagnostic.found) == (message, found)

"""evaluate_constants: what depends on stored constants alone is computed while the schedule runs."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ScheduleError

HEAD = "func @f(%x: tensor<[M]x6xf32>) -> tensor<[M]x6xf32> symbols [M: 0..] {\n"
TAIL = "  %y = tcp.add(%x, broadcast(%v, [1])) : tensor<[M]x6xf32>\n  tcp.return(%y)\n}\n"
W, BYTES, HALF = (
    f'  %{name} = tcp.const {{constant = "{name}"}} : tensor<{shape}x{dtype}>\n'
    for name, shape, dtype in (("w", "6", "f32"), ("b", "6", "si8"), ("h", "3x6", "f32"))
)
SCALES = "  %s = tcp.const {value = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]} : tensor<6xf32>\n"
FILLED = "  %s = tcp.fill {value = 2.0} : tensor<6xf32>\n"
FOLDED = {
    "elementwise": f"{W}{SCALES}  %e = tcp.exp(%w) : tensor<6xf32>\n  %v = tcp.mul(%e, %s) : tensor<6xf32>\n",
    "with a number": f"{W}  %v = tcp.mul(%w, 2.0) : tensor<6xf32>\n",
    "a reduction": f"{HALF}  %v = tcp.reduce_sum(%h) {{dims = [0]}} : tensor<6xf32>\n",
    "a transpose": f"{HALF}  %t = tcp.transpose(%h) {{permutation = [1, 0]}} : tensor<6x3xf32>\n"
    "  %v = tcp.reduce_max(%t) {dims = [1]} : tensor<6xf32>\n",
    "a generic": f"{W}  %v = tcp.generic(%w) {{iterators = [[\"i\", \"parallel\"]], maps = [[i], [i]]}}"
    " ({ (%a: f32):\n    %n = tcp.neg(%a) : f32\n    tcp.yield(%n)\n  }) : tensor<6xf32>\n",
}  # fmt: skip
LEFT = {
    "growth": f"{BYTES}  %v = tcp.cast(%b) : tensor<6xf32>\n",
    "no array": f"{FILLED}  %v = tcp.exp(%s) : tensor<6xf32>\n",
    "a view": f"{HALF}  %c = tcp.slice(%h) {{offsets = [1, 0]}} : tensor<1x6xf32>\n"
    "  %v = tcp.reshape(%c) : tensor<6xf32>\n",
}
ARRAYS = {
    "w": np.linspace(-1, 1, 6, dtype=np.float32),
    "b": np.arange(6, dtype=np.int8),
    "h": np.arange(18, dtype=np.float32).reshape(3, 6),
}


def module(body: str, arrays: dict[str, np.ndarray] = ARRAYS) -> tcpx.Module:
    used = {name: array for name, array in arrays.items() if f'"{name}"' in body}
    return tcpx.parse(f"{HEAD}{body}{TAIL}" if not body.startswith("func") else body, constants=Constants(used))


def run(body: str, step: str = "evaluate_constants(root)") -> tcpx.Module:
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{step}\n}}")
    return tcpx.apply_schedule(module(body), program).module


def opcodes(made: tcpx.Module) -> list[str]:
    return [op.opcode for func in made.funcs.values() for op in func.body.ops]


@pytest.mark.parametrize("name", FOLDED)
def test_a_constant_takes_the_place_of_what_is_computed(name: str) -> None:
    made = run(FOLDED[name])
    assert opcodes(made) == ["tcp.const", "tcp.broadcast", "tcp.add", "tcp.return"]
    assert tcpx.parse(made.text(), constants=made.constants).text() == made.text()
    for rows in (0, 3):
        x = np.ones((rows, 6), np.float32)
        np.testing.assert_array_equal(tcpx.evaluate(made, x), tcpx.evaluate(module(FOLDED[name]), x))


@pytest.mark.parametrize("name", LEFT)
def test_what_would_grow_and_what_is_a_view_is_left(name: str) -> None:
    with pytest.raises(ScheduleError, match="`evaluate_constants` changes nothing here"):
        run(LEFT[name])


def test_growth_is_a_parameter() -> None:
    made = run(LEFT["growth"], "evaluate_constants(root, growth: 4.0)")
    assert opcodes(made) == ["tcp.const", "tcp.broadcast", "tcp.add", "tcp.return"]


def test_of_what_grows_a_part_is_evaluated() -> None:
    """The bytes are negated once; they are widened where they are read."""
    made = run(f"{BYTES}  %n = tcp.neg(%b) : tensor<6xsi8>\n  %v = tcp.cast(%n) : tensor<6xf32>\n")
    assert opcodes(made) == ["tcp.const", "tcp.cast", "tcp.broadcast", "tcp.add", "tcp.return"]


CALLED = """\
func @layer(%x: tensor<[M]x6xf32>, %w: tensor<6xf32>) -> tensor<[M]x6xf32> symbols [M: 0..] {
  %v = tcp.exp(%w) : tensor<6xf32>
  %y = tcp.mul(%x, broadcast(%v, [1])) : tensor<[M]x6xf32>
  tcp.return(%y)
}
func @main(%x: tensor<[M]x6xf32>, %own: tensor<6xf32>) -> tensor<[M]x6xf32> symbols [M: 0..] {
  %w = tcp.const {constant = "w"} : tensor<6xf32>
  %u = tcp.const {constant = "u"} : tensor<6xf32>
  %a = tcp.call @layer(%x, %w) : tensor<[M]x6xf32>
  %b = tcp.call @layer(%a, %OTHER) : tensor<[M]x6xf32>
  tcp.return(%b)
}
"""


@pytest.mark.parametrize(("other", "is_folded"), [("u", True), ("own", False)])
def test_an_argument_counts_where_every_call_passes_a_constant(other: str, is_folded: bool) -> None:
    arrays = {"w": ARRAYS["w"], "u": ARRAYS["w"] + 1}
    given = tcpx.parse(CALLED.replace("OTHER", other), constants=Constants(arrays))
    program = tcpx.parse_schedule("language 1\nschedule s(root: func) {\noptional evaluate_constants(root)\n}")
    made = tcpx.apply_schedule(given, program).module
    assert ("tcp.exp" not in opcodes(made)) == is_folded
    x = np.ones((2, 6), np.float32)
    for m in (made, given):
        found = np.asarray(tcpx.evaluate(m, x, ARRAYS["w"]), np.float32)
        second = arrays["u"] if is_folded else ARRAYS["w"]
        np.testing.assert_allclose(found, x * np.exp(ARRAYS["w"]) * np.exp(second), rtol=1e-5)

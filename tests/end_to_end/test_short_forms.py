"""Operations that are short for others: what a schedule is told that looks for the class in the text."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.diagnostics import ScheduleError

DIMS = 'input = ["h+p", "w+q", "c"], filter = ["p", "q", "c", "f"], out = ["h", "w", "f"]'
PADDED = f"""\
func @f(%x: tensor<9x9x8xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<9x9x16xf32> {{
  %y = tcp.convolution(%x, %w) {{{DIMS}, low = [1, 1], high = [1, 1]}} : tensor<9x9x16xf32>
  tcp.return(%y)
}}
"""
WHY = "its filter may be infinite, so masks leave out its padding; write a tcp.pad before it for `low` and `high`"
REPAIRED = PADDED.replace(
    "  %y = tcp.convolution(%x, %w)",
    "  %p = tcp.pad(%x) {value = 0.0, low = [1, 1, 0]} : tensor<11x11x8xf32>\n  %y = tcp.convolution(%p, %w)",
).replace(", low = [1, 1], high = [1, 1]", "")


def run(text: str, body: str) -> None:
    tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(f"language 2\nschedule s(root: func) {{\n  {body}\n}}\n"))


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (
            "tile(match one convolution in root, [h: 1])",
            f"%y (tcp.generic): is generic, not convolution, which it is written as: {WHY}",
        ),
        ('winograd(match one "y" in root, m: 2)', f"%y is written as a convolution: {WHY}"),
    ],
)
def test_masked_padding_is_told(body: str, note: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        run(PADDED, body)
    assert caught.value.diagnostic.notes[0] == note
    run(REPAIRED, body)

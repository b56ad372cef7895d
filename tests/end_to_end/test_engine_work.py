"""What importing tcpx loads, and how the engine's work grows with the payload."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import tcpx

EXTRAS = ("onnx", "torch", "jax", "optuna", "distributed", "safetensors", "rich", "sklearn", "scipy", "pandas")
TILE_EACH = """\
language 1
schedule main(root: func) {
  for x in match some contract in root { let i = tile(x, [m: 8]) }
  for y in match some elementwise in root { let i = tile(y, [d0: 8]) }
}
"""
TILE_SUMS = """\
language 1
schedule main(root: func) {
  for y in match some elementwise in root { let i = tile(y, [d0: 8]) }
}
"""


def test_no_extra_is_imported() -> None:
    code = f"import sys, tcpx; print([m for m in {EXTRAS!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def layers(count: int) -> str:
    """A chain of products and sums, in turn."""
    return payload(count, lambda k, last: f"tcp.matmul(%{last}, %w)" if k % 2 == 0 else f"tcp.add(%{last}, %x)")


def shared_operand(count: int) -> str:
    """A chain of sums that all add one value."""
    return payload(count, lambda _, last: f"tcp.add(%{last}, %x)")


def payload(count: int, operation: Callable[[int, str], str]) -> str:
    """A function of that many operations, each on the result of the one before."""
    lines: list[str] = []
    last = "x"
    for k in range(count):
        lines.append(f"  %layer{k} = {operation(k, last)} : tensor<[M]x64xf32>")
        last = f"layer{k}"
    head = "func @layers(%x: tensor<[M]x64xf32>, %w: tensor<64x64xf32>) -> tensor<[M]x64xf32> symbols [M] {"
    return "\n".join([head, *lines, f"  tcp.return(%{last})", "}"])


def visited(text: str, schedule: str) -> int:
    """Operations and uses visited by a schedule that changes every layer in one step."""
    run = tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(schedule), target="generic")
    return run.rewriter.visited


@pytest.mark.parametrize(
    ("made", "schedule"),
    [
        pytest.param(layers, TILE_EACH, id="products and sums"),
        pytest.param(shared_operand, TILE_SUMS, id="one operand shared by all"),
    ],
)
def test_work_grows_with_the_payload_not_faster(made: Callable[[int], str], schedule: str) -> None:
    few, many = visited(made(100), schedule), visited(made(1000), schedule)
    assert few > 100
    assert many <= 12 * few

"""What importing tcpx loads, and how the engine's work grows with the payload."""

from __future__ import annotations

import subprocess
import sys

import tcpx

EXTRAS = ("onnx", "torch", "jax", "optuna", "distributed", "safetensors", "rich", "sklearn", "scipy", "pandas")
TILE_EACH = """\
language 1
schedule main(root: func) {
  for x in match some contract in root { let i = tile(x, [m: 8]) }
  for y in match some elementwise in root { let i = tile(y, [d0: 8]) }
}
"""


def test_no_extra_is_imported() -> None:
    code = f"import sys, tcpx; print([m for m in {EXTRAS!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def layers(count: int) -> str:
    """A chain of products and sums, in turn."""
    lines: list[str] = []
    last = "x"
    for k in range(count):
        op = f"tcp.matmul(%{last}, %w)" if k % 2 == 0 else f"tcp.add(%{last}, %x)"
        last = f"layer{k}"
        lines.append(f"  %{last} = {op} : tensor<[M]x64xf32>")
    head = "func @layers(%x: tensor<[M]x64xf32>, %w: tensor<64x64xf32>) -> tensor<[M]x64xf32> symbols [M] {"
    return "\n".join([head, *lines, f"  tcp.return(%{last})", "}"])


def visited(count: int) -> int:
    """Operations visited by a schedule that tiles every layer."""
    run = tcpx.apply_schedule(tcpx.parse(layers(count)), tcpx.parse_schedule(TILE_EACH), target="generic")
    assert len(run.trace.entries) == count
    return sum(entry.visited for entry in run.trace.entries)


def test_work_grows_with_the_payload_not_faster() -> None:
    few, many = visited(100), visited(1000)
    assert few > 100
    assert many <= 12 * few

"""Errors of dense 3x3 convolutions against float64: the direct form beside Winograd's with tiles of 2, 4 and 6.

    python -m benchmarks.winograd_errors          # 200 random layers of the shapes of ResNet, U-Net and VGG
    python -m benchmarks.winograd_errors 20       # so many

Each layer has elements that are normally distributed, every second layer after a ReLU, and weights as networks start
with (He). Two units: the largest error over the largest result, and over eps times the largest sum of |x||w|.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tcpx

WAYS: Final = {"direct": {}, "F(2, 3)": {"m": 2}, "F(4, 3)": {"m": 4}, "F(6, 3)": {"m": 6}}
"""The params of each way; without `m`, numerics are exact."""
CHANNELS: Final = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 512)
SIZES: Final = (7, 8, 13, 14, 15, 16, 19, 28, 31, 32, 38, 56, 64)
EPSILON: Final = 2.0**-24
"""Half the distance of 1 and the next f32: the largest error of one rounding."""

Array = npt.NDArray[Any]
Errors = tuple[float, float]


TEXT: Final = """\
func @convolution(%x: tensor<[H]x[W]x[C]xf32>, %w: tensor<3x3x[C]x[F]xf32>) -> tensor<[H - 2]x[W - 2]x[F]xf32>
    symbols [H: 4.., W: 4.., C: 16.., F: 16..] {
  %y = tcp.convolution(%x, %w) {input = ["h+p", "w+q", "c"], filter = ["p", "q", "c", "f"],
      out = ["h", "w", "f"]} : tensor<[H - 2]x[W - 2]x[F]xf32>
  tcp.return(%y)
}
"""
"""One kernel of each way for all layers. Elements are padded before."""


def kernels() -> dict[str, tcpx.Kernel]:
    """The kernel of each way."""
    return {
        name: tcpx.compile(tcpx.parse(TEXT), params=params, numerics="winograd" if params else "exact")
        for name, params in WAYS.items()
    }


def errors(ways: Mapping[str, tcpx.Kernel], draw: np.random.Generator, is_positive: bool) -> dict[str, Errors]:
    """The largest error of each way for a random layer, in both units."""
    channels, filters, size = (int(draw.choice(most)) for most in (CHANNELS, CHANNELS, SIZES))
    x = draw.standard_normal((size + 2, size + 2, channels)).astype(np.float32)
    x = np.maximum(x, 0) if is_positive else x
    w = (draw.standard_normal((3, 3, channels, filters)) * (2 / (9 * channels)) ** 0.5).astype(np.float32)
    exact = convolved(x.astype(np.float64), w.astype(np.float64))
    products = convolved(np.abs(x), np.abs(w)).max()
    found = {name: float(np.max(np.abs(np.asarray(kernel(x, w)) - exact))) for name, kernel in ways.items()}
    most = float(np.abs(exact).max())
    return {name: (error / most, error / float(EPSILON * products)) for name, error in found.items()}


def convolved(x: Array, w: Array) -> Array:
    """The sums over windows, in the dtype of the operands."""
    size = x.shape[0] - 2
    parts = [x[p : p + size, q : q + size] @ w[p, q] for p in range(3) for q in range(3)]
    return np.sum(parts, axis=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each way: the median and the largest error of all layers, in both units."""
    words = sys.argv[1:] if arguments is None else arguments
    count, draw, ways = int(words[0]) if words else 200, np.random.default_rng(42), kernels()
    found: dict[str, list[Errors]] = {name: [] for name in WAYS}
    for number in range(count):
        for name, pair in errors(ways, draw, number % 2 == 1).items():
            found[name].append(pair)
    worse = {
        name: sum(a > b for (a, _), (b, _) in zip(pairs, found["direct"], strict=True)) for name, pairs in found.items()
    }
    print(f"{count} layers   over max |y|: median   largest   over eps sum |x||w|: median  largest   worse than direct")
    for name, pairs in found.items():
        relative, units = zip(*pairs, strict=True)
        print(
            f"{name:12}{median(relative):24.1e}{max(relative):10.1e}{median(units):29.3f}{max(units):9.3f}"
            f"{worse[name]:15} of {count}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

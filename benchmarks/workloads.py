"""The workloads: payloads, schedules, and NumPy's version where it has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import tcpx
from tcpx import Kernel

ROOT = Path(__file__).parents[1]
MATMUL = """\
func @matmul(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
MIN_PLUS = """\
func @min_plus(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.generic(%x, %w) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction"]],
                             maps = [[m, k], [k, n], [m, n]], combiner = "tcp.min"} ({ (%a: f32, %b: f32, %acc: f32):
    %sum = tcp.add(%a, %b) : f32
    %least = tcp.min(%acc, %sum) : f32
    tcp.yield(%least)
  }) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
PACKED = """\
language 1
import "lib/gemm.tcps" as gemm
schedule packed(root: func) {
  for mm in match some contract in root { gemm.packed_gemm(mm, epilogue(mm)) }
}
"""
TILED = """\
language 1
schedule tiled(root: func) {
  let mm = match one contract in root
  let i, j, k = tile(mm, [m: 32, n: 64, k: 64])
}
"""
NAIVE = """\
language 1
schedule naive(root: func) {
  bufferize(root)
}
"""
SPREAD = {"naive": NAIVE, "tiled": TILED, "packed_gemm": PACKED}

Run = Callable[[], object]


def build(payload: str, schedule: str = PACKED) -> Kernel:
    """A kernel for this machine, one thread."""
    return tcpx.compile(tcpx.parse(payload), tcpx.parse_schedule(schedule), target="native")


def product_runs(kernel: Kernel, size: int, numpy: bool = True) -> dict[str, Run]:
    """The kernel, and NumPy's product, on square matrices of this size."""
    random = np.random.default_rng(size)
    x, w = (random.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    out, other = np.empty_like(x), np.empty_like(x)
    runs: dict[str, Run] = {"tcpx": lambda: kernel(x, w, out=out)}
    if numpy:
        runs["numpy"] = lambda: np.matmul(x, w, out=other)
    return runs


def digits_runs(batch: int) -> dict[str, Run]:
    """The digits network on a batch, and the same in NumPy."""
    module = tcpx.load(ROOT / "examples" / "digits" / "digits.tcp")
    kernel = tcpx.compile(module, tcpx.load_schedule(ROOT / "schedules" / "digits.tcps"), target="native")
    x = np.random.default_rng(batch).random((batch, 64), dtype=np.float32)
    out = np.empty((batch, 10), np.float32)
    with np.load(ROOT / "examples" / "digits" / "weights.npz") as held:
        w1, b1, w2, b2, w3, b3 = (held[name] for name in ("w1", "b1", "w2", "b2", "w3", "b3"))

    def numpy() -> object:
        hidden = np.maximum(x @ w1 + b1, 0)
        hidden = np.maximum(hidden @ w2 + b2, 0)
        logits = hidden @ w3 + b3
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    repeats = max(1, 4096 // batch)

    def many(run: Run) -> Run:
        def repeated() -> None:
            for _ in range(repeats):
                run()

        return repeated

    return {"tcpx": many(lambda: kernel(x, out=out)), "numpy": many(numpy)}

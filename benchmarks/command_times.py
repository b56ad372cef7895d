"""How long commands take that a person waits for, in fresh processes: a check, a quick figure, a refusal."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

from benchmarks.bars import Bar, Verdict

RUNS: Final = 3
CONVOLUTION: Final = Path(__file__).parent / "payloads" / "convolution.tcp"
MOST_CHECK: Final = 15.0
MOST_QUICK: Final = 8.0
MOST_REFUSAL: Final = 3.0
MOST_AGAIN: Final = 0.5
"""Of a run of what was run before, whose model is not read: 96 MiB of weights here, as many as MiniLM has."""
WRONG_ELEMENTS: Final = 1 << 29
"""Zeros of f32 in a file of some megabytes: 2 GiB to unpack."""
PRODUCT: Final = """\
func @f(%x: tensor<128x256xf32>, %w: tensor<256x256xf32>) -> tensor<128x256xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<128x256xf32>
  tcp.return(%mm)
}
"""
WEIGHTS: Final = """\
constants "weights.npz"
func @f(%x: tensor<[N]x4096xf32>) -> tensor<[N]x6144xf32> symbols [N] {
  %w = tcp.const {constant = "w"} : tensor<4096x6144xf32>
  %mm = tcp.matmul(%x, %w) : tensor<[N]x6144xf32>
  tcp.return(%mm)
}
"""
CONSTANT: Final = """\
constants "large.npz"
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = tcp.const {constant = "w"} : tensor<4xf32>
  %y = tcp.add(%x, %w) : tensor<4xf32>
  tcp.return(%y)
}
"""


def command_bars() -> list[Verdict]:
    """The median time of each command beside its bar."""
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as name:
        folder = Path(name)
        product, constant, weights = (folder / f"{name}.tcp" for name in ("product", "constant", "weights"))
        product.write_text(PRODUCT, encoding="utf-8")
        constant.write_text(CONSTANT, encoding="utf-8")
        weights.write_text(WEIGHTS, encoding="utf-8")
        np.savez(folder / "weights.npz", w=np.zeros((4096, 6144), np.float32))
        np.savez_compressed(folder / "large.npz", w=np.zeros(WRONG_ELEMENTS, np.float32))
        return [
            _verdict("run --check of a convolution", ["run", CONVOLUTION, "--random", "0", "--check"], MOST_CHECK),
            _verdict("bench FILE --quick", ["bench", product, "--quick"], MOST_QUICK),
            _verdict("run, again", ["run", weights, "--random", "0", "--size", "N=1"], MOST_AGAIN, runs_before=2),
            _verdict("refusal of a constant of another shape", ["check", constant], MOST_REFUSAL, status=1),
        ]


def _verdict(name: str, words: Sequence[str | Path], most: float, status: int = 0, runs_before: int = 0) -> Verdict:
    bar = Bar("seconds", most)
    taken: list[float] = []
    for _ in range(runs_before + RUNS):
        started = perf_counter()
        done = subprocess.run([sys.executable, "-m", "tcpx.cli", *words], capture_output=True, text=True, check=False)
        taken.append(perf_counter() - started)
        if done.returncode != status:
            last = done.stderr.strip().splitlines()[-1:]
            reason = f"exit status {done.returncode}: {' '.join(last)}"
            return Verdict(f"tcpx {name}", 1, bar, None, reason, failed=True)
    return Verdict(f"tcpx {name}", 1, bar, median(taken[runs_before:]))

"""How far an evaluation is: points of all operations, also of those in loops and branches."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.progress import EvaluationProgress

FLAT = """\
func @f(%x: tensor<[M]x8xf32>, %w: tensor<8x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x4xf32>
  %y = tcp.exp(%mm) : tensor<[M]x4xf32>
  tcp.return(%y)
}
"""
SCHEDULE = """\
language 1
schedule s(root: func) {
  let mm = match one contract in root
  let loops = tile(mm, [m: 4])
}
"""


@pytest.mark.parametrize("size", [0, 1, 16])
def test_all_points_are_done_in_the_end(size: int) -> None:
    module = tcpx.parse(FLAT)
    x, w = np.ones((size, 8), np.float32), np.ones((8, 4), np.float32)
    progress = EvaluationProgress()
    assert progress.fraction == 0
    evaluate_func(module, module.main, [x, w], observer=progress)
    assert (progress.points, progress.done) == (size * 32 + size * 4, size * 36)
    assert progress.operation == "%y (tcp.exp)"
    assert progress.fraction == (1 if size else 0)


def test_operations_in_loops_count_once_per_iteration() -> None:
    module = tcpx.parse(FLAT)
    module = tcpx.apply_schedule(module, tcpx.parse_schedule(SCHEDULE)).module
    x, w = np.ones((16, 8), np.float32), np.ones((8, 4), np.float32)
    progress = EvaluationProgress()
    evaluate_func(module, module.main, [x, w], observer=progress)
    assert progress.points == progress.done > 16 * 36
    assert progress.fraction == 1

"""State that is written at places that indices say: in place, under the default schedule, tiled and alone."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx

SCATTER = """
func @main(%h: inout tensor<[N]x8xf32>, %ix: tensor<[M]xsi64> in 0 to N, %x: tensor<[M]x8xf32>)
    -> (%h: tensor<[N]x8xf32>) symbols [N: 1.., M] {
  %y = tcp.scatter_add(%x, %ix, init = %h) {dim = 0} : tensor<[N]x8xf32>
  tcp.return(%y)
}
"""
BODIES = {"alone": "", "tiled": 'let y = match one "y" in root\n  tile(y, [d0: 4])', "default": None}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", BODIES)
def test_rows_are_added_in_place(body: str, threads: int) -> None:
    text = BODIES[body]
    schedule = None if text is None else tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n  {text}\n}}\n")
    kernel = tcpx.compile(tcpx.parse(SCATTER), schedule, threads=threads)
    random = np.random.default_rng(0)
    for n, m in ((1, 1), (7, 20), (30, 5), (4, 0)):
        state, x = random.standard_normal((n, 8)).astype(np.float32), random.standard_normal((m, 8)).astype(np.float32)
        at = random.integers(0, n, m)
        wanted = state.astype(np.float64)
        np.add.at(wanted, at, x)
        kernel(state, at, x)
        np.testing.assert_allclose(state, wanted, rtol=1e-5, atol=1e-5)

"""Threads are used where there is enough for them to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx

PAYLOAD = """\
func @f(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32>{symbols} {{
  %y = tcp.add(%x, %x) : tensor<{shape}xf32>
  tcp.return(%y)
}}
"""
SCHEDULE = """\
language 1
schedule rows(root: func) {
  let y = match one add in root
  let i = tile(y, [d0: 1], parallel: true)
}
"""


def pragmas(shape: str, symbols: str, threads: int) -> list[str]:
    module = tcpx.parse(PAYLOAD.format(shape=shape, symbols=symbols))
    source = tcpx.emit(module, tcpx.parse_schedule(SCHEDULE), target="generic", threads=threads).c_source
    return re.findall(r"#pragma omp parallel for.*", source)


SHARED = "#pragma omp parallel for num_threads(2) schedule(static)"


@pytest.mark.parametrize(
    ("shape", "symbols", "found"),
    [
        ("16x16", "", []),
        ("1024x1024", "", [SHARED]),
        ("[M]x64", " symbols [M]", [f"{SHARED} if (256 * M >= 65536)"]),
        ("[M]x64", " symbols [M: 1000..]", [SHARED]),
        ("[M]x64", " symbols [M: 0..20]", []),
    ],
)
def test_threads(shape: str, symbols: str, found: list[str]) -> None:
    assert pragmas(shape, symbols, 2) == found
    assert pragmas(shape, symbols, 1) == []


PRODUCT = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N, K: 0..64] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
GRIDS = {
    "a grid": ("tile(mm, [m: 5, n: 16], parallel: true)", " collapse(2)"),
    "of three": ("tile(mm, [m: 20, n: 16], parallel: true)\nlet i = tile(mm, [m: 5])", " collapse(2)"),
    "an operand packed in it": (
        "let i, j = tile(mm, [m: 5, n: 16], parallel: true)\npack(mm.lhs, [k, m], at: j)",
        " collapse(2)",
    ),
    "an operand packed between": (
        "let i, j = tile(mm, [m: 5, n: 16], parallel: true)\npack(mm.lhs, [m, k], at: i)",
        "",
    ),
    "a loop between": (
        "let i = tile(mm, [m: 5], parallel: true)\nlet k = tile(mm, [k: 8])\nlet j = tile(mm, [n: 16], parallel: true)",
        "",
    ),
    "a range that depends": ("tile(mm, [m: 8], parallel: true)\ntile(mm, [m: 2, n: 16], parallel: true)", ""),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids(name: str) -> None:
    """Parallel loops with nothing between them share their iterations as one."""
    body, collapsed = GRIDS[name]
    schedule = tcpx.parse_schedule(
        f"language 1\nschedule s(root: func) {{\nlet mm = match one matmul in root\n{body}\n}}"
    )
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule, target="generic", threads=2)
    assert re.findall(r"#pragma omp parallel for(.*?) num_threads\(2\)", kernel.c_source) == [collapsed]
    random = np.random.default_rng(1)
    for m, n, k in ((1, 1, 1), (0, 5, 3), (7, 33, 0), (131, 67, 29)):
        x, w = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        assert np.array_equal(np.asarray(kernel(x, w)), x @ w)

"""Loops that gcc vectorizes so that they read behind an array (its bug 107451), takes minutes over, or rolls up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.target import load_target
from tests.guard_pages import run_guarded

pytestmark = pytest.mark.optimized

PRODUCT = """func @product(%x: tensor<12x5xf32>, %w: tensor<5x16xf32>) -> tensor<12x16xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<12x16xf32>
  tcp.return(%mm)
}"""
MM = "let mm = match one contract in root\n"


def schedule_of(body: str) -> tcpx.Schedule:
    return tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}")


def source(payload: str, body: str, target: str = "native") -> str:
    return tcpx.emit(tcpx.parse(payload), schedule=schedule_of(body), target=target).c_source


@pytest.mark.parametrize(
    "body",
    [
        "",
        "tile(mm, [k: 1, n: 8], tail: peel)",
        "tile(mm, [m: 4, n: 4])",
        "let i, j = tile(mm, [m: 2, n: 4])\nunroll(j)",
    ],
)
def test_nothing_behind_an_array_is_read(body: str) -> None:
    schedule = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{MM}{body}\n}}")
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule=schedule)
    random = np.random.default_rng(3)
    x, w = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((12, 5), (5, 16)))
    (found,) = run_guarded(kernel, x, w)
    np.testing.assert_array_equal(found, x @ w)


def test_only_loops_that_repeat_elements_of_rows_are_left_scalar() -> None:
    assert "no-tree-loop-vectorize" in source(PRODUCT, MM + "tile(mm, [k: 1, n: 8])")
    wide = PRODUCT.replace("16", "170")  # gcc vectorizes the inner loop
    assert "no-tree-loop-vectorize" not in source(wide, MM)
    assert "no-tree-loop-vectorize" not in source(PRODUCT, MM + "let i, j = tile(mm, [m: 4, n: 8])\nvectorize(j)")
    assert "no-tree-loop-vectorize" not in tcpx.emit(tcpx.parse(PRODUCT)).c_source


TURNED = """func @turned(%x: tensor<[K]x[K]x[N]xf16>) -> tensor<[N]x[K]x[K]xf16> symbols [K, N] {
  %t = tcp.transpose(%x) {permutation = [2, 0, 1]} : tensor<[N]x[K]x[K]xf16>
  tcp.return(%t)
}"""


def test_a_loop_of_hundreds_of_stores_is_compiled_in_seconds() -> None:
    nest = 'let t = match one "t" in root\nlet i, j, k = tile(t, [d0: 16, d1: 4, d2: 4], tail: pad)\nvectorize(k)'
    assert source(TURNED, nest, "generic").count("no-tree-loop-distribution") == 1
    kernel = tcpx.compile(tcpx.parse(TURNED), schedule=schedule_of(nest), target="generic")
    x = np.random.default_rng(3).integers(-4, 5, (5, 5, 18)).astype(np.float16)
    (found,) = run_guarded(kernel, x)
    np.testing.assert_array_equal(found, x.transpose(2, 0, 1))
    assert "no-tree-loop-distribution" not in source(TURNED, nest.replace("16", "2"), "generic")


@pytest.mark.parametrize(("threads", "parallel", "asked"), [(2, True, 1), (1, True, 0), (2, False, 0)])
def test_loops_in_threads_are_unrolled_too(threads: int, parallel: bool, asked: int) -> None:
    outer = f"tile(mm, [m: 3], parallel: {str(parallel).lower()})"
    body = f"{outer}\nlet k = tile(mm, [k: 1])\nunroll(k, factor: 4, explicit: false)"
    emitted = tcpx.emit(tcpx.parse(PRODUCT), schedule=schedule_of(MM + body), threads=threads).c_source
    assert emitted.count("#pragma GCC unroll 4") == 1
    assert emitted.count("void tcpx_unroll(int n)") == emitted.count(" tcpx_unroll(0);") == asked


@pytest.mark.parametrize("threads", [1, 2])
def test_gcc_unrolls_what_it_is_asked_to_and_nothing_else(threads: int, tmp_path: Path) -> None:
    """In the functions that it makes of parallel loops, too: four multiplications in the loop, one in the other."""
    text = PRODUCT.replace("12x5", "512x500").replace("5x16", "500x16").replace("12x16", "512x16")
    body = "let i, j = tile(mm, [m: 1, n: 16], parallel: true)\nlet k = tile(mm, [k: 1])\nvectorize(j)\n"
    body += "hoist_accumulator(mm, out_of: k)\nunroll(k, factor: 4, explicit: false)"
    target = load_target("x86_avx512")
    emitted = tcpx.emit(tcpx.parse(text), schedule=schedule_of(MM + body), target=target, threads=threads).c_source
    assert emitted.count("#pragma omp") == threads - 1
    counts: list[int] = []
    for source in (emitted, emitted.replace("#pragma GCC unroll 4", "")):
        (tmp_path / "f.c").write_text(source)
        command = ["gcc", *target.flags, "-O3", "-fopenmp", "-S", "-o", "f.s", "f.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
        counts.append((tmp_path / "f.s").read_text().count("vfmadd"))
    assert counts[0] >= 4
    assert counts[1] == 1

"""Long computations of vectors that do not depend on one another stand in turn; short ones do not, nor those of which
registers hold too much."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx

UNUSUAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-42, -7], np.float32)
FLAT = """\
func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {{
  %z = {statement} : tensor<[N]xf32>
  tcp.return(%z)
}}
"""
STEP = """\
language 1
schedule main(root: func) {{
  let z = match one "z" in root
  let i = tile(z, [d0: {step}], tail: pad)
  peel(i)
  vectorize(i)
}}
"""


def kernel(statement: str, vectors: int, target: str = "x86_avx512") -> tcpx.Kernel:
    lanes = 16 if target == "x86_avx512" else 8
    program = tcpx.parse_schedule(STEP.format(step=vectors * lanes))
    return tcpx.compile(tcpx.parse(FLAT.format(statement=statement)), program, target=target)


def runs(source: str, intrinsic: str) -> list[int]:
    """How many times an intrinsic stands in lines next to one another, each time it does."""
    is_it = [f"_{intrinsic}(" in line for line in source.splitlines() if " = " in line]
    return [len(run) for run in re.findall("1+", "".join("01"[k] for k in is_it))]


@pytest.mark.parametrize(("vectors", "wanted"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_long_ones_stand_in_turn(vectors: int, wanted: int) -> None:
    """The quotient of a power, of up to four vectors."""
    source = kernel("tcp.pow(%x, %y)", vectors).c_source
    assert max(runs(source, "div_ps")) == wanted


def test_a_rest_stands_in_turn_too() -> None:
    assert sorted(set(runs(kernel("tcp.pow(%x, %y)", 6).c_source, "div_ps"))) == [1, 2, 4]  # 1: in branches


def test_short_ones_stand_one_after_another() -> None:
    assert max(runs(kernel("tcp.exp(%x)", 4).c_source, "loadu_ps")) == 1
    assert max(runs(kernel("tcp.pow(%x, %y)", 4).c_source, "loadu_ps")) == 8


@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_numbers(target: str) -> None:
    """Usual and unusual ones, whose branches are behind all that is in turn."""
    random = np.random.default_rng(3)
    for vectors in (2, 3, 4, 7):
        made = kernel("tcp.pow(%x, %y)", vectors, target)
        for count in (0, 1, 15, 64, 113, 257):
            x = np.exp2(random.uniform(-140, 127, count)).astype(np.float32)
            y = random.uniform(-3, 3, count).astype(np.float32)
            for array in (x, y):
                at = random.integers(0, max(1, count), count // 9)
                array[at] = random.choice(UNUSUAL, len(at))
            wanted = tcpx.evaluate(tcpx.parse(FLAT.format(statement="tcp.pow(%x, %y)")), x, y)
            found, right = (np.asarray(a, np.float32) for a in (made(x, y), wanted))
            np.testing.assert_allclose(found, right, rtol=5e-7, atol=3e-45)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_what_one_computation_reads_is_computed_before_all_of_them(dtype: str) -> None:
    """Registers of a transposition that two results need stand between the first instructions of these computations."""
    text = """func @f(%x: tensor<17x32xDTYPE>) -> tensor<32x17xDTYPE> {
      %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<32x17xDTYPE>
      %y = tcp.erf(%t) : tensor<32x17xDTYPE>
      tcp.return(%y)
    }"""
    module = tcpx.parse(text.replace("DTYPE", dtype))
    kernel = tcpx.compile(module, target="x86_avx512")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    (x,) = tcpx.random_inputs(module, seed=5)
    found, right = (np.asarray(a, np.float32) for a in (kernel(x), tcpx.evaluate(module, x)))
    np.testing.assert_allclose(found, right, rtol=2.0**-7 if dtype == "bf16" else 2.0**-10)


PRODUCT = """\
func @f(%x: tensor<[M]x512xf32>, %w: tensor<512x256xf32>) -> tensor<[M]x256xf32> symbols [M: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x256xf32>
  %y = tcp.erf(%mm) : tensor<[M]x256xf32>
  tcp.return(%y)
}
"""


def test_registers_that_hold_sums_are_left_alone() -> None:
    """Behind a product most registers hold its sums: what is in turn would push them out."""
    source = tcpx.compile(tcpx.parse(PRODUCT), target="x86_avx512").c_source
    tiles = [len(re.findall("_mm512_fmadd_ps", body)) for body in source.split("for (")]
    assert max(tiles) >= 24
    assert max(runs(source, "div_ps") or [1]) < 4

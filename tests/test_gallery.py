"""The gallery of docs/: its pages are those of its examples, and the examples compute what they should."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx

ROOT = Path(__file__).parents[1]
PAGE: Any = runpy.run_path(str(ROOT / "docs" / "gallery_page.py"))
SHAPES = {
    "dense": [(58, 58, 64), (3, 3, 64, 64), (64,)],
    "pointwise": [(56, 56, 64), (64, 256), (256,)],
    "depthwise": [(58, 58, 144), (3, 3, 144), (144,)],
    "pooling": [(113, 113, 64)],
    "grouped": [(16, 16, 32, 8), (32, 3, 3, 8, 8)],
}


def test_the_pages_are_up_to_date() -> None:
    for name, text in PAGE["gallery_pages"]().items():
        assert (ROOT / "docs/gallery" / name).read_text(encoding="utf-8") == text, "make docs"


@pytest.mark.parametrize("target", ["generic", "x86_avx2"])
@pytest.mark.parametrize("name", PAGE["LAYERS"])
def test_numbers(name: str, target: str) -> None:
    example = ROOT / "examples" / "gallery" / name
    module, schedule = tcpx.load(example.with_suffix(".tcp")), tcpx.load_schedule(example.with_suffix(".tcps"))
    kernel: Any = tcpx.compile(module, schedule, target=target, threads=2)
    draw = np.random.default_rng(0)
    arrays = [draw.uniform(-1, 1, shape).astype(np.float32) for shape in SHAPES[name]]
    wanted: Any = tcpx.evaluate(module, *arrays)
    np.testing.assert_allclose(kernel(*arrays), wanted, rtol=1e-5, atol=1e-4)


def test_the_inner_loop_is_found() -> None:
    """Of loops inside one another, the innermost; of those, the one with the most vectors; without directives."""
    text = """
.L2:
\tvmovups\t(%rax), %zmm0
.L3:
\t.loc 1 2
\tvfmadd231ps\t%zmm1, %zmm2, %zmm3
\tjne\t.L3
\tjne\t.L2
.L4:
\taddq\t$4, %rax
\tjne\t.L4
"""
    found = PAGE["inner_loop"](text.splitlines())
    assert found == [".L3:", "\tvfmadd231ps\t%zmm1, %zmm2, %zmm3", "\tjne\t.L3"]

"""Sums over named dims: dims of 1 that are repeated, and dims that a call may make 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import loaded

RNG = np.random.default_rng(11)
Shape = Sequence[int | str]


def einsum(equation: str, *shapes: Shape) -> tcpx.Module:
    inputs = ", ".join(f"float[{', '.join(map(str, shape))}] x{k}" for k, shape in enumerate(shapes))
    names = ", ".join(f"x{k}" for k in range(len(shapes)))
    return loaded(f'f ({inputs}) => (float[A] y) {{ y = Einsum <equation = "{equation}"> ({names}) }}').module


def check(module: tcpx.Module, equation: str, *shapes: Sequence[int]) -> None:
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    found: Any = tcpx.evaluate(module, *arrays)
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 1), (4, 5)]),
        ("ij,jk->ik", [(2, 4), (1, 5)]),
        ("ij,ij,ij->ij", [(1, 4), (3, 1), (3, 4)]),
        ("...ij,...jk->...ik", [(1, 2, 3), (4, 3, 1)]),
        ("i,i->", [(1,), (3,)]),
        ("ij,i->j", [(1, 4), (3,)]),
        ("ii->i", [(1, 1)]),
    ],
)
def test_dims_of_1_are_repeated(equation: str, shapes: Sequence[Sequence[int]]) -> None:
    check(einsum(equation, *shapes), equation, *shapes)


def test_a_letter_of_one_operand_is_repeated() -> None:
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(einsum("ii->i", (1, 4)), x[None]), x)
    np.testing.assert_array_equal(tcpx.evaluate(einsum("ii", (4, 1)), x[:, None]), x.sum())


def test_dims_that_a_call_decides() -> None:
    module = einsum("ij,jk->ik", (2, "J"), ("K", 5))
    for j, k in ((1, 4), (4, 1), (4, 4), (1, 1)):
        check(module, "ij,jk->ik", (2, j), (k, 5))
    with pytest.raises(tcpx.ArgumentError, match="is 1, or as long as"):
        tcpx.evaluate(module, np.ones((2, 4), np.float32), np.ones((3, 5), np.float32))


def test_dims_that_differ() -> None:
    with pytest.raises(tcpx.onnx.UnsupportedError, match="the dims 4 and 3 of"):
        einsum("ij,jk->ik", (2, 4), (3, 5))

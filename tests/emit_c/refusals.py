"""Arrays that a call of a kernel, bound or not, refuses, with the exact messages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.emit_c.payloads import Array


def f32(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def ones(*shape: int) -> Array:
    return np.ones(shape, dtype=np.float32)


def read_only(n: int) -> Array:
    made = ones(n)
    made.flags.writeable = False
    return made


MISFITS: dict[str, tuple[Callable[[], tuple[Array, ...]], str]] = {
    "count": (
        lambda: (ones(2, 3),),
        "@matmul takes 2 argument(s)\n"
        "  required: %a: tensor<[M]x[K]xf32>, %b: tensor<[K]x[N]xf32>\n  found: 1 argument(s)",
    ),
    "rank": (
        lambda: (ones(2, 3), ones(3)),
        "argument `b` does not fit tensor<[K]x[N]xf32>\n  required: rank 2\n  found: rank 1, shape (3,)",
    ),
    "symbol": (
        lambda: (ones(2, 3), ones(4, 5)),
        "argument `b` does not fit tensor<[K]x[N]xf32>\n  required: [K] = 3 in dim 0\n  found: 4, shape (4, 5)",
    ),
}
"""Inputs of the matrix product that have the wrong count, rank or sizes."""

X = f32(1, 2, 3)
OUT_ERRORS: dict[str, tuple[object, str, str]] = {
    "list": ([1.0, 2.0, 3.0], "a NumPy array, or an object with DLPack or the buffer protocol, as `out`", "list"),
    "dtype": (np.ones(3), "dtype float32", "dtype float64"),
    "rank": (ones(3, 1), "rank 1", "rank 2, shape (3, 1)"),
    "shape": (ones(4), "[N] = 3 in dim 0", "4, shape (4,)"),
    "strides": (ones(6)[::2], "a contiguous array in row-major order", "strides (8,) of bytes"),
    "read_only": (read_only(3), "an array that can be written to", "a read-only array"),
    "overlap": (
        X,
        "memory of its own: a kernel reads its inputs while it writes its outputs",
        "memory that overlaps `x`\n  fix: pass another array as `out`, or none",
    ),
}
"""Outputs for `axpy` of X and as many ones."""

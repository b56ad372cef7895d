"""How far a result in floating point may be from the same computation in float64: stated once, used by every test.

The bounds are those of `tcpx/verification/rounding.py`, by element: a sum of k products, in any order, with or without
FMA, is off by at most gamma(k) * sum |a| |b|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcpx.verification.rounding import FUNCTION_ROUNDINGS, gamma

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values in float64, and how far from them a computation in float32 may be."""

    value: Array
    error: Array

    @staticmethod
    def of(values: Array) -> Bounded:
        """Given numbers, free of error."""
        wide = np.asarray(values, dtype=np.float64)
        return Bounded(wide, np.zeros_like(wide))

    def einsum(self, spec: str, other: Bounded) -> Bounded:
        """A contraction: sums of products."""
        value = np.einsum(spec, self.value, other.value)
        terms = 1
        out = spec.partition("->")[2]
        inputs = spec.partition("->")[0].split(",")
        for letters, array in zip(inputs, (self.value, other.value), strict=True):
            for letter, extent in zip(letters, array.shape, strict=True):
                if letter not in out:
                    terms *= extent if letters is inputs[0] else 1
        size_a, size_b = np.abs(self.value) + self.error, np.abs(other.value) + other.error
        carried = np.einsum(spec, self.error, size_b) + np.einsum(spec, size_a, other.error)
        return Bounded(value, carried + gamma(terms + 1) * np.einsum(spec, size_a, size_b))

    def matmul(self, other: Bounded) -> Bounded:
        """A matrix product."""
        return self.einsum("mk,kn->mn", other)

    def __add__(self, other: Bounded) -> Bounded:
        value, carried = self.value + other.value, self.error + other.error
        return Bounded(value, carried + gamma(1) * (np.abs(value) + carried))

    def relu(self) -> Bounded:
        """max(x, 0): exact."""
        return Bounded(np.maximum(self.value, 0), self.error)

    def softmax(self) -> Bounded:
        """exp(x - max) / sum, along the last dim: an error of x is a relative one of its exponential."""
        value, error, columns = self.value, self.error, self.value.shape[-1]
        if not columns:
            return self
        shifted = value - value.max(axis=-1, keepdims=True)
        made = np.exp(shifted)
        absolute = error + error.max(axis=-1, keepdims=True) + gamma(1) * np.abs(shifted)
        each = np.expm1(absolute) + gamma(FUNCTION_ROUNDINGS)
        total = each.max(axis=-1, keepdims=True) + gamma(columns)
        relative = (1 + each) / (1 - np.minimum(total, 0.5)) * (1 + gamma(2)) - 1
        result = made / made.sum(axis=-1, keepdims=True)
        return Bounded(result, result * relative + float(np.finfo(np.float32).tiny))


def assert_close(found: Array, wanted: Bounded, what: str = "") -> None:
    """Fail unless every element is within its bound; NaN never is."""
    assert found.shape == wanted.value.shape, f"{what}: shape {found.shape}, wanted {wanted.value.shape}"
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(found.astype(np.float64) - wanted.value) <= wanted.error)
    if wrong.any():
        at = tuple(int(k[0]) for k in np.nonzero(wrong))
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {found.size} elements are off; at {at} found {found[at]!r}, "
            f"wanted {wanted.value[at]!r} +- {wanted.error[at]:.3g}"
        )

"""The matrices of minimal filtering: m neighbouring sums of r products each by m + r - 1 multiplications.

Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, sections 4.1 and 5.1; the
construction by polynomials (Cook and Toom) is that of S. Winograd, "Arithmetic Complexity of Computations", 1980. The
points follow B. Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural
Networks", 2020: small ones, with their negatives and reciprocals. All numbers are exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import prod
from typing import Final

from tcpx.records import frozen

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS: Final = tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2")))
"""Where the polynomials are evaluated, beside infinity: the first m + r - 2 of them."""
MOST_PRODUCTS: Final = len(POINTS) + 1
"""Multiplications for which there are points."""


@frozen
class Filtering:
    """F(m, r): y = A ((G w) * (B x)) for m sums y of r weights w over m + r - 1 elements x, `*` element by element."""

    element: Matrix
    """B, m + r - 1 by m + r - 1. Its entries are sums of a few powers of two: exact in f32."""
    weight: Matrix
    """G, m + r - 1 by r."""
    sums: Matrix
    """A, m by m + r - 1."""


@cache
def filtering(m: int, r: int) -> Filtering:
    """The matrices of F(m, r), for m + r - 1 of at most `MOST_PRODUCTS`."""
    count = m + r - 1
    points = POINTS[: count - 1]
    others = [[q for q in points if q != p] for p in points]
    unit = [Fraction(int(k == 0)) for k in range(max(m, r))]
    element = [_padded(_from_roots(rest), count) for rest in others]
    weight = [
        tuple(p**k / prod((p - q for q in rest), start=Fraction(1)) for k in range(r))
        for p, rest in zip(points, others, strict=True)
    ]
    return Filtering(
        element=(*element, _from_roots(points)),
        weight=(*weight, tuple(reversed(unit[:r]))),
        sums=tuple((*(p**k for p in points), unit[m - 1 - k]) for k in range(m)),
    )


def _from_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of the product of (x - root), that of the constant term first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return tuple(found)


def _padded(row: Sequence[Fraction], length: int) -> tuple[Fraction, ...]:
    return (*row, *(Fraction(0),) * (length - len(row)))

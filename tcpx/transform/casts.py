"""Which casts lose nothing, so that one cast gives what two give after each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tcpx.payload.types import ScalarType, bf16, f16, f32, f64, i1

SIGNIFICAND: Final[Mapping[ScalarType, int]] = {f16: 11, bf16: 8, f32: 24, f64: 53}
"""Bits of integers that a float represents exactly."""


def passes_unchanged(stored: ScalarType, through: ScalarType, to: ScalarType) -> bool:
    """Whether a cast from `stored` to `to` gives the same value directly and by way of `through`.

    `through` must represent every value of `stored`. Integers wrap around in a narrower integer, floats saturate: by
    way of a float, an integer must fit in the integer it becomes.
    """
    return holds(through, stored) and (
        not (stored.is_integer and through.is_float and to.is_integer) or holds(to, stored)
    )


def holds(wide: ScalarType, narrow: ScalarType) -> bool:
    """Whether a dtype represents every value of another one; a truth value is 0 or 1."""
    if narrow == wide:
        return True
    if narrow.is_float:
        return wide.is_float and narrow.bits < wide.bits
    if not (narrow.is_integer or narrow == i1):
        return False
    if wide.is_integer:
        return wide.minimum <= narrow.minimum and narrow.maximum <= wide.maximum
    return wide.is_float and narrow.bits - (narrow.minimum < 0) <= SIGNIFICAND[wide]

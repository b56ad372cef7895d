"""What is asked of the default schedule: how results may be rounded, and whether the code is to be fast or small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.payload.diagnostics import ArgumentError, Diagnostic

ParamValue = int | float | bool | str
EXACT: Final = "exact"
"""Sums are those of the products that operations say, in some order."""
NUMERICS: Final = (EXACT, "winograd")
"""The values of `numerics`. It is a parameter of the default schedule, and of each schedule that declares it."""
FAST: Final = "fast"
"""Each operation has the code for its sizes."""
SMALL: Final = "small"
"""Operations whose sizes alone differ share code."""
SIZES: Final = (FAST, SMALL)
"""The values of `size`: of the parameter `code` of the default schedule, and of each schedule that declares it."""


def with_options(
    params: Mapping[str, ParamValue] | None, numerics: str = EXACT, size: str = FAST
) -> Mapping[str, ParamValue] | None:
    """The params of a schedule with `numerics` and `size`; the usual values are none. Raises ArgumentError for any
    other."""
    _check("numerics", numerics, NUMERICS)
    _check("sizes of code", size, SIZES)
    chosen = {"numerics": numerics} if numerics != EXACT else {}
    chosen |= {"code": size} if size != FAST else {}
    return {**chosen, **(params or {})} if chosen else params


def _check(kind: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise ArgumentError(
            Diagnostic(f"there are no such {kind}", required=" or ".join(map(repr, words)), found=repr(word))
        )

"""How results may be rounded: as the operations say, or as faster algorithms do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tcpx.payload.diagnostics import ArgumentError, Diagnostic

ParamValue = int | float | bool | str
EXACT: Final = "exact"
"""Sums are those of the products that operations say, in some order."""
NUMERICS: Final = (EXACT, "winograd")
"""The values of `numerics`. It is a parameter of the default schedule, and of each schedule that declares it."""


def with_numerics(params: Mapping[str, ParamValue] | None, numerics: str) -> Mapping[str, ParamValue] | None:
    """The params of a schedule with `numerics`; the usual value is none. Raises ArgumentError for any other."""
    if numerics not in NUMERICS:
        raise ArgumentError(
            Diagnostic("there are no such numerics", required=" or ".join(map(repr, NUMERICS)), found=repr(numerics))
        )
    return params if numerics == EXACT else {"numerics": numerics, **(params or {})}

"""Values of symbols as callers give them: one mapping from names to numbers, or several."""

import json
from collections.abc import Mapping, Sequence
from operator import index
from typing import Final, SupportsIndex, cast

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, python_type_of

_LONGEST: Final = 60
SizeValues = Mapping[str, int]


def size_values(sizes: object) -> dict[str, int]:
    """One value for each name. Raises ArgumentError for what is no mapping from names to whole numbers."""
    match sizes:
        case Mapping():
            entries = cast("Mapping[object, object]", sizes).items()
            return {_name(name): _number(name, value) for name, value in entries}
        case _:
            raise _unusable("a mapping such as {'M': 64}", _shown(sizes))


def size_choices(sizes: object) -> tuple[dict[str, int], ...]:
    """Several mappings; a single one stands for itself, None for none. Raises ArgumentError."""
    match sizes:
        case None:
            return ()
        case Mapping():
            return (size_values(cast("SizeValues", sizes)),)
        case Sequence() if not isinstance(sizes, str | bytes):
            return tuple(size_values(entry) for entry in cast("Sequence[object]", sizes))
        case _:
            raise _unusable("a mapping such as {'M': 64}, or a list of them", _shown(sizes))


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise _unusable("the names of symbols", _shown(name))
    return name


def _number(name: object, value: object) -> int:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise _unusable(f"a whole number for `{name}`", _shown(value))
    return index(value)


def _shown(value: object) -> str:
    is_plain = isinstance(value, bool | int | float | str)
    shown = json.dumps(value) if is_plain else python_type_of(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}.."


def _unusable(required: str, found: str) -> ArgumentError:
    return ArgumentError(Diagnostic("these are no sizes", required=required, found=found))

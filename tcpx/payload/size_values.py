"""Values of symbols as callers give them: one mapping from names to numbers or to other names, or several."""

import json
from collections.abc import Mapping, Sequence
from operator import index
from typing import Final, SupportsIndex, cast

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, python_type_of
from tcpx.payload.sizes import Size, symbols, to_text

_LONGEST: Final = 60
SizeValues = Mapping[str, int | str]
"""By name a number, or the name of the symbol that this one equals."""


def size_values(sizes: object) -> dict[str, int]:
    """One value for each name; `{"M": 64, "N": "M"}` gives both 64. Raises ArgumentError for what is no mapping from
    names to whole numbers or to other names that have one."""
    match sizes:
        case Mapping():
            entries = {_name(name): value for name, value in cast("Mapping[object, object]", sizes).items()}
            return {name: _number(name, last_equal(name, entries)) for name in entries}
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


def last_equal(name: str, sizes: Mapping[str, object]) -> object:
    """The value of a symbol that has one here: its own, or that of the symbol that it equals. Where that one has none,
    its name. Raises ArgumentError for symbols in a circle."""
    passed, value = [name], sizes[name]
    while isinstance(value, str) and value in sizes:
        if value in passed:
            raise _unusable("a number for one of them", " = ".join(_shown(word) for word in [*passed, value]))
        passed.append(value)
        value = sizes[value]
    return value


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise _unusable("the names of symbols", _shown(name))
    return name


def _number(name: str, value: object) -> int:
    if isinstance(value, str):
        raise _unusable(f"a whole number for `{name}`, or another size that has one", _shown(value))
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise _unusable(f"a whole number for `{name}`", _shown(value))
    return index(value)


def _shown(value: object) -> str:
    is_plain = isinstance(value, bool | int | float | str)
    shown = json.dumps(value) if is_plain else python_type_of(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}.."


def _unusable(required: str, found: str) -> ArgumentError:
    return ArgumentError(Diagnostic("these are no sizes", required=required, found=found))


def negative_extent(extent: Size, sizes: Mapping[str, int]) -> ArgumentError:
    """The error for sizes that make an extent negative."""
    text, found = to_text(extent), ", ".join(f"{symbol.name} = {sizes[symbol.name]}" for symbol in symbols(extent))
    return ArgumentError(Diagnostic(f"the extent {text} is negative", required=f"{text} >= 0", found=found))

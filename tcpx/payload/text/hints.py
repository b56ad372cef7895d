"""The fix of a syntax error in a payload written as in another system, from the line it stands in."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.payload.diagnostics import Location

_AT: Final = "\0"
"""Stands before the place of the error in the line that patterns are matched with."""
_TYPE: Final = r"(?P<type>(?:tensor|vector)<[^<>]*>|\w+)"
_OPERANDS: Final = r"\((?:\s*%[\w./~]+\s*,)*\s*"
_NAMED_SIZE: Final = "name the size: tensor<[N]x4xf32>, and declare symbols [N] behind the results"
_COMPUTED_SIZE: Final = (
    "a size that is computed stands in brackets: [2*N], [N + 1]; declare symbols [N] behind the results"
)

_HINTS: Final = tuple(
    (re.compile(pattern), fix)
    for pattern, fix in (
        (rf"tensor<(?:[^<>]*x)?\w+\s*{_AT}[-+*/]\s*\w", _COMPUTED_SIZE),
        (rf"tensor<(?:[^<>]*x)?[0-9]+{_AT}[A-Za-z_]", _COMPUTED_SIZE),
        (rf"tensor<(?:[^<>]*x)?[A-Za-z_]\w*\s+{_AT}x", _NAMED_SIZE),
        (rf"tensor<[^<>]*\[[^\[\]]*{_AT}/", "sizes are divided with a rounding: floordiv(N, 2) or ceildiv(N, 2)"),
        (rf"[:>,(]\s*[a-z]+[0-9]+{_AT}\[", "write a tensor with its sizes first: tensor<4x8xf32>"),
        (rf"tensor<[^<>]*{_AT}(?:\?|\*|-)", _NAMED_SIZE),
        (rf"tensor<[^<>]*\[{_AT}\?", _NAMED_SIZE),
        (rf"tensor<[^<>]*{_AT},", "join sizes and dtype by x: tensor<4x8xf32>"),
        (rf"{_OPERANDS}%[\w./~]+\s*{_AT}:", "operands have no types here: write the names alone"),
        (
            rf"(?m)(?:=|^)\s*[A-Za-z][\w.]*\s+%[\w./~]+(?:\s*,\s*%[\w./~]+)*\s*{_AT}",
            "operands stand in parentheses: tcp.exp(%x), tcp.return(%y)",
        ),
        (rf":\s*{_AT}\(", "write the type of the result alone behind the colon"),
        (rf":\s*{_TYPE}\s*{_AT}->", "write the type of the result alone behind the colon"),
        (rf":\s*{_TYPE}\s*{_AT}\{{", "attributes stand before the colon: tcp.fill {value = 0.0} : TYPE"),
        (rf'{_AT}"[\w.]+"\s*\(', "write the name of the operation without quotes"),
        (rf"(?m)^\s*{_AT}module\b", "a file is a list of functions, without a module round them"),
        (rf"\bsymbols\s*\[[^\]]*{_AT}[<>=]", "a range is written N: 1.., or N: 0..4096; a factor, N multiple_of 16"),
        (rf"\bsymbols\s*\[[^\]]*\]\s*{_AT}->", "the results go before the symbols: (..) -> TYPE symbols [N]"),
        (rf"\bfunc\s+{_AT}(?P<name>[A-Za-z_][\w.]*)", "write @\\g<name>"),
        (rf"\bfunc{_AT}\.func\b", "write func @NAME(..)"),
        (rf"{_AT}(?:#|;|/\*)", "a comment begins with //; nothing ends a statement"),
        (rf"{_AT}'", "quote with double quotes"),
        (rf"\([^()]*{_AT}[A-Za-z_]\w*\s*:", "names of values begin with %"),
    )
)

_DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "f64": ("double", "float64", "fp64"),
    "f32": ("float", "float32", "fp32"),
    "f16": ("half", "float16", "fp16"),
    "bf16": ("bfloat16", "bfloat"),
    "si64": ("i64", "int64", "s64", "long"),
    "si32": ("i32", "int32", "s32", "int"),
    "si16": ("i16", "int16", "s16", "short"),
    "si8": ("i8", "int8", "s8", "char"),
    "ui64": ("u64", "uint64"),
    "ui32": ("u32", "uint32"),
    "ui16": ("u16", "uint16"),
    "ui8": ("u8", "uint8", "byte"),
    "i1": ("bool", "pred"),
}
"""The names that other systems give to dtypes."""
_DTYPE_OF: Final = {name: dtype for dtype, names in _DTYPES.items() for name in names}

_ATTRIBUTES: Final = (
    (
        ("axis", "axes", "dim", "dims", "dimension", "dimensions"),
        ("dim", "dims"),
        "{name}, which is what it is called here",
    ),
    (("perm", "order", "axes", "dims"), ("permutation",), "permutation = [1, 0]"),
    (
        ("equation", "subscripts", "spec", "indexing_maps"),
        ("lhs", "rhs", "out"),
        'lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]',
    ),
    (("indexing_maps",), ("maps",), "maps = [[i, j], [i]]"),
    (("iterator_types",), ("iterators",), 'iterators = [["i", "parallel"], ["j", "reduction"]]'),
    (("val", "fill_value", "constant", "v"), ("value",), "value = 0.0"),
    (
        ("high", "pad", "pads", "padding", "pad_width", "edge_padding_low", "edge_padding_high"),
        ("value", "free"),
        "value = 0.0, low = [1, 1]: what is before; the type of the result says how much is behind",
    ),
)
"""Names that other systems give to attributes, those that an operation may have in their place, and what to write."""


def attribute_fix(key: str, names: Sequence[str]) -> str | None:
    """What to write for an attribute that another system calls `key`, of an operation with attributes of `names`."""
    for others, own, write in _ATTRIBUTES:
        here = [name for name in own if name in names]
        if key in others and here:
            return f"write {write.format(name=here[0])}"
    return None


def syntax_fix(place: Location, before: str = "") -> str | None:
    """What to write where the grammar was left, if it is known what was meant; `before` is the line before."""
    line = f"{before}\n{place.text[: place.column - 1]}{_AT}{place.text[place.column - 1 :]}"
    found = ((pattern.search(line), fix) for pattern, fix in _HINTS)
    return next((match.expand(fix) for match, fix in found if match is not None), None)


def dtype_fix(name: str) -> str | None:
    """The dtype that another system calls so."""
    dtype = _DTYPE_OF.get(name.lower())
    return f"write {dtype}" if dtype is not None else None

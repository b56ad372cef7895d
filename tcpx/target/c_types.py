"""The C types of rows, by the registers that hold them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from tcpx.records import frozen
from tcpx.target.rows import DTYPE_BITS, parse_lane_type

SCALAR_BITS: Final = 64
FLOAT_BITS: Final = 128
"""Scalar floats lie in the lowest lane of a vector of 16 bytes."""
_VECTOR: Final = re.compile(r"__m(128|256|512)([id]?)|__v(\d+)(sf|df|[sdhq][iu])")
_LANES: Final[Mapping[str, str]] = {
    "": "f32",
    "d": "f64",
    "i": "i32",
    "sf": "f32",
    "df": "f64",
    "si": "i32",
    "su": "i32",
    "di": "i64",
    "du": "i64",
    "hi": "i16",
    "hu": "i16",
    "qi": "i8",
    "qu": "i8",
}
"""By what the names of vector types end in."""


@frozen
class CType:
    """`kind` is vector, mask, float, integer or pointer; `bits` those of its register; `lane` is f32, f64, i8 to i64,
    of a pointer what it points to."""

    kind: str
    bits: int = SCALAR_BITS
    lane: str = "i64"

    @property
    def is_float(self) -> bool:
        return self.lane.startswith("f")


INTEGER: Final = CType("integer")
MASK: Final = CType("mask")


@lru_cache(maxsize=512)
def c_type_of(text: str) -> CType:
    """The type that this text names in C."""
    if text.endswith("*"):
        return CType("pointer", SCALAR_BITS, c_type_of(text[:-1].strip()).lane)
    if text.startswith("__mmask"):
        return MASK
    vector = _VECTOR.fullmatch(text)
    if vector is not None and vector.group(1):
        return CType("vector", int(vector.group(1)), _LANES[vector.group(2)])
    if vector is not None:
        lane = _LANES[vector.group(4)]
        return CType("vector", int(vector.group(3)) * int(lane[1:]), lane)
    if text in ("float", "double"):
        return CType("float", FLOAT_BITS, "f32" if text == "float" else "f64")
    if re.fullmatch(r"[a-z]+\d+x\d+", text):  # what the table without an instruction set calls its vectors
        dtype, lanes = parse_lane_type(text)
        bits = DTYPE_BITS[dtype]
        return CType("vector", bits * lanes, dtype if dtype in ("f32", "f64") else f"i{bits}")
    width = re.search(r"\d+", text)
    return CType("integer", SCALAR_BITS, f"i{width.group()}" if width else "i32")

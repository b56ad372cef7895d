"""Scalar, tensor, vector and buffer types. Dimensions are `Dim`s: an int or a size expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from math import prod
from typing import Final

import ml_dtypes
import numpy as np

from tcpx.payload.sizes import Dim, Size, Substitution, Symbol, Var, substitute, to_text
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.substitution import are_same
from tcpx.records import frozen_as_compared_by_base, frozen_for_checkers


class ScalarKind(Enum):
    """How the bits of a scalar are read."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"
    INDEX = "index"


@frozen_as_compared_by_base
class ScalarType:
    """A scalar that carries its signedness: `f32`, `si8`, `ui8`, `i1`, `index`. There is one object of each."""

    name: str
    kind: ScalarKind
    bits: int

    def __reduce__(self) -> tuple[Callable[[str], ScalarType], tuple[str]]:
        """Copies and pickles are the one of this name."""
        return scalar_called, (self.name,)

    def __str__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        """Size of one element in memory, in bytes."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind is ScalarKind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (ScalarKind.SIGNED, ScalarKind.UNSIGNED)

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of this scalar (bf16 is ml_dtypes' bfloat16)."""
        return _NUMPY[self.name]

    @property
    def minimum(self) -> float | int:
        """The smallest value: -inf for floats."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.kind in (ScalarKind.SIGNED, ScalarKind.INDEX) else 0

    @property
    def maximum(self) -> float | int:
        """The largest value: +inf for floats."""
        if self.is_float:
            return float("inf")
        if self.kind in (ScalarKind.SIGNED, ScalarKind.INDEX):
            return (1 << (self.bits - 1)) - 1
        return (1 << self.bits) - 1


f64 = ScalarType("f64", ScalarKind.FLOAT, 64)
f32 = ScalarType("f32", ScalarKind.FLOAT, 32)
f16 = ScalarType("f16", ScalarKind.FLOAT, 16)
bf16 = ScalarType("bf16", ScalarKind.FLOAT, 16)
si8 = ScalarType("si8", ScalarKind.SIGNED, 8)
si16 = ScalarType("si16", ScalarKind.SIGNED, 16)
si32 = ScalarType("si32", ScalarKind.SIGNED, 32)
si64 = ScalarType("si64", ScalarKind.SIGNED, 64)
ui8 = ScalarType("ui8", ScalarKind.UNSIGNED, 8)
ui16 = ScalarType("ui16", ScalarKind.UNSIGNED, 16)
ui32 = ScalarType("ui32", ScalarKind.UNSIGNED, 32)
ui64 = ScalarType("ui64", ScalarKind.UNSIGNED, 64)
i1 = ScalarType("i1", ScalarKind.BOOL, 1)
index = ScalarType("index", ScalarKind.INDEX, 64)

HALF = (f16, bf16)
"""Stored in half the bytes of f32, and computed with in f32."""
SCALARS: Mapping[str, ScalarType] = {
    t.name: t for t in (f64, f32, f16, bf16, si8, si16, si32, si64, ui8, ui16, ui32, ui64, i1, index)
}
_NUMPY: Mapping[str, np.dtype[np.generic]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "si8": np.dtype(np.int8),
    "si16": np.dtype(np.int16),
    "si32": np.dtype(np.int32),
    "si64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "i1": np.dtype(np.bool_),
    "index": np.dtype(np.int64),
}


def scalar_called(name: str) -> ScalarType:
    """The scalar type of a name."""
    return SCALARS[name]


def accumulator_of(dtype: ScalarType) -> ScalarType:
    """The dtype in which numbers are added up, or multiplied, to a result of another: that, or f32 where it has 16
    bits."""
    return f32 if dtype in HALF else dtype


def scalar_of_numpy(dtype: np.dtype[np.generic]) -> ScalarType | None:
    """The scalar type with this NumPy dtype, or None."""
    return next((SCALARS[name] for name, known in _NUMPY.items() if known == dtype), None)


def dim_text(dim: Dim) -> str:
    """A dimension as it stands in a shape: `4`, `[N]`."""
    return str(dim) if isinstance(dim, int) else f"[{to_text(dim)}]"


def _shape_text(shape: tuple[Dim, ...], dtype: ScalarType) -> str:
    return "x".join([*(dim_text(d) for d in shape), dtype.name])


@frozen_for_checkers
class TensorType:
    """`tensor<4x[N]x8xf32>`: static rank, each dimension an int or a size expression."""

    shape: tuple[Dim, ...]
    dtype: ScalarType

    def __str__(self) -> str:
        return f"tensor<{_shape_text(self.shape, self.dtype)}>"


@frozen_for_checkers
class VectorType:
    """`vector<6x64xf32>`: a register tile; every dimension is static."""

    shape: tuple[int, ...]
    dtype: ScalarType

    def __str__(self) -> str:
        return f"vector<{_shape_text(self.shape, self.dtype)}>"

    @property
    def elements(self) -> int:
        return prod(self.shape)


SPACES: Final = ("argument", "result", "constant", "arena", "stack")
"""Where a buffer lies: in the memory of the caller, among the constants, in the workspace, on the stack."""


@frozen_for_checkers
class BufferType:
    """`buffer<[M]x64xf32, strides [64, 1], space arena>`: memory; strides count elements."""

    shape: tuple[Dim, ...]
    dtype: ScalarType
    strides: tuple[Dim, ...]
    space: str = "argument"

    def __str__(self) -> str:
        strides = ", ".join(to_text(s) for s in self.strides)
        return f"buffer<{_shape_text(self.shape, self.dtype)}, strides [{strides}], space {self.space}>"


ShapedType = TensorType | VectorType | BufferType
Type = ScalarType | ShapedType


def dtype_of(type_: Type) -> ScalarType:
    """The element type; of a scalar, itself."""
    return type_ if isinstance(type_, ScalarType) else type_.dtype


def lanes_of(type_: Type) -> int:
    """The lanes of a 1-D vector; 0 for any other type."""
    return type_.shape[0] if isinstance(type_, VectorType) and len(type_.shape) == 1 else 0


def shape_of(type_: Type) -> tuple[Dim, ...]:
    """The shape; of a scalar, ()."""
    return () if isinstance(type_, ScalarType) else type_.shape


def with_shape(type_: Type, shape: tuple[Dim, ...]) -> Type:
    """A type of the same kind and dtype with another shape."""
    return like(type_, shape, dtype_of(type_))


def like(type_: Type, shape: tuple[Dim, ...], dtype: ScalarType) -> Type:
    """A type of the same kind (scalar, tensor, vector) with this shape and dtype."""
    match type_:
        case VectorType():
            return VectorType(tuple(d for d in shape if isinstance(d, int)), dtype)
        case ScalarType():
            return dtype
        case _:
            return TensorType(shape, dtype)


Mapped = Mapping[Symbol | Var, Dim | Size]


def substitute_type(type_: Type, mapping: Substitution, known: KnownSymbols = NOTHING_KNOWN) -> Type:
    """The type with symbols and loop variables replaced, simplified by what is `known`; itself where nothing is."""
    return map_type(type_, lambda d: substitute(d, mapping, known))


def map_type(type_: Type, of: Callable[[Dim], Dim]) -> Type:
    """The type with what `of` makes of its sizes; itself where these stay."""
    if not isinstance(type_, TensorType | BufferType):
        return type_
    shape = tuple([of(d) for d in type_.shape])
    if isinstance(type_, TensorType):
        return type_ if are_same(shape, type_.shape) else TensorType(shape, type_.dtype)
    strides = tuple([of(d) for d in type_.strides])
    if are_same(shape, type_.shape) and are_same(strides, type_.strides):
        return type_
    return BufferType(shape, type_.dtype, strides, type_.space)


def row_major(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Strides, in elements, of a contiguous row-major array of this shape."""
    strides: list[Dim] = []
    step: Dim = 1
    for dim in reversed(shape):
        strides.append(step)
        step = step * dim
    return tuple(reversed(strides))

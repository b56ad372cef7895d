"""What a value of an ONNX graph is while it is imported: numbers, sizes, or a value of the payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import ScalarType, dtype_of, i1, scalar_of_numpy, shape_of

Elements = npt.NDArray[np.object_]
"""Elements of a tensor of integers as sizes: ints, and expressions over symbols."""
MOST_ELEMENTS: Final = 1 << 14
"""Of a value that is computed while the model is imported."""


@dataclass(eq=False, slots=True)
class Tensor:
    """A value of the graph. Where its elements are known, they are `array`, or `sizes` if they depend on symbols;
    `value` is made when an operation of the payload first reads it. `sources` are the inputs of the model that the
    elements depend on."""

    name: str
    shape: tuple[Dim, ...]
    dtype: ScalarType
    array: Array | None = None
    sizes: Elements | None = None
    value: Value | None = None
    sources: frozenset[str] = frozenset()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether the elements are numbers that are few enough to compute with."""
        return self.array is not None and self.array.size <= MOST_ELEMENTS

    def elements(self) -> Elements | None:
        """The elements as sizes, or None."""
        if self.sizes is not None:
            return self.sizes
        if self.array is None or not self.is_known or not (self.dtype.is_integer or self.dtype == i1):
            return None
        return objects(self.array)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


def objects(array: Array) -> Elements:
    """Integers as ints of Python."""
    made = np.empty(array.shape, dtype=object)
    made.ravel()[:] = [int(element) for element in array.ravel().tolist()]
    return made


def of_array(name: str, array: Array, sources: frozenset[str] = frozenset()) -> Tensor | None:
    """A tensor of numbers; None of a dtype that payloads do not have."""
    dtype = scalar_of_numpy(array.dtype)
    return None if dtype is None else Tensor(name, array.shape, dtype, array=array, sources=sources)


def of_sizes(name: str, sizes: npt.ArrayLike, dtype: ScalarType, sources: frozenset[str] = frozenset()) -> Tensor:
    """A tensor of sizes, of numbers where all of them are."""
    given: Elements = np.asarray(sizes, dtype=object)
    least = int(dtype.minimum)
    wrapped = [(e - least) % (1 << dtype.bits) + least if isinstance(e, int) else e for e in given.ravel().tolist()]
    if all(isinstance(element, int) for element in wrapped):
        return Tensor(name, given.shape, dtype, np.array(wrapped, dtype.numpy).reshape(given.shape), sources=sources)
    made: Elements = np.empty(given.shape, dtype=object)
    made.ravel()[:] = wrapped
    return Tensor(name, given.shape, dtype, sizes=made, sources=sources)


def of_value(name: str, value: Value, sources: frozenset[str] = frozenset()) -> Tensor:
    """A tensor that the payload computes."""
    return Tensor(name, shape_of(value.type), dtype_of(value.type), value=value, sources=sources)

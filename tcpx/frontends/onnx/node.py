"""One node of a graph as the rules of operators see it: operands, attributes, and the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import onnx

from tcpx.frontends.onnx.broadcasting import Shape
from tcpx.frontends.onnx.errors import NotConstant, OnnxError, Unsupported, one_for
from tcpx.frontends.onnx.values import MOST_ELEMENTS, Elements, Tensor, objects
from tcpx.frontends.onnx.writing import Append, Writer
from tcpx.payload.diagnostics import Location
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.sizes.excess import Excess, excess_of_product
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import ScalarType, TensorType, scalar_of_numpy
from tcpx.plurals import counted

_NUMPY_OF_ONNX: Final = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip
BFLOAT16: Final = 16


def dtype_of_onnx(number: int) -> ScalarType:
    """The dtype of a number of `TensorProto.DataType`. Raises Unsupported."""
    from tcpx.payload.types import bf16

    if number == BFLOAT16:
        return bf16
    held = _NUMPY_OF_ONNX.get(number)
    found = scalar_of_numpy(np.dtype(held)) if held is not None else None
    if found is None:
        names = {value: name for name, value in onnx.TensorProto.DataType.items()}
        raise Unsupported(f"the dtype {names.get(number, number)}")
    return found


def misfit_of(declared: onnx.TypeProto.Tensor, array: Array) -> str:
    """What an input wants of an array that it does not have, empty of one that fits."""
    held = _NUMPY_OF_ONNX.get(declared.elem_type)
    if held is not None and np.dtype(held) != array.dtype:
        return f"dtype {np.dtype(held)}"
    if not declared.HasField("shape"):
        return ""
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in declared.shape.dim]
    fits = len(dims) == array.ndim and all(isinstance(d, str) or d == n for d, n in zip(dims, array.shape, strict=True))
    return "" if fits else f"shape [{', '.join(map(str, dims))}]"


@dataclass(eq=False, slots=True)
class Node:
    """A node with its operands, None for those that are left out."""

    name: str
    operator: str
    version: int
    inputs: Sequence[Tensor | None]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]
    w: Writer
    place: Location
    of_array: Callable[[onnx.TensorProto], Array]
    subgraph: Callable[[onnx.GraphProto, Sequence[Tensor]], Sequence[Tensor]]
    attempt: Callable[[Callable[[], Sequence[Value | Tensor]]], Sequence[Value | Tensor] | None]
    """What is written by a function; None, without a trace in the findings, where it could not be."""
    read: set[str] = field(default_factory=set[str])
    """The attributes that a rule has asked for."""

    # ------------------------------------------------------------ operands

    def has(self, index: int) -> bool:
        """Whether an operand is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Tensor:
        """An operand that has to be there."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise self.error(
                f"operand {index} is missing",
                f"{counted(index + 1, 'operand')} or more",
                counted(len(self.inputs), "operand"),
            )
        return found

    def value(self, index: int) -> Value:
        """An operand as a value of the payload."""
        return self.value_of(self.input(index))

    def values(self) -> list[Value]:
        """All operands as values of the payload."""
        return [self.value(k) for k in range(len(self.inputs))]

    def optional(self, index: int) -> Value | None:
        """An operand as a value, None where it is left out."""
        return self.value(index) if self.has(index) else None

    def value_of(self, tensor: Tensor) -> Value:
        """A tensor as a value of the payload, which is made where it is known."""
        return value_of(self.w, tensor)

    def array(self, index: int) -> Array:
        """The numbers of an operand that has to be known. Raises NotConstant, and Unsupported where sizes decide
        them."""
        tensor = self.input(index)
        if tensor.array is not None:
            return tensor.array
        if tensor.sizes is not None:
            raise Unsupported(_constant(index, tensor), tensor.sizes.ravel().tolist())
        raise self._unknown(index, tensor)

    def numbers(self, index: int) -> list[int]:
        """The integers of an operand that has to be known."""
        held = self.array(index)
        if held.size > MOST_ELEMENTS or (held.size and held.dtype.kind not in "iub"):
            most = f"{MOST_ELEMENTS} at most"
            raise self.error(f"operand {index} is a list of integers", most, str(self.input(index)))
        return [int(n) for n in held.ravel().tolist()]

    def number(self, index: int, default: float = 0.0) -> float:
        """The number of a scalar operand that has to be known; `default` where it is left out."""
        if not self.has(index):
            return default
        held = self.array(index)
        if held.size != 1:
            raise self.error(f"operand {index} is one number", "one element", f"{held.size}")
        return float(held.item()) if held.dtype.kind not in "iub" else int(held.item())

    def integer(self, index: int, default: int = 0) -> int:
        """The integer of a scalar operand that has to be known; `default` where it is left out."""
        found = self.number(index, default)
        if not float(found).is_integer():
            raise self.error(f"operand {index} is an integer", "an integer", str(found))
        return int(found)

    def elements(self, index: int) -> Elements:
        """The elements of an operand as sizes, which may depend on symbols. Raises NotConstant."""
        tensor = self.input(index)
        found = tensor.elements()
        if found is None:
            raise self._unknown(index, tensor)
        return found

    def _unknown(self, index: int, tensor: Tensor) -> NotConstant:
        return NotConstant(_constant(index, tensor), tensor.sources, self.name, self.operator, self.place)

    def depends(self, what: str, sources: frozenset[str]) -> NotConstant | Unsupported:
        """The error for a shape that these inputs of the model decide, or, where there are none, the data."""
        return NotConstant(what, sources, self.name, self.operator, self.place) if sources else Unsupported(what)

    def dims(self, index: int) -> list[Dim]:
        """The same as a list."""
        return list(self.elements(index).ravel().tolist())

    def shape(self, index: int = 0) -> Shape:
        """The shape of an operand."""
        return self.input(index).shape

    def static(self, axes: Sequence[int], index: int = 0) -> list[int]:
        """The sizes of an operand along axes where they have to be numbers. Raises Unsupported."""
        found = [self.shape(index)[axis] for axis in axes]
        held = [n for n in found if isinstance(n, int)]
        if len(held) != len(found):
            raise Unsupported(f"a shape with sizes known when called: {self.input(index)}", found)
        return held

    def dtype(self, index: int = 0) -> ScalarType:
        """The dtype of an operand."""
        return self.input(index).dtype

    def joined(self, index: int, new: Sequence[Value], axis: int, result: int = 0) -> Value:
        """An operand with what is new behind it, one behind another; in its place, where it is a cache of which that
        result is the new value."""
        append = self.in_place(index, result)
        if append is None:
            return self.w.concat([self.value(index), *new], axis)
        return append(self.value(index), self.w.concat(new, axis), axis)

    def in_place(self, index: int, result: int) -> Append | None:
        """What writes behind an operand that is a cache of which a result is the new value; None where it is none."""
        return self.w.caches.get((self.input(index).name, self.outputs[result] if self.wants(result) else ""))

    # ------------------------------------------------------------ attributes

    def _read(self, name: str, default: object = None) -> Any:  # noqa: ANN401 - a number, text, tensor or graph
        self.read.add(name)
        return self.attributes.get(name, default)

    def raw(self, name: str) -> Any:  # noqa: ANN401 - a number, text, tensor or graph
        """An attribute as ONNX has it, or None."""
        return self._read(name)

    def int(self, name: str, default: int | None = None) -> int:
        """An integer attribute."""
        held = self._read(name, default)
        if not isinstance(held, int):
            raise self.error(f"the attribute `{name}` is missing, or no integer", "an integer", _kind(held))
        return held

    def float(self, name: str, default: float | None = None) -> float:
        """A float attribute."""
        held = self._read(name, default)
        if not isinstance(held, float | int):
            raise self.error(f"the attribute `{name}` is missing, or no number", "a float", _kind(held))
        return held

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """A list of integers."""
        held: object = self._read(name, default)
        numbers = list(cast("Sequence[object]", held)) if isinstance(held, list | tuple) else [None]
        found = [n for n in numbers if isinstance(n, int)]
        if len(found) != len(numbers):
            raise self.error(
                f"the attribute `{name}` is missing, or no list of integers", "integers", _kind(cast("object", held))
            )
        return found

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute."""
        held = self._read(name, default)
        if isinstance(held, bytes):
            held = held.decode("utf-8", "replace")
        if not isinstance(held, str):
            raise self.error(f"the attribute `{name}` is missing, or no string", "a string", _kind(held))
        return held

    def graph(self, name: str) -> onnx.GraphProto:
        """An attribute that is a graph."""
        held: object = self._read(name)
        if not isinstance(held, onnx.GraphProto):
            raise self.error(f"the attribute `{name}` is missing, or no graph", "a graph", _kind(held))
        return held

    def axis(self, rank: int, name: str = "axis", default: int | None = None, most: int | None = None) -> int:
        """An attribute that is an axis, from the end where it is negative."""
        return self.checked_axis(self.int(name, default), rank, most)

    def checked_axis(self, axis: int, rank: int, most: int | None = None) -> int:
        """An axis below `rank`, or `most` of them."""
        count = rank if most is None else most
        if not -rank <= axis < max(count, 0):
            raise self.error("an axis is outside", f"-{rank} to {count - 1}", str(axis))
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Axes that are all different."""
        found = [self.checked_axis(axis, rank) for axis in axes]
        if len(set(found)) != len(found):
            raise self.error("an axis is there twice", "different axes", str(list(axes)))
        return found

    def ranked(self, index: int, least: int, most: int | None = None) -> Tensor:
        """An operand of some number of dims."""
        tensor = self.input(index)
        if tensor.rank < least or (most is not None and tensor.rank > most):
            wanted = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            raise self.error(f"operand {index} has another number of dims", counted(wanted, "dim"), str(tensor))
        return tensor

    # ------------------------------------------------------------ what has to hold

    def demand(self, condition: Predicate, message: str, sizes: Sequence[Dim]) -> None:
        """Assert something of sizes that a call decides. Raises Unsupported for what only a branch demands."""
        if self.w.facts.decide(condition):
            return
        if not self.w.is_certain:
            raise Unsupported(f"a condition in a branch that a call decides: {message}", sizes)
        self.w.demand(condition, f"{self.operator} `{self.name}`: {message}")

    def equal(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes are equal, which the node needs: an equation where only a call tells."""
        return self.w.equal(a, b)

    # ------------------------------------------------------------ results

    def wants(self, index: int) -> bool:
        """Whether a result is asked for."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def type(self, shape: Sequence[Dim], dtype: ScalarType) -> TensorType:
        """A tensor type."""
        return TensorType(tuple(shape), dtype)

    def error(
        self,
        message: str,
        required: str,
        found: str,
        sizes: Sequence[Dim] = (),
        equal: tuple[Dim, Dim] | None = None,
        ones: Sequence[Dim] = (),
    ) -> OnnxError:
        """An error at this node. It may be none where the dims of `sizes` are numbers, those of `ones` are 1, or two
        sizes are `equal`."""
        message = f"{self.operator} `{self.name}`: {message}"
        fix = one_for(ones) if ones else None
        return OnnxError.at(self.place, message, required, found, fix, sizes=sizes or ones, equal=equal)


def _constant(index: int, tensor: Tensor) -> str:
    return f"operand {index} (`{tensor.name}`) has to be constant"


def check_length(n: Node, found: Excess | None) -> None:
    """Raise OnnxError for a size that is too long to work with."""
    if found is not None:
        raise n.error(found.message, found.required, found.found)


def product(n: Node, dims: Iterable[Dim]) -> Dim:
    """The product of sizes, multiplied out. Raises OnnxError for one that is too long, before it is computed."""
    made: Dim = 1
    for d in dims:
        check_length(n, excess_of_product(made, d))
        made = made * d
    return made


def value_of(w: Writer, tensor: Tensor) -> Value:
    """A tensor as a value of the payload, which is made where the elements are known: outside of all branches, since
    others may read it, too."""
    if tensor.value is None:
        with w.builder.at_top():
            tensor.value = _written(w, tensor)
    return tensor.value


def _written(w: Writer, tensor: Tensor) -> Value:
    array = tensor.array
    if array is not None and array.size and (array.size == 1 or not any(array.strides)):
        return w.fill(array[(0,) * array.ndim].item(), tensor.shape, tensor.dtype)
    if array is not None:
        return w.constant(identifier(tensor.name), array)
    if tensor.sizes is None:
        raise AssertionError(f"{tensor.name} is no value")
    flat = [w.fill(size, (1,), tensor.dtype) for size in tensor.sizes.ravel().tolist()]
    return w.reshape(w.concat(flat, 0), tensor.shape)


def identifier(name: str) -> str:
    """A name as the payload may have it, where `//` would begin a comment."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_./~") else "_" for c in name)
    held = "/".join(part for part in kept.split("/") if part) or "v"
    return held if held[0].isalpha() or held[0] == "_" else f"_{held}"


def _kind(held: object) -> str:
    return "none" if held is None else f"a {type(held).__name__}"


__all__ = ["Node", "check_length", "dtype_of_onnx", "identifier", "objects", "product"]

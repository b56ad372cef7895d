"""Reads and writes between memory (tensors, buffers) and registers (vectors, scalars)."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import add

import numpy as np

from tcpx.payload.contexts import context_at, is_less_equal_at
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import (
    DimAttribute,
    DimsAttribute,
    ElementsAttribute,
    FlagAttribute,
    IntAttribute,
    NumberAttribute,
    Operand,
)
from tcpx.payload.ir import Attribute, Operation, Range, Value, register
from tcpx.payload.ops.constant import check_literal
from tcpx.payload.ops.gml_st import STREAM, OnSubset, write_subset
from tcpx.payload.sizes import Dim, to_text
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType, TensorType, Type, VectorType, dtype_of, i1, lanes_of, shape_of, with_shape
from tcpx.payload.value_ranges import beside
from tcpx.plurals import counted


@register
class Read(OnSubset):
    """A subset of a tensor or buffer as a vector or scalar; if the subset is smaller, the rest is `value`.

    Along each dim of the vector the subset begins at `first`, by default 0. A 1-D vector may contain a subset of two
    dims row by row, if it has the whole inner dim. `free = true`: lanes outside the subset are unspecified, and may be
    read in the memory of the last row.
    """

    __slots__ = ()
    opcode = "vector.read"
    source = Operand()
    attribute_names = None
    value = NumberAttribute(default=0)
    """What lanes outside the subset hold."""
    first = DimsAttribute()
    """The first lane of the subset, along each dim of the vector."""

    @classmethod
    def of(
        cls, source: Value, subset: Tile, type_: Type, value: float | int = 0, first: Sequence[Dim] = ()
    ) -> Operation:
        """A detached read."""
        held = float(value) if dtype_of(type_).is_float else int(value)
        return cls([source], [type_], {"subset": subset, "value": held} | first_lanes(first))

    def verify(self) -> None:
        super().verify()
        if self.first and (len(self.first) != len(shape_of(self.result.type)) or self.is_flat):
            raise self.error(
                "`first` has a number for each dim of the vector",
                required=f"{len(shape_of(self.result.type))} of them, of a subset of as many dims",
                found=f"[{', '.join(map(to_text, self.first))}]",
            )
        if self.first:
            self.check_inside(Tile(self.first, self.subset.shape), self.result, "the vector")
        check_literal(self, self.value, dtype_of(self.result.type))
        if not self.is_flat:
            self.check_value(self.result)

    @property
    def is_flat(self) -> bool:
        """Whether the vector holds the rows of a subset of two dims one after the other."""
        return is_flat(self, self.result)

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        has_elements = all(is_less_equal_at(self, 1, size) for size in self.subset.sizes)
        return beside(of(self.source), self.value, has_elements)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = np.full(evaluation.shape(self.result.type), self.value).astype(args[0].dtype)
        evaluation.note_read(self.operands[0], self.subset)
        sizes = [evaluation.size(s) for s in self.subset.sizes]
        if all(n > 0 for n in sizes):
            kept = [n for d, n in enumerate(sizes) if d not in self.subset.dropped]
            if self.is_flat:
                rows = evaluation.select(args[0], self.subset)
                made[: rows.size] = rows.reshape(-1)
                return (made,)
            first = [evaluation.size(at) for at in self.first or (0,) * len(kept)]
            made[tuple(map(slice, first, map(add, first, kept)))] = evaluation.select(args[0], self.subset)
        return (made,)


@register
class Mask(Operation):
    """Truth values of which `count` lanes from `first` on are true: none where `count` is below 1."""

    __slots__ = ()
    opcode = "vector.mask"
    first = DimAttribute(default=0)
    count = DimAttribute(example="1")

    @classmethod
    def of(cls, count: Dim, lanes: int, first: Dim = 0) -> Operation:
        """A detached mask; a scalar for one lane."""
        type_ = i1 if lanes == 1 else VectorType((lanes,), i1)
        return cls([], [type_], {"count": count} | ({} if first == 0 else {"first": first}))

    def verify(self) -> None:
        type_ = self.result.type
        if dtype_of(type_) != i1 or isinstance(type_, TensorType | BufferType) or len(shape_of(type_)) > 1:
            raise self.error("a mask has a truth value for each lane", required="i1 or vector<Lxi1>", found=str(type_))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        shape, first = evaluation.shape(self.result.type), evaluation.size(self.first)
        lanes = np.arange(prod(shape)).reshape(shape)
        return ((first <= lanes) & (lanes < first + evaluation.size(self.count)),)


def is_flat(op: OnSubset, vector: Value) -> bool:
    """Whether a vector holds the rows of a subset of two dims one after the other."""
    type_, shape = vector.type, op.subset.shape
    if not isinstance(type_, VectorType) or len(type_.shape) != 1 or len(shape) != 2:
        return False
    inner = shape[1]
    is_whole = isinstance(inner, int) and inner > 0 and type_.shape[0] % inner == 0
    return is_whole and type_.dtype == dtype_of(op.subset_of.type)


def first_lanes(first: Sequence[Dim]) -> dict[str, Attribute]:
    """The attribute of a read whose subset begins at these lanes."""
    return {"first": tuple(first)} if any(at != 0 for at in first) else {}


@register
class Gather(OnSubset):
    """Elements of a subset of a tensor or buffer, selected along each of `dims` by the index operands, as a vector: its
    first dims are those of these indices, the others the remaining dims of the subset, in order.

    If a remaining dim of the subset is smaller than that of the vector, the rest is `value`. `bounded = true`: so is
    the element of an index out of range, which is directly before the first or after the last valid one.
    """

    __slots__ = ()
    opcode = "vector.gather"
    attribute_names = None
    variadic = True
    value = NumberAttribute(default=0)
    dims = ElementsAttribute(int, "a list of ints")
    bounded = FlagAttribute()

    @classmethod
    def of(
        cls, indices: Mapping[int, Value], source: Value, subset: Tile, type_: Type, value: float | int
    ) -> Operation:
        """A detached gather; `indices`: dim of the source -> the indices along it."""
        held = float(value) if dtype_of(type_).is_float else int(value)
        attributes = {"subset": subset, "dims": tuple(indices), "value": held}
        return cls([*indices.values(), source], [type_], attributes)

    @property
    def indices(self) -> Mapping[int, Value]:
        """Dim of the source -> the indices along it."""
        return dict(zip(self.dims, self.operands, strict=False))

    @property
    def source(self) -> Value:
        """What it reads."""
        return self.operands[-1]

    def verify(self) -> None:
        super().verify()
        check_literal(self, self.value, dtype_of(self.result.type))
        shapes = {shape_of(value.type) for value in self.operands[:-1]}
        left = [size for dim, size in enumerate(self.subset.sizes) if dim in self.subset.kept and dim not in self.dims]
        inner = len(shape_of(self.result.type)) - len(left)
        if (
            len(self.dims) != len(self.operands) - 1
            or set(self.dims) & set(self.subset.dropped)
            or shapes != {shape_of(self.result.type)[:inner]}
            or any(not dtype_of(value.type).is_integer for value in self.operands[:-1])
        ):
            raise self.error(
                "there are indices for each of `dims`, all of one shape, with which the vector begins",
                required=counted(len(self.dims), "vector")
                + f" of integers of shape {list(shape_of(self.result.type)[:inner])}",
                found=", ".join(str(value.type) for value in self.operands[:-1]) or "none",
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = np.full(evaluation.shape(self.result.type), self.value).astype(args[-1].dtype)
        evaluation.note_read(self.source, self.subset)
        part = evaluation.select(args[-1], self.subset)
        places = [self.subset.kept.index(dim) for dim in self.dims]
        if self.bounded and not part.size:  # of nothing, all indices are outside
            return (made,)
        if self.bounded:
            behind = [(0, 1 if k in places else 0) for k in range(part.ndim)]
            part = np.pad(part, behind, constant_values=np.asarray(self.value).astype(part.dtype))
            given = zip((a.astype(np.int64) for a in args[:-1]), places, strict=True)
            args = [*(np.where(a < 0, part.shape[k] - 1, a) for a, k in given), part]
        for index, extent in zip(args[:-1], (part.shape[place] for place in places), strict=True):
            if index.size and not 0 <= int(index.min()) <= int(index.max()) < extent:
                raise IndexError(f"{index.min()} to {index.max()} are no indices of a dim of extent {extent}")
        found = np.moveaxis(part, places, range(len(places)))[tuple(a.astype(np.int64) for a in args[:-1])]
        made[tuple(slice(0, n) for n in found.shape)] = found
        return (made,)


@register
class Write(OnSubset):
    """Store a vector or scalar to a subset of a buffer; a larger vector is stored only within the subset.

    A 1-D vector may contain a subset of two dims row by row, if it has the whole inner dim.
    """

    __slots__ = ()
    opcode = "vector.write"
    result_count = 0
    value, destination = Operand(), Operand()
    stream = FlagAttribute(STREAM)
    """Whether it goes past the caches."""
    has_side_effects = True

    @classmethod
    def of(cls, value: Value, destination: Value, subset: Tile) -> Operation:
        """A detached write."""
        return cls([value, destination], [], {"subset": subset})

    def verify(self) -> None:
        super().verify()
        if not isinstance(self.operands[1].type, BufferType):
            raise self.error(
                "a write goes to a buffer",
                required="a buffer as second operand",
                found=f"%{self.operands[1].name}: {self.operands[1].type}",
            )
        if not self.is_flat:
            self.check_value(self.operands[0])

    @property
    def is_flat(self) -> bool:
        """Whether the vector holds the rows of a subset of two dims one after the other."""
        return is_flat(self, self.value)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        evaluation.note_write(self.operands[1], self.subset)
        value = args[0].reshape(-1, evaluation.size(self.subset.shape[1])) if self.is_flat else args[0]
        write_subset(evaluation, value, args[1], self.subset)
        return ()


@register
class ToTensor(Operation):
    """A register tile as a tensor: its first storage.

    A dim of the tensor may be symbolic if the enclosing branches imply that it equals that of the vector.
    """

    __slots__ = ()
    opcode = "vector.to_tensor"
    computes_result = True
    operand = Operand()

    @classmethod
    def of(cls, operand: Value, shape: Sequence[Dim] | None = None) -> Operation:
        """A detached conversion; `shape` is the shape of the tensor if it is not that of the vector."""
        return cls([operand], [TensorType(tuple(shape or shape_of(operand.type)), dtype_of(operand.type))])

    def verify(self) -> None:
        wanted = TensorType(shape_of(self.operands[0].type), dtype_of(self.operands[0].type))
        found = self.result.type
        if found != wanted and with_shape(found, tuple(map(context_at(self).value, shape_of(found)))) != wanted:
            raise self.error(
                "the result is a tensor like the operand", required=str(wanted), found=str(self.result.type)
            )

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return of(self.operand)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (args[0].copy(),)


@register
class Extract(Operation):
    """One lane of a 1-D vector, `lane`, as a scalar."""

    __slots__ = ()
    opcode = "vector.extract"
    attribute_names = None
    operand, lane = Operand(), IntAttribute(example="0")

    @classmethod
    def of(cls, operand: Value, lane: int) -> Operation:
        """A detached extract."""
        return cls([operand], [dtype_of(operand.type)], {"lane": lane})

    def verify(self) -> None:
        type_ = self.operands[0].type
        if not isinstance(type_, VectorType) or len(type_.shape) != 1 or not 0 <= self.lane < type_.shape[0]:
            raise self.error(
                "there is no such lane", required="a lane of a 1-D vector", found=f"lane {self.lane} of {type_}"
            )
        if self.result.type != type_.dtype:
            raise self.error(
                "a lane has the dtype of the vector", required=type_.dtype.name, found=str(self.result.type)
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.asarray(args[0][self.lane]),)


@register
class Insert(Operation):
    """A 1-D vector with its lane `lane` replaced by a scalar."""

    __slots__ = ()
    opcode = "vector.insert"
    attribute_names = None
    operand, element, lane = Operand(), Operand(), IntAttribute(example="0")

    @classmethod
    def of(cls, operand: Value, element: Value, lane: int) -> Operation:
        """A detached insert."""
        return cls([operand, element], [operand.type], {"lane": lane})

    def sources(self) -> list[tuple[Value, int]]:
        """For each lane of the result the value and its lane; 0 of the scalar."""
        vector, element = self.operands
        return [(element, 0) if i == self.lane else (vector, i) for i in range(lanes_of(vector.type))]

    def verify(self) -> None:
        type_ = self.operands[0].type
        if not isinstance(type_, VectorType) or len(type_.shape) != 1 or not 0 <= self.lane < type_.shape[0]:
            raise self.error(
                "there is no such lane", required="a lane of a 1-D vector", found=f"lane {self.lane} of {type_}"
            )
        if self.operands[1].type != type_.dtype or self.result.type != type_:
            raise self.error(
                "the element and the result have the dtype of the vector",
                required=f"{type_.dtype} into {type_}",
                found=f"%{self.operands[1].name}: {self.operands[1].type}, result {self.result.type}",
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = args[0].copy()
        made[self.lane] = args[1][()]
        return (made,)


@register
class Shuffle(Operation):
    """Lanes of two 1-D vectors of one type: lane i of the result is lane `lanes[i]` of their concatenation."""

    __slots__ = ()
    opcode = "vector.shuffle"
    first, second = Operand(), Operand()
    attribute_names = None
    lanes = ElementsAttribute(int, "a list of ints")

    def usual_attribute(self, key: str) -> str:
        """The first lanes, as they are."""
        (count,) = shape_of(self.result.type)
        return str(list(range(count))) if key == "lanes" and isinstance(count, int) else ""

    @classmethod
    def of(cls, first: Value, second: Value, lanes: Sequence[int]) -> Operation:
        """A detached shuffle."""
        return cls([first, second], [VectorType((len(lanes),), dtype_of(first.type))], {"lanes": tuple(lanes)})

    def sources(self) -> list[tuple[Value, int]]:
        """For each lane of the result the operand and its lane."""
        first, second = self.operands
        count = lanes_of(first.type)
        return [(first, lane) if lane < count else (second, lane - count) for lane in self.lanes]

    def verify(self) -> None:
        first, second = (value.type for value in self.operands)
        if not isinstance(first, VectorType) or len(first.shape) != 1 or first != second:
            raise self.error(
                "the lanes are those of two vectors of one type",
                required="two 1-D vectors of one type",
                found=f"{first} and {second}",
            )
        held = self.attributes.get("lanes")
        count = 2 * first.shape[0]
        if self.result.type != VectorType((len(self.lanes),), first.dtype):
            raise self.error(
                "the result has a lane for each number",
                required=str(VectorType((len(self.lanes),), first.dtype)),
                found=str(self.result.type),
            )
        if self.lanes != held or not all(0 <= lane < count for lane in self.lanes):
            raise self.error("there is no such lane", required=f"lanes below {count}", found=f"{held}")

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.concatenate(args)[list(self.lanes)],)


@register
class FromElements(Operation):
    """A 1-D vector with the operands as lanes."""

    __slots__ = ()
    opcode = "vector.from_elements"
    variadic = True

    @classmethod
    def of(cls, elements: Sequence[Value]) -> Operation:
        """A detached vector of scalars."""
        return cls(elements, [VectorType((len(elements),), dtype_of(elements[0].type))])

    def verify(self) -> None:
        dtype = dtype_of(self.result.type)
        wanted = VectorType((len(self.operands),), dtype)
        if not self.operands or self.result.type != wanted or any(v.type != dtype for v in self.operands):
            raise self.error(
                "the operands are the lanes of the result",
                required=f"{wanted} of {dtype}",
                found=f"{self.result.type} of {', '.join(str(v.type) for v in self.operands) or 'nothing'}",
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.array([a[()] for a in args]).astype(dtype_of(self.result.type).numpy),)

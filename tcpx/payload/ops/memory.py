"""Tensors without contents; buffers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Self

import numpy as np

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Diagnostic, VerifyError
from tcpx.payload.evaluator import Array, Evaluation, poison
from tcpx.payload.fields import ElementsAttribute, FlagAttribute, Operand, SubsetAttribute
from tcpx.payload.ir import Operation, Range, Value, register
from tcpx.payload.ops.gml_st import OnSubset, write_subset
from tcpx.payload.sizes import Dim, Size, product, to_text
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType, ScalarType, Type, dtype_of, row_major, shape_of, si64
from tcpx.plurals import counted

CACHE_LINE = 64
"""Bytes that are read or written together; a vector of any target is no longer."""
OWN = "own"
"""The attribute of what is made in memory of its own, and copied where it goes."""


@register
class Empty(Operation):
    """A tensor with undefined elements: the first init of a destination.

    With `own = true`, the result of a loop on it is not computed at its final place, but copied there.
    """

    __slots__ = ()
    opcode = "tcp.empty"
    own = FlagAttribute(OWN)
    """Whether what is made of it has memory of its own."""
    leaves_undefined = True

    @property
    def has_own_memory(self) -> bool:
        return self.own

    @classmethod
    def of(cls, type_: Type, own: bool = False) -> Operation:
        """A detached empty tensor, in memory of its own if that is asked for."""
        return cls([], [type_], {OWN: True} if own else {})

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (poison(evaluation.shape(self.result.type), dtype_of(self.result.type)),)


@register
class Alloc(Operation):
    """Memory of a kernel, in the workspace (`space arena`) or on the stack (`space stack`)."""

    __slots__ = ()
    opcode = "buffer.alloc"
    leaves_undefined = True

    @classmethod
    def of(cls, type_: BufferType, name: str = "") -> Operation:
        """A detached allocation."""
        return cls([], [type_], result_names=[name])

    def verify(self) -> None:
        if not isinstance(self.result.type, BufferType):
            raise self.error("an allocation is a buffer", required="a buffer type", found=str(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        type_ = self.result.type
        shape = evaluation.shape(type_)
        if isinstance(type_, BufferType) and prod(shape) == 0:
            shape = tuple(max(n, 0) for n in shape)
        planned = self._planned(type_, shape, evaluation) if isinstance(type_, BufferType) else None
        if planned is None:
            return (poison(shape, dtype_of(type_)),)
        planned[...] = poison((), dtype_of(type_))
        return (planned,)

    def _planned(self, type_: BufferType, shape: tuple[int, ...], evaluation: Evaluation) -> Array | None:
        """The part of the workspace the plan gives it, if there is a plan; beyond its end is an error."""
        offset, part = self.attributes.get("offset"), evaluation.workspace
        if not isinstance(offset, int | Size) or part is None:
            return None
        dtype = type_.dtype.numpy
        strides = [evaluation.size(s) * dtype.itemsize for s in type_.strides]
        try:
            return np.ndarray(shape, dtype, part.data, evaluation.size(offset), strides)
        except (TypeError, ValueError) as error:
            raise self.error(
                "the buffer does not fit into the workspace",
                required=counted(part.size, "byte"),
                found=f"offset {evaluation.size(offset)}, shape {shape} of {type_.dtype}",
            ) from error


@register
class View(Operation):
    """The elements of a contiguous buffer, in row-major order, under another shape: the same memory."""

    __slots__ = ()
    opcode = "buffer.reshape"
    source = Operand()

    @classmethod
    def of(cls, source: Value, shape: Sequence[Dim]) -> Operation:
        """A detached view of a buffer under another shape."""
        if not isinstance(source.type, BufferType):
            raise VerifyError(
                Diagnostic("only memory has another shape", required="a buffer", found=f"%{source.name}: {source.type}")
            )
        dims = tuple(shape)
        return cls([source], [BufferType(dims, source.type.dtype, row_major(dims), source.type.space)])

    def verify(self) -> None:
        before, after = self.operands[0].type, self.result.type
        if not isinstance(before, BufferType) or not isinstance(after, BufferType):
            raise self.error("a view is of a buffer and is one", required="buffers", found=f"{before} as {after}")
        if (before.dtype, before.space) != (after.dtype, after.space):
            raise self.error("a view keeps dtype and space", required=str(before), found=str(after))
        if not are_equal_at(self, product(before.shape), product(after.shape)):
            raise self.error(
                "a view keeps the number of elements",
                required=f"{counted(to_text(product(before.shape)), 'element')}",
                found=str(after),
            )
        for type_ in (before, after):
            rows = zip(type_.strides, row_major(type_.shape), type_.shape, strict=True)
            if any(extent != 1 and not are_equal_at(self, a, b) for a, b, extent in rows):
                raise self.error("a view is of contiguous memory", required="row-major strides", found=str(type_))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (args[0].reshape(evaluation.shape(self.result.type)),)


@register
class At(View):
    """A part of a buffer at computed places: its `subset`, and along each of `dims` one element of it, whose index is
    an operand after the buffer. The same memory."""

    __slots__ = ()
    opcode = "buffer.at"
    variadic = True
    attribute_names = None
    subset = SubsetAttribute()
    dims = ElementsAttribute(int, "a list of ints")

    @classmethod
    def at(cls, source: Value, subset: Tile, indices: Mapping[int, Value]) -> Operation:
        """A detached part of a buffer; `indices`: dim of the buffer -> where in the subset it is."""
        made = cls([source, *indices.values()], [source.type], {"subset": subset, "dims": tuple(indices)})
        made.results[0].type = made._part(source.type)
        return made

    def _part(self, source: Type) -> BufferType:
        if not isinstance(source, BufferType):
            raise self.error("the part of a buffer is one", required="a buffer", found=str(source))
        sizes = [1 if dim in self.dims else size for dim, size in enumerate(self.subset.sizes)]
        strides = [a * b for a, b in zip(source.strides, self.subset.strides, strict=True)]
        kept = self.subset.kept
        return BufferType(
            tuple(sizes[dim] for dim in kept), source.dtype, tuple(strides[dim] for dim in kept), source.space
        )

    def verify(self) -> None:
        wanted, found = self._part(self.operands[0].type), self.result.type
        if len(self.dims) != len(self.operands) - 1 or set(self.dims) & set(self.subset.dropped):
            raise self.error(
                "there is an index for each of `dims`",
                required=f"{counted(len(self.operands) - 1, 'dim')} of the buffer that are kept",
                found=str(list(self.dims)),
            )
        for value in self.operands[1:]:
            if not isinstance(value.type, ScalarType) or not value.type.is_integer:
                raise self.error("an index is an integer", required="a scalar", found=f"%{value.name}: {value.type}")
        if found != wanted:
            raise self.error("the type of a part follows from it", required=str(wanted), found=str(found))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        part = evaluation.select(args[0], replace(self.subset, dropped=()))
        index: list[slice | int] = [slice(None)] * part.ndim
        for dim in self.subset.dropped:
            index[dim] = 0
        for dim, value in zip(self.dims, args[1:], strict=True):
            place = int(value)
            if not 0 <= place < part.shape[dim]:
                raise IndexError(f"{place} is no index of a dim of extent {part.shape[dim]}")
            index[dim] = slice(place, place + 1)
        return (part[tuple(index)],)


def memory_of(value: Value) -> Value:
    """The buffer that a buffer is the memory of, or a part of that."""
    while isinstance(value.defining_op, View):
        value = value.defining_op.source
    return value


@register
class Copy(OnSubset):
    """Copy `part` of a buffer, contiguous elements, to a subset of another one."""

    __slots__ = ()
    opcode = "buffer.copy"
    result_count = 0
    source, destination = Operand(), Operand()
    part = SubsetAttribute()
    """The elements of the source."""
    has_side_effects = True

    @classmethod
    def of(cls, source: Value, part: Tile, destination: Value, subset: Tile) -> Self:
        """A detached copy."""
        return cls([source, destination], [], {"subset": subset, "part": part})

    @property
    def accesses(self) -> Sequence[tuple[Value, Tile]]:
        return [(self.source, self.part), (self.destination, self.subset)]

    @property
    def work(self) -> Dim:
        return 2 * product(self.subset.shape)

    def part_read(self, index: int) -> Tile | None:
        return self.part if index == 0 else None

    def verify(self) -> None:
        super().verify()
        if memory_of(self.source) is memory_of(self.destination):
            found = f"%{self.source.name} and %{self.destination.name}"
            raise self.error("a copy goes to other memory", required="two buffers", found=f"one memory, {found}")
        for value, tile in self.accesses:
            type_, kept = value.type, tile.kept
            if not isinstance(type_, BufferType) or tile.rank != len(type_.shape):
                raise self.error(
                    "a copy is of parts of buffers", "a buffer", f"{tile.text()} of %{value.name}: {type_}"
                )
            if len(kept) != 1 or not are_equal_at(self, tile.strides[kept[0]] * type_.strides[kept[0]], 1):
                raise self.error(
                    "what is copied lies side by side",
                    required="one dim that is not dropped, in steps of one element",
                    found=f"{tile.text()} of %{value.name}: {type_}",
                )
        sizes, dtypes = [tile.shape for _, tile in self.accesses], [dtype_of(v.type) for v in self.operands]
        if dtypes[0] != dtypes[1] or not are_equal_at(self, sizes[0][0], sizes[1][0]):
            found = [f"{to_text(size)} of {dtype}" for (size,), dtype in zip(sizes, dtypes, strict=True)]
            raise self.error("as many elements of one dtype are written as are read", found[0], found[1])

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        evaluation.note_read(self.source, self.part)
        evaluation.note_write(self.destination, self.subset)
        write_subset(evaluation, evaluation.select(args[0], self.part), args[1], self.subset)
        return ()


@register
class Lead(Operation):
    """The number of elements of a tensor or buffer from the first of a subset to the next cache line."""

    __slots__ = ()
    opcode = "buffer.lead"
    source, subset = Operand(), SubsetAttribute()
    has_side_effects = True
    is_hint = True
    attribute_names = None

    @classmethod
    def of(cls, source: Value, subset: Tile) -> Operation:
        """A detached question."""
        return cls([source], [si64], {"subset": subset})

    def part_read(self, index: int) -> Tile | None:
        return None

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return 0, CACHE_LINE // dtype_of(self.source.type).bytes

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        """Any number of elements of a cache line is right: here all but one."""
        return (np.array(CACHE_LINE // dtype_of(self.source.type).bytes - 1, np.int64),)


@register
class Fence(Operation):
    """Make earlier non-temporal stores visible to other threads before later stores."""

    __slots__ = ()
    opcode = "buffer.fence"
    result_count = 0
    has_side_effects = True
    attribute_names = None

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return ()


@register
class Prefetch(Operation):
    """Prefetch the cache line of one element; `write` says whether it will be written."""

    __slots__ = ()
    opcode = "buffer.prefetch"
    result_count = 0
    source, subset = Operand(), SubsetAttribute()
    has_side_effects = True
    is_hint = True
    attribute_names = None

    def part_read(self, index: int) -> Tile | None:
        return None

    def verify(self) -> None:
        rank = len(shape_of(self.operands[0].type))
        if self.subset.rank != rank:
            raise self.error(
                "a subset has an offset and a size per dim",
                required=f"rank {rank} of %{self.operands[0].name}: {self.operands[0].type}",
                found=self.subset.text(),
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return ()

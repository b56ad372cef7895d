"""Composite operations: outside the operation tree, they always decompose into it. Floats of 16 bits are computed with
in f32 and rounded once."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tcpx.payload.contexts import are_equal_at, context_at
from tcpx.payload.evaluator import Array
from tcpx.payload.fields import ElementsAttribute, Operand
from tcpx.payload.indexing_maps import IndexingMap, dims, map_dim
from tcpx.payload.interfaces import Box, Build, Iterator, Tileable
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.elementwise import Arithmetic, Div, Mul, cast_to
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.reduce import Reduce, ReduceSum
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.signature import result_roles
from tcpx.payload.types import ScalarType, TensorType, Type, accumulator_of, dtype_of, like, shape_of

Wide = npt.NDArray[np.float64]


class Composite(Tileable):
    """Interface `Composite`: the operation says what it is made of, and which dims of its operands and of its result
    are the same. No tile has a part of a dim along which it reduces."""

    __slots__ = ()
    class_name = "composite"
    has_numbered_dims = True

    def maps(self) -> tuple[IndexingMap, ...]:
        """The dims of each operand."""
        raise self.error("the operation declares no dims of its operands", required="an operation with this interface")

    def result_map(self) -> IndexingMap:
        """The dims of the result."""
        return dims(*(it.name for it in self.iterators()))

    def result_maps(self) -> tuple[IndexingMap, ...]:
        """The dims of each result: the same, unless a class says otherwise."""
        return (self.result_map(),) * len(self.results)

    def decompose(self, build: Build) -> Value:
        """Build the operations it stands for; returns the value that replaces the only result."""
        raise self.error("the operation declares no decomposition", required="an operation with this interface")

    def decomposed(self, build: Build) -> Sequence[Value]:
        """Build them; returns the values that replace the results. A class of several results declares it."""
        return [self.decompose(build)]

    @property
    def wide(self) -> ScalarType:
        """The dtype that it is computed in."""
        return accumulator_of(dtype_of(self.result.type))

    def in_range(self, x: Wide) -> Wide:
        """Intermediate values of the reference: infinite where they are in the dtype that it is computed in."""
        return in_range(x, self.wide)

    def domain(self) -> tuple[Dim, ...]:
        known = dict[str | None, Dim]()
        pairs = (
            *zip(self.maps(), self.operands, strict=False),
            *zip(self.result_maps(), self.results, strict=True),
        )
        for indexing_map, value in pairs:
            for expression, extent in zip(indexing_map, shape_of(value.type), strict=False):
                known.setdefault(map_dim(expression), extent)
        missing = next((it.name for it in self.iterators() if it.name not in known), None)
        if missing is not None:
            raise self.error(
                f"no operand has the dim {missing}, along which the operation goes",
                required="operands of more dims",
                found=", ".join(f"%{value.name}: {value.type}" for value in self.operands),
            )
        return tuple(known[it.name] for it in self.iterators())

    def _tile(self, indexing_map: IndexingMap, box: Box) -> Tile:
        parts = dict(zip((it.name for it in self.iterators()), zip(box.offsets, box.sizes, strict=True), strict=True))
        held = [parts[map_dim(expression) or ""] for expression in indexing_map]
        return Tile(tuple(offset for offset, _ in held), tuple(size for _, size in held))

    def _iteration(self, indexing_map: IndexingMap, tile: Tile) -> Box | None:
        if tile.dropped or any(stride != 1 for stride in tile.strides):
            return None
        held = zip(map(map_dim, indexing_map), tile.offsets, tile.sizes, strict=True)
        parts = {name: (offset, size) for name, offset, size in held}
        box = Box.at_origin(self.extents())
        for position, (it, whole) in enumerate(zip(self.iterators(), self.domain(), strict=True)):
            offset, size = parts.get(it.name, (0, whole))
            if it.is_reduction or it.is_whole:
                if offset != 0 or not are_equal_at(self, size, whole):
                    return None
            elif it.name in parts:
                box = box.along(position, offset, size)
        return box

    def operand_tile(self, index: int, box: Box) -> Tile:
        return self._tile(self.maps()[index], box)

    def result_tile(self, box: Box, number: int = 0) -> Tile:
        return self._tile(self.result_maps()[number], box)

    def iteration_of_result(self, tile: Tile, number: int = 0) -> Box | None:
        return self._iteration(self.result_maps()[number], tile)

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        return self._iteration(self.maps()[index], tile)

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        types = [like(r.type, tuple(shape), dtype_of(r.type)) for r, shape in zip(self.results, shapes, strict=True)]
        made = type(self)(operands, types, self.attributes, location=self.location)
        made.stand_for(self)
        return made

    def verify(self) -> None:
        self.check_dtypes()
        known, here = dict(zip((it.name for it in self.iterators()), self.domain(), strict=True)), context_at(self)
        roles = (*self.operand_roles, *result_roles(self))
        for role, indexing_map, value in zip(
            roles, (*self.maps(), *self.result_maps()), (*self.operands, *self.results), strict=True
        ):
            wanted = tuple(known[map_dim(expression) or ""] for expression in indexing_map)
            have = shape_of(value.type)
            same = [here.is_equal(a, b) for a, b in zip(wanted, have, strict=False)]
            if len(wanted) != len(have) or not all(held is True for held in same):
                right = like(value.type, wanted, dtype_of(value.type))
                types = ", ".join(str(right if result is value else result.type) for result in self.results)
                raise self.error(
                    f"`{role}` has another shape than the dims it goes along",
                    required=str(right),
                    found=f"%{value.name}: {value.type}",
                    fix=f"write `: {types}`" if value in self.results else None,
                    unproven=len(wanted) == len(have) and False not in same,
                )

    def check_dtypes(self) -> None:
        """Raise VerifyError where operands have other dtypes than they may: one float type, unless a class says
        otherwise."""
        dtype = dtype_of(self.result.type)
        if not dtype.is_float:
            raise self.error("the operation is defined on floats", required="f64, f32, f16 or bf16", found=dtype.name)
        wrong = next((v for v in self.operands if dtype_of(v.type) != dtype), None)
        if wrong is not None:
            wanted = like(wrong.type, shape_of(wrong.type), dtype)
            raise self.error(
                "operands and result have one dtype",
                required=dtype.name,
                found=f"%{wrong.name}: {wrong.type}",
                fix=f"%{wrong.name}.{dtype} = tcp.cast(%{wrong.name}) : {wanted}",
            )


class AlongDims(Composite):
    """One that reduces along some dims of its operand, by which it is a map, or which its result lacks."""

    __slots__ = ()
    of_dims = ("dim", "dims")
    operand = Operand()
    applied_operands: tuple[tuple[str, str], ...] = ()
    """Operands along the reduced dims, in the order in which they are applied to the result without them, with the
    semantics of the operation that applies each."""

    @property
    def reduced(self) -> tuple[int, ...]:
        """The positions of the dims along which it reduces, which an attribute says."""
        raise self.error("the operation declares no dims to reduce along", required="an operation with this property")

    def usual_attribute(self, key: str) -> str:
        last = max(0, len(shape_of(self.operand.type)) - 1)
        return str(last) if key == "dim" else f"[{last}]"

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.operand.type)), self.reduced)

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),)

    @property
    def kept(self) -> tuple[int, ...]:
        """The positions of the other dims."""
        return tuple(k for k in range(len(shape_of(self.operand.type))) if k not in self.reduced)

    @property
    def count(self) -> Dim:
        """How many elements each reduction has."""
        count: Dim = 1
        for k in self.reduced:
            count = count * shape_of(self.operand.type)[k]
        return count

    def verify(self) -> None:
        rank, key = len(shape_of(self.operand.type)), "dim" if "dim" in self.attributes else "dims"
        if list(self.reduced) != sorted(set(self.reduced)) or any(not 0 <= d < rank for d in self.reduced):
            right: list[int] = sorted({d + rank if -rank <= d < 0 else d for d in self.reduced})
            is_one = isinstance(self.attributes.get(key), int)
            raise self.error(
                f"`{key}` is a dim of the operand" if is_one else f"`{key}` names dims of the operand, in their order",
                required=f"{'' if is_one else 'rising dims, '}0 or more, and below {rank}",
                found=str(self.reduced[0] if is_one else list(self.reduced)),
                fix=f"{{{key} = {right[0] if is_one else right}}}" if all(0 <= d < rank for d in right) else None,
            )
        super().verify()

    def combined(self, build: Build, reduction: type[Reduce], value: Value) -> Value:
        """The elements of a value along the dims, combined."""
        small = like(value.type, tuple(shape_of(value.type)[k] for k in self.kept), dtype_of(value.type))
        return build(reduction([value], [small], {"dims": self.reduced}))

    def spread(self, build: Build, value: Value) -> Value:
        """A value of the other dims, repeated along these."""
        type_ = like(value.type, shape_of(self.operand.type), dtype_of(value.type))
        return build(Broadcast.of(value, self.kept, type_))

    def mean(self, build: Build, value: Value) -> Value:
        """The mean of a value along the dims."""
        return divided(build, self.combined(build, ReduceSum, value), self.count)

    def total(self, x: Wide, along: tuple[int, ...]) -> Wide:
        """The sums of the reference along dims that are kept at 1: those in float64, but where a sum in the dtype that
        it is computed in overflows."""
        exact: Wide = np.sum(x, along, keepdims=True)
        narrow = float64(np.sum(x.astype(self.wide.numpy), along, keepdims=True))
        return np.where(np.isfinite(narrow), exact, narrow)


class AlongListedDims(AlongDims):
    """One with a list of them, `dims`."""

    __slots__ = ()
    reduced_dims = ElementsAttribute(int, "a list of ints", key="dims")

    @property
    def reduced(self) -> tuple[int, ...]:
        return self.reduced_dims


def filled(build: Build, number: float | Dim, type_: Type) -> Value:
    """A tensor of one number or size."""
    if isinstance(number, int | float):
        return build(Fill.of(number, type_))
    one = build(Fill.of(number, TensorType((), dtype_of(type_))))
    return build(Broadcast.of(one, (), type_))


def divided(build: Build, value: Value, number: Dim) -> Value:
    """A value over a number or size."""
    return build(Div.of(value, filled(build, number, value.type)))


def squared(build: Build, value: Value) -> Value:
    """The squares of a value."""
    return build(Mul.of(value, value))


def with_number(build: Build, op: type[Arithmetic], value: Value, number: float) -> Value:
    """`op` of a value and a number."""
    return build(op.of(value, filled(build, number, value.type)))


def placed(build: Build, value: Value, dims_: Sequence[int], type_: Type, dtype: ScalarType) -> Value:
    """A value in another dtype, its dims those of a larger type."""
    held = cast_to(build, value, dtype)
    if len(dims_) == len(shape_of(type_)):
        return held
    return build(Broadcast.of(held, dims_, like(type_, shape_of(type_), dtype)))


def float64(array: Array) -> Wide:
    """An array in the precision of the reference."""
    return array.astype(np.float64)


def in_range(x: Wide, dtype: ScalarType) -> Wide:
    """Values in float64, infinite where they are in a dtype."""
    narrow = float64(x.astype(dtype.numpy))
    return np.where(np.isinf(narrow), narrow, x)


def rounded(array: npt.ArrayLike, dtype: ScalarType) -> tuple[Array]:
    """What a reference gives, in the dtype of the result."""
    return (np.asarray(np.asarray(array).astype(dtype.numpy)),)

"""Operations whose elements are chosen by indices, or are indices: iota, one_hot, gather, scatter_add."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ChoiceAttribute, DimsAttribute, IntAttribute, NumberAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dims, element_of
from tcpx.payload.interfaces import Build, Iterator, Position, Structured, check_dim
from tcpx.payload.ir import Range, Value, register
from tcpx.payload.ops.constant import check_literal
from tcpx.payload.ops.elementwise import Add, cast_to, converted
from tcpx.payload.ops.generic import CLAMP, ERROR, FILL, SCATTER
from tcpx.payload.ops.select import Equal
from tcpx.payload.types import ScalarType, dtype_of, shape_of, si64


class AlongDim(Structured):
    """An operation whose dims are those of its result, one of which is `dim`."""

    __slots__ = ()
    has_numbered_dims = True
    dim = IntAttribute(example="0")
    """The position of the dim."""

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.result.type)))

    def result_map(self) -> IndexingMap:
        return dims(*(it.name for it in self.iterators()))

    def check_place(self) -> None:
        """Raise VerifyError where `dim` is no dim of what it counts in: the operation."""
        check_dim(self, self.dim, len(self.iterators()), "operation")

    def verify(self) -> None:
        self.check_place()
        super().verify()


class Counting(AlongDim):
    """One whose body reads the index along `dim`."""

    __slots__ = ()
    begins = DimsAttribute("origins")

    @property
    def counted_in(self) -> ScalarType:
        """The dtype of the index that the body reads."""
        return si64

    def positions(self) -> tuple[Position, ...]:
        return (Position(self.iterators()[self.dim].dim.size(), self.counted_in, *self.begins),)

    def _indices(self, evaluation: Evaluation) -> Array:
        """The index along `dim` of every element of the result."""
        begin = evaluation.size(self.begins[0]) if self.begins else 0
        return np.indices(evaluation.shape(self.result.type))[self.dim] + begin


@register
class Iota(Counting):
    """The index along `dim` of each element: 0, 1, .."""

    __slots__ = ()
    opcode = "tcp.iota"
    class_name = "iota"

    def maps(self) -> tuple[IndexingMap, ...]:
        return ()

    @property
    def counted_in(self) -> ScalarType:
        """That of the result where it holds every index: vectors then have as many of them as elements."""
        end = shape_of(self.result.type)[self.dim] + sum(self.begins)
        dtype = self.acc_type
        holds = dtype.is_integer and dtype.bits >= 32 and self._holds("<=", end, int(dtype.maximum)) is True
        return dtype if holds else si64

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return cast_to(build, args[0], self.acc_type)

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        begin, dtype = self.positions()[0].origin, self.acc_type
        return (begin, begin + shape_of(self.result.type)[self.dim]) if dtype == si64 else None

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (converted(self._indices(evaluation), si64, self.acc_type),)


@register
class OneHot(Counting):
    """1 where the index along `dim` equals the element of the operand, which lacks that dim, else 0; for an index out
    of range 0 everywhere."""

    __slots__ = ()
    opcode = "tcp.one_hot"
    class_name = "one_hot"
    indices = Operand()

    def maps(self) -> tuple[IndexingMap, ...]:
        own = self.result_map()
        return ((*own[: self.dim], *own[self.dim + 1 :]),)

    def verify(self) -> None:
        if not dtype_of(self.indices.type).is_integer:
            raise self.error("what is compared are indices", "integers", f"%{self.indices.name}: {self.indices.type}")
        super().verify()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        index, place = (cast_to(build, value, si64) for value in args)
        return cast_to(build, build(Equal.of(index, place)), self.acc_type)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        wanted = np.expand_dims(args[0].astype(np.int64), self.dim)
        return ((self._indices(evaluation) == wanted).astype(self.acc_type.numpy),)


class Indexed(AlongDim):
    """One that reads or writes where elements of an operand say; these are known to be inside, or `out_of_range` says
    what one outside stands for."""

    __slots__ = ()
    out_of_range = ChoiceAttribute(ERROR, CLAMP, FILL)
    """What an index outside stands for: the nearest inside, or no element at all."""

    @property
    def clamps_indices(self) -> bool:
        return self.out_of_range == CLAMP

    @property
    def outside(self) -> float | int | None:
        return 0 if self.out_of_range == FILL else None

    def _places(self, indices: Array, extent: int) -> npt.NDArray[np.int64]:
        """The indices, one that is outside as the extent; or as the nearest inside, where it stands for that."""
        places = indices.astype(np.int64)
        if self.clamps_indices:
            return np.clip(places, 0, max(0, extent - 1))
        return np.where((places < 0) | (places >= extent), extent, places)


class Gathering(Indexed):
    """One that reads; where an index is outside and fills, it reads `fill`."""

    __slots__ = ()
    table = Operand()
    fill = NumberAttribute(default=0)
    """What is read where an index is outside."""

    @property
    def outside(self) -> float | int | None:
        return self.fill if self.out_of_range == FILL else None

    @property
    def is_movement(self) -> bool:
        return self.outside is None

    def verify(self) -> None:
        check_literal(self, self.fill if self.acc_type.is_float else int(self.fill), self.acc_type)
        if dtype_of(self.table.type) != self.acc_type:
            raise self.error(
                "table and result have one dtype", self.acc_type.name, f"%{self.table.name}: {self.table.type}"
            )
        super().verify()

    def check_place(self) -> None:
        """Raise VerifyError where `dim` is no dim of the table: the result may have none of its dims left."""
        check_dim(self, self.dim, len(shape_of(self.table.type)), "table")

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0]

    def _filled(self, table: Array, count: int = 1) -> Array:
        """The table with what is read outside behind it, along `count` dims, or where nothing is read because another
        dim is empty."""
        indexed = range(self.dim, self.dim + count)
        wide = [(0, int(k in indexed and (self.outside is not None or not n))) for k, n in enumerate(table.shape)]
        return np.pad(table, wide, constant_values=np.asarray(self.fill).astype(table.dtype))


@register
class Gather(Gathering):
    """The elements of `table` that `indices` select along `dim`, which the dims of `indices` replace."""

    __slots__ = ()
    opcode = "tcp.gather"
    class_name = "gather"
    indices = Operand()

    def maps(self) -> tuple[IndexingMap, ...]:
        own, end = self.result_map(), self.dim + len(shape_of(self.indices.type))
        return (*own[: self.dim], element_of(1), *own[end:]), own[self.dim : end]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.take(self._filled(args[0]), self._places(args[1], args[0].shape[self.dim]), self.dim),)


@register
class GatherElements(Gathering):
    """For each element of `indices`, the element of `table` at its place, with it as the index along `dim`."""

    __slots__ = ()
    opcode = "tcp.gather_elements"
    class_name = "gather_elements"
    indices = Operand()

    def maps(self) -> tuple[IndexingMap, ...]:
        own = self.result_map()
        return (*own[: self.dim], element_of(1), *own[self.dim + 1 :]), own

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        places = self._places(args[1], args[0].shape[self.dim])
        return (np.take_along_axis(self._filled(args[0]), places, self.dim),)


@register
class GatherNd(Gathering):
    """Elements of `table` selected along `dim` and the following dims, by one index for each of these dims: NumPy's
    `table[i, j]`. The dims of the indices, which have one shape, replace them."""

    __slots__ = ()
    opcode = "tcp.gather_nd"
    class_name = "gather_nd"
    variadic = True

    @property
    def _count(self) -> int:
        return len(self.operands) - 1

    @property
    def operand_roles(self) -> tuple[str, ...]:
        return ("table", *(f"in{k}" for k in range(1, len(self.operands))))

    def maps(self) -> tuple[IndexingMap, ...]:
        own, rank = self.result_map(), len(shape_of(self.operands[-1].type))
        places = own[self.dim : self.dim + rank]
        found = (element_of(k) for k in range(1, len(self.operands)))
        return (*own[: self.dim], *found, *own[self.dim + rank :]), *(places,) * self._count

    def verify(self) -> None:
        self.check_place()
        rank = len(shape_of(self.table.type)) - self.dim
        if not 1 <= self._count <= rank:
            raise self.error(
                "there is an index for each dim of the table from `dim` on, as far as elements are chosen",
                required=f"1 to {rank} of them",
                found=f"{self._count}",
            )
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        table, *indices = args
        extents = table.shape[self.dim : self.dim + self._count]
        places = (self._places(given, extent) for given, extent in zip(indices, extents, strict=True))
        return (self._filled(table, self._count)[(*(slice(None),) * self.dim, *places)],)


class Scatter(Indexed):
    """One that writes."""

    __slots__ = ()
    class_name = SCATTER


@register
class ScatterAdd(Scatter):
    """`init`, or 0, with the elements of `updates` added along `dim` at `indices`, in their order.

    If `out_of_range` is "fill", an index out of range adds nothing."""

    __slots__ = ()
    opcode = "tcp.scatter_add"
    class_name = "scatter_add"
    updates, indices, init = Operand(), Operand(), OptionalOperand()

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.updates.type)), (self.dim,))

    def maps(self) -> tuple[IndexingMap, ...]:
        own = dims(*(it.name for it in self.iterators()))
        return own, own[self.dim : self.dim + 1]

    def result_map(self) -> IndexingMap:
        own = self.maps()[0]
        return (*own[: self.dim], element_of(1), *own[self.dim + 1 :])

    def neutral(self) -> float | int | None:
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        return None if reduced else 0

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        element = cast_to(build, args[0], self.acc_type)
        return element if acc is None else self.combine(build, acc, element)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype, shape = self.acc_type.numpy, evaluation.shape(self.result.type)
        made = args[2].copy() if len(args) > 2 else np.zeros(shape, dtype)
        terms, rows = converted(args[0], dtype_of(self.updates.type), self.acc_type), np.moveaxis(made, self.dim, 0)
        places = self._places(args[1], shape[self.dim])
        inside = places < shape[self.dim]
        np.add.at(rows, places[inside], np.moveaxis(terms, self.dim, 0)[inside])
        return (made,)

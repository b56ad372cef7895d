"""Elements in order along a dim: sort, argsort, topk.

NaN counts as larger than all numbers, and -0.0 as equal to 0.0. Equal elements stay in their order, in both directions.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tcpx.payload.contexts import is_less_equal_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import FlagAttribute, IntAttribute, Operand, Result
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, check_dim
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.elementwise import cast_to
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.movement import Transpose, inverse
from tcpx.payload.ops.ordered_rows import Order, placed_in_order
from tcpx.payload.ops.selection import first_in_order
from tcpx.payload.sizes import Dim, to_text
from tcpx.payload.types import HALF, ScalarType, Type, dtype_of, like, shape_of, si32, si64


class Ordering(Composite):
    """Elements in order along `dim`, of which no tile has a part."""

    __slots__ = ()
    class_name = "ordering"
    operand = Operand()
    dim = IntAttribute(example="0")
    """The position of the dim."""
    has_nan_last = FlagAttribute("nan_last")
    """Whether NaN comes after all numbers in both directions, not where the largest do."""

    @property
    def rank(self) -> int:
        """Dims of the operand."""
        return len(shape_of(self.operand.type))

    @property
    def extent(self) -> Dim:
        """How many elements are ordered at a time."""
        return shape_of(self.operand.type)[self.dim]

    @property
    def falls(self) -> bool:
        """Whether the largest element comes first."""
        raise self.error("the operation declares no order", required="an operation with this property")

    @property
    def key(self) -> Order:
        """The order of the elements."""
        return Order(self.falls, self.has_nan_last)

    def usual_attribute(self, key: str) -> str:
        return str(max(0, self.rank - 1)) if key == "dim" else ""

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(self.rank, (self.dim,), IteratorKind.WHOLE)

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators()[: self.rank])),)

    def result_map(self) -> IndexingMap:
        return self.maps()[0]

    def verify(self) -> None:
        check_dim(self, self.dim, self.rank)
        super().verify()

    def check_dtypes(self) -> None:
        self.check_elements(dtype_of(self.result.type))

    def check_elements(self, found: ScalarType) -> None:
        """Raise VerifyError where a result has another dtype than the elements that it has."""
        wanted = dtype_of(self.operand.type)
        if found != wanted:
            raise self.error(
                "the elements are those of the operand", wanted.name, found.name, Direction("insert a tcp.cast")
            )

    def check_indices(self, found: ScalarType) -> None:
        """Raise VerifyError where a result cannot hold every index along the dim."""
        fits = found.is_integer and (found.bits == 64 or is_less_equal_at(self, self.extent - 1, int(found.maximum)))
        if not fits:
            raise self.error(
                f"{found} does not hold every index along dim {self.dim}",
                required=f"si64, or a type of integers that holds {to_text(self.extent - 1)}",
                found=found.name,
                fix="si64",
            )

    def decomposed(self, build: Build) -> Sequence[Value]:
        """Along the last dim: in parts. Along another: that of the transposed operand, transposed back."""
        if self.dim == self.rank - 1:
            return self.rows(build)
        order = (*(k for k in range(self.rank) if k != self.dim), self.dim)
        types = [like(r.type, tuple(shape_of(r.type)[k] for k in order), dtype_of(r.type)) for r in self.results]
        turned = type(self)([build(Transpose.of(self.operand, order))], types, self.attributes | {"dim": self.rank - 1})
        build(turned)
        return [build(Transpose.of(result, inverse(order))) for result in turned.results]

    def rows(self, build: Build) -> Sequence[Value]:
        """The results, where the dim is the last."""
        raise self.error("the operation declares no decomposition", required="an operation with this method")

    def counted(self, build: Build) -> Value:
        """The index of each element, in 32 bits where these hold it."""
        shape = shape_of(self.operand.type)
        holds = is_less_equal_at(self, shape[-1], int(si32.maximum))
        type_ = like(self.operand.type, shape, si32 if holds else si64)
        return build(Iota([], [type_], {"dim": len(shape) - 1}))

    def reference(self, x: Array) -> npt.NDArray[np.int64]:
        """The reference: the indices of all elements in their order."""
        x = np.moveaxis(x.astype(np.float32) if dtype_of(self.operand.type) in HALF else x, self.dim, -1)
        if self.falls:
            indices = x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
        else:
            indices = np.argsort(x, -1, kind="stable")
        if self.has_nan_last and x.dtype.kind == "f":
            last = np.argsort(np.isnan(np.take_along_axis(x, indices, -1)), -1, kind="stable")
            indices = np.take_along_axis(indices, last, -1)
        return np.moveaxis(indices, -1, self.dim).astype(np.int64)


class WholeOrdering(Ordering):
    """One of all elements."""

    __slots__ = ()
    descending = FlagAttribute()
    """Whether the largest element comes first."""

    def usual_types(self) -> list[Type] | None:
        return [self.operand.type]

    @property
    def falls(self) -> bool:
        return self.descending


@register
class Sort(WholeOrdering):
    """The elements along `dim` from the smallest to the largest. Equal elements stay in their order.

    NaN counts as larger than all numbers: it comes last. -0.0 and 0.0 are equal. `descending`: from the largest to the
    smallest, so NaN comes first; with `nan_last`, last.
    """

    __slots__ = ()
    opcode = "tcp.sort"
    class_name = "sort"
    more_results = ("tcp.argsort",)

    def rows(self, build: Build) -> Sequence[Value]:
        return placed_in_order(build, self.operand, self.key, [self.operand])

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.take_along_axis(args[0], self.reference(args[0]), self.dim),)


@register
class Argsort(WholeOrdering):
    """The indices of the elements along `dim`, in the order in which `tcp.sort` has them. Equal elements stay in their
    order."""

    __slots__ = ()
    opcode = "tcp.argsort"
    class_name = "argsort"

    def usual_types(self) -> list[Type] | None:
        return [like(self.operand.type, shape_of(self.operand.type), si64)]

    def check_dtypes(self) -> None:
        self.check_indices(dtype_of(self.result.type))

    def rows(self, build: Build) -> Sequence[Value]:
        (indices,) = placed_in_order(build, self.operand, self.key, [self.counted(build)])
        return [cast_to(build, indices, dtype_of(self.result.type))]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (self.reference(args[0]).astype(dtype_of(self.result.type).numpy),)


@register
class TopK(Ordering):
    """The largest elements along `dim`, from the largest on, and their indices; as many as the results have. Of equal
    elements the first.

    NaN counts as larger than all numbers; with `nan_last`, as smaller. `smallest`: the smallest elements, from the
    smallest on, as `tcp.sort` has them first.
    """

    __slots__ = ()
    opcode = "tcp.topk"
    class_name = "topk"
    smallest = FlagAttribute()
    """Whether the smallest elements are taken."""
    values, indices = Result(), Result()

    @property
    def falls(self) -> bool:
        return not self.smallest

    @property
    def count(self) -> Dim:
        """How many elements are taken."""
        return shape_of(self.values.type)[self.dim]

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(self.rank + 1, (self.dim, self.rank), IteratorKind.WHOLE)

    def result_map(self) -> IndexingMap:
        *names, taken = (it.name for it in self.iterators())
        return dims(*names[: self.dim], taken, *names[self.dim + 1 :])

    def check_dtypes(self) -> None:
        self.check_elements(dtype_of(self.values.type))
        self.check_indices(dtype_of(self.indices.type))

    def verify(self) -> None:
        super().verify()
        fits = self._holds("<=", self.count, self.extent)
        if fits is not True:
            few = (
                "has fewer elements than are taken"
                if fits is False
                else "is not known to have as many elements as are taken"
            )
            needed, there = to_text(self.count), to_text(self.extent)
            fact = f'tcp.assert {{any = [{needed} <= {there}], message = "there are {needed} elements"}}'
            raise self.error(
                f"dim {self.dim} of %{self.operand.name} {few}",
                required=f"at most {there}",
                found=needed,
                fix=fact if fits is None else None,
                unproven=fits is None,
            )

    def rows(self, build: Build) -> Sequence[Value]:
        values, indices = first_in_order(build, self.operand, self.key, self.counted(build), self.count)
        return [values, cast_to(build, indices, dtype_of(self.indices.type))]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        count = evaluation.size(self.count)
        indices = np.take(self.reference(args[0]), range(count), self.dim)
        values = np.take_along_axis(args[0], indices, self.dim)
        return values, indices.astype(dtype_of(self.indices.type).numpy)

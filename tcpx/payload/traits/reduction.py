"""How iterations of a reduction combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from tcpx.payload.contexts import is_less_equal_at
from tcpx.payload.indexing_maps import map_symbols
from tcpx.payload.ir import Operation, Value
from tcpx.payload.traits.trait import DeclaredValue, Trait, declared
from tcpx.payload.types import ScalarType

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Structured

Build = Callable[[Operation], Value]


class Reduction(Trait["Structured"]):
    """Partial results, their neutral elements, and the order in which they may be combined.

    A class of one result declares `neutral` and `combine`; one of several `neutrals` and `joined`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation with a reduction dim, or a sequential one."""
        return cls(op) if any(it.is_reduction for it in op.iterators()) else None

    @declared
    def neutral(self) -> float | int | None:
        """The neutral element of the combiner; None if nothing is reduced."""
        return None

    @declared
    def neutrals(self) -> tuple[float | int, ...] | None:
        """The neutral element, a number for each result; None if nothing is reduced."""
        number = self.neutral()
        return None if number is None else (number,)

    @declared
    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        """Combine two partial results."""
        raise self.op.error("the operation does not reduce", required="an operation with a reduction dim")

    @declared
    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        """Combine two partial results, a value for each result."""
        return (self.combine(build, lhs[0], rhs[0]),)

    @declared
    def joined_later(
        self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]
    ) -> tuple[tuple[Value, ...], tuple[float | int, ...]] | None:
        """`joined`, where the second is of iterations of the one reduction dim that come after those of the first, and
        what to start with; None where that takes as much."""
        del build, lhs, rhs
        return None

    @DeclaredValue
    def is_commutative(self) -> bool:
        """Whether a reduction may combine in another order than that of its iterations."""
        return all(not it.is_sequential for it in self.op.iterators())

    @DeclaredValue
    def accumulators(self) -> tuple[ScalarType, ...]:
        """The dtype in which each result is accumulated, and its `init` taken. Where one is not the result's, the
        operation is computed with results of these dtypes, each of which is then cast."""
        return self.op.acc_types

    def has_accumulator(self, number: int) -> bool:
        """Whether iterations go on from what others have made of the same elements of a result; not where each has
        elements of its own, along a sequential dim."""
        sequential = {it.name for it in self.op.iterators() if it.is_sequential}
        return sequential.isdisjoint(name for e in self.op.result_maps()[number] for name in map_symbols(e))

    def reduced_before(self, dim: str) -> str | None:
        """A reduction dim with several iterations outside of another one, where the order of the two matters."""
        if self.is_commutative:
            return None
        op = self.op
        outer = op.iterators()[: [it.name for it in op.iterators()].index(dim)]
        several = (it.name for it in outer if it.is_reduction and not is_less_equal_at(op, op.size_of(it.name), 1))
        return next(several, None)

"""Operations that run functions, and what a function demands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.traits.trait import DeclaredValue, Trait

if TYPE_CHECKING:
    from tcpx.payload.ir import FuncOp, Operation


class Calling(Trait["Operation"]):
    """An operation that runs a function of the module, or of the target."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Operation) -> Self | None:
        """The trait of an operation that runs a function of the module."""
        return cls(op) if cls(op).callee is not None else None

    @DeclaredValue
    def callee(self) -> FuncOp | None:
        """The function that the operation runs; None if it is no call, or one of a row of the target."""
        return None

    @DeclaredValue
    def binding(self) -> Mapping[Symbol, Dim]:
        """What each symbol of the callee is in this call, in the order of the callee's symbols."""
        return {}

    @DeclaredValue
    def work(self) -> Dim:
        """Scalar operations of one run, where they are not one for each lane of its operands."""
        return 0


class Demand(Trait["Operation"]):
    """An operation at the begin of a function that says what holds wherever it runs."""

    __slots__ = ()

    @DeclaredValue
    def demanded(self) -> Predicate | None:
        """What holds; None of any other operation."""
        return None

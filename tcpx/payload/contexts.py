"""What is known of sizes where an operation stands: the conditions of the branches around it, and what its function
demands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.sizes.bounds import is_equal, is_less_equal
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.sizes.expressions import Dim, Var
from tcpx.payload.sizes.predicates import Predicate

REMEMBERED: Final = 2**10
"""Branches within branches whose contexts are remembered."""


def context_at(op: Operation) -> Context:
    """What holds where an operation stands."""
    return context_of(op.parent) if op.parent is not None else EMPTY


def context_of(block: Block) -> Context:
    """What holds in a block."""
    branches = tuple(_branches(block))
    return _context(branches) if branches else EMPTY


def are_equal_at(op: Operation, lhs: Dim, rhs: Dim) -> bool:
    """Whether two sizes are known to be equal where an operation stands."""
    return is_equal(lhs, rhs) is True or context_at(op).is_equal(lhs, rhs) is True


def is_less_equal_at(op: Operation, lhs: Dim, rhs: Dim) -> bool:
    """Whether a size is proved to be at most another one where an operation stands."""
    return is_less_equal(lhs, rhs) is True or context_at(op).is_less_equal(lhs, rhs) is True


def context_if(op: Operation, also: Sequence[Predicate]) -> Context:
    """What holds where an operation stands, and where these do."""
    return Context([*_branch_conditions(op), *also])


def context_in_iterations(op: Operation) -> Context:
    """What holds where an operation stands, with what it says that all loops around it have an iteration."""
    running = [Predicate.of("<", var.lower, var.upper) for var in variables_around(op)]
    return Context([*_branch_conditions(op), *running])


def is_unreachable(op: Operation) -> bool:
    """Whether a loop around an operation has no iteration where the branches around the operation hold."""
    here = context_at(op)
    return any(here.decide(Predicate.of("<", var.lower, var.upper)) is False for var in variables_around(op))


def variables_around(op: Operation) -> list[Var]:
    """The variables of the loops around an operation, innermost first."""
    return [var for outer in op.ancestors() if isinstance(var := outer.attributes.get("var"), Var)]


def ways_around(op: Operation) -> list[Predicate]:
    """The conditions any one of which keeps the branches around an operation from being taken."""
    found: list[Predicate] = []
    inner = op
    for outer in op.ancestors():
        held = outer.attributes.get("predicate")
        if isinstance(held, Predicate) and inner.parent is outer.regions[0]:
            found += [Predicate((comparison.negate(),)) for comparison in held.comparisons]
        elif isinstance(held, Predicate):
            found.append(held)
        inner = outer
    return found


def context_in(conditional: Operation, region: int) -> Context:
    """What holds in one region of a conditional."""
    return context_of(conditional.regions[region])


def _branch_conditions(op: Operation) -> Iterator[Predicate]:
    branches = _branches(op.parent) if op.parent is not None else ()
    return (held for branch in branches if (held := branch.condition) is not None)


class _Branch:
    """A region of a conditional, by what its predicate says: branches of copies have one context."""

    __slots__ = ("predicate", "region")

    def __init__(self, predicate: Predicate, region: int) -> None:
        self.predicate = predicate
        self.region = region

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Branch) and self.region == other.region and self.predicate.key == other.predicate.key

    def __hash__(self) -> int:
        return hash(self.predicate.key)

    @property
    def condition(self) -> Predicate | None:
        """What holds in it; None if that is not known as a conjunction."""
        return self.predicate if self.region == 0 else self.predicate.negate()


def _branches(block: Block) -> Iterator[_Branch]:
    """The branches around a place in a block, innermost first, and what its function demands."""
    inner: Block | None = block
    while inner is not None and (outer := inner.parent) is not None:
        held = outer.attributes.get("predicate")
        if isinstance(held, Predicate):
            yield from (_Branch(held, k) for k, region in enumerate(outer.regions) if region is inner)
        elif isinstance(outer, FuncOp):
            yield from (_Branch(demand, 0) for demand in outer.demands)
        inner = outer.parent


@lru_cache(maxsize=REMEMBERED)
def _context(branches: tuple[_Branch, ...]) -> Context:
    found = [held for branch in branches if (held := branch.condition) is not None]
    return Context(found) if found else EMPTY

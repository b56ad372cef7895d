"""Walks over size expressions: operands, the symbols and loop variables mentioned, evaluation."""

from collections.abc import Mapping
from typing import Final, TypeVar

from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.sizes.expressions import (
    CeilDiv,
    Dim,
    Division,
    FloorDiv,
    Max,
    Min,
    Operand,
    Size,
    Symbol,
    Var,
    as_dim,
    atom_order,
    to_text,
)

Leaf = TypeVar("Leaf", Symbol, Var)
_LEAVES: Final = (Symbol, Var)


def leaves(d: Operand) -> Mapping[str, Symbol | Var]:
    """Symbols and loop variables of an expression by text, without those only their facts mention."""
    d = as_dim(d)
    return {} if isinstance(d, int) else d.leaves


def symbols(d: Operand) -> tuple[Symbol, ...]:
    """The symbols an expression mentions, by name; those only facts of its loop variables mention are left out."""
    return _sorted([a for a in leaves(d).values() if isinstance(a, Symbol)]) if not isinstance(d, int) else ()


def variables(d: Operand) -> tuple[Var, ...]:
    """The loop variables an expression mentions, by name; those only facts mention are left out."""
    return _sorted([a for a in leaves(d).values() if isinstance(a, Var)]) if not isinstance(d, int) else ()


def _sorted(found: list[Leaf]) -> tuple[Leaf, ...]:
    return tuple(sorted(found, key=atom_order) if len(found) > 1 else found)


def evaluate(d: Operand, sizes: Mapping[str, int]) -> int:
    """The value of an expression, given the values of its symbols and loop variables by name.

    A divisor below 1 counts as 1: such a size belongs to a loop that does not run. Raises ArgumentError when a name
    has no value.
    """
    if isinstance(d, int):
        return d
    if isinstance(d, Size):  # loops, since evaluators ask for millions of sizes
        total = d.constant
        for factors, coefficient in d.terms:
            product = coefficient
            for factor in factors:
                product *= evaluate(factor, sizes)
            total += product
        return total
    if isinstance(d, _LEAVES):
        value = sizes.get(d.name)
        if value is None:
            raise ArgumentError(
                Diagnostic(
                    f"size {d.text} has no value",
                    required=f"a value for {d.text}",
                    found=f"values for {', '.join(sorted(sizes)) or 'nothing'}",
                )
            )
        return value
    match d:
        case Min():
            return min(evaluate(arg, sizes) for arg in d.args)
        case Max():
            return max(evaluate(arg, sizes) for arg in d.args)
        case Division():
            lhs, rhs = evaluate(d.lhs, sizes), max(1, evaluate(d.rhs, sizes))
            return lhs // rhs if isinstance(d, FloorDiv) else -(-lhs // rhs) if isinstance(d, CeilDiv) else lhs % rhs
        case _:
            raise TypeError(type(d).__name__)


def as_symbol(dim: Dim) -> Symbol | None:
    """The symbol a dim is, if it is just that."""
    if isinstance(dim, int) or dim.constant != 0:
        return None
    match dim.terms:
        case (((Symbol() as symbol,), 1),):
            return symbol
        case _:
            return None


def told_symbol(dim: Dim) -> tuple[Symbol, int, int] | None:
    """The symbol that a dim tells where it is known, with the factor and the number of `2*N + 1`; None of a dim of
    several symbols, and of other expressions."""
    match dim:
        case Size(terms=(((Symbol() as symbol,), factor),), constant=offset) if factor > 0:
            return symbol, factor, offset
        case _:
            return None


def at_least_one(dim: Dim) -> str | None:
    """What to declare so that a size is not 0: the range of its symbol, or a condition on its symbols. None if it
    depends on loops, or is a number."""
    symbol = as_symbol(dim)
    if symbol is not None:
        return f"symbols [{symbol.name}: 1..]"
    if isinstance(dim, int) or variables(dim):
        return None
    return f"`tcp.assert {{any = [1 <= {to_text(dim)}]}}` at the start of the function"

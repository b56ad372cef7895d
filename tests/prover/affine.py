"""Random affine questions, as the compiler asks them, and what isl says of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Mod,
    Symbol,
    Var,
    atoms,
)
from tcpx.payload.sizes.predicates import Comparison, Relation
from tcpx.payload.sizes.traversal import evaluate
from tests.prover.asked import Question

NAMES = "MNKH"
STEPS = (1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 3, 6, 12)
RELATIONS: Sequence[Relation] = ("<=", "<=", "<", ">=", ">", "==", "==", "!=")
BLOCKS = (2, 3, 4, 4, 6, 8, 8, 16, 16, 32, 64)


def drawn(draw: random.Random) -> Question:
    """A comparison of sums of one to four symbols and loop variables, or whether such a sum is a multiple."""
    leaves, values = drawn_leaves(draw, draw.choice((1, 1, 2, 2, 2, 3, 3, 4)))
    conditions = [_condition(draw, leaves, values) for _ in range(draw.choice((0, 0, 1, 1, 1, 2, 2, 3)))]
    return Question(_asked(draw, leaves, conditions), conditions)


def drawn_leaves(draw: random.Random, count: int) -> tuple[Sequence[Symbol | Var], Mapping[str, int]]:
    """Symbols, with a loop variable now and then, and a value of each."""
    symbols = [_symbol(draw, name) for name in NAMES[:count]]
    variables = [_variable(draw, symbols)] if draw.random() < 0.3 else []
    values = {symbol.name: _value(draw, symbol) for symbol in symbols}
    values |= {variable.name: _iteration(draw, variable, values) for variable in variables}
    return [*symbols, *variables], values


def _symbol(draw: random.Random, name: str) -> Symbol:
    step = draw.choice(STEPS)
    lower = draw.choice((0, 0, 1, 1, 2, draw.randrange(20))) * step
    upper = None if draw.random() < 0.6 else lower + draw.choice((1, 2, 3, draw.randrange(64))) * step
    return Symbol(name, lower, upper, step)


def _variable(draw: random.Random, symbols: Sequence[Symbol]) -> Var:
    upper = draw.choice(symbols).size() if draw.random() < 0.8 else draw.choice(BLOCKS)
    return Var("i", draw.choice((0, 0, 0, 1)), upper, draw.choice((1, *BLOCKS)))


def _sum(draw: random.Random, leaves: Sequence[Atom], most: int = 3) -> Dim:
    terms = draw.sample(leaves, min(len(leaves), draw.randint(1, most)))
    coefficients = [draw.choice((1, 1, 1, 2, 3, 4, 8, draw.randint(1, 12))) * draw.choice((1, 1, -1)) for _ in terms]
    return sum((c * atom.size() for c, atom in zip(coefficients, terms, strict=True)), start=_constant(draw))


def _constant(draw: random.Random) -> int:
    return draw.choice((0, 0, 1, -1, draw.randint(-16, 16), draw.choice(BLOCKS)))


def _value(draw: random.Random, symbol: Symbol) -> int:
    most = 40 if symbol.upper is None else (symbol.upper - symbol.lower) // symbol.multiple_of
    return symbol.lower + symbol.multiple_of * draw.randint(0, most)


def _iteration(draw: random.Random, var: Var, values: Mapping[str, int]) -> int:
    lower, upper, step = (evaluate(size, values) for size in (var.lower, var.upper, var.step))
    return lower + step * draw.randint(0, max(0, upper - lower - 1) // step)


def _condition(draw: random.Random, leaves: Sequence[Atom], values: Mapping[str, int]) -> Comparison:
    """A condition that holds for these values, often only just."""
    kind = draw.random()
    if kind < 0.2:
        size, block = _sum(draw, leaves, 2), draw.choice(BLOCKS)
        return Comparison("==", Mod(size - evaluate(size, values) % block, block).size(), 0)
    if kind < 0.5:
        leaf = draw.choice(leaves).size()
        return condition_at(draw, leaf, draw.choice((_constant(draw), draw.choice(leaves).size())), values)
    return condition_at(draw, _sum(draw, leaves, 2), _sum(draw, leaves, 1), values)


def condition_at(draw: random.Random, lhs: Dim, rhs: Dim, values: Mapping[str, int]) -> Comparison:
    """A relation between two sizes, moved so that it holds for these values."""
    op = draw.choice(RELATIONS)
    gap, slack = evaluate(rhs - lhs, values), draw.choice((0, 0, 1, draw.randrange(8)))
    match op:
        case "==":
            return Comparison(op, lhs, rhs - gap)
        case "!=":
            return Comparison(op, lhs, rhs if gap else rhs + 1)
        case "<=" | "<":
            return Comparison(op, lhs, rhs + max(0, slack + (op == "<") - gap))
        case _:
            return Comparison(op, lhs, rhs - max(0, slack + (op == ">") + gap))


def _asked(draw: random.Random, leaves: Sequence[Atom], conditions: Sequence[Comparison]) -> Comparison:
    kind = draw.random()
    if kind < 0.2:
        multiple = draw.choice(BLOCKS) * _sum(draw, leaves, 2) if draw.random() < 0.3 else 0
        return Comparison("==", Mod(_sum(draw, leaves) + multiple, draw.choice(BLOCKS)).size(), 0)
    op: Relation = draw.choice(("<=", "<=", "<=", "<", "=="))
    if kind < 0.5:
        return Comparison(op, _sum(draw, leaves), _sum(draw, leaves, 2))
    # What follows from the conditions and the ranges, or nearly.
    gap: Dim = draw.choice((0, 0, 1, -1, draw.randint(-8, 8)))
    for condition in conditions:
        gap = gap + draw.choice((0, 1, 1, 2, -1)) * (condition.rhs - condition.lhs)
    for leaf in leaves:
        gap = gap + draw.choice((0, 0, 0, 1, -1)) * leaf.size()
    lhs = _sum(draw, leaves, 2)
    return Comparison(op, lhs, lhs + gap)


def decided_by_isl(question: Question) -> bool | None:
    """What isl decides; raises ImpossibleError where no sizes satisfy what is known."""
    import islpy

    known = islpy.Set(_set(question, []))
    if known.is_empty():
        raise ImpossibleError
    asked = question.asked
    assert isinstance(asked, Comparison)
    if islpy.Set(_set(question, [asked.negate()])).is_empty():
        return True
    return False if islpy.Set(_set(question, [asked])).is_empty() else None


class ImpossibleError(Exception):
    """What a question knows holds for no sizes."""


def _set(question: Question, more: Sequence[Comparison]) -> str:
    leaves: dict[str, Symbol | Var] = {}
    pending = [*question.sizes]
    while pending:
        size = pending.pop()
        for atom in atoms(size):
            if isinstance(atom, Symbol | Var):
                leaves.setdefault(atom.name, atom)
                pending += [atom.lower, atom.upper] if isinstance(atom, Var) else []
            else:
                pending += atom.operands
    known = [text for leaf in leaves.values() for text in _ranges(leaf)]
    known += [_comparison(comparison) for comparison in (*question.conditions, *more)]
    return f"{{ [{', '.join(leaves)}] : {' and '.join(known)} }}"


def _ranges(leaf: Symbol | Var) -> list[str]:
    if isinstance(leaf, Symbol):
        upper = [] if leaf.upper is None else [f"{leaf.name} <= {leaf.upper}"]
        return [f"{leaf.lower} <= {leaf.name}", f"({leaf.name}) mod {leaf.multiple_of} = 0", *upper]
    lower, upper = _text(leaf.lower), _text(leaf.upper)
    return [f"{lower} <= {leaf.name} < {upper}", f"({leaf.name} - {lower}) mod {leaf.step} = 0"]


def _comparison(comparison: Comparison) -> str:
    op = "=" if comparison.op == "==" else comparison.op
    return f"{_text(comparison.lhs)} {op} {_text(comparison.rhs)}"


def _text(size: Dim) -> str:
    if isinstance(size, int):
        return f"({size})"
    terms = [f"{c}*{'*'.join(map(_atom, monomial))}" for monomial, c in size.terms]
    return f"({' + '.join([*terms, str(size.constant)])})"


def _atom(atom: Atom) -> str:
    match atom:
        case Symbol(name=name) | Var(name=name):
            return name
        case Mod(lhs=lhs, rhs=rhs):
            return f"(({_text(lhs)}) mod {rhs})"
        case FloorDiv(lhs=lhs, rhs=rhs):
            return f"floor(({_text(lhs)})/{rhs})"
        case CeilDiv(lhs=lhs, rhs=rhs):
            return f"ceil(({_text(lhs)})/{rhs})"
        case _:
            raise TypeError(type(atom).__name__)

"""Answers about sizes against their values where what a question knows holds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tcpx.payload.sizes.equations import value_of_symbol
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    Division,
    FloorDiv,
    Max,
    Min,
    Symbol,
    Var,
    atoms,
)
from tcpx.payload.sizes.predicates import Comparison
from tests.prover.asked import Answer, Question

Values = np.ndarray[Any, np.dtype[Any]]
Places = Mapping[str, Values]
"""Values of symbols and loop variables by name, as many of each."""

MOST_PLACES: Final = 600
MULTIPLES: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 17, 24, 31, 32, 48, 64, 100)
LARGE: Final = 2**24
"""Coefficients from which values are Python's integers."""


def contradiction(question: Question, answer: Answer, places: Places) -> Mapping[str, int] | None:
    """The values, if any, at which an answer is wrong."""
    if answer is None:
        return None
    evaluator = Evaluator(places)
    match question.asked:
        case Comparison() as comparison:
            wrong = evaluator.holds(comparison) != answer
        case ("lower", size):
            wrong = evaluator.of(size) < answer
        case ("upper", size):
            wrong = evaluator.of(size) > answer
        case (_, size):
            wrong = evaluator.of(size) % answer != 0 if answer else evaluator.of(size) != 0
    if not np.any(wrong):
        return None
    where = int(np.argmax(wrong))
    return {name: int(values[where]) for name, values in places.items()}


def places_of(question: Question, most: int = MOST_PLACES) -> Places:
    """Values for which a question is asked: within ranges, multiples, where all conditions hold, loops that run and
    divisors above 0. All small ones where there are few."""
    found = _Atoms(question.sizes)
    draw = random.Random(len(found.symbols) * 31 + len(found.divisors))
    dtype = object if found.largest >= LARGE else np.int64
    symbols = [*found.symbols.values()]
    places = _grid({symbol.name: _candidates(symbol) for symbol in symbols}, most, draw, dtype)
    places = _also_where_equal(places, symbols, question.conditions)
    evaluator = Evaluator(places)
    wanted = np.ones(_count(places), bool)
    for symbol in symbols:
        values = places[symbol.name]
        wanted &= (values >= symbol.lower) & (values % symbol.multiple_of == 0)
        if symbol.upper is not None:
            wanted &= values <= symbol.upper
    free = [c for c in question.conditions if not _Atoms((c.lhs, c.rhs)).variables]
    for condition in free:
        wanted &= evaluator.holds(condition)
    places = _at(places, wanted)
    for variable in found.in_order():
        places = _with_iterations(places, variable, draw, most)
    evaluator = Evaluator(places)
    wanted = np.ones(_count(places), bool)
    for condition in question.conditions:
        wanted &= evaluator.holds(condition)
    for divisor in found.divisors:
        wanted &= evaluator.of(divisor) >= 1
    return _at(places, wanted)


class Evaluator:
    """Values of sizes at many places at once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._count = _count(places)
        self._known: dict[str, Values] = {}

    def of(self, size: Dim) -> Values:
        """The values; a divisor below 1 counts as 1."""
        if isinstance(size, int):
            return np.full(self._count, size, object if abs(size) >= LARGE else np.int64)
        total: Any = size.constant
        for monomial, coefficient in size.terms:
            product: Any = coefficient
            for atom in monomial:
                product = product * self._atom(atom)
            total = total + product
        return total

    def holds(self, comparison: Comparison) -> Values:
        """Where a comparison holds."""
        lhs, rhs = self.of(comparison.lhs), self.of(comparison.rhs)
        match comparison.op:
            case "==":
                return np.asarray(lhs == rhs, bool)
            case "!=":
                return np.asarray(lhs != rhs, bool)
            case "<":
                return np.asarray(lhs < rhs, bool)
            case "<=":
                return np.asarray(lhs <= rhs, bool)
            case ">":
                return np.asarray(lhs > rhs, bool)
            case ">=":
                return np.asarray(lhs >= rhs, bool)

    def _atom(self, atom: Atom) -> Values:
        if isinstance(atom, Symbol | Var):
            return self._places[atom.name]
        known = self._known.get(atom.text)
        if known is None:
            known = self._known[atom.text] = self._computed(atom)
        return known

    def _computed(self, atom: Atom) -> Values:
        operands = [self.of(operand) for operand in atom.operands]
        match atom:
            case Min():
                return np.minimum.reduce(operands)
            case Max():
                return np.maximum.reduce(operands)
            case Division():
                lhs, rhs = operands[0], np.maximum(operands[1], 1)
                if isinstance(atom, FloorDiv):
                    return lhs // rhs
                return -(-lhs // rhs) if isinstance(atom, CeilDiv) else lhs % rhs
            case _:
                raise TypeError(type(atom).__name__)


class _Atoms:
    """The symbols, loop variables and divisors in sizes, and in the ranges of these; the first of each name counts."""

    def __init__(self, sizes: Iterable[Dim]) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.variables: dict[str, Var] = {}
        self.divisors: list[Dim] = []
        self.largest = 0
        pending, seen = [*sizes], set[str]()
        while pending:
            size = pending.pop(0)
            self._look(size)
            for atom in atoms(size):
                if atom.text in seen:
                    continue
                seen.add(atom.text)
                match atom:
                    case Symbol():
                        self.symbols[atom.name] = atom
                        self.largest = max(self.largest, abs(atom.lower), atom.multiple_of)
                    case Var():
                        self.variables[atom.name] = atom
                        pending += [atom.lower, atom.upper, atom.step]
                        self.divisors.append(atom.step)
                    case Division():
                        pending += atom.operands
                        self.divisors.append(atom.rhs)
                    case _:
                        pending += atom.operands

    def _look(self, size: Dim) -> None:
        numbers = [size] if isinstance(size, int) else [size.constant, *(c for _, c in size.terms)]
        self.largest = max(self.largest, *map(abs, numbers))

    def in_order(self) -> list[Var]:
        """The variables, those of outer loops first."""
        return sorted(self.variables.values(), key=lambda v: len([t for t in v.mentions if t[0] == "%"]))


def _candidates(symbol: Symbol) -> list[int]:
    step = symbol.multiple_of
    first = -(-symbol.lower // step) * step
    values = dict.fromkeys(first + step * k for k in MULTIPLES)
    values |= dict.fromkeys(step * k for k in MULTIPLES)
    if symbol.upper is not None:
        last = symbol.upper // step * step
        values |= dict.fromkeys((last, last - step))
        return [v for v in values if symbol.lower <= v <= symbol.upper]
    return [v for v in values if v >= symbol.lower]


def _grid(candidates: Mapping[str, Sequence[int]], most: int, draw: random.Random, dtype: type) -> Places:
    """All of the smallest values of each symbol, and drawn ones of all."""
    if not candidates:
        return {"": np.zeros(1, dtype)}
    each = int((most // 2) ** (1 / len(candidates)) + 1e-9)
    smallest = [np.array(values[:each], dtype) for values in candidates.values()]
    grid = [axis.ravel() for axis in np.meshgrid(*smallest, indexing="ij")] if each > 1 else [a[:1] for a in smallest]
    drawn = [np.array(draw.choices(values, k=most) if values else [], dtype) for values in candidates.values()]
    if any(len(values) == 0 for values in drawn):
        return {name: np.zeros(0, dtype) for name in candidates}
    return {name: np.concatenate(parts) for name, *parts in zip(candidates, grid, drawn, strict=True)}


def _also_where_equal(places: Places, symbols: Sequence[Symbol], conditions: Sequence[Comparison]) -> Places:
    """The places, with others at which a symbol is what an equation says it is."""
    equations = [c.rhs - c.lhs for c in conditions if c.op == "=="]
    moved = places
    for gap in equations:
        if isinstance(gap, int) or _Atoms((gap,)).variables:
            continue
        for symbol in reversed(symbols):
            value = value_of_symbol(gap, symbol)
            if value is not None:
                moved = {**moved, symbol.name: Evaluator(moved).of(value)}
                break
    if moved is places:
        return places
    return {name: np.concatenate((places[name], moved[name])) for name in places}


def _with_iterations(places: Places, variable: Var, draw: random.Random, most: int) -> Places:
    """The places where a loop runs, each with its first, its last and another iteration."""
    evaluator = Evaluator(places)
    lower, upper, step = map(evaluator.of, (variable.lower, variable.upper, variable.step))
    step = np.maximum(step, 1)
    last = (upper - lower - 1) // step
    runs = np.asarray(upper > lower, bool)
    places, lower, step, last = _at(places, runs), lower[runs], step[runs], last[runs]
    fraction = np.array([draw.random() for _ in range(len(last))])
    between = np.array((fraction * (last + 1).astype(float)).astype(np.int64), dtype=lower.dtype)
    trips = np.concatenate((last * 0, last, between))
    found = {name: np.tile(values, 3) for name, values in places.items()}
    found[variable.name] = np.tile(lower, 3) + np.tile(step, 3) * trips
    count = len(trips)
    if count <= 2 * most:
        return found
    chosen = np.array(draw.sample(range(count), 2 * most))
    return {name: values[chosen] for name, values in found.items()}


def _count(places: Places) -> int:
    return len(next(iter(places.values())))


def _at(places: Places, wanted: Values) -> Places:
    return {name: values[wanted] for name, values in places.items()}

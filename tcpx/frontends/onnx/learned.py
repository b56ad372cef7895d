"""What the nodes of a model say of its sizes: bounds, and equations, which are solved as far as they can be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from tcpx.frontends.onnx.errors import Equation, OnnxError
from tcpx.payload.diagnostics import Direction, Location
from tcpx.payload.sizes import Dim, Symbol, as_symbol, is_less_equal, symbols, to_text
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.equations import reduced, sides, value_of_quotient, value_of_symbol
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.substitution import Rebuild, substitute

Bound = tuple[Dim, int]
"""A size and the greatest number that it may be."""
Condition = tuple[Predicate, str, Location | None]
"""What has to be asserted, with a message, and the node that needs it."""


class Learned:
    """Bounds and equations that an import of the model has found before. A symbol that an equation solves is replaced
    by that size everywhere, unless it is one of `kept`. The other equations give symbols ranges and divisors. What is
    left is asserted."""

    def __init__(self, bounds: Sequence[Bound], equations: Sequence[Equation], kept: Collection[str]) -> None:
        plain = {s.name: Symbol(s.name, s.lower) for d in _sizes(bounds, equations) for s in symbols(d)}
        self.values: dict[str, Dim] = {}
        """What symbols are, by name, in terms of the others."""
        self._left: list[tuple[Equation, Predicate]] = []
        self._bounds = [(_over(size, plain), most) for size, most in bounds]
        for equation in equations:
            gap = reduced(self._of_others(_over(equation.a - equation.b, plain)))
            found = None if isinstance(gap, int) else _solved(gap, equation, kept)
            if found is not None:
                name, value = found
                self.values = {n: substitute(d, {plain[name]: value}) for n, d in self.values.items()} | {name: value}
            else:
                self._left.append((equation, Predicate.of("==", *sides(gap))))
        others = {Symbol(name): value for name, value in self.values.items()}
        self._left = [(equation, held.substitute(others)) for equation, held in self._left]
        self._bounds = [(self._of_others(size), most) for size, most in self._bounds]
        self._check()
        held = Predicate(tuple(c for predicate in self._predicates() for c in predicate.comparisons))
        self.symbols = {old.name: new for old, new in held.refine(plain.values()).items()}
        """The symbols of which something is known, by name."""

    def _predicates(self) -> list[Predicate]:
        return [*(Predicate.of("<=", size, most) for size, most in self._bounds), *(held for _, held in self._left)]

    def _of_others(self, size: Dim) -> Dim:
        return substitute(size, {Symbol(name): value for name, value in self.values.items()})

    def _check(self) -> None:
        """Raise OnnxError for the first equation that no sizes satisfy together with those before."""
        before = [Predicate.of("<=", size, most) for size, most in self._bounds]
        for equation, held in self._left:
            if not Context([*before, held]).is_possible:
                raise unsatisfiable(equation)
            before.append(held)

    def declared(self, symbols_: Iterable[Symbol]) -> Conditions:
        """What has to be asserted of symbols as a function declares them."""
        known = {symbol.name: symbol for symbol in symbols_}
        bounds = [(Predicate.of("<=", _over(size, known), most), size, most) for size, most in self._bounds]
        several = [bound for bound in bounds if as_symbol(bound[1]) is None]
        held = [(p, f"the model has a table of {most} for {to_text(size)}", None) for p, size, most in several]
        equal = [(predicate.substitute(_declared(known)), e.message, e.place) for e, predicate in self._left]
        return Conditions([p for p, _, _ in bounds], held, [entry for entry in equal if entry[0].decide() is not True])


class Conditions:
    """What a function asserts of its sizes: bounds, and equations that no symbol solves."""

    def __init__(self, ranges: Sequence[Predicate], bounds: Sequence[Condition], equal: Sequence[Condition]) -> None:
        self.asserted = [*bounds, *equal]
        self.facts = Context([*ranges, *(predicate for predicate, _, _ in equal)])
        self._equal = [predicate.comparisons[0] for predicate, _, _ in equal]

    @cached_property
    def quotients(self) -> Mapping[str, Dim]:
        """What quotients equal, by their texts: sizes are written without them."""
        found: dict[str, Dim] = {}
        for comparison in self._equal:
            gap = Rebuild(found).of(comparison.rhs) - Rebuild(found).of(comparison.lhs)
            one = value_of_quotient(gap)
            if one is not None:
                text, value = one
                found = {name: Rebuild({text: value}).of(size) for name, size in found.items()} | {text: value}
        return found


def unsatisfiable(equation: Equation) -> OnnxError:
    """The error for two sizes that are equal for no sizes of a call."""
    message = f"{equation.node}: no sizes of a call satisfy this with what other nodes need"
    fix = Direction("correct the shapes of the model, or the steps of its windows")
    return OnnxError.at(equation.place, message, to_text(equation.a), to_text(equation.b), fix)


def _sizes(bounds: Sequence[Bound], equations: Sequence[Equation]) -> Iterable[Dim]:
    return (*(size for size, _ in bounds), *(size for e in equations for size in (e.a, e.b)))


def _declared(symbols_: Mapping[str, Symbol]) -> Mapping[Symbol, Dim]:
    """A substitution of symbols by these, of the same names."""
    return {symbol: symbol.size() for symbol in symbols_.values()}


def _over(size: Dim, symbols_: Mapping[str, Symbol]) -> Dim:
    """A size of symbols as these are declared, simplified by that."""
    return substitute(size, _declared(symbols_))


def _solved(gap: Dim, equation: Equation, kept: Collection[str]) -> tuple[str, Dim] | None:
    """A symbol that an equation gives, and what it is: one that is a side of its own first, the second before the
    first. Not one that would then have to be checked to be in its range."""
    own = [symbol for side in (equation.b, equation.a) if (symbol := as_symbol(side)) is not None]
    for symbol in dict.fromkeys([*own, *symbols(gap)]):
        value = None if symbol.name in kept else value_of_symbol(gap, symbol)
        if value is not None and is_less_equal(symbol.lower, value) is True:
            return symbol.name, value
    return None

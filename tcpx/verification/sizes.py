"""Sizes at which transforms go wrong: none, one, odd ones, and those at and just above one tile and two."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tcpx.payload.ir import Block, FuncOp, Module
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.index import Bind
from tcpx.payload.runs import runs_of
from tcpx.payload.sizes import Symbol, evaluate, substitute, symbols
from tcpx.payload.traits.call import Calling

ALWAYS: Final = (0, 1, 3, 7, 13)
COMMON: Final = (5, 7, 3, 1)
"""What the other symbols are while one varies: the first of these that is in range."""


@dataclass(slots=True)
class TileSizes:
    """The steps of loops over the sizes of each symbol, as they are seen over the run."""

    seen: dict[Symbol, set[int]] = field(default_factory=dict[Symbol, set[int]])

    def look(self, module: Module) -> None:
        """Note the loops there are now, those of functions by the sizes with which they are called."""
        for func, sizes in runs_of(module.main):
            for op in func.walk():
                if isinstance(op, Loop) and isinstance(op.var.step, int):
                    for symbol in symbols(substitute(op.var.upper, sizes)):
                        self.seen.setdefault(symbol, set()).add(op.var.step)


def adversarial_sizes(func: FuncOp, tiles: Mapping[Symbol, Iterable[int]]) -> tuple[dict[str, int], ...]:
    """Values for the symbols, each varied in turn, small ones first. One empty mapping for a function without any."""
    common = {symbol.name: _common(symbol) for symbol in func.symbols}
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    for symbol in func.symbols:
        near = (size for t in tiles.get(symbol, ()) for size in (t, t + 1, 2 * t + 1))
        for size in {*ALWAYS, *near}:
            if _fits(symbol, size):
                values = common | {symbol.name: size}
                found[tuple(values.items())] = values
    return tuple(sorted(found.values(), key=lambda values: tuple(sorted(values.values())))) or (common,)


def _fits(symbol: Symbol, size: int) -> bool:
    inside = symbol.lower <= size and (symbol.upper is None or size <= symbol.upper)
    return inside and size % symbol.multiple_of == 0


def _common(symbol: Symbol) -> int:
    lowest = -(-symbol.lower // symbol.multiple_of) * symbol.multiple_of
    return next((size for size in COMMON if _fits(symbol, size)), max(lowest, symbol.multiple_of))


def work_of(func: FuncOp, sizes: Mapping[str, int]) -> int:
    """About how many operations the reference evaluator runs: loops by their trips, a loop's own sizes at its start;
    of the calls of a function with the same sizes, one. A size that is computed is the least it may be."""
    return _work(func.body, dict(sizes), set())


Calls = set[tuple[FuncOp, tuple[int, ...]]]


def _work(block: Block, known: dict[str, int], calls: Calls) -> int:
    total = 0
    for op in block.ops:
        if isinstance(op, Bind):
            known = known | {op.var.name: evaluate(op.var.lower, known)}
            total += 1
        elif isinstance(op, Loop):
            var = op.var
            lower, upper, step = (evaluate(dim, known) for dim in (var.lower, var.upper, var.step))
            trips = max(0, -(-(upper - lower) // max(step, 1)))
            trips = trips if op.is_counted else min(trips, 1)
            total += trips * _work(op.body, known | {var.name: lower}, calls) if trips else 1
        elif (called := Calling(op).callee) is not None:
            bound = {symbol.name: evaluate(size, known) for symbol, size in Calling(op).binding.items()}
            call = called, tuple(bound.values())
            total += 1 + (0 if call in calls else _work(called.body, bound, calls))
            calls.add(call)
        else:
            total += 1 + sum(_work(inner, known, calls) for inner in op.regions)
    return total

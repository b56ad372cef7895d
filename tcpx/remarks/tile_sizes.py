"""The sizes of the tiles of a schedule that lose time, and sizes that lose less."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from tcpx.costs.footprint import Trip
from tcpx.costs.visits import Run
from tcpx.payload.ops.gml_st import Loop, OnSubset
from tcpx.payload.ops.vector import Write
from tcpx.payload.sizes import evaluate
from tcpx.payload.sizes.traversal import variables
from tcpx.payload.types import VectorType
from tcpx.transform.language import syntax as ast

INDEPENDENT: Final = 8
"""Results that an instruction is to have between two that follow each other: its latency, in instructions."""
Sizes = Mapping[Loop, int]


def entry_of(loop: Loop) -> int:
    """The number of the step that made a loop."""
    return loop.steps[0] - 1 if loop.steps else -1


def fitting(runs: Sequence[Run], entries: Container[int]) -> Iterator[Sizes]:
    """Sizes of the loops of steps, by step, whose tiles are longer than what they cover: as many tiles of equal sizes,
    in whole vectors, then of the least sizes."""
    wastes: dict[Loop, tuple[float, Run]] = {}
    for run in runs:
        for trip in run.trips:
            loop = trip.loop
            if isinstance(loop, Loop) and entry_of(loop) in entries and waste(trip, run) > wastes.get(loop, (1.0,))[0]:
                wastes[loop] = waste(trip, run), run
    choices = {loop: _balanced(loop, run, runs) for loop, (_, run) in wastes.items()}
    for entry in dict.fromkeys(map(entry_of, choices)):
        own = {loop: sizes for loop, sizes in choices.items() if entry_of(loop) == entry}
        for each in zip_longest(*own.values()):
            sizes = [known[-1] if size is None else size for known, size in zip(own.values(), each, strict=True)]
            yield dict(zip(own, sizes, strict=True))


def waste(trip: Trip, run: Run) -> float:
    """How many times as long as what they cover the tiles of a loop are."""
    loop = trip.loop
    most = _extent(loop, run) if isinstance(loop, Loop) else 0
    return trip.count * _step(loop, run) / most if isinstance(loop, Loop) and most > 0 else 1.0


def _balanced(loop: Loop, run: Run, runs: Sequence[Run]) -> list[int]:
    """Sizes of as many tiles that cover a dim with the least that is beyond it."""
    most, step = _extent(loop, run), _step(loop, run)
    share = -(-most // -(-most // step))
    widths = sorted({width for width in (lanes_along(loop, runs), _widest(runs), 1) if step % width == 0}, reverse=True)
    return list(dict.fromkeys(-(-share // width) * width for width in widths))


def more_rows(runs: Sequence[Run], entries: Container[int]) -> Iterator[Sizes]:
    """A size of the loop over the rows of a result so that none waits for the one before."""
    run = max(runs, key=lambda run: run.times * len(run.ops))
    along = _names_in_results(runs)
    for loop in reversed(_loops(run, entries)):
        most = min(INDEPENDENT, _extent(loop, run))
        if loop.var.name in along and lanes_along(loop, runs) == 1 and _step(loop, run) < most:
            yield {loop: most}


def fewer_rows(runs: Sequence[Run], entries: Container[int]) -> Iterator[Sizes]:
    """Smaller sizes of the loops over the results of a register tile: those of which each takes one vector first."""
    run = max(runs, key=lambda run: run.times * len(run.ops))
    along = _names_in_results(runs)
    loops = [loop for loop in _loops(run, entries) if loop.var.name in along and _step(loop, run) > 1]
    for loop in sorted(loops, key=lambda loop: lanes_along(loop, runs)):
        lanes, step = lanes_along(loop, runs), _step(loop, run)
        for parts in (2, 3, 4):
            size = -(-step // parts // lanes) * lanes if lanes > 1 else -(-step // parts)
            if 0 < size < step:
                yield {loop: size}


def _loops(run: Run, entries: Container[int]) -> list[Loop]:
    loops = (trip.loop for trip in run.trips)
    return [loop for loop in loops if isinstance(loop, Loop) and entry_of(loop) in entries]


def resized(call: ast.Call, sizes: Sizes) -> ast.Call | None:
    """The call of a transform with other sizes of the loops that it makes; None where its text names none of them."""
    by_dim = {loop.name.rpartition("/")[2]: size for loop, size in sizes.items()}
    changed = False

    def change(node: object) -> object:
        nonlocal changed
        if isinstance(node, ast.MapOf):
            entries = tuple((key, _literal(value, _size_of(key, by_dim))) for key, value in node.entries)
            changed |= entries != node.entries
            return replace(node, entries=entries)
        if isinstance(node, ast.Argument) and node.name == "factor" and len(by_dim) == 1:
            changed = True
            return replace(node, value=_literal(node.value, *by_dim.values()))
        return node

    new = ast.rebuilt(call, change)
    return new if changed else None


def _size_of(key: ast.Expression, by_dim: Mapping[str, int]) -> int | None:
    """The size for a dim of a map: the name of its loop is the dim's and a number."""
    name = key.name if isinstance(key, ast.Name) else None
    those = (size for dim, size in by_dim.items() if name is not None and _is_of(dim, name))
    return next(those, None)


def _is_of(dim: str, name: str) -> bool:
    return dim.startswith(name) and dim.removeprefix(name).isdigit()


def _literal(value: ast.Expression, size: int | None) -> ast.Expression:
    return value if size is None else ast.Literal(size, location=value.location)


# -- loops -----------------------------------------------------------------------------------------------------------


def _step(loop: Loop, run: Run) -> int:
    return evaluate(loop.var.step, run.sizes)


def _extent(loop: Loop, run: Run) -> int:
    return evaluate(loop.var.upper, run.sizes) - evaluate(loop.var.lower, run.sizes)


def lanes_along(loop: Loop, runs: Sequence[Run]) -> int:
    """The lanes of the vectors that lie along what a loop steps over; 1 for none."""
    widths = [1]
    for op in (op for run in runs for op in run.ops if isinstance(op, OnSubset)):
        offsets = [tile.offsets[-1] for _, tile in op.accesses if tile.offsets]
        if any(var.name == loop.var.name for offset in offsets for var in variables(offset)):
            widths += [_width(value.type) for value in (*op.results, *op.operands[:1])]
    return max(widths)


def _widest(runs: Sequence[Run]) -> int:
    """The lanes of the widest vectors."""
    return max((_width(value.type) for run in runs for op in run.ops for value in op.results), default=1)


def _width(type_: object) -> int:
    return type_.shape[-1] if isinstance(type_, VectorType) else 1


def _names_in_results(runs: Sequence[Run]) -> set[str]:
    """The names of loop variables whose iterations write different elements."""
    writes = (op for run in runs for op in run.ops if isinstance(op, Write))
    offsets = (offset for op in writes for _, tile in op.accesses for offset in tile.offsets)
    return {var.name for offset in offsets for var in variables(offset)}

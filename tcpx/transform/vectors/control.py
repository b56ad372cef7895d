"""Loops that carry vectors and branches that yield them: one value per piece instead of one per vector."""

from collections.abc import Callable, Mapping, Sequence

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, StYield
from tcpx.payload.subsets import Tile
from tcpx.payload.types import ScalarType, VectorType, shape_of
from tcpx.transform.vectors.pieces import Grid, Pieces
from tcpx.transform.vectors.structured import neutral, totals
from tcpx.transform.vectors.widths import is_vector

Cleanup = Callable[[], None]
LowerBlock = Callable[[Block], None]


def lower_loop(pieces: Pieces, loop: Loop, lower_block: LowerBlock) -> list[Cleanup]:
    """Carry pieces instead of vectors, and partial instead of total results of reductions along lanes.

    Returns what removes the old destinations, to be run when nothing uses them any more.
    """
    rewriter, widths = pieces.rewriter, pieces.widths
    old: list[int] = []
    inits: list[Value] = []
    reduced: dict[Structured, list[tuple[Value, Value, Grid]]] = {}
    for index, (init, dest, result) in enumerate(
        list(zip(loop.operands, loop.destinations, loop.results, strict=True))
    ):
        reduction = widths.partial_reduction(dest)
        if reduction is None and not is_vector(dest):
            continue
        if reduction is None and widths.is_piece(dest):
            rewriter.set_operand(loop, index, pieces.piece(init, (0,), widths.of(dest)))
            pieces.grids[dest], pieces.grids[result] = {(0,): dest}, {(0,): result}
            continue
        old.append(index)
        width = 1 if reduction is not None else widths.of(dest)
        carried: Grid = {}
        final: Grid = {}
        for key in pieces.keys(dest.type, width):
            if reduction is not None:
                number = reduction.inits.index(dest)
                start = pieces.splat(neutral(pieces, reduction)[number], widths.of(reduction))
            else:
                start = pieces.piece(init, key, width)
            base = ".".join([dest.name, *map(str, key)])
            inits.append(start)
            carried[key] = rewriter.add_block_arg(loop.body, start.type, base)
            final[key] = rewriter.add_result(loop, start.type, ".".join([result.name, *map(str, key)]))
        if reduction is not None:
            pieces.carried.setdefault(reduction, []).append(carried)
            reduced.setdefault(reduction, []).append((result, init, final))
        else:
            pieces.grids[dest], pieces.grids[result] = carried, final
    if old:
        rewriter.set_operands(loop, [*loop.operands, *inits])
    lower_block(loop.body)
    _total_after(pieces, loop, reduced)
    return [lambda: _remove_destinations(pieces, loop, old)] if old else []


def _total_after(pieces: Pieces, loop: Loop, reduced: Mapping[Structured, Sequence[tuple[Value, Value, Grid]]]) -> None:
    """Combine the lanes of partial results after the loop, before whatever follows it."""
    block = loop.parent
    if block is None or loop is block.ops[-1]:
        return
    pieces.anchor = block.ops[block.index(loop) + 1]
    for reduction, carried in reduced.items():
        results, inits, final = zip(*carried, strict=True)
        if any(result.uses for result in results):
            for result, grid in zip(results, totals(pieces, reduction, results, final, inits), strict=True):
                pieces.define(result, grid)


def _remove_destinations(pieces: Pieces, loop: Loop, old: Sequence[int]) -> None:
    kept = [v for k, v in enumerate(loop.operands) if k not in old]
    pieces.rewriter.set_operands(loop, kept)
    for index in reversed(old):
        pieces.rewriter.remove_result(loop, index)
        pieces.rewriter.remove_block_arg(loop.body, index)


def lower_carried_yield(pieces: Pieces, op: StYield) -> bool:
    """Yield the pieces of a carried vector; False if the vector is one piece as it is."""
    value, dest = op.operands
    reduction = pieces.widths.partial_reduction(dest)
    if reduction is not None:
        number = reduction.inits.index(dest)
        carried, values = pieces.carried[reduction][number], pieces.partials[reduction][number]
    elif pieces.widths.is_piece(dest):
        pieces.rewriter.set_operand(op, 0, pieces.piece(value, (0,), pieces.widths.of(dest)))
        return False
    else:
        width, carried = pieces.widths.of(dest), pieces.grids[dest]
        values = {key: pieces.piece(value, key, width) for key in carried}
    for key, to in carried.items():
        pieces.put(StYield.of(values[key], to, Tile.full(shape_of(to.type))), op)
    return True


def lower_if(pieces: Pieces, op: Conditional, lower_block: LowerBlock) -> tuple[list[Cleanup], list[Cleanup]]:
    """Yield pieces from both branches. Returns what removes the old results, and the old operands of the ends."""
    widths, rewriter = pieces.widths, pieces.rewriter
    old: list[int] = []
    for index, result in enumerate(list(op.results)):
        if not is_vector(result):
            continue
        if widths.is_piece(result):
            pieces.grids[result] = {(0,): result}
            continue
        old.append(index)
        width = widths.of(result)
        type_ = pieces.piece_type(result.type, width)
        pieces.grids[result] = {
            key: rewriter.add_result(op, type_, ".".join([result.name, *map(str, key)]))
            for key in pieces.keys(result.type, width)
        }
    vectors = [r for r in op.results if isinstance(r.type, VectorType | ScalarType) and r in pieces.grids]
    ends: list[Cleanup] = []
    for block in op.regions:
        lower_block(block)
        end = block.terminator
        if end is None:
            continue
        pieces.anchor = end
        operands = list(end.operands)
        for index, result in enumerate(op.results[: len(end.operands)]):
            if result not in vectors:
                continue
            width = widths.of(result)
            found = [pieces.piece(end.operands[index], key, width) for key in pieces.grids[result]]
            if index in old:
                operands += found
            else:
                operands[index] = found[0]
        rewriter.set_operands(end, operands)
        ends.append(lambda end=end: _remove_operands(pieces, end, old))
    return [lambda: _remove_results(pieces, op, old)], ends


def _remove_operands(pieces: Pieces, end: Operation, old: Sequence[int]) -> None:
    pieces.rewriter.set_operands(end, [v for k, v in enumerate(end.operands) if k not in old])


def _remove_results(pieces: Pieces, op: Conditional, old: Sequence[int]) -> None:
    for index in reversed(old):
        pieces.rewriter.remove_result(op, index)

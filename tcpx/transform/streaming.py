"""Writes past the caches: which of a loop may be, and iterations that begin where a cache line does."""

from collections.abc import Iterator
from dataclasses import replace

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import Block, Operation, Value, is_in
from tcpx.payload.memory_effects import MoveKind
from tcpx.payload.ops.gml_st import STREAM, Loop, StYield, never_runs
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import CACHE_LINE, Lead
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, Symbol, Var, substitute, variables
from tcpx.payload.sizes.bounds import is_equal
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import TensorType, dtype_of
from tcpx.transform import new
from tcpx.transform.peeling import copy_over, rest_of, set_range

Write = tuple[StYield, tuple[Dim, ...] | None]
"""A write, and where what it writes begins in the destination of a loop round it; None where that is not its place."""


def writes(loop: Loop, index: int) -> Iterator[Write]:
    """What writes elements of a destination of a loop, in loops inside too."""
    for store in loop.yields_to(index):
        plain = store.subset.has_unit_strides and not store.subset.dropped
        parts = list(_parts(store.value, loop))
        if not parts:
            yield store, store.subset.offsets if plain else None
        for part, number in parts:
            for write, at in writes(part, number):
                here = None if at is None or not plain else tuple(map(_sum, store.subset.offsets, at))
                yield write, here


def _sum(a: Dim, b: Dim) -> Dim:
    return a + b


def _parts(value: Value, around: Loop) -> Iterator[tuple[Loop, int]]:
    """The loops inside of another one that make a value, one after the other; none for what is made otherwise, or was
    made before."""
    made = value.defining_op
    if isinstance(made, Loop) and is_in(made, around) and isinstance(value.type, TensorType):
        index = made.results.index(value)
        yield from _parts(made.operands[index], around)
        yield made, index


def readers(loop: Loop, index: int) -> Iterator[Operation]:
    """What reads elements of a destination of a loop inside of it."""
    for user in loop.destinations[index].users:
        if not isinstance(user, StYield) and not Memory(user).is_hint:
            yield user
    for store in loop.yields_to(index):
        for part, number in _parts(store.value, loop):
            yield from readers(part, number)


def mark(rewriter: Rewriter, loop: Loop) -> None:
    """Let all writes of a loop go past the caches."""
    for index, dest in enumerate(loop.destinations):
        if isinstance(dest.type, TensorType):
            for store, _ in writes(loop, index):
                rewriter.set_attribute(store, STREAM, True)


def align(rewriter: Rewriter, loop: Loop) -> Loop | None:
    """Let the iterations of a loop of whole steps begin where a cache line does, and mark their writes.

    What lies before the first of them is written by an iteration before that overlaps it, and what is behind the last
    by one more. Where all lies so, neither runs. None where steps are no cache lines of the one destination.
    """
    found = _start(loop)
    if found is None:
        return None
    index, offsets = found
    var, source = loop.var, loop.operands[index]
    tile = Tile(offsets, (1,) * len(offsets))
    asked = rewriter.insert(Lead.of(source, tile), InsertPoint.before(loop), f"{loop.name}.lead").result
    line = CACHE_LINE // dtype_of(source.type).bytes
    lead = Var(rewriter.fresh_name(loop, f"{loop.name}/lead"), 0, line)
    rewriter.insert(Bind.of(asked, lead), InsertPoint.before(loop))
    once = context_at(loop).minimum(1, Size.of(lead), var.upper - var.lower)
    end = var.upper - var.step
    last = copy_over(rewriter, loop, replace(var, lower=end, upper=end + once), "~last")
    main = copy_over(rewriter, loop, replace(var, lower=var.lower + Size.of(lead), upper=end + 1), "~main")
    set_range(rewriter, loop, replace(var, upper=var.lower + once))
    for k, (result, after, final) in enumerate(zip(loop.results, main.results, last.results, strict=True)):
        rewriter.replace_uses(result, final)
        rewriter.set_operand(main, k, result)
        rewriter.set_operand(last, k, after)
    split = rewriter.new_split()
    for part, side in ((loop, "first"), (main, "main"), (last, "last")):
        rewriter.extend_copy_path(part, split, side)
    return main


def _start(loop: Loop) -> tuple[int, tuple[Dim, ...]] | None:
    """The destination that the steps of a loop go along, in whole cache lines, and where the first of them begins."""
    var, step = loop.var, loop.var.step
    if not isinstance(step, int) or rest_of(loop) != 0 or never_runs(loop):
        return None
    lowest: dict[Symbol | Var, Dim] = {op.var: op.var.lower for op in loop.walk() if isinstance(op, Loop)}
    for index, dest in enumerate(loop.destinations):
        if not isinstance(dest.type, TensorType) or step * dest.type.dtype.bytes % CACHE_LINE:
            continue
        for _, at in writes(loop, index):
            if at and [d for d, offset in enumerate(at) if var in variables(offset)] == [len(at) - 1]:
                moved = substitute(at[-1], {var: Size.of(var) + 1}) - at[-1]
                first = tuple(substitute(substitute(offset, lowest), lowest) for offset in at)
                if is_equal(moved, 1) is True and not {v for o in first for v in variables(o)} & lowest.keys():
                    return index, first
    return None


def changes_in_place(loop: Loop) -> bool:
    """Whether a loop reads state, or what a loop around it carries, and its result is put there in the end."""
    func = loop.func
    states = {result: func.args[argument] for argument, result in func.states.items()} if func is not None else {}
    around = {dest for op in loop.ancestors() if isinstance(op, Loop) for dest in op.destinations}
    if not states and not around:
        return False
    read = _shown_by({operand for op in loop.walk() for operand in op.operands})
    left, seen = [*loop.results], set[Value]()
    while left:
        value = left.pop()
        seen.add(value)
        for user, index in value.uses:
            for move in Memory(user).moves():
                if move.operand != index:
                    continue
                if (states.get(index) if move.to is None else move.to) in read & {*states.values(), *around}:
                    return True
                to = _result_of(move.to) if move.to is not None else None
                if to is not None and to not in seen:
                    left.append(to)
    return False


def _shown_by(values: set[Value]) -> set[Value]:
    """The values, and those of which they are parts or other shapes."""
    found, left = set(values), list(values)
    while left:
        made = left.pop().defining_op
        if made is not None:
            kinds = MoveKind.RESHAPE, MoveKind.SUBSET
            moved = {made.operands[move.operand] for move in Memory(made).moves() if move.kind in kinds}
            sources = (moved | {made.operands[piece.operand] for piece in new.pieces_of_all(made) or ()}) - found
            found |= sources
            left += sources
    return found


def _result_of(value: Value) -> Value:
    """Of the destination of a loop its result; else the value."""
    block = value.owner
    loop = block.parent if isinstance(block, Block) else None
    return loop.results[loop.destinations.index(value)] if isinstance(loop, Loop) else value

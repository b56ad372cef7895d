"""Operations of equal structure become calls of one function, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.interfaces import padded, pieces_of_all
from tcpx.payload.ir import FuncOp, Operation, Value, defined_by
from tcpx.payload.lookup import source_name
from tcpx.payload.memory_effects import Move, MoveKind
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.strided import STRIDED, strided_positions
from tcpx.payload.structure import part_fingerprint
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import dtype_of, shape_of
from tcpx.target import Target
from tcpx.transform.arguments import TransformContext
from tcpx.transform.chains import epilogue_of, prologue_of
from tcpx.transform.convex import gathered, used_outside
from tcpx.transform.editing import is_pure
from tcpx.transform.families import join_families, kind_of
from tcpx.transform.outlining import Known, is_cheap, outline
from tcpx.transform.payload_times import PayloadTimes

ALL: Final = 1.0
"""The part of the time that no operation is above."""


def share(ctx: TransformContext, targets: Sequence[Operation], families_below: float = 0.0) -> None:
    """Let equal parts of functions, each an operation with what goes with it, be calls of one function. Those with less
    than a part of the modelled time may differ in sizes. A part that a param names is left, unless the knobs of the
    function have its name."""
    times = PayloadTimes(ctx.rewriter.module, ctx.target) if 0.0 < families_below < ALL else None
    kinds = dict[tuple[bool, str], list[list[Operation]]]()
    for part in _parts(targets, ctx.target):
        is_of_family = (times.share(part) if times is not None else 0.0) < families_below
        kind = is_of_family, part_fingerprint(_with_copied(part), kind_of if is_of_family else str)
        parts = kinds.setdefault(kind, [])
        if not parts or ctx.named.isdisjoint(source_name(op).replace("/", ".") for op in part):
            parts.append(part)
    for (is_of_family, _), parts in kinds.items():
        funcs = _shared(ctx, parts) if len(parts) > 1 else ()
        if is_of_family:
            join_families(ctx.rewriter, funcs)


def _parts(targets: Sequence[Operation], target: Target) -> Iterator[list[Operation]]:
    """Each operation with what goes with it and with no target before it."""
    taken = set[Operation](targets)
    for op in targets:
        part = _part(op, taken)
        if part and all(map(is_pure, part)) and _lies_in_rows(part) and not _changes_in_place(part, target):
            taken.update(part)
            yield part


def _part(op: Operation, taken: set[Operation]) -> list[Operation]:
    """An operation, the elementwise operations that lead to it alone, its epilogue, and what pads the result of these;
    in the order in which they stand. Nothing of an operation in a group or in a parallel loop."""
    if op.parent is None or not all(map(_runs_calls, op.ancestors())) or len(op.results) != 1:
        return []
    after = epilogue_of(op)
    before = [each for value in op.operands for each in prologue_of(op, value)]
    if not taken.isdisjoint(after):
        after = []
    part = {op: None} | dict.fromkeys(each for each in (*before, *after) if each not in taken)
    last = after[-1] if after else op
    users = last.results[0].users
    if len(users) == 1 and padded(users[0]) is last.results[0] and users[0].parent is op.parent:
        part[users[0]] = None
    return sorted(part, key=lambda each: each.order)


def _runs_calls(around: Operation) -> bool:
    """Whether what stands in an operation may be a call: in a group it is what the group promises, and in a parallel
    loop recipes know that there are no threads for it."""
    return isinstance(around, FuncOp | Conditional) or (isinstance(around, Loop) and not around.is_parallel)


def _with_copied(part: Sequence[Operation]) -> list[Operation]:
    """The operations of a part, each after those that its function would have a copy of."""
    found = dict[Operation, None]()
    for op in part:
        made = (value.defining_op for inner in op.walk() for value in inner.operands)
        copied = [source for source in made if source is not None and source not in found and is_cheap(source)]
        found |= dict.fromkeys([*_with_copied(copied), op])
    return list(found)


def _lies_in_rows(part: Sequence[Operation]) -> bool:
    """Whether what a part reads and gives can lie as a function takes it, row after row; else each call would copy
    it."""
    inside = {value for op in part for inner in op.walk() for value in defined_by(inner)}
    read = {value for op in part for inner in op.walk() for value in inner.operands} - inside
    return not any(map(_has_gaps, read)) and not any(map(_is_written_with_gaps, used_outside(part)))


def _has_gaps(value: Value) -> bool:
    """Whether the rows of a value do not follow one another in memory: it is a part of another one, or has its dims in
    another order, or its rows lie any distance apart. What is seen of a constant is one itself."""
    has_gaps = _is_yielded_with_gaps(value)
    while (op := value.defining_op) is not None and padded(op) is None:
        parts = [(move.operand, move.source_tile) for move in Memory(op).moves() if move.kind is MoveKind.SUBSET]
        parts += [(piece.operand, None if piece.permutes else piece.tile) for piece in pieces_of_all(op) or ()]
        if len(parts) != 1:
            break
        operand, tile = parts[0]
        value = op.operands[operand]
        is_run = tile is not None and tile.is_one_run(shape_of(value.type))
        has_gaps = has_gaps or not is_run or _is_yielded_with_gaps(value)
    return _is_strided(value) or (has_gaps and not (op is not None and Constant.of(op) is not None))


def _is_written_with_gaps(value: Value) -> bool:
    """Whether a result lies between others: it is one of the pieces that one value is made of, as a concat, or a part
    of the destination of a loop, or is stored in rows any distance apart. What several concats are made of is copied
    anyway."""
    joined = [user for user in value.users if len(pieces_of_all(user) or ()) > 1]
    is_joined_with_gaps = len(joined) == 1 and not all(
        piece.place.is_one_run(shape_of(joined[0].results[0].type))
        for piece in pieces_of_all(joined[0]) or ()
        if joined[0].operands[piece.operand] is value
    )
    return _is_strided(value) or is_joined_with_gaps or _is_yielded_with_gaps(value)


def _is_yielded_with_gaps(value: Value) -> bool:
    tiles = ((move.tile, move.to) for move in _moves(value) if move.kind is MoveKind.YIELD)
    return any(tile is not None and to is not None and not tile.is_one_run(shape_of(to.type)) for tile, to in tiles)


def _moves(value: Value) -> Iterator[Move]:
    """Where a value goes: to a destination of a loop, out of a branch, or to another shape, and so on."""
    for user, index in value.uses:
        for move in Memory(user).moves():
            if move.operand == index and move.kind in (MoveKind.YIELD, MoveKind.RESHAPE, MoveKind.BRANCH):
                yield move
                if move.kind is not MoveKind.YIELD and move.to is not None:
                    yield from _moves(move.to)


def _changes_in_place(part: Sequence[Operation], target: Target) -> bool:
    """Whether a call would need a copy of a destination of a loop, or of what another branch gives: the operations read
    that element by element where the last one writes it, or rows of it that registers hold until they are written; or
    they stand before and behind a yield."""
    block, used = part[0].parent, used_outside(part)
    between = block.ops[block.index(part[0]) : block.index(part[-1])] if block is not None else ()
    if any(Memory(op).has_side_effects for op in between):
        return True
    written = {place for value in used for move in _moves(value) for place in _places(move)}
    if not written:
        return False
    fits = all(_row_bytes(value) <= target.vector_registers * target.vector_bits // 8 for value in used)
    read = ((v, fits or Memory(op).in_step(k) is not None) for op in part for k, v in enumerate(op.operands))
    return any(is_in_place and not written.isdisjoint(_bases(value)) for value, is_in_place in read)


def _places(move: Move) -> Iterator[Value]:
    """In whose memory a value is put by a move: the destination, or what other branches give."""
    if move.kind is MoveKind.YIELD and move.to is not None:
        yield move.to
    made = move.to.defining_op if move.to is not None and move.kind is MoveKind.BRANCH else None
    for end in (block.terminator for block in made.regions) if made is not None else ():
        yield from _bases(end.operands[move.operand]) if end is not None else ()


def _row_bytes(value: Value) -> int:
    """The bytes of a row of a value, those of an element where no number says how long it is."""
    extents = [extent for extent in shape_of(value.type)[-1:] if isinstance(extent, int)]
    return prod(extents) * dtype_of(value.type).bytes


def _bases(value: Value) -> Iterator[Value]:
    """A value, and what it is a part of, or another shape of, or what branches and loops make it of."""
    yield value
    made = value.defining_op
    ends = [end for block in made.regions if (end := block.terminator) is not None] if made is not None else []
    for op in [made, *ends] if made is not None else ():
        for move in Memory(op).moves():
            if move.to is value:
                yield from _bases(op.operands[move.operand])


def _is_strided(value: Value) -> bool:
    func = value.func
    if func is None or STRIDED not in func.attributes:
        return False
    values = [*func.args, *func.returned]
    return any(values[k] is value for k in strided_positions(func))


def _shared(ctx: TransformContext, parts: Sequence[Sequence[Operation]]) -> Sequence[FuncOp]:
    """The functions that parts become, one for equal ones; none where no function can be made of a part."""
    known, mark = Known(), ctx.rewriter.mark()
    try:
        for part in parts:
            ops = gathered(ctx, part)
            origins = [origin for op in ops for inner in op.walk() for origin in inner.origins]
            ctx.rewriter.note_call(origins, outline(ctx.rewriter, ops, known))
    except ScheduleError:  # what depends on state, or on a size of a loop, stays where it is
        ctx.rewriter.rollback(mark)
        return ()
    return [func for funcs in known.values() for func in funcs]

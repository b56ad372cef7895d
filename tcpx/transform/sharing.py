"""Operations of equal structure become calls of one function, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.interfaces import padded, pieces_of_all
from tcpx.payload.ir import FuncOp, Operation, Value, defined_by
from tcpx.payload.lookup import source_name
from tcpx.payload.strided import STRIDED, strided_positions
from tcpx.payload.structure import part_fingerprint
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import shape_of
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
    for part in _parts(targets):
        is_of_family = (times.share(part) if times is not None else 0.0) < families_below
        kind = is_of_family, part_fingerprint(_with_copied(part), kind_of if is_of_family else str)
        parts = kinds.setdefault(kind, [])
        if not parts or ctx.named.isdisjoint(source_name(op).replace("/", ".") for op in part):
            parts.append(part)
    for (is_of_family, _), parts in kinds.items():
        funcs = _shared(ctx, parts) if len(parts) > 1 else ()
        if is_of_family:
            join_families(ctx.rewriter, funcs)


def _parts(targets: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Each operation with what goes with it and with no target before it."""
    taken = set[Operation](targets)
    for op in targets:
        part = _part(op, taken)
        if part and all(map(is_pure, part)) and _lies_in_rows(part):
            taken.update(part)
            yield part


def _part(op: Operation, taken: set[Operation]) -> list[Operation]:
    """An operation, the elementwise operations that lead to it alone, its epilogue, and what pads the result of these;
    in the order in which they stand. Nothing of an operation in a loop or a branch."""
    if op.parent is None or not isinstance(op.parent.parent, FuncOp) or len(op.results) != 1:
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
    return not any(map(_shows_a_part, read)) and not any(map(_is_one_piece, used_outside(part)))


def _shows_a_part(value: Value) -> bool:
    """Whether a value is a part of another one, or has its dims in another order, or its rows lie any distance apart.
    What is seen of a constant is one itself."""
    is_part = False
    while (op := value.defining_op) is not None and padded(op) is None:
        pieces = pieces_of_all(op) or ()
        if len(pieces) != 1:
            break
        value = op.operands[pieces[0].operand]
        is_part = is_part or pieces[0].permutes or not pieces[0].tile.is_full(shape_of(value.type))
    return _is_strided(value) or (is_part and not (op is not None and Constant.of(op) is not None))


def _is_one_piece(value: Value) -> bool:
    """Whether a result is one of the pieces that one value is made of, as a concat, or is stored in rows any distance
    apart. What several values are made of is copied anyway."""
    return _is_strided(value) or sum(len(pieces_of_all(user) or ()) > 1 for user in value.users) == 1


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
    except ScheduleError:  # what depends on state, say, stays where it is
        ctx.rewriter.rollback(mark)
        return ()
    return [func for funcs in known.values() for func in funcs]

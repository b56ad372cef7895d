"""Local simplification: what became the identity after sizes became known."""

from collections.abc import Sequence

from tcpx.payload.contexts import context_at, context_in_iterations, is_unreachable
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import If, Materialize
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import shape_of
from tcpx.transform import new
from tcpx.transform.algebra import apply_identities, fold_repeated, sink_broadcast
from tcpx.transform.editing import erase_dead, is_destination, replace_by_read


def simplify_in(rewriter: Rewriter, roots: Sequence[Operation]) -> int:
    """Fold identity pads and slices and decided branches inside `roots`; returns how many."""
    count = 0
    for root in roots:
        for op in list(root.walk()):
            if op.func is not None and _simplify(rewriter, op):
                count += 1
    return count


def simplify_algebra(rewriter: Rewriter, root: Operation, options: Sequence[str] = (), *, sinks: bool = False) -> int:
    """Apply the identities that are exact, and those of `options`, inside `root`; `sinks`: also compute before a
    broadcast what may be. Returns how many were applied."""
    count, changed = 0, True
    while changed:
        changed = False
        for op in list(root.walk()):
            if op.func is None or op is root or op.regions:
                continue
            applied = fold_repeated(rewriter, op) or apply_identities(rewriter, op, options)
            if applied or (sinks and sink_broadcast(rewriter, op)):
                count, changed = count + 1, True
    return count


def _simplify(rewriter: Rewriter, op: Operation) -> bool:
    match op:
        case Tileable():
            piece = new.whole_piece(op)
            if piece is None or piece.permutes or not piece.fills(shape_of(op.result.type), context_at(op).names):
                return False
            shown = op.operands[piece.operand]
            block = shown.owner.parent if isinstance(shown.owner, Operation) else shown.owner
            is_argument = op.func is not None and shown in op.func.args and type(shown.type) is type(op.result.type)
            if shown.type != op.result.type and not is_argument:  # an argument has its sizes as declared
                if block is not op.parent:  # the sizes may name loops that are further in
                    return False
                rewriter.set_type(shown, op.result.type)
            replace_by_read(rewriter, op, shown)
            return True
        case Materialize():
            source = op.operands[0]
            if is_destination(source) or not op.is_of_all:
                return False
            if op.subset.dropped or type(source.type) is not type(op.result.type):  # a scalar of a tensor without dims
                return False
            rewriter.replace_op(op, [source])
            return True
        case If():
            return _fold_branch(rewriter, op)
        case _:
            return False


def fold_branches(rewriter: Rewriter, root: Operation) -> None:
    """Fold the branches inside `root` that its conditions, and those round it, decide."""
    for op in list(root.walk()):
        if op is not root and isinstance(op, If) and op.func is not None:
            _fold_branch(rewriter, op)


def _fold_branch(rewriter: Rewriter, op: If) -> bool:
    decided = context_at(op).decide(op.predicate)
    if decided is None:
        decided = context_in_iterations(op).decide(op.predicate)
    if decided is None:
        dead = [branch.terminator is not None and is_unreachable(branch.terminator) for branch in (op.then, op.orelse)]
        if dead[0] == dead[1]:
            return False
        decided = dead[1]
    taken = op.then if decided else op.orelse
    for inner in list(taken.ops[:-1]):
        rewriter.move(inner, InsertPoint.before(op))
    end = taken.terminator
    values = list(end.operands) if end is not None else []
    rewriter.replace_op(op, values)
    erase_dead(rewriter, values)
    return True

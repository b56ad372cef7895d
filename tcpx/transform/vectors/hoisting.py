"""Each literal, splat of a literal and fixed mask once, and outside of the loops."""

from collections.abc import Hashable

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.vector import Mask
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.transform.vectors.literals import invariant_block, is_splat_of_literal, lane_type, literal_of


def hoist_literals(rewriter: Rewriter, func: FuncOp) -> None:
    """Move literals, then their splats, then masks of a fixed number of lanes to the top of the function, or of the
    parallel loop they are in; equal ones become one."""
    known: dict[tuple[Block, Hashable], Operation] = {}
    ops = operations(func.body)
    for key_of in (_literal_key, _splat_key, _mask_key):
        for op in ops:
            key = key_of(op) if op.parent is not None else None
            home = invariant_block(op) if key is not None else None
            if home is None:
                continue
            first = known.setdefault((home, key), op)
            if first is not op:
                rewriter.continue_as(op, first)
                rewriter.replace_op(op, [first.results[0]])
    tops: dict[Block, int] = {}
    for (home, _), op in known.items():
        top = tops.get(home, InsertPoint.start(home).index)
        if op is not home.ops[top]:
            rewriter.move(op, InsertPoint(home, top))
        tops[home] = top + 1


def operations(block: Block) -> list[Operation]:
    """The operations of a block and of loops and branches in it, in program order; not of bodies of operations."""
    found: list[Operation] = []
    for op in block.ops:
        found.append(op)
        if op.regions and not isinstance(op, Structured):
            for inner in op.regions:
                found += operations(inner)
    return found


def _literal_key(op: Operation) -> Hashable:
    number = literal_of(op)
    type_ = lane_type(op.results[0].type) if number is not None else None
    return None if type_ is None else ("literal", type_, repr(number))


def _splat_key(op: Operation) -> Hashable:
    return ("splat", op.operands[0], op.results[0].type) if is_splat_of_literal(op) else None


def _mask_key(op: Operation) -> Hashable:
    if not isinstance(op, Mask):
        return None
    lanes = op.first, op.count
    return ("mask", lanes, op.result.type) if all(isinstance(size, int) for size in lanes) else None

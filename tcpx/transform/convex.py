"""Operations as one piece: all between some operations, next to each other, and what else uses their results."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import Yield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.transform.arguments import TransformContext


def gathered(ctx: TransformContext, targets: Sequence[Operation]) -> list[Operation]:
    """The smallest convex set of operations of one block that holds `targets`, moved next to each other."""
    block = _common_block(ctx, targets)
    ops = _convex(block, [_ancestor_in(block, op) for op in targets])
    _gather(ctx.rewriter, block, ops)
    return ops


def used_outside(ops: Sequence[Operation]) -> list[Value]:
    """The results of `ops` that other operations use."""
    group = set(ops)
    return [
        result
        for op in ops
        for result in op.results
        if any(not any(user.is_in(a) for a in group) for user, _ in result.uses)
    ]


def replace_outside(
    rewriter: Rewriter, ops: Sequence[Operation], used: Sequence[Value], results: Sequence[Value]
) -> None:
    """Let other operations use `results` for the values `used` of `ops`."""
    group = set(ops)
    for value, result in zip(used, results, strict=True):
        rewriter.replace_uses(value, result, lambda user: not any(user.is_in(a) for a in group))


def move_into(rewriter: Rewriter, ops: Sequence[Operation], used: Sequence[Value], block: Block) -> None:
    """Let `ops` be a branch that gives the values `used`."""
    for op in ops:
        rewriter.move(op, InsertPoint.end(block))
    rewriter.insert(Yield(used), InsertPoint.end(block))


def _common_block(ctx: TransformContext, targets: Sequence[Operation]) -> Block:
    """The innermost block that holds all targets, directly or deeper."""
    if not targets:
        raise ctx.fail("there is nothing to make one piece of", found="an empty list", required="at least one op")
    chains = [[op, *op.ancestors()] for op in targets]
    for op in chains[0]:
        block = op.parent
        if block is not None and all(any(other.parent is block for other in chain) for chain in chains):
            return block
    raise ctx.fail(
        "these ops have no block in common",
        op=targets[0],
        required="ops of one function",
        found=", ".join(f"%{op.name}" for op in targets),
    )


def _ancestor_in(block: Block, op: Operation) -> Operation:
    return next(a for a in (op, *op.ancestors()) if a.parent is block)


def _operands(op: Operation) -> set[Value]:
    return {v for inner in op.walk() for v in inner.operands}


def _convex(block: Block, chosen: Sequence[Operation]) -> list[Operation]:
    """The chosen ops and every op on a path from one of them to another, in program order."""
    picked = set(chosen)
    first = min(block.index(op) for op in picked)
    last = max(block.index(op) for op in picked)
    window = block.ops[first : last + 1]
    below: set[Operation] = set()
    for op in window:
        sources = {v.defining_op for v in _operands(op)}
        if op in picked or sources & below:
            below.add(op)
    above: set[Operation] = set()
    for op in reversed(window):
        users = {user for result in op.results for user, _ in result.uses}
        if op in picked or any(user.is_in(a) for user in users for a in above):
            above.add(op)
    return [op for op in window if op in below and op in above]


def _gather(rewriter: Rewriter, block: Block, ops: Sequence[Operation]) -> None:
    """Let the ops stand next to each other: what depends on them moves behind, the rest before."""
    first, last = block.index(ops[0]), block.index(ops[-1])
    group = set(ops)
    before: list[Operation] = []
    behind: list[Operation] = []
    for op in block.ops[first : last + 1]:
        if op in group:
            continue
        depends = any(v.defining_op in group or v.defining_op in behind for v in _operands(op))
        (behind if depends else before).append(op)
    if before or behind:
        order = [*block.ops[:first], *before, *ops, *behind, *block.ops[last + 1 :]]
        rewriter.set_block_ops(block, order)

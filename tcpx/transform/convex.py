"""Operations as one piece: all between some operations, next to each other, and what else uses their results."""

from collections.abc import Callable, Iterable, Sequence

from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.variables import users_of_sizes
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import destinations_of


def gathered(ctx: TransformContext, targets: Sequence[Operation]) -> list[Operation]:
    """The smallest convex set of operations of one block that holds `targets`, moved next to each other.

    What depends on them moves behind, the rest of what stands between them before. What reads the destination of a loop
    and what yields to it keep their order.
    """
    block = _common_block(ctx, targets)
    chosen = {_ancestor_in(block, op): None for op in targets}
    last = max(chosen, key=_place)
    later = _later_by_size_or_yield(block, min(chosen, key=_place), last)
    below = _reached(
        chosen, lambda op: [user for user in (*_users_in(block, op), *later.get(op, ())) if user.order <= last.order]
    )
    above = _reached(
        chosen, lambda op: [made for made in (*sources(op), *(b for b in later if op in later[b])) if made in below]
    )
    ops = sorted(above, key=_place)
    between = [op for op in block.ops[block.index(ops[0]) : block.index(last)] if op not in above]
    for op in between:
        if op not in below:
            ctx.rewriter.reorder(op, InsertPoint.before(ops[0]))
    for op in reversed(between):
        if op in below:
            ctx.rewriter.reorder(op, InsertPoint.after(last))
    return ops


def _later_by_size_or_yield(block: Block, first: Operation, last: Operation) -> dict[Operation, list[Operation]]:
    """By operation of a block: what else than uses of results stays after it. That is what mentions a size that it
    binds, and, where one of both yields to the destination of a loop, what reads that or yields to it."""
    later = {op: list(users) for op, users in users_of_sizes(block.ops).items()}
    if block.parent is None or not any(isinstance(a, Loop) for a in (block.parent, *block.parent.ancestors())):
        return later
    passed: list[tuple[Operation, set[Value], set[Value]]] = []
    for op in block.ops[block.index(first) : block.index(last) + 1]:
        read, written = map(set, destinations_of(op))
        for before, its_read, its_written in passed:
            if its_written & (read | written) or its_read & written:
                later.setdefault(before, []).append(op)
        if read or written:
            passed.append((op, read, written))
    return later


def connected(op: Operation) -> list[Operation]:
    """The operations of the block of one that it is computed from, that are computed from it, or from one of these."""
    block = op.parent
    if block is None:
        return [op]

    def beside(one: Operation) -> list[Operation]:
        made = [_ancestor_in(block, source) for source in sources(one) if _is_in(block, source)]
        return [other for other in (*_users_in(block, one), *made) if not other.is_terminator]

    return sorted(_reached([op], beside), key=_place)


def _is_in(block: Block, op: Operation) -> bool:
    return any(a.parent is block for a in (op, *op.ancestors()))


def used_outside(ops: Sequence[Operation]) -> list[Value]:
    """The results of `ops` that other operations use."""
    group = set(ops)
    return [
        result
        for op in ops
        for result in op.results
        if any(group.isdisjoint((user, *user.ancestors())) for user, _ in result.uses)
    ]


def replace_outside(
    rewriter: Rewriter, ops: Sequence[Operation], used: Sequence[Value], results: Sequence[Value]
) -> None:
    """Let other operations use `results` for the values `used` of `ops`."""
    group = set(ops)
    for value, result in zip(used, results, strict=True):
        rewriter.replace_uses(value, result, lambda user: group.isdisjoint((user, *user.ancestors())))


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


def _place(op: Operation) -> int:
    return op.order


def _reached(ops: Iterable[Operation], neighbours: Callable[[Operation], Iterable[Operation]]) -> dict[Operation, None]:
    """These operations and all that is found from them, neighbour by neighbour."""
    found = dict.fromkeys(ops)
    waiting = list(found)
    while waiting:
        for op in neighbours(waiting.pop()):
            if op not in found:
                found[op] = None
                waiting.append(op)
    return found


def _users_in(block: Block, op: Operation) -> list[Operation]:
    """The operations of a block that use results of one of them, or in which something does."""
    return [_ancestor_in(block, user) for result in op.results for user, _ in result.uses]


def sources(op: Operation) -> list[Operation]:
    """The operations whose results an operation uses, or something in it."""
    made = (value.defining_op for inner in op.walk() for value in inner.operands)
    return [source for source in made if source is not None]

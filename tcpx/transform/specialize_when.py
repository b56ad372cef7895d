"""Run-time versions: the ops round some targets, once per condition, behind an `if` on sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcpx.payload.ir import Block, CloneMap, Operation, Value
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If
from tcpx.payload.predicates import Predicate
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Symbol, Var
from tcpx.transform.arguments import TransformContext


@dataclass(frozen=True, slots=True)
class Version:
    """One branch: a region of a conditional."""

    conditional: If
    region: int


def specialize_when(
    ctx: TransformContext, targets: Sequence[Operation], predicates: Sequence[Predicate]
) -> tuple[Version, ...]:
    """Version the smallest convex set of ops that holds `targets`; one version per predicate, then the rest.

    Predicates are tried in order. Every version is a copy of the ops, the last one the ops themselves; copy paths
    get a new split with sides `when 0`, `when 1`, ..., `else`. In a version its predicate is a fact about sizes,
    in the following ones its opposite, where that is a single comparison.
    """
    rewriter = ctx.rewriter
    block = _common_block(ctx, targets)
    ops = _convex(block, [_ancestor_in(block, op) for op in targets])
    _gather(rewriter, block, ops)
    split = rewriter.new_split()
    versions: list[Version] = []
    for number, predicate in enumerate(predicates):
        conditional = _version(ctx, ops, predicate, split, f"when {number}", f"~when{number}")
        versions.append(Version(conditional, 0))
    versions.append(Version(versions[-1].conditional, 1))
    for op in ops:
        rewriter.extend_copy_path(op, split, "else")
    return tuple(versions)


def _common_block(ctx: TransformContext, targets: Sequence[Operation]) -> Block:
    """The innermost block that holds all targets, directly or deeper."""
    if not targets:
        raise ctx.fail("there is nothing to make versions of", required="at least one op")
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
    first = min(block.ops.index(op) for op in picked)
    last = max(block.ops.index(op) for op in picked)
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
    first, last = block.ops.index(ops[0]), block.ops.index(ops[-1])
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


def _version(
    ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate, split: int, side: str, suffix: str
) -> If:
    """Replace `ops` by `if predicate { copies } else { ops }`."""
    rewriter = ctx.rewriter
    group = set(ops)
    used = [
        result
        for op in ops
        for result in op.results
        if any(not any(user.is_in(a) for a in group) for user, _ in result.uses)
    ]
    then, orelse = Block(), Block()
    conditional = If([], [v.type for v in used], {"predicate": predicate}, [then, orelse])
    conditional.location = ops[0].location
    rewriter.insert(conditional, InsertPoint.before(ops[0]), ops[-1].name)
    conditional.schedule_location = ctx.location
    for value, result in zip(used, conditional.results, strict=True):
        rewriter.replace_uses(value, result, lambda user: not any(user.is_in(a) for a in group))
    mapping = CloneMap()
    copies = [rewriter.clone(op, InsertPoint.end(then), mapping, suffix) for op in ops]
    rewriter.insert(Yield([mapping.value(v) for v in used]), InsertPoint.end(then))
    for op in ops:
        rewriter.move(op, InsertPoint.end(orelse))
    rewriter.insert(Yield(used), InsertPoint.end(orelse))
    for copy in copies:
        rewriter.extend_copy_path(copy, split, side)
    _assume(rewriter, copies, predicate)
    opposite = predicate.negate()
    if opposite is not None:
        _assume(rewriter, ops, opposite)
    return conditional


def _assume(rewriter: Rewriter, ops: Sequence[Operation], predicate: Predicate) -> None:
    """Let a predicate be a fact about the symbols in these ops."""
    func = rewriter.func_of(ops[0])
    facts = predicate.refine(func.symbols)
    sizes: Mapping[Symbol | Var, Dim] = {symbol: refined.size() for symbol, refined in facts.items()}
    rewriter.substitute(ops, sizes)

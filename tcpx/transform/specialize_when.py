"""Run-time versions: the ops round some targets, once per condition, behind an `if` on sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Block, CloneMap, Operation, Value
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If
from tcpx.payload.ops.memory import Empty
from tcpx.payload.predicates import Predicate
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import TensorType
from tcpx.transform.arguments import TransformContext
from tcpx.transform.simplification import fold_branches


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call says for whose sizes there is no version, and the line of the schedule that says so."""

    message: str
    location: Location


@dataclass(frozen=True, slots=True)
class Version:
    """One branch: a region of a conditional."""

    conditional: If
    region: int


def specialize_when(
    ctx: TransformContext, targets: Sequence[Operation], predicates: Sequence[Predicate], failure: Failure | None = None
) -> tuple[Version, ...]:
    """Version the smallest convex set of ops that holds `targets`; one version per predicate, then the rest.

    Predicates are tried in order. With a `failure` there is no version for the rest: the function asserts that one of
    the predicates holds. Every version is a copy of the ops, the last one the ops themselves; copy paths get a new
    split with sides `when 0`, `when 1`, ..., `else`. What a predicate says about sizes in its version, and
    its opposite in the following ones, is found where it is needed (`payload/facts.py`): no type changes.
    """
    rewriter = ctx.rewriter
    block = _common_block(ctx, targets)
    ops = _convex(block, [_ancestor_in(block, op) for op in targets])
    _gather(rewriter, block, ops)
    if failure is not None:
        _assert(ctx, ops[0], predicates, failure)
    split = rewriter.new_split()
    versions: list[Version] = []
    copied = predicates if failure is None else predicates[:-1]
    for number, predicate in enumerate(copied):
        conditional = _version(ctx, ops, predicate, split, f"when {number}", f"~when{number}")
        versions.append(Version(conditional, 0))
    if failure is None:
        versions.append(Version(versions[-1].conditional, 1))
    else:
        versions.append(Version(_only_version(ctx, ops, predicates[-1]), 0))
    for op in ops:
        rewriter.extend_copy_path(op, split, "else" if failure is None else f"when {len(copied)}")
    for version in versions:
        fold_branches(rewriter, version.conditional)
    return tuple(versions)


def _assert(ctx: TransformContext, first: Operation, predicates: Sequence[Predicate], failure: Failure) -> None:
    """Where `first` is reached, one of the predicates holds: so says an assertion at the start of the function."""
    alternatives = [*_ways_round(first), *predicates]
    inner = [v.text for p in alternatives for v in p.variables()]
    if inner:
        raise ctx.fail(
            "`else fail` stands behind a condition that changes while the kernel runs",
            op=first,
            required="conditions on the sizes a kernel is called with, which are checked before it starts",
            found=f"the loop variable {', '.join(dict.fromkeys(inner))}",
            fix="schedule the rest in `else { ... }`",
        )
    func = ctx.rewriter.func_of(first)
    made = Assert.of(alternatives, failure.message)
    made.location, made.schedule_location = first.location, failure.location
    start = next(k for k, op in enumerate(func.body.ops) if not isinstance(op, Assert))
    ctx.rewriter.insert(made, InsertPoint(func.body, start))


def _ways_round(op: Operation) -> list[Predicate]:
    """The conditions any one of which keeps the branches round an operation from being taken."""
    found: list[Predicate] = []
    inner = op
    for outer in op.ancestors():
        if isinstance(outer, If) and inner.parent is outer.then:
            found += [Predicate((comparison.negate(),)) for comparison in outer.predicate.comparisons]
        elif isinstance(outer, If):
            found.append(outer.predicate)
        inner = outer
    return found


def _common_block(ctx: TransformContext, targets: Sequence[Operation]) -> Block:
    """The innermost block that holds all targets, directly or deeper."""
    if not targets:
        raise ctx.fail("there is nothing to make versions of", found="an empty list", required="at least one op")
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


def _version(
    ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate, split: int, side: str, suffix: str
) -> If:
    """Replace `ops` by `if predicate { copies } else { ops }`."""
    rewriter = ctx.rewriter
    conditional, used = _conditional(ctx, ops, predicate)
    mapping = CloneMap()
    copies = [rewriter.clone(op, InsertPoint.end(conditional.then), mapping, suffix) for op in ops]
    rewriter.insert(Yield([mapping.value(v) for v in used]), InsertPoint.end(conditional.then))
    _move(rewriter, ops, used, conditional.orelse)
    for copy in copies:
        rewriter.extend_copy_path(copy, split, side)
    return conditional


def _only_version(ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate) -> If:
    """Replace `ops` by `if predicate { ops }`; what the other branch gives is never used, and is nothing."""
    conditional, used = _conditional(ctx, ops, predicate)
    _move(ctx.rewriter, ops, used, conditional.then)
    for value in used:
        if not isinstance(value.type, TensorType):
            raise ctx.fail(
                f"`else fail` leaves %{value.name}, a value in registers, without a value",
                op=ops[0],
                required="versions of operations on tensors",
                found=f"%{value.name}: {value.type}",
                fix="specialize before vectorize",
            )
    nothing = [Empty.of(v.type) for v in used]
    for op, value in zip(nothing, used, strict=True):
        ctx.rewriter.insert(op, InsertPoint.end(conditional.orelse), f"{value.name}.none")
    ctx.rewriter.insert(Yield([op.result for op in nothing]), InsertPoint.end(conditional.orelse))
    return conditional


def _conditional(ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate) -> tuple[If, list[Value]]:
    """An empty conditional before `ops`, whose results replace those of the ops that are used elsewhere."""
    rewriter, group = ctx.rewriter, set(ops)
    used = [
        result
        for op in ops
        for result in op.results
        if any(not any(user.is_in(a) for a in group) for user, _ in result.uses)
    ]
    conditional = If([], [v.type for v in used], {"predicate": predicate}, [Block(), Block()])
    conditional.location = ops[0].location
    rewriter.insert(conditional, InsertPoint.before(ops[0]), ops[-1].name)
    conditional.schedule_location = ctx.location
    for value, result in zip(used, conditional.results, strict=True):
        rewriter.replace_uses(value, result, lambda user: not any(user.is_in(a) for a in group))
    return conditional, used


def _move(rewriter: Rewriter, ops: Sequence[Operation], used: Sequence[Value], block: Block) -> None:
    """Let `ops` be a branch that gives the values `used`."""
    for op in ops:
        rewriter.move(op, InsertPoint.end(block))
    rewriter.insert(Yield(used), InsertPoint.end(block))

"""Run-time versions: the ops round some targets, once per condition, behind an `if` on sizes."""

from collections.abc import Iterable, Sequence

from tcpx.limits import MOST_VERSIONS
from tcpx.payload.contexts import ways_around
from tcpx.payload.diagnostics import Direction, Location
from tcpx.payload.ir import Block, CloneMap, Operation, Value
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import TensorType
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered, move_into, replace_outside, used_outside
from tcpx.transform.elementwise import fills, repeats
from tcpx.transform.simplification import fold_branches


@frozen
class Failure:
    """What a call says for whose sizes there is no version, and the line of the schedule that says so."""

    message: str
    location: Location


@frozen
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
    its opposite in the following ones, is found where it is needed (`payload/contexts.py`): no type changes.
    """
    rewriter = ctx.rewriter
    origins = {origin: op for op in targets for origin in op.origins}
    ops = _with_repeated(ctx, gathered(ctx, targets))
    predicates = [p.map(lambda d: ctx.declared(ops[0], d)) for p in predicates]
    _check_known(ctx, ops[0], predicates)
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
    fold_branches(rewriter, versions[0].conditional)
    for origin, op in origins.items():
        _check_count(ctx, op, rewriter.origins.get(origin, ()))
    return tuple(versions)


def _with_repeated(ctx: TransformContext, ops: Sequence[Operation]) -> list[Operation]:
    """The operations, and before them the fills and broadcasts that they alone read: in a version these are part of
    what reads them, and before the versions they would be arrays."""
    found = list(ops)
    for op in found:  # grows
        for value in dict.fromkeys(v for inner in op.walk() for v in inner.operands):
            made = value.defining_op
            if not (fills(made) or repeats(made)) or made in found or made.parent is not ops[0].parent:
                continue
            if all(any(outer in found for outer in (user, *user.ancestors())) for user in made.result.users):
                found.append(made)
    moved = found[len(ops) :][::-1]
    for op in moved:
        ctx.rewriter.reorder(op, InsertPoint.before(ops[0]))
    return [*moved, *ops]


def _check_count(ctx: TransformContext, op: Operation, copies: Iterable[Operation]) -> None:
    """Raise ScheduleError for a computation, continued by `copies`, of which there are more than `MOST_VERSIONS`."""
    sides = {tuple((split, side) for split, side in copy.copy_path if _is_of_version(side)) for copy in copies}
    if len(sides) > MOST_VERSIONS:
        raise ctx.fail(
            f"%{op.name} would have too many versions",
            op=op,
            required=f"at most {MOST_VERSIONS} versions of one operation",
            found=f"{len(sides)}, with those of this `specialize` in each of the ones before",
            fix=Direction('ask less often, or only where it matters: specialize x.copy("when 0") when ..'),
        )


def _is_of_version(side: str) -> bool:
    return side == "else" or side.startswith("when ")


def _check_known(ctx: TransformContext, first: Operation, predicates: Sequence[Predicate]) -> None:
    """Raise ScheduleError for a condition on a loop variable that is not known where the choice is made."""
    known = {op.var for op in first.ancestors() if isinstance(op, Loop)}
    unknown = [v.text for p in predicates for v in p.variables() if v not in known]
    if unknown:
        raise ctx.fail(
            "the condition is about an iteration of a loop, and the versions are made outside that loop",
            op=first,
            required="a condition on what is known where one of them is chosen",
            found=f"the loop variable {', '.join(dict.fromkeys(unknown))}",
            fix=Direction("make versions of what is in the loop, or do it before the loop is made"),
        )


def _assert(ctx: TransformContext, first: Operation, predicates: Sequence[Predicate], failure: Failure) -> None:
    """Where `first` is reached, one of the predicates holds: so says an assertion at the start of the function."""
    alternatives = [*ways_around(first), *predicates]
    inner = [v.text for p in alternatives for v in p.variables()]
    if inner:
        raise ctx.fail(
            "`else fail` stands behind a condition that changes while the kernel runs",
            op=first,
            required="conditions on the sizes a kernel is called with, which are checked before it starts",
            found=f"the loop variable {', '.join(dict.fromkeys(inner))}",
            fix=Direction("schedule the rest in `else { ... }`"),
        )
    func = ctx.rewriter.func_of(first)
    made = Assert.of(alternatives, failure.message)
    made.location, made.schedule_location = first.location, failure.location
    ctx.rewriter.insert(made, InsertPoint.start(func.body))


def _version(
    ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate, split: int, side: str, suffix: str
) -> If:
    """Replace `ops` by `if predicate { copies } else { ops }`."""
    rewriter = ctx.rewriter
    conditional, used = _conditional(ctx, ops, predicate)
    mapping = CloneMap()
    copies = [rewriter.clone(op, InsertPoint.end(conditional.then), mapping, suffix) for op in ops]
    rewriter.insert(Yield([mapping.value(v) for v in used]), InsertPoint.end(conditional.then))
    move_into(rewriter, ops, used, conditional.orelse)
    for copy in copies:
        rewriter.extend_copy_path(copy, split, side)
    return conditional


def _only_version(ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate) -> If:
    """Replace `ops` by `if predicate { ops }`; what the other branch gives is never used, and is nothing."""
    conditional, used = _conditional(ctx, ops, predicate)
    move_into(ctx.rewriter, ops, used, conditional.then)
    for value in used:
        if not isinstance(value.type, TensorType):
            raise ctx.fail(
                f"`else fail` leaves %{value.name}, a value in registers, without a value",
                op=ops[0],
                required="versions of operations on tensors",
                found=f"%{value.name}: {value.type}",
                fix=Direction("specialize before vectorize"),
            )
    nothing = [new.empty(v.type) for v in used]
    for op, value in zip(nothing, used, strict=True):
        ctx.rewriter.insert(op, InsertPoint.end(conditional.orelse), f"{value.name}.none")
    ctx.rewriter.insert(Yield([op.result for op in nothing]), InsertPoint.end(conditional.orelse))
    return conditional


def _conditional(ctx: TransformContext, ops: Sequence[Operation], predicate: Predicate) -> tuple[If, list[Value]]:
    """An empty conditional before `ops`, whose results replace those of the ops that are used elsewhere."""
    rewriter, used = ctx.rewriter, used_outside(ops)
    conditional = If([], [v.type for v in used], {"predicate": predicate}, [Block(), Block()])
    conditional.location = ops[0].location
    rewriter.insert(conditional, InsertPoint.before(ops[0]), ops[-1].name)
    conditional.schedule_location = ctx.location
    replace_outside(rewriter, ops, used, conditional.results)
    return conditional, used

"""Two loops of which one has nothing but the other in it, in the other order."""

from dataclasses import replace
from itertools import product

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.disjointness import overlapping_yields
from tcpx.payload.distances import distance
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize, OnSubset, StYield, full_like, trip_count
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Var, substitute, variables
from tcpx.payload.subsets import Tile, compose, over_iterations
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType, shape_of, with_shape
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import is_undefined


@frozen
class _Destination:
    """What two nested loops write: the tile of an iteration of the outer one, what reads and writes parts of that in
    the inner one, and the tile of all iterations of the outer one together, for one of the inner; None where these
    leave gaps or differ from each other, so that an iteration is given all of the destination."""

    part: Tile
    uses: tuple[OnSubset, ...]
    whole: Tile | None
    is_read: bool
    """Whether the loops read it, or may leave it as it is."""


def swap(ctx: TransformContext, outer: Loop) -> Loop:
    """Let the loop in `outer` be round it. Returns that loop. Raises ScheduleError where the loops are not perfectly
    nested, or where an iteration might come before one that it depends on."""
    inner = only_loop_in(ctx, outer)
    first, second = _ranges(ctx, outer, inner)
    found = [_destination(ctx, outer, inner, number) for number in range(len(outer.destinations))]
    rewriter, base = ctx.rewriter, outer.results[0].name.split(".")[0]
    made = type(inner).over(first, list(outer.operands), Block([("", d.type) for d in outer.destinations]))
    rewriter.insert(made, InsertPoint.before(outer), base)
    starts: list[Value] = []
    for each, dest in zip(found, made.destinations, strict=True):
        if each.whole is None:
            starts.append(dest)
            continue
        empty = new.empty(with_shape(dest.type, each.whole.shape))
        start = Materialize.of(dest, each.whole) if each.is_read else empty
        starts.append(rewriter.insert(start, InsertPoint.end(made.body), f"{base}.out").result)
    within = type(outer).over(second, starts, Block([("", start.type) for start in starts]))
    rewriter.insert(within, InsertPoint.end(made.body), base)
    for each, dest, result in zip(found, made.destinations, within.results, strict=True):
        rewriter.insert(
            StYield.of(result, dest, each.whole or full_like(dest)), InsertPoint(made.body, len(made.body.ops))
        )
    for op in [*views_round(outer), *inner.body.ops]:
        rewriter.move(op, InsertPoint(within.body, len(within.body.ops)))
    for each, dest in zip(found, within.destinations, strict=True):
        for use in each.uses:
            tile = compose(each.part, use.subset)
            if each.whole is not None:
                tile = replace(
                    tile, offsets=tuple(a - b for a, b in zip(tile.offsets, each.whole.offsets, strict=True))
                )
            rewriter.set_attribute(use, "subset", tile)
            rewriter.set_operand(use, len(use.operands) - 1, dest)
    if first is not inner.var:
        rewriter.substitute(list(within.body.ops), {inner.var: first.size(), outer.var: second.size()})
    rewriter.continue_as(outer, within)
    rewriter.continue_as(inner, made)
    rewriter.replace_op(outer, made.results)
    for loop in (made, within):
        _check_parallel(ctx, loop)
    return made


def _check_parallel(ctx: TransformContext, loop: Loop) -> None:
    """Raise ScheduleError where nothing proves that the iterations of a parallel loop write elements of their own."""
    pairs = [overlapping_yields(loop, number) for number in range(len(loop.destinations))] if loop.is_parallel else []
    first = next((pair[0] for pair in pairs if pair is not None), None)
    if first is not None:
        raise ctx.fail(
            f"nothing proves that iterations of {loop.name} write different elements in this order",
            op=loop,
            required="a parallel loop whose iterations write a tile each, or a sequential loop",
            found=f"a yield to {first.subset.text()}",
            fix=Direction("`tile` without `parallel: true`, and `parallelize` after this step"),
        )


def check_counted(ctx: TransformContext, *loops: Loop) -> None:
    """Raise ScheduleError for a loop that runs while a condition holds."""
    for loop in loops:
        if not loop.is_counted:
            raise ctx.fail(
                f"how often {loop.name} runs, only the data say",
                op=loop,
                required="a loop with a number of iterations",
                found=loop.opcode,
                fix=Direction("transform the operations in it"),
            )


def only_loop_in(ctx: TransformContext, outer: Loop) -> Loop:
    """The loop in `outer`, if there is nothing else but what it reads and writes."""
    loops = [op for op in outer.body.ops if isinstance(op, Loop)]
    inner = loops[0] if loops else None
    between = next((op for op in outer.body.ops if op is not inner and not _belongs(op, inner)), None)
    if inner is None or between is not None:
        raise ctx.fail(
            f"{outer.name} has more in it than one loop" if inner is not None else f"there is no loop in {outer.name}",
            op=between or outer,
            required="a loop whose body is another loop",
            found=f"%{between.name or between.opcode}" if between is not None else "no loop",
        )
    check_counted(ctx, inner)
    alone = next((result for result in inner.results if not result.uses), None)
    if alone is not None:
        raise ctx.fail(
            f"{inner.name} begins %{alone.name} anew in each iteration of {outer.name}",
            op=inner,
            required=f"destinations that {outer.name} has, too",
            found=f"%{alone.name}, which nothing in {outer.name} reads",
        )
    return inner


def check_same_range(ctx: TransformContext, outer: Loop, inner: Loop) -> None:
    """Raise ScheduleError where the range of a loop depends on the one round it."""
    if is_stepped_range(inner, outer):
        raise _range_depends(ctx, outer, inner, f"bounds without %{outer.var.name}")


def is_stepped_range(inner: Loop, outer: Loop) -> bool:
    """Whether the range of a loop depends on the variable of one round it."""
    return any(outer.var in variables(d) for d in (inner.var.lower, inner.var.upper, inner.var.step))


def _range_depends(ctx: TransformContext, outer: Loop, inner: Loop, required: str) -> ScheduleError:
    return ctx.fail(
        f"the range of {inner.name} depends on {outer.name}", op=inner, required=required, found=inner.var.text
    )


def _ranges(ctx: TransformContext, outer: Loop, inner: Loop) -> tuple[Var, Var]:
    """The variables of the loops in the other order: of `inner`, over all that it has in any iteration of `outer`, and
    of `outer`, over those iterations that have the one of `inner`.

    Bounds that rise by whole steps in each iteration, such as those of a skewed loop or a triangle, give a band.
    """
    if not is_stepped_range(inner, outer):
        return inner.var, outer.var
    i, j = outer.var, inner.var
    rises = [substitute(bound, {i: i.size() + i.step}) - bound for bound in (j.lower, j.upper)]
    match (*rises, j.step):
        case (int(low), int(high), int(step)) if low >= 0 and high >= 0 and low % step == 0:
            pass
        case _:
            raise _range_depends(
                ctx, outer, inner, f"bounds that do not depend on %{i.name}, or rise by whole steps with it"
            )
    first, last = (substitute(bound, {i: i.lower}) for bound in (j.lower, j.upper))
    around = Var(j.name, first, last + high * (trip_count(outer) - 1), j.step)
    begin, end, here = i.lower, i.upper, context_at(outer)
    if high:
        begin = here.maximum(begin, i.lower + i.step * (here.floordiv(around - last, high) + 1))
    if low:
        end = here.minimum(end, i.lower + i.step * (here.floordiv(around - first, low) + 1))
    return around, Var(i.name, begin, end, i.step)


def _belongs(op: Operation, inner: Loop | None) -> bool:
    """Whether an operation only shows the loop what it reads and writes, or yields what it makes."""
    if Memory(op).leaves_undefined:
        return all(user is inner for user in op.results[0].users)
    return _shows(op) or (isinstance(op, StYield) and op.value.defining_op is inner)


def _shows(op: Operation) -> bool:
    """Whether an operation only moves elements, of which each iteration of a loop inside may take what it reads."""
    return isinstance(op, Materialize) or (isinstance(op, Structured) and op.is_movement and not op.inits)


def views_round(outer: Loop) -> list[Operation]:
    """What shows the loop in `outer` parts of what is outside of both."""
    return [op for op in outer.body.ops if _shows(op) and outer.body not in [v.owner for v in op.operands]]


def _destination(ctx: TransformContext, outer: Loop, inner: Loop, number: int) -> _Destination:
    """What the loops write to one destination, if they may do so in the other order."""
    dest = outer.destinations[number]
    given = handed_through(ctx, outer, inner, number)
    tiles = [replace(compose(given.store.subset, use.subset), dropped=()) for use in given.uses]
    may_run_not = context_at(outer).is_less_equal(1, trip_count(outer)) is not True
    unset = given.goes_on or is_undefined(outer.operands[number])
    wholes = [_over(tile, outer, shape_of(dest.type), unset or not may_run_not) for tile in tiles]
    whole = wholes[0] if wholes and not is_stepped_range(inner, outer) else None
    if any(other != whole for other in wholes):
        whole = None
    # Without an iteration of what is the inner loop then, nothing is written.
    is_left = given.goes_on and may_run_not and not any(outer.var in variables(d) for t in tiles for d in t.offsets)
    is_read = is_left or any(not isinstance(use, StYield) for use in given.uses)
    made = _Destination(given.store.subset, given.uses, whole, is_read)
    _check_order(ctx, outer, inner, made)
    return made


@frozen
class Handed:
    """A destination that a loop hands to one inside, which reads and writes parts of it."""

    store: StYield
    """What yields the result of the inner loop to it."""
    number: int
    """Which destination of the inner loop."""
    uses: tuple[OnSubset, ...]
    """What reads and writes the parts in the inner loop."""
    goes_on: bool
    """Whether the inner loop goes on from what is there, or writes from nothing."""


def handed_through(ctx: TransformContext, outer: Loop, inner: Loop, number: int) -> Handed:
    """How a destination of `outer` gets to `inner`. Raises ScheduleError where something else touches it."""
    found = handed(outer, inner, number)
    if isinstance(found, str):
        raise _not_written(ctx, outer, inner, outer.destinations[number], found)
    return found


def handed(outer: Loop, inner: Loop, number: int) -> Handed | str:
    """How a destination of `outer` gets to `inner`, or what else touches it."""
    dest, stores = outer.destinations[number], outer.yields_to(number)
    store = stores[0] if len(stores) == 1 else None
    if store is None or not isinstance(dest.type, TensorType) or store.value.defining_op is not inner:
        return f"{counted(len(stores), 'yield')} to %{dest.name}: {dest.type}"
    k = inner.results.index(store.value)
    start, inside = inner.operands[k].defining_op, inner.destinations[k]
    is_whole = inner.operands[k] is dest and store.is_of_all
    goes_on = is_whole or (isinstance(start, Materialize) and start.source is dest and start.subset == store.subset)
    others = [user for user, index in dest.uses if user not in (store, start) and (user is not inner or index != k)]
    uses = tuple(user for user in inside.users if isinstance(user, OnSubset) and user.subset_of is inside)
    is_plain = store.subset.has_unit_strides and not store.subset.dropped
    if len(inner.results[k].uses) > 1:
        return f"%{store.value.name}, which is written to another one, too"
    if others or len(uses) < len(inside.uses) or not is_plain or not (goes_on or is_undefined(inner.operands[k])):
        return f"%{inner.operands[k].name}, which {inner.name} goes on from"
    if not goes_on and any(not isinstance(use, StYield) for use in uses):
        return f"%{inside.name}, which {inner.name} reads"
    return Handed(store, k, uses, goes_on)


def _over(tile: Tile, loop: Loop, shape: tuple[Dim, ...], unset: bool) -> Tile | None:
    """The tile of all iterations of a loop; `unset`: it may be written where there are none."""
    named = {v for d in (*tile.offsets, *tile.sizes) for v in variables(d)}
    if loop.var not in named and unset:
        return tile
    return over_iterations(tile, loop.var, shape, context_at(loop).names)


def _not_written(ctx: TransformContext, outer: Loop, inner: Loop, dest: Value, found: str) -> Exception:
    return ctx.fail(
        f"%{dest.name} is not written by {inner.name} alone, in tiles that are one for each of its iterations",
        op=outer,
        required="a destination that the inner loop goes on from or writes from nothing, without gaps",
        found=found,
    )


def _check_order(ctx: TransformContext, outer: Loop, inner: Loop, found: _Destination) -> None:
    """Iterations that access the same elements stay in their order, or add to them in any."""
    if all(map(_accumulates, found.uses)):
        return
    for first, second in product(found.uses, repeat=2):
        writes = [use for use in (first, second) if isinstance(use, StYield)]
        tiles = [compose(found.part, use.subset) for use in (first, second)]
        if writes and distance(inner, *tiles, later_in=outer).may_be_earlier:
            raise ctx.fail(
                f"iterations of {outer.name} and {inner.name} depend on each other",
                op=outer,
                required="elements that iterations of one of them alone touch, or sums that may be added in any order",
                found=compose(found.part, writes[0].subset).text(),
            )


def _accumulates(use: OnSubset) -> bool:
    """Whether a use reads the accumulator of a sum that may be added in any order, or writes its result."""
    if isinstance(use, StYield):
        op = use.value.defining_op
        return (
            isinstance(op, Structured)
            and Reduction(op).is_commutative
            and Reduction.of(op) is not None
            and len(use.value.uses) == 1
        )
    users = [user for result in use.results for user in result.users]
    return all(isinstance(u, Structured) and Reduction(u).is_commutative and use.results[0] in u.inits for u in users)

"""A reduction that needs the result of another one, in the loop of that: online softmax and what is like it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import index_operands, map_dim
from tcpx.payload.interfaces import Build, Structured, padded
from tcpx.payload.ir import Operation, Value, is_in
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.algebra import Group, algebra
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.bodies import Body, combiner_of, pointwise
from tcpx.transform.convex import gathered, sources
from tcpx.transform.editing import rename_inside, source_name
from tcpx.transform.recomputation import ADDED
from tcpx.transform.separation import Change, Separation, Trace, absorbs, distributing
from tcpx.transform.sibling_fusion import check_alike, merged


def type_of(value: Value) -> TensorType:
    """The shape and dtype of a tensor."""
    return TensorType(shape_of(value.type), dtype_of(value.type))


@frozen
class Running:
    """A reduction into a destination of a loop: before and after an iteration, and what it has where all is neutral."""

    op: Structured
    number: int
    before: Value
    after: Value

    @property
    def neutral(self) -> float | int | None:
        """The neutral element of what is reduced."""
        neutrals = Reduction(self.op).neutrals()
        return None if neutrals is None else neutrals[self.number]


def fuse_dependent(ctx: TransformContext, loop: Loop, into: Loop) -> Loop:
    """Let `into` do what `loop` does, too, with what it has reduced so far in place of its results. What `loop` has
    reduced before is changed in each iteration as these do. Raises ScheduleError where it cannot be.

    Milakov and Gimelshein, Online normalizer calculation for softmax (2018), for any body that separates.
    """
    rewriter = ctx.rewriter
    check_alike(ctx, loop, into)
    _check_path(ctx, loop, into)
    used = [k for k, result in enumerate(into.results) if any(is_in(user, loop) for user, _ in result.uses)]
    if len(used) > 1:
        raise ctx.fail(
            f"{loop.name} needs several results of {into.name}",
            op=loop,
            required="one result that is not final",
            found=", ".join(f"%{into.results[k].name}" for k in used),
            fix=Direction("compute what needs both in a loop behind"),
        )
    running = _reduction(ctx, into, used[0])
    if running is None:
        raise ctx.fail(
            f"%{into.results[used[0]].name} is not reduced by one operation of {into.name}",
            op=into,
            required="a reduction of the whole result in each iteration",
            found=", ".join(f"%{end.value.name}" for end in into.yields_to(used[0]))
            or "a destination that is passed on",
            fix=Direction("`fuse_dependent` before what is in the loop is tiled"),
        )
    rewriter.replace_uses(into.results[used[0]], running.after, lambda user: is_in(user, loop))
    first = len(into.destinations)
    merged(ctx, loop, into)
    _correct_all(ctx, running, into, range(first, len(into.destinations)))
    return into


def _check_path(ctx: TransformContext, loop: Loop, into: Loop) -> None:
    """Raise ScheduleError unless `loop` needs results of `into`, and nothing lies between them."""
    path = gathered(ctx, (into, loop))
    if path[0] is not into or (len(path) == 2 and into not in sources(loop)):
        raise ctx.fail(
            f"{loop.name} needs nothing that {into.name} computes",
            op=loop,
            required=f"a loop that reads a result of {into.name}",
            found="the other way round" if path[0] is loop and len(path) > 1 else "loops side by side",
            fix=f"`fuse_dependent({into.name}, into: {loop.name})`" if path[0] is loop else "`fuse_siblings`",
        )
    if not set(into.results).isdisjoint(loop.operands):
        raise ctx.fail(
            f"{loop.name} begins with a result of {into.name}",
            op=loop,
            required="destinations that begin with something else",
            found=", ".join(f"%{value.name}" for value in loop.operands if value in into.results),
        )
    if len(path) > 2:
        raise ctx.fail(
            f"%{path[1].name} stands between {into.name} and {loop.name}",
            op=path[1],
            required=f"all that leads from the one to the other in {loop.name}",
            found=f"the path {' -> '.join(f'%{op.name}' for op in path)}",
            fix=Direction(f"`fuse` of %{path[-2].name} into {loop.name} before"),
        )


def _reduction(ctx: TransformContext, loop: Loop, number: int) -> Running | None:
    """The reduction of all of a destination, by one operation of the loop itself; None if it is something else."""
    dest, ends = loop.destinations[number], loop.yields_to(number)
    whole = Tile.full(shape_of(dest.type))
    op = ends[0].value.defining_op if len(ends) == 1 and ends[0].parent is loop.body else None
    if not isinstance(op, Structured) or not op.inits or Scan.of(op) is not None or not ends[0].is_of_all:
        return None
    index = op.results.index(ends[0].value)
    if op.inits[index] is dest:  # what is before is read before something is stored
        before = ctx.rewriter.insert(
            Materialize.of(dest, whole), InsertPoint.before(op), f"{source_name(op)}.acc"
        ).result
        inits = [before if k == index else value for k, value in enumerate(op.inits)]
        ctx.rewriter.set_operands(op, [*op.inputs, *inits])
    read = op.inits[index].defining_op
    if not isinstance(read, Materialize) or read.source is not dest or not read.is_of_all:
        return None
    return Running(op, index, read.result, op.results[index])


def _is_alone(loop: Loop, number: int, reduction: Running) -> bool:
    """Whether nothing else reads what is reduced so far, before or after an iteration."""
    reads = [*reduction.before.users, *reduction.after.users]
    return len(loop.destinations[number].users) == 2 and len(reads) == 2 and reads[0] is reduction.op


def _correct_all(ctx: TransformContext, running: Running, loop: Loop, numbers: Sequence[int]) -> None:
    """Change what is reduced into these destinations as the running result changes, before more is added."""
    needed = _leading_to([end for number in numbers for end in loop.yields_to(number)], running)
    reductions: dict[Operation, tuple[int, Running]] = {}
    for number in numbers:
        held = _reduction(ctx, loop, number)
        if held is not None and _is_alone(loop, number, held):
            reductions[held.op] = number, held
    separation = Separation(
        ctx,
        _first_traces(ctx, running, needed[0]),
        f"%{running.op.name} goes on",
        f"sums with %{running.op.name}, exponentials of these, and what is linear in them",
    )
    for op in needed:
        if isinstance(op, StYield):
            _check_final(ctx, separation, running, op)
            continue
        number, held = reductions.get(op, (0, None))
        separation.follow(op, accumulates=held is not None)
        if held is not None and any(separation.change(result) is not None for result in op.results):
            _correct(ctx, separation, running, held, loop.operands[number])


def _leading_to(ends: Sequence[Operation], running: Running) -> list[Operation]:
    """The operations that lead from a running result to these, in order, with them."""
    found = dict.fromkeys(ends)
    waiting = list(found)
    while waiting:
        for made in sources(waiting.pop()):
            if made.parent is running.op.parent and made is not running.op and made not in found:
                found[made] = None
                waiting.append(made)
    return sorted((op for op in found if op.order > running.op.order), key=lambda op: op.order)


def _first_traces(ctx: TransformContext, running: Running, before: Operation) -> dict[Value, Trace]:
    """Those of the running result, and of what is reduced where that is known."""
    op, number = running.op, running.number
    names = [map_dim(entry) for entry in op.result_maps()[number]]
    places, dtype = tuple(range(len(names))), dtype_of(running.after.type)

    def change(build: Build, args: Sequence[Value]) -> Value:
        """Nothing where they are equal: of two infinities, too."""
        nothing = build(new.literal(Group.SUM.identity, dtype))
        return build(new.select(build(new.equal(*args)), nothing, build(new.subtract(*args))))

    made = pointwise([(running.after, places), (running.before, places)], type_of(running.after), change)
    by = _insert(ctx, made, before, f"{source_name(op)}.change", op)
    combiner = combiner_of(op)
    sign = algebra(combiner).direction if combiner is not None else 0
    traces = {running.after: Trace(places, Change(Group.SUM, by, running.before, sign))}
    if is_irregular(op) or Scan.of(op) is not None or Masked(op).valid or index_operands(op.maps()):
        return traces
    body = Body.of(op)
    lifted = body.results[number]
    if lifted in body.elements and running.neutral is not None:
        index = body.elements.index(lifted)
        read, shape = [map_dim(entry) for entry in op.maps()[index]], shape_of(op.inputs[index].type)
        extents = dict(zip((it.name for it in op.iterators()), op.domain(), strict=True))
        is_all = None not in read and len({*read}) == len(read) and {*names} <= {*read}
        if is_all and have_equal_extents([extents[name] for name in read if name is not None], shape):
            value: Value | None = op.inputs[index]
            while value is not None:  # what is padded, too
                traces[value] = Trace(tuple(map(read.index, names)), None, float(running.neutral))
                value = padded(value.defining_op)
    return traces


def _insert(ctx: TransformContext, made: Structured, before: Operation, name: str, source: Operation) -> Value:
    """The result of a detached operation with a body, which stands for `source`."""
    made.stand_for(source)
    rename_inside(ctx.rewriter, made, before)
    inserted = ctx.rewriter.insert(made, InsertPoint.before(before), name)
    ctx.rewriter.set_note(inserted, ADDED, source.name)
    return inserted.result


def _check_final(ctx: TransformContext, separation: Separation, running: Running, end: StYield) -> None:
    """Raise ScheduleError where what is stored is not final."""
    made = end.value.defining_op
    if made is not None and separation.change(end.value) is not None:
        raise ctx.fail(
            f"%{made.name} is stored before %{running.op.name} is known",
            op=made,
            required="reductions of what depends on it",
            found=f"a store to %{end.destination.name}",
            fix=Direction("compute it in a loop behind"),
        )


def _correct(ctx: TransformContext, separation: Separation, running: Running, held: Running, begin: Value) -> None:
    """Let a reduction go on from what it has reduced before, changed as the running result is. `begin` is what its
    destination begins with."""
    op, first = held.op, begin.defining_op
    trace, neutrals = separation.traces.pop(held.after), Reduction(op).neutrals()
    change, dtype, limit = trace.change, dtype_of(held.after.type), running.neutral
    if len(op.results) > 1 or change is None or neutrals is None:
        raise separation.fail(op, "a reduction of several results")
    neutral, cls = neutrals[0], distributing(ctx, op, change.group)
    if number_of(begin) != neutral or not absorbs(change.group, neutral, dtype):
        raise ctx.fail(
            f"%{op.name} goes on from what is no part of it",
            op=op,
            required=f"a loop that begins with {neutral}",
            found=f"%{first.name}: {first.opcode}" if first is not None else "an argument",
        )
    if change.group is Group.SUM and change.sign == 0 and dtype.is_float:
        raise ctx.fail(
            f"%{running.op.name} may rise and fall",
            op=op,
            required="a running result that goes one way, as a maximum does",
            found=running.op.opcode,
        )
    guarded = limit is not None and isinf(limit)
    if guarded and trace.start != neutral:
        raise ctx.fail(
            f"%{op.name} may add something where all of %{running.op.name} so far is {limit}",
            op=op,
            required=f"{neutral} of elements that are {limit}",
            found="an unknown number" if trace.start is None else str(trace.start),
        )

    def changed(build: Build, args: Sequence[Value]) -> Value:
        made = build(cls([args[0], new.cast_to(build, args[1], dtype)], [dtype]))
        if limit is None or len(args) < 3:
            return made
        is_first = build(new.equal(args[2], build(new.literal(limit, dtype_of(args[2].type)))))
        return build(new.select(is_first, build(new.literal(neutral, dtype)), made))

    places = [dim for dim in trace.dims if isinstance(dim, int)]
    inputs = [(held.before, range(len(shape_of(held.before.type)))), (change.by, places)]
    inputs += [(change.before, places)] if guarded and change.before is not None else []
    made = pointwise(inputs, type_of(held.before), changed)
    ctx.rewriter.set_operands(op, [*op.inputs, _insert(ctx, made, op, f"{source_name(op)}.changed", op)])

"""A reduction that needs the result of another one, in the loop of that: online softmax and what is like it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from tcpx.payload.indexing_maps import dims, map_dim
from tcpx.payload.interfaces import Group, Iterator, IteratorKind, Structured, padded
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.types import dtype_of, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered, sources
from tcpx.transform.editing import rename_inside, source_name
from tcpx.transform.separation import Body, Change, Separation, Trace, absorbs, distributing, number_of
from tcpx.transform.sibling_fusion import check_alike, merged


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
        neutrals = self.op.neutrals()
        return None if neutrals is None else neutrals[self.number]


def fuse_dependent(ctx: TransformContext, loop: Loop, into: Loop) -> Loop:
    """Let `into` do what `loop` does, too, with what it has reduced so far in place of its results. What `loop` has
    reduced before is changed in each iteration as these do. Raises ScheduleError where it cannot be.

    Milakov and Gimelshein, Online normalizer calculation for softmax (2018), for any body that separates.
    """
    rewriter = ctx.rewriter
    check_alike(ctx, loop, into)
    _check_path(ctx, loop, into)
    used = [k for k, result in enumerate(into.results) if any(user.is_in(loop) for user, _ in result.uses)]
    if len(used) > 1:
        raise ctx.fail(
            f"{loop.name} needs several results of {into.name}",
            op=loop,
            required="one result that is not final",
            found=", ".join(f"%{into.results[k].name}" for k in used),
            fix="compute what needs both in a loop behind",
        )
    running = _running(ctx, into, used[0])
    rewriter.replace_uses(into.results[used[0]], running.after, lambda user: user.is_in(loop))
    first = len(into.destinations)
    merged(ctx, loop, into)
    _correct_all(ctx, running, into, into.destinations[first:])
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
            fix=f"`fuse` of %{path[-2].name} into {loop.name} before",
        )


def _running(ctx: TransformContext, loop: Loop, number: int) -> Running:
    """The reduction into a destination. Raises ScheduleError where it is none of one operation in the loop itself."""
    ends = loop.yields_to(number)
    value = ends[0].value if len(ends) == 1 and ends[0].parent is loop.body else None
    op = value.defining_op if value is not None else None
    if (
        value is None
        or not isinstance(op, Structured)
        or not op.inits
        or not _is_whole(ends[0])
        or _destination(op.inits[op.results.index(value)]) is not loop.destinations[number]
    ):
        raise ctx.fail(
            f"%{loop.results[number].name} is not reduced by one operation of {loop.name}",
            op=loop,
            required="a reduction of the whole result in each iteration",
            found=f"%{op.name}: {op.opcode}" if op is not None else f"{len(ends)} yields",
            fix="`fuse_dependent` before what is in the loop is tiled",
        )
    index = op.results.index(value)
    return Running(op, index, op.inits[index], value)


def _is_whole(end: StYield) -> bool:
    return end.subset.is_full(shape_of(end.destination.type))


def _destination(value: Value) -> Value:
    """What a tile of a destination is read from."""
    made = value.defining_op
    return value if made is None or not made.moves() else made.operands[0]


def _correct_all(ctx: TransformContext, running: Running, loop: Loop, destinations: Sequence[Value]) -> None:
    """Change what is reduced into these destinations as the running result changes, before more is added."""
    needed = _leading_to(
        [end for dest in destinations for end in loop.yields_to(loop.destinations.index(dest))], running
    )
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
        separation.follow(op)
        changes = any(separation.change(result) is not None for result in op.results)
        if changes and isinstance(op, Structured) and any(_destination(value) in destinations for value in op.inits):
            _correct(ctx, separation, running, op, loop)


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
    by = new.subtract(running.after, running.before)
    by.stand_for(op)
    by = ctx.rewriter.insert(by, InsertPoint.before(before), f"{source_name(op)}.change").result
    traces = {running.after: Trace(tuple(range(len(names))), Change(Group.SUM, by))}
    body = Body.of(op)
    lifted = body.results[number]
    if lifted in body.elements and running.neutral is not None:
        index = body.elements.index(lifted)
        read = [map_dim(entry) for entry in op.maps()[index]]
        if all(name in read for name in names):
            value: Value | None = op.inputs[index]
            while value is not None:  # what is padded, too
                traces[value] = Trace(tuple(map(read.index, names)), None, float(running.neutral))
                value = padded(value.defining_op)
    return traces


def _check_final(ctx: TransformContext, separation: Separation, running: Running, end: StYield) -> None:
    """Raise ScheduleError where what is stored is not final."""
    made = end.value.defining_op
    if made is not None and separation.change(end.value) is not None:
        raise ctx.fail(
            f"%{made.name} is stored before %{running.op.name} is known",
            op=made,
            required="reductions of what depends on it",
            found=f"a store to %{end.destination.name}",
            fix="compute it in a loop behind",
        )


def _correct(ctx: TransformContext, separation: Separation, running: Running, op: Structured, loop: Loop) -> None:
    """Let a reduction go on from what it has reduced before, changed as the running result is."""
    if len(op.results) > 1:
        raise separation.fail(op, "a reduction of several results")
    rewriter, old, trace = ctx.rewriter, op.inits[0], separation.traces.pop(op.result)
    change, neutrals, dtype = trace.change, op.neutrals(), dtype_of(op.result.type)
    others = [user for user in op.result.users if not isinstance(user, StYield)]
    if others:
        raise separation.fail(others[0], f"%{op.name}, which is not final either")
    first = loop.operands[loop.destinations.index(_destination(old))].defining_op
    begin = number_of(first)
    if change is None or neutrals is None:
        return
    cls = distributing(ctx, op, change.group)
    if begin is None or not absorbs(change.group, begin, dtype):
        raise ctx.fail(
            f"%{op.name} goes on from what is no part of it",
            op=op,
            required=f"a loop that begins with {neutrals[0]}",
            found=f"%{first.name}: {first.opcode}" if first is not None else "an argument",
        )
    limit = running.neutral
    guarded = limit is not None and isinf(limit)
    if guarded and trace.start != neutrals[0]:
        raise ctx.fail(
            f"%{op.name} may add something where all of %{running.op.name} so far is {limit}",
            op=op,
            required=f"{neutrals[0]} of elements that are {limit}",
            found="an unknown number" if trace.start is None else str(trace.start),
        )
    inputs = [old, change.by, *([running.before] if guarded else [])]
    places = [dim for dim in trace.dims if isinstance(dim, int)]
    own = dims(*(f"d{k}" for k in range(len(shape_of(old.type)))))
    block = Block(
        [(source_name(op), dtype), ("by", dtype_of(change.by.type)), ("before", running.op.acc_type)][: len(inputs)]
    )

    def build(inner: Operation) -> Value:
        block.append(inner)
        inner.result.name = inner.name = "changed"
        return inner.result

    changed = build(cls([block.args[0], new.cast_to(build, block.args[1], dtype)], [dtype]))
    if limit is not None and guarded:
        is_first = build(new.equal(block.args[2], build(new.literal(limit, dtype_of(running.before.type)))))
        changed = build(new.select(is_first, build(new.literal(neutrals[0], dtype)), changed))
    block.append(new.yielded([changed]))
    attributes: dict[str, Attribute] = {
        "iterators": tuple(Iterator(name, IteratorKind.PARALLEL).entry for name in map(map_dim, own) if name),
        "maps": (own, *(tuple(own[k] for k in places) for _ in inputs[1:]), own),
    }
    made = new.generic(inputs, [old.type], attributes, [block])
    made.stand_for(op)
    rename_inside(rewriter, made, op)
    rewriter.insert(made, InsertPoint.before(op), f"{source_name(op)}.changed")
    rewriter.set_operands(op, [*op.inputs, made.result])

"""Small edits every transform needs: reading a subset of a value, erasing what became dead, naming."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tcpx.payload.interfaces import Box, Build, Structured
from tcpx.payload.ir import Block, Operation, OpT, Value
from tcpx.payload.ops.gml_st import Loop, Materialize
from tcpx.payload.ops.memory import Pad
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, is_equal, maximum, minimum
from tcpx.payload.subsets import Tile, compose
from tcpx.payload.types import shape_of


def source_name(op: Operation) -> str:
    """The name of the operation in the source: without loop dims and copy marks."""
    return op.name.split("~")[0] or op.opcode.split(".")[-1]


def loops_stepping(op: Operation, dim: str) -> list[Loop]:
    """The loops round an operation that were made of this dim of it, outermost first."""
    stem = re.escape(f"{source_name(op)}/{dim}")
    loops = [a for a in op.ancestors() if isinstance(a, Loop)]
    return [a for a in reversed(loops) if re.fullmatch(rf"{stem}\d*", a.name.split("~")[0])]


def is_destination(value: Value) -> bool:
    """Whether a value is the destination of a loop."""
    return isinstance(value.owner, Block) and isinstance(value.owner.parent, Loop)


def first_of(value: Value) -> Value | None:
    """What the destination of a loop holds before the loop; None of any other value."""
    loop = value.owner.parent if isinstance(value.owner, Block) else None
    if not isinstance(loop, Loop) or value not in loop.destinations:
        return None
    return loop.operands[loop.destinations.index(value)]


def whole_of(value: Value) -> Value:
    """What a value is a subset of; itself if it is none."""
    while isinstance(value.defining_op, Materialize):
        value = value.defining_op.operands[0]
    return value


def read_subset(rewriter: Rewriter, value: Value, tile: Tile, at: Operation | InsertPoint) -> Value:
    """The value of a subset: the value itself if the subset is all of it; subsets of subsets are composed."""
    if tile.is_full(shape_of(value.type)) is True and not is_destination(value):
        return value
    source, subset = value, tile
    definition = value.defining_op
    if isinstance(definition, Pad):
        inner = _inside_pad(definition, tile)
        if inner is not None:
            point = at if isinstance(at, InsertPoint) else InsertPoint.before(at)
            unpadded = read_subset(rewriter, definition.operands[0], inner, point)
            made = Pad.of(unpadded, tile.sizes, definition.value)
            made.attributes.update(definition.attributes)
            read = unpadded.defining_op
            after = InsertPoint.after(read) if read is not None and read.parent is point.block else point
            return rewriter.insert(made, after, f"{value.name.split('.')[0]}.p").result
    if isinstance(definition, Structured) and definition.is_movement and definition.init is None:
        box = definition.iteration_of_result(tile)
        if box is not None:
            return _moved(rewriter, definition, box, at if isinstance(at, InsertPoint) else InsertPoint.before(at))
    if isinstance(definition, Materialize) and not is_destination(definition.operands[0]):
        source, subset = definition.operands[0], compose(definition.subset, tile)
    point = at if isinstance(at, InsertPoint) else InsertPoint.before(at)
    return rewriter.insert(Materialize.of(source, subset), point, f"{value.name.split('.')[0]}.t").result


def _moved(rewriter: Rewriter, op: Structured, box: Box, point: InsertPoint) -> Value:
    """What data movement makes in these iterations, of the subsets that they read."""
    operands = [read_subset(rewriter, v, op.operand_tile(k, box), point) for k, v in enumerate(op.inputs)]
    reads = [v.defining_op for v in operands if v.defining_op is not None and v.defining_op.parent is point.block]
    after = InsertPoint.after(reads[0]) if reads else point
    made = rewriter.insert(op.on_box(operands, box), after, f"{op.result.name.split('.')[0]}.t")
    made.name = op.name
    return made.results[0]


def follow_reads(rewriter: Rewriter, values: Sequence[Value], reads: Sequence[Value]) -> None:
    """Let the handles of data movement that nothing else uses any more follow it to where its tiles are moved."""
    moved: dict[Operation, list[Operation]] = {}
    pending = [*zip(values, reads, strict=False)]
    for value, read in pending:
        old, new = value.defining_op, read.defining_op
        while isinstance(new, Pad) and not isinstance(old, Pad):
            new = new.operands[0].defining_op
        if not isinstance(old, Structured) or not old.is_movement or old is new or not moved.keys() >= {*value.users}:
            continue
        if isinstance(new, Structured) and type(new) is type(old):
            moved.setdefault(old, []).append(new)
            pending.extend(zip(old.inputs, new.inputs, strict=True))
    for old, made in moved.items():
        origins = old.origins
        rewriter.continue_as(old, made[0])
        rewriter.rename(made[0], old.name)
        for copy in made[1:]:
            rewriter.set_origins(copy, origins)


def _inside_pad(op: Pad, tile: Tile) -> Tile | None:
    """The subset of what is padded that a subset of the result shows: along a padded dim, what is not padding."""
    if tile.dropped or not tile.has_unit_strides:
        return None
    before, after = shape_of(op.operands[0].type), shape_of(op.result.type)
    sizes: list[Dim] = []
    for offset, size, have, wide in zip(tile.offsets, tile.sizes, before, after, strict=True):
        if is_equal(have, wide) is True:
            sizes.append(size)
        elif is_equal(offset, 0) is True and is_equal(size, wide) is True:
            sizes.append(have)
        else:
            sizes.append(maximum(0, minimum(size, have - offset)))
    return Tile(tile.offsets, tuple(sizes))


def replace_with(rewriter: Rewriter, old: Operation, made: OpT) -> OpT:
    """Let a detached operation take the place, the name and the handles of `old`."""
    rename_inside(rewriter, made, old)
    rewriter.insert(made, InsertPoint.before(old), source_name(old))
    rewriter.rename(made, old.name)
    rewriter.continue_as(old, made)
    rewriter.replace_op(old, made.results)
    return made


def rename_inside(rewriter: Rewriter, made: Operation, place: Operation) -> None:
    """Let what a detached operation defines inside have names that are free where it will stand."""
    for inner in made.walk():
        own = inner.results if inner is not made else []
        for value in [*own, *(arg for block in inner.regions for arg in block.args)]:
            value.name = rewriter.fresh_name(place, value.name) if value.name else ""
        if own:
            inner.name = own[0].name


def is_pure(op: Operation) -> bool:
    """Whether an operation and all inside it only compute results."""
    if op.has_side_effects or op.is_terminator:
        return False
    dests = {id(a) for inner in op.walk() for block in inner.regions for a in block.args}
    for block in op.regions:
        for inner in block.ops:
            for nested in inner.walk():
                if nested.has_side_effects and (not nested.operands or id(nested.operands[-1]) not in dests):
                    return False
    return True


def _defined_in(value: Value, op: Operation) -> bool:
    """Whether a value belongs to the operation or to something inside it."""
    holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
    return holder is not None and holder.is_in(op)


Copies = dict[Operation, list[Operation]]
"""By operation: where its tiles are computed, once for each of its uses."""


def erase_dead(rewriter: Rewriter, values: Iterable[Value], copies: Copies | None = None) -> None:
    """Erase the operations that define these values, and what they alone used, where nothing uses them.

    The handle of one that has `copies` denotes these.
    """
    pending = list(values)
    while pending:
        op = pending.pop().defining_op
        if op is None or op.parent is None or any(r.uses for r in op.results) or not is_pure(op):
            continue
        operands = list(dict.fromkeys(v for inner in op.walk() for v in inner.operands if not _defined_in(v, op)))
        origins = op.origins
        kept = [copy for copy in (copies or {}).get(op, ()) if copy.parent is not None and origins]
        for copy in kept[1:]:
            rewriter.set_origins(copy, origins)
        if kept:
            rewriter.continue_as(op, kept[0])
        else:
            rewriter.end(op, "nothing used its result")
        rewriter.erase(op)
        pending.extend(operands)


def builder_at(rewriter: Rewriter, before: Operation, base: str) -> Build:
    """A `Build` that inserts before an operation."""

    def build(op: Operation) -> Value:
        op.stand_for(before)
        return rewriter.insert(op, InsertPoint.before(before), base).result

    return build

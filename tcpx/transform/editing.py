"""Small edits every transform needs: reading a subset of a value, erasing what became dead, naming."""

import re
from collections.abc import Iterable, Sequence

from tcpx.payload.contexts import context_of
from tcpx.payload.interfaces import Box, Build, Structured, Tileable
from tcpx.payload.ir import Block, FuncOp, Operation, OpT, Value, is_in, parent_op
from tcpx.payload.memory_effects import MoveKind
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield, full_like
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.subsets import Tile, compose
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform import new


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


def is_undefined(value: Value) -> bool:
    """Whether a value is made as one whose elements have no value yet."""
    return value.defining_op is not None and Memory(value.defining_op).leaves_undefined


def whole_of(value: Value) -> Value:
    """What a value is a subset of; itself if it is none."""
    while isinstance(value.defining_op, Materialize):
        value = value.defining_op.operands[0]
    return value


def read_subset(rewriter: Rewriter, value: Value, tile: Tile, at: Operation | InsertPoint) -> Value:
    """The value of a subset: the value itself if the subset is all of it; subsets of subsets are composed."""
    point = at if isinstance(at, InsertPoint) else InsertPoint.before(at)
    if tile.is_full(shape_of(value.type), context_of(point.block).names) and not is_destination(value):
        return value
    definition = value.defining_op
    through = _read_through(rewriter, definition, tile, point) if isinstance(definition, Tileable) else None
    if through is not None:
        return through
    if isinstance(definition, Structured) and definition.is_movement and not definition.inits:
        box = definition.iteration_of_result(tile)
        if box is not None:
            return _moved(rewriter, definition, box, point)
    source, subset = value, tile
    if isinstance(definition, Materialize) and still_holds(definition, point):
        source, subset = definition.operands[0], compose(definition.subset, tile)
    return rewriter.insert(Materialize.of(source, subset), point, f"{value.name.split('.')[0]}.t").result


def still_holds(read: Materialize, point: InsertPoint) -> bool:
    """Whether what a subset was read of holds the same at a point after it, whatever steps do later. A destination does
    where one operation of the body is around both, with no yield to it."""
    dest, here = read.operands[0], point.block.parent
    around = next((op for op in read.ancestors() if op.parent is dest.owner), None)
    if not is_destination(dest) or around is None or here is None:
        return not is_destination(dest)
    return is_in(here, around) and not any(is_in(store, around) for store in _yields_to(dest))


def _yields_to(dest: Value) -> list[StYield]:
    loop = dest.owner.parent if isinstance(dest.owner, Block) else None
    return loop.yields_to(loop.destinations.index(dest)) if isinstance(loop, Loop) else []


def _changes_between(dest: Value, one: InsertPoint, other: InsertPoint) -> bool:
    """Whether a yield to the destination of a loop may run between two places; outside of the loop it is no value."""
    if not isinstance(dest.owner, Block):
        return False
    places = [_place_in(dest.owner, point) for point in (one, other)]
    found = [place for place in places if place is not None]
    if len(found) < len(places):
        return True
    passed = dest.owner.ops[min(first for first, _ in found) : max(end for _, end in found)]
    return any(is_in(store, op) for op in passed for store in _yields_to(dest))


def _place_in(body: Block, point: InsertPoint) -> tuple[int, int] | None:
    """The operations of a block, by index, from the first to before the last, that a place in it is inside of: none if
    it is between two of them. None if it is not in the block."""
    if point.block is body:
        return point.index, point.index
    around = point.block.parent
    while around is not None and around.parent is not body:
        around = parent_op(around)
    return (body.index(around), body.index(around) + 1) if around is not None else None


def destinations_of(op: Operation) -> tuple[list[Value], list[Value]]:
    """The destinations of loops around an operation that it, or one inside it, reads, and those that it yields to."""
    read, written = dict[Value, None](), dict[Value, None]()
    for inner in op.walk():
        stored = inner.destination if isinstance(inner, StYield) else None
        for value in inner.operands:
            if is_destination(value) and not _defined_in(value, op):
                (written if value is stored else read)[value] = None
    return list(read), list(written)


def first_change(op: Operation, point: InsertPoint) -> Value | None:
    """A destination of a loop that an operation, or one inside it, reads, and that changes between it and a point."""
    read, _ = destinations_of(op)
    return next((value for value in read if _changes_between(value, InsertPoint.before(op), point)), None)


def kept_of(rewriter: Rewriter, value: Value, part: Tile, point: InsertPoint, base: str) -> Value:
    """What of a value is no padding."""
    if shape_of(value.type) == part.shape:
        return value
    return rewriter.insert(Materialize.of(value, Tile.full(part.shape)), point, base).result


def _moved(rewriter: Rewriter, op: Structured, box: Box, point: InsertPoint) -> Value:
    """What data movement makes in these iterations, of the subsets that they read."""
    operands = [read_subset(rewriter, v, op.operand_tile(k, box), point) for k, v in enumerate(op.inputs)]
    reads = [v.defining_op for v in operands if v.defining_op is not None and v.defining_op.parent is point.block]
    after = InsertPoint.after(reads[0]) if reads else point
    made = rewriter.insert(op.on_box(operands, box), after, f"{op.result.name.split('.')[0]}.t")
    rewriter.rename(made, op.name)
    return made.results[0]


def _read_through(rewriter: Rewriter, view: Tileable, tile: Tile, point: InsertPoint) -> Value | None:
    """What a tile of a view shows, of tiles of its operands; None where it shows none, or only names the memory of its
    operand by another shape."""
    if any(move.kind is MoveKind.RESHAPE for move in Memory(view).moves()):
        return None
    parts: list[Value] = []

    def read(operand: int, part: Tile) -> Value:
        parts.append(read_subset(rewriter, view.operands[operand], part, _behind(parts, point)))
        return parts[-1]

    def made(op: Operation) -> Value:
        suffix = "p" if isinstance(op, Tileable) and ViewLike(op).rest is not None else "t"
        parts.append(rewriter.insert(op, _behind(parts, point), f"{view.result.name.split('.')[0]}.{suffix}").result)
        return parts[-1]

    found = new.shown(view, tile, read, made)
    dense = tile.dense()
    if found is not None or dense == tile or ViewLike(view).pieces(dense) is None:
        return found
    parts.append(read_subset(rewriter, view.result, dense, point))
    return made(Materialize.of(parts[-1], tile.order_in_dense()))


def _behind(values: Sequence[Value], point: InsertPoint) -> InsertPoint:
    """The point, or the one behind the last operation in its block that makes one of some values."""
    ops = [v.defining_op for v in values]
    places = [point.block.index(op) + 1 for op in ops if op is not None and op.parent is point.block]
    return InsertPoint(point.block, max([point.index, *places]))


def show_views(rewriter: Rewriter, ops: Iterable[Operation]) -> None:
    """Replace views that no stage knows by what all of them shows."""
    for view in [op for op in ops if isinstance(op, Tileable) and ViewLike(op).is_made_of_others]:
        if view.parent is not None:  # else only another view read it
            _show_view(rewriter, view)


def _show_view(rewriter: Rewriter, view: Tileable) -> None:
    made = builder_at(rewriter, view, source_name(view))

    def read(operand: int, part: Tile) -> Value:
        return read_subset(rewriter, view.operands[operand], part, view)

    value = new.shown(view, full_like(view.result), read, made)
    if value is None:
        raise view.error("all of it shows no tiles of operands", required="a view that says its `pieces`")
    if value in view.operands:
        rewriter.end(view, "it is all of its operand, as that is")
    elif value.defining_op is not None:
        rewriter.rename(value.defining_op, view.name)
        rewriter.continue_as(view, value.defining_op)
    operands = list(view.operands)
    rewriter.replace_op(view, [value])
    erase_dead(rewriter, operands)


def follow_reads(rewriter: Rewriter, values: Sequence[Value], reads: Sequence[Value]) -> None:
    """Let the handles of views and of data movement that nothing else uses any more follow them to where their tiles
    are made."""
    moved: dict[Operation, list[Operation]] = {}
    pending = [*zip(values, reads, strict=False)]
    for value, read in pending:
        old, made = value.defining_op, read.defining_op
        while new.padded(old) is None and (inside := new.padded(made)) is not None:
            made = inside.defining_op
        if not isinstance(old, Tileable) or not isinstance(made, Tileable) or type(made) is not type(old):
            continue
        if made is old or not moved.keys() >= {*value.users}:
            continue
        is_movement = isinstance(old, Structured) and old.is_movement
        if is_movement or ViewLike(old).pieces(full_like(value)) is not None:
            moved.setdefault(old, []).append(made)
        if is_movement:
            pending.extend(zip(old.inputs, made.inputs, strict=True))
    for old, copies in moved.items():
        origins = old.origins
        rewriter.continue_as(old, copies[0])
        rewriter.rename(copies[0], old.name)
        for copy in copies[1:]:
            rewriter.set_origins(copy, origins)


def with_called(rewriter: Rewriter, root: Operation) -> Sequence[Operation]:
    """A function and those that it calls, or another operation alone."""
    return rewriter.module.reached(root) if isinstance(root, FuncOp) else [root]


def replace_with(rewriter: Rewriter, old: Operation, made: OpT) -> OpT:
    """Let a detached operation take the place, the name and the handles of `old`."""
    rename_inside(rewriter, made, old)
    rewriter.insert(made, InsertPoint.before(old), source_name(old))
    rewriter.rename(made, old.name)
    rewriter.continue_as(old, made)
    rewriter.replace_op(old, made.results)
    return made


def replace_by_read(rewriter: Rewriter, op: Operation, value: Value) -> None:
    """Let what uses the one result of an operation use a value that it reads. A yield that hands on a destination gets
    what that holds here: another yield may change it before that one."""
    handed_on = any(isinstance(user, StYield) for user in op.results[0].users)
    if handed_on and is_destination(value) and isinstance(value.type, TensorType):
        read = Materialize.of(value, full_like(value))
        value = rewriter.insert(read, InsertPoint.before(op), f"{value.name}.now").result
    rewriter.replace_op(op, [value])


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
    if Memory(op).has_side_effects or op.is_terminator:
        return False
    dests = {id(a) for inner in op.walk() for block in inner.regions for a in block.args}
    for block in op.regions:
        for inner in block.ops:
            for nested in inner.walk():
                changes = Memory(nested).has_side_effects and not Memory(nested).is_hint
                if changes and (not nested.operands or id(nested.operands[-1]) not in dests):
                    return False
    return True


def _defined_in(value: Value, op: Operation) -> bool:
    """Whether a value belongs to the operation or to something inside it."""
    holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
    return holder is not None and is_in(holder, op)


Copies = dict[Operation, list[Operation]]
"""By operation: where its tiles are computed, once for each of its uses."""


def erase_dead(
    rewriter: Rewriter, values: Iterable[Value], copies: Copies | None = None, within: Operation | None = None
) -> None:
    """Erase the operations that define these values, and what they alone used, where nothing uses them; of what stands
    `within` an operation, if one is given.

    The handle of one that has `copies` denotes these.
    """
    pending = list(values)
    while pending:
        op = pending.pop().defining_op
        if op is None or op.parent is None or any(r.uses for r in op.results) or not is_pure(op):
            continue
        if within is not None and not is_in(op, within):
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
        return rewriter.insert(op, InsertPoint.before(before), base).results[0]

    return build

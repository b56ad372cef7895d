"""Tiling: a loop around an operation that computes one tile of its result per iteration."""

from collections.abc import Mapping, Sequence

from tcpx.payload.contexts import are_equal_at, context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import map_name
from tcpx.payload.interfaces import Box, Structured, Tileable, pads_freely
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import For, Loop, Materialize, Parallel, StYield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, Var, maximum, minimum
from tcpx.payload.sizes.bounds import is_less_equal
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.traits.view import Padding, ViewLike
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import erase_dead, first_of, follow_reads, read_subset, source_name


def tile(
    rewriter: Rewriter, op: Tileable, dim: str, size: Dim, parallel: bool = False, shift: bool = False
) -> tuple[Loop, Tileable]:
    """Wrap `op` in a loop over `dim` by `size`; the last tile is shorter, or, with `shift`, ends at the end of the dim
    and overlaps the previous tile. Returns the loop and the op inside.

    A parallel dim yields disjoint tiles of each result. A reduction dim turns the op into its accumulating form:
    the loop's destinations start as `init`, or as fills of the neutral element.
    """
    iterators, domain = op.iterators(), op.extents()
    position = [it.name for it in iterators].index(dim)
    reduces = iterators[position].is_reduction
    name = rewriter.ordinal_name(op, f"{source_name(op)}/{dim}")
    var = Var(name, 0, domain[position], size)
    inputs = op.inputs
    starts = op.inits or _first_values(rewriter, op, reduces)
    body = Block([("", start.type) for start in starts])
    kind = Parallel if parallel else For
    loop = kind.over(var, starts, body)
    loop.location = op.location
    rewriter.insert(loop, InsertPoint.before(op), source_name(op))
    loop.copy_path = op.copy_path

    part = _part(var, domain[position], shift, context_at(op).names)
    box = Box.at_origin(domain).along(position, *part)
    operands = read_inputs(rewriter, op, box, body)
    parts = [(dest, op.result_tile(box, k)) for k, dest in enumerate(loop.destinations)]
    if reduces or op.inits:
        for dest, part in parts:
            read = Materialize.of(dest, part)
            operands.append(rewriter.insert(read, InsertPoint(body, len(body.ops)), f"{source_name(op)}.acc").result)
    made = rewriter.insert(op.on_box(operands, box), InsertPoint(body, len(body.ops)), source_name(op))
    rewriter.rename(made, op.name)
    for result, (dest, part) in zip(made.results, parts, strict=True):
        rewriter.insert(StYield.of(result, dest, part), InsertPoint(body, len(body.ops)))
    rewriter.continue_as(op, made)
    rewriter.replace_op(op, loop.results)
    follow_reads(rewriter, inputs, operands)
    erase_dead(rewriter, inputs)
    return loop, _tileable(made)


def _tileable(made: Operation) -> Tileable:
    if not isinstance(made, Tileable):
        raise made.error("an operation on tiles can be tiled again", required="an operation with the Tiling interface")
    return made


def _part(var: Var, extent: Dim, shift: bool, known: KnownSymbols) -> tuple[Dim, Dim]:
    """The offset and size of an iteration's tile in a dim."""
    first, size = Size.of(var), var.step
    if extent == 0:
        return first, size  # no iteration runs, so no tile is shorter
    if not shift:
        return first, minimum(size, extent - first, known=known)
    last = extent - size
    fits = is_less_equal(size, extent, known) is True
    begin = minimum(first, last if fits else maximum(0, last, known=known), known=known)
    return begin, minimum(size, extent, known=known)


def read_inputs(rewriter: Rewriter, op: Tileable, box: Box, body: Block) -> list[Value]:
    """The parts of the inputs that a box of iterations of `op` reads, read at the end of `body`.

    A broadcast operand of a reduction stays outside: it may be packed, and its padding is not a broadcast.
    """
    reduces = any(it.is_reduction for it in op.iterators())
    operands: list[Value] = []
    for index, value in enumerate(op.inputs):
        tile, point = op.operand_tile(index, box), InsertPoint(body, len(body.ops))
        if reduces and _repeats(value.defining_op) and not tile.is_full(shape_of(value.type), context_at(op).names):
            operands.append(rewriter.insert(Materialize.of(value, tile), point, f"{value.name.split('.')[0]}.t").result)
        else:
            operands.append(read_subset(rewriter, value, tile, point))
    return operands


def _repeats(op: Operation | None) -> bool:
    """Whether an operation is data movement whose result has a dim that no operand has: a broadcast, a fill."""
    if not isinstance(op, Structured) or not op.is_movement:
        return False
    read = {map_name(e) for m in op.maps() for e in m}
    return any(map_name(e) not in read for e in op.result_map())


def _first_values(rewriter: Rewriter, op: Tileable, reduces: bool) -> list[Value]:
    """The initial value of each destination: the neutral element for a reduction, else undefined."""
    before = InsertPoint.before(op)
    if not reduces:
        return [rewriter.insert(new.empty(r.type), before, f"{source_name(op)}.out").result for r in op.results]
    neutrals = Reduction(op).neutrals() if isinstance(op, Structured) else None
    if neutrals is None:
        raise op.error(
            "a reduction dim without a neutral element cannot be tiled", required="a combiner with a neutral element"
        )
    fills: list[Value] = []
    for k, (number, result) in enumerate(zip(neutrals, op.results, strict=True)):
        if isinstance(op, Structured) and not Reduction(op).has_accumulator(k):
            fills.append(rewriter.insert(new.empty(result.type), before, f"{source_name(op)}.out").result)
            continue
        fill = rewriter.insert(new.fill(number, result.type), before, f"{source_name(op)}.start")
        fill.location = op.location
        fill.copy_path = op.copy_path
        fills.append(fill.result)
    return fills


def check_on_tensors(ctx: TransformContext, op: Operation) -> None:
    """Raise ScheduleError for an operation on vectors or scalars: it has no subsets."""
    if any(not isinstance(result.type, TensorType) for result in op.results):
        raise ctx.fail(
            f"%{op.name} is not on tensors any more",
            op=op,
            required="an operation on tensors",
            found=", ".join(str(result.type) for result in op.results),
            fix=Direction("do this before `vectorize` and `bufferize`"),
        )


def check_not_whole(ctx: TransformContext, op: Tileable, dim: str, done: str) -> None:
    """Raise ScheduleError for a dim that is never split or padded; `done` names what was asked for."""
    if op.iterator(dim).is_whole:
        raise ctx.fail(
            f"`{dim}` of %{op.name} is never {done}: each element depends on all of it",
            op=op,
            required="another dim",
            found=f"whole dim `{dim}`",
            fix=None if isinstance(op, Structured) else Direction("decompose the operation first"),
        )


def pad(rewriter: Rewriter, op: Tileable, sizes: Mapping[str, Dim]) -> Tileable:
    """Compute `op` on dims padded to `sizes`; operands are padded, the result is sliced.

    Reduction dims are padded with values that contribute nothing, if there are any, or computed under a mask.
    """
    iterators, actual = op.iterators(), op.extents()
    padded = Box.at_origin([sizes.get(it.name, d) for it, d in zip(iterators, actual, strict=True)])
    grown = [k for k, (a, b) in enumerate(zip(padded.sizes, actual, strict=True)) if not are_equal_at(op, a, b)]
    if not grown:
        return op
    if not Padding(op).pads_operands:
        return _pad_result(rewriter, op, padded.sizes)
    reductions = [k for k in grown if iterators[k].is_reduction]
    reduced = bool(reductions)
    if isinstance(op, Structured):
        reduced = (
            reduced and Scatter.of(op) is None and all(_has_neutral_padding(op, k, padded.sizes[k]) for k in reductions)
        )
    operands: list[Value] = []
    for index, value in enumerate(op.inputs):
        fill = Padding(op).pad_value(index, reduced)
        shape = op.operand_tile(index, padded).shape
        part = op.operand_tile(index, Box.at_origin(actual))
        read = (
            value
            if part.is_full(shape_of(value.type), context_at(op).names)
            else read_subset(rewriter, value, part, op)
        )
        operands.append(pad_value_to(rewriter, read, shape, fill, not reduced and pads_freely(op, index), op))
    for k, value in enumerate(op.inits):
        operands.append(
            pad_value_to(rewriter, value, op.result_tile(padded, k).shape, accumulator_padding(op, k), True, op)
        )
    wide = op.on_box(operands, padded)
    if reductions and not reduced and isinstance(wide, Structured):
        Masked(wide).mask({**{iterators[k].name: actual[k] for k in reductions}, **Masked(wide).valid})
    made = rewriter.insert(wide, InsertPoint.before(op), source_name(op))
    if isinstance(op, Structured) and positions_read(op):
        made.verify()  # its number of iterations has grown
    rewriter.rename(made, op.name)
    rewriter.continue_as(op, made)
    kept: list[Value] = []
    for old, wide in zip(op.results, made.results, strict=True):
        part = Tile.full(shape_of(old.type))
        if part.is_full(shape_of(wide.type), context_at(op).names):
            kept.append(wide)
        else:
            read = Materialize.of(wide, part)
            kept.append(rewriter.insert(read, InsertPoint.before(op), f"{source_name(op)}.t").result)
    old_inputs = list(op.operands)
    rewriter.replace_op(op, kept)
    follow_reads(rewriter, old_inputs, operands)
    erase_dead(rewriter, old_inputs)
    return _tileable(made)


def accumulator_padding(op: Tileable, number: int) -> float | int:
    """The padding of the accumulator of a result."""
    neutrals = Reduction(op).neutrals() if isinstance(op, Structured) else None
    return neutrals[number] if neutrals is not None else 0


def _pad_result(rewriter: Rewriter, op: Tileable, sizes: Sequence[Dim]) -> Tileable:
    """Let all readers of the result read the valid part of it, padded to `sizes`. Returns `op`, or the new padding."""
    result, uses = op.result, op.result.users
    if not uses or op.parent is None:
        return op
    behind = op.parent.ops[op.parent.index(op) + 1]
    wide = pad_value_to(rewriter, result, sizes, 0, True, behind)
    part = Materialize.of(wide, Tile.full(shape_of(result.type)))
    kept = rewriter.insert(part, InsertPoint.before(behind), f"{source_name(op)}.t")
    rewriter.replace_uses(result, kept.result, lambda user: user in uses)
    made = wide.defining_op
    if result.uses or not isinstance(made, Tileable):
        return op
    rewriter.rename(made, op.name)
    rewriter.continue_as(op, made)
    erase_dead(rewriter, [result])
    return made


def _has_neutral_padding(op: Tileable, dim: int, size: Dim) -> bool:
    """Whether every operand has the dim by itself, and can be padded with values that contribute nothing: padding one
    factor is not enough, since 0 times infinity is not 0."""
    actual = Box.at_origin(op.extents())
    wider = actual.along(dim, 0, size)
    return all(
        op.operand_tile(k, wider).shape != op.operand_tile(k, actual).shape
        and _pads_alike(value, Padding(op).pad_value(k, True))
        for k, value in enumerate(op.inputs)
    )


def _pads_alike(value: Value, number: float | int | None) -> bool:
    """Whether a value can be padded with a number: not one that another number pads already, which would be kept."""
    piece, view = new.whole_piece(value.defining_op), value.defining_op
    rest = (
        ViewLike(view).rest if isinstance(view, Tileable) and piece is not None and not ViewLike(view).is_free else None
    )
    return number is not None and rest in (None, number)


def pad_value_to(
    rewriter: Rewriter, value: Value, shape: Sequence[Dim], fill: float | int | None, free: bool, at: Operation
) -> Value:
    """`value` padded to `shape`; itself if it has that shape. `free`: the contents of the padding do not matter."""
    have = shape_of(value.type)
    if all(are_equal_at(at, a, b) for a, b in zip(have, shape, strict=True)):
        return value
    if fill is None:
        raise at.error(
            "there is nothing to pad an operand with",
            required="an operation that declares it (`pad_value`)",
            found=f"%{value.name}: {value.type}",
        )
    base = value.name.split(".")[0]
    view, piece = value.defining_op, new.whole_piece(value.defining_op)
    if isinstance(view, Tileable) and piece is not None:
        inner, rest = view.operands[piece.operand], ViewLike(view).rest
        if rest is not None and (ViewLike(view).is_free or free or rest == fill):
            kept, free = fill if ViewLike(view).is_free else rest, ViewLike(view).is_free and free
            if piece.place.is_at_origin:
                return pad_value_to(rewriter, inner, shape, kept, free, at)
            interior = [spacing - 1 for spacing in piece.spacing]
            wider = new.pad(inner, shape, kept, piece.first, interior, free)
            return rewriter.insert(wider, InsertPoint.before(at), f"{base}.p").result
    if (
        isinstance(view, Structured)
        and view.is_movement
        and not Indices(view).operands
        and (free or not _repeats(view))
    ):
        wide = view.iteration_of_result(Tile.full(tuple(shape)))
        if wide is not None:
            shapes = [view.operand_tile(k, wide).shape for k in range(len(view.inputs))]
            padded = zip(view.inputs, shapes, strict=True)
            operands = [pad_value_to(rewriter, v, inner, fill, free, at) for v, inner in padded]
            return rewriter.insert(view.on_box(operands, wide), InsertPoint.before(at), f"{base}.t").results[0]
    made = new.pad(value, shape, fill, free=free)
    return rewriter.insert(made, InsertPoint.before(at), f"{base}.p").result


def starts_of(op: Tileable) -> list[Operation]:
    """`x.start`: the fill that each accumulator of `x` starts with, or the operation that computes its initial value
    for it alone and sums nothing; none if the initial value comes from elsewhere."""
    found: list[Operation] = []
    for value in map(first_value, op.inits):
        definition = value.defining_op
        if isinstance(definition, Structured) and (
            not definition.operands or (len(value.uses) == 1 and Reduction.of(definition) is None)
        ):
            found.append(definition)
    return found


def first_value(value: Value) -> Value:
    """The initial value of an accumulator, through loops and tiles."""
    while True:
        definition = value.defining_op
        if definition is None:
            first = first_of(value)
            if first is None:
                return value
            value = first
        elif isinstance(definition, Materialize):
            value = definition.source
        else:
            inside = new.padded(definition)
            if inside is None:
                return value
            value = inside

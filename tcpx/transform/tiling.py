"""Tiling: a loop round an operation that computes one tile of its result per iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcpx.payload.bounds import is_equal
from tcpx.payload.interfaces import Box, Structured, Tileable
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import For, Loop, Materialize, Parallel, StYield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, Var, minimum
from tcpx.payload.subsets import Tile
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import erase_dead, first_of, follow_reads, read_subset, source_name


def tile(rewriter: Rewriter, op: Tileable, dim: str, size: Dim, parallel: bool = False) -> tuple[Loop, Tileable]:
    """Wrap `op` in a loop over `dim` by `size`; the last tile is shorter. Returns the loop and the op inside.

    A parallel dim yields disjoint tiles of the result. A reduction dim turns the op into its accumulating form:
    the loop's destination starts as `init`, or as a fill of the neutral element.
    """
    iterators, domain = op.iterators(), op.extents()
    position = [it.name for it in iterators].index(dim)
    reduces = iterators[position].is_reduction
    name = rewriter.ordinal_name(op, f"{source_name(op)}/{dim}")
    var = Var(name, 0, domain[position], size)
    inputs = op.inputs
    start = op.init
    if start is None:
        start = _first_value(rewriter, op, reduces)
    body = Block([("", start.type)])
    kind = Parallel if parallel else For
    loop = kind.over(var, [start], body)
    loop.location = op.location
    rewriter.insert(loop, InsertPoint.before(op), source_name(op))
    loop.copy_path = op.copy_path
    dest = body.args[0]

    box = Box.at_origin(domain).along(position, Size.of(var), minimum(size, domain[position] - Size.of(var)))
    operands = read_inputs(rewriter, op, box, body)
    result_tile = op.result_tile(box)
    if reduces or op.init is not None:
        operands.append(
            rewriter.insert(
                Materialize.of(dest, result_tile), InsertPoint(body, len(body.ops)), f"{source_name(op)}.acc"
            ).result
        )
    made = rewriter.insert(op.on_box(operands, box), InsertPoint(body, len(body.ops)), source_name(op))
    made.name = op.name
    rewriter.insert(StYield.of(made.result, dest, result_tile), InsertPoint(body, len(body.ops)))
    rewriter.continue_as(op, made)
    rewriter.replace_op(op, [loop.results[0]])
    follow_reads(rewriter, inputs, operands)
    erase_dead(rewriter, inputs)
    if not isinstance(made, Tileable):
        raise made.error("an operation on tiles can be tiled again", required="an operation with the Tiling interface")
    return loop, made


def read_inputs(rewriter: Rewriter, op: Tileable, box: Box, body: Block) -> list[Value]:
    """What a box of iterations of `op` reads of each input, read at the end of `body`."""
    return [
        read_subset(rewriter, value, op.operand_tile(index, box), InsertPoint(body, len(body.ops)))
        for index, value in enumerate(op.inputs)
    ]


def _first_value(rewriter: Rewriter, op: Tileable, reduces: bool) -> Value:
    """The first value of a destination: the neutral element for a reduction, else nothing."""
    before = InsertPoint.before(op)
    if not reduces:
        return rewriter.insert(new.empty(op.result.type), before, f"{source_name(op)}.out").result
    neutral = op.neutral()
    if neutral is None:
        raise op.error(
            "a reduction dim without a neutral element cannot be tiled", required="a combiner with a neutral element"
        )
    fill = rewriter.insert(new.fill(neutral, op.result.type), before, f"{source_name(op)}.start")
    fill.location = op.location
    fill.copy_path = op.copy_path
    return fill.result


def check_on_tensors(ctx: TransformContext, op: Operation) -> None:
    """Raise ScheduleError for an operation on vectors or scalars: it has no subset to compute in turn."""
    if any(not isinstance(result.type, TensorType) for result in op.results):
        raise ctx.fail(
            f"%{op.name} is not on tensors any more",
            op=op,
            required="an operation on tensors",
            found=", ".join(str(result.type) for result in op.results),
            fix="do this before `vectorize` and `bufferize`",
        )


def pad(rewriter: Rewriter, op: Tileable, sizes: Mapping[str, Dim]) -> Tileable:
    """Compute `op` on dims padded up to `sizes`; operands are padded on the way in, the result is sliced.

    Raises VerifyError where an operand lacks a reduction dim that is padded, or has no neutral element.
    """
    iterators, actual = op.iterators(), op.extents()
    padded = Box.at_origin([sizes.get(it.name, d) for it, d in zip(iterators, actual, strict=True)])
    grown = [k for k, (a, b) in enumerate(zip(padded.sizes, actual, strict=True)) if is_equal(a, b) is not True]
    if not grown:
        return op
    if not op.pads_operands:
        return _pad_result(rewriter, op, padded.sizes)
    reductions = [k for k in grown if iterators[k].is_reduction]
    for k in reductions:
        _check_held(op, k, padded.sizes[k])
    reduced = bool(reductions)
    operands: list[Value] = []
    for index, value in enumerate(op.inputs):
        fill = op.pad_value(index, reduced)
        shape = op.operand_tile(index, padded).shape
        part = op.operand_tile(index, Box.at_origin(actual))
        read = value if part.is_full(shape_of(value.type)) is True else read_subset(rewriter, value, part, op)
        operands.append(pad_value_to(rewriter, read, shape, fill, not reduced, op))
    shape = op.result_tile(padded).shape
    if op.init is not None:
        operands.append(pad_value_to(rewriter, op.init, shape, op.neutral() or 0, True, op))
    made = rewriter.insert(op.on_box(operands, padded), InsertPoint.before(op), source_name(op))
    made.name = op.name
    rewriter.continue_as(op, made)
    before = shape_of(op.result.type)
    kept, sliced = Tile.full(before), made.result
    if kept.is_full(shape_of(made.result.type)) is not True:
        sliced = rewriter.insert(
            Materialize.of(made.result, kept), InsertPoint.before(op), f"{source_name(op)}.t"
        ).result
    old_inputs = list(op.operands)
    rewriter.replace_op(op, [sliced])
    erase_dead(rewriter, old_inputs)
    if not isinstance(made, Tileable):
        raise made.error("an operation on tiles can be tiled again", required="an operation with the Tiling interface")
    return made


def _pad_result(rewriter: Rewriter, op: Tileable, sizes: Sequence[Dim]) -> Tileable:
    """Let all that reads the result read what is kept of it, padded to `sizes`. Returns `op`, or what pads further."""
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
    made.name = op.name
    rewriter.continue_as(op, made)
    erase_dead(rewriter, [result])
    return made


def _check_held(op: Tileable, dim: int, size: Dim) -> None:
    """Neutral elements in one factor are neutral only beside those of the others: 0 times infinity is no 0."""
    actual = Box.at_origin(op.extents())
    wider = actual.along(dim, 0, size)
    name = op.iterators()[dim].name
    for index, value in enumerate(op.inputs):
        if op.operand_tile(index, wider).shape == op.operand_tile(index, actual).shape:
            raise op.error(
                f"`{name}` cannot be padded: an operand does not have it",
                required="a reduction dim of every operand, or whole tiles",
                found=f"%{value.name}: {value.type}",
                fix="tail: peel",
            )


def pad_value_to(
    rewriter: Rewriter, value: Value, shape: Sequence[Dim], fill: float | int | None, free: bool, at: Operation
) -> Value:
    """`value` padded to `shape`; itself where it has that shape. `free`: what the padding holds does not matter."""
    have = shape_of(value.type)
    if all(is_equal(a, b) is True for a, b in zip(have, shape, strict=True)):
        return value
    if fill is None:
        raise at.error(
            "padding a reduction dim needs a neutral element for each operand",
            required="an operation that declares one",
            found=f"%{value.name}: {value.type}",
        )
    base = value.name.split(".")[0]
    view, piece = value.defining_op, new.whole_piece(value.defining_op)
    if isinstance(view, Tileable) and piece is not None:
        inner, rest = view.operands[piece.operand], view.rest
        if rest is not None and (view.is_free or free or rest == fill):
            kept, free = fill if view.is_free else rest, view.is_free and free
            if piece.place.is_at_origin:
                return pad_value_to(rewriter, inner, shape, kept, free, at)
            interior = [spacing - 1 for spacing in piece.spacing]
            wider = new.pad(inner, shape, kept, piece.first, interior, free)
            return rewriter.insert(wider, InsertPoint.before(at), f"{base}.p").result
        if rest is None and piece.permutes:
            straight = [shape[piece.permutation.index(k)] for k in range(len(shape))]
            padded = pad_value_to(rewriter, inner, straight, fill, free, at)
            turned = new.transpose(padded, piece.permutation)
            return rewriter.insert(turned, InsertPoint.before(at), f"{base}.t").result
    made = new.pad(value, shape, fill, free=free)
    return rewriter.insert(made, InsertPoint.before(at), f"{base}.p").result


def start_of(op: Tileable) -> Operation | None:
    """`x.start`: the fill that the accumulator of `x` starts with, or what makes its first value for it alone without
    summing anything; None where the first value is given otherwise."""
    made = first_value_of(op)
    definition = made.defining_op if made is not None else None
    if not isinstance(definition, Structured):
        return None
    sums = any(it.is_reduction for it in definition.iterators())
    alone = made is not None and len(made.uses) == 1
    return definition if not definition.operands or (alone and not sums) else None


def first_value_of(op: Tileable) -> Value | None:
    """The first value of the accumulator of `op`, through loops and tiles; None if it does not accumulate yet."""
    value = op.init
    while value is not None:
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
    return None

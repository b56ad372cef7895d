"""A reduction as partial results, and a second reduction that combines them."""

from collections.abc import Sequence
from math import prod

from tcpx.payload.contexts import context_at
from tcpx.payload.indexing_maps import IndexingMap, dims, from_first
from tcpx.payload.interfaces import Box, Iterator, IteratorKind, Structured
from tcpx.payload.ir import Attribute, Block, CloneMap, Operation, Value, operation_classes
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.gml_st import For, Loop, Materialize, Parallel, StYield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, Symbol, Var
from tcpx.payload.sizes.context import Context
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.tree import Tree
from tcpx.payload.traits.view import Padding
from tcpx.payload.types import TensorType, Type, dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.bufferization.workspace import ALIGNMENT
from tcpx.transform.editing import erase_dead, follow_reads, read_subset, rename_inside, source_name
from tcpx.transform.matching import Candidate, classes_called, find_match, general, stand_ins
from tcpx.transform.recomputation import ADDED
from tcpx.transform.tiling import pad_value_to, read_inputs

Joining = tuple[Block, tuple[float | int, ...]]
"""What joins accumulators with later iterations, and what they start with."""


def split_into_parts(
    rewriter: Rewriter, op: Structured, dim: str, parts: int, parallel: bool
) -> tuple[Loop, Structured]:
    """A loop over `parts` equal ranges of a reduction dim, each reduced by `op` from the neutral element on, and the
    operation that combines the partial results. A dim that is shorter leaves the last ranges empty."""
    at, extent, here = _place(op, dim), op.size_of(dim), context_at(op)
    slices = [_slices(parts, shape_of(r.type), _gap(r, here) if parallel else 0) for r in op.results]
    firsts = [
        rewriter.insert(new.empty(TensorType(whole, dtype)), InsertPoint.before(op), f"{source_name(op)}.out").result
        for (whole, _, _), dtype in zip(slices, op.acc_types, strict=True)
    ]
    loop = _loop(rewriter, op, dim, (0, parts, 1), firsts, parallel)
    index = Size.of(loop.var)
    share = here.ceildiv(extent, parts)
    part = here.not_negative(here.minimum(share, extent - index * share))
    box = Box.at_origin(op.extents()).along(at, index * share, part)
    operands = read_inputs(rewriter, op, box, loop.body)
    made = _insert(rewriter, op, op.on_box(operands, box), loop)
    for result, dest, (_, of_slice, _) in zip(made.results, loop.destinations, slices, strict=True):
        dropped = (0, *(d + 1 for d in of_slice.dropped))
        subset = Tile((index, *of_slice.offsets), (1, *of_slice.sizes), dropped=dropped)
        rewriter.insert(StYield.of(result, dest, subset), _end(loop))
    partial = [read_subset(rewriter, r, of_all, op) for r, (_, _, of_all) in zip(loop.results, slices, strict=True)]
    return loop, _combine(rewriter, op, partial, operands, 0)


def _gap(result: Value, here: Context) -> int:
    """Rows between what two parts give for a result, so that no cache line holds elements of both: threads that write
    to one line wait for each other."""
    line = ALIGNMENT // dtype_of(result.type).bytes
    shape = shape_of(result.type)
    row = prod(d for d in shape[1:] if isinstance(d, int)) if all(isinstance(d, int) for d in shape[1:]) else 1
    whole = shape[0] * row if shape else 1
    return 0 if here.is_equal(here.mod(whole, line), 0) is True else -(-line // max(1, row))


def _slices(parts: int, shape: Sequence[Dim], gap: int) -> tuple[tuple[Dim, ...], Tile, Tile]:
    """The shape that holds `parts` results, each with `gap` rows behind it; what one fills of its slice; what all
    fill."""
    if not gap:
        return (parts, *shape), Tile.full(shape), Tile.full((parts, *shape))
    if not shape:
        return (parts, gap), Tile((0,), (1,), dropped=(0,)), Tile((0, 0), (parts, 1), dropped=(1,))
    return (parts, shape[0] + gap, *shape[1:]), Tile.full(shape), Tile.full((parts, *shape))


def split_side_by_side(rewriter: Rewriter, op: Structured, dim: str, factor: int) -> tuple[Loop, Structured]:
    """A loop over a reduction dim by `factor`, in which `op` adds each of so many elements to an accumulator of its
    own, and the operation that combines the accumulators, which lie innermost."""
    at, extent = _place(op, dim), op.size_of(dim)
    joining = _joining_later(op)
    neutrals = joining[1] if joining is not None else Reduction(op).neutrals()
    if neutrals is None:
        raise op.error("the reduction has no neutral element", required="a combiner with a neutral element")
    types = [TensorType((*shape_of(r.type), factor), dtype_of(r.type)) for r in op.results]
    starts: list[Value] = []
    for neutral, type_ in zip(neutrals, types, strict=True):
        start = rewriter.insert(new.fill(neutral, type_), InsertPoint.before(op), f"{source_name(op)}.start")
        start.stand_for(op)
        starts.append(start.result)
    loop = _loop(rewriter, op, dim, (0, extent, factor), starts, parallel=False)
    index = Size.of(loop.var)
    box = Box.at_origin(op.extents()).along(at, index, context_at(op).minimum(factor, extent - index))
    operands = read_inputs(rewriter, op, box, loop.body)
    whole, subsets = box.along(at, index, factor), [Tile.full(type_.shape) for type_ in types]
    accumulators = [
        rewriter.insert(Materialize.of(dest, subset), _end(loop), f"{source_name(op)}.acc")
        for dest, subset in zip(loop.destinations, subsets, strict=True)
    ]
    padded: list[Value] = []
    for position, value in enumerate(operands):
        wide = op.operand_tile(position, whole).shape
        padded.append(
            pad_value_to(rewriter, value, wide, Padding(op).pad_value(position, True), False, accumulators[0])
        )
    inner = _with_parallel(op, dim, whole, padded, [acc.result for acc in accumulators], joining)
    made = _insert(rewriter, op, inner, loop)
    for result, dest, subset in zip(made.results, loop.destinations, subsets, strict=True):
        rewriter.insert(StYield.of(result, dest, subset), _end(loop))
    combined = _combine(rewriter, op, loop.results, padded, len(types[0].shape) - 1)
    erase_dead(rewriter, operands)  # what was padded from further away
    return loop, combined


def _place(op: Structured, dim: str) -> int:
    return [it.name for it in op.iterators()].index(dim)


def _loop(
    rewriter: Rewriter,
    op: Structured,
    dim: str,
    bounds: tuple[Dim, Dim, Dim],
    firsts: Sequence[Value],
    parallel: bool,
) -> Loop:
    """An empty loop before `op` that carries the partial results."""
    var = Var(rewriter.ordinal_name(op, f"{source_name(op)}/{dim}"), *bounds)
    kind = Parallel if parallel else For
    loop = kind.over(var, firsts, Block([("", first.type) for first in firsts]))
    loop.location = op.location
    rewriter.insert(loop, InsertPoint.before(op), f"{source_name(op)}.parts")
    loop.copy_path = op.copy_path
    return loop


def _insert(rewriter: Rewriter, op: Structured, made: Operation, loop: Loop) -> Operation:
    """The partial computation at the end of the loop; the handle of `op` goes with it."""
    made.stand_for(op)
    rename_inside(rewriter, made, op)
    rewriter.insert(made, _end(loop), source_name(op))
    rewriter.rename(made, op.name)
    rewriter.continue_as(op, made)
    return made


def _end(loop: Loop) -> InsertPoint:
    return InsertPoint(loop.body, len(loop.body.ops))


def _combine(
    rewriter: Rewriter, op: Structured, partial: Sequence[Value], reads: Sequence[Value], place: int
) -> Structured:
    """Let what combines the partial results over their dim `place` stand for the results of `op`."""
    inputs = op.inputs
    combined = _combination(op, partial, place)
    insert_part(rewriter, op, combined, ".combined")
    rewriter.set_note(combined, ADDED, op.name)
    rewriter.replace_op(op, combined.results)
    follow_reads(rewriter, inputs, reads)
    erase_dead(rewriter, inputs)
    return combined


def insert_part(rewriter: Rewriter, op: Structured, part: Structured, role: str) -> Structured:
    """Insert a part of what `op` computes before it."""
    part.stand_for(op)
    rename_inside(rewriter, part, op)
    rewriter.insert(part, InsertPoint.before(op), f"{source_name(op)}{role}")
    rewriter.set_origins(part, part.origins, op.copy_path)
    return part


def _combination(op: Structured, partial: Sequence[Value], place: int) -> Structured:
    """What reduces dim `place` of the partial results as `op` combines them: detached, of the nearest class."""
    names = [f"d{k}" for k in range(len(shape_of(partial[0].type)))]
    kept = [name for k, name in enumerate(names) if k != place]
    kinds = [IteratorKind.REDUCTION if k == place else IteratorKind.PARALLEL for k in range(len(names))]
    its = [Iterator(name, kind) for name, kind in zip(names, kinds, strict=True)]
    return combination(op, partial, its, dims(*names), [dims(*kept) for _ in partial])


def combination(
    op: Structured,
    partial: Sequence[Value],
    its: Sequence[Iterator],
    read: IndexingMap,
    written: Sequence[IndexingMap],
) -> Structured:
    """What combines partial results of `op`, which iterations read by this map: detached, of the nearest class."""
    whole = general(op.on_tiles(stand_ins(op), *(shape_of(r.type) for r in op.results)))
    body = Block([(f"e{k}", dtype) for k, dtype in enumerate(op.acc_types)])
    regions = [body, *(region.clone(CloneMap(), lambda name: name) for region in whole.regions[1:])]
    last: Sequence[Value] = body.args
    if len(regions) == 1:
        body.args.append(Value("acc", op.acc_type, body))

        def build(inner: Operation) -> Value:
            body.append(inner)
            inner.result.name = inner.name = "e1"
            return inner.result

        last = [Reduction(op).combine(build, body.args[1], body.args[0])]
    body.append(Yield(last))
    attributes: dict[str, Attribute] = {
        "iterators": tuple(it.entry for it in its),
        "maps": (*(read for _ in partial), *written),
        **{key: whole.attributes[key] for key in ("combiner", "neutral", "commutative") if key in whole.attributes},
    }
    classes = [
        cls for cls in operation_classes().values() if issubclass(cls, Structured) and cls.signature.region_count == 0
    ]
    return nearest(attributes, regions, [*partial, *op.inits], [r.type for r in op.results], [classes])


def _joining_later(op: Structured) -> Joining | None:
    """How an operation with one reduction dim joins later iterations, if it says that."""
    block = Block([(f"{side}{k}", t) for side in "ab" for k, t in enumerate(op.acc_types)])

    def build(inner: Operation) -> Value:
        block.append(inner)
        inner.result.name = inner.name = f"e{len(block.ops)}"
        return inner.result

    half = len(op.results)
    is_one = sum(it.is_reduction for it in op.iterators()) == 1
    found = (
        Reduction(op).joined_later(build, block.args[:half], block.args[half:]) if is_one and not op.regions else None
    )
    if found is None:
        return None
    block.append(Yield(found[0]))
    return block, found[1]


def _with_parallel(
    op: Structured,
    dim: str,
    box: Box,
    operands: Sequence[Value],
    accumulators: Sequence[Value],
    joining: Joining | None,
) -> Structured:
    """`op` on this box, with a reduction dim as a parallel one, innermost in the results: detached, of its class or the
    nearest above it. Its iterations come after those whose results the accumulators hold."""
    body = general(op.on_box(Block([(v.name, v.type) for v in operands]).args, box))
    added = Symbol(dim).size()
    attributes: dict[str, Attribute] = {
        **body.attributes,
        "iterators": tuple(
            Iterator(dim, IteratorKind.PARALLEL).entry if it.name == dim else it.entry for it in body.iterators()
        ),
        "maps": (*map(from_first, body.maps()), *((*result_map, added) for result_map in body.result_maps())),
    }
    classes = [classes_called(name) for name in Tree(op).tree_classes()]
    regions = body.regions
    if joining is not None:
        regions, attributes["neutral"] = [regions[0], joining[0]], joining[1]
        attributes.pop("commutative", None)
    return nearest(attributes, regions, [*operands, *accumulators], [v.type for v in accumulators], classes)


def nearest(
    attributes: dict[str, Attribute],
    regions: Sequence[Block],
    operands: Sequence[Value],
    types: Sequence[Type],
    classes: Sequence[Sequence[type[Structured]]],
) -> Structured:
    """The operation of the first classes that compute what a generic of these attributes and regions does, or it."""

    def on(values: Sequence[Value]) -> Generic:
        return Generic(values, types, attributes, [region.clone(CloneMap(), lambda name: name) for region in regions])

    for group in classes:
        probe = on(Block([(v.name, v.type) for v in operands]).args)
        found = find_match(probe, group)
        if isinstance(found, Candidate):
            return found.on(probe, operands)
    return on(operands)

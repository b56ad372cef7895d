"""An operation without dims that have one index."""

from collections.abc import Sequence

from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, map_dim, map_symbols
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Block, Operation, Value, operation_classes
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, substitute
from tcpx.payload.traits.dims import fixed_dims
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import shape_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.coalescing import (
    MAPPED_INDICES,
    has_mapped_indices,
    is_the_same_anywhere,
    structured,
    under_other_shapes,
    without_dims,
)
from tcpx.transform.matching import find_match
from tcpx.transform.tiling import check_on_tensors


def fold_dims(ctx: TransformContext, op: Operation, names: Sequence[str]) -> Structured:
    """Leave out dims of one index, all that there are if no names are given; reshapes round the operation show its
    operands and results without them. What is left has the class of the operation, or of a sibling of it."""
    if not isinstance(op, Structured):
        raise ctx.fail(f"the dims of %{op.name} stay", op=op, required="a structured operation", found=op.opcode)
    check_on_tensors(ctx, op)
    if not has_mapped_indices(op):
        raise ctx.fail(f"the dims of %{op.name} stay", op=op, required=MAPPED_INDICES, found=op.opcode)
    open_dims = _open_dims(op)
    wrong = [name for name in names if name not in open_dims]
    if wrong or not open_dims:
        shown = [it.name for it in op.iterators() if not names or it.name in wrong]
        raise ctx.fail(
            f"%{op.name} has no such dim of one index" if names else f"%{op.name} has no dim of one index",
            op=op,
            required="a dim of size 1, by which operands and results are indexed alone; of those reduced, one stays",
            found=", ".join(f"{op.iterator(n).kind.value} dim `{n}` of {op.size_of(n)}" for n in shown) or "no dims",
        )
    left_out = set(names or open_dims)

    def without(shape: Sequence[Dim], entries: IndexingMap) -> tuple[Dim, ...]:
        return tuple(extent for extent, entry in zip(shape, entries, strict=True) if map_dim(entry) not in left_out)

    def repeated(value: Value, entries: IndexingMap) -> Value | None:
        made = value.defining_op
        own = _repeated_along(made, entries, left_out) if isinstance(made, Structured) else set[str]()
        if not isinstance(made, Structured) or not own:
            return None
        other = _made(made, own, made.inputs, [without(shape_of(value.type), entries)])
        return ctx.rewriter.insert(other, InsertPoint.before(op), value.name).result

    return under_other_shapes(
        ctx, op, without, lambda operands, shapes: _made(op, left_out, operands, shapes), repeated
    )


def _repeated_along(made: Structured, entries: IndexingMap, left_out: set[str]) -> set[str]:
    """What the dims that are left out are called in an operation that repeats what it reads along them, such as a
    broadcast, so that no reshape is behind it; empty of any other."""
    if not made.is_movement or len(made.results) != 1 or made.inits or not is_the_same_anywhere(made):
        return set()
    pairs = zip(made.result_map(), entries, strict=True)
    own = {map_dim(mine) or "" for mine, entry in pairs if map_dim(entry) in left_out}
    read = {symbol for m in made.maps() for entry in m for symbol in map_symbols(entry)}
    return own if "" not in own and not own & read else set()


def _open_dims(op: Structured) -> list[str]:
    """The dims that may be left out. A reduction keeps a dim, and a scan its order."""
    found = [it.name for it in op.iterators() if not it.is_sequential and _is_unit(op, it.name)]
    reduced = [it.name for it in op.iterators() if it.is_reduction]
    return [name for name in found if not reduced or name != reduced[-1] or not set(reduced) <= set(found)]


def _is_unit(op: Structured, name: str) -> bool:
    """Whether a dim has one index, and is added to no other one in a map."""
    entries = [entry for m in (*op.maps(), *op.result_maps()) for entry in m if name in map_symbols(entry)]
    return all(map_dim(entry) == name for entry in entries) and op.size_of(name) == 1 and name not in Masked(op).valid


def _made(op: Structured, left_out: set[str], operands: Sequence[Value], shapes: Sequence[Sequence[Dim]]) -> Structured:
    if isinstance(op, Elementwise):
        return structured(op.on_tiles(operands, *shapes))
    made = without_dims(op, left_out, Block([(value.name, value.type) for value in operands]).args, shapes, {})
    if positions_read(op):
        first = {dim_symbol(name): 0 for name in left_out}
        made.attributes["positions"] = tuple(substitute(position.expression, first) for position in positions_read(op))
    found = find_match(made, _siblings(op)) if not op.regions else []
    return structured(made.on_tiles(operands, *shapes)) if isinstance(found, list) else found.on(made, operands)


def _siblings(op: Structured) -> list[type[Structured]]:
    """The classes that say what operations like this one do: those with dims of their own first, then by any dims."""
    base = next(c for c in type(op).__mro__[1:] if issubclass(c, Structured) and "class_name" in vars(c))
    found = [c for c in operation_classes().values() if issubclass(c, base) and c.signature.region_count == 0]
    return sorted(found, key=lambda c: not fixed_dims(c))

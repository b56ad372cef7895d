"""Operations on operands and results whose dims lie in other orders."""

from collections.abc import Sequence
from dataclasses import replace

from tcpx.payload.indexing_maps import map_symbols
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import DIM_NAMES, Attribute, Block, Operation, Value
from tcpx.payload.ops.generic import Generic
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.dims import by_dims, of_dims
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.transform.layouts.orders import Order, identity, stored_shape
from tcpx.transform.matching import classes_called, find_match, general, stand_ins, structured


def reordered(
    op: Operation,
    operands: Sequence[Value],
    reads: Sequence[Order],
    gives: Sequence[Order],
    sums_as_stored: bool = True,
) -> Operation:
    """A detached operation that computes what `op` does of operands that are stored in the orders `reads`, with its
    results in the orders `gives`: of its class, or of the nearest one above it. Both go together by its `Relation`.
    With `sums_as_stored`, it sums in the order in which its operands are stored."""
    shapes = [stored_shape(order, shape_of(r.type)) for order, r in zip(gives, op.results, strict=True)]
    types = [like(result.type, shape, dtype_of(result.type)) for result, shape in zip(op.results, shapes, strict=True)]
    if isinstance(op, Structured):
        if {*reads, *gives} == {gives[0]} and {*op.maps()} == {*op.result_maps()} and not op.regions:
            made = op.on_tiles(operands, *shapes)
            made.attributes = _of_dims(op, gives[0], ())
        else:
            made = _structured(op, operands, reads, gives, sums_as_stored)
    elif isinstance(op, Materialize):
        made = Materialize.of(operands[0], turned_subset(op.subset, reads[0]))
    else:
        named = of_dims(op) if isinstance(op, Tileable) else ()
        made = type(op)(operands, types, _of_dims(op, (*reads, *gives)[0], named), location=op.location)
    made.stand_for(op)
    return made


def _of_dims(op: Operation, order: Order, named: Sequence[str]) -> dict[str, Attribute]:
    """The attributes of an operation whose dims lie in this order."""
    attributes = dict(op.attributes)
    for key in (*(by_dims(op) if isinstance(op, Tileable) else ()), DIM_NAMES):
        held = attributes.get(key)
        if isinstance(held, tuple) and len(held) == len(order):
            attributes[key] = tuple(held[dim] for dim in order)
    for key in named:
        held = attributes.get(key)
        if isinstance(held, int):
            attributes[key] = order.index(held)
        elif isinstance(held, tuple):
            attributes[key] = tuple(sorted(order.index(dim) for dim in held if isinstance(dim, int)))
    return attributes


def turned_subset(tile: Tile, order: Order) -> Tile:
    """A part of a tensor that is stored in this order."""
    offsets, sizes, strides = (tuple(part[dim] for dim in order) for part in (tile.offsets, tile.sizes, tile.strides))
    dropped = tuple(sorted(order.index(dim) for dim in tile.dropped))
    return replace(tile, offsets=offsets, sizes=sizes, strides=strides, dropped=dropped)


def _structured(
    op: Structured,
    operands: Sequence[Value],
    reads: Sequence[Order],
    gives: Sequence[Order],
    sums_as_stored: bool,
) -> Structured:
    """The nearest class that reads and writes by maps in these orders, or a generic."""
    base = general(op.on_tiles(stand_ins(op), *(shape_of(result.type) for result in op.results)))
    maps = [tuple(m[dim] for dim in order) for m, order in zip(base.maps(), reads, strict=False)]
    results = [tuple(m[dim] for dim in order) for m, order in zip(base.result_maps(), gives, strict=True)]
    entries = {it.name: it.entry for it in base.iterators()}
    outer = dict.fromkeys(name for m in results for e in m for name in map_symbols(e))
    inner = dict.fromkeys(name for m in sorted(maps, key=len, reverse=True) for e in m for name in map_symbols(e))
    moves = sums_as_stored and Reduction(base).is_commutative and not ragged_dims(op)
    names = dict.fromkeys((*outer, *(inner if moves else ()), *entries))
    shapes = [stored_shape(order, shape_of(r.type)) for order, r in zip(gives, op.results, strict=True)]
    types = [like(r.type, s, dtype) for r, s, dtype in zip(op.results, shapes, op.acc_types, strict=True)]
    attributes = {
        **base.attributes,
        "iterators": tuple(entries[name] for name in names if name in entries),
        "maps": (*maps, *results),
    }
    given = Block([(v.name, v.type) for v in operands]).args
    made = Generic(given, types, attributes, base.regions, location=op.location)
    for name in Tree(op).tree_classes() if not op.regions else ():
        found = find_match(made, classes_called(name))
        if not isinstance(found, list):
            return found.on(made, operands)
    return structured(made.on_tiles(operands, *shapes))


def is_identity(values: Sequence[Value], orders: Sequence[Order]) -> bool:
    """Whether each of some values is stored in the order of its type."""
    return all(order == identity(value) for value, order in zip(values, orders, strict=True))

"""A reduction as two: over some of its dims first, then over the others."""

from collections.abc import Collection
from itertools import count

from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, dims, map_dim, map_symbols
from tcpx.payload.interfaces import Iterator, IteratorKind, Structured
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform.matching import classes_called, general, stand_ins
from tcpx.transform.reduction_splitting import combination, insert_part, nearest


def reduce_dims_first(rewriter: Rewriter, op: Structured, first: Collection[str]) -> tuple[Structured, Structured]:
    """Insert a reduction over the dims `first`, for each element that the other dims read, and one over the others.

    `op` has one input and one result; no index of the input depends on reduction dims of both kinds.
    """
    iterators = op.iterators()
    first_map, sizes, second_map = _maps(op, first)
    parallel = [Iterator(name, IteratorKind.PARALLEL) for name in sizes]
    body = general(op.on_tiles(stand_ins(op)[:1], shape_of(op.result.type)))
    attributes = {
        **body.attributes,
        "iterators": tuple(it.entry for it in (*parallel, *(it for it in iterators if it.name in first))),
        "maps": (first_map, dims(*sizes)),
    }
    type_, classes = (
        TensorType(tuple(sizes.values()), op.acc_type),
        [classes_called(n) for n in Tree(op).tree_classes()],
    )
    partial = insert_part(rewriter, op, nearest(attributes, body.regions, op.inputs, [type_], classes), ".first")
    rest = [it for it in iterators if it.name not in first]
    second = insert_part(rewriter, op, combination(op, partial.results, rest, second_map, op.result_maps()), "")
    rewriter.rename(second, op.name)
    rewriter.continue_as(op, second)
    rewriter.replace_op(op, second.results)
    return partial, second


def _maps(op: Structured, first: Collection[str]) -> tuple[IndexingMap, dict[str, Dim], IndexingMap]:
    """The map by which the first reduction reads the input, the dims of its result, and the map of the second."""
    used = {it.name for it in op.iterators()}
    later = {it.name for it in op.iterators() if it.is_reduction} - {*first}
    first_map, sizes, second_map = list[Dim](), dict[str, Dim](), dict[str, Dim]()
    for k, (entry, extent) in enumerate(zip(op.maps()[0], shape_of(op.inputs[0].type), strict=True)):
        names = map_symbols(entry)
        if later.isdisjoint(names) or map_dim(entry) is not None:
            first_map.append(entry)
            entries = [(name, op.size_of(name), dim_symbol(name).size()) for name in names if name not in first]
        else:
            name = next(n for n in (f"i{number}" for number in count(k)) if n not in used)
            used.add(name)
            first_map.append(dim_symbol(name).size())
            entries = [(name, extent, entry)]
        for name, size, read in entries:
            sizes[name], second_map[name] = size, read
    return tuple(first_map), sizes, tuple(second_map.values())

"""One form for operations that compute the same: their class, or else a generic with its dims in one order."""

from collections.abc import Mapping, Sequence
from functools import cache

from tcpx.payload.contraction import may_contract
from tcpx.payload.declared_bodies import is_declared_outside
from tcpx.payload.indexing_maps import IndexingMap, map_coefficients, map_symbols
from tcpx.payload.interfaces import Iterator, Structured
from tcpx.payload.ir import Operation, operation_classes, tree_classes_of
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.types import shape_of
from tcpx.transform.matching import Candidate, find_match, general, rounded_apart, stand_ins


def normal_form(op: Operation) -> Structured | None:
    """A detached operation that computes what a generic, or an operation of another package, does: of the most special
    class there is for it, or with its dims in normal order, an accumulator, and products and sums in place of what may
    round once or twice. None of what has its normal form."""
    if not isinstance(op, Structured) or not (op.regions or is_declared_outside(type(op))):
        return None
    found = find_match(op, _special_first(), order_of_inputs(op))
    if isinstance(found, Candidate):
        return found.on(op, op.operands)
    order = normal_order(op)
    accumulates = bool(op.signature.optional_operand) or Reduction.of(op) is None
    shapes = [shape_of(r.type) for r in op.results]
    plain = general(op.on_tiles(stand_ins(op), *shapes))
    apart = rounded_apart(plain) if may_contract(op) else plain
    if order == op.iterators() and accumulates and apart is plain:
        return None
    made = apart.on_tiles(op.operands, *shapes)
    made.attributes["iterators"] = tuple(it.entry for it in order)
    return made if isinstance(made, Structured) else None


def normal_order(op: Structured) -> tuple[Iterator, ...]:
    """The dims in the order of the result, then what is reduced, in the order in which the operand that has most dims
    stores it. Those of an operation whose iterations depend on each other, or on elements, stay as they are."""
    its = op.iterators()
    if (
        Scan.of(op) is not None
        or is_irregular(op)
        or any(it.is_reduction and Scatter(op).is_apart(it.name) for it in its)
    ):
        return its
    places = _places(op)
    maps = [op.maps()[k] for k in order_of_inputs(op)]
    stored = {name: place for place, name in enumerate(dict.fromkeys(n for held in maps for n in _names(held)))}
    kept = [it for it in its if not it.is_reduction]
    reduced = [it for it in its if it.is_reduction]
    kept.sort(key=lambda it: places.get(it.name, len(places)))
    if Reduction(op).is_commutative:
        reduced.sort(key=lambda it: stored.get(it.name, len(stored)))
    return (*kept, *reduced)


def order_of_inputs(op: Structured) -> Sequence[int]:
    """The inputs: those that are read by windows first, then those that have most dims. Of the others, those first that
    have the outer dims of the result outside, then the longer ones."""
    maps, places = op.maps(), _places(op)
    lengths = [[-size if isinstance(size, int) else 0 for size in shape_of(value.type)] for value in op.inputs]
    return sorted(range(len(maps)), key=lambda k: (*_rank(maps[k], places), lengths[k]))


@cache
def _special_first() -> Sequence[type[Structured]]:
    """The classes that an operation may turn out to be."""
    known = [c for c in operation_classes().values() if issubclass(c, Structured) and c.signature.region_count == 0]
    return sorted((c for c in known if not is_declared_outside(c)), key=lambda c: -len(tree_classes_of(c)))


def _names(indexing_map: IndexingMap) -> list[str]:
    """The dims of a map, as they are stored: of a sum, those with the largest factors first."""
    found: list[str] = []
    for entry in indexing_map:
        factors = map_coefficients(entry) or {}
        found += sorted(map_symbols(entry), key=lambda name: -factors.get(name, 0))
    return found


def _places(op: Structured) -> Mapping[str, int]:
    return {name: place for place, name in enumerate(_names(op.result_maps()[0]))}


def _rank(indexing_map: IndexingMap, places: Mapping[str, int]) -> tuple[bool, int, list[list[int]]]:
    """Where an operand stands among others: by windows, by its dims, then by where those of the result lie in it."""
    entries = [sorted(places.get(name, len(places)) for name in map_symbols(entry)) for entry in indexing_map]
    return all(len(entry) < 2 for entry in entries), -len({*_names(indexing_map)}), entries

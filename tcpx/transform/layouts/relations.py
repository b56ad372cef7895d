"""Which orders of the operands and results of an operation go together."""

from collections.abc import Sequence

from tcpx.payload.contexts import context_at
from tcpx.payload.indexing_maps import IndexingMap, map_element, map_symbols
from tcpx.payload.interfaces import Structured, Tileable, pieces_of_all
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.sizes import Dim, is_equal, product
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.traits.dims import by_dims, of_dims
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import TensorType, shape_of
from tcpx.records import frozen
from tcpx.transform.layouts.orders import Order, normal

Entries = tuple[frozenset[str], ...]
"""By dim of a tensor: the dims of the operation that index it."""


@frozen
class Relation:
    """How an operation indexes its operands and results. A slot is an operand or, after these, a result."""

    values: tuple[Value, ...]
    entries: tuple[Entries, ...]
    groups: frozenset[str] = frozenset()
    """Names of dims that stand for several dims of one tensor: these lie one after the other."""
    is_aligned: bool = False
    """Whether attributes speak of the dims of all slots by their positions: also dims of extent 1 lie in one order."""

    @property
    def anchor(self) -> int:
        """The slot that has the most dims that are not 1, of which the order of all others follows."""
        wide = [sum(extent != 1 for extent in shape_of(value.type)) for value in self.values]
        ranks = [len(shape_of(value.type)) for value in self.values]
        return max(range(len(wide)), key=lambda slot: (ranks[slot], wide[slot], -slot))

    def along(self, given: int, order: Order, slot: int) -> Order:
        """The order of a slot where another one has this order, dims of extent 1 included."""
        ranks = {name: rank for rank, dim in enumerate(order) for name in self.entries[given][dim]}
        entries = self.entries[slot]
        return tuple(
            sorted(range(len(entries)), key=lambda dim: min((ranks[name] for name in entries[dim]), default=-1))
        )

    def follow(self, given: int, order: Order, slot: int) -> Order | None:
        """The order in which one slot has its dims as another one has them in this order; None where that does not
        say where all of them lie, or where dims that have to lie together do not. A dim that is 1 there, as where
        tensors are joined along it, lies after the dim before it."""
        ranks = self._ranks(given, order)
        if ranks is None:
            return None
        shape, places, before = shape_of(self.values[slot].type), dict[int, int](), -1
        is_one = frozenset[str]().union(*self.entries[given]) if self.is_aligned else frozenset[str]()
        for dim, names in enumerate(self.entries[slot]):
            known = [ranks[name] for name in names if name in ranks]
            if shape[dim] != 1 and names and not known and not names <= is_one:
                return None
            places[dim] = min(known, default=before if shape[dim] != 1 else -1)
            before = places[dim] if shape[dim] != 1 else before
        return normal(sorted(places, key=lambda dim: (places[dim], dim)), shape)

    def _ranks(self, given: int, order: Order) -> dict[str, int] | None:
        """Where each dim of the operation lies in a slot that is stored in this order."""
        shape, ranks = shape_of(self.values[given].type), dict[str, int]()
        before: int | None = None
        for rank, dim in enumerate(dim for dim in order if shape[dim] != 1):
            near = self.entries[given][before] if before is not None and before < dim else frozenset[str]()
            for name in self.entries[given][dim]:
                if name not in ranks:
                    ranks[name] = rank
                elif name not in self.groups or name not in near:
                    return None
            before = dim
        return ranks


def relation_of(op: Operation) -> Relation | None:
    """How an operation indexes what it reads and gives; None of one whose operands and results have the order of their
    types."""
    values = (*op.operands, *op.results)
    if not op.results or not all(isinstance(value.type, TensorType) for value in values):
        return None
    if isinstance(op, Structured):
        return _of_structured(op, values)
    if isinstance(op, Composite):
        maps = (*op.maps(), *op.result_maps())
        return (
            Relation(values, tuple(map(_entries, maps)), is_aligned=True)
            if of_dims(op) and len(maps) == len(values)
            else None
        )
    if isinstance(op, Materialize):
        return _of_subset(op, values)
    if isinstance(op, Tileable) and (by_dims(op) or of_dims(op)):
        own = tuple(frozenset([f"d{dim}"]) for dim in range(len(shape_of(op.result.type))))
        return Relation(values, (own,) * len(values), is_aligned=True)
    pieces = pieces_of_all(op)
    if pieces is not None and len(pieces) == 1 and len(op.operands) == 1 and pieces[0].reshapes:
        return _of_reshape(values, context_at(op).names)
    return None


def _of_structured(op: Structured, values: tuple[Value, ...]) -> Relation | None:
    if is_irregular(op) or Scan.of(op) is not None or Masked(op).valid or Lanes(op).lanes is not None:
        return None
    maps = op.maps()
    entries = [*map(_entries, maps)]
    for index, indexing_map in enumerate(maps):
        elements = [map_element(expression) for expression in indexing_map]
        if any(element is not None for element in elements):
            found = zip(entries[index], elements, strict=True)
            entries[index] = tuple(
                names if element is None else frozenset[str]().union(*entries[element]) for names, element in found
            )
    results = [*map(_entries, op.result_maps())]
    held = (*entries, *results[: len(op.inits)], *results)
    return Relation(values, held) if len(held) == len(values) else None


def _entries(indexing_map: IndexingMap) -> Entries:
    return tuple(frozenset(map_symbols(expression)) for expression in indexing_map)


def _of_subset(op: Materialize, values: tuple[Value, ...]) -> Relation | None:
    own = tuple(frozenset([f"d{dim}"]) for dim in range(op.subset.rank))
    return Relation(values, (own, tuple(own[dim] for dim in op.subset.kept)), is_aligned=True)


def _of_reshape(values: tuple[Value, ...], known: KnownSymbols) -> Relation | None:
    """The dims of a reshape and of its operand in groups of as many elements, of as few dims as there can be."""
    shapes = [shape_of(value.type) for value in values]
    wide = [[dim for dim, extent in enumerate(shape) if extent != 1] for shape in shapes]
    entries = [[frozenset[str]()] * len(shape) for shape in shapes]
    groups, start = set[str](), [0, 0]
    while start[0] < len(wide[0]) or start[1] < len(wide[1]):
        taken = _group([[shapes[k][dim] for dim in wide[k][start[k] :]] for k in (0, 1)], known)
        if taken is None:
            return None
        name = f"d{start[0]}_{start[1]}"
        if taken != (1, 1):
            groups.add(name)
        for k in (0, 1):
            for dim in wide[k][start[k] : start[k] + taken[k]]:
                entries[k][dim] = frozenset([name])
            start[k] += taken[k]
    return Relation(values, tuple(map(tuple, entries)), frozenset(groups))


def _group(shapes: Sequence[Sequence[Dim]], known: KnownSymbols) -> tuple[int, int] | None:
    """How many of the first dims of two shapes have the same number of elements, the fewest; None without."""
    counts = ((a, b) for a in range(1, len(shapes[0]) + 1) for b in range(1, len(shapes[1]) + 1))
    for a, b in sorted(counts, key=sum):
        if is_equal(product(shapes[0][:a]), product(shapes[1][:b]), known) is True:
            return a, b
    return None

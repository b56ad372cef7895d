"""Which dim of a structured operation runs along the lanes of its vectors."""

from collections.abc import Mapping

from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, map_dim
from tcpx.payload.interfaces import Structured
from tcpx.payload.sizes import Dim, Size, symbols
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import VectorType
from tcpx.records import frozen
from tcpx.transform.vectors.refusal import refusal


@frozen
class LaneDim:
    """The dim along the lanes. Of a reduction dim, lanes hold partial results, to be combined at the end."""

    name: str
    is_reduction: bool


def extents_of(op: Structured) -> dict[str, int]:
    """The extent of each iterator; vectors have static ones."""
    found: dict[str, int] = {}
    for it, extent in zip(op.iterators(), op.domain(), strict=True):
        if not isinstance(extent, int):
            raise refusal(op, "cannot be unrolled", "static extents", f"{it.name} = {extent}", "vectorize it first")
        found[it.name] = extent
    return found


def last_result_dim(op: Structured) -> str | None:
    """The dim that the last dim of the result is; None for a scalar result."""
    result_map = op.result_maps()[0]
    return map_dim(result_map[-1]) if result_map else None


def streams(indexing_map: IndexingMap, name: str) -> bool:
    """Whether the dim is the operand's last one and occurs nowhere else in it."""
    return bool(indexing_map) and map_dim(indexing_map[-1]) == name and not carries(indexing_map[:-1], name)


def carries(indexing_map: IndexingMap, name: str) -> bool:
    """Whether the operand depends on the dim."""
    return any(depends(e, name) for e in indexing_map)


def depends(expression: Dim, name: str) -> bool:
    """Whether an indexing expression mentions the dim, nested or not."""
    return not isinstance(expression, int) and any(s.name == name for s in symbols(expression))


def choose_lane_dim(op: Structured, lanes: int) -> LaneDim | None:
    """The last dim of the result if all operands have it last or not at all; else a reduction dim of which that is
    true and that fills vectors about as well; else the last dim of the result, gathered; None if that has extent 1.

    `lanes`: of a full vector of the result's dtype.
    """
    last = last_result_dim(op) if isinstance(op.results[0].type, VectorType) else None
    return lane_dim_among(op, last, extents_of(op), lanes)


def lane_dim_among(op: Structured, last: str | None, extents: Mapping[str, int], lanes: int) -> LaneDim | None:
    """The lane dim of an operation with these extents, `last` being the last dim of its result."""
    width = extents[last] if last is not None else 1
    maps = op.maps()
    if last is not None and width > 1 and all(streams(m, last) for m in maps if carries(m, last)):
        return LaneDim(last, is_reduction=False)
    reductions = [
        it.name
        for it in op.iterators()
        if it.is_reduction
        and Reduction(op).is_commutative
        and extents[it.name] > 1
        and all(streams(m, it.name) for m in maps if carries(m, it.name))
        and any(carries(m, it.name) for m in maps)
    ]
    if reductions:
        longest = max(reductions, key=lambda name: extents[name])
        if width == 1 or extents[longest] >= min(lanes, width):
            return LaneDim(longest, is_reduction=True)
    return LaneDim(last, is_reduction=False) if last is not None and width > 1 else None


def lane_step(expression: Dim, name: str) -> int | None:
    """How far the indexing expression moves per step of the dim; None if not by a constant."""
    if isinstance(expression, int):
        return 0
    step = 0
    for monomial, coefficient in expression.terms:
        if monomial == (dim_symbol(name),):
            step += coefficient
        elif any(name in atom.inside for atom in monomial):
            return None
    return step


def dims_of_result(op: Structured) -> tuple[str, ...]:
    """The dim that each dim of the result is."""
    return tuple(map_dim(e) or "" for e in op.result_maps()[0])


def as_size(name: str) -> Size:
    """The indexing expression that is just this dim."""
    return dim_symbol(name).size()

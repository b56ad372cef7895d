"""Where along a loop tiles read padding: iterations that read nothing else, and those that read none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpx.payload.contexts import context_at
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.pieces import Piece
from tcpx.payload.sizes import (
    Dim,
    Extremum,
    Min,
    Size,
    Var,
    ceildiv,
    floordiv,
    is_equal,
    is_less_equal,
    maximum,
    minimum,
    substitute,
    upper_expression,
    variables,
)
from tcpx.payload.sizes.expressions import atoms
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import shape_of
from tcpx.records import frozen
from tcpx.transform import new


@frozen
class Range:
    """Values from `start` on and below `end`; without one of them, all on that side."""

    start: Dim | None = None
    end: Dim | None = None


ALL = Range()


def padding_of(op: Operation | None) -> Piece | None:
    """Where the operand of a padded tile lies in it; None of anything else, and where the padding does not matter."""
    is_padded = isinstance(op, Tileable) and ViewLike(op).rest is not None and not ViewLike(op).is_free
    return new.whole_piece(op) if is_padded else None


def with_elements(piece: Piece, var: Var, known: KnownSymbols) -> Range:
    """The values of a loop variable for which a padded tile may have an element of its operand."""
    return _of_all([_positive(extent, var, known) for extent in piece.shape]) or ALL


def without_padding(loop: Loop) -> Range | None:
    """The values of the variable of a loop for which no tile in it has padding; None if there are none."""
    inner, known = {it.var for it in loop.walk() if isinstance(it, Loop) and it is not loop}, context_at(loop).names
    found = [
        _positive(1 - upper_expression(amount, lambda v: v not in inner, known), loop.var, known)
        for op in loop.walk()
        if (piece := padding_of(op)) is not None
        for amount in _amounts(piece, shape_of(op.results[0].type))
        if loop.var in variables(amount)
    ]
    return _of_all(found)


def _amounts(piece: Piece, shape: Sequence[Dim]) -> Iterator[Dim]:
    """How many elements of a tile there are before and after a piece, along each dim."""
    for low, have, wide, spacing in zip(piece.first, piece.shape, shape, piece.spacing, strict=True):
        yield low
        yield wide - low - (have if spacing == 1 else maximum(0, have * spacing - (spacing - 1)))


def _positive(size: Dim, var: Var, known: KnownSymbols) -> Range | None:
    """The values of a loop variable for which a size may be more than 0; None if there are none.

    A size that is neither linear in the variable nor a minimum or a maximum of such may be so everywhere.
    """
    extremum = next((a for a in atoms(size) if isinstance(a, Extremum) and var in variables(a.size())), None)
    factor = dict(size.terms).get((extremum,), 0) if extremum is not None and isinstance(size, Size) else 0
    if extremum is not None and factor:
        parts = [_positive(size + factor * (arg - extremum.size()), var, known) for arg in extremum.args]
        is_each = isinstance(extremum, Min) == (factor > 0)
        return _of_all(parts) if is_each else _of_any([part for part in parts if part is not None])
    rest = substitute(size, {var: 0})
    slope = substitute(size, {var: 1}) - rest
    if not isinstance(slope, int) or is_equal(size, rest + slope * Size.of(var), known) is not True:
        return ALL
    if slope == 0:
        return None if is_less_equal(size, 0, known) is True else ALL
    return Range(start=floordiv(-rest, slope) + 1) if slope > 0 else Range(end=ceildiv(rest, -slope))


def _of_all(parts: Sequence[Range | None]) -> Range | None:
    """The values that are in all of some ranges."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    starts = [part.start for part in known if part.start is not None]
    ends = [part.end for part in known if part.end is not None]
    return Range(maximum(*starts) if starts else None, minimum(*ends) if ends else None)


def _of_any(parts: Sequence[Range]) -> Range | None:
    """The smallest range with all values of some ranges."""
    if not parts:
        return None
    starts = [part.start for part in parts if part.start is not None]
    ends = [part.end for part in parts if part.end is not None]
    return Range(
        minimum(*starts) if len(starts) == len(parts) else None, maximum(*ends) if len(ends) == len(parts) else None
    )

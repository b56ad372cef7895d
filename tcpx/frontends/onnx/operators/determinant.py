"""The determinant of matrices, by elimination with pivots."""

from __future__ import annotations

from typing import Final

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.types import i1, shape_of, si64

MOST_ROWS: Final = 64
"""Of a matrix: each is a step of its own."""


@rule("Det")
def determinant(n: Node) -> Result:
    """Of each matrix of a batch: the product of the pivots, which are the greatest elements left of each column."""
    w, (*batch, rows, columns) = n.w, n.ranked(0, 2).shape
    if not isinstance(rows, int) or rows != columns or not 1 <= rows <= MOST_ROWS:
        raise Unsupported(f"the determinant of {n.input(0)}: matrices have 1 to {MOST_ROWS} rows", [rows, columns])
    x, lead = n.value(0), len(batch)
    made = w.fill(1, tuple(batch), n.dtype())
    for left in range(rows, 0, -1):
        row, column = (*batch, 1, left), (*batch, left)
        first = w.reshape(w.part(x, lead + 1, 0, 1), column)
        size = w.unary("abs", first)
        at = w.several("reduce_argmax", [size], [(tuple(batch), None), (tuple(batch), si64)], dims=(lead,))[1]
        place = w.op("broadcast", at, shape=row, dims=tuple(range(lead)))
        chosen = w.op("gather_elements", x, place, shape=row, dim=lead, out_of_range="fill")
        pivot = w.reshape(w.part(chosen, lead + 1, 0, 1), tuple(batch))
        is_moved = w.with_number("greater", at, 0, dtype=i1)
        made = w.op("mul", made, w.select(is_moved, w.unary("neg", pivot), pivot))
        if left == 1:
            break
        which = w.op("iota", shape=shape_of(x.type), dtype=si64, dim=lead)
        wide = w.op("broadcast", at, shape=shape_of(x.type), dims=tuple(range(lead)))
        is_chosen = w.op("equal", which, wide, dtype=i1)
        x = w.select(is_chosen, w.part(x, lead, 0, 1), x)
        rest = w.part(w.part(x, lead, 1, left - 1), lead + 1, 1, left - 1)
        factors = w.part(w.part(x, lead, 1, left - 1), lead + 1, 0, 1)
        safe = w.select(w.with_number("equal", pivot, 0, dtype=i1), w.fill(1, (), n.dtype()), pivot)
        factors = w.binary("div", factors, w.reshape(safe, (*batch, 1, 1)))
        x = w.op("sub", rest, w.binary("mul", factors, w.part(chosen, lead + 1, 1, left - 1)))
    return made

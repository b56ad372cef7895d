"""Rotary embeddings as ONNX Runtime has them: pairs of columns turned by angles of their positions."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, contributed
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, floordiv
from tcpx.payload.types import shape_of, si64


@contributed(
    "com.microsoft.RotaryEmbedding", "input position_ids cos_cache sin_cache", "output",
    interleaved=0, is_packed_batching=0, num_heads=0, rotary_embedding_dim=0, scale=1.0,
)  # fmt: skip
def rotary_embedding(n: Node) -> Result:
    """Of the first columns of each head; positions are those of each token, or that of the first one."""
    w, own = n.w, n.ranked(0, 3, 4).shape
    tables = [n.value_of(n.ranked(index, 2, 2)) for index in (2, 3)]
    heads, columns = n.int("num_heads"), n.int("rotary_embedding_dim")
    x, axis = n.value(0), 1
    if len(own) == 3:
        size = floordiv(own[2], heads) if heads > 0 else n.shape(2)[1] * 2
        if same(size, 0) or not same(floordiv(own[2], size) * size, own[2]):
            raise n.error("the columns of all heads", f"a multiple of {size}", shown(own))
        x, axis = w.reshape(x, [*own[:2], floordiv(own[2], size), size]), 2
    size, length = shape_of(x.type)[3], shape_of(x.type)[3 - axis]
    places = n.value(1)
    if n.ranked(1, 1, 2).rank == 1:
        first = w.expand(w.cast(n.value(1), si64), (length,))
        places = w.op("add", w.op("iota", shape=(length,), dtype=si64, dim=0), first)
    made = turned(n, x, axis, places, tables, bool(n.int("interleaved")), columns or size)
    return w.reshape(made, own)


def turned(
    n: Node, x: Value, axis: int, places: Value, tables: Sequence[Value], interleaved: bool, columns: Dim
) -> Value:
    """Heads of four dims, `axis` that of the heads, of which so many columns are turned by the angles whose cosines and
    sines the tables have for positions [length] or [batch, length]."""
    w, own = n.w, shape_of(x.type)
    half = floordiv(columns, 2)
    for table in tables:
        if not same(shape_of(table.type)[-1], half):
            raise n.error("a column of cosines and sines for two columns", shown([half]), shown(shape_of(table.type)))
    wide = [*own[:3], half]
    cos, sin = (_spread(n, w.take(table, places, 0), axis, wide) for table in tables)
    offset, step = (1, 2) if interleaved else (half, 1)
    a, b = (w.slice(x, [0, 0, 0, start], wide, [1, 1, 1, step]) for start in (0, offset))
    first = w.op("sub", w.op("mul", a, cos), w.op("mul", b, sin))
    second = w.op("add", w.op("mul", a, sin), w.op("mul", b, cos))
    if interleaved:
        pairs = [w.reshape(part, [*wide, 1]) for part in (first, second)]
        made = w.reshape(w.concat(pairs, 4), [*own[:3], columns])
    else:
        made = w.concat([first, second], 3)
    rest = own[3] - columns
    return made if same(rest, 0) else w.concat([made, w.part(x, 3, columns, rest)], 3)


def _spread(n: Node, angles: Value, axis: int, wide: Sequence[Dim]) -> Value:
    """Cosines or sines of positions for all heads."""
    own = list(shape_of(angles.type))
    own.insert(len(own) - 1 if axis == 2 else len(own) - 2, 1)
    return n.w.expand(n.w.reshape(angles, own), wide)

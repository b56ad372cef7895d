"""Writes of vectors to tensors and buffers: one per piece, masked rows and lanes by the sizes of its tile."""

from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import StYield
from tcpx.payload.ops.vector import Write
from tcpx.payload.types import lanes_of
from tcpx.transform.vectors.accesses import Lanes, is_empty
from tcpx.transform.vectors.pieces import Pieces, flattened


def lower_write(pieces: Pieces, op: StYield | Write) -> bool:
    """Write the pieces of a vector; False if the vector is one piece, written as it is."""
    value = op.operands[0]
    width = pieces.widths.of(value)
    if pieces.widths.is_piece(value):
        pieces.rewriter.set_operand(op, 0, pieces.piece(value, (0,), width))
        return False
    rows = pieces.rows_of_columns(value, op, op.subset)
    for start, vector in (rows or {}).items():
        tile = pieces.tiles.at(op).piece(flattened(op.subset), start, Lanes(len(start) - 1, 1, lanes_of(vector.type)))
        if not is_empty(tile):
            *others, buffer = op.operands[1:]
            pieces.put(type(op)([vector, *others, pieces.flat(buffer)], [], {**op.attributes, "subset": tile}), op)
    if rows is not None:
        return True
    for key in pieces.keys(value.type, width):
        lanes = [Lanes(len(key) - 1, 1, width)] if width > 1 else []
        tile = pieces.tiles.at(op).piece(op.subset, pieces.start(key, width), *lanes)
        if is_empty(tile):
            continue
        made: Operation = type(op)(
            [pieces.piece(value, key, width), *op.operands[1:]], [], {**op.attributes, "subset": tile}
        )
        pieces.put(made, op)
    return True

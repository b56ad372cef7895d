"""Fixes of loops of the payload: what no iteration changes before them, and all iterations as one operation."""

import re
from collections.abc import Sequence

from tcpx.payload.diagnostics import Location
from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import IteratorKind, Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.sizes import Dim, Var
from tcpx.payload.subsets import Tile
from tcpx.payload.text.printer import print_operation
from tcpx.payload.types import dtype_of, shape_of
from tcpx.remarks.hints import ROUNDS, Hint, PayloadEdit, in_place, lines_named, operand_texts, statement


def before_loop(op: Operation) -> Hint | None:
    """What no iteration of a loop of the payload changes, computed before it."""
    loop = _loop_of(op)
    if loop is None or loop.location is None:
        return None
    moved = _invariant(loop)
    lines = {line for each in moved for line in _lines_of(each.location)}
    if not any(not isinstance(each, Const) for each in moved) or not lines:
        return None
    texts = tuple(line for each in moved for line in print_operation(each).splitlines())
    where = f"in place of {lines_named(lines)} of the payload write before line {loop.location.line}:"
    return Hint("\n".join((where, *texts)), payload=PayloadEdit(tuple(moved), loop, texts))


def of_all_rows(op: Operation) -> Hint | None:
    """An operation on a row in each iteration of a loop that does nothing else, as the same operation on all rows."""
    loop = _loop_of(op)
    if loop is None or not isinstance(op, Structured) or op.regions or len(op.results) != 1 or len(loop.results) != 1:
        return None
    rows = {each.results[0]: each for each in loop.body.ops if isinstance(each, Materialize)}
    yields, result = loop.yields_to(0), loop.results[0]
    if len(yields) != 1 or yields[0].operands[0] is not op.results[0] or len(loop.body.ops) != len(rows) + 2:
        return None
    at, out = _row_of(yields[0].subset, shape_of(result.type), loop.var), map_dims(op.result_map())
    if at is None or out is None or not _is_independent(op, out[at]):
        return None
    texts = operand_texts(op)
    for k, (value, dims) in enumerate(zip(op.operands, map(map_dims, op.maps()), strict=True)):
        along = dims.index(out[at]) if dims is not None and out[at] in dims else None
        row = rows.get(value)
        source = row.operands[0] if row is not None else value
        if row is not None and along != _row_of(row.subset, shape_of(source.type), loop.var):
            return None
        if dims is None or (row is None) != (along is None) or source in loop.body.args:
            return None
        texts[k] = f"%{source.name}" if row is not None else texts[k]
    line = statement(result.name, op, texts.values(), result.type)
    return in_place([line], ROUNDS if op.reduces and dtype_of(result.type).is_float else "").on(loop)


def _loop_of(op: Operation) -> Loop | None:
    """The innermost loop round an operation, or the operation itself."""
    return next((outer for outer in (op, *op.ancestors()) if isinstance(outer, Loop)), None)


def _row_of(tile: Tile, shape: Sequence[Dim], var: Var) -> int | None:
    """The dim along which each iteration has a row of its own, of all that there are; None for other subsets."""
    index = var.size()
    at = [k for k, offset in enumerate(tile.offsets) if offset == index]
    if len(at) != 1 or (var.lower, var.upper, var.step) != (0, shape[at[0]], 1):
        return None
    offsets = tuple(index if k in at else 0 for k in range(len(shape)))
    sizes = tuple(1 if k in at else size for k, size in enumerate(shape))
    return at[0] if tile == Tile(offsets, sizes) else None


def _is_independent(op: Structured, dim: str) -> bool:
    """Whether iterations along a dim do not depend on each other."""
    return any(each.name == dim and each.kind is IteratorKind.PARALLEL for each in op.iterators())


def _lines_of(place: Location | None) -> range:
    return range(place.line, max(place.end_line, place.line) + 1) if place is not None else range(0)


def _invariant(loop: Loop) -> list[Operation]:
    """The operations in the body of a loop that compute the same in each iteration."""
    varying: set[Value] = {value for block in (loop.body,) for value in block.args}
    variable = re.compile(rf"(?<![\w.]){re.escape(loop.var.name)}(?![\w.])")
    found: list[Operation] = []
    for op in loop.body.ops:
        reads = {value for inner in op.walk() for value in inner.operands}
        is_alike = op.results and not isinstance(op, StYield | Loop) and reads.isdisjoint(varying)
        if is_alike and not variable.search(print_operation(op)):
            found.append(op)
        else:
            varying.update(op.results)
    for op in reversed(found):
        is_short = not op.operands or isinstance(op, Broadcast)  # may be written in the statement of its user
        if is_short and not any(user in found for value in op.results for user in value.users):
            found.remove(op)
    return found

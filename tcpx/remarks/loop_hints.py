"""Fixes of loops of the payload: what no iteration changes before them, and all iterations as one operation."""

import re
from collections.abc import Sequence

from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Elementwise, IteratorKind, Structured
from tcpx.payload.ir import Operation
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.gml_st import Loop, Materialize, OnSubset, StYield
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.size_traversal import variables
from tcpx.payload.sizes import Dim, Var, is_less_equal, to_text
from tcpx.payload.subsets import Tile
from tcpx.payload.text.printer import print_operation
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.remarks.hints import ROUNDS, Hint, PayloadEdit, in_place, lines_named, lines_of, operand_texts, statement


def before_loop(op: Operation) -> Hint | None:
    """What no iteration of a loop of the payload changes, computed before it."""
    loop = _loop_of(op)
    if loop is None or loop.location is None:
        return None
    moved = _invariant(loop)
    lines = {line for each in moved for line in lines_of(each.location)}
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


def as_one_row(op: Operation) -> Hint | None:
    """A loop that computes an element in each iteration, of elements at its own place in rows, as one iteration for
    whole rows, which have an element at least: a loop has no steps of 0."""
    loop = _loop_of(op)
    if loop is None or loop.var.step != 1 or not loop.is_counted:
        return None
    places = {_own_place(each, loop.var) for each in loop.body.ops}
    at = next((place for place in places if place is not None), None)
    if at is None or places - {at, None} or not all(map(_is_on_elements, loop.body.ops)):
        return None
    var, length = loop.var, loop.var.upper - loop.var.lower
    if is_less_equal(1, length) is not True:
        return None
    head, *_, last = print_operation(loop).splitlines()
    name, carried = head[: head.index(" in ")], head[head.index(" (%") :]
    head = f"{name} in {to_text(var.lower)} to {to_text(var.upper)} step {to_text(length)}{carried}"
    body = [f"  {_of_row(each, at, length)}" for each in loop.body.ops if not isinstance(each, Fill)]
    return in_place([head, *body, last]).on(loop)


def _own_place(op: Operation, var: Var) -> int | None:
    """The dim of a subset along which each iteration has an element of its own; -1 where it has another subset, None
    for an operation on other values."""
    if not isinstance(op, OnSubset):
        return None
    tile = op.subset
    at = [k for k, offset in enumerate(tile.offsets) if any(each.name == var.name for each in variables(offset))]
    is_own = len(at) == 1 and tile.offsets[at[0]] == var.size() and tile.sizes[at[0]] == 1 and not tile.dropped
    return at[0] if is_own and all(stride == 1 for stride in tile.strides) else -1


def _is_on_elements(op: Operation) -> bool:
    return isinstance(op, Materialize | StYield | Fill) or (isinstance(op, Elementwise) and not op.regions)


def _of_row(op: Operation, at: int, length: Dim) -> str:
    """The text of an operation on one element, on a row of so many along a dim."""

    def along(dims: Sequence[Dim]) -> list[Dim]:
        return [length if k == at else dim for k, dim in enumerate(dims)]

    types = [like(value.type, tuple(along(shape_of(value.type))), dtype_of(value.type)) for value in op.results]
    if not isinstance(op, OnSubset):
        return statement(op.results[0].name, op, operand_texts(op).values(), *types)
    offsets, sizes = (", ".join(map(to_text, dims)) for dims in (op.subset.offsets, along(op.subset.sizes)))
    operands = ", ".join(f"%{value.name}" for value in op.operands)
    text = f"{op.opcode}({operands}) tile [{offsets}] [{sizes}]"
    return f"%{op.results[0].name} = {text} : {types[0]}" if op.results else text


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


def _invariant(loop: Loop) -> list[Operation]:
    """The operations in the body of a loop that compute the same in each iteration."""
    varying = set(loop.body.args)
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

"""Fixes of loops of the payload: what no iteration changes before them, and all iterations as one operation."""

import re
from collections.abc import Sequence
from dataclasses import replace

from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Elementwise, IteratorKind, Structured
from tcpx.payload.ir import Operation, Value, operation_classes
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.contract import ContractBase
from tcpx.payload.ops.elementwise import Max, Min
from tcpx.payload.ops.gml_st import Loop, Materialize, OnSubset, StYield
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.reduce import Reduce, ReduceTruth
from tcpx.payload.sizes import Dim, Var, is_less_equal, to_text
from tcpx.payload.sizes.traversal import variables
from tcpx.payload.subsets import Tile
from tcpx.payload.text.printer import print_operation
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.remarks.body_hints import Factor, contraction
from tcpx.remarks.edits import span_of
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
    if loop is None or not loop.is_counted or len(loop.results) != 1:
        return None
    if not isinstance(op, Structured) or op.regions or len(op.results) != 1:
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
    return in_place([line], ROUNDS if Reduction.of(op) is not None and dtype_of(result.type).is_float else "").on(loop)


def products_before_loop(op: Operation) -> Hint | None:
    """A product of a row in each iteration of a loop with what no iteration changes, as one of all rows before the
    loop, which then reads rows of the result."""
    loop = _loop_of(op)
    if loop is None or op.parent is not loop.body or not isinstance(op, ContractBase) or len(op.operands) != 2:
        return None
    rows = {k: row for k, value in enumerate(op.operands) if (row := _own_row(value, loop)) is not None}
    names, out = [map_dims(each) for each in op.maps()], map_dims(op.result_map())
    if len(rows) != 1 or out is None:
        return None
    ((k, (row, at)),) = rows.items()
    own, other, matrix = names[k], names[1 - k], op.operands[1 - k]
    if own is None or other is None or matrix in _changing(loop):
        return None
    along = own[at]
    if row.subset.dropped:
        along = next(name for n in range(len(own) + len(other)) if (name := f"row{n}") not in {*own, *other})
        own, out = (*own[:at], along, *own[at:]), (along, *out)
    elif along not in out:
        return None
    name, type_ = op.results[0].name, op.results[0].type
    extents = dict(zip((*own, *other), (*shape_of(row.source.type), *shape_of(matrix.type)), strict=True))
    sums = like(type_, tuple(extents[each] for each in out), dtype_of(type_))
    subset = _row_at(out.index(along), shape_of(sums), loop.var)
    subset = replace(subset, dropped=(out.index(along),)) if row.subset.dropped else subset
    lines = print_operation(loop).splitlines()
    span = span_of(lines, name)
    if not span:
        return None
    factors = (row.source, own), (matrix, other)
    (lhs, lhs_dims), (rhs, rhs_dims) = factors if k == 0 else factors[::-1]
    product = contraction(f"%{name}.rows", Factor(f"%{lhs.name}", lhs_dims), Factor(f"%{rhs.name}", rhs_dims), out)
    lines[span.start : span.stop] = [f"  %{name} = gml_st.materialize(%{name}.rows) {subset.text()} : {type_}"]
    alone = span_of(lines, row.name) if len(row.result.uses) == 1 else range(0)
    del lines[alone.start : alone.stop]
    return in_place([f"{product} : {sums}", *lines], ROUNDS if dtype_of(type_).is_float else "").on(loop)


def as_reduction(op: Operation) -> Hint | None:
    """A loop that combines a row in each iteration with what it carries, and does nothing else, as a reduction."""
    loop = _loop_of(op)
    if loop is None or not loop.is_counted or len(loop.results) != 1 or len(loop.body.ops) != 3:
        return None
    (carried,), ends, result = loop.destinations, loop.yields_to(0), loop.results[0]
    combine = ends[0].value.defining_op if len(ends) == 1 else None
    others = [value for value in combine.operands if value is not carried] if combine is not None else []
    row = _own_row(others[0], loop) if len(others) == 1 and ends[0].is_of_all else None
    classes = operation_classes().values()
    reductions = (each for each in classes if issubclass(each, Reduce) and not issubclass(each, ReduceTruth))
    reduction = next((each for each in reductions if each.combiner is type(combine)), None)
    if combine is None or row is None or reduction is None or len(combine.operands) != 2 or len(carried.uses) != 2:
        return None
    (taken, at), init = row, loop.operands[0]
    if taken.subset.dropped != (at,) or dtype_of(taken.source.type) != dtype_of(result.type):
        return None
    text = f"%{result.name} = {reduction.opcode}(%{taken.source.name}, init = %{init.name}) {{dims = [{at}]}}"
    is_exact = not dtype_of(result.type).is_float or reduction.combiner in (Max, Min)
    return in_place([f"{text} : {result.type}"], "" if is_exact else ROUNDS).on(loop)


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


def _own_row(value: Value, loop: Loop) -> tuple[Materialize, int] | None:
    """What takes a row of its own in each iteration, of all rows of an array that no iteration changes, and the dim
    that these are along."""
    row = value.defining_op
    if not isinstance(row, Materialize) or row.parent is not loop.body or row.source in _changing(loop):
        return None
    at = _row_of(replace(row.subset, dropped=()), shape_of(row.source.type), loop.var)
    return (row, at) if at is not None and row.subset.dropped in ((), (at,)) else None


def _changing(loop: Loop) -> set[Value]:
    """What an iteration of a loop computes, and what it is given by the one before."""
    return {*loop.destinations, *(value for op in loop.body.ops for value in op.results)}


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
    return at[0] if tile == _row_at(at[0], shape, var) else None


def _row_at(at: int, shape: Sequence[Dim], var: Var) -> Tile:
    """The row along a dim whose index is a loop variable."""
    offsets, sizes = list(Tile.full(shape).offsets), list(shape)
    offsets[at], sizes[at] = var.size(), 1
    return Tile(tuple(offsets), tuple(sizes))


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

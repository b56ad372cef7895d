"""Fixes of sums of products that are written as one body: what each factor computes alone, then contractions."""

import json
from collections.abc import Sequence
from itertools import chain, combinations
from typing import Final

from tcpx.costs.operations import CAST
from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.generic import Generic
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType, dtype_of, like, shape_of
from tcpx.records import frozen
from tcpx.remarks.hints import ROUNDS, Hint, in_place, statement
from tcpx.transform.vectors.multiply_add import FUSED, PRODUCT, SUM

_GIVEN: Final = frozenset(("iterators", "maps", "combiner"))


@frozen
class Factor:
    """The text of a value, and the dims of the sum that its dims are."""

    text: str
    dims: tuple[str, ...]


def as_contractions(op: Operation) -> Hint | None:
    """A generic that adds products, each factor of which is computed of one operand, as contractions of two factors
    each; None for another operation."""
    if (
        not isinstance(op, Generic)
        or len(op.results) != 1
        or Reduction(op).neutral() != 0
        or set(op.attributes) - _GIVEN
    ):
        return None
    maps, out = [map_dims(each) for each in op.maps()], map_dims(op.result_map())
    dims = [each for each in maps if each is not None]
    factors = _factors(op)
    if out is None or len(dims) != len(op.operands) or len(factors) != len(dims) or len(dims) < 2:
        return None
    sized = (zip(names, shape_of(value.type), strict=True) for names, value in zip(dims, op.operands, strict=True))
    extents = dict(chain.from_iterable(sized))
    result, lines, name = op.results[0], list[str](), op.results[0].name
    known = [Factor(_alone(factors[k], op, k, lines), names) for k, names in enumerate(dims)]
    while len(known) != 2:
        pair = _summed(known, out)
        if pair is None:
            return None
        rest = [each for each in known if each not in pair]
        needed = {*out, *(dim for each in rest for dim in each.dims)}
        kept = tuple(dict.fromkeys(dim for each in pair for dim in each.dims if dim in needed))
        made = Factor(f"%{name}.part{len(known) - 2}", kept)
        type_ = like(result.type, tuple(extents[dim] for dim in kept), dtype_of(result.type))
        lines.append(f"{contraction(made.text, *pair, kept)} : {type_}")
        known = [made, *rest]
    lhs, rhs = known
    lines.append(f"{contraction(f'%{name}', lhs, rhs, out)} : {result.type}")
    return in_place(lines, ROUNDS if dtype_of(result.type).is_float else "").on(op)


def contraction(name: str, lhs: Factor, rhs: Factor, out: Sequence[str]) -> str:
    """The statement of a contraction, without its type."""
    roles = {"lhs": lhs.dims, "rhs": rhs.dims, "out": out}
    attributes = ", ".join(f"{role} = {json.dumps(list(dims))}" for role, dims in roles.items())
    return f"{name} = tcp.contract({lhs.text}, {rhs.text}) {{{attributes}}}"


def _summed(known: Sequence[Factor], out: Sequence[str]) -> tuple[Factor, Factor] | None:
    """Two factors that alone have a dim which is summed."""
    for pair in combinations(known, 2):
        others = {dim for each in known if each not in pair for dim in each.dims}
        if {*pair[0].dims, *pair[1].dims} - others - set(out):
            return pair
    return None


def _factors(op: Generic) -> dict[int, Value]:
    """The factors of the product that the body adds, by the number of the operand that each is computed of; empty for
    another body."""
    block = op.regions[0]
    *inputs, acc = block.args
    end = block.terminator
    total = end.operands[0].defining_op if end is not None and len(inputs) == len(op.operands) else None
    found: dict[int, Value] = {}
    for value in _multiplied(total, acc):
        (number, *others) = {k for k, arg in enumerate(inputs) if arg in _cone(value)} or {-1}
        is_simple = all(isinstance(each.defining_op, Elementwise | Const | None) for each in _cone(value))
        if others or number < 0 or number in found or acc in _cone(value) or not is_simple:
            return {}
        found[number] = value
    return found


def _multiplied(total: Operation | None, acc: Value) -> list[Value]:
    """What is multiplied in a sum with what was added before; nothing of another operation."""
    if not isinstance(total, Elementwise):
        return []
    if total.semantics == FUSED and total.operands[2] is acc:
        return [each for value in total.operands[:2] for each in _split(value)]
    if total.semantics == SUM and acc in total.operands:
        return [each for value in total.operands if value is not acc for each in _split(value)]
    return []


def _split(value: Value) -> list[Value]:
    """The factors of a value."""
    op = value.defining_op
    is_product = isinstance(op, Elementwise) and op.semantics == PRODUCT
    return [each for operand in op.operands for each in _split(operand)] if is_product and op is not None else [value]


def _cone(value: Value) -> set[Value]:
    """A value and all that it is computed of."""
    op = value.defining_op
    return {value}.union(*(_cone(each) for each in op.operands)) if op is not None else {value}


def _alone(value: Value, op: Generic, number: int, lines: list[str]) -> str:
    """The text of a factor, with the lines that compute it of an operand: none where it is that, or the cast of it that
    a contraction does."""
    source, arg, cone = op.operands[number], op.regions[0].args[number], _cone(value)
    made_by = value.defining_op
    is_cast = isinstance(made_by, Elementwise) and made_by.semantics == CAST and made_by.operands[0] is arg
    if value is arg or (is_cast and value.type == op.acc_type):
        return f"%{source.name}"
    texts = {arg: f"%{source.name}"}
    for each in op.regions[0].ops:
        if each.results and each.results[0] in cone:
            made = each.results[0]
            if isinstance(each, Const):
                texts[made] = str(each.attributes["value"])
                continue
            texts[made] = f"%{op.results[0].name}.{number}.{made.name}"
            dtype = made.type if isinstance(made.type, ScalarType) else dtype_of(made.type)
            type_ = like(source.type, shape_of(source.type), dtype)
            lines.append(statement(texts[made][1:], each, [texts[operand] for operand in each.operands], type_))
    return texts[value]

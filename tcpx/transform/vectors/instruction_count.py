"""How many instructions an operation on vectors becomes, found before any is made."""

from math import prod
from typing import Final

from tcpx.limits import MOST_INSTRUCTIONS, MOST_LANES_OF_OPERATION, MOST_VECTORS
from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Block, Operation
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.types import VectorType, dtype_of
from tcpx.target import LaneType, Target
from tcpx.target.semantics import is_expression
from tcpx.transform.vectors.lane_dims import choose_lane_dim, dims_of_result, extents_of
from tcpx.transform.vectors.probes import body_of, trial
from tcpx.transform.vectors.refusal import refusal

FEWEST_EXPANDED: Final = 32
"""Vectors of an operation from which on what each of them takes is counted."""


def check_instructions(op: Operation, target: Target) -> None:
    """Refuse an operation on vectors that takes more instructions than a C compiler can cope with."""
    types = [v.type for v in (*op.results, *op.operands) if isinstance(v.type, VectorType)]
    found = ", ".join(dict.fromkeys(map(str, types)))
    fix = Direction("tile it smaller before vectorize, reduction dims too")
    count = instruction_count(op, target)
    if count > MOST_INSTRUCTIONS:
        required = f"at most {MOST_INSTRUCTIONS} for one operation"
        raise refusal(op, f"would become {count} instructions", required, found, fix)
    for_each = instructions_of_vector(op, target) if count >= FEWEST_EXPANDED and isinstance(op, Structured) else 1
    if count * for_each > MOST_LANES_OF_OPERATION:
        required = f"at most {MOST_LANES_OF_OPERATION} for one operation, those for single lanes among them"
        raise refusal(
            op, f"would become {count * for_each} instructions, {for_each} for each vector", required, found, fix
        )
    registers = max((_registers(type_, target) for type_ in types), default=0)
    if registers > MOST_VECTORS:
        raise refusal(
            op,
            f"would hold {registers} registers at once",
            required=f"at most {MOST_VECTORS} for one value",
            found=found,
            fix=Direction("tile it smaller before vectorize"),
        )


def instruction_count(op: Operation, target: Target) -> int:
    """Registers of the largest vector it reads or makes; of a reduction, those of its result for each step of it."""
    types = [v.type for v in (*op.results, *op.operands) if isinstance(v.type, VectorType)]
    largest = max((_registers(t, target) for t in types), default=0)
    if not types or not isinstance(op, Structured):
        return largest
    extents, lanes = extents_of(op), min(target.lanes(dtype.name) for dtype in op.acc_types)
    steps = prod(extents[it.name] for it in op.iterators() if it.is_reduction and it.name not in dims_of_result(op))
    lane, result = choose_lane_dim(op, lanes), op.results[0].type
    if lane is not None and lane.is_reduction:
        elements = prod(extents[it.name] for it in op.iterators() if not it.is_reduction)
        return max(largest, elements * -(-steps // max(1, lanes)))
    return max(largest, steps * _registers(result, target)) if isinstance(result, VectorType) else largest


def instructions_of_vector(op: Structured, target: Target) -> int:
    """Instructions that the target takes for one vector of what an operation does to elements, for each step of a
    reduction; what it has no instruction for is what that is expanded to, or is done lane by lane."""
    return sum(_of_element(inner, target) for inner in body_of(op))


def _of_element(op: Operation, target: Target) -> int:
    if not isinstance(op, Elementwise) or not op.operands:
        return 0
    dtypes = [dtype_of(v.type) for v in (op.result, *op.operands)]
    lanes = min(target.lanes(dtype.name) for dtype in dtypes)
    result, *operands = (LaneType(dtype.name, lanes) for dtype in dtypes)
    if is_expression(op.semantics) and target.find("compute", op.semantics, result, operands) is not None:
        return 1
    args = Block([("", dtype) for dtype in dtypes[1:]]).args
    expanded = trial(lambda build: Expansion(op).expansion(build, args))
    return sum(_of_element(inner, target) for inner in expanded) if expanded else lanes


def _registers(type_: VectorType, target: Target) -> int:
    *outer, last = type_.shape or (1,)
    return prod(outer) * -(-last // max(1, target.lanes(type_.dtype.name)))

"""How many scalar operations a block runs, in a payload, whatever its schedule, or in a lowered kernel. `tcpx profile`
and `tcpx tune` both divide this count by the rates of the machine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.dot_product import Dot
from tcpx.payload.ops.gml_st import Conditional, If, Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.runs import bound, iterations
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.types import HALF, ScalarType, VectorType, dtype_of, f32, i1, shape_of
from tcpx.target import LaneType, Target, target_at
from tcpx.target.semantics import is_expression
from tcpx.transform.vectors.probes import body_of, discard, trial

PEAK = "fma_f32"
"""The peak of all that has none of its own."""
CAST = "cast(a)"
WIDENED, WIDENED_BITS = "si16", 16
Operations = Counter[str]
"""Numbers of operations by the peak that limits them, a loop of `tcpx.measure.instruction_loops`."""


def operations_of_block(block: Block, sizes: Mapping[str, int], target: Target) -> Operations:
    """The operations of one run. Loops count as many times as their first iterations, branches as the side that is
    taken, the larger one where only the elements tell; functions that are called count in their own target."""
    found = Operations()
    for op in block.ops:
        if isinstance(op, Bind):
            sizes = bound(op, sizes)
        found += operations_of(op, sizes, target)
    return found


def operations_of_loop(loop: Loop, sizes: Mapping[str, int], target: Target) -> Operations:
    """The operations of all iterations."""
    values = iterations(loop, sizes)
    if not values:
        return Operations()
    return multiplied(len(values), operations_of_block(loop.body, {**sizes, loop.var.name: values[0]}, target))


def taken(op: Conditional, sizes: Mapping[str, int], target: Target) -> Block:
    """The branch that runs; the larger one where only the elements tell."""
    if isinstance(op, If):
        return op.then if op.predicate.evaluate(sizes) else op.orelse
    return max(op.regions, key=lambda region: operations_of_block(region, sizes, target).total())


def sizes_in_callee(call: Operation, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes in the function that a call runs."""
    return {**sizes, **{symbol.name: evaluate(size, sizes) for symbol, size in Calling(call).binding.items()}}


def operations_of_element(op: Operation, target: Target) -> int:
    """The operations for an element of an elementwise operation: two of one that multiplies and adds, those of its
    expansion for vectors where the target has no instruction for it, or a slow one, none of a cast between numbers."""
    if not isinstance(op, Elementwise) or not op.operands or op.is_movement:
        return 0
    if op.semantics == CAST:
        return int(dtype_of(op.operands[0].type) == i1)
    dtypes = [f32 if dtype in HALF else dtype for dtype in (dtype_of(v.type) for v in (op.result, *op.operands))]
    lanes = min(target.lanes(dtype.name) for dtype in dtypes)
    result, *operands = (LaneType(dtype.name, lanes) for dtype in dtypes)
    row = target.find("compute", op.semantics, result, operands) if is_expression(op.semantics) else None
    if row is None or row.is_slow:
        result_type, *types = (VectorType((lanes,), dtype) for dtype in dtypes)
        vectors = type(op)(Block([("", type_) for type_ in types]).args, [result_type], op.attributes)
        expanded = trial(lambda build: Expansion(vectors).expansion(build, vectors.operands))
        if expanded:
            return sum(operations_of_element(inner, target) for inner in expanded)
    return 2 if len(operands) == 3 and len(set(dtypes[1:])) == 1 else 1


def operations_of(op: Operation, sizes: Mapping[str, int], target: Target) -> Operations:
    """The operations of one run of an operation, with those in its regions and in functions that it calls."""
    match op:
        case Loop():
            return operations_of_loop(op, sizes, target)
        case Conditional():
            return operations_of_block(taken(op, sizes, target), sizes, target)
        case OnSubset() | StYield():
            return Operations()
        case _ if (called := Calling(op).callee) is not None:
            return operations_of_block(called.body, sizes_in_callee(op, sizes), target_at(called, target))
        case _ if Calling(op).work != 0:
            return Operations({PEAK: evaluate(Calling(op).work, sizes)})
        case Composite():
            made = _parts_of(op)
            return sum((operations_of(inner, sizes, target) for inner in made), Operations())
        case Dot():
            factors = op.operands[1:]
            return Operations(
                {_peak(factors, [dtype_of(op.result.type)], target): 2 * prod(_extents(factors[0], sizes))}
            )
        case Structured() if not op.is_movement and op.operands:
            points = prod(max(0, evaluate(extent, sizes)) for extent in op.domain())
            each = sum(operations_of_element(inner, target) for inner in body_of(op))
            return Operations({_peak(op.inputs, op.acc_types, target): points * each})
        case _:
            return Operations()


def _parts_of(op: Composite) -> Sequence[Operation]:
    """The operations that it stands for; they are discarded."""
    made: list[Operation] = []

    def build(part: Operation) -> Value:
        made.append(part)
        return part.results[0]

    op.decomposed(build)
    for part in made:
        discard(part)
    return made


def multiplied(count: float, operations: Operations) -> Operations:
    """The operations of so many runs."""
    return operations if count == 1 else Operations({peak: count * number for peak, number in operations.items()})


def _extents(value: Value, sizes: Mapping[str, int]) -> list[int]:
    return [evaluate(dim, sizes) for dim in shape_of(value.type)]


def _peak(inputs: Sequence[Value], acc_types: Sequence[ScalarType], target: Target) -> str:
    """The loop of `tcpx.measure.instruction_loops` that does nothing but such operations. Integers that have no dot
    product of their own are widened for one, where there is that."""
    dtypes = [dtype_of(value.type) for value in inputs]
    names = [dtype.name for dtype in dtypes]
    widened = [WIDENED] * 2 if all(dtype.is_integer and dtype.bits < WIDENED_BITS for dtype in dtypes) else names
    for factors in (names, widened) if len(names) == 2 and len(acc_types) == 1 else ():
        if target.dot_width(factors[0], factors[1], acc_types[0].name) > 1:
            return "_".join(["dot", *sorted(set(factors), reverse=True)])
    return "fma_f64" if any(dtype.name == "f64" for dtype in acc_types) else PEAK

"""What a payload has to do at given sizes, however it is scheduled: operations and bytes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import FuncOp, Module
from tcpx.payload.runs import executions
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import TensorType, Type, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.target import Target


@frozen
class Demand:
    """`operations` by the peak that limits them (`fma_f32`, `dot_ui8_si8`: the loops of `tcpx.measure`), one for each
    point of an iteration domain, two where it also sums. `bytes` are those of arguments, constants and results."""

    operations: Mapping[str, float]
    bytes: float


def demand_of(module: Module, target: Target, arrays: Sequence[Array]) -> Demand:
    """The demand of a call with these arguments. Raises ArgumentError where they tell no sizes.

    Operations that declare no iteration domain count as bytes alone, so it is a lower bound. Loops of the payload count
    as many times as their first iterations.
    """
    func = module.main
    sizes = bind_symbols(func, arrays)
    held = {id(v): v.type for v in (*func.args, *func.returned)}
    called = (op for run in module.reached(func) for op in run.walk())
    held |= {id(op.result): op.result.type for op in called if "constant" in op.attributes}
    operations = dict(_operations(func, sizes, 1, target))
    return Demand(operations, float(sum(_bytes(type_, sizes) for type_ in held.values())))


def _operations(func: FuncOp, sizes: Mapping[str, int], runs: int, target: Target) -> Counter[str]:
    found: Counter[str] = Counter()
    for op, known, times in executions(func.body, sizes, runs):
        if op.callee is not None:
            bound = {symbol.name: evaluate(size, known) for symbol, size in op.binding.items()}
            found += _operations(op.callee, bound, times, target)
        if isinstance(op, Structured) and not op.is_movement:
            points = times * prod(evaluate(extent, known) for extent in op.domain())
            sums = any(it.is_reduction for it in op.iterators())
            found[_peak(op, target)] += points * (2 if sums else 1)
    return found


def _peak(op: Structured, target: Target) -> str:
    """The loop of `tcpx.measure.instruction_loops` that does nothing but such operations."""
    names = [dtype_of(value.type).name for value in op.inputs]
    if len(names) == 2 and target.dot_width(names[0], names[1], op.acc_type.name) > 1:
        return "_".join(["dot", *sorted(set(names), reverse=True)])
    return "fma_f64" if op.acc_type.name == "f64" else "fma_f32"


def _bytes(type_: Type, sizes: Mapping[str, int]) -> int:
    if not isinstance(type_, TensorType):
        return 0
    return prod(evaluate(dim, sizes) for dim in shape_of(type_)) * -(-dtype_of(type_).bits // 8)

"""What a payload has to do at given sizes, however it is scheduled: operations and bytes."""

from collections.abc import Mapping, Sequence
from math import prod

from tcpx.costs.operations import Operations
from tcpx.costs.work import asked_for
from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.ir import Module
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import TensorType, Type, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.target import Target


@frozen
class Demand:
    """`operations` by the peak that limits them (`fma_f32`, `dot_ui8_si8`: the loops of `tcpx.measure`), those that a
    profile shows. `bytes` are those of arguments, constants and results."""

    operations: Mapping[str, int]
    bytes: float


def demand_of(module: Module, target: Target, arrays: Sequence[Array]) -> Demand:
    """The demand of a call with these arguments. Raises ArgumentError where they tell no sizes.

    Operations that declare neither an iteration domain nor what they are made of count as bytes alone, so it is a lower
    bound.
    """
    func = module.main
    sizes = bind_symbols(func, arrays)
    held = {id(v): v.type for v in (*func.args, *func.returned)}
    called = (op for run in module.reached(func) for op in run.walk())
    held |= {id(op.result): op.result.type for op in called if "constant" in op.attributes}
    operations = sum(asked_for(func, sizes, target).values(), Operations())
    return Demand(dict(operations), float(sum(_bytes(type_, sizes) for type_ in held.values())))


def _bytes(type_: Type, sizes: Mapping[str, int]) -> int:
    if not isinstance(type_, TensorType):
        return 0
    return prod(evaluate(dim, sizes) for dim in shape_of(type_)) * -(-dtype_of(type_).bits // 8)

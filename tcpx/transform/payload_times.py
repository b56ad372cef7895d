"""How long operations of a payload take that nobody has scheduled yet, by a coarse model, as parts of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, prod

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import FuncOp, Module, Operation
from tcpx.payload.ops.gml_st import Loop, trip_count
from tcpx.payload.types import TensorType, Type, dtype_of, shape_of
from tcpx.target import Target


class PayloadTimes:
    """The times of the operations of a module: that of the vectors of their points, or that in which their operands and
    results come from the last cache, whichever is longer. What only moves elements takes none: it is fused. In loops,
    it counts as often as they run; where no number says how often that is, nothing is known of it."""

    def __init__(self, module: Module, target: Target) -> None:
        self._target = target
        self._runs = _runs(module)
        times = (self._time(op, runs) for func, runs in self._runs.items() for op in func.walk())
        self._whole = sum(time for time in times if time < inf)

    def share(self, ops: Iterable[Operation]) -> float:
        """The part of the time of the module that these operations of a function have; 1 if a size of them is not
        known."""
        time = sum(self._time(op, self._runs.get(op.func, 0)) if op.func is not None else inf for op in ops)
        return time / self._whole if time < self._whole else 1.0

    def _time(self, op: Operation, runs: float) -> float:
        """In the time of one instruction on a vector of 32-bit floats; infinite for sizes that are no numbers."""
        if not isinstance(op, Structured) or op.is_movement or not op.operands:
            return 0.0
        types = [value.type for value in (*op.operands, *op.results)]
        domain = op.domain()
        extents = [extent for extent in domain if isinstance(extent, int)]
        touched = list(map(_bytes, types))
        if len(extents) < len(domain) or inf in touched:
            return inf
        width = max(dtype_of(type_).bytes for type_ in types)
        vectors = prod(extents) * width / max(1, self._target.vector_bits // 8)
        return runs * _trips(op) * max(vectors, sum(touched) / max(1, self._target.l3_rate))


def _runs(module: Module) -> Mapping[FuncOp, float]:
    """How often each function runs in a call of the module."""
    runs = {module.main: 1.0}
    for func in reversed(module.reached(module.main)):
        for call, callee in func.calls():
            runs[callee] = runs.get(callee, 0) + runs.get(func, 0) * _trips(call)
    return runs


def _trips(op: Operation) -> float:
    """How often an operation runs in its function; infinite where no number says it."""
    counts = [trip_count(loop) if loop.is_counted else None for loop in op.ancestors() if isinstance(loop, Loop)]
    numbers = [max(0, count) for count in counts if isinstance(count, int)]
    return prod(numbers) if len(numbers) == len(counts) else inf


def _bytes(type_: Type) -> float:
    if not isinstance(type_, TensorType):
        return 0.0
    shape = [dim for dim in shape_of(type_) if isinstance(dim, int)]
    return prod(shape) * dtype_of(type_).bytes if len(shape) == len(shape_of(type_)) else inf

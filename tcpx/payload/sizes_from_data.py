"""Sizes that are values, which `gml_st.bind` names: each lies in the range it is declared with, and no shape is one.

This is asked once, of a payload that is read. What a schedule makes of it is right by its steps.
"""

from collections.abc import Iterable

from tcpx.payload.contexts import is_less_equal_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import FuncOp, Module, Operation, Value, defined_by
from tcpx.payload.ops.index import Bind
from tcpx.payload.sizes import Var, variables
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import BufferType, TensorType, VectorType, shape_of
from tcpx.payload.value_ranges import value_range


def check_sizes_from_data(module: Module) -> None:
    """Raise VerifyError for a value that may be out of the range of the size it becomes, and for a shape that the data
    decide. Functions on vectors or buffers are not asked: these come from schedules."""
    for func in module.funcs.values():
        ops = list(func.walk())
        bound = {op.var: op for op in ops if isinstance(op, Bind)}
        if not bound or _is_lowered(func, ops):
            continue
        for op in bound.values():
            _check_range(op)
        for op in ops:
            for value in (*op.results, *(arg for block in op.regions for arg in block.args)):
                _check_shape(op, value, bound)


def _is_lowered(func: FuncOp, ops: Iterable[Operation]) -> bool:
    values = (value for op in (func, *ops) for value in defined_by(op))
    return any(isinstance(value.type, VectorType | BufferType) for value in values)


def _check_range(op: Bind) -> None:
    found = value_range(op.operand)
    first, end = found if found is not None else (op.var.lower, op.var.upper)
    needs = [(op.var.lower, first), (end, op.var.upper)]
    missing = [Predicate.of("<=", a, b) for a, b in needs if not is_less_equal_at(op, a, b)]
    if missing:
        raise op.error(
            f"nothing says that %{op.operand.name} is in the range of %{op.var.name}",
            required=" and ".join(map(str, missing)),
            found=f"%{op.operand.name} is in {first} to {end}",
            fix=Direction("declare the range of the argument, `in 0 to N`, or limit the value by tcp.max and tcp.min"),
            unproven=True,
        )


def _check_shape(op: Operation, value: Value, bound: dict[Var, Bind]) -> None:
    dims = shape_of(value.type) if isinstance(value.type, TensorType) else ()
    var = next((var for dim in dims for var in variables(dim) if var in bound), None)
    if var is not None:
        raise op.error(
            f"the shape of %{value.name} depends on data",
            required="sizes of symbols, numbers and variables of loops",
            found=f"{value.type}, where %{var.name} is the value %{bound[var].operand.name}",
            fix=Direction(f"compute all that there may be, or one after the other: gml_st.for %i in 0 to %{var.name}"),
        )

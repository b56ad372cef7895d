"""Orders of dims in which a kernel takes arrays of arguments and gives those of results, where they are not those of
the payload."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Direction, python_type_of
from tcpx.payload.ir import FuncOp, Module, Operation, Value
from tcpx.payload.ops.movement import Transpose, inverse
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.state import names_in_c
from tcpx.payload.types import TensorType, dtype_of, like, shape_of

Layouts = Mapping[str, Sequence[int]]
"""By name of an argument or result: dim k of the array is dim `order[k]` of the tensor in the payload."""

LAYOUTS: Final = "layouts"
"""The attribute of a function with the orders that it takes and returns tensors in: `[["x", [0, 2, 3, 1]]]`."""


def transpose_boundary(module: Module, layouts: Layouts) -> None:
    """Let the function that is compiled take and return tensors in these orders: it transposes them. State is taken and
    returned in one order.

    Raises ArgumentError for a name that no argument and no result has, and for what is no order of its dims.
    """
    func, rewriter = module.main, Rewriter(module)
    arguments = {value.name: value for value in func.args}
    states = {result: func.args[argument].name for argument, result in func.states.items()}
    names = [states.get(k, name) for k, name in enumerate(names_in_c(func))]
    orders = _checked(layouts, {**arguments, **dict(zip(names, func.returned, strict=True))}, func)
    if orders:
        rewriter.set_attribute(func, LAYOUTS, (*_entries(func), *orders.items()))
    for name, order in orders.items():
        if name in arguments:
            _transpose_argument(rewriter, func, arguments[name], order)
        if name in names:
            _transpose_result(rewriter, func, names.index(name), order)


def layouts_of(func: FuncOp) -> tuple[str, ...]:
    """Those orders as texts: `x: 0, 2, 3, 1`."""
    return tuple(f"{name}: {', '.join(map(str, order))}" for name, order in _entries(func))


def _entries(func: FuncOp) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return cast("tuple[tuple[str, tuple[int, ...]], ...]", func.attributes.get(LAYOUTS, ()))


def _transpose_argument(rewriter: Rewriter, func: FuncOp, value: Value, order: Sequence[int]) -> None:
    shape = shape_of(value.type)
    rewriter.set_type(value, like(value.type, tuple(shape[dim] for dim in order), dtype_of(value.type)))
    made = _placed(Transpose.of(value, inverse(order)), func)
    rewriter.insert(made, InsertPoint.start(func.body), f"{value.name}.transposed")
    rewriter.replace_uses(value, made.results[0], lambda user: user is not made)


def _transpose_result(rewriter: Rewriter, func: FuncOp, number: int, order: Sequence[int]) -> None:
    end = func.body.terminator
    if end is None:
        return
    value = end.operands[number]
    made = _placed(Transpose.of(value, order), func)
    rewriter.insert(made, InsertPoint.before(end), f"{value.name}.transposed")
    rewriter.set_operand(end, number, made.results[0])


def _placed(op: Operation, func: FuncOp) -> Operation:
    op.location = func.location
    return op


def _checked(layouts: Layouts, values: Mapping[str, Value], func: FuncOp) -> Mapping[str, tuple[int, ...]]:
    """The orders that are not those of the payload."""
    given = cast("object", layouts)
    if not isinstance(given, Mapping):
        raise _error(
            "`layouts` names arguments and results",
            "a mapping from names to orders of dims, as dict(x=[0, 2, 3, 1])",
            _shown(given),
            func,
        )
    found: dict[str, tuple[int, ...]] = {}
    for name, order in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or name not in values:
            known = f"one of {', '.join(values)}"
            raise _error(f"@{func.name} has no argument or result `{name}`", known, _shown(name), func)
        value, is_list = values[name], isinstance(order, list | tuple)
        dims = list(cast("Sequence[object]", order)) if is_list else [order]
        if not isinstance(value.type, TensorType):
            raise _error(f"%{name} has no dims", "a tensor", str(value.type), func)
        count = len(shape_of(value.type))
        numbers = [dim for dim in dims if isinstance(dim, int) and not isinstance(dim, bool)]
        if not is_list or len(numbers) != len(dims) or sorted(numbers) != list(range(count)):
            required = f"each of the dims 0 to {count - 1} of {value.type} once, outermost first"
            raise _error(f"this is no order of the dims of %{name}", required, _shown(order), func)
        if numbers != sorted(numbers):
            found[name] = tuple(numbers)
    return found


def _shown(given: object) -> str:
    return f"{given}" if isinstance(given, (str, list, tuple)) else python_type_of(given)


def _error(message: str, required: str, found: str, func: FuncOp) -> ArgumentError:
    fix = Direction("list the dims of the payload in the order in which they lie in the array")
    return ArgumentError(Diagnostic(message, required=required, found=found, payload=func.location, fix=fix))

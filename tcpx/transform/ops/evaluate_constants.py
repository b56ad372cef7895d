"""evaluate_constants: compute what depends on constants alone while the schedule runs."""

from collections.abc import Iterator
from math import prod
from typing import Final

from tcpx.limits import MOST_EVALUATED
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.call import CallBase
from tcpx.payload.ops.views import View
from tcpx.payload.strided import STRIDED
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.transform.constant_folding import fold, needed_for, unknown_size
from tcpx.transform.declaration import (
    FLOAT,
    FUNC,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.editing import is_pure

WIDENED: Final = 8.0
"""How many times as large as what is stored it is at most, where it is read by what would not compute it."""


@register
class EvaluateConstants(Transform):
    """Compute what depends on stored constants alone, such as a transposed or scaled weight, while the schedule runs.

    Each such operation that other operations read becomes a constant, unless it has more bytes than the stored arrays
    that it is computed of: a weight of bytes that is multiplied by scales is read as it is stored, and a fill or a
    broadcast is no array. What a call, a loop or a branch reads may be eight times as large, as f64 are of bytes: they
    do not read it as it is stored. A view, such as a slice or a reshape of a constant, stays one. Operations in
    functions that are called are among them, if every call passes constants. `constant_fold` evaluates one operation,
    of any size.
    This is how IREE hoists constant expressions, with the same limit on what they may grow by (`HoistIntoGlobals`).

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = tcp.const {value = [0.0, 1.0, 2.0, 3.0]} : tensor<4xf32>
          %e = tcp.exp(%a) : tensor<4xf32>
          %y = tcp.mul(%x, %e) : tensor<4xf32>
          tcp.return(%y)
        }
    statement:
        evaluate_constants(root)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %e.1 = tcp.const {constant = "e"} : tensor<4xf32> name "e"
          %y = tcp.mul(%x, %e.1) : tensor<4xf32>
          tcp.return(%y)
        }
    """

    name = "evaluate_constants"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (
        Parameter("func", FUNC, doc="the function"),
        Parameter(
            "growth", FLOAT, default=1.0, doc="the bytes of a result, at most, as a multiple of those it is computed of"
        ),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        growth = args.float("growth")
        for func in reversed(ctx.rewriter.module.reached(args.func("func"))):
            constants = _Constants(func)  # what a call passes is evaluated before what it runs
            for op in constants.last():
                _evaluate(ctx, constants, op, growth)
        return ()


class _Constants:
    """The operations of a function that depend on stored constants alone, those included."""

    def __init__(self, func: FuncOp) -> None:
        self.func = func
        calls = func.callers() if STRIDED not in func.attributes else []
        self.args = {
            arg
            for k, arg in enumerate(func.args)
            if calls and k not in func.states and all(_is_stored(call.operands[k]) for call in calls)
        }
        self.ops: set[Operation] = set()
        for op in func.walk():
            if self._can_be_evaluated(op):
                self.ops.add(op)

    def last(self) -> list[Operation]:
        """Those that are computed, and read by what depends on more."""
        computed = [op for op in self.func.walk() if op in self.ops and Constant.of(op) is None]
        return [op for op in computed if not self.ops.issuperset(op.result.users)]

    def are_beside(self, op: Operation) -> bool:
        """Whether what reads it may compute it where it reads it. In loops, nothing is packed while a schedule runs."""
        body = self.func.body
        beside = [user.parent is body and not isinstance(user, CallBase) for user in _readers(op.result)]
        return op.parent is body and all(beside)

    def _can_be_evaluated(self, op: Operation) -> bool:
        return Constant.of(op) is not None or (
            isinstance(op, Tileable)
            and len(op.results) == 1
            and _bytes(op.result) is not None
            and is_pure(op)
            and all(value in self.args or value.defining_op in self.ops for value in op.operands)
            and unknown_size([op]) is None
            and prod(d for d in op.domain() if isinstance(d, int)) <= MOST_EVALUATED
        )


def _is_stored(value: Value) -> bool:
    return value.defining_op is not None and Constant(value.defining_op).stored_array is not None


def _evaluate(ctx: TransformContext, constants: _Constants, op: Operation, growth: float) -> None:
    """Fold an operation, or those that it reads where it is not worth that itself."""
    waiting = [op]
    while waiting:
        here = waiting.pop()
        if here.parent is None or Constant.of(here) is not None:
            continue
        needed, args = needed_for(here)
        stored = [*(each.result for each in needed if Constant(each).stored_array is not None), *args]
        most = growth if constants.are_beside(here) else max(growth, WIDENED)
        if not isinstance(here, View) and (_bytes(here.result) or 0) <= most * sum(_bytes(v) or 0 for v in stored):
            fold(ctx, here)
        else:
            waiting += [made for value in here.operands if (made := value.defining_op) in constants.ops]


def _readers(value: Value) -> Iterator[Operation]:
    """What reads a value, or a view of it."""
    for user in value.users:
        if isinstance(user, View):
            yield from _readers(user.result)
        else:
            yield user


def _bytes(value: Value) -> int | None:
    """Bytes of a tensor of static shape; None of any other value."""
    shape = [d for d in shape_of(value.type) if isinstance(d, int)]
    is_static = isinstance(value.type, TensorType) and len(shape) == len(shape_of(value.type))
    return prod(shape) * dtype_of(value.type).bytes if is_static else None

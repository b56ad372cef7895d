"""assign_layout: choose the order of the dims of each value of a function."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.types import TensorType
from tcpx.transform.declaration import (
    FUNC,
    OPS,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.layouts.account import account
from tcpx.transform.layouts.assignment import assign
from tcpx.transform.layouts.choice import Choice
from tcpx.transform.layouts.copies import choose_with_copies
from tcpx.transform.layouts.costs import is_stored


@register
class AssignLayout(Transform):
    """Choose the order of the dims of each value of a function by cost, as NHWC for convolutions. Transposes remain
    where they move the fewest elements.

    Each value has the order of its type or another one. Operations that sum windows propose it. Their result has the
    dim innermost that their filters have and their input has not, or else one that both have, as in a depthwise
    convolution. Their input has the dim innermost that they sum whole. The proposals spread through elementwise
    operations, pads, concats, slices, reductions, norms, gathers, loops, branches, calls, and reshapes that keep dims
    next to each other. A minimum cut (Kolmogorov and Zabih, 2004) chooses one of the two orders for each value. It
    weighs the vector instructions of the operations and the elements that transposes move. A transpose of the payload
    counts among these, and goes where it moves nothing. Arguments and results of the function keep their order.
    Operations keep their class, or become the nearest one that reads and gives such orders. Weights are read with the
    dim of the vectors innermost: `evaluate_constants` computes their transposes.

    Where the calls of another function cost least in different orders, it is copied: one function for each of these, at
    most four. Handles to its operations denote those of all.

    Elsewhere, a transpose of the payload proposes the order of what it reads, unless products of contractions follow:
    their recipes pack factors of any order. So a resized image between transposes is computed as it is stored. The
    results of operations that are listed in `pin` keep the order of
    their type, which `transpose_result` may have given them before.

    `tcpx explain` prints the transposes that remain, and each value with its order and what both orders cost.

    before:
        func @f(%x: tensor<32x9x9xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<64x7x7xf32> {
          %y = tcp.generic(%x, %w) {iterators = [["f", "parallel"], ["i", "parallel"], ["j", "parallel"],
              ["c", "reduction"], ["h", "reduction"], ["k", "reduction"]],
              maps = [[c, h + i, j + k], [f, c, h, k], [f, i, j]], combiner = "tcp.add"} ({
              (%e: f32, %g: f32, %acc: f32):
            %p = tcp.multiply_add(%e, %g, %acc) : f32
            tcp.yield(%p)
          }) : tensor<64x7x7xf32>
          %z = tcp.relu(%y) : tensor<64x7x7xf32>
          tcp.return(%z)
        }
    statement:
        assign_layout(root)
    after:
        func @f(%x: tensor<32x9x9xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<64x7x7xf32> {
          %w.turned = tcp.transpose(%w) {permutation = [1, 2, 3, 0]} : tensor<32x3x3x64xf32>
          %y.1 = tcp.generic(%x, %w.turned) {iterators = [["i", "parallel"], ["j", "parallel"], ["f", "parallel"],
              ["c", "reduction"], ["h", "reduction"], ["k", "reduction"]],
              maps = [[c, h + i, j + k], [c, h, k, f], [i, j, f]], combiner = "tcp.add"} ({
              (%e.1: f32, %g.1: f32, %acc.1: f32):
            %p.1 = tcp.multiply_add(%e.1, %g.1, %acc.1) : f32
            tcp.yield(%p.1)
          }) : tensor<7x7x64xf32> name "y"
          %z.1 = tcp.relu(%y.1) : tensor<7x7x64xf32> name "z"
          %z.turned = tcp.transpose(%z.1) {permutation = [2, 0, 1]} : tensor<64x7x7xf32>
          tcp.return(%z.turned)
        }
    """

    name = "assign_layout"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (
        Parameter("func", FUNC, doc="the function"),
        Parameter("pin", OPS, (), doc="operations whose results keep the order that they have"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        pinned = [value for op in _pinned(ctx, args) for value in op.results]
        choice, orders = choose_with_copies(
            ctx.rewriter, args.func("func"), lambda funcs: Choice(funcs, ctx.target, pinned), Choice.best
        )
        if orders:
            remaining = assign(ctx.rewriter, choice, orders)
            stored = [op.operands[0] for op in remaining if not is_stored(op.operands[0])]
            ctx.remark(account(choice, orders, stored))
        return ()


def _pinned(ctx: TransformContext, args: Arguments) -> Sequence[Operation]:
    """The operations whose results are pinned. Raises ScheduleError for one without a result that has an order."""
    pinned = args.ops("pin") if args.given("pin") else ()
    for op in pinned:
        if not any(isinstance(value.type, TensorType) for value in op.results):
            called = f"@{op.name}" if isinstance(op, FuncOp) else f"%{op.name} ({op.opcode})"
            raise ctx.fail(
                f"{called} has no result whose order could be pinned",
                op,
                required="an operation whose result is a tensor",
                found=called,
                fix=Direction("leave it out of `pin`, or match the operation whose result keeps its order"),
            )
    return pinned

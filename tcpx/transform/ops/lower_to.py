"""lower_to: implement a tensor operation by a row of the target."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.diagnostics import Direction, ScheduleError, VerifyError
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.call import Call
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType
from tcpx.suggestions import did_you_mean
from tcpx.target.kernels import KernelRow
from tcpx.transform import new
from tcpx.transform.declaration import (
    NAME,
    OP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.editing import erase_dead, replace_with, source_name
from tcpx.transform.matching import inputs_in_order


@register
class LowerTo(Transform):
    """Implement an operation by a row of the target: a micro-kernel in C, or a tile instruction.

    The row is listed under `kernels` in the target's table (docs/micro-kernels.md). Its semantics must be an operation
    with the same dims, maps, body, dtypes and extents, up to the order of the operands. A symbol in the semantics
    accepts any extent in its range, which is passed to the C. A row that adds to its result starts from `init`, or from
    zeros.

    The operation becomes a call of a function with the semantics, so that later steps and the evaluator understand it;
    `inline` reverts it. `bufferize` passes tiles to the row in place. It refuses operands with another layout than the
    row takes, or without the known alignment that it needs.

    A target without the row refuses the step, or uses the `fallback` row. For other alternatives use `else`:
    `try { lower_to(mm, row) } else { vectorize(i) }`.

    before:
        func @f(%x: tensor<16x64xf32>, %w: tensor<64x4xf32>) -> tensor<16x4xf32> {
          %mm = tcp.matmul(%x, %w) : tensor<16x4xf32>
          tcp.return(%mm)
        }
    statement:
        lower_to(mm, matmul_16x4)
    after:
        func @f(%x: tensor<16x64xf32>, %w: tensor<64x4xf32>) -> tensor<16x4xf32> {
          %mm.start = tcp.fill {value = 0.0} : tensor<16x4xf32>
          %mm.1 = tcp.call @matmul_16x4(%x, %w, %mm.start) : tensor<16x4xf32> name "mm"
          tcp.return(%mm.1)
        }
        ...
    """

    name = "lower_to"
    category = Category.GROUPS_AND_CALLS
    parameters = (
        Parameter("target", OP, doc="a structured operation on tensors, usually a tile"),
        Parameter("row", NAME, doc="a row of the target whose semantics is an operation"),
        Parameter("fallback", NAME, default=None, doc="the row for targets without the first one"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        fallback = (args.string("fallback"),) if args.given("fallback") else ()
        return (lower_to(ctx, args.op("target"), args.string("row"), *fallback),)


def lower_to(ctx: TransformContext, op: Operation, *names: str) -> Call:
    """Implement an operation by the first of these rows that the target has."""
    row = _row(ctx, op, names)
    on_tensors = all(isinstance(value.type, TensorType) for value in (*op.operands, *op.results))
    if not isinstance(op, Structured) or not on_tensors:
        raise ctx.fail(
            f"no row does what %{op.name} does",
            op=op,
            required="a structured operation on tensors",
            found=", ".join([op.opcode, *(f"%{v.name}: {v.type}" for v in op.results)]),
        )
    func = _function(ctx, op, row)
    (wanted, _) = func.body.ops
    if not isinstance(wanted, Structured):
        raise wanted.error("the semantics of a row is a structured operation", required="one", found=wanted.opcode)
    inputs = inputs_in_order(op, wanted)
    if isinstance(inputs, str):
        raise _misfit(ctx, op, row, inputs)
    values = dict(zip(wanted.inputs, inputs, strict=True))
    if wanted.init is not None:
        values[wanted.init] = op.init or _start(ctx, op)
    elif op.init is not None:
        raise _misfit(ctx, op, row, f"overwrites its result, and %{op.name} adds to %{op.init.name}")
    made = Call([values[v] for v in func.args], [op.result.type], {"callee": func.name}, location=op.location)
    made.schedule_location = ctx.location
    made.stand_for(op)
    read = op.inputs
    replace_with(ctx.rewriter, op, made)
    erase_dead(ctx.rewriter, read)
    try:
        made.verify()
    except VerifyError as error:
        known = error.diagnostic
        raise ctx.fail(
            f"the row {row.name} does not fit: {known.message}",
            op=op,
            required=known.required,
            found=known.found,
            fix=Direction(
                "tile it with `tail: pad`, so that every tile is whole, or give the row symbols with these bounds"
            ),
        ) from error
    return made


def _row(ctx: TransformContext, op: Operation, wanted: Sequence[str]) -> KernelRow:
    """The first of these rows that the target has; the error lists the rows of the target."""
    known = ctx.target.kernels
    found = next((known[name] for name in wanted if name in known), None)
    if found is None:
        raise ctx.fail(
            f"the target {ctx.target.name} has no row `{'` and no row `'.join(wanted)}`",
            op=op,
            required=", ".join(known) or "a target with `kernels` in its table",
            found=", ".join(wanted),
            fix=did_you_mean(wanted[0], known)
            or Direction("name a row that it has as `fallback`, or `try { .. } else { .. }` does without"),
        )
    return found


def _function(ctx: TransformContext, op: Operation, row: KernelRow) -> FuncOp:
    """The function of the module with the semantics of a row."""
    known = ctx.rewriter.module.funcs.get(row.name)
    if known is None:
        known = ctx.rewriter.add_function(row.function())
        for inner in known.walk():
            ctx.rewriter.adopt(inner)
    if known.text() != row.text:
        raise ctx.fail(
            f"the payload has another function @{row.name}",
            op=op,
            required=f"a name that is free for the row {row.name}",
            found=known.text().partition("\n")[0],
            fix=Direction("give the function of the payload another name"),
        )
    return known


def _start(ctx: TransformContext, op: Structured) -> Value:
    """The initial value for a row that adds to its result, if the operation has none: the neutral element."""
    made = new.fill(Reduction(op).neutral() or 0, op.result.type)
    made.stand_for(op)
    return ctx.rewriter.insert(made, InsertPoint.before(op), f"{source_name(op)}.start").result


def _misfit(ctx: TransformContext, op: Operation, row: KernelRow, reason: str) -> ScheduleError:
    return ctx.fail(
        f"the row {row.name} does not do what %{op.name} does ({reason})",
        op=op,
        required=" ".join(row.function().body.ops[0].text().split()),
        found=" ".join(op.text().split()),
    )

"""constant_fold: what can be computed now, as a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Evaluation
from tcpx.payload.ir import Operation, Value
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.size_traversal import leaves
from tcpx.payload.sizes import Var
from tcpx.payload.text.scope import DIM_ATTRIBUTES
from tcpx.payload.types import TensorType, shape_of
from tcpx.payload.verifier import dims_of
from tcpx.transform import new
from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.editing import erase_dead


@register
class ConstantFold(Transform):
    """Evaluate an operation, or a loop, that reads only constants: its result becomes a constant of the module, and
    what only led to it is gone. The handle then denotes the constant. A weight that is packed outside all loops is
    packed when the kernel is compiled, once for all versions that pack it alike:

        let bp = pack(mm.rhs, [k, n])
        constant_fold(bp)

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = tcp.const {value = 2.0} : tensor<4xf32>
          %e = tcp.exp(%a) : tensor<4xf32>
          %y = tcp.mul(%x, %e) : tensor<4xf32>
          tcp.return(%y)
        }
    statement:
        constant_fold(e)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %e.1 = tcp.const {constant = "e"} : tensor<4xf32> name "e"
          %y = tcp.mul(%x, %e.1) : tensor<4xf32>
          tcp.return(%y)
        }
    """

    name = "constant_fold"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (Parameter("target", OP_OR_LOOP, doc="what reads only constants and has one result of static shape"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        type_ = op.results[0].type if len(op.results) == 1 else None
        if not isinstance(type_, TensorType) or not all(isinstance(d, int) for d in type_.shape):
            raise ctx.fail(
                f"%{op.name} cannot be a constant",
                op=op,
                required="one result, a tensor of static shape",
                found=", ".join(str(r.type) for r in op.results) or "no result",
            )
        if op.is_fixed:
            raise ctx.fail(f"%{op.name} is a constant", op=op, required="something to compute", found=op.opcode)
        needed = _needed(ctx, op)
        _check_sizes(ctx, op, needed)
        evaluation = Evaluation(ctx.rewriter.module.constants, {})
        with np.errstate(all="ignore"):
            for each in needed:
                evaluation.run(each)
        base = op.results[0].name
        held, computed = ctx.rewriter.module.constants, evaluation.values[op.results[0]]
        name = held.name_of(computed)
        if name is None:
            name = next(n for n in (base, *(f"{base}.{k}" for k in range(1, len([*held]) + 2))) if n not in held)
            ctx.rewriter.add_constant(name, computed)
        made = new.stored(name, type_, op.location)
        made.stand_for(op)
        ctx.rewriter.insert(made, InsertPoint.before(op), base)
        ctx.rewriter.rename(made, op.name)
        made.copy_path = op.copy_path
        ctx.rewriter.continue_as(op, made)
        ctx.rewriter.replace_op(op, [made.result])
        for each in reversed(needed[:-1]):
            if each.parent is not None:
                erase_dead(ctx.rewriter, each.results)
        return (made,)


def _check_sizes(ctx: TransformContext, op: Operation, needed: Sequence[Operation]) -> None:
    """Raise ScheduleError where an operation depends on sizes that are known only when the kernel runs."""
    for root in needed:
        inner = {str(v.name) for each in root.walk() if isinstance(v := each.attributes.get("var"), Var)}
        for each in root.walk():
            attributes = (a for key, a in each.attributes.items() if key not in DIM_ATTRIBUTES)
            dims = [d for attribute in attributes for d in dims_of(attribute)]
            dims += [d for value in each.defined for d in shape_of(value.type)]
            unknown = [a.text for d in dims for a in leaves(d).values() if a.name not in inner]
            if unknown:
                raise ctx.fail(
                    f"%{op.name} depends on {unknown[0]}, which is known only when the kernel runs",
                    op=op,
                    required="operations on static sizes, outside of the loops that they depend on",
                    found=f"{each.opcode} %{each.name}",
                )


def _needed(ctx: TransformContext, op: Operation) -> list[Operation]:
    """The operations that `op` depends on and `op` itself, in an order to run them."""
    order: dict[Operation, None] = {}
    waiting: list[tuple[Operation, bool]] = [(op, False)]
    while waiting:
        here, is_ready = waiting.pop()
        if is_ready:
            order[here] = None
        elif here not in order:
            waiting.append((here, True))
            waiting += [(_definition(ctx, value, op), False) for value in _read_from_outside(here)]
    return list(order)


def _read_from_outside(op: Operation) -> list[Value]:
    """The values that an operation, or what is in it, uses and that are not defined in it."""
    inside = {value for each in op.walk() for value in each.defined}
    used = dict.fromkeys(value for each in op.walk() for value in each.operands)
    return [value for value in used if value not in inside]


def _definition(ctx: TransformContext, value: Value, op: Operation) -> Operation:
    made = value.defining_op
    if made is None:
        raise ctx.fail(
            f"%{op.name} reads what is known only when the kernel runs",
            op=op,
            required="operands computed from constants alone",
            found=f"%{value.name}: {value.type}",
        )
    return made

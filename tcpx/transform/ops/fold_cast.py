"""fold_cast: let a contraction read an operand without its widening cast."""

from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Value
from tcpx.payload.types import ScalarType, dtype_of
from tcpx.transform.casts import holds, passes_unchanged
from tcpx.transform.declaration import (
    BOOL,
    VALUE,
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
from tcpx.transform.factors import contraction_of


@register
class FoldCast(Transform):
    """Let a contraction read a factor without the cast that widens it; the contraction then widens it.

    The dtype of the cast must represent every value of the factor. An integer that wraps around in the dtype of the sum
    must not pass through a float, which saturates.
    With `rounds`, a cast to a narrower float is left out, too: the contraction then reads numbers that are not rounded,
    and that do not become infinite.

    before:
        func @f(%x: tensor<[M]x64xui8>, %w: tensor<64x32xsi8>) -> tensor<[M]x32xsi32> symbols [M] {
          %wide = tcp.cast(%x) : tensor<[M]x64xsi32>
          %mm = tcp.matmul(%wide, %w) : tensor<[M]x32xsi32>
          tcp.return(%mm)
        }
    statement:
        fold_cast(mm.lhs)
    after:
        func @f(%x: tensor<[M]x64xui8>, %w: tensor<64x32xsi8>) -> tensor<[M]x32xsi32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xsi32>
          tcp.return(%mm)
        }
    """

    name = "fold_cast"
    category = Category.TYPES
    parameters = (
        Parameter("factor", VALUE, doc="a factor of a contraction: `mm.lhs`"),
        Parameter("rounds", BOOL, False, doc="leave out a cast to a narrower float, too"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, index = contraction_of(ctx, args.value("factor"))
        value = op.inputs[index]
        made = value.defining_op
        wide = dtype_of(value.type)
        if (
            not isinstance(made, Elementwise)
            or made.semantics != "cast(a)"
            or not (holds(wide, dtype_of(made.operands[0].type)) or (args.bool("rounds") and _rounds(made)))
        ):
            raise ctx.fail(
                f"the factor %{value.name} is not widened by a cast",
                op=op,
                required=f"tcp.cast of a dtype of which {wide} holds every number",
                found=f"tcp.cast of {made.operands[0].type}"
                if isinstance(made, Elementwise) and made.semantics == "cast(a)"
                else "none",
            )
        if holds(wide, dtype_of(made.operands[0].type)):
            check_passes_unchanged(ctx, op, made.operands[0], wide)
        ctx.rewriter.set_operand(op, index, made.operands[0])
        erase_dead(ctx.rewriter, [value])
        return (op,)


def _rounds(op: Elementwise) -> bool:
    """Whether a cast is one of floats to fewer bits."""
    return holds(dtype_of(op.operands[0].type), dtype_of(op.result.type)) and dtype_of(op.result.type).is_float


def check_passes_unchanged(ctx: TransformContext, op: Structured, factor: Value, through: ScalarType) -> None:
    """Raise ScheduleError if a cast of a factor to `through` changes the result of the contraction."""
    stored, to = dtype_of(factor.type), dtype_of(op.result.type)
    if passes_unchanged(stored, through, to):
        return
    raise ctx.fail(
        f"%{op.name} is summed in {to}, in which numbers of {stored} wrap around and those of {through} are saturated",
        op=op,
        required=f"an integer to cast to, or a factor of which {to} holds every number",
        found=f"%{factor.name}: {factor.type}, cast to {through}",
    )

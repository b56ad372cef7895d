"""unfold_cast: widen a factor of a contraction before the multiplication."""

from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.types import dtype_of
from tcpx.transform import new
from tcpx.transform.casts import holds
from tcpx.transform.declaration import (
    DTYPE,
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
from tcpx.transform.editing import source_name
from tcpx.transform.factors import contraction_of
from tcpx.transform.ops.fold_cast import check_passes_unchanged


@register
class UnfoldCast(Transform):
    """Let a contraction read a factor that is widened by a separate cast, instead of widening each element at each
    multiplication: the inverse of `fold_cast`.

    `to` must represent every value of the factor, so the result is the same. An integer that wraps around in the dtype
    of the sum must not pass through a float, which saturates. The cast is the prologue of the product: if it is fused
    where the factor is packed, each element is widened once. Returns the cast.
    before:
        func @f(%x: tensor<[M]x64xf16>, %w: tensor<64x32xf16>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        unfold_cast(mm.rhs, to: f32)
    after:
        func @f(%x: tensor<[M]x64xf16>, %w: tensor<64x32xf16>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.rhs.wide = tcp.cast(%w) : tensor<64x32xf32>
          %mm = tcp.matmul(%x, %mm.rhs.wide) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    """

    name = "unfold_cast"
    category = Category.TYPES
    parameters = (
        Parameter("factor", VALUE, doc="a factor of a contraction: `mm.lhs`"),
        Parameter("to", DTYPE, doc="a dtype that represents every value of the factor"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        (op, index), dtype = contraction_of(ctx, args.value("factor")), args.dtype("to")
        factor = op.inputs[index]
        stored = dtype_of(factor.type)
        if dtype == stored or not holds(dtype, stored):
            raise ctx.fail(
                f"{dtype} is no wider than the factor %{factor.name}",
                op=op,
                required=f"a dtype other than {stored} that holds every number of it",
                found=f"%{factor.name}: {factor.type}, `to: {dtype}`",
            )
        check_passes_unchanged(ctx, op, factor, dtype)
        made = new.cast(factor, dtype)
        made.stand_for(op)
        name = f"{source_name(op)}.{op.operand_roles[index]}.wide"
        cast = ctx.rewriter.insert(made, InsertPoint.before(op), name)
        ctx.rewriter.set_operand(op, index, cast.results[0])
        return (cast,)

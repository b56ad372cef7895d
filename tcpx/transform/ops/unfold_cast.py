"""unfold_cast: a contraction whose factor is widened before it is multiplied."""

from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.types import dtype_of
from tcpx.transform import new
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
from tcpx.transform.ops.fold_cast import check_passes_unchanged, holds


@register
class UnfoldCast(Transform):
    """Let a contraction read a factor that a cast has widened, instead of widening its elements whenever it multiplies
    them: the inverse of `fold_cast`.

    `to` must hold every number of the factor, so the result is the same; an integer that wraps around in the dtype of
    the sum cannot pass through a float, which would be saturated. The cast is the prologue of the product: fused where
    the factor is packed, it widens each element once. Returns the cast.

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
        Parameter("to", DTYPE, doc="a dtype that holds every number of the factor"),
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

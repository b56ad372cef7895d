"""pad: pad dims of an operation to a static size."""

from tcpx.payload.contexts import context_at
from tcpx.payload.interfaces import Tileable
from tcpx.payload.sizes import is_equal, is_less_equal, to_text
from tcpx.transform.declaration import (
    DIM_SIZES,
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
from tcpx.transform.tiling import check_not_whole, check_on_tensors, pad


@register
class Pad(Transform):
    """Pad dims of an operation to a static size: operands are padded, the result is sliced.

    A reduction dim is padded with values that contribute nothing, if such values exist and each operand has the dim by
    itself. Otherwise it is computed under a mask, `valid`, which excludes the padding. Elsewhere the contents of the
    padding do not matter. `tile` with `tail: pad` applies this to its tiles.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %mm.3 = tcp.matmul(%x.t, %w) : tensor<[min(6, M - %mm/m1)]x32xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    statement:
        pad(mm, [m: 6])
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %x.p = tcp.pad(%x.t) {value = 0.0, free = true} : tensor<6x64xf32>
            %mm.4 = tcp.matmul(%x.p, %w) : tensor<6x32xf32> name "mm"
            %mm.t = gml_st.materialize(%mm.4) tile [0, 0] [min(6, M - %mm/m1), 32]
                : tensor<[min(6, M - %mm/m1)]x32xf32>
            gml_st.yield(%mm.t, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "pad"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (
        Parameter("target", OP, doc="the operation"),
        Parameter("sizes", DIM_SIZES, doc="the static size of each padded dim"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, sizes = args.op("target"), args.sizes("sizes")
        if not isinstance(op, Tileable):
            raise ctx.fail(f"%{op.name} cannot be padded", op=op, required="the Tiling interface", found=op.opcode)
        check_on_tensors(ctx, op)
        known, static = context_at(op).names, dict[str, int]()
        for dim, size in sizes.items():
            extent = op.size_of(dim)
            if not isinstance(size, int):
                raise ctx.fail(
                    f"`{dim}` cannot be padded to a size known only when the kernel runs",
                    op=op,
                    required="a size that is a number now",
                    found=to_text(size),
                )
            if is_less_equal(extent, size, known) is not True:
                raise ctx.fail(
                    f"`{dim}` of %{op.name} may be larger than {size}",
                    op=op,
                    required=f"at least {to_text(extent)}",
                    found=str(size),
                    fix=f"tile it first: `tile({op.name}, [{dim}: {size}])`",
                )
            if is_equal(extent, size, known) is True:
                continue
            check_not_whole(ctx, op, dim, "padded")
            static[dim] = size
        if not static:
            raise ctx.fail(
                f"%{op.name} has these sizes already",
                op=op,
                required="a dim to pad",
                found=", ".join(f"{d}: {to_text(s)}" for d, s in sizes.items()),
            )
        return (pad(ctx.rewriter, op, static),)

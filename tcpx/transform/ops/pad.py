"""pad: compute an operation on dims of a static size at least their own."""

from __future__ import annotations

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
from tcpx.transform.tiling import pad


@register
class Pad(Transform):
    """Pad dims of an operation up to a static size: operands are padded on the way in, the result is sliced.

    A padded reduction dim is filled with the neutral element of each operand's role; elsewhere what the padding
    holds does not matter. `tile` with `tail: pad` does this for the tiles it makes.

    before:
        %mm = tcp.matmul(%x.t, %w) : tensor<[min(6, M - %mm/m1)]x32xf32>
    statement:
        pad(mm, [m: 6])
    after:
        %x.p = tcp.pad(%x.t) {value = 0.0} : tensor<6x[K]xf32>
        %mm.1 = tcp.matmul(%x.p, %w) : tensor<6x32xf32>
        %mm.t = gml_st.materialize(%mm.1) tile [0, 0] [min(6, M - %mm/m1), 32] : tensor<...>
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
        static: dict[str, int] = {}
        for dim, size in sizes.items():
            extent = op.size_of(dim)
            if not isinstance(size, int):
                raise ctx.fail(
                    f"`{dim}` cannot be padded to a size known only when the kernel runs",
                    op=op,
                    required="an int",
                    found=to_text(size),
                )
            if is_less_equal(extent, size) is not True:
                raise ctx.fail(
                    f"`{dim}` of %{op.name} may be larger than {size}",
                    op=op,
                    required=f"at least {to_text(extent)}",
                    found=str(size),
                    fix=f"tile it first: `tile({op.name}, [{dim}: {size}])`",
                )
            if is_equal(extent, size) is not True:
                static[dim] = size
        if not static:
            raise ctx.fail(
                f"%{op.name} has these sizes already",
                op=op,
                required="a dim to pad",
                found=", ".join(f"{d}: {to_text(s)}" for d, s in sizes.items()),
            )
        return (pad(ctx.rewriter, op, static),)

"""pack: copy an operand's tile into a buffer laid out as the computation reads it."""

from __future__ import annotations

from tcpx.transform.declaration import (
    BOOL,
    LAYOUT,
    LOOP,
    VALUE,
    Arguments,
    Category,
    OperandRef,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.packing import pack


@register
class Pack(Transform):
    """Copy the operand's current tile into a buffer filled in the body of `at`, and let the operation read it.

    The buffer has one slot per iteration of each loop between `at` and the operation that the operand depends on;
    loops it does not depend on reuse the slot. In a slot lies the tile, its dims in the order of `layout`; a
    static tile is stored full, padded with the neutral element. Dims of the operand that `layout` does not name are
    outermost, in the operand's order. `k pad 16` rounds the pitch of `k` up. The
    operation keeps its class and its dims; it reads them in the order stored where its class can say so, else through
    a transpose. Returns the loop that fills the buffer.

    before:
        %mm.3 = tcp.matmul(%x.t, %w.p, init = %mm.acc) : tensor<...>
    statement:
        let bp = pack(mm.rhs, [k, n], at: pc)
    after:
        %mm.rhs = gml_st.for %mm.rhs/pack1 in ... { ... }
        %mm.3 = tcp.matmul(%x.t, %mm.rhs.t, init = %mm.acc) : tensor<...>
    """

    name = "pack"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (
        Parameter("operand", VALUE, doc="an operand of a structured operation: `mm.rhs`"),
        Parameter("layout", LAYOUT, doc="the operand's dims in the order they are stored"),
        Parameter("at", LOOP, doc="the loop in whose body the buffer is filled"),
        Parameter("parallel", BOOL, False, doc="share the filling among threads"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        operand = args.value("operand")
        if not isinstance(operand, OperandRef):
            raise ctx.fail(
                "pack takes an operand of an operation, not a value",
                op=operand.defining_op,
                required="an operand such as `mm.rhs`",
                found=f"%{operand.name}",
            )
        return (pack(ctx, operand, args.layout("layout"), args.loop("at"), args.bool("parallel")),)

"""fuse: a producer into a loop that reads it, or a consumer behind the value a loop computes."""

from __future__ import annotations

from tcpx.payload.interfaces import Tileable
from tcpx.transform.declaration import (
    BOOL,
    LOOP,
    OP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.fusion import ancestor_in, fuse_consumer, fuse_producer, position


@register
class Fuse(Transform):
    """Compute an operation tile by tile inside a loop.

    A producer is computed where the loop reads it; a producer that starts an accumulator (`x.start`) on the first
    step of the reduction. A consumer, with every operation on the paths to it, moves behind the value it needs: if
    loops of a reduction enclose that value, it runs on their last iteration, which the engine derives.

    before:
        %t = gml_st.for %mm/m1 in 0 to M step 6 (...) { ... }
        %r = tcp.max(%t, %zero) : tensor<[M]x32xf32>
    statement:
        fuse(r, into: i)
    after:
        %t = gml_st.for %mm/m1 in 0 to M step 6 (...) { ...; %r.1 = tcp.max(...) ... }
    """

    name = "fuse"
    category = Category.FUSION
    parameters = (
        Parameter("target", OP, doc="the producer or consumer"),
        Parameter("into", LOOP, doc="the loop"),
        Parameter("recompute", BOOL, False, doc="a producer used elsewhere too is computed again here"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, loop = args.op("target"), args.loop("into")
        if not isinstance(op, Tileable):
            raise ctx.fail(f"%{op.name} cannot be fused", op=op, required="the Tiling interface", found=op.opcode)
        if op.is_in(loop):
            raise ctx.fail(
                f"%{op.name} is already in the loop {loop.name}",
                op=op,
                required="an operation outside the loop",
                found="one inside",
            )
        here = ancestor_in(loop, op.parent) if op.parent is not None else None
        if here is not None and position(op) > position(here):
            fuse_consumer(ctx, op, loop)
        else:
            fuse_producer(ctx, op, loop, args.bool("recompute"))
        return ()

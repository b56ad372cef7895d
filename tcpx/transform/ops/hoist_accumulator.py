"""hoist_accumulator: carry an accumulator in registers through a reduction loop."""

from __future__ import annotations

from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.types import TensorType
from tcpx.transform.declaration import (
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
from tcpx.transform.vectorization import hoist_accumulator


@register
class HoistAccumulator(Transform):
    """Make the accumulator of a vectorized operation a value the loop carries, instead of memory it reads and writes.

    before:
        %s = gml_st.for %mm/k1 in 0 to K step 1 (%acc = %c0.t) { %a = vector.read(%acc) ...; gml_st.yield(%m, %acc) }
    statement:
        hoist_accumulator(mm, out_of: kk)
    after:
        %s = gml_st.for %mm/k1 in 0 to K step 1 (%acc = %c0) { %m = tcp.matmul(%x, %w, init = %acc) ... }
    """

    name = "hoist_accumulator"
    category = Category.VECTOR
    parameters = (
        Parameter("target", OP, doc="the operation that accumulates"),
        Parameter("out_of", LOOP, doc="the reduction loop to carry its accumulator through"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, loop = args.op("target"), args.loop("out_of")
        stores = [u for r in op.results for u in r.users if isinstance(u, StYield)]
        found = [
            k
            for k, dest in enumerate(loop.destinations)
            if isinstance(dest.type, TensorType) and any(s.operands[1] is dest for s in stores)
        ]
        if len(found) != 1:
            raise ctx.fail(
                f"%{op.name} does not accumulate into a destination of {loop.name}",
                op=op,
                required="an operation whose result the loop yields to a tensor destination",
                found=_found(loop),
                fix="tile a reduction dim by this loop, then vectorize the loop round it",
            )
        hoist_accumulator(ctx, loop, found[0])
        return ()


def _found(loop: Loop) -> str:
    types = ", ".join(f"%{d.name}: {d.type}" for d in loop.destinations)
    return f"destinations {types}" if types else "a loop without destinations"

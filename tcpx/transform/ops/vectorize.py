"""vectorize: the whole body of a loop on register tiles."""

from __future__ import annotations

from tcpx.transform.declaration import (
    LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.vectorization import vectorize


@register
class Vectorize(Transform):
    """Turn every operation in the body of a loop, nested loops and branches included, into one on vectors.

    Every tile must be static: tile with `tail: pad` or peel the loop before. A padded read becomes a masked read,
    a sliced write a masked write. Operations keep their classes; `lower_vectors` later unrolls them to the
    target's registers.

    before:
        %x.p = tcp.pad(%x.t) {value = 0.0} : tensor<6x8xf32>
        %mm.1 = tcp.matmul(%x.p, %w.p, init = %c) : tensor<6x32xf32>
    statement:
        vectorize(i)
    after:
        %x.v = vector.read(%x) tile [...] [min(6, M - %mm/m1), 8] : vector<6x8xf32>
        %mm.v = tcp.matmul(%x.v, %w.v, init = %c.v) : vector<6x32xf32>
    """

    name = "vectorize"
    category = Category.VECTOR
    parameters = (Parameter("loop", LOOP, doc="the loop whose body is vectorized"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        vectorize(ctx, args.loop("loop"))
        return ()

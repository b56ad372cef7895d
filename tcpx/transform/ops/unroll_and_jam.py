"""unroll_and_jam: several iterations of a loop at once, in one inner loop."""

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import Block
from tcpx.payload.ops.gml_st import Loop, trip_count
from tcpx.payload.sizes import to_text
from tcpx.plurals import counted
from tcpx.transform.declaration import (
    INT,
    LOOP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.sibling_fusion import fuse_siblings
from tcpx.transform.unrolling import divides_iterations, unroll

MOST = 64
"""The most iterations at once."""


@register
class UnrollAndJam(Transform):
    """Run `factor` iterations of a loop at once: copies of its body, whose inner loops are merged.

    The merged inner loop reads common operands once and carries the sums of all copies, which gives more independent
    sums. The number of iterations must be a multiple of the factor (`peel` ensures it), and no iteration may depend on
    another. Handles to operations in the body denote every copy, as with `unroll`; handles to the inner loops denote
    the merged loop.

    before:
        func @f(%x: tensor<64x[K]xf32>, %w: tensor<[K]x16xf32>) -> tensor<64x16xf32> symbols [K] {
          %mm = tcp.matmul(%x, %w) : tensor<64x16xf32>
          tcp.return(%mm)
        }
    statement:
        let i = tile(mm, [m: 1])
        let k = tile(mm, [k: 1])
        unroll_and_jam(i, factor: 2)
    after:
        func @f(%x: tensor<64x[K]xf32>, %w: tensor<[K]x16xf32>) -> tensor<64x16xf32> symbols [K] {
          %mm.out = tcp.empty : tensor<64x16xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to 64 step 2 (%mm.2 = %mm.out) {
            %mm.start = tcp.fill {value = 0.0} : tensor<1x16xf32>
            %mm.start~1 = tcp.fill {value = 0.0} : tensor<1x16xf32>
            %mm.4, %mm.4~1.1 = gml_st.for %mm/k1 in 0 to K step 1 (%mm.5 = %mm.start, %mm.5~1.1 = %mm.start~1) {
              %x.t.1 = gml_st.materialize(%x) tile [%mm/m1, %mm/k1] [1, 1] : tensor<1x1xf32>
              %w.t = gml_st.materialize(%w) tile [%mm/k1, 0] [1, 16] : tensor<1x16xf32>
              %mm.acc = gml_st.materialize(%mm.5) tile [0, 0] [1, 16] : tensor<1x16xf32>
              %mm.6 = tcp.matmul(%x.t.1, %w.t, init = %mm.acc) : tensor<1x16xf32> name "mm"
              gml_st.yield(%mm.6, %mm.5) tile [0, 0] [1, 16]
              %x.t.1~1 = gml_st.materialize(%x) tile [%mm/m1 + 1, %mm/k1] [1, 1] : tensor<1x1xf32>
              %mm.acc~1 = gml_st.materialize(%mm.5~1.1) tile [0, 0] [1, 16] : tensor<1x16xf32>
              %mm.6~1 = tcp.matmul(%x.t.1~1, %w.t, init = %mm.acc~1) : tensor<1x16xf32> name "mm~1"
              gml_st.yield(%mm.6~1, %mm.5~1.1) tile [0, 0] [1, 16]
            } : tensor<1x16xf32>, tensor<1x16xf32>
            gml_st.yield(%mm.4, %mm.2) tile [%mm/m1, 0] [1, 16]
            gml_st.yield(%mm.4~1.1, %mm.2) tile [%mm/m1 + 1, 0] [1, 16]
          } : tensor<64x16xf32>
          tcp.return(%mm.1)
        }
    """

    name = "unroll_and_jam"
    category = Category.LOOPS
    parameters = (
        Parameter("loop", LOOP, doc="the loop, with another one in its body"),
        Parameter("factor", INT, doc="how many iterations run at once"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, factor = args.loop("loop"), args.int("factor")
        _check(ctx, loop, factor)
        unroll(ctx, loop, factor)
        _jam(ctx, loop.body, factor)
        return (loop,)


def _check(ctx: TransformContext, loop: Loop, factor: int) -> None:
    if not 2 <= factor <= MOST:
        raise ctx.fail(
            f"{loop.name} does not run {factor} iterations at once",
            op=loop,
            required=f"a factor in 2..{MOST}",
            found=str(factor),
        )
    if not any(isinstance(op, Loop) for op in loop.body.ops):
        raise ctx.fail(
            f"there is no loop in {loop.name}",
            op=loop,
            required="a loop in the body, whose copies become one",
            found="no loop",
            fix=Direction(f"unroll(.., factor: {factor})"),
        )
    var, trips = loop.var, context_at(loop).value(trip_count(loop))
    if not divides_iterations(loop, factor):
        raise ctx.fail(
            f"{factor} does not divide the iterations of {loop.name}",
            op=loop,
            required=f"a multiple of {factor} whole steps",
            found=counted(to_text(trips), "step")
            + f" of {to_text(var.step)} over {to_text(var.lower)}..{to_text(var.upper)}",
            fix=Direction(f"a loop with a step {factor} times as long round it, peeled"),
        )


def _jam(ctx: TransformContext, block: Block, factor: int) -> None:
    """Merge the loops in the copies of a body, and the loops inside these."""
    loops = [op for op in block.ops if isinstance(op, Loop)]
    count = len(loops) // factor
    for k, into in enumerate(loops[:count]):
        for copy in range(1, factor):
            fuse_siblings(ctx, loops[k + copy * count], into)
        _jam(ctx, into.body, factor)

"""licm: move loop-invariant operations before a loop."""

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
from tcpx.transform.invariants import loop_invariants, move_before
from tcpx.transform.static_tiles import left_out_if_idle


@register
class Licm(Transform):
    """Move all loop-invariant operations before the loop: those that use neither its variable nor other values of the
    body. Loops that fill a buffer, such as those of `pack`, move with the buffer.

    A value that the loop updates in place, such as a fill that starts its sums, stays, because every iteration needs a
    new one. After bufferization, reads of memory stay too. `hoist` moves one operation, and says what prevents it.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x16xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %e = tcp.exp(%w) : tensor<64x16xf32>
            %mm.3 = tcp.matmul(%x.t, %e) : tensor<[min(6, M - %mm/m1)]x16xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 16]
          } : tensor<[M]x16xf32>
          tcp.return(%mm.1)
        }
    statement:
        licm(mm.loop(m))
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x16xf32>
          %e = tcp.exp(%w) : tensor<64x16xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64] : tensor<[min(6,
                M - %mm/m1)]x64xf32>
            %mm.3 = tcp.matmul(%x.t, %e) : tensor<[min(6, M - %mm/m1)]x16xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 16]
          } : tensor<[M]x16xf32>
          tcp.return(%mm.1)
        }
    """

    name = "licm"
    category = Category.CLEANUP_AND_LOWERING
    needs_count = False
    parameters = (Parameter("loop", LOOP, doc="the loop"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        found = loop_invariants(loop)
        if not found:
            raise ctx.fail(
                f"the iterations of {loop.name} compute nothing alike",
                op=loop,
                required=f"an operation in its body that does not depend on %{loop.var.name}",
                found="none",
                fix=left_out_if_idle(ctx.location, self.name),
            )
        move_before(ctx.rewriter, loop, found)
        return ()

"""fuse_dependent: a loop that reduces what another one's result is part of joins that one."""

from __future__ import annotations

from tcpx.transform.declaration import (
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
from tcpx.transform.dependent_fusion import fuse_dependent


@register
class FuseDependent(Transform):
    """Let a loop reduce what depends on the result of another loop in that loop, from what it has reduced so far.

    What was reduced before is changed first, in each iteration, by as much as what it was computed from has changed:
    an online softmax, attention over blocks of keys, a logsumexp. By how much is derived from the operations between:
    sums with the running result, exponentials of sums that fall, and what is linear in these, over which the combiner
    distributes. What does not separate so is refused, with its name. Each operation declares what it does to changes
    (docs/architecture.md), so others may take part. The running result goes one way, as a maximum or minimum does.

    The numbers are those of the two loops, rounded in another order: of a row of -inf, of NaN and of no elements, too.
    Two things differ. Where a maximum so far is -inf all that came before is -inf, and counts as nothing in what
    depends on it, also where another factor of it is infinite or NaN. And what is reduced on the way may overflow where
    the end does not: powers of more than the maximum so far, sums of products with numbers near the largest.

    All that leads from the one reduction to the other is fused into the loop before. The handles of both loops denote
    the one there is.

    Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022.

    before:
        func @f(%x: tensor<64xf32>) -> (tensor<f32>, tensor<f32>) {
          %m.start = tcp.fill {value = -inf} : tensor<f32>
          %m.1 = gml_st.for %m/d01 in 0 to 64 step 16 (%m.2 = %m.start) {
            %x.t = gml_st.materialize(%x) tile [%m/d01] [16] : tensor<16xf32>
            %m.acc = gml_st.materialize(%m.2) tile [] [] : tensor<f32>
            %m.3 = tcp.reduce_max(%x.t, init = %m.acc) {dims = [0]} : tensor<f32> name "m"
            gml_st.yield(%m.3, %m.2) tile [] []
          } : tensor<f32>
          %l.start = tcp.fill {value = 0.0} : tensor<f32>
          %l.1 = gml_st.for %l/d01 in 0 to 64 step 16 (%l.2 = %l.start) {
            %x.t.1 = gml_st.materialize(%x) tile [%l/d01] [16] : tensor<16xf32>
            %b.1 = tcp.broadcast(%m.1) {dims = []} : tensor<16xf32> name "b"
            %d.1 = tcp.sub(%x.t.1, %b.1) : tensor<16xf32> name "d"
            %e.1 = tcp.exp(%d.1) : tensor<16xf32> name "e"
            %l.acc = gml_st.materialize(%l.2) tile [] [] : tensor<f32>
            %l.3 = tcp.reduce_sum(%e.1, init = %l.acc) {dims = [0]} : tensor<f32> name "l"
            gml_st.yield(%l.3, %l.2) tile [] []
          } : tensor<f32>
          tcp.return(%m.1, %l.1)
        }
    statement:
        fuse_dependent(l.loop(d0), into: m.loop(d0))
    after:
        func @f(%x: tensor<64xf32>) -> (tensor<f32>, tensor<f32>) {
          %m.start = tcp.fill {value = -inf} : tensor<f32>
          %l.start = tcp.fill {value = 0.0} : tensor<f32>
          %m.1, %l.1.1 = gml_st.for %m/d01 in 0 to 64 step 16 (%m.2 = %m.start, %l.2.1 = %l.start) {
            %x.t = gml_st.materialize(%x) tile [%m/d01] [16] : tensor<16xf32>
            %m.acc = gml_st.materialize(%m.2) tile [] [] : tensor<f32>
            %m.3 = tcp.reduce_max(%x.t, init = %m.acc) {dims = [0]} : tensor<f32> name "m"
            gml_st.yield(%m.3, %m.2) tile [] []
            %m.change = tcp.generic(%m.3, %m.acc) {iterators = [], maps = [[], [], []]} ({ (%m.3.1: f32,
                %m.acc.1: f32):
              %changed = tcp.const {value = -0.0} : f32
              %changed.1 = tcp.equal(%m.3.1, %m.acc.1) : i1
              %changed.2 = tcp.sub(%m.3.1, %m.acc.1) : f32
              %changed.3 = tcp.select(%changed.1, %changed, %changed.2) : f32
              tcp.yield(%changed.3)
            }) : tensor<f32>
            %b.1 = tcp.broadcast(%m.3) {dims = []} : tensor<16xf32> name "b"
            %d.same = tcp.fill {value = -0.0} : tensor<f32>
            %d.change = tcp.sub(%d.same, %m.change) : tensor<f32>
            %d.1 = tcp.sub(%x.t, %b.1) : tensor<16xf32> name "d"
            %e.change = tcp.exp(%d.change) : tensor<f32>
            %e.1 = tcp.exp(%d.1) : tensor<16xf32> name "e"
            %l.acc = gml_st.materialize(%l.2.1) tile [] [] : tensor<f32>
            %l.changed = tcp.generic(%l.acc, %e.change, %m.acc) {iterators = [], maps = [[], [], [], []]} ({
                (%l.acc.1: f32, %e.change.1: f32, %m.acc.2: f32):
              %changed.4 = tcp.mul(%l.acc.1, %e.change.1) : f32
              %changed.5 = tcp.const {value = -inf} : f32
              %changed.6 = tcp.equal(%m.acc.2, %changed.5) : i1
              %changed.7 = tcp.const {value = 0.0} : f32
              %changed.8 = tcp.select(%changed.6, %changed.7, %changed.4) : f32
              tcp.yield(%changed.8)
            }) : tensor<f32>
            %l.3 = tcp.reduce_sum(%e.1, init = %l.changed) {dims = [0]} : tensor<f32> name "l"
            gml_st.yield(%l.3, %l.2.1) tile [] []
          } : tensor<f32>, tensor<f32>
          tcp.return(%m.1, %l.1.1)
        }
    """

    name = "fuse_dependent"
    category = Category.FUSION
    parameters = (
        Parameter("target", LOOP, doc="the loop that needs what the other reduces"),
        Parameter("into", LOOP, doc="the loop that does what both do"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (fuse_dependent(ctx, args.loop("target"), args.loop("into")),)

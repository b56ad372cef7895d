"""fuse_dependent: fuse a reduction loop into the loop whose result it depends on."""

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
    """Fuse a reduction loop into the loop whose result it depends on, using the running result instead of the final
    one.

    Each iteration first corrects the previous partial results for the change of the running result: an online softmax,
    attention over blocks of keys, a logsumexp. The correction is derived from the operations between the reductions.
    Supported are sums with the running result, exponentials of sums that do not rise, and operations linear in these,
    over which the combiner distributes. Anything else is refused by name. Each operation declares its effect on changes
    (docs/architecture.md), so other operations can take part. The running result must be monotonic, like a maximum or
    minimum.

    The results are those of the two loops up to rounding, also for rows of -inf, of NaN and without elements, with two
    differences. While a running maximum is -inf, all previous elements are -inf and contribute nothing to the dependent
    reduction, even if another factor is infinite or NaN. And partial results may overflow although the final one does
    not: exponentials relative to the running maximum, sums of products of numbers near the largest.

    Everything on the paths from one reduction to the other is fused first. The handles of both loops denote the
    remaining one.

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
        Parameter("target", LOOP, doc="the loop that depends on the other's result"),
        Parameter("into", LOOP, doc="the loop that computes this result"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (fuse_dependent(ctx, args.loop("target"), args.loop("into")),)

"""fuse_siblings: merge two independent loops."""

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
from tcpx.transform.sibling_fusion import fuse_siblings


@register
class FuseSiblings(Transform):
    """Merge two independent loops with the same iterations into one.

    The loop has the destinations of both, and reads common operands once. The handles of both denote it. Loops in their
    bodies are merged in the same way. Operations between the loops move before them, or after them if they depend on
    them.

    before:
        func @f(%x: tensor<8x[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N] {
          %s.out = tcp.empty : tensor<[N]xf32>
          %s.1 = gml_st.for %s/d11 in 0 to N step 4 (%s.2 = %s.out) {
            %x.t = gml_st.materialize(%x) tile [0, %s/d11] [8, min(4, N - %s/d11)] : tensor<8x[min(4, N - %s/d11)]xf32>
            %s.3 = tcp.reduce_sum(%x.t) {dims = [0]} : tensor<[min(4, N - %s/d11)]xf32> name "s"
            gml_st.yield(%s.3, %s.2) tile [%s/d11] [min(4, N - %s/d11)]
          } : tensor<[N]xf32>
          %m.out = tcp.empty : tensor<[N]xf32>
          %m.1 = gml_st.for %m/d11 in 0 to N step 4 (%m.2 = %m.out) {
            %x.t.1 = gml_st.materialize(%x) tile [0, %m/d11] [8, min(4, N - %m/d11)]
                : tensor<8x[min(4, N - %m/d11)]xf32>
            %m.3 = tcp.reduce_max(%x.t.1) {dims = [0]} : tensor<[min(4, N - %m/d11)]xf32> name "m"
            gml_st.yield(%m.3, %m.2) tile [%m/d11] [min(4, N - %m/d11)]
          } : tensor<[N]xf32>
          tcp.return(%s.1, %m.1)
        }
    statement:
        fuse_siblings(m.loop(d1), into: s.loop(d1))
    after:
        func @f(%x: tensor<8x[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N] {
          %s.out = tcp.empty : tensor<[N]xf32>
          %m.out = tcp.empty : tensor<[N]xf32>
          %s.1, %m.1.1 = gml_st.for %s/d11 in 0 to N step 4 (%s.2 = %s.out, %m.2.1 = %m.out) {
            %x.t = gml_st.materialize(%x) tile [0, %s/d11] [8, min(4, N - %s/d11)] : tensor<8x[min(4, N - %s/d11)]xf32>
            %s.3 = tcp.reduce_sum(%x.t) {dims = [0]} : tensor<[min(4, N - %s/d11)]xf32> name "s"
            gml_st.yield(%s.3, %s.2) tile [%s/d11] [min(4, N - %s/d11)]
            %m.3 = tcp.reduce_max(%x.t) {dims = [0]} : tensor<[min(4, N - %s/d11)]xf32> name "m"
            gml_st.yield(%m.3, %m.2.1) tile [%s/d11] [min(4, N - %s/d11)]
          } : tensor<[N]xf32>, tensor<[N]xf32>
          tcp.return(%s.1, %m.1.1)
        }
    """

    name = "fuse_siblings"
    category = Category.FUSION
    parameters = (
        Parameter("target", LOOP, doc="the loop that is merged into the other"),
        Parameter("into", LOOP, doc="the other loop"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (fuse_siblings(ctx, args.loop("target"), args.loop("into")),)

"""fission: split the body of a loop into two loops."""

from tcpx.transform.declaration import (
    LOOP,
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
from tcpx.transform.loop_fission import fission


@register
class Fission(Transform):
    """Split a loop into two: the first computes `after` and its producers in the body, the second the rest.

    Values that pass from the first to the second are stored: at their destination, or in a tensor with a slot for each
    iteration. Views and broadcasts are repeated in both. The handle of the loop denotes the second; the step returns
    both. `fuse` and `fuse_siblings` are the inverse.

    before:
        func @f(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %e = tcp.exp(%x) : tensor<[M]x64xf32>
          %r = tcp.mul(%e, %y) : tensor<[M]x64xf32>
          tcp.return(%r)
        }
    statement:
        let i = tile(r, [d0: 4])
        fuse(e, into: i)
        let a, b = fission(i, after: e)
    after:
        func @f(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %r.out = tcp.empty : tensor<[M]x64xf32>
          %e.out = tcp.empty : tensor<[ceildiv(M, 4)]x4x64xf32>
          %r.4 = gml_st.for %r/d01 in 0 to M step 4 (%r.5 = %e.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01, 0] [min(4, M - %r/d01), 64] : tensor<[min(4,
                M - %r/d01)]x64xf32>
            %e.1 = tcp.exp(%x.t) : tensor<[min(4, M - %r/d01)]x64xf32> name "e"
            gml_st.yield(%e.1, %r.5) tile [floordiv(%r/d01, 4), 0, 0] [1, min(4, M - %r/d01), 64] drop [0]
          } : tensor<[ceildiv(M, 4)]x4x64xf32>
          %r.6 = gml_st.for %r/d02 in 0 to M step 4 (%r.7 = %r.out) {
            %e.t.1 = gml_st.materialize(%r.4) tile [floordiv(%r/d02, 4), 0, 0] [1, min(4, M - %r/d02),
                64] drop [0] : tensor<[min(4, M - %r/d02)]x64xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d02, 0] [min(4, M - %r/d02), 64] : tensor<[min(4,
                M - %r/d02)]x64xf32>
            %r.3 = tcp.mul(%e.t.1, %y.t) : tensor<[min(4, M - %r/d02)]x64xf32> name "r"
            gml_st.yield(%r.3, %r.7) tile [%r/d02, 0] [min(4, M - %r/d02), 64]
          } : tensor<[M]x64xf32>
          tcp.return(%r.6)
        }
    """

    name = "fission"
    category = Category.LOOPS
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("after", OP, doc="the operation in the body that ends the first part"),
    )
    results = (Result.LOOP, Result.LOOP)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return fission(ctx, args.loop("loop"), args.op("after"))

"""trim: leave out iterations of a loop in which a condition on positions cannot hold, or that read padding alone."""

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Structured
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
from tcpx.transform.trimming import trim


@register
class Trim(Transform):
    """End a loop once a condition on positions, in the body of one of its operations, cannot hold any more: causal
    attention skips the blocks of keys after all queries of a block. Or leave out the first and last iterations, where
    an operand of the operation is padding alone: a convolution does not multiply by the zeros of its padding.

    The condition compares sums of positions and sizes. tcpx derives from the operations that skipped iterations
    contribute the neutral element to every reduction of the loop, and store nothing else: fuse an epilogue that runs in
    the last iteration after `trim`. With a condition, other values that are read there are assumed finite: if a value
    that meets a weight of 0 is infinite or NaN, the sum no longer becomes NaN. The same holds for running maxima: in a
    row that has met no element, values that depend on the maximum keep their previous value. What meets padding has to
    be known to be finite, as a constant is.

    before:
        func @f(%x: tensor<[N]x[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %s.out = tcp.empty : tensor<[N]xf32>
          %s.1 = gml_st.for %s/d01 in 0 to N step 8 (%s.2 = %s.out) {
            %s.start = tcp.fill {value = 0.0} : tensor<[min(8, N - %s/d01)]xf32>
            %s.4 = gml_st.for %s/d11 in 0 to N step 32 (%s.5 = %s.start) {
              %x.t = gml_st.materialize(%x) tile [%s/d01, %s/d11] [min(8, N - %s/d01), min(32, N - %s/d11)] :
                  tensor<[min(8, N - %s/d01)]x[min(32, N - %s/d11)]xf32>
              %m.1 = tcp.generic(%x.t) {iterators = [["d0", "parallel"], ["d1", "parallel"]], maps = [[d0, d1],
                  [d0, d1]], positions = [d0, d1], origins = [%s/d01, %s/d11]} ({ (%a: f32, %i: si64, %j: si64):
                %c = tcp.greater_equal(%i, %j) : i1
                %z = tcp.const {value = 0.0} : f32
                %r = tcp.select(%c, %a, %z) : f32
                tcp.yield(%r)
              }) : tensor<[min(8, N - %s/d01)]x[min(32, N - %s/d11)]xf32> name "m"
              %s.acc = gml_st.materialize(%s.5) tile [0] [min(8, N - %s/d01)] : tensor<[min(8, N - %s/d01)]xf32>
              %s.6 = tcp.reduce_sum(%m.1, init = %s.acc) {dims = [1]} : tensor<[min(8, N - %s/d01)]xf32> name "s"
              gml_st.yield(%s.6, %s.5) tile [0] [min(8, N - %s/d01)]
            } : tensor<[min(8, N - %s/d01)]xf32>
            gml_st.yield(%s.4, %s.2) tile [%s/d01] [min(8, N - %s/d01)]
          } : tensor<[N]xf32>
          tcp.return(%s.1)
        }
    statement:
        trim(s.loop(d1), m)
    after:
        func @f(%x: tensor<[N]x[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %s.out = tcp.empty : tensor<[N]xf32>
          %s.1 = gml_st.for %s/d01 in 0 to N step 8 (%s.2 = %s.out) {
            %s.start = tcp.fill {value = 0.0} : tensor<[min(8, N - %s/d01)]xf32>
            %s.4 = gml_st.for %s/d11 in 0 to %s/d01 + min(8, N - %s/d01) step 32 (%s.5 =
                %s.start) {
              %x.t = gml_st.materialize(%x) tile [%s/d01, %s/d11] [min(8, N - %s/d01), min(32, N - %s/d11)] :
                  tensor<[min(8, N - %s/d01)]x[min(32, N - %s/d11)]xf32>
              %m.1 = tcp.generic(%x.t) {iterators = [["d0", "parallel"], ["d1", "parallel"]], maps = [[d0, d1],
                  [d0, d1]], positions = [d0, d1], origins = [%s/d01, %s/d11]} ({ (%a: f32, %i: si64, %j: si64):
                %c = tcp.greater_equal(%i, %j) : i1
                %z = tcp.const {value = 0.0} : f32
                %r = tcp.select(%c, %a, %z) : f32
                tcp.yield(%r)
              }) : tensor<[min(8, N - %s/d01)]x[min(32, N - %s/d11)]xf32> name "m"
              %s.acc = gml_st.materialize(%s.5) tile [0] [min(8, N - %s/d01)] : tensor<[min(8, N - %s/d01)]xf32>
              %s.6 = tcp.reduce_sum(%m.1, init = %s.acc) {dims = [1]} : tensor<[min(8, N - %s/d01)]xf32> name "s"
              gml_st.yield(%s.6, %s.5) tile [0] [min(8, N - %s/d01)]
            } : tensor<[min(8, N - %s/d01)]xf32>
            gml_st.yield(%s.4, %s.2) tile [%s/d01] [min(8, N - %s/d01)]
          } : tensor<[N]xf32>
          tcp.return(%s.1)
        }
    """

    name = "trim"
    category = Category.TILING
    parameters = (
        Parameter("loop", LOOP, doc="the loop to cut"),
        Parameter("by", OP, doc="the operation in it whose body has the condition, or which reads a padded operand"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, op = args.loop("loop"), args.op("by")
        if not isinstance(op, Structured) or op.parent is not loop.body:
            raise ctx.fail(
                f"%{op.name} does not stand in the body of {loop.name}",
                op=op,
                required="an operation that every iteration computes",
                found="it in another block",
                fix=Direction("`trim` before what is in the loop is tiled"),
            )
        trim(ctx, op, loop)
        return ()

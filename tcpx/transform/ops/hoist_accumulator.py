"""hoist_accumulator: keep an accumulator in registers through a reduction loop."""

from tcpx.transform.accumulators import carry_out_of
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


@register
class HoistAccumulator(Transform):
    """Let the loop carry the accumulator of a vectorized operation as a value, instead of loading and storing it.

    An operation with several results has several accumulators; results along a sequential dim have none. If several
    loops step reduction dims, those inside `out_of` carry the accumulator too.

    A reduction along lanes has a partial result in each lane: the loop carries these, and they are combined once after
    it. Without a vectorized loop, `split_reduction` with a `factor` does the same for tensors.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %mm.start.v = tcp.fill {value = 0.0} : vector<6x32xf32> name "mm.start"
            %mm/k1.1 = vector.to_tensor(%mm.start.v) : tensor<6x32xf32>
            %mm.5 = gml_st.for %mm/k1 in 0 to 64 step 1 (%mm.6 = %mm/k1.1) {
              %x.v = vector.read(%x) tile [%mm/m1, %mm/k1] [min(6, M - %mm/m1), 1] {value = 0.0} : vector<6x1xf32>
              %w.v = vector.read(%w) tile [%mm/k1, 0] [1, 32] {value = 0.0} : vector<1x32xf32>
              %mm.v = vector.read(%mm.6) tile [0, 0] [6, 32] {value = 0.0} : vector<6x32xf32>
              %mm.v.1 = tcp.matmul(%x.v, %w.v, init = %mm.v) : vector<6x32xf32> name "mm"
              gml_st.yield(%mm.v.1, %mm.6) tile [0, 0] [6, 32]
            } : tensor<6x32xf32>
            %mm.v.2 = vector.read(%mm.5) tile [0, 0] [6, 32] {value = 0.0} : vector<6x32xf32>
            gml_st.yield(%mm.v.2, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    statement:
        hoist_accumulator(mm, out_of: mm.loop(k))
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %mm.start.v = tcp.fill {value = 0.0} : vector<6x32xf32> name "mm.start"
            %mm.5 = gml_st.for %mm/k1 in 0 to 64 step 1 (%mm.6 = %mm.start.v) {
              %x.v = vector.read(%x) tile [%mm/m1, %mm/k1] [min(6, M - %mm/m1), 1] {value = 0.0} : vector<6x1xf32>
              %w.v = vector.read(%w) tile [%mm/k1, 0] [1, 32] {value = 0.0} : vector<1x32xf32>
              %mm.v.1 = tcp.matmul(%x.v, %w.v, init = %mm.6) : vector<6x32xf32> name "mm"
              gml_st.yield(%mm.v.1, %mm.6) tile [0, 0] [6, 32]
            } : vector<6x32xf32>
            gml_st.yield(%mm.5, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "hoist_accumulator"
    category = Category.VECTOR
    needs_count = False
    parameters = (
        Parameter("target", OP, doc="the operation that accumulates"),
        Parameter("out_of", LOOP, doc="the outermost reduction loop that carries it"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        carry_out_of(ctx, args.op("target"), args.loop("out_of"))
        return ()

"""vectorize: the whole body of a loop on register tiles."""

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
    a sliced write a masked write; a tile of which a nested loop reads parts is kept in memory for it. Operations keep
    their classes; `lower_vectors` later unrolls them to the target's registers.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %x.p = tcp.pad(%x.t) {value = 0.0, free = true} : tensor<6x64xf32>
            %mm.4 = tcp.matmul(%x.p, %w) : tensor<6x32xf32> name "mm"
            %mm.t = gml_st.materialize(%mm.4) tile [0, 0] [min(6, M - %mm/m1), 32]
                : tensor<[min(6, M - %mm/m1)]x32xf32>
            gml_st.yield(%mm.t, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    statement:
        vectorize(mm.loop(m))
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.v = vector.read(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64] {value = 0.0, free = true} :
                vector<6x64xf32>
            %w.v = vector.read(%w) tile [0, 0] [64, 32] {value = 0.0} : vector<64x32xf32>
            %mm.v = tcp.matmul(%x.v, %w.v) : vector<6x32xf32> name "mm"
            gml_st.yield(%mm.v, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "vectorize"
    category = Category.VECTOR
    parameters = (Parameter("loop", LOOP, doc="the loop whose body is vectorized"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        vectorize(ctx, args.loop("loop"))
        return ()

"""skew: begin a loop later in each iteration of the loop around it."""

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
from tcpx.transform.skewing import skew


@register
class Skew(Transform):
    """Begin a loop `factor` of its iterations later in each iteration of the loop around it.

    The iterations stay in their order, so this is always legal. It makes `reorder` legal for loops of which each hands
    something to its next iteration, as in a sweep over a grid: iterations that lie on one diagonal become one iteration
    of the skewed loop, and those of the other loop are independent within it (`parallelize`). Without a factor, it is
    the least one for which that holds, from the distances between what iterations read and write.

    before:
        func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [N: 2.., M: 2..] {
          %r = gml_st.for %i in 1 to N step 1 (%d = %x) {
            %s = gml_st.for %j in 1 to M step 1 (%e = %d) {
              %north = gml_st.materialize(%e) tile [%i - 1, %j] [1, 1] : tensor<1x1xf32>
              %west = gml_st.materialize(%e) tile [%i, %j - 1] [1, 1] : tensor<1x1xf32>
              %v = tcp.add(%north, %west) : tensor<1x1xf32>
              gml_st.yield(%v, %e) tile [%i, %j] [1, 1]
            } : tensor<[N]x[M]xf32>
            gml_st.yield(%s, %d) tile [0, 0] [N, M]
          } : tensor<[N]x[M]xf32>
          tcp.return(%r)
        }
    statement:
        let j = parent(v)
        let i = parent(j)
        skew(j)
        reorder([j, i])
    after:
        func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [N: 2.., M: 2..] {
          %r.1 = gml_st.for %j in 1 to M + N - 2 step 1 (%r.2 = %x) {
            %r.3 = gml_st.for %i in max(1, %j - M + 2) to min(%j + 1, N) step 1 (%r.4 = %r.2) {
              %north = gml_st.materialize(%r.4) tile [%i - 1, %j - %i + 1] [1, 1] : tensor<1x1xf32>
              %west = gml_st.materialize(%r.4) tile [%i, %j - %i] [1, 1] : tensor<1x1xf32>
              %v = tcp.add(%north, %west) : tensor<1x1xf32>
              gml_st.yield(%v, %r.4) tile [%i, %j - %i + 1] [1, 1]
            } : tensor<[N]x[M]xf32>
            gml_st.yield(%r.3, %r.2) tile [0, 0] [N, M]
          } : tensor<[N]x[M]xf32>
          tcp.return(%r.1)
        }
    """

    name = "skew"
    category = Category.LOOPS
    parameters = (
        Parameter("loop", LOOP, doc="a loop that is all that the loop around it has in it"),
        Parameter("factor", INT, None, doc="how many iterations later; the least that makes diagonals if not given"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        skew(ctx, loop, args.optional_int("factor"))
        return (loop,)

"""vectorize: the whole body of a loop on register tiles, or one operation in tiles made for it."""

from tcpx.payload.ir import FuncOp
from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.vector_tiles import vectorize_op
from tcpx.transform.vectorization import vectorize


@register
class Vectorize(Transform):
    """Turn every operation in the body of a loop, nested loops and branches included, into one on vectors; or one
    operation, in loops that this makes round it.

    Every tile must be static: tile with `tail: pad` or peel the loop before. A padded read becomes a masked read,
    a sliced write a masked write; a tile of which a nested loop reads parts is kept in memory for it. Operations keep
    their classes; `lower_vectors` later unrolls them to the target's registers. Positions that are only compared, as a
    causal mask does, count from where the tile begins: in 32 bits, beside f32 in as many lanes.

    An operation need not be tiled before: a tile is as many elements as the target has lanes along the dim that lies
    side by side in the result, or, if only that is side by side in the operands, along a reduction dim; along what an
    operand has side by side instead, as many; along any other dim, one. What whole vectors leave over is a masked
    vector in a tail loop. `x.loop(d)` is the loop over a dim; in `tile` and `vectorize(i)` a person says more.

    What scatters or is ragged, and a scan of more than 32 steps, stays in memory. It is computed by vectors along the
    dim that is the last of all its results, where that is parallel and no index of a result has to do with it: then no
    two lanes meet. `lanes` says so, and how long the vectors are: as a tile of up to 8 registers, which is best, else
    one. Such a tile need not be static, and is better not padded: the last vector is masked. Sums are carried in
    registers, in their order. Such an operation needs no loop: `vectorize(v)`.

    Where rows that are ragged have no such dim (sparse rows times a vector), lanes lie along the row itself: whole
    vectors and a masked one at its end, elements that indices say gathered, and the lanes combined at last, if the
    reduction is commutative.

    Where what scatters has no such dim (a histogram), two lanes may write one element, so lanes take turns: vectors
    compute all that no accumulator has to do with, elements that indices say gathered, and each lane is then combined
    with the element that its index says, in the order of the iterations: sums of floats are those of the loop over
    elements. A body that only combines has nothing for vectors to compute, and stays that loop.

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
    parameters = (Parameter("target", OP_OR_LOOP, doc="the loop whose body is vectorized, or the operation"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        target = args.op("target")
        if isinstance(target, Loop):
            vectorize(ctx, target)
        elif isinstance(target, FuncOp):
            raise ctx.fail(
                f"@{target.name} is a function", required="a loop or an operation", found="func",
                fix="for x in match any elementwise in root { vectorize(x) }",
            )  # fmt: skip
        else:
            vectorize_op(ctx, target)
        return ()

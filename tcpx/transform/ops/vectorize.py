"""vectorize: the whole body of a loop on register tiles, or one operation in automatic tiles."""

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
    """Vectorize every operation in the body of a loop, including nested loops and branches; or one operation, in loops
    that the step makes around it.

    In a loop, every tile must be static: tile with `tail: pad` or peel the loop first. A padded read becomes a masked
    read, a sliced write a masked write. A tile of which a nested loop reads parts is stored in memory. Operations keep
    their classes; `lower_vectors` later unrolls them to the target's registers. Positions that are only compared, as in
    a causal mask, count from the start of the tile: in 32 bits, with as many lanes as f32.

    A single operation need not be tiled. The tile has as many elements as the target has lanes along the dim that is
    contiguous in the result; if only operands have a contiguous reduction dim, along that; if an operand has another
    contiguous dim, as many along that as well; one along any other dim. The remainder of whole vectors is a masked
    vector in a tail loop. `x.loop(d)` is the loop over a dim. `tile` and `vectorize(i)` give more control.

    Scatters, ragged operations, and scans of more than 32 steps stay in memory. They are vectorized along the last dim
    of all their results, if that is parallel and no index of a result depends on it, so that no two lanes write the
    same element. The attribute `lanes` names the dim and the vector length: a tile of up to 8 registers, which is best,
    else one. Such a tile need not be static, and is better not padded: the last vector is masked. Sums stay in
    registers, in their order. Such an operation needs no loop: `vectorize(v)`.

    If ragged rows have no such dim (sparse rows times a vector), lanes run along the row: whole vectors and a masked
    one at its end, with gathered elements. The lanes are combined at the end, if the reduction is commutative.

    If a scatter has no such dim (a histogram), two lanes may write one element, so lanes take turns. Vectors compute
    everything that does not depend on the accumulator, with gathered elements. Then each lane is combined with its
    indexed element, in the order of the iterations: float sums equal those of the scalar loop. A body that only
    combines has nothing to vectorize, and stays scalar.

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
    needs_count = False
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

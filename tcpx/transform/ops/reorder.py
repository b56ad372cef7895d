"""reorder: permute perfectly nested loops."""

from itertools import pairwise

from tcpx.payload.ir import parent_op
from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.declaration import (
    LOOPS,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.loop_order import swap
from tcpx.transform.static_tiles import left_out_if_idle


@register
class Reorder(Transform):
    """Permute perfectly nested loops.

    Iterations on the same elements of a result must keep their order, or be steps of a reduction with a commutative
    combiner; float sums are then reassociated. The ranges must not depend on any of the loops. Subsets of operands that
    the outer loops take move to the inner loops. The handles stay with their loops.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        let k, i = tile(mm, [k: 8, m: 6])
        reorder([i, k])
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.start = tcp.fill {value = 0.0} : tensor<[M]x32xf32>
          %mm.7 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.8 = %mm.start) {
            %mm.out = gml_st.materialize(%mm.8) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32] : tensor<[min(6,
                M - %mm/m1)]x32xf32>
            %mm.9 = gml_st.for %mm/k1 in 0 to 64 step 8 (%mm.10 = %mm.out) {
              %w.t = gml_st.materialize(%w) tile [%mm/k1, 0] [8, 32] : tensor<8x32xf32>
              %x.t.1 = gml_st.materialize(%x) tile [%mm/m1, %mm/k1] [min(6, M - %mm/m1), 8] : tensor<[min(6,
                  M - %mm/m1)]x8xf32>
              %mm.acc.1 = gml_st.materialize(%mm.10) tile [0, 0] [min(6, M - %mm/m1), 32] : tensor<[min(6,
                  M - %mm/m1)]x32xf32>
              %mm.6 = tcp.matmul(%x.t.1, %w.t, init = %mm.acc.1) : tensor<[min(6, M - %mm/m1)]x32xf32> name "mm"
              gml_st.yield(%mm.6, %mm.10) tile [0, 0] [min(6, M - %mm/m1), 32]
            } : tensor<[min(6, M - %mm/m1)]x32xf32>
            gml_st.yield(%mm.9, %mm.8) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.7)
        }
    """

    name = "reorder"
    category = Category.LOOPS
    parameters = (Parameter("loops", LOOPS, doc="the loops, in the new order"),)
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        wanted = [loop.var.name for loop in args.loops("loops")]
        nest = sorted(dict.fromkeys(args.loops("loops")), key=lambda loop: sum(1 for _ in loop.ancestors()))
        _check(ctx, nest, wanted)
        top = nest[0]
        now = [loop.var.name for loop in nest]
        while now != wanted:
            at = next(k for k in range(len(now) - 1) if wanted.index(now[k]) > wanted.index(now[k + 1]))
            made = swap(ctx, _at_depth(top, at))
            top = made if at == 0 else top
            now[at], now[at + 1] = now[at + 1], now[at]
        return (top,)


def _at_depth(top: Loop, depth: int) -> Loop:
    for _ in range(depth):
        top = next(op for op in top.body.ops if isinstance(op, Loop))
    return top


def _check(ctx: TransformContext, nest: list[Loop], wanted: list[str]) -> None:
    """The loops are perfectly nested, and the order is new."""
    apart = next((b for a, b in pairwise(nest) if parent_op(b) is not a), None)
    if len(nest) < 2 or len(nest) != len(wanted) or apart is not None:
        raise ctx.fail(
            f"{apart.name} is not directly in the loop before it" if apart is not None else "one loop has no order",
            op=apart or (nest[0] if nest else None),
            required="two loops or more, each once and directly in the one before",
            found=", ".join(wanted) or "an empty list",
        )
    if [loop.var.name for loop in nest] == wanted:
        raise ctx.fail(
            "the loops stand in this order",
            op=nest[0],
            required="another order",
            found=", ".join(wanted),
            fix=left_out_if_idle(ctx.location, "reorder"),
        )

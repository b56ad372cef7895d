"""hoist: move one operation out of loops."""

from tcpx.payload.ir import Operation, is_in, parent_op
from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.declaration import (
    LOOP,
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.invariants import move_before, needed, why_stays


@register
class Hoist(Transform):
    """Move an operation, or a loop that fills a buffer, out of a loop around it, together with its producers inside.

    Each iteration of `out_of`, and of the loops between, must compute the same; the error says what prevents it. A
    buffer that `pack` fills further inside is then filled once. `licm` moves everything that can be moved.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x16xf32>
          tcp.return(%mm)
        }
    statement:
        let i = tile(mm, [m: 6])
        let b = pack(mm.rhs, [n, k], at: i)
        hoist(b, out_of: i)
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x16xf32>
          %mm.rhs.buffer = tcp.empty : tensor<1x16x64xf32>
          %mm.rhs = gml_st.for %mm.rhs/pack1 in 0 to 1 step 1 (%mm.rhs.1 = %mm.rhs.buffer) {
            %mm.rhs.t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<16x64xf32>
            gml_st.yield(%mm.rhs.t, %mm.rhs.1) tile [%mm.rhs/pack1, 0, 0] [1, 16, 64] drop [0]
          } : tensor<1x16x64xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64] : tensor<[min(6,
                M - %mm/m1)]x64xf32>
            %mm.rhs.t.1 = gml_st.materialize(%mm.rhs) tile [0, 0, 0] [1, 16, 64] drop [0] : tensor<16x64xf32>
            %mm.rhs.t.2 = tcp.transpose(%mm.rhs.t.1) {permutation = [1, 0]} : tensor<64x16xf32>
            %mm.3 = tcp.matmul(%x.t, %mm.rhs.t.2) : tensor<[min(6, M - %mm/m1)]x16xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 16]
          } : tensor<[M]x16xf32>
          tcp.return(%mm.1)
        }
    """

    name = "hoist"
    category = Category.LOOPS
    needs_count = False
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="an operation or loop in it"),
        Parameter("out_of", LOOP, doc="the outermost loop to move it out of"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        target, out_of = args.op("target"), args.loop("out_of")
        if target is out_of or not is_in(target, out_of):
            raise ctx.fail(
                f"%{target.name} is not in {out_of.name}",
                op=target,
                required="an operation inside of the loop",
                found=_place(target),
            )
        while is_in(target, out_of):
            holder = parent_op(target)
            if not isinstance(holder, Loop):
                raise ctx.fail(
                    f"%{target.name} does not run in every iteration of {out_of.name}",
                    op=target,
                    required="an operation that stands in loops alone",
                    found=_place(target),
                )
            moved = needed(target, holder)
            for op in moved:
                why = why_stays(op, holder, moved)
                if why is not None:
                    raise ctx.fail(
                        f"%{target.name} is another one in each iteration of {holder.name}"
                        + ("" if op is target else f": it needs %{op.name}"),
                        op=op,
                        required="an operation that computes the same in every iteration",
                        found=why,
                    )
            move_before(ctx.rewriter, holder, moved)
        return ()


def _place(op: Operation) -> str:
    round_it = [a.name or a.opcode for a in op.ancestors()][:-1]
    return f"in {' in '.join(round_it)}" if round_it else "in no loop"

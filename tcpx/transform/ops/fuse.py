"""fuse: move a producer into a loop that reads it, or a consumer into the loop that computes its operand."""

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation, is_in, parent_op
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.types import VectorType
from tcpx.transform.declaration import (
    BOOL,
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
from tcpx.transform.fusion import ancestor_in, fuse_consumer, fuse_producer, position
from tcpx.transform.grouping import check_not_isolated
from tcpx.transform.recomputation import Again
from tcpx.transform.tiling import check_on_tensors


@register
class Fuse(Transform):
    """Compute an operation tile by tile inside a loop.

    A producer is computed where the loop reads it, together with the operations on its other paths into the loop. A
    producer that starts an accumulator (`x.start`) is computed on the first step of the reduction. A consumer, with
    every operation on the paths to it, moves after the value it reads. If reduction loops enclose that value, the
    consumer runs on their last iteration, which tcpx derives. A consumer fused into a reduction loop itself runs there
    as a whole, with a remark. A consumer with windows (a pooling, a convolution) can move if no window crosses tiles:
    its stride is at least the window, and divides the tiles. If windows overlap, tile the consumer and fuse its
    producer.

    A producer with other users is either computed twice (`recompute: true`), or the loop yields its tiles as an
    additional result for all of them (`keep: true`). The tiles must then cover every element, and may overlap only in
    sequential loops. With `recompute`, the original is not `scheduled` by this step: `default.rest` takes it.

    What the loop reads at several offsets would be computed once for each: that is refused without `offsets: true`, in
    `language 1` it is done with a remark. With `recompute: true`, operations between the producer and the loop stay
    where they are, too. Of what the loop reads by indices, each iteration would compute all that these may select:
    without `recompute: true`, that is refused.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %mm.3 = tcp.matmul(%x.t, %w) : tensor<[min(6, M - %mm/m1)]x32xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          %r = tcp.exp(%mm.1) : tensor<[M]x32xf32>
          tcp.return(%r)
        }
    statement:
        fuse(r, into: mm.loop(m))
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %mm.3 = tcp.matmul(%x.t, %w) : tensor<[min(6, M - %mm/m1)]x32xf32> name "mm"
            %r.1 = tcp.exp(%mm.3) : tensor<[min(6, M - %mm/m1)]x32xf32> name "r"
            gml_st.yield(%r.1, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "fuse"
    category = Category.FUSION
    parameters = (
        Parameter("target", OP, doc="the producer or consumer"),
        Parameter("into", LOOP, doc="the loop"),
        Parameter("recompute", BOOL, False, doc="compute a producer again, for other users, offsets or iterations"),
        Parameter(
            "keep", BOOL, False, doc="yield a producer that has other users from the loop, and compute it only there"
        ),
        Parameter("padded", BOOL, True, doc="a consumer of padded tiles computes whole tiles, not only the valid part"),
        Parameter("offsets", BOOL, False, doc="compute a producer once for each offset that the loop reads it at"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, loop, is_kept = args.op("target"), args.loop("into"), args.bool("keep")
        if not isinstance(op, Tileable):
            raise ctx.fail(f"%{op.name} cannot be fused", op=op, required="the Tiling interface", found=op.opcode)
        check_on_tensors(ctx, op)
        if is_in(op, loop):
            raise ctx.fail(
                f"%{op.name} is already in the loop {loop.name}",
                op=op,
                required="an operation outside the loop",
                found=f"an operation of its body: {op.opcode}",
                fix="leave this statement out",
            )
        if is_kept and args.bool("recompute"):
            raise ctx.fail(
                f"%{op.name} would be computed once, and again",
                op=op,
                required="`recompute` or `keep`",
                found="both",
                fix=Direction("leave one of them out"),
            )
        check_not_isolated(ctx, op, loop)
        here = ancestor_in(loop, op.parent) if op.parent is not None else None
        if here is not None and position(op) > position(here):
            if is_kept:
                raise ctx.fail(
                    f"%{op.name} follows the loop {loop.name}, and stays visible anyway",
                    op=op,
                    required="a producer, with `keep`",
                    found="a consumer",
                    fix="leave `keep` out",
                )
            _check_on_tensors_inside(ctx, op, loop)
            fuse_consumer(ctx, op, loop, args.bool("padded"))
        elif _stands_in_later_loop(op, loop):
            raise ctx.fail(
                f"%{op.name} does not follow the loop {loop.name}",
                op=op,
                required="a consumer in a block that encloses the loop, behind it",
                found=f"one in {outer.name if (outer := parent_op(op)) is not None else 'no function'}, behind it",
                fix=Direction("fuse it before it is tiled: the loop that is fused into computes its tiles"),
            )
        else:
            fuse_producer(ctx, op, loop, Again(args.bool("recompute"), args.bool("offsets")), is_kept)
            if op.func is not None:  # its other users read the original
                ctx.unchanged.append(op)
        return ()


def _stands_in_later_loop(op: Operation, loop: Loop) -> bool:
    outer = ancestor_in(op, loop.parent) if loop.parent is not None else None
    return outer is not None and outer is not op and position(outer) > position(loop)


def _check_on_tensors_inside(ctx: TransformContext, op: Operation, loop: Loop) -> None:
    """A consumer on tensors cannot read a value of a vectorized body."""
    for inner in loop.walk():
        if isinstance(inner, StYield) and isinstance(inner.operands[0].type, VectorType):
            raise ctx.fail(
                f"%{op.name} cannot be fused into {loop.name}, whose body is on vectors",
                op=op,
                required="a loop whose body is on tensors",
                found=str(inner.operands[0].type),
                fix=Direction(f"fuse({op.name}, into: ...) before `vectorize`"),
            )

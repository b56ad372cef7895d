"""fuse_elementwise: merge elementwise operations into one."""

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.interfaces import Structured
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform.convex import gathered, replace_outside, used_outside
from tcpx.transform.declaration import (
    OPS,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.editing import erase_dead, rename_inside, source_name
from tcpx.transform.elementwise import is_pointwise, merged
from tcpx.transform.position_values import Forms


@register
class FuseElementwise(Transform):
    """Merge elementwise operations of one shape, and all on the paths between them, into one operation.

    Its body computes them element by element, including the broadcasts, fills, numbers and positions that they read: an
    iota, also shifted or reshaped, is computed where it is read. It has one result for each value with other users. The
    handles of all denote it. Its loop reads each operand once and keeps intermediate values in registers. `clusters`
    finds the operations that can be merged.

    before:
        func @f(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
          %bb = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
          %s = tcp.add(%x, %bb) : tensor<[M]x[N]xf32>
          %r = tcp.exp(%s) : tensor<[M]x[N]xf32>
          tcp.return(%r)
        }
    statement:
        fuse_elementwise([s, r])
    after:
        func @f(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
          %r.2 = tcp.generic(%x, %b) {iterators = [["d0", "parallel"], ["d1", "parallel"]],
              maps = [[d0, d1], [d1], [d0, d1]]} ({ (%x.1: f32, %b.1: f32):
            %s.1 = tcp.add(%x.1, %b.1) : f32
            %r.1 = tcp.exp(%s.1) : f32
            tcp.yield(%r.1)
          }) : tensor<[M]x[N]xf32> name "r"
          tcp.return(%r.2)
        }
    """

    name = "fuse_elementwise"
    category = Category.FUSION
    parameters = (Parameter("ops", OPS, doc="the operations"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        ops = gathered(ctx, args.ops("ops"))
        members: list[Structured] = []
        for op in ops:
            if not is_pointwise(op) or not all(isinstance(r.type, TensorType) for r in op.results):
                raise ctx.fail(
                    f"{f'%{op.name}' if op.name else op.opcode} is not computed element by element",
                    op=op,
                    required="elementwise operations, and nothing else on the paths between them",
                    found=op.opcode,
                )
            members.append(op)
        last = members[-1]
        for op in members:
            if not have_equal_extents(shape_of(op.results[0].type), shape_of(last.results[0].type)):
                raise ctx.fail(
                    f"%{op.name} and %{last.name} have different shapes",
                    op=op,
                    required=f"operations of one shape: {last.results[0].type}",
                    found=str(op.results[0].type),
                )
        rewriter = ctx.rewriter
        used = used_outside(members)
        if not used:
            raise ctx.fail(
                f"nothing uses what %{last.name} computes",
                op=last,
                required="a result that something uses",
                found="none",
            )
        made = merged(members, used, Forms(rewriter.module.constants).position)
        rename_inside(rewriter, made, last)
        made.stand_for(last)
        rewriter.insert(made, InsertPoint.before(last), source_name(last))
        rewriter.rename(made, last.name)
        replace_outside(rewriter, [*members, made], used, made.results)
        moved = list(dict.fromkeys(v for op in members for v in op.operands))
        rewriter.set_origins(made, tuple(dict.fromkeys(o for op in members for o in op.origins)), last.copy_path)
        for op in reversed(members):
            rewriter.set_origins(op, ())
            rewriter.erase(op)
        erase_dead(rewriter, moved)
        return (made,)

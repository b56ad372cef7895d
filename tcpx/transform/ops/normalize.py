"""normalize: one form for operations that compute the same."""

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
from tcpx.transform.editing import replace_with, with_called
from tcpx.transform.normal_form import normal_form
from tcpx.transform.wide_accumulators import widen_accumulator


@register
class Normalize(Transform):
    """Give operations that compute the same one form, whatever their names, the order of their dims, and how they are
    written: each generic, and each operation of another package, becomes the most special class that computes it, as
    with `specialize`. One that no class computes has its dims in the order of the result, then those that it reduces in
    the order in which they are stored, as with `interchange`, and a `mul` and an `add` in place of a `multiply_add`
    where products may be rounded with sums; it is a generic if its class takes no `init`, which tiles of a reduction
    need.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.generic(%w, %x) {iterators = [["r", "reduction"], ["n", "parallel"], ["m", "parallel"]],
              maps = [[r, n], [m, r], [m, n]], combiner = "tcp.add"} ({ (%a: f32, %b: f32, %acc: f32):
            %p = tcp.mul(%a, %b) : f32
            %s = tcp.add(%acc, %p) : f32
            tcp.yield(%s)
          }) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        normalize(root)
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.1 = tcp.matmul(%x, %w) : tensor<[M]x32xf32> name "mm"
          tcp.return(%mm.1)
        }
    """

    name = "normalize"
    category = Category.OPERATION_TREE
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="a loop or operation, or a function and those that it calls"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        for op in [op for root in with_called(ctx.rewriter, args.op("target")) for op in root.walk()]:
            made = normal_form(op)
            if made is not None:
                widen_accumulator(ctx.rewriter, replace_with(ctx.rewriter, op, made))
        return ()

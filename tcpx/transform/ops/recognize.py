"""recognize: replace what is written by its parts with what it is."""

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
from tcpx.transform.editing import with_called
from tcpx.transform.recognition import recognize


@register
class Recognize(Transform):
    """Replace operations that are written by their parts, as by an exporter, with the operation that they are: softmax,
    log_softmax, layer_norm, rms_norm, sigmoid, silu, and gelu with erf or tanh.

    Sums and products may be associated in any way, with numbers anywhere in a product; a quotient may be a product with
    a reciprocal, a square a power, a mean a sum over the number of elements. Parts that others use are left.

    A norm takes in a scale, and layer_norm a bias, along its dims. A norm of a reshape whose result is reshaped back
    reads the tensor itself, with dims in `parts` where rows were parts of a dim, as in a norm of groups of channels.
    Only f32 and f64 are recognized: the parts of smaller floats are rounded one by one. Where a softmax or a norm reads
    small floats through a cast to f32, and its result is rounded to them, it takes in the casts, with constants that
    they represent exactly. What is rounded before it is scaled is scaled afterwards.

    Results agree where elements are NaN or infinite. A softmax that does not subtract its greatest element is none. A
    `gelu` or `silu` by its parts is NaN at -inf: a `select` keeps that. Where the parts overflow for finite elements,
    the operation does not.

    before:
        func @f(%x: tensor<[M]x10xf32>) -> tensor<[M]x10xf32> symbols [M] {
          %q = tcp.mul(%x, %x) : tensor<[M]x10xf32>
          %a = tcp.reduce_mean(%q) {dims = [1]} : tensor<[M]xf32>
          %v = tcp.add(%a, 0.001) : tensor<[M]xf32>
          %r = tcp.sqrt(%v) : tensor<[M]xf32>
          %y = tcp.div(%x, broadcast(%r, [0])) : tensor<[M]x10xf32>
          tcp.return(%y)
        }
    statement:
        recognize(root)
    after:
        func @f(%x: tensor<[M]x10xf32>) -> tensor<[M]x10xf32> symbols [M] {
          %y.1 = tcp.rms_norm(%x) {dims = [1], epsilon = 0.001} : tensor<[M]x10xf32> name "y"
          tcp.return(%y.1)
        }
    """

    name = "recognize"
    category = Category.OPERATION_TREE
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="where to look: a loop, or a function and those that it calls"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        for root in with_called(ctx.rewriter, args.op("target")):
            recognize(ctx.rewriter, root)
        return ()

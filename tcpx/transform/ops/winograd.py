"""winograd: compute sums over windows by fewer multiplications."""

from tcpx.transform.declaration import (
    INT,
    OP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.winograd import Winograd, filtered


@register
class WinogradFiltering(Transform):
    """Compute sums of products over windows by fewer multiplications: `m` neighbouring sums of r taps by m + r - 1
    along each dim, in place of m * r. Of 3x3 taps, m = 2 needs 2.25 times fewer, m = 4 4 times, m = 6 5.06 times.

    The elements of each tile of windows are transformed, as is the filter; their products are summed over the channels,
    one product of matrices for each combination of m + r - 1 taps; and these are transformed to sums. A transform is a
    small matrix of constants along one dim of windows. A coefficient of 0 adds nothing. Any order of dims, number of
    dims of windows and size will do: what a last tile reads beyond the elements is padding. A filter that is constant
    is transformed by the compiler where a schedule says `constant_fold(producer(mm.rhs))`; it is computed in f64.
    Returns the first and the last transform of the elements, the product, which continues the operation, and the first
    and the last transform to sums.

    Operands of f16 and bf16 are transformed in f32, and the sums rounded to the dtype of the result. The function that
    is compiled has a note of the step, `rounding`, which a saved kernel tells.

    Results are rounded otherwise. In units of 2^-24 (f64: 2^-53) times the largest sum of |x||w| of the layer, errors
    of 200 random layers of 3x3 taps were at most 2 for m = 2, 42 for m = 4 and 75 for m = 6, and 6 in the direct form
    (`python -m benchmarks.winograd_errors`). Bounds for finite elements: 8, 96 and 192. They are in proportion to the
    largest sum, also where a result is small beside its neighbours. Of small whole numbers, sums by m = 2 are exact.

    An element that is infinite or NaN makes each sum that reads it infinite or NaN, as it does in the direct form, but
    also others of the same tiles: `m` sums along each dim, beginning at multiples of m. Finite elements of a magnitude
    near the largest of the dtype may overflow in the transforms.

    The algorithm is that of A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016); the
    matrices come from the construction of Cook and Toom, at the points 0, 1, -1, 2, -2, 1/2, -1/2.

    before:
        func @f(%x: tensor<6x8xf32>, %w: tensor<3x8x16xf32>) -> tensor<4x16xf32> {
          %y = tcp.convolution(%x, %w) {input = ["h+p", "c"], filter = ["p", "c", "f"], out = ["h", "f"]}
              : tensor<4x16xf32>
          tcp.return(%y)
        }
    statement:
        winograd(y, m: 2)
    after:
        func @f(%x: tensor<6x8xf32>, %w: tensor<3x8x16xf32>) -> tensor<4x16xf32>
            {rounding = ["winograd(m: 2)"]} {
          %y/elements = tcp.const {constant = "winograd.elements"} : tensor<4x4xf32>
          %y/elements.1 = tcp.generic(%y/elements, %x)
              {iterators = [["p", "parallel"], ["h", "parallel"], ["c", "parallel"], ["p_0", "reduction"]],
              maps = [[p, p_0], [2*h + p_0, c], [p, h, c]], combiner = "tcp.add"} ({ (%c: f32, %e: f32, %acc: f32):
            %v0 = tcp.mul(%c, %e) : f32
            %v1 = tcp.const {value = 0.0} : f32
            %v2 = tcp.not_equal(%c, %v1) : i1
            %v3 = tcp.const {value = -0.0} : f32
            %v4 = tcp.select(%v2, %v0, %v3) : f32
            %v5 = tcp.add(%acc, %v4) : f32
            tcp.yield(%v5)
          }) : tensor<4x2x8xf32>
          %y/filter = tcp.cast(%w) : tensor<3x8x16xf64>
          %y/filter.1 = tcp.const {constant = "winograd.filter"} : tensor<4x3xf64>
          %y/filter.2 = tcp.generic(%y/filter.1, %y/filter)
              {iterators = [["p", "parallel"], ["c", "parallel"], ["f", "parallel"], ["p_0", "reduction"]],
              maps = [[p, p_0], [p_0, c, f], [p, c, f]], combiner = "tcp.add"} ({ (%c.1: f64, %e.1: f64, %acc.1: f64):
            %v0.1 = tcp.mul(%c.1, %e.1) : f64
            %v1.1 = tcp.const {value = 0.0} : f64
            %v2.1 = tcp.not_equal(%c.1, %v1.1) : i1
            %v3.1 = tcp.const {value = -0.0} : f64
            %v4.1 = tcp.select(%v2.1, %v0.1, %v3.1) : f64
            %v5.1 = tcp.add(%acc.1, %v4.1) : f64
            tcp.yield(%v5.1)
          }) : tensor<4x8x16xf64>
          %y/filter.3 = tcp.cast(%y/filter.2) : tensor<4x8x16xf32>
          %y/product = tcp.contract(%y/elements.1, %y/filter.3)
              {lhs = ["p", "h", "c"], rhs = ["p", "c", "f"], out = ["p", "h", "f"]}
              : tensor<4x2x16xf32> name "y"
          %y/sums = tcp.const {constant = "winograd.sums"} : tensor<2x4xf32>
          %y/sums.1 = tcp.generic(%y/sums, %y/product)
              {iterators = [["h", "parallel"], ["f", "parallel"], ["p", "reduction"]],
              maps = [[mod(h, 2), p], [p, floordiv(h, 2), f], [h, f]], combiner = "tcp.add"}
              ({ (%c.2: f32, %e.2: f32, %acc.2: f32):
            %v0.2 = tcp.mul(%c.2, %e.2) : f32
            %v1.2 = tcp.const {value = 0.0} : f32
            %v2.2 = tcp.not_equal(%c.2, %v1.2) : i1
            %v3.2 = tcp.const {value = -0.0} : f32
            %v4.2 = tcp.select(%v2.2, %v0.2, %v3.2) : f32
            %v5.2 = tcp.add(%acc.2, %v4.2) : f32
            tcp.yield(%v5.2)
          }) : tensor<4x16xf32>
          tcp.return(%y/sums.1)
        }
    """

    name = "winograd"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="a sum over windows of stride 1 and dilation 1, and over channels"),
        Parameter("m", INT, doc="sums along each dim of windows that are computed together: 2, 4 or 6 of 3 taps"),
    )
    results = (Result.OP, Result.OP, Result.OP, Result.OP, Result.OP)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, m = args.op("target"), args.int("m")
        return Winograd(ctx, *filtered(ctx, op, m)).apply()

"""merge: operations that compute alike become one, on operands that follow one another."""

from __future__ import annotations

from tcpx.transform.declaration import (
    BOOL,
    DIM,
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
from tcpx.transform.merging import merge


@register
class Merge(Transform):
    """Make one operation of several that compute alike: the products of one matrix with several others are one product
    with these side by side, such as the queries, keys and values of attention.

    Each operand is the same for all, and does not lie along the dim; or those of all follow one another along it, as a
    concat. That of broadcasts is a broadcast, that of the parts of one value this value: biases that are added to
    products are merged the same way, with `readers: true` at once. Results are slices of the one result. The handles of
    all denote it; what is returned is the last operation that was merged. `constant_fold` computes the concat of
    constants when the kernel is compiled.

    before:
        func @f(%x: tensor<[M]x64xf32>, %a: tensor<64x32xf32>, %b: tensor<64x[N]xf32>)
            -> (tensor<[M]x32xf32>, tensor<[M]x[N]xf32>) symbols [M, N] {
          %p = tcp.matmul(%x, %a) : tensor<[M]x32xf32>
          %q = tcp.matmul(%x, %b) : tensor<[M]x[N]xf32>
          tcp.return(%p, %q)
        }
    statement:
        merge([p, q], n)
    after:
        func @f(%x: tensor<[M]x64xf32>, %a: tensor<64x32xf32>, %b: tensor<64x[N]xf32>)
            -> (tensor<[M]x32xf32>, tensor<[M]x[N]xf32>) symbols [M, N] {
          %p.rhs = tcp.concat(%a, %b) {dim = 1} : tensor<64x[N + 32]xf32>
          %p.1 = tcp.matmul(%x, %p.rhs) : tensor<[M]x[N + 32]xf32> name "p"
          %p.part = tcp.slice(%p.1) {offsets = [0, 0]} : tensor<[M]x32xf32>
          %q.part = tcp.slice(%p.1) {offsets = [0, 32]} : tensor<[M]x[N]xf32>
          tcp.return(%p.part, %q.part)
        }
    """

    name = "merge"
    category = Category.FUSION
    parameters = (
        Parameter("ops", OPS, doc="operations that compute alike, none of which needs another"),
        Parameter("along", DIM, doc="the dim of the first along which their results follow one another"),
        Parameter("readers", BOOL, False, doc="merge the elementwise operations that alone read the results, too"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (merge(ctx, args.ops("ops"), args.dim("along"), args.bool("readers")),)

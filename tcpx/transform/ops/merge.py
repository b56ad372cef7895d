"""merge: several similar operations become one, on concatenated operands."""

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
    """Merge similar operations into one: products of one matrix with several others become one product with their
    concatenation, such as the queries, keys and values of attention.

    Each operand is either the same for all and does not have the dim, or differs and is concatenated along it. The
    concat of broadcasts is a broadcast, that of consecutive parts of one value is this value. Biases that are added to
    the products can be merged in the same way, or together with them by `readers: true`. The old results are slices of
    the new one. The handles of all denote it; the step returns the last merged operation. `constant_fold` computes the
    concat of constants at compile time.

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
        Parameter("ops", OPS, doc="similar operations, none of which depends on another"),
        Parameter("along", DIM, doc="the dim of the first operation along which results are concatenated"),
        Parameter("readers", BOOL, False, doc="also merge elementwise operations that are the only readers of results"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (merge(ctx, args.ops("ops"), args.dim("along"), args.bool("readers")),)

"""sink: move a product, quotient or choice after its reader."""

from __future__ import annotations

from tcpx.transform.declaration import (
    OP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.sinking import sink


@register
class Sink(Transform):
    """Move a multiplication or division by a number, or by a tensor along some dims, or a choice between numbers and 0
    by a condition along some dims, after an operation that is linear in it.

    A sum of x / l is the sum of x, divided by l, if l does not vary along the reduction dim. The division of a softmax
    thus moves after the product that reads it: fewer elements are divided, and the sums of the rows are needed later.
    Rounding, overflow and underflow change: inf, NaN and the sign of 0 may differ. A sum of no elements is 0, and 0 / l
    is NaN where l is 0. So each sum must have an element, as far as sizes are known there
    (`specialize o when size(o.k) >= 1`), or the scale must be a number that leaves 0 as it is. The same holds for
    padding, and for the result of a gather whose index is out of range. The operation must have no other reader, and
    the other operation must not narrow the dtype. The handle denotes the operation in its new place.

    before:
        func @f(%e: tensor<[M]x[N]xf32>, %l: tensor<[M]xf32>, %v: tensor<[N]x8xf32>) -> tensor<[M]x8xf32>
                symbols [M, N: 1..] {
          %b = tcp.broadcast(%l) {dims = [0]} : tensor<[M]x[N]xf32>
          %p = tcp.div(%e, %b) : tensor<[M]x[N]xf32>
          %o = tcp.matmul(%p, %v) : tensor<[M]x8xf32>
          tcp.return(%o)
        }
    statement:
        sink(p, behind: o)
    after:
        func @f(%e: tensor<[M]x[N]xf32>, %l: tensor<[M]xf32>, %v: tensor<[N]x8xf32>) -> tensor<[M]x8xf32>
                symbols [M, N: 1..] {
          %o = tcp.matmul(%e, %v) : tensor<[M]x8xf32>
          %p.by = tcp.broadcast(%l) {dims = [0]} : tensor<[M]x8xf32>
          %p.1 = tcp.div(%o, %p.by) : tensor<[M]x8xf32> name "p"
          tcp.return(%p.1)
        }
    """

    name = "sink"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="the product, quotient or choice"),
        Parameter("behind", OP, doc="its reader, which is linear in it"),
    )
    results = ()

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        sink(ctx, args.op("target"), args.op("behind"))
        return ()

"""share: turn operations of equal structure into calls of one function."""

from __future__ import annotations

from tcpx.transform.declaration import (
    BOOL,
    FLOAT,
    OPS,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.sharing import ALL, share


@register
class Share(Transform):
    """Move equal operations, such as the convolutions of one shape in a model, into one function, and call it for each.

    With an operation go the elementwise operations that lead to it alone, its epilogue, and a padding that nothing
    else reads. Where all of that has the same structure, types and constant operands as for another of `ops`, both
    become calls, wherever they stand; stored constants may differ. Steps on operations of the function, as `match`
    finds them, run once, for all calls. A handle of before denotes what its call computes: a step that is given it, or
    a loop `x.loop(m)`, first copies the function for that call. An operation whose name stands in the path of a param,
    as in `fc1/rows.count`, keeps knobs of its own: it is left, unless the function is named after it.

    They may stand in sequential loops and in branches, each in another one. The function knows of its sizes what holds
    at each of its calls: what a branch says of them its function declares or asserts, and operations of which something
    else is known become another function. Parts stay where they are if their calls would copy, as what they read or
    give does not lie in one run of memory: columns of a value or of the destination of a loop, pieces of a concat, rows
    that are `strided`; or as they change a destination in its place. So do those whose sizes depend on the iteration of
    a loop, and those in parallel loops and groups. The default schedule shares contractions and windows.

    With `family`, they may also differ in sizes of 16 and more that are multiples of the same power of two, up to 16.
    The function has symbols for these, which its arguments tell, with the range and the divisor that they have in all
    calls. Operations become one only if what the function computes keeps its rules for all such sizes. With `minor`,
    these are the operations that take less than this part of the time of the payload, by a model that counts the
    vectors of an operation and its bytes; none with sizes that are no numbers.

    before:
        func @f(%x: tensor<[M]x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
          %a = tcp.matmul(%x, %v) : tensor<[M]x8xf32>
          %b = tcp.exp(%a) : tensor<[M]x8xf32>
          %s = tcp.softmax(%b) {dim = 1} : tensor<[M]x8xf32>
          %c = tcp.matmul(%s, %w) : tensor<[M]x8xf32>
          %d = tcp.exp(%c) : tensor<[M]x8xf32>
          tcp.return(%d)
        }
    statement:
        share([a, c])
    after:
        func @f(%x: tensor<[M]x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
          %b.1 = tcp.call @f.b(%x, %v) : tensor<[M]x8xf32>
          %s = tcp.softmax(%b.1) {dim = 1} : tensor<[M]x8xf32>
          %d.1 = tcp.call @f.b(%s, %w) : tensor<[M]x8xf32>
          tcp.return(%d.1)
        }

        func @f.b(%x: tensor<[M]x8xf32>, %v: tensor<8x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
          %a = tcp.matmul(%x, %v) : tensor<[M]x8xf32>
          %b = tcp.exp(%a) : tensor<[M]x8xf32>
          tcp.return(%b)
        }
    """

    name = "share"
    category = Category.GROUPS_AND_CALLS
    parameters = (
        Parameter("ops", OPS, doc="the operations"),
        Parameter("family", BOOL, default=False, doc="whether they may differ in sizes"),
        Parameter("minor", FLOAT, default=0.0, doc="or those that take less than this part of the modelled time"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        share(ctx, args.ops("ops"), ALL if args.bool("family") else args.float("minor"))
        return ()

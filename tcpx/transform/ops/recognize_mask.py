"""recognize_mask: replace the mask of a softmax by conditions on positions and a broadcast."""

from __future__ import annotations

from tcpx.transform.declaration import (
    BOOL,
    Arguments,
    Category,
    Parameter,
    ParameterKind,
    ParameterType,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.masks import recognize_mask

SOFTMAX = ParameterType(ParameterKind.OP, "softmax")


@register
class RecognizeMask(Transform):
    """Replace the mask of the scores of a softmax: the part that follows from positions by a body with positions, the
    rest by a broadcast of the data it is computed from.

    A mask either adds 0 or a smaller number to the scores, or selects between the scores and such a number. The
    condition for keeping a score must follow from comparisons of sums of positions and sizes, from stored triangles and
    from booleans. This covers the chains that exporters write, of Trilu, Range, Where, Expand, Cast and numbers. No
    array over all queries and keys remains, and `trim` ends loops by the positions. A mask of data becomes a broadcast
    along the dims on which it does not depend.

    Masked scores become -inf, with a weight of 0. The result is the same if scores are neither NaN nor infinite, and
    mask values other than -inf are the lowest of the dtype (or at most half of it), in rows where the positions alone
    keep an element. `assume: true` drops these requirements on the number and the other masks: it assumes that no row
    is masked completely, and that scores of a row differ by less than that number. A select of 0 for NaN weights is
    removed if rows are known to keep an element.

    before:
        func @f(%s: tensor<[H]x[N]x[N]xf32>) -> tensor<[H]x[N]x[N]xf32> symbols [H, N: 1..] {
          %i = tcp.iota {dim = 0} : tensor<[N]xsi64>
          %c = tcp.greater_equal(broadcast(%i, [0]), broadcast(%i, [1])) : tensor<[N]x[N]xi1>
          %m = tcp.select(%c, 0.0, -inf) : tensor<[N]x[N]xf32>
          %a = tcp.add(%s, broadcast(%m, [1, 2])) : tensor<[H]x[N]x[N]xf32>
          %p = tcp.softmax(%a) {dim = 2} : tensor<[H]x[N]x[N]xf32>
          tcp.return(%p)
        }
    statement:
        recognize_mask(p)
    after:
        func @f(%s: tensor<[H]x[N]x[N]xf32>) -> tensor<[H]x[N]x[N]xf32> symbols [H, N: 1..] {
        ...
          %p = tcp.softmax(%a.1) {dim = 2} : tensor<[H]x[N]x[N]xf32>
          tcp.return(%p)
        }
    """

    name = "recognize_mask"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", SOFTMAX, doc="the softmax"),
        Parameter("assume", BOOL, False, doc="no row is masked completely; finite masks are below all scores"),
    )
    results = ()
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        recognize_mask(ctx, args.op("target"), args.bool("assume"))
        return ()

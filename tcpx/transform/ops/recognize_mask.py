"""recognize_mask: the mask of a softmax, by positions and by what it reads."""

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
    """Let the scores that a softmax reads be masked by a body that asks for positions, where the mask follows from
    positions, and by a broadcast of what else it is computed from.

    A mask is what is added to scores, 0 or a number below, or a choice between scores and such a number. Whether it
    keeps a score has to follow from comparisons of sums of positions and sizes, from stored triangles and from truth
    values: so do the chains that exporters write, of Trilu, Range, Where, Expand, Cast and numbers. No array of all
    queries and keys is left, and `trim` ends loops by the positions. A mask of data becomes a broadcast along the dims
    that it does not vary along.

    Masked scores are -inf then, and have a weight of 0. That is so before, if scores are neither NaN nor infinite, and
    numbers other than -inf are the least of the dtype (half of it, or less), in rows that keep an element by positions
    alone; with `assume: true`, whatever the number and the other masks: no row is masked whole, and scores of a row
    differ by less than that number. A choice of 0 where weights are NaN goes, where rows are known to keep an element.

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
        Parameter("target", SOFTMAX, doc="what turns scores into weights"),
        Parameter("assume", BOOL, False, doc="no row is masked whole, and finite masks are below all scores"),
    )
    results = ()
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        recognize_mask(ctx, args.op("target"), args.bool("assume"))
        return ()

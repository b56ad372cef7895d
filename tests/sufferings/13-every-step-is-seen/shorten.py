"""The command `tcpx` with a transform that is wrong on purpose: it loses the last element where their number is odd."""

from __future__ import annotations

import sys

from tcpx.cli import main
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.ops.views import Pad
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import floordiv
from tcpx.payload.subsets import Tile
from tcpx.payload.types import shape_of
from tcpx.transform.declaration import (
    FUNC,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class Shorten(Transform):
    """Make the last element of the result zero where their number is odd."""

    name = "shorten"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        end = args.func("func").body.ops[-1]
        value, rewriter = end.operands[0], ctx.rewriter
        even = floordiv(shape_of(value.type)[0], 2) * 2
        part = rewriter.insert(Materialize.of(value, Tile((0,), (even,), (1,))), InsertPoint.before(end), "even")
        whole = rewriter.insert(Pad.of(part.result, shape_of(value.type), 0.0), InsertPoint.before(end), "whole")
        rewriter.set_operand(end, 0, whole.result)
        return ()


sys.exit(main())

"""peel: a main loop of whole steps and a tail."""

from __future__ import annotations

from tcpx.payload.bounds import is_equal
from tcpx.payload.sizes import mod, to_text
from tcpx.transform.declaration import (
    BOOL,
    LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.peeling import peel


@register
class Peel(Transform):
    """Split a loop into a main loop, whose every step is whole, and a tail that runs the rest, if there is one.

    Handles to what the loop holds then denote both copies; `x.copy("main")` and `x.copy("tail")` select one.

    before:
        gml_st.for %mm/m1 in 0 to M step 6 (...) { ... [min(6, M - %mm/m1)] ... }
    statement:
        peel(i)
    after:
        gml_st.for %mm/m1 in 0 to M - mod(M, 6) step 6 (...) { ... 6 ... }
        gml_st.for %mm/m1~tail in M - mod(M, 6) to M step 6 (...) { ... }
    """

    name = "peel"
    category = Category.TILING
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("scalar", BOOL, False, doc="let the tail step by 1"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        var = loop.var
        if is_equal(mod(var.upper - var.lower, var.step), 0) is True:
            raise ctx.fail(
                f"the loop {loop.name} has no tail",
                op=loop,
                required="a range that is not a whole number of steps",
                found=f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}",
            )
        peel(ctx.rewriter, loop, args.bool("scalar"))
        return ()

"""split: two loops, before and after a point."""

from __future__ import annotations

from tcpx.payload.bounds import is_equal, is_less_equal
from tcpx.payload.sizes import mod, to_text
from tcpx.transform.declaration import (
    LOOP,
    SIZE,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.peeling import split_at


@register
class Split(Transform):
    """Split the range of a loop at a point that whole steps reach: `x.copy("low")` runs before it, "high" after.

    before:
        gml_st.for %mm/m1 in 0 to M step 6 (...) { ... }
    statement:
        split(i, at: 12)
    after:
        gml_st.for %mm/m1 in 0 to min(12, M) step 6 (...) { ... }
        gml_st.for %mm/m1~high in min(12, M) to M step 6 (...) { ... }
    """

    name = "split"
    category = Category.TILING
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("at", SIZE, doc="the first value of the loop variable of the second loop"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, point = args.loop("loop"), args.size("at")
        var = loop.var
        if is_equal(mod(point - var.lower, var.step), 0) is not True:
            raise ctx.fail(
                f"whole steps of {loop.name} do not reach {to_text(point)}",
                op=loop,
                required=f"{to_text(var.lower)} plus a multiple of {to_text(var.step)}",
                found=to_text(point),
            )
        if is_less_equal(point, var.lower) is True or is_less_equal(var.upper, point) is True:
            raise ctx.fail(
                f"{to_text(point)} leaves one side of {loop.name} empty",
                op=loop,
                required=f"a point inside {to_text(var.lower)} to {to_text(var.upper)}",
                found=to_text(point),
            )
        split_at(ctx.rewriter, loop, point, ("low", "high"))
        return ()

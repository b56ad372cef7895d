"""unroll: several copies of a loop's body per iteration."""

from __future__ import annotations

from tcpx.payload.bounds import is_equal, is_less_equal
from tcpx.payload.sizes import ceildiv, mod, to_text
from tcpx.transform.declaration import (
    INT,
    LOOP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.unrolling import unroll

LIMIT = 1024
"""Copies of a body a schedule may ask for."""


@register
class Unroll(Transform):
    """Run `factor` iterations per step of the loop, as copies of the body; without a factor, all of them.

    The number of iterations must be a multiple of the factor: peel first where it is not. Handles to what the body
    holds denote every copy; `x.copy("0")` is the first.

    before:
        gml_st.for %mm/k1 in 0 to 64 step 1 (...) { A }
    statement:
        unroll(k, factor: 2)
    after:
        gml_st.for %mm/k1 in 0 to 64 step 2 (...) { A; A~1 }
    """

    name = "unroll"
    category = Category.LOOPS
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("factor", INT, None, doc="copies of the body; all iterations if not given"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        var = loop.var
        trips = ceildiv(var.upper - var.lower, var.step)
        given = args.optional_int("factor")
        factor = given if given is not None else trips
        if not isinstance(factor, int):
            raise ctx.fail(
                f"the number of iterations of {loop.name} is known only when the kernel runs",
                op=loop,
                required="a static range, or a factor",
                found=f"{to_text(trips)} iterations",
                fix="factor: 4, after peel with a tile size it divides",
            )
        if not 1 <= factor <= LIMIT:
            raise ctx.fail(
                f"{loop.name} cannot be unrolled {factor} times",
                op=loop,
                required=f"a factor in 1..{LIMIT}",
                found=str(factor),
            )
        if factor == 1:
            raise ctx.fail(
                f"unrolling {loop.name} by 1 changes nothing", op=loop, required="a factor of at least 2", found="1"
            )
        whole = is_equal(mod(trips, factor), 0) is True and is_equal(mod(var.upper - var.lower, var.step), 0) is True
        if not whole and not (isinstance(trips, int) and is_less_equal(trips, factor) is True):
            raise ctx.fail(
                f"{factor} does not divide the iterations of {loop.name}",
                op=loop,
                required=f"a multiple of {factor} whole steps",
                found=f"{to_text(trips)} steps of {to_text(var.step)} over {to_text(var.lower)}..{to_text(var.upper)}",
                fix=f"tile by a multiple of {factor} steps and peel first",
            )
        unroll(ctx, loop, factor)
        return (loop,)

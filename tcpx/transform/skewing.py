"""A loop whose iterations begin later in each iteration of the loop around it, so that both may change places."""

from itertools import product

from tcpx.payload.distances import distance
from tcpx.payload.ir import parent_op
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.sizes import Dim, Size, Var, to_text
from tcpx.payload.subsets import compose
from tcpx.transform.arguments import TransformContext
from tcpx.transform.loop_order import check_counted, handed_through, only_loop_in

MOST = 64
"""The most iterations that one begins later than the one before it."""


def skew(ctx: TransformContext, inner: Loop, factor: int | None) -> None:
    """Let `inner` begin `factor` of its iterations later in each iteration of the loop around it. Every iteration stays
    where it is. Raises ScheduleError where the loops are not perfectly nested, or no factor is found."""
    outer = parent_op(inner)
    if not isinstance(outer, Loop):
        raise ctx.fail(
            f"no loop is around {inner.name}",
            op=inner,
            required="a loop directly in another one",
            found=outer.opcode if outer is not None else "no operation",
        )
    only_loop_in(ctx, outer)
    check_counted(ctx, outer)
    i, j = outer.var, inner.var
    if not isinstance(i.step, int) or not isinstance(j.step, int):
        raise ctx.fail(
            f"the steps of {outer.name} and {inner.name} are known only when the kernel runs",
            op=inner,
            required="steps that are numbers",
            found=f"{to_text(i.step)} and {to_text(j.step)}",
        )
    later = factor if factor is not None else _least_factor(ctx, outer, inner)
    slope, rest = divmod(later * j.step, i.step)
    if rest or not 1 <= later <= MOST:
        raise ctx.fail(
            f"{inner.name} cannot begin {later} iterations later in each of {outer.name}",
            op=inner,
            required=f"a factor in 1..{MOST}" + f", which makes {j.step} a multiple of {i.step}" * (i.step > 1),
            found=str(later),
        )
    begin: Dim = slope * (Size.of(i) - i.lower)
    var = Var(j.name, j.lower + begin, j.upper + begin, j.step)
    ctx.rewriter.set_attribute(inner, "var", var)
    ctx.rewriter.substitute(list(inner.body.ops), {j: Size.of(var) - begin})


def _least_factor(ctx: TransformContext, outer: Loop, inner: Loop) -> int:
    """The least factor with which iterations that depend on each other are different ones of the skewed loop, so that
    those of `outer` are independent within one of these."""
    found = 0
    for number in range(len(outer.destinations)):
        given = handed_through(ctx, outer, inner, number)
        for first, second in product(given.uses, repeat=2):
            tiles = [compose(given.store.subset, use.subset) for use in (first, second)]
            if not any(isinstance(use, StYield) for use in (first, second)):
                continue
            behind = distance(inner, tiles[0], tiles[1], later_in=outer)
            if behind.is_never:
                continue
            if behind.least is None:
                raise ctx.fail(
                    f"nothing limits how far {inner.name} of one iteration of {outer.name} is from what it reads of"
                    " another",
                    op=inner,
                    required="accesses at distances with a bound",
                    found=f"{tiles[0].text()} and {tiles[1].text()}",
                )
            outside = distance(outer, tiles[0], tiles[1]).within(1, None)
            found = max(found, -((behind.least - 1) // (outside.least or 1)))
    if found < 1:
        raise ctx.fail(
            f"iterations of {outer.name} within one of {inner.name} are independent",
            op=inner,
            required="iterations that depend on each other",
            found=f"{inner.name}, which may stand around {outer.name}",
            fix=f"`reorder([{ctx.handle_name(inner) or inner.name}, {ctx.handle_name(outer) or outer.name}])`",
        )
    return found

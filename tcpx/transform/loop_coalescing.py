"""Two loops, one directly in the other, as one over the product of their iterations."""

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import Block
from tcpx.payload.ops.gml_st import For, Loop, trip_count
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Symbol, Var
from tcpx.payload.subsets import compose
from tcpx.transform.arguments import TransformContext
from tcpx.transform.loop_order import check_same_range, handed_through, only_loop_in, views_round
from tcpx.transform.simplification import simplify_in


def coalesce_loops(ctx: TransformContext, outer: Loop) -> Loop:
    """Let one loop stand for `outer` and the loop that is all there is in it: iteration c is c div T of the outer one
    and c mod T of the inner one, which has T. The order of iterations is the same; it is parallel if both are. Returns
    it. Raises ScheduleError where the loops are not perfectly nested."""
    inner, rewriter = only_loop_in(ctx, outer), ctx.rewriter
    check_same_range(ctx, outer, inner)
    found = [handed_through(ctx, outer, inner, number) for number in range(len(outer.destinations))]
    name, here = f"{outer.var.name}.{inner.var.name.rpartition('/')[2]}", context_at(outer)
    times, count = (here.not_negative(trip_count(loop)) for loop in (outer, inner))
    var = Var(rewriter.fresh_name(outer, name), 0, times * count, 1)
    divisor: Dim = count if count != 0 else 1
    kind = type(outer) if outer.is_parallel and inner.is_parallel else For
    body = Block([("", dest.type) for dest in outer.destinations])
    made = kind.over(var, list(outer.operands), body)
    base = outer.results[0].name.split(".")[0] if outer.results else outer.name
    rewriter.insert(made, InsertPoint.before(outer), base)
    made.schedule_location = outer.schedule_location
    moved = [*views_round(outer), *inner.body.ops]
    for op in moved:
        rewriter.move(op, InsertPoint(body, len(body.ops)))
    for each, dest in zip(found, made.destinations, strict=True):
        for use in each.uses:
            rewriter.set_attribute(use, "subset", compose(each.store.subset, use.subset))
            rewriter.set_operand(use, len(use.operands) - 1, dest)
    quotient, rest = here.floordiv(var.size(), divisor), here.mod(var.size(), divisor)
    at: dict[Symbol | Var, Dim] = {
        outer.var: outer.var.lower + quotient * outer.var.step,
        inner.var: inner.var.lower + rest * inner.var.step,
    }
    rewriter.substitute(moved, at)
    rewriter.end(inner, f"it became one loop with {outer.name}")
    rewriter.continue_as(outer, made)
    rewriter.replace_op(outer, made.results)
    simplify_in(rewriter, [made])
    return made

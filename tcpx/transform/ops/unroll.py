"""unroll: several copies of a loop's body per iteration."""

import re

from tcpx.limits import MOST_COPIES, MOST_UNROLLED, shortened
from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Structured
from tcpx.payload.ops.gml_st import UNROLLED, Loop, trip_count
from tcpx.payload.sizes import to_text
from tcpx.plurals import counted
from tcpx.transform.declaration import (
    BOOL,
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
from tcpx.transform.editing import loops_stepping
from tcpx.transform.static_tiles import left_out_if_idle, with_argument
from tcpx.transform.unrolling import divides_iterations, unroll


@register
class Unroll(Transform):
    """Run `factor` iterations per step of the loop, as copies of the body; without a factor, all of them.

    With `explicit: false`, the C compiler makes the copies: the payload stays as it is, and the C has the pragma
    `#pragma GCC unroll`, which GCC and Clang support. Any number of iterations is allowed. This removes loop overhead
    without longer C.

    Otherwise the number of iterations must be a multiple of the factor; `peel` ensures it. Handles to operations in the
    body denote every copy; `x.copy("0")` is the first. A loop whose iterations are all copied remains in the payload
    around the copies, and its handle remains a position. It runs once, and the C has no loop for it.

    before:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 16 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [16]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    statement:
        unroll(r.loop(d0), factor: 2)
    after:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 32 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [16]
            %x.t~1 = gml_st.materialize(%x) tile [%r/d01 + 16] [16] : tensor<16xf32>
            %y.t~1 = gml_st.materialize(%y) tile [%r/d01 + 16] [16] : tensor<16xf32>
            %r.3~1 = tcp.mul(%x.t~1, %y.t~1) : tensor<16xf32> name "r~1"
            gml_st.yield(%r.3~1, %r.2) tile [%r/d01 + 16] [16]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    """

    name = "unroll"
    category = Category.LOOPS
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("factor", INT, None, doc="copies of the body; all iterations if not given"),
        Parameter("explicit", BOOL, True, doc="make the copies in the payload, not in the C compiler"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        var = loop.var
        trips = context_at(loop).value(trip_count(loop))
        given = args.optional_int("factor")
        if not args.bool("explicit"):
            _leave_to_the_compiler(ctx, loop, given)
            return (loop,)
        factor = given if given is not None else trips
        if not isinstance(factor, int):
            raise ctx.fail(
                f"the number of iterations of {loop.name} is known only when the kernel runs",
                op=loop,
                required="a number of iterations that is known now",
                found=f"{counted(to_text(trips), 'iteration')}",
                fix=_by_the_compiler(ctx, loop, 4),
                notes=_ways(ctx, loop, 4),
            )
        if not 1 <= factor <= MOST_COPIES:
            raise ctx.fail(
                f"{loop.name} cannot be unrolled {shortened(factor)} times",
                op=loop,
                required=f"a factor in 1..{MOST_COPIES}",
                found=shortened(factor),
                fix=None if given is not None else Direction("give a factor"),
            )
        if factor == 1:
            raise ctx.fail(
                f"unrolling {loop.name} by 1 changes nothing",
                op=loop,
                required="a loop of at least 2 iterations" if given is None else "a factor of at least 2",
                found="1 iteration" if given is None else "factor: 1",
                fix=left_out_if_idle(ctx.location, self.name) if given is None else None,
            )
        if trips == 0:
            raise ctx.fail(
                f"unrolling {loop.name} changes nothing",
                op=loop,
                required="a loop of at least 2 iterations",
                found="no iteration",
                fix=left_out_if_idle(ctx.location, self.name),
            )
        if not divides_iterations(loop, factor) and trips != factor:
            raise ctx.fail(
                f"{factor} does not divide the iterations of {loop.name}",
                op=loop,
                required=f"a multiple of {factor} whole steps",
                found=counted(to_text(trips), "step")
                + f" of {to_text(var.step)} over {to_text(var.lower)}..{to_text(var.upper)}",
                fix=_by_the_compiler(ctx, loop, factor),
                notes=_ways(ctx, loop, factor),
            )
        made = ctx.rewriter.operations + (factor - 1) * sum(1 for op in loop.body.ops for _ in op.walk())
        most = ctx.rewriter.most_operations
        if made > most:
            raise ctx.fail(
                f"unrolling {loop.name} {factor} times makes too many operations",
                op=loop,
                required=f"a payload of at most {most}",
                found=str(made),
                fix=Direction("a smaller factor"),
            )
        unroll(ctx, loop, factor)
        return (loop,)


def _by_the_compiler(ctx: TransformContext, loop: Loop, factor: int) -> str | None:
    """The statement for any number of iterations, if the compiler may be asked for so many copies."""
    if loop.is_parallel or not 2 <= factor <= MOST_UNROLLED:
        return None
    text = with_argument(ctx.location, "unroll", "explicit", "false") if ctx.location is not None else None
    if text is not None and re.search(r"factor:|,\s*[0-9]", text) is None:
        text = text.replace(", explicit:", f", factor: {factor}, explicit:")
    return f"`{text or f'factor: {factor}, explicit: false'}` for any number: the C compiler makes the copies"


def _ways(ctx: TransformContext, loop: Loop, factor: int) -> tuple[str, ...]:
    """How to get a number of iterations that is a multiple of the factor."""
    step = loop.var.step
    tiled = next((op for op in loop.walk() if isinstance(op, Structured) and _stepped_dim(op, loop)), None)
    if tiled is None or not isinstance(step, int):
        return ()
    stem, dim = ctx.name_of(tiled), _stepped_dim(tiled, loop)
    extent = factor * step
    whole = f"tile({stem}, [{dim}: {extent}], tail: peel)"
    peeled = f'after `{whole}`, a tile of `{dim}` by {step} in `{stem}.copy("main")` has {factor} iterations'
    if loop.var.lower != 0 or not to_text(loop.var.upper).isidentifier():
        return (peeled,)
    version = f"specialize {stem} when size({stem}.{dim}) == {extent} {{ .. }} else {{ .. }}"
    return (peeled, f"`{version}` has a version with {factor} iterations")


def _stepped_dim(op: Structured, loop: Loop) -> str:
    """The dim of an operation that a loop steps; empty if it steps none."""
    return next((it.name for it in op.iterators() if loop in loops_stepping(op, it.name)), "")


def _leave_to_the_compiler(ctx: TransformContext, loop: Loop, factor: int | None) -> None:
    """Ask the C compiler for the copies."""
    if loop.is_parallel:
        raise ctx.fail(
            f"the iterations of {loop.name} are in no order that copies could have",
            op=loop,
            required="a sequential loop",
            found=loop.opcode,
        )
    if factor is None or not 2 <= factor <= MOST_UNROLLED:
        raise ctx.fail(
            f"the compiler is not told how often to unroll {loop.name}"
            if factor is None
            else f"the compiler cannot be asked to unroll {loop.name} {shortened(factor)} times",
            op=loop,
            required=f"a factor in 2..{MOST_UNROLLED}",
            found="no factor" if factor is None else shortened(factor),
            fix="factor: 4",
        )
    if loop.unrolled == factor:
        raise ctx.fail(
            f"the compiler is asked to unroll {loop.name} {factor} times already",
            op=loop,
            required="another factor",
            found=f"factor: {factor}",
        )
    ctx.rewriter.set_attribute(loop, UNROLLED, factor)

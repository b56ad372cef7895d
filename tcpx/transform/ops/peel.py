"""peel: split a loop into a main loop of full steps, and what is before and after it."""

from tcpx.payload.sizes import to_text
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
from tcpx.transform.peeling import peel, peel_borders, rest_of


@register
class Peel(Transform):
    """Split a loop into a main loop with only full steps, and a tail for the rest, if there is one.

    With `borders`, the main loop has only steps whose tiles read no padding. `x.copy("head")` denotes the steps before
    it; those after it and the rest are the tail. The main loop then reads elements without asking whether they exist.

    Handles to operations in the loop then denote both copies; `x.copy("main")` and `x.copy("tail")` select one. Fuse
    consumers before: after `peel` they need the results of both loops.

    before:
        func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %r.out = tcp.empty : tensor<[N]xf32>
          %r.1 = gml_st.for %r/d01 in 0 to N step 8 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [min(8, N - %r/d01)] : tensor<[min(8, N - %r/d01)]xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [min(8, N - %r/d01)] : tensor<[min(8, N - %r/d01)]xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<[min(8, N - %r/d01)]xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [min(8, N - %r/d01)]
          } : tensor<[N]xf32>
          tcp.return(%r.1)
        }
    statement:
        peel(r.loop(d0))
    after:
        func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %r.out = tcp.empty : tensor<[N]xf32>
          %r.1 = gml_st.for %r/d01 in 0 to N - mod(N, 8) step 8 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [8] : tensor<8xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [8] : tensor<8xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<8xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [8]
          } : tensor<[N]xf32>
          %r.1~tail = gml_st.for %r/d01~tail in N - mod(N, 8) to N step 8 (%r.2~tail = %r.1) {
            %x.t~tail = gml_st.materialize(%x) tile [%r/d01~tail] [N - %r/d01~tail] : tensor<[N - %r/d01~tail]xf32>
            %y.t~tail = gml_st.materialize(%y) tile [%r/d01~tail] [N - %r/d01~tail] : tensor<[N - %r/d01~tail]xf32>
            %r.3~tail = tcp.mul(%x.t~tail, %y.t~tail) : tensor<[N - %r/d01~tail]xf32> name "r~tail"
            gml_st.yield(%r.3~tail, %r.2~tail) tile [%r/d01~tail] [N - %r/d01~tail]
          } : tensor<[N]xf32>
          tcp.return(%r.1~tail)
        }
    """

    name = "peel"
    category = Category.TILING
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("scalar", BOOL, False, doc="let the tail step by 1"),
        Parameter("borders", BOOL, False, doc="peel steps that read padding, too"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        var = loop.var
        if args.bool("borders"):
            if len(peel_borders(ctx.rewriter, loop, args.bool("scalar"))) == 1:
                raise ctx.fail(
                    f"the loop {loop.name} has no tail, and its tiles have no padding in some steps alone",
                    op=loop,
                    required="a range that is not a whole number of steps, or padding that some steps do not read",
                    found=f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}",
                )
            return ()
        if rest_of(loop) == 0:
            raise ctx.fail(
                f"the loop {loop.name} has no tail",
                op=loop,
                required="a range that is not a whole number of steps",
                found=f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}",
            )
        peel(ctx.rewriter, loop, args.bool("scalar"))
        return ()

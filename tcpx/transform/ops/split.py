"""split: split the range of a loop at a point."""

from tcpx.payload.contexts import are_equal_at, is_less_equal_at
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
    """Split the range of a loop at the start of a step: `x.copy("low")` runs before the point, "high" after.

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
        split(r.loop(d0), at: 48)
    after:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 48 step 16 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [16]
          } : tensor<64xf32>
          %r.1~high = gml_st.for %r/d01~high in 48 to 64 step 16 (%r.2~high = %r.1) {
            %x.t~high = gml_st.materialize(%x) tile [%r/d01~high] [16] : tensor<16xf32>
            %y.t~high = gml_st.materialize(%y) tile [%r/d01~high] [16] : tensor<16xf32>
            %r.3~high = tcp.mul(%x.t~high, %y.t~high) : tensor<16xf32> name "r~high"
            gml_st.yield(%r.3~high, %r.2~high) tile [%r/d01~high] [16]
          } : tensor<64xf32>
          tcp.return(%r.1~high)
        }
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
        if not are_equal_at(loop, mod(point - var.lower, var.step), 0):
            raise ctx.fail(
                f"whole steps of {loop.name} do not reach {to_text(point)}",
                op=loop,
                required=f"{to_text(var.lower)} plus a multiple of {to_text(var.step)}",
                found=to_text(point),
            )
        if is_less_equal_at(loop, point, var.lower) or is_less_equal_at(loop, var.upper, point):
            raise ctx.fail(
                f"{to_text(point)} leaves one side of {loop.name} empty",
                op=loop,
                required=f"a point inside {to_text(var.lower)} to {to_text(var.upper)}",
                found=to_text(point),
            )
        split_at(ctx.rewriter, loop, point, ("low", "high"))
        return ()

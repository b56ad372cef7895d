# ruff: noqa: N999 - a file has the name of its transform
"""assert: a condition that the author of a schedule relies on."""

from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError
from tcpx.transform.declaration import (
    BOOL,
    STRING,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class AssertThat(Transform):
    """End the run with a definite error if a condition does not hold: the schedule is wrong, whatever it is tried on.

    `require` is for properties that a payload may lack; `try` and `optional` recover from it, but not from `assert`. A
    condition on sizes that is decided only at run time is refused; `specialize` makes versions for it.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        tile(mm, [m: 6])
        assert(len(mm.loops(m)) == 1, "one loop steps the rows")
        print(mm.loop(m))
    output:
        for mm/m1 in 0 to M step 6
          mm = tcp.matmul
    """

    name = "assert"
    category = Category.INSPECTION
    parameters = (
        Parameter("condition", BOOL, doc="what must hold; decided while the schedule runs"),
        Parameter("message", STRING, "an assertion of the schedule does not hold", doc="the error if it does not"),
    )
    mutates = False
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        if args.bool("condition"):
            return ()
        raise ScheduleError(
            Diagnostic(
                args.string("message"),
                Kind.DEFINITE,
                schedule=ctx.location,
                required=ctx.location.span if ctx.location is not None else "a condition that holds",
                found="it does not hold",
            )
        )

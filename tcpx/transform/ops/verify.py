"""verify: check all rules of the payload."""

from dataclasses import replace

from tcpx.payload.diagnostics import Kind, ScheduleError, VerifyError
from tcpx.payload.verifier import verify_module
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
class Verify(Transform):
    """Check the whole payload: types, attributes, dominance, races, use lists. Changes nothing.

    After each step only the changed operations are checked, which is enough for changes through the rewriter. This
    statement finds what a transform of another package changed otherwise, at this place instead of at the end. A
    violation is an internal error.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        verify(root)
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    """

    name = "verify"
    category = Category.INSPECTION
    parameters = (Parameter("func", FUNC, doc="the function the schedule is given"),)
    mutates = False
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        try:
            verify_module(ctx.rewriter.module)
        except VerifyError as error:
            raise ScheduleError(replace(error.diagnostic, kind=Kind.INTERNAL, schedule=ctx.location)) from error
        return ()

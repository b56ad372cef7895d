"""select_instructions: a row of the target for every operation that is printed as C."""

from __future__ import annotations

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
from tcpx.transform.vectors.selection import select_instructions


@register
class SelectInstructions(Transform):
    """Name an instruction row of the target on every operation on scalars, 1-D vectors and buffers.

    An operation without a row is expanded (exp into a polynomial), done in f32 (f16, bf16), cast in two steps, or
    done lane by lane; what remains without one is an error. Reads and writes are plain where the subset provably
    covers all lanes, else masked; cheaper rows are taken where an operand provably is not NaN. Literals and their
    splats are made once, outside of the loops.

    Comes after `bufferize` and `lower_vectors`. Compilation applies it where the schedule does not.

    before:
        %r = tcp.max(%x, %zero.s) : vector<16xf32>
        vector.write(%r, %y) tile [i] [min(16, M - i)]
    statement:
        select_instructions(root)
    after, on x86_avx512:
        %r = tcp.max(%x, %zero.s) {row = "max_b_number_f32x16"} : vector<16xf32>
        vector.write(%r, %y) tile [i] [min(16, M - i)] {row = "masked_store_f32x16"}
    """

    name = "select_instructions"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC, doc="the function to select for"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        select_instructions(ctx.rewriter, args.func("func"), ctx.target)
        return ()

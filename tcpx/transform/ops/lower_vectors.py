"""lower_vectors: register tiles to 1-D vectors of the target."""

from __future__ import annotations

from tcpx.payload.ir import FuncOp
from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.vectors.lowering import lower_vectors


@register
class LowerVectors(Transform):
    """Unroll every n-D vector in a function or loop to 1-D vectors of the target's lanes, and scalars.

    The last dim of a result runs along the lanes; of a reduction whose operands have no other common last dim, the
    reduced dim does, and lanes are combined at the end (after the loop, where a loop carries the accumulator). An
    operand that does not depend on the lane dim is read as scalars and splat. Masked rows become accesses of at most
    one row, masked lanes masked accesses. A loop carries one value per piece. A product that feeds only a sum becomes
    an fma if the target has one. A handle to an operation then denotes all pieces of its arithmetic.

    Applied to what is lowered already, it changes nothing. Compilation applies it where the schedule does not.

    before:
        %x.v = vector.read(%x) tile [i, 0] [min(2, M - i), 32] : vector<2x32xf32>
        %r = tcp.max(%x.v, %zero) : vector<2x32xf32>
        vector.write(%r, %y) tile [i, 0] [min(2, M - i), 32]
    statement:
        lower_vectors(i)
    after, with 16 lanes:
        %x.v.0.0 = vector.read(%x) tile [i, 0] [1, 16] drop [0] : vector<16xf32>
        %r.0.0 = tcp.max(%x.v.0.0, %c.s) : vector<16xf32>
        ...
        vector.write(%r.1.1, %y) tile [i + 1, 16] [min(1, max(0, M - i - 1)), 16] drop [0]
    """

    name = "lower_vectors"
    category = Category.VECTOR
    parameters = (Parameter("target", OP_OR_LOOP, doc="the function or loop whose body is lowered"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        root = args.op("target")
        if not isinstance(root, FuncOp | Loop):
            raise ctx.fail(
                f"%{root.name} is neither a function nor a loop",
                op=root,
                required="a function or a loop, all of whose body is lowered",
                found=root.opcode,
                fix="name the loop round it",
            )
        lower_vectors(ctx.rewriter, root, ctx.target)
        return ()

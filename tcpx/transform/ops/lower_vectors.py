"""lower_vectors: split register tiles into 1-D vectors of the target."""

from tcpx.payload.diagnostics import Direction
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
    """Split every n-D vector in a function or loop into 1-D vectors of the target's lanes, and scalars.

    Lanes run along the last dim of a result. If the operands of a reduction have no other common last dim, lanes run
    along the reduction dim and are combined at the end (after the loop, if a loop carries the accumulator). An operand
    that does not depend on the lane dim is read as scalars and splat. Operands with lanes along another dim are
    transposed by shuffles. Rows shorter than a vector that are contiguous in memory are read and written several to a
    vector. Masked rows become accesses of at most one row, masked lanes masked accesses. A loop carries one value per
    1-D vector. A product whose only user is a sum becomes an fma if the target has one, unless the
    function that is compiled says `contraction = false`. An operation on dtypes without
    vectors of the same number of lanes on the target is computed lane by lane, with a remark. A handle to an operation
    then denotes all pieces of its arithmetic.

    Lowered code is not changed. Compilation applies this step if the schedule does not.

    before:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 32 (%r.2 = %r.out) {
            %x.v = vector.read(%x) tile [%r/d01] [32] {value = 0.0} : vector<32xf32>
            %y.v = vector.read(%y) tile [%r/d01] [32] {value = 0.0} : vector<32xf32>
            %r.v = tcp.mul(%x.v, %y.v) : vector<32xf32> name "r"
            gml_st.yield(%r.v, %r.2) tile [%r/d01] [32]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    statement:
        lower_vectors(root)
    after:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 32 (%r.2 = %r.out) {
            %x.v.0 = vector.read(%x) tile [%r/d01] [16] {value = 0.0} : vector<16xf32>
            %y.v.0 = vector.read(%y) tile [%r/d01] [16] {value = 0.0} : vector<16xf32>
            %r.v.0 = tcp.mul(%x.v.0, %y.v.0) : vector<16xf32>
            %x.v.16 = vector.read(%x) tile [%r/d01 + 16] [16] {value = 0.0} : vector<16xf32>
            %y.v.16 = vector.read(%y) tile [%r/d01 + 16] [16] {value = 0.0} : vector<16xf32>
            %r.v.1 = tcp.mul(%x.v.16, %y.v.16) : vector<16xf32>
            gml_st.yield(%r.v.0, %r.2) tile [%r/d01] [16]
            gml_st.yield(%r.v.1, %r.2) tile [%r/d01 + 16] [16]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    """

    name = "lower_vectors"
    category = Category.VECTOR
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="the function or loop whose body is lowered"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        root = args.op("target")
        if not isinstance(root, FuncOp | Loop):
            raise ctx.fail(
                f"%{root.name} is neither a function nor a loop",
                op=root,
                required="a function or a loop, all of whose body is lowered",
                found=root.opcode,
                fix=Direction("name the loop round it"),
            )
        for remark in lower_vectors(ctx.rewriter, root, ctx.target):
            ctx.remark(remark.message)
        return ()

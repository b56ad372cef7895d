"""select_instructions: assign a row of the target to every operation that is printed as C."""

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
    """Assign an instruction row of the target to every operation on scalars, 1-D vectors and buffers.

    An operation without a row is expanded (exp into a polynomial), computed in f32 (f16, bf16), cast in two steps, or
    computed lane by lane, with a remark; an operation that still has no row is an error. Reads and writes are unmasked
    if the subset provably covers all lanes. Cheaper rows are used if an operand provably is not NaN. Literals and their
    splats are created once, outside the loops.

    It requires `bufferize` and `lower_vectors`. Compilation applies this step if the schedule does not.

    before:
        func @f(%x: buffer<[N]xf32, strides [1], space argument>, %y: buffer<[N]xf32,
            strides [1], space argument>, %out: buffer<[N]xf32, strides [1], space result>) symbols [N]
            {results = 1} {
          gml_st.for %r/d01 in 0 to N step 16 {
            %x.v = vector.read(%x) tile [%r/d01] [min(16, N - %r/d01)] {value = 0.0} : vector<16xf32>
            %y.v = vector.read(%y) tile [%r/d01] [min(16, N - %r/d01)] {value = 0.0} : vector<16xf32>
            %r.v = tcp.mul(%x.v, %y.v) : vector<16xf32> name "r"
            vector.write(%r.v, %out) tile [%r/d01] [min(16, N - %r/d01)]
          }
          tcp.return
        }
    statement:
        select_instructions(root)
    after:
        func @f(%x: buffer<[N]xf32, strides [1], space argument>, %y: buffer<[N]xf32,
            strides [1], space argument>, %out: buffer<[N]xf32, strides [1], space result>) symbols [N]
            {results = 1} {
          gml_st.for %r/d01 in 0 to N step 16 {
            %x.v = vector.read(%x) tile [%r/d01] [min(16, N - %r/d01)] {value = 0.0, row = "masked_load_f32x16"} :
                vector<16xf32>
            %y.v = vector.read(%y) tile [%r/d01] [min(16, N - %r/d01)] {value = 0.0, row = "masked_load_f32x16"} :
                vector<16xf32>
            %r.v = tcp.mul(%x.v, %y.v) {row = "mul_f32x16"} : vector<16xf32> name "r"
            vector.write(%r.v, %out) tile [%r/d01] [min(16, N - %r/d01)] {row = "masked_store_f32x16"}
          }
          tcp.return
        }
    """

    name = "select_instructions"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC, doc="the function to select for"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        for remark in select_instructions(ctx.rewriter, args.func("func"), ctx.target):
            ctx.remark(remark.message)
        return ()

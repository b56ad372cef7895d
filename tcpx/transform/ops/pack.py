"""pack: copy an operand's tile into a buffer laid out as the computation reads it."""

from tcpx.transform.declaration import (
    BOOL,
    LAYOUT,
    LOOP,
    VALUE,
    Arguments,
    Category,
    OperandRef,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.packing import pack


@register
class Pack(Transform):
    """Copy the operand's current tile into a buffer filled in the body of `at`, or outside all loops, and let the
    operation read it.

    The buffer has one slot per iteration of each loop between `at` and the operation that the operand depends on;
    loops it does not depend on reuse the slot. In a slot lies the tile, its dims in the order of `layout`; a static
    tile is stored full, padded with the neutral element. Dims of the operand that `layout` does not name are
    outermost, in the operand's order. `k pad 16` rounds the pitch of `k` up. `[k/4, n, k%4]` stores `k` by two digits,
    the quotient and the remainder of one number: for each n, 4 neighbours along k side by side, as instructions for
    dot products take them. The operation is padded to whole digits as `pad` does: where a reduction dim is masked
    then, there are no dot products. From then on, tiles of that dim begin at multiples of the number. The operation
    keeps its dims; it reads them in the order stored where its class can say so, else through a transpose; of digits,
    it becomes the nearest class that can. Returns the loop that fills the buffer.

    An index that is a window, `2*i + k`, is stored as the operand has it, each element once, where `layout` names none
    of its dims; where it names all of them, `[i, k, c]`, each element as often as it is read.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/n1 in 0 to 32 step 16 (%mm.2 = %mm.out) {
            %w.t = gml_st.materialize(%w) tile [0, %mm/n1] [64, 16] : tensor<64x16xf32>
            %mm.3 = tcp.matmul(%x, %w.t) : tensor<[M]x16xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [0, %mm/n1] [M, 16]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    statement:
        pack(mm.rhs, [k, n], at: mm.loop(n))
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/n1 in 0 to 32 step 16 (%mm.2 = %mm.out) {
            %mm.rhs.buffer = tcp.empty : tensor<1x64x16xf32>
            %mm.rhs = gml_st.for %mm.rhs/pack1 in 0 to 1 step 1 (%mm.rhs.1 = %mm.rhs.buffer) {
              %mm.rhs.t = gml_st.materialize(%w) tile [0, %mm/n1] [64, 16] : tensor<64x16xf32>
              gml_st.yield(%mm.rhs.t, %mm.rhs.1) tile [%mm.rhs/pack1, 0, 0] [1, 64, 16] drop [0]
            } : tensor<1x64x16xf32>
            %mm.rhs.t.1 = gml_st.materialize(%mm.rhs) tile [0, 0, 0] [1, 64, 16] drop [0] : tensor<64x16xf32>
            %mm.3 = tcp.matmul(%x, %mm.rhs.t.1) : tensor<[M]x16xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [0, %mm/n1] [M, 16]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "pack"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (
        Parameter("operand", VALUE, doc="an operand of a structured operation: `mm.rhs`"),
        Parameter("layout", LAYOUT, doc="the operand's dims in the order they are stored"),
        Parameter("at", LOOP, None, doc="the loop in whose body the buffer is filled; without it, outside all loops"),
        Parameter("parallel", BOOL, False, doc="share the filling among threads"),
        Parameter(
            "filled_by", LOOP, None, doc="the loop whose first iteration fills the buffer as it reads the operand"
        ),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        operand = args.value("operand")
        if not isinstance(operand, OperandRef):
            raise ctx.fail(
                "pack takes an operand of an operation, not a value",
                op=operand.defining_op,
                required="an operand such as `mm.rhs`",
                found=f"%{operand.name}",
            )
        at, filled_by = args.optional_loop("at"), args.optional_loop("filled_by")
        return (pack(ctx, operand, args.layout("layout"), at, args.bool("parallel"), filled_by),)

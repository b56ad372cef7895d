"""pack: copy a tile of an operand into a buffer, in the layout in which the computation reads it."""

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
    """Copy the operand's current tile into a buffer, and let the operation read it there. The buffer is filled in the
    body of `at`, or outside all loops.

    Loops between `at` and the operation that the operand depends on index the buffer: it has one slot per iteration.
    Loops that it does not depend on reuse the slot. A slot contains the tile, its dims in the order of `layout`; a
    static tile is stored full, padded with the neutral element. Dims of the operand that `layout` does not name are
    outermost, in the operand's order. `k pad 16` rounds the stored extent of `k` up to a multiple of 16.

    `[k/4, n, k%4]` splits the index `k` into two digits, quotient and remainder by one number: for each n, 4 elements
    along k are contiguous, as dot-product instructions need them. The operation is padded to whole digits as by `pad`;
    if a reduction dim is then masked, dot-product instructions cannot be used. Later tiles of that dim begin at
    multiples of the number. The operation keeps its dims. It reads them in storage order if its class allows that, else
    through a transpose; with digits, it becomes the nearest class that can. Returns the loop that fills the buffer.

    For an index that is a window, `2*i + k`: if `layout` names none of its dims, the buffer stores it like the operand,
    each element once; if it names all of them, `[i, k, c]`, each element as often as it is read.

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
    needs_count = False
    parameters = (
        Parameter("operand", VALUE, doc="an operand of a structured operation: `mm.rhs`"),
        Parameter("layout", LAYOUT, doc="the operand's dims in storage order"),
        Parameter("at", LOOP, None, doc="the loop in whose body the buffer is filled; without it, outside all loops"),
        Parameter("parallel", BOOL, False, doc="distribute all loops that fill the buffer over threads"),
        Parameter(
            "filled_by", LOOP, None, doc="the loop whose first iteration fills the buffer while it reads the operand"
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

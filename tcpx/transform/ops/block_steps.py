"""block_steps: all iterations of a loop over state for one block of elements, then for the next."""

from tcpx.transform.declaration import (
    BOOL,
    INT,
    LOOP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.element_blocks import block_steps


@register
class BlockSteps(Transform):
    """Run all iterations of a loop for one block of elements of what it carries, then for the next block: the elements
    stay in the caches, or in registers, from one iteration to the next.

    Everything in the loop must be elementwise over one dim, which `coalesce` gives: an iteration reads of each tensor,
    and yields, all elements of that dim, at one index of the dims before it. So elements at one place depend on each
    other alone, in the order of the iterations as before. Numbers that an iteration reads of tensors that the loop does
    not carry are read again for each block. The loop over blocks is parallel if that is asked for.

    before:
        func @f(%u: tensor<[N]xf32>, %v: tensor<[T]x[N]xf32>) -> tensor<[N]xf32> symbols [N, T] {
          %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
            %w = gml_st.materialize(%v) tile [%t, 0] [1, N] drop [0] : tensor<[N]xf32>
            %b = tcp.add(%d, %w) : tensor<[N]xf32>
            gml_st.yield(%b, %d) full
          } : tensor<[N]xf32>
          tcp.return(%y)
        }
    statement:
        block_steps(parent(b), 512)
    after:
        func @f(%u: tensor<[N]xf32>, %v: tensor<[T]x[N]xf32>) -> tensor<[N]xf32> symbols [N, T] {
          %y.1 = gml_st.for %y/block in 0 to N step 512 (%y.2 = %u) {
            %y.3 = gml_st.materialize(%y.2) tile [%y/block] [min(512, N - %y/block)] :
                tensor<[min(512, N - %y/block)]xf32>
            %y.4 = gml_st.for %t in 0 to T step 1 (%y.5 = %y.3) {
              %w.1 = gml_st.materialize(%v) tile [%t, %y/block] [1, min(512, N - %y/block)] drop [0] :
                  tensor<[min(512, N - %y/block)]xf32>
              %b.1 = gml_st.materialize(%y.5) tile [0] [min(512, N - %y/block)] : tensor<[min(512, N - %y/block)]xf32>
              %b.2 = tcp.add(%b.1, %w.1) : tensor<[min(512, N - %y/block)]xf32> name "b"
              gml_st.yield(%b.2, %y.5) tile [0] [min(512, N - %y/block)]
            } : tensor<[min(512, N - %y/block)]xf32>
            gml_st.yield(%y.4, %y.2) tile [%y/block] [min(512, N - %y/block)]
          } : tensor<[N]xf32>
          tcp.return(%y.1)
        }
    """

    name = "block_steps"
    category = Category.LOOPS
    parameters = (
        Parameter("loop", LOOP, doc="the loop"),
        Parameter("size", INT, doc="the elements of a block"),
        Parameter("parallel", BOOL, False, doc="share the blocks among the threads"),
    )
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, size = args.loop("loop"), args.int("size")
        if size < 1:
            raise ctx.fail("a block has no elements", op=loop, required="a size of 1 or more", found=str(size))
        return (block_steps(ctx, loop, size, args.bool("parallel")),)

"""stream: write past the caches."""

from tcpx.payload.diagnostics import Direction
from tcpx.payload.ops.gml_st import OnSubset
from tcpx.payload.types import BufferType
from tcpx.transform.declaration import (
    LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.streaming import align, changes_in_place, mark, readers, writes


@register
class Stream(Transform):
    """Write the results of a loop with non-temporal stores: fastest if the results exceed the caches and are not read
    soon.

    Nothing in the loop may read them. Non-temporal stores write whole, aligned vectors. If the loop has full steps
    (peel it first) along the innermost dim, its steps are shifted at run time to start at a cache line. One more
    iteration at each end writes the remaining elements with ordinary stores, overlapping others: `x.copy("first")` and
    `x.copy("last")`. In other loops, only rows that happen to be aligned are written so; the same holds for loops that
    update state (`inout`) in place, where no element may be computed twice. Each thread waits until its stores are
    visible: at the end of an iteration of a parallel loop. Targets without such stores use ordinary ones.

    before:
        func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {
          %y.out = tcp.empty : tensor<4096xf32>
          %y.1 = gml_st.for %y/d01 in 0 to 4096 step 16 (%y.2 = %y.out) {
            %x.t = gml_st.materialize(%x) tile [%y/d01] [16] : tensor<16xf32>
            %y.3 = tcp.exp(%x.t) : tensor<16xf32> name "y"
            gml_st.yield(%y.3, %y.2) tile [%y/d01] [16]
          } : tensor<4096xf32>
          tcp.return(%y.1)
        }
    statement:
        stream(y.loop(d0))
    after:
        func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {
          %y.out = tcp.empty : tensor<4096xf32>
          %y/d01.lead = buffer.lead(%y.out) tile [0] [1] : si64
          gml_st.bind(%y/d01.lead) {var = %y/d01/lead in 0 to 16} name "y/d01/lead"
          %y.1 = gml_st.for %y/d01 in 0 to min(1, %y/d01/lead) step 16 (%y.2 = %y.out) {
            %x.t = gml_st.materialize(%x) tile [%y/d01] [16] : tensor<16xf32>
            %y.3 = tcp.exp(%x.t) : tensor<16xf32> name "y"
            gml_st.yield(%y.3, %y.2) tile [%y/d01] [16]
          } : tensor<4096xf32>
          %y.1~main = gml_st.for %y/d01~main in %y/d01/lead to 4081 step 16 (%y.2~main = %y.1) {
            %x.t~main = gml_st.materialize(%x) tile [%y/d01~main] [16] : tensor<16xf32>
            %y.3~main = tcp.exp(%x.t~main) : tensor<16xf32> name "y~main"
            gml_st.yield(%y.3~main, %y.2~main) tile [%y/d01~main] [16] {stream = true}
          } : tensor<4096xf32>
          %y.1~last = gml_st.for %y/d01~last in 4080 to min(1, %y/d01/lead) + 4080 step 16
              (%y.2~last = %y.1~main) {
            %x.t~last = gml_st.materialize(%x) tile [%y/d01~last] [16] : tensor<16xf32>
            %y.3~last = tcp.exp(%x.t~last) : tensor<16xf32> name "y~last"
            gml_st.yield(%y.3~last, %y.2~last) tile [%y/d01~last] [16]
          } : tensor<4096xf32>
          tcp.return(%y.1~last)
        }
    """

    name = "stream"
    category = Category.LAYOUT_AND_MEMORY
    parameters = (Parameter("loop", LOOP, doc="the loop that writes the results"),)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop = args.loop("loop")
        for op in loop.walk():
            if isinstance(op, OnSubset) and isinstance(op.subset_of.type, BufferType):
                raise ctx.fail(
                    f"the body of {loop.name} is on buffers",
                    op=loop,
                    required="a loop that yields what it computes",
                    found=op.opcode,
                    fix=Direction("do this before `bufferize`"),
                )
        found = [store for index in range(len(loop.destinations)) for store, _ in writes(loop, index)]
        if not found:
            raise ctx.fail(
                f"{loop.name} writes nothing", op=loop, required="a loop that yields tiles of a result", found="none"
            )
        if all(store.stream for store in found):
            raise ctx.fail(
                f"{loop.name} writes past the caches already", op=loop, required="other writes", found="none"
            )
        for index, dest in enumerate(loop.destinations):
            for reader in readers(loop, index):
                raise ctx.fail(
                    f"{loop.name} reads what it writes of %{dest.name}",
                    op=reader,
                    required="a result that is not read in the loop",
                    found=reader.opcode,
                    fix=Direction("hoist the accumulator, or stream a loop round it that writes each element once"),
                )
        aligned = None if changes_in_place(loop) else align(ctx.rewriter, loop)
        mark(ctx.rewriter, aligned or loop)
        return ()

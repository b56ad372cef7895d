"""parallelize: iterations in any order, or at once."""

from __future__ import annotations

from tcpx.payload.ir import Block
from tcpx.payload.ops.gml_st import Loop, Materialize, Parallel
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.subsets import disjoint_between_iterations
from tcpx.payload.types import TensorType
from tcpx.transform.declaration import (
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


@register
class Parallelize(Transform):
    """Run the iterations of a loop on the threads of the kernel. They must yield disjoint subsets, and none may read
    what another writes.

    before:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 16 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [16]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    statement:
        parallelize(r.loop(d0))
    after:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1.1 = gml_st.parallel %r/d01 in 0 to 64 step 16 (%r.1.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.1.2) tile [%r/d01] [16]
          } : tensor<64xf32>
          tcp.return(%r.1.1)
        }
    """

    name = "parallelize"
    category = Category.LOOPS
    parameters = (Parameter("loop", LOOP, doc="the loop"),)
    results = (Result.LOOP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, rewriter = args.loop("loop"), ctx.rewriter
        if loop.is_parallel:
            raise ctx.fail(f"{loop.name} is parallel already", op=loop, required="a sequential loop", found=loop.opcode)
        _check(ctx, loop)
        made = Parallel.over(loop.var, list(loop.operands), Block([("", d.type) for d in loop.destinations]))
        rewriter.insert(made, InsertPoint.before(loop), loop.results[0].name if loop.results else loop.name)
        for old, new in zip(loop.destinations, made.destinations, strict=True):
            rewriter.replace_uses(old, new)
        for op in list(loop.body.ops):
            rewriter.move(op, InsertPoint(made.body, len(made.body.ops)))
        rewriter.continue_as(loop, made)
        rewriter.replace_op(loop, made.results)
        return (made,)


def _check(ctx: TransformContext, loop: Loop) -> None:
    """No iteration touches what another writes."""
    nested = [a for a in (*loop.ancestors(), *loop.walk()) if isinstance(a, Loop) and a.is_parallel]
    if nested:
        raise ctx.fail(
            f"{loop.name} and {nested[0].name} would be parallel loops in each other",
            op=loop,
            required="one parallel loop per nest",
            found=f"the parallel loop {nested[0].name}",
        )
    for index, dest in enumerate(loop.destinations):
        if not isinstance(dest.type, TensorType):
            raise ctx.fail(
                f"{loop.name} carries %{dest.name} from iteration to iteration",
                op=loop,
                required="iterations that hand nothing to the next",
                found=f"%{dest.name}: {dest.type}",
            )
        stores = loop.yields_to(index)
        for store in stores:
            if disjoint_between_iterations(store.subset, loop.var) is not True:
                raise ctx.fail(
                    f"iterations of {loop.name} write one subset of %{dest.name}",
                    op=store,
                    required="disjoint subsets, proved from offset and step",
                    found=store.subset.text(),
                    fix="tile a parallel dim instead of a reduction",
                )
        for user in dest.users:
            if isinstance(user, Materialize) and any(user.subset != s.subset for s in stores):
                raise ctx.fail(
                    f"iterations of {loop.name} read subsets of %{dest.name} that others may write",
                    op=user,
                    required="reads of the subset the iteration writes",
                    found=user.subset.text(),
                )

"""parallelize: distribute the iterations of a loop over threads."""

from tcpx.payload.diagnostics import Direction
from tcpx.payload.disjointness import overlapping_yields, read_of_others
from tcpx.payload.ir import Block, parent_op
from tcpx.payload.ops.gml_st import Loop, Materialize, Parallel, StYield
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import variables
from tcpx.payload.traits.memory import Memory
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
from tcpx.transform.narrowing import narrow


@register
class Parallelize(Transform):
    """Run the iterations of a loop on the threads of the kernel. They must yield disjoint subsets, and no iteration may
    read what another writes.

    Perfectly nested parallel loops with independent ranges are a grid: the iterations of all are distributed like those
    of one loop. `tile` with `parallel` over several dims makes a grid.

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


def _grid_round(loop: Loop) -> list[Loop]:
    """The parallel loops that contain only this loop, innermost first."""
    found: list[Loop] = []
    inner, outer = loop, parent_op(loop)
    while isinstance(outer, Loop) and outer.is_parallel and _is_grid(outer, inner):
        found.append(outer)
        inner, outer = outer, parent_op(outer)
    return found


def _grid_in(loop: Loop) -> list[Loop]:
    """The parallel loops that are the only content of the loop, outermost first."""
    found: list[Loop] = []
    outer = loop
    while True:
        inner = next((op for op in outer.body.ops if isinstance(op, Loop) and op.is_parallel), None)
        if inner is None or not _is_grid(outer, inner):
            return found
        found.append(inner)
        outer = inner


def _is_grid(outer: Loop, inner: Loop) -> bool:
    """Whether one loop contains only the other, whose range does not use its variable."""
    alone = all(
        op is inner or Memory(op).leaves_undefined or isinstance(op, Materialize | StYield) for op in outer.body.ops
    )
    bounds = (inner.var.lower, inner.var.upper, inner.var.step)
    return alone and not any(outer.var in variables(bound) for bound in bounds)


def _check(ctx: TransformContext, loop: Loop) -> None:
    """No iteration accesses what another writes."""
    if loop.unrolled > 1:
        raise ctx.fail(
            f"the compiler is asked to unroll {loop.name}",
            op=loop,
            required="a loop whose iterations may run in any order",
            found=f"{loop.unrolled} iterations one after the other",
            fix=Direction("unroll a loop inside of it"),
        )
    grid = {loop, *_grid_round(loop), *_grid_in(loop)}
    around = [a for a in (*loop.ancestors(), *loop.walk()) if isinstance(a, Loop) and a.is_parallel]
    nested = [a for a in around if a not in grid]
    if nested:
        raise ctx.fail(
            f"{loop.name} and {nested[0].name} would be parallel loops in each other",
            op=loop,
            required="one parallel loop per nest, or loops with nothing between them and ranges of their own: a grid",
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
        overlap = overlapping_yields(loop, index)
        if overlap is not None and narrow(ctx.rewriter, loop, index):
            overlap = overlapping_yields(loop, index)
        if overlap is not None:
            first, second, within = overlap
            places = dict.fromkeys((first.subset.text(), second.subset.text()))
            raise ctx.fail(
                f"iterations of {loop.name} write one subset of %{dest.name}{' twice' if within else ''}",
                op=second,
                required="disjoint subsets, proved from offset and step",
                found=" and ".join(places),
                fix=None if within else Direction("tile a parallel dim instead of a reduction"),
            )
        read = read_of_others(loop, index)
        if read is not None:
            raise ctx.fail(
                f"iterations of {loop.name} read subsets of %{dest.name} that others may write",
                op=read[0],
                required="reads of the subset the iteration writes",
                found=read[1].text(),
            )

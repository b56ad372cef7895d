"""split_reduction: compute partial results of a reduction, and combine them by a second one."""

from collections.abc import Sequence

from tcpx.limits import shortened
from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import map_dim, map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation
from tcpx.payload.sizes import to_text
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.view import Padding
from tcpx.plurals import counted
from tcpx.transform.declaration import (
    BOOL,
    DIM,
    INT,
    OP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.reduction_splitting import split_into_parts, split_side_by_side
from tcpx.transform.tiling import check_on_tensors

MOST_PARTIAL = 4096
"""Partial results per element of the result."""


@register
class SplitReduction(Transform):
    """Reduce a dim in independent parts, and combine the partial results by a second reduction.

    `parts: P` makes a loop over P equal ranges of the dim. Each iteration reduces its range, starting from the neutral
    element, and yields to its own slice, so the loop may be `parallel`. The slices are outermost; in parallel, no two
    share a cache line.
    `factor: F` makes a sequential loop over the dim by F with F accumulators, which are innermost: element i goes to
    accumulator i mod F, a parallel dim of the operation in the loop. The dim is padded with neutral elements to a
    multiple of F. Each of several results, as of `reduce_argmax`, has its accumulators.

    The handle denotes the partial computation: with `parts` it keeps its class; with `factor` it becomes the nearest
    class that can have the dim in its result. Returns the loop and the combining operation, which also takes over an
    `init`. Float sums are reassociated: rounding changes, and an overflow to inf or NaN may appear or disappear. Parts
    without elements are neutral. If the reduction has no neutral element, as argmax, each part must have an element.

    before:
        func @f(%x: tensor<4096x8xf32>, %w: tensor<4096x16xf32>) -> tensor<8x16xf32> {
          %mm = tcp.contract(%x, %w) {lhs = ["k", "m"], rhs = ["k", "n"], out = ["m", "n"]} : tensor<8x16xf32>
          tcp.return(%mm)
        }
    statement:
        split_reduction(mm, k, parts: 2, parallel: true)
    after:
        func @f(%x: tensor<4096x8xf32>, %w: tensor<4096x16xf32>) -> tensor<8x16xf32> {
          %mm.out = tcp.empty : tensor<2x8x16xf32>
          %mm.parts = gml_st.parallel %mm/k1 in 0 to 2 step 1 (%mm.parts.1 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [2048*%mm/k1, 0] [2048, 8] : tensor<2048x8xf32>
            %w.t = gml_st.materialize(%w) tile [2048*%mm/k1, 0] [2048, 16] : tensor<2048x16xf32>
            %mm.1 = tcp.contract(%x.t, %w.t) {lhs = ["k", "m"], rhs = ["k", "n"], out = ["m", "n"]}
                : tensor<8x16xf32> name "mm"
            gml_st.yield(%mm.1, %mm.parts.1) tile [%mm/k1, 0, 0] [1, 8, 16] drop [0]
          } : tensor<2x8x16xf32>
          %mm.combined = tcp.reduce_sum(%mm.parts) {dims = [0]} : tensor<8x16xf32>
          tcp.return(%mm.combined)
        }
    """

    name = "split_reduction"
    category = Category.TILING
    parameters = (
        Parameter("target", OP, doc="an operation that reduces"),
        Parameter("dim", DIM, doc="the reduction dim"),
        Parameter("parts", INT, None, doc="equal ranges of the dim, each reduced by one iteration of the loop"),
        Parameter("factor", INT, None, doc="number of innermost accumulators; either this or `parts`"),
        Parameter("parallel", BOOL, False, doc="distribute the parts over threads"),
    )
    results = (Result.LOOP, Result.OP)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, dim, parallel = args.op("target"), args.dim("dim"), args.bool("parallel")
        parts, factor = args.optional_int("parts"), args.optional_int("factor")
        if (parts is None) == (factor is None):
            raise ctx.fail(
                "a reduction is split into `parts` or by a `factor`",
                op=op,
                required="one of them",
                found="neither" if parts is None else "both",
            )
        op = check_reduces(ctx, op, [dim])
        _check_order(ctx, op, dim)
        count = parts if parts is not None else factor
        if count is None or not 2 <= count <= MOST_PARTIAL:
            raise ctx.fail(
                f"`{dim}` of %{op.name} cannot be split into this many partial results",
                op=op,
                required=f"2..{MOST_PARTIAL}",
                found=shortened(count or 0),
            )
        results: tuple[Operation, ...]
        if parts is not None:
            results = split_into_parts(ctx.rewriter, op, dim, parts, parallel)
        else:
            _check_side_by_side(ctx, op, dim, count, parallel)
            results = split_side_by_side(ctx.rewriter, op, dim, count)
        return results


def check_reduces(ctx: TransformContext, op: Operation, dims: Sequence[str]) -> Structured:
    """The operation, which is on tensors and reduces these dims, starting anywhere; else raise ScheduleError."""
    if not isinstance(op, Structured):
        raise ctx.fail(
            f"the reduction of %{op.name} cannot be split",
            op=op,
            required="an operation of the operation tree",
            found=op.opcode,
            fix=Direction("decompose it first"),
        )
    check_on_tensors(ctx, op)
    for dim in dims:
        _check_dim(ctx, op, dim)
    return op


def _check_dim(ctx: TransformContext, op: Structured, dim: str) -> None:
    """The dim is a reduction dim, and its combiner may start anywhere."""
    reduced = [it.name for it in op.iterators() if it.is_reduction and not it.is_sequential]
    if any(it.name == dim and it.is_sequential for it in op.iterators()):
        called, more = ctx.name_of(op), "" if Scan(op).is_exact else ", reassociate: true"
        raise ctx.fail(
            f"`{dim}` of %{op.name} is a sequential dim: each iteration goes on from the one before it",
            op=op,
            required=f"a reduction dim: {', '.join(reduced) or 'it has none'}",
            found=f"`{dim}` is sequential",
            fix=f"`scan_in_lanes({called}, {dim}{more})`, which combines its elements in groups"
            if Scan(op).is_associative
            else f"`tile({called}, [{dim}: 64])`, which keeps the order",
        )
    if dim not in reduced:
        raise ctx.fail(
            f"`{dim}` is not a reduction dim of %{op.name}",
            op=op,
            required=f"one of {', '.join(reduced)}" if reduced else "an operation that reduces",
            found=", ".join(f"{it.name} is {it.kind.value}" for it in op.iterators()) or "no dims",
        )
    if Reduction(op).neutrals() is None:
        raise ctx.fail(
            f"the reduction of %{op.name} has no neutral element to start the parts with",
            op=op,
            required="an associative combiner with a neutral element",
            found=op.opcode,
        )


def _check_order(ctx: TransformContext, op: Structured, dim: str) -> None:
    """Parts of a dim are combined after all of its inner dims; its outer dims must have one iteration."""
    outer = Reduction(op).reduced_before(dim)
    if outer is not None:
        raise ctx.fail(
            f"parts of `{dim}` inside `{outer}` change the order in which %{op.name} reduces",
            op=op,
            required=f"parts of `{outer}`, tiles of 1 of it, or a combiner that is declared `commutative`",
            found=f"`{outer}` of {to_text(op.size_of(outer))}",
            fix=f"`tile({ctx.name_of(op)}, [{outer}: 1])` before it",
        )


def _check_side_by_side(ctx: TransformContext, op: Structured, dim: str, factor: int, parallel: bool) -> None:
    """Elements may be combined in this order, and the last round can be filled with neutral elements."""
    if not Reduction(op).is_commutative or dim in Masked(op).valid:
        raise ctx.fail(
            f"elements of `{dim}` of %{op.name} cannot be combined side by side",
            op=op,
            required="a commutative combiner, and a dim that is not masked",
            found=f"`{dim}` with {to_text(Masked(op).valid[dim])} that count"
            if dim in Masked(op).valid
            else "one that is not declared `commutative`",
            fix=Direction("`parts`, which keeps the order"),
        )
    if parallel:
        raise ctx.fail(
            f"the rounds of `{dim}` add into one set of accumulators and cannot run at once",
            op=op,
            required="`parts`, or a sequential loop",
            found=f"factor: {factor}, parallel: true",
            fix=f"parts: {factor}, parallel: true",
        )
    names = {it.name for it in op.iterators()}
    for position in positions_read(op):
        if not names.issuperset(map_symbols(position.expression)):
            raise ctx.fail(
                f"%{op.name} counts its elements by sizes, which no body can with `{dim}` as a parallel dim",
                op=op,
                required="positions of dims and numbers",
                found=to_text(position.expression),
                fix=Direction("`parts`, or a reduction of one dim after the other"),
            )
    extent = op.size_of(dim)
    here = context_at(op)
    if here.is_equal(here.mod(extent, factor), 0) is True:
        return
    for index, indexing_map in enumerate(op.maps()):
        has_dim = dim in {map_dim(e) for e in indexing_map}
        if not has_dim or Padding(op).pad_value(index, True) is None:
            mixed = [e for e in indexing_map if not has_dim and dim in map_symbols(e)]
            lacks = "such padding" if has_dim else f"`{dim}` alone: {to_text(mixed[0])}" if mixed else f"`{dim}`"
            raise ctx.fail(
                f"`{dim}` of %{op.name} cannot be padded to whole rounds of {factor}",
                op=op,
                required=f"a factor that divides `{dim}`, or padding that changes no result, in every operand",
                found=f"{counted(to_text(extent), 'element')}, and `{op.operand_roles[index]}` without {lacks}",
                fix=Direction("`parts`, which needs no padding"),
            )

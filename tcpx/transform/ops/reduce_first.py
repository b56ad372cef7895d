"""reduce_first: reduce some dims before the others."""

from collections.abc import Sequence

from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.sizes import to_text
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.plurals import counted
from tcpx.transform.declaration import (
    DIMS,
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
from tcpx.transform.dims_first import reduce_dims_first
from tcpx.transform.ops.split_reduction import check_reduces


@register
class ReduceFirst(Transform):
    """Reduce some dims of an operand first, and the others of that result: separable windows, one dim at a time.

    The first reduction computes one element for each index that the other dims read. Windows that overlap along the
    other dims share these elements: a window of 5 rows and 7 columns combines 5 + 7 elements for each result, not
    5 * 7. The second reduction combines them, and `init` if there is one.

    The handle denotes the second reduction, which has the result and the remaining dims; its class may number them
    anew. Returns the first reduction. Both have the nearest class that can express them. Float sums are reassociated:
    rounding changes, and an overflow to inf or NaN may appear or disappear. Maxima, minima and sums of integers do not
    change.

    before:
        func @f(%x: tensor<8x60x62xf32>) -> tensor<8x56x56xf32> {
          %y = tcp.pooling(%x) {window = [5, 7]} : tensor<8x56x56xf32>
          tcp.return(%y)
        }
    statement:
        reduce_first(y, [k0])
    after:
        func @f(%x: tensor<8x60x62xf32>) -> tensor<8x56x56xf32> {
          %y.first = tcp.pooling(%x) {dims = [1], window = [5]} : tensor<8x56x62xf32>
          %y.1 = tcp.pooling(%y.first) {window = [7]} : tensor<8x56x56xf32> name "y"
          tcp.return(%y.1)
        }
    """

    name = "reduce_first"
    category = Category.TILING
    parameters = (
        Parameter("target", OP, doc="an operation that reduces one operand"),
        Parameter("dims", DIMS, doc="the reduction dims that are reduced first: some, not all"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        first = args.dims("dims")
        op = check_reduces(ctx, args.op("target"), first)
        reduced = [it.name for it in op.iterators() if it.is_reduction]
        _check_operand(ctx, op)
        _check_dims(ctx, op, first, reduced)
        return (reduce_dims_first(ctx.rewriter, op, first)[0],)


def _check_operand(ctx: TransformContext, op: Structured) -> None:
    """One operand is reduced to one result, and every element is combined in the same way."""
    kinds = {
        counted(len(op.inputs), "operand"): len(op.inputs) > 1,
        counted(len(op.results), "result"): len(op.results) > 1,
        "a sequential dim": (Scan.of(op) is not None),
        "positions that the body reads": bool(positions_read(op)),
        "elements that are indices": bool(Indices(op).operands or ragged_dims(op)),
        "masked iterations": bool(Masked(op).valid),
    }
    refused = [text for text, holds in kinds.items() if holds]
    if refused:
        raise ctx.fail(
            f"dims of %{op.name} cannot be reduced one before the other",
            op=op,
            required="one operand that dims alone index, one result, and a body that is the same everywhere",
            found=refused[0],
            fix=Direction("`split_reduction`, which takes parts of one dim"),
        )


def _check_dims(ctx: TransformContext, op: Structured, first: Sequence[str], reduced: Sequence[str]) -> None:
    """Some dims are reduced first and some are not, no index depends on both kinds, and the order may change."""
    later = [name for name in reduced if name not in first]
    if not first or not later:
        raise ctx.fail(
            f"{'no' if not first else 'each'} dim of %{op.name} would be reduced first",
            op=op,
            required=f"some of {', '.join(reduced)}, not all" if len(reduced) > 1 else "two reduction dims",
            found=", ".join(first) or "none",
        )
    for entry in op.maps()[0]:
        names = map_symbols(entry)
        if not set(first).isdisjoint(names) and not set(later).isdisjoint(names):
            raise ctx.fail(
                f"an index of %{op.name} depends on dims that are reduced first and on others",
                op=op,
                required="all reduction dims of an index, or none of them",
                found=f"`{to_text(entry)}`, and first {', '.join(first)}",
                fix=Direction("name all dims of an index, or none"),
            )
    if not Reduction(op).is_commutative and {*reduced[-len(first) :]} != {*first}:
        raise ctx.fail(
            f"dims that are reduced first change the order in which %{op.name} reduces",
            op=op,
            required="the innermost dims, or a combiner that is declared `commutative`",
            found=f"{', '.join(first)} of {', '.join(reduced)}",
            fix=f"`reduce_first({ctx.name_of(op)}, [{reduced[-1]}])`",
        )

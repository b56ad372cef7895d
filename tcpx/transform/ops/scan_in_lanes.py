"""scan_in_lanes: compute a scan along its row in vector lanes."""

from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import LANES
from tcpx.payload.traits.scan import Scan
from tcpx.transform.declaration import (
    BOOL,
    DIM,
    OP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.tiling import check_on_tensors
from tcpx.transform.vectors.lane_dims import carries, streams
from tcpx.transform.vectors.probes import element_dtypes
from tcpx.transform.vectors.scans import has_scans
from tcpx.transform.vectors.widths import lanes_of_all


@register
class ScanInLanes(Transform):
    """Put consecutive elements of a scan into the lanes of a vector and combine them there: each with its predecessors
    in the vector, in log2(lanes) steps of shuffles, then all of them with the carry of the previous vectors.

    The combiner must be associative: sums, products, running maxima or minima. `reassociate: true` permits the other
    rounding of float sums and products; other combiners give the same result. Without this step, `vectorize` computes
    each row in order, and puts several rows into a vector if there are any. Tile the dim with `tail: pad`, by some
    vectors, and `vectorize` the loop; then `hoist_accumulator` carries the total.

    before:
        func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %c, %t = tcp.cumsum(%x) {dim = 0} : tensor<[N]xf32>, tensor<f32>
          tcp.return(%c)
        }
    statement:
        let c = match one cumsum in root
        scan_in_lanes(c, d0, reassociate: true)
    after:
        func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %c, %t = tcp.cumsum(%x) {dim = 0, lanes = ["d0", 16]} : tensor<[N]xf32>, tensor<f32>
          tcp.return(%c)
        }
    """

    name = "scan_in_lanes"
    category = Category.VECTOR
    parameters = (
        Parameter("target", OP, doc="a scan, on tensors"),
        Parameter("dim", DIM, doc="its sequential dim"),
        Parameter("reassociate", BOOL, default=False, doc="permit another rounding of float sums"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, dim = args.op("target"), args.dim("dim")
        sequential = [it.name for it in op.iterators() if it.is_sequential] if isinstance(op, Structured) else []
        if not isinstance(op, Structured) or dim not in sequential:
            raise ctx.fail(
                f"`{dim}` of %{op.name} is no dim along which iterations go on from one another",
                op=op,
                required=f"one of {', '.join(sequential)}" if sequential else "a scan, such as `cumsum`",
                found=", ".join(f"{it.name} is {it.kind.value}" for it in op.iterators())
                if isinstance(op, Structured)
                else op.opcode,
            )
        check_on_tensors(ctx, op)
        if not Scan(op).is_associative or len([it for it in op.iterators() if it.is_reduction]) > 1:
            raise ctx.fail(
                f"iterations of `{dim}` of %{op.name} cannot be combined in groups",
                op=op,
                required="one sequential dim, and a class that declares its combiner associative (`is_associative`)",
                found=op.opcode,
                fix="leave this statement out: what hands on is computed in its order",
            )
        if not Scan(op).is_exact and not args.bool("reassociate"):
            raise ctx.fail(
                f"%{op.name} is rounded in its order",
                op=op,
                required="integers, the largest or the smallest, or leave to round in another order",
                found=f"{op.opcode} of {op.acc_types[0]}",
                fix=f"scan_in_lanes({ctx.name_of(op)}, {dim}, reassociate: true)",
            )
        _check_side_by_side(ctx, op, dim)
        width = lanes_of_all(ctx.target, element_dtypes(op))
        if not all(has_scans(ctx.target, dtype.name, width) for dtype in op.acc_types):
            raise ctx.fail(
                f"the target {ctx.target.name} has no shuffles for %{op.name}",
                op=op,
                required=f"rows that move lanes of {op.acc_types[0]}x{width} up by 1, 2, 4, .. lanes",
                found="none",
                fix="leave this statement out: `vectorize` has lanes across rows",
            )
        ctx.rewriter.set_attribute(op, LANES, (dim, width))
        return ()


def _check_side_by_side(ctx: TransformContext, op: Structured, dim: str) -> None:
    """The dim is the last one of each operand and result that has it."""
    for role, indexing_map in [
        *zip(op.operand_roles, op.maps(), strict=False),
        *(("out", m) for m in op.result_maps()),
    ]:
        if carries(indexing_map, dim) and not streams(indexing_map, dim):
            raise ctx.fail(
                f"elements along `{dim}` of %{op.name} do not lie side by side",
                op=op,
                required=f"`{dim}` as the last dim of each operand and result that has it",
                found=f"`{role}` by [{', '.join(map_dim(e) or str(e) for e in indexing_map)}]",
                fix="leave this statement out: `vectorize` has lanes along the last dim",
            )

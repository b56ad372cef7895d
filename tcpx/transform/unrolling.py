"""Unrolling: copies of a loop's body, the values it carries handed from copy to copy."""

from tcpx.payload.contexts import context_at
from tcpx.payload.distances import distance
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import CloneMap, Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield, trip_count
from tcpx.payload.ops.memory import Prefetch
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Size, Var, variables
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType, VectorType
from tcpx.transform.arguments import TransformContext
from tcpx.transform.simplification import simplify_in


def divides_iterations(loop: Loop, factor: int) -> bool:
    """Whether `factor` provably divides the number of iterations of a loop, each of which is a whole step."""
    var, here = loop.var, context_at(loop)
    counts = ((here.value(trip_count(loop)), factor), (var.upper - var.lower, var.step))
    return all(here.is_equal(here.mod(count, divisor), 0) is True for count, divisor in counts)


def unroll(ctx: TransformContext, loop: Loop, factor: int) -> None:
    """`factor` copies of the body per step. A destination read and yielded at one fixed subset is handed from copy
    to copy as a value; other yields stay, and must not meet what another copy reads."""
    rewriter, var = ctx.rewriter, loop.var
    body = list(loop.body.ops)
    handed = {k: _handed_value(loop, k) for k in range(len(loop.destinations))}
    _check(ctx, loop, handed, factor)
    split = rewriter.new_split()
    widened = Var(var.name, var.lower, var.upper, var.step * factor)
    current: dict[int, Value] = {k: v for k, v in handed.items() if v is not None}
    for copy in range(1, factor):
        mapping = CloneMap(sizes={var: Size.of(widened) + copy * var.step})
        for k, value in current.items():
            mapping.values[loop.destinations[k]] = value
        for op in body:
            if isinstance(op, StYield) and _index(loop, op) in current:
                continue
            if isinstance(op, Prefetch) and _of_handed(loop, op, current):
                continue
            if isinstance(op, Materialize) and op.operands[0] in mapping.values and _of_handed(loop, op, current):
                mapping.values[op.result] = mapping.values[op.operands[0]]
                continue
            made = rewriter.clone(op, InsertPoint(loop.body, len(loop.body.ops)), mapping, f"~{copy}")
            rewriter.extend_copy_path(made, split, str(copy))
        current = {k: mapping.value(_yielded(loop, k)) for k in current}
    for op in body:
        rewriter.extend_copy_path(op, split, "0")
    for k, value in current.items():
        store = loop.yields_to(k)[0]
        rewriter.set_operand(store, 0, value)
        rewriter.move(store, InsertPoint(loop.body, len(loop.body.ops)))
    rewriter.set_attribute(loop, "var", widened)
    rewriter.substitute(body, {var: Size.of(widened)})
    simplify_in(rewriter, [loop])


def _index(loop: Loop, store: StYield) -> int:
    dest = store.operands[1]
    return loop.destinations.index(dest) if dest in loop.destinations else -1


def _yielded(loop: Loop, index: int) -> Value:
    return loop.yields_to(index)[0].operands[0]


def _of_handed(loop: Loop, op: Materialize | Prefetch, current: dict[int, Value]) -> bool:
    source = op.operands[0]
    return source in loop.destinations and loop.destinations.index(source) in current


def _handed_value(loop: Loop, index: int) -> Value | None:
    """The yielded value, if the destination is carried: read and yielded, unconditionally, at one fixed subset."""
    dest, stores = loop.destinations[index], loop.yields_to(index)
    if len(stores) != 1 or stores[0].parent is not loop.body:
        return None
    if not isinstance(dest.type, TensorType):
        return stores[0].operands[0]
    uses: list[Operation] = [u for u in dest.users if u is not stores[0]]
    reads = [u for u in uses if not isinstance(u, Prefetch)]
    fixed = all(
        isinstance(u, Materialize | Prefetch) and u.subset == stores[0].subset and u.parent is loop.body for u in uses
    )
    varies = loop.var in _variables(stores[0])
    return stores[0].operands[0] if reads and fixed and not varies else None


def _variables(store: StYield) -> set[Var]:
    return {v for d in (*store.subset.offsets, *store.subset.sizes) for v in variables(d)}


def _check(ctx: TransformContext, loop: Loop, handed: dict[int, Value | None], factor: int) -> None:
    """Destinations that are not handed on must be written and read at subsets that differ from copy to copy."""
    for k, dest in enumerate(loop.destinations):
        if handed[k] is not None:
            continue
        subsets = [u.subset for u in dest.users if isinstance(u, Materialize | StYield)]
        written = [s.subset for s in loop.yields_to(k)]
        if any(distance(loop, w, s).may_be(1, factor - 1) for w in written for s in subsets):
            raise ctx.fail(
                f"copies of the body of {loop.name} would touch one subset of %{dest.name}",
                op=loop,
                required="a carried value, or subsets that differ in every iteration",
                found=written[0].text() if written else "no yield",
                fix=_hoisted_first(ctx, loop, k),
            )


def _hoisted_first(ctx: TransformContext, loop: Loop, index: int) -> str | None:
    """Where a vectorized reduction accumulates into a destination, the statement that lets the loop carry it."""
    handle = ctx.handle_name(loop)
    sums = [
        op
        for s in loop.yields_to(index)
        if isinstance(op := s.value.defining_op, Structured) and Reduction.of(op) is not None
    ]
    if handle is None or not sums or not isinstance(sums[0].result.type, VectorType):
        return None
    return f"`hoist_accumulator({ctx.name_of(sums[0])}, out_of: {handle})` before it"

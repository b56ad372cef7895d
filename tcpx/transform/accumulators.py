"""Accumulators of vectorized operations, as values that the loops of their reductions carry."""

from functools import partial
from typing import Final

from tcpx.payload.diagnostics import Direction, ScheduleError, either
from tcpx.payload.interfaces import IteratorKind, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import loops_stepping, source_name
from tcpx.transform.vectorization import hoist_accumulator

_MOST_NAMED: Final = 4


def carry_out_of(ctx: TransformContext, op: Operation, loop: Loop) -> None:
    """Let `loop`, and the loops in it that step reduction dims of `op`, carry its accumulators as vectors."""
    numbers = [k for k in range(len(op.results)) if not isinstance(op, Structured) or Reduction(op).has_accumulator(k)]
    chains = [_carried_out_of(op.results[k], loop) for k in numbers]
    carried = [link for chain in chains for link in chain]
    if carried and all(not isinstance(outer.destinations[k].type, TensorType) for outer, k in carried):
        raise ctx.fail(
            f"{loop.name} carries the accumulator of %{op.name} in registers already",
            op=op,
            required="an accumulator in memory",
            found=_found(loop),
        )
    if not carried or not all(chains):
        raise _cause(ctx, op, loop) or ctx.fail(
            f"%{op.name} does not accumulate into a destination of {loop.name}",
            op=op,
            required="an operation whose result the loop yields to a tensor destination",
            found=_found(loop),
            fix=Direction("tile a reduction dim by this loop, then vectorize the loop round it"),
        )
    for inner, index in carried:
        if inner.is_parallel:
            raise ctx.fail(
                f"{inner.name} is parallel: its iterations hand no value to the next",
                op=inner,
                required="a sequential loop",
                found=inner.opcode,
                fix=Direction("hoist before `parallelize`, or do without `parallel`"),
            )
        if isinstance(inner.destinations[index].type, TensorType):
            hoist_accumulator(ctx, inner, index, partial(_cause, ctx, op, inner, loop))


def _cause(ctx: TransformContext, op: Operation, loop: Loop, out_of: Loop | None = None) -> ScheduleError | None:
    """Why no iteration of a loop, in that `out_of` which the accumulator is to be carried, can hand it to the next: the
    loop steps another dim, or its body has several copies of the operation."""
    if not isinstance(op, Structured):
        return None
    parallel = [it.name for it in op.iterators() if it.kind is IteratorKind.PARALLEL]
    stepped = next((dim for dim in parallel if loop in loops_stepping(op, dim)), None)
    if stepped is not None:
        return _steps_no_reduction(ctx, op, loop, stepped, out_of or loop)
    copies = [other for other in loop.walk() if set(other.origins) & set(op.origins)]
    if len(copies) < 2:
        return None
    return ctx.fail(
        f"the body of {loop.name} has {len(copies)} copies of %{source_name(op)}, each with an accumulator of its own",
        op=op,
        required="one operation that accumulates in each iteration, as before `unroll`",
        found=", ".join(f"%{copy.name}" for copy in copies[:_MOST_NAMED]) + (", .." if copies[_MOST_NAMED:] else ""),
        fix=Direction("write `hoist_accumulator` before the `unroll`: the copies then hand the accumulator on"),
    )


def _steps_no_reduction(ctx: TransformContext, op: Structured, loop: Loop, dim: str, out_of: Loop) -> ScheduleError:
    name = ctx.name_of(op)
    reduced = [it.name for it in op.iterators() if it.is_reduction]
    tiled = next((each for each in reduced if loops_stepping(op, each)), None)
    fix = f"`hoist_accumulator({name}, out_of: {name}.loop({tiled}))`" if tiled is not None else None
    if any(out_of in loops_stepping(op, each) for each in reduced):
        fix = Direction(
            f"{_wider(ctx, op, out_of)} in place of the `vectorize` that made {loop.name} inside of {out_of.name}"
        )
    if tiled is None and reduced:
        fix = Direction(f"tile a reduction dim before `vectorize`, as in `tile({name}, [{reduced[-1]}: 1])`")
    return ctx.fail(
        f"{loop.name} steps `{dim}` of %{op.name}, which is not a reduction dim",
        op=op,
        required=f"a loop that steps {either([f'`{each}`' for each in reduced])}" if reduced else "a reduction",
        found=f"`{dim}` is parallel",
        fix=fix,
    )


def _wider(ctx: TransformContext, op: Structured, loop: Loop) -> str:
    """The `vectorize` of a whole tile whose reduction a loop steps: of the loop round that."""
    name = ctx.name_of(op)
    around = next((outer for outer in loop.ancestors() if isinstance(outer, Loop)), None)
    parallel = [it.name for it in op.iterators() if it.kind is IteratorKind.PARALLEL]
    dim = next((each for each in parallel if around in loops_stepping(op, each)), None)
    if dim is None:
        return (
            f"tile `{parallel[-1]}` round {loop.name} and `vectorize` that loop" if parallel else "`vectorize` a loop"
        )
    return f"`vectorize({name}.loop({dim}))`"


def _carried_out_of(value: Value, loop: Loop) -> list[tuple[Loop, int]]:
    """The loops that carry a result, each with which destination it is, innermost first, out to `loop`; none where
    `loop` does not carry it."""
    found: list[tuple[Loop, int]] = []
    while True:
        moved = value.users[0] if len(value.users) == 1 else None
        if isinstance(moved, Structured) and moved.is_movement:  # a result in another order of dims
            value = moved.result
            continue
        stores = [u for u in value.users if isinstance(u, StYield) and u.operands[0] is value]
        dest = stores[0].operands[1] if len(stores) == 1 else None
        inner = dest.owner.parent if dest is not None and isinstance(dest.owner, Block) else None
        if dest is None or not isinstance(inner, Loop):
            return []
        index = inner.destinations.index(dest)
        found.append((inner, index))
        if inner is loop:
            return found
        value = inner.results[index]


def _found(loop: Loop) -> str:
    types = ", ".join(f"%{d.name}: {d.type}" for d in loop.destinations)
    return f"destinations {types}" if types else "a loop without destinations"

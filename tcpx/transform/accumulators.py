"""Accumulators of vectorized operations, as values that the loops of their reductions carry."""

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.types import TensorType
from tcpx.transform.arguments import TransformContext
from tcpx.transform.vectorization import hoist_accumulator


def carry_out_of(ctx: TransformContext, op: Operation, loop: Loop) -> None:
    """Let `loop`, and the loops in it that step reduction dims of `op`, carry its accumulators as vectors."""
    numbers = [k for k in range(len(op.results)) if not isinstance(op, Structured) or op.has_accumulator(k)]
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
        raise ctx.fail(
            f"%{op.name} does not accumulate into a destination of {loop.name}",
            op=op,
            required="an operation whose result the loop yields to a tensor destination",
            found=_found(loop),
            fix="tile a reduction dim by this loop, then vectorize the loop round it",
        )
    for inner, index in carried:
        if inner.is_parallel:
            raise ctx.fail(
                f"{inner.name} is parallel: its iterations hand no value to the next",
                op=inner,
                required="a sequential loop",
                found=inner.opcode,
                fix="hoist before `parallelize`, or do without `parallel`",
            )
        if isinstance(inner.destinations[index].type, TensorType):
            hoist_accumulator(ctx, inner, index)


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

"""Reductions in lanes, in memory: what the iterations of a vector contribute is combined lane by lane, and the lanes at
the end. Lanes behind the last iteration keep what they have."""

from collections.abc import Sequence

from tcpx.payload.indexing_maps import dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Range, Value
from tcpx.payload.ops.vector import Mask
from tcpx.payload.sizes import Dim, is_equal, maximum, mod
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType, VectorType, dtype_of
from tcpx.transform import new
from tcpx.transform.bufferization.loop_nests import Nest


def rounds(bounds: Range, width: int) -> tuple[Dim, Dim, Dim]:
    """The first iteration of a range, what is behind the last, and what is behind the last whole vector."""
    first, end = bounds
    count = maximum(0, end - first)
    return first, first + count, first + count - mod(count, width)


def begin_lanes(op: Structured, nest: Nest, width: int) -> list[Value]:
    """What each lane of the accumulators starts with."""
    starts = zip(Reduction(op).neutrals() or (), op.acc_types, strict=True)
    return [nest.build(new.broadcast(nest.build(new.literal(n, t)), (), VectorType((width,), t))) for n, t in starts]


def where_counted(nest: Nest, made: Sequence[Value], before: Sequence[Value]) -> list[Value]:
    """What an iteration of lanes makes of accumulators, where there is an iteration for the lane."""
    if nest.lanes is None or is_equal(nest.lanes[1].count, nest.lanes[1].width) is True:
        return [*made]
    strip = nest.lanes[1]
    mask = nest.build(Mask.of(strip.count, strip.width))
    return [nest.build(new.select(mask, a, b)) for a, b in zip(made, before, strict=True)]


def end_lanes(op: Structured, nest: Nest, lanes: Sequence[Value], before: Sequence[Value]) -> Sequence[Value]:
    """The lanes of accumulators combined, and with what was there before."""
    return Reduction(op).joined(nest.build, before, nest.insert(_over_lanes(op, lanes)).results)


def _over_lanes(op: Structured, lanes: Sequence[Value]) -> Operation:
    """A detached reduction of vectors to numbers, by the combiner of an operation."""
    types = [dtype_of(value.type) for value in lanes]
    body, both = (Block([("", t) for t in given]) for given in (types, types * 2))
    body.append(new.yielded(body.args))
    found = Reduction(op).joined(
        lambda made: both.append(made).result, both.args[: len(types)], both.args[len(types) :]
    )
    both.append(new.yielded(found))
    attributes = {
        "iterators": (("lane", "reduction"),),
        "maps": (*[dims("lane")] * len(types), *[()] * len(types)),
        "neutral": tuple(Reduction(op).neutrals() or ()),
        "commutative": True,
    }
    kinds: list[ScalarType] = types
    return new.generic(lanes, kinds, attributes, [body, both])

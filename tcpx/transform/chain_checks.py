"""What loops must do so that an operation may be computed in them, before or behind what they carry.

Loops that `tile` makes do so. Loops that are written in a payload may write a part of their destination, write it in
some iterations, or read what another iteration wrote.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.ir import Block, Operation
from tcpx.payload.ops.gml_st import Conditional, If, Loop, Materialize, StYield
from tcpx.payload.subsets import over_iterations
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import shape_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.destinations import Chain, Link, complete, is_unwritten


def check_computes_all(ctx: TransformContext, consumer: Operation, chains: Iterable[Chain]) -> None:
    """Raise ScheduleError unless the loops compute all elements of what a consumer reads, in every iteration."""
    for chain in chains:
        for link in chain.links:
            if not (_always_yields(link.loop.body, [link.store]) or _yields_at_the_end(link, chain)):
                raise _fail(ctx, consumer, link, "an iteration may leave its elements as they are")
            _check_covers(ctx, consumer, link)


def check_starts_all(ctx: TransformContext, producer: Operation, chain: Chain) -> None:
    """Raise ScheduleError unless each element that a producer starts is read once, where it is then written."""
    for outer, inner in pairwise(chain.links):
        start = inner.loop.operands[inner.index]
        reads = _reads(outer)
        is_whole = reads == [inner.loop] and outer.subset.is_full(shape_of(start.type), context_at(inner.loop).names)
        if not (is_whole or (reads == [start.defining_op] and _reads_what_it_writes(reads[0], outer))):
            raise _fail(ctx, producer, inner, f"it does not start from the tile of {outer.loop.name} alone")
        _check_covers(ctx, producer, outer)
    last = chain.links[-1]
    stores = last.loop.yields_to(last.index)
    reads = _reads(last)
    if len(reads) != 1 or not _reads_what_it_writes(reads[0], last):
        raise _fail(ctx, producer, last, "an iteration reads other elements than it writes")
    if not _always_yields(last.loop.body, stores):
        raise _fail(ctx, producer, last, "an iteration may leave its elements as they are")
    _check_covers(ctx, producer, last)


def may_be_changed_in_place(chain: Chain) -> bool:
    """Whether no iteration reads elements of the destinations that another one, or this one before, has written."""
    inner = (link.loop for link in chain.links[1:])
    for link, below in zip(chain.links, [*inner, None], strict=True):
        if any(op is not below and not _reads_what_it_writes(op, link) for op in _reads(link)):
            return False
    return True


def _reads(link: Link) -> list[Operation]:
    """What reads the destination of a link."""
    return [user for user, k in link.loop.destinations[link.index].uses if Memory(user).part_read(k) is not None]


def _reads_what_it_writes(op: Operation, link: Link) -> bool:
    """Whether an operation reads the elements that an iteration writes, before it does."""
    stores = link.loop.yields_to(link.index)
    return isinstance(op, Materialize) and op.subset == link.subset and all(_stands_before(op, s) for s in stores)


def _stands_before(op: Operation, other: Operation) -> bool:
    """Whether an operation runs before another in an iteration of the loops round both."""
    below = {a.parent: a for a in (other, *other.ancestors())}
    return any(a.parent in below and a.order < below[a.parent].order for a in (op, *op.ancestors()))


def _always_yields(block: Block, stores: Sequence[StYield]) -> bool:
    """Whether each run of a block has one of some yields."""
    return any(
        op in stores or (isinstance(op, Conditional) and all(_always_yields(b, stores) for b in op.regions))
        for op in block.ops
    )


def _yields_at_the_end(link: Link, chain: Chain) -> bool:
    """Whether a yield runs where the loops of a chain are on their last iterations."""
    last = complete(tuple(each.loop for each in chain.links)).comparisons
    block, found = link.store.parent, True
    while block is not None and block is not link.loop.body:
        branch = block.parent
        found = found and isinstance(branch, If) and block is branch.then
        found = found and isinstance(branch, If) and set(branch.predicate.comparisons) <= set(last)
        block = branch.parent if branch is not None else None
    return found


def _check_covers(ctx: TransformContext, op: Operation, link: Link) -> None:
    """Raise ScheduleError unless the iterations of a loop write all of its destination, where it had values before."""
    shape = shape_of(link.loop.destinations[link.index].type)
    if is_unwritten(link.loop.operands[link.index]) or (
        link.is_reduction and link.subset.is_full(shape, context_at(link.loop).names)
    ):
        return
    written = over_iterations(link.subset, link.loop.var, shape, context_at(link.loop).names)
    if written is None or not written.is_full(shape, context_at(link.loop).names):
        raise _fail(ctx, op, link, "its iterations may leave other elements as they are")


def _fail(ctx: TransformContext, op: Operation, link: Link, why: str) -> ScheduleError:
    loop: Loop = link.loop
    return ctx.fail(
        f"the loop {loop.name} may not compute all that it carries to or from %{op.name}: {why}",
        op=loop,
        required="iterations that each read and write their own elements, and together write all",
        found=f"a yield to {link.subset.text()} of {loop.destinations[link.index].type}",
        fix=Direction(f"leave this statement out; `tile({ctx.name_of(op)}, ..)` makes a loop of its own"),
    )

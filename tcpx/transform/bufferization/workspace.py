"""Where each buffer of the workspace lies: hardly more memory than is live at once, for sizes that are expressions.

Within a block a buffer is live from its allocation to its last use; all that is inside a loop or branch is one item,
live where the loop or branch stands, and so are the workspace of a function that is called and the slots of all threads
of a parallel loop. Branches lie over each other.

Items are stacked in an order: each as low as those before it allow that are live at the same time, whatever the sizes
are. It is the order in which items lie that are placed one by one in the lowest gap where they fit: in program order,
or the largest first (Pisarchyk and Lee, arXiv 2001.03288), then again with what lay on top before all others. Where
sizes depend on symbols, they are placed so for several values of the symbols, and the order is kept that wastes least
where it wastes most.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, inf
from typing import Final

from tcpx.payload.contexts import context_in
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.ops.memory import Alloc, View
from tcpx.payload.sizes import (
    Dim,
    Max,
    Size,
    Symbol,
    align_up,
    evaluate,
    is_equal,
    maximum,
    minimum,
    product,
    substitute,
    symbols,
    upper_expression,
)
from tcpx.payload.sizes.arithmetic import Comparisons
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.sizes.expressions import total
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.samples import samples
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType, row_major
from tcpx.records import frozen
from tcpx.transform.bufferization.program_order import ProgramOrder

ALIGNMENT: Final = 64
"""Bytes of a cache line, and of the widest vector."""
PAGE: Final = 4096
"""Loads and stores whose addresses differ by a multiple of this are mistaken for each other."""
ROUNDS: Final = 24
"""How often items are placed again, with what lay on top before all others."""
MOST_COMPARED: Final = 4_000_000
"""Of so many pairs of items in all placements; with more, items are placed again twice."""
MOST_ALTERNATIVES: Final = 12
"""Sizes of which it is not known which is the largest, up to which each is compared by itself."""


@frozen
class Place:
    """An offset in the workspace, in bytes, and the distance to the same of the next thread: 0 where all share it."""

    offset: Dim = 0
    step: Dim = 0


@frozen
class Workspace:
    """Bytes of the workspace of a function, how many of them are live at once, and where its buffers lie."""

    size: Dim
    live: Dim
    places: Mapping[Operation, Place]


@frozen
class _Item:
    """Buffers that are live from one position of a block to another, and what they need together."""

    first: int
    last: int
    memory: Workspace


def plan(func: FuncOp, threads: int) -> Workspace:
    """Plan the buffers of a function that are in space `arena`, for this many threads."""
    return _Planner(func, threads).run()


class _Planner:
    def __init__(self, func: FuncOp, threads: int) -> None:
        self.func, self.order, self.threads = func, ProgramOrder(func), threads
        self.symbols = {symbol.name: symbol.size() for symbol in func.symbols}

    def run(self) -> Workspace:
        return self._block(self.func.body, EMPTY, False)

    def _outside(self, size: Dim, branch: Context) -> Dim:
        """A size that is needed in a branch, as it is asked for outside of it: no larger than its condition allows.

        Only such sizes can be compared with those of other branches.
        """
        bounded: dict[Symbol, Dim] = {}
        for symbol in symbols(size):
            upper, declared = branch.upper_bound(symbol.size()), self.symbols[symbol.name]
            bounded[symbol] = declared if upper is None else minimum(declared, upper)
        return maximum(0, substitute(size, bounded))

    def _block(self, block: Block, here: Context, in_parallel: bool) -> Workspace:
        """What the buffers of a block need, and where each lies in it."""
        items = [item for op in block.ops if (item := self._item(op, here, in_parallel)) is not None]
        size, live, offsets = _stack(items, here.names)
        places = {
            op: Place(offset + place.offset, place.step)
            for item, offset in zip(items, offsets, strict=True)
            for op, place in item.memory.places.items()
        }
        return Workspace(size, live, places)

    def _item(self, op: Operation, around: Context, in_parallel: bool) -> _Item | None:
        here = self.order.index(op)
        match op:
            case Alloc() if isinstance(op.result.type, BufferType) and op.result.type.space == "arena":
                size = size_in_bytes(op.result.type, around.names)
                return _Item(here, self._last_use(op.result, here), Workspace(size, size, {op: Place()}))
            case Loop() | Conditional():
                shares = isinstance(op, Loop) and op.is_parallel and not in_parallel
                contexts = [context_in(op, k) for k in range(len(op.regions))]
                pairs = zip(op.regions, contexts, strict=True)
                planned = [self._block(region, inner, in_parallel or shares) for region, inner in pairs]
                places = {inner: place for held in planned for inner, place in held.places.items()}
                pairs = list(zip(planned, contexts, strict=True))
                size = around.maximum(*(self._outside(held.size, inner) for held, inner in pairs))
                live = around.maximum(*(self._outside(held.live, inner) for held, inner in pairs))
                if shares:
                    step = pitch(size, around.names)
                    size, live = self.threads * step, self.threads * live
                    places = {inner: Place(place.offset, step) for inner, place in places.items()}
                return _Item(here, here, Workspace(size, live, places)) if places else None
            case _:
                size, live = (upper_expression(d, known=around.names) for d in Memory(op).workspace)
                return _Item(here, here, Workspace(size, live, {op: Place()})) if size != 0 else None

    def _last_use(self, value: Value, here: int) -> int:
        """The position, in the block of the definition, of the last operation that uses a buffer or a view of it."""
        block = value.owner.parent if isinstance(value.owner, Operation) else None
        last = here
        for user in value.users:
            around = self.order.ancestor(user, block) if block is not None else None
            last = max(last, self.order.index(around) if around is not None else here)
            if isinstance(user, View) and user.parent is block:
                last = max(last, self._last_use(user.result, last))
        return last


def _stack(items: Sequence[_Item], known: KnownSymbols) -> tuple[Dim, Dim, list[Dim]]:
    """Bytes that items need, how many of them are live at once, and the offset of each item."""
    before = list(_live_before(items))
    comparisons = Comparisons([size for item in items for size in (item.memory.size, item.memory.live)], known)
    together = [total(items[k].memory.live for k in (here, *others)) for here, others in enumerate(before)]
    live = _largest(together, comparisons)
    sizes = [pitch(item.memory.size, known) for item in items]
    beside = [list(others) for others in before]
    for here, others in enumerate(before):
        for other in others:
            beside[other].append(here)
    offsets: list[Dim] = [0] * len(items)
    ends: dict[int, list[Dim]] = {}
    for here in _best_order(sizes, before, beside, known):
        offsets[here] = _largest([end for other in beside[here] for end in ends.get(other, ())], comparisons)
        ends[here] = [start + sizes[here] for start in _alternatives(offsets[here])]
    return _largest([end for held in ends.values() for end in held], comparisons), live, offsets


def _live_before(items: Sequence[_Item]) -> Iterator[list[int]]:
    """For each item, those before it that are live where it begins to be. All that are live at once are so where one of
    them begins to be."""
    live: list[int] = []
    for number, item in enumerate(items):
        live = [k for k in live if items[k].last >= item.first]
        yield live
        live = [*live, number]


def _largest(sizes: Sequence[Dim], comparisons: Comparisons) -> Dim:
    return maximum(0, *dict.fromkeys(sizes), comparisons=comparisons)


def _alternatives(size: Dim) -> Sequence[Dim]:
    """The sizes of which this one is the largest: sums with each of them are compared, not sums with a maximum."""
    match size:
        case Size(terms=(((Max(args=args),), 1),), constant=0) if len(args) <= MOST_ALTERNATIVES:
            return args
        case _:
            return (size,)


def _best_order(
    sizes: Sequence[Dim], before: Sequence[Sequence[int]], beside: Sequence[Sequence[int]], names: KnownSymbols
) -> list[int]:
    """The order of stacking that wastes least. `beside` are the items that each is live together with, `before` those
    of them that come before it."""
    program = list(range(len(sizes)))
    if not any(before):
        return program
    values = ([evaluate(size, sample) for size in sizes] for sample in samples(sizes, names))
    sampled = list(dict.fromkeys(map(_proportions, values)))
    least = [max((sum(s[k] for k in (n, *held)) for n, held in enumerate(before)), default=0) for s in sampled]

    def waste(order: Sequence[int], most: float = inf) -> float:
        """How many times what is live at once is needed, for the sample where that is most, or `most` and more."""
        found = 0.0
        for sample, bound in zip(sampled, least, strict=True):
            found = max(found, _stacked(order, sample, beside) / max(1, bound))
            if found >= most:
                break
        return found

    best, lowest = program, waste(program)
    compared = 2 * len(sampled) * sum(map(len, beside))
    rounds = max(2, min(ROUNDS, MOST_COMPARED // max(1, compared)))
    for known in sampled:
        for first in (program, sorted(program, key=lambda k: -known[k])):
            placing = first
            for _ in range(rounds):
                if lowest <= 1:
                    return best
                starts, ends = _placed(placing, known, beside)
                order = sorted(program, key=starts.__getitem__)
                found = waste(order, lowest)
                if found < lowest:
                    best, lowest = order, found
                top = max(program, key=ends.__getitem__)
                if placing[0] == top:
                    break
                placing = [top, *(k for k in placing if k != top)]
    return best


def _proportions(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes in the largest unit that they share: what is wasted of them, and in which order, is the same."""
    unit = gcd(*sizes) or 1
    return tuple(size // unit for size in sizes)


def _stacked(order: Sequence[int], sizes: Sequence[int], beside: Sequence[Sequence[int]]) -> int:
    """Where the last of items ends: in this order, each is placed above all placed ones that it must not overlap."""
    ends = [0] * len(order)
    for item in order:
        ends[item] = sizes[item] + max([ends[k] for k in beside[item]], default=0)
    return max(ends, default=0)


def _placed(order: Sequence[int], sizes: Sequence[int], beside: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Where items begin and end that are placed in this order, each as low as there is room for its size."""
    starts, ends = [-1] * len(order), [0] * len(order)
    for item in order:
        lying = [(starts[k], ends[k]) for k in beside[item] if starts[k] >= 0]
        starts[item] = _lowest_gap(lying, sizes[item])
        ends[item] = starts[item] + sizes[item]
    return starts, ends


def _lowest_gap(lying: Sequence[tuple[int, int]], size: int) -> int:
    """As low as there is room."""
    start = 0
    for other, end in sorted(lying):
        if start + size <= other:
            break
        start = max(start, end)
    return start


def size_in_bytes(type_: BufferType, known: KnownSymbols) -> Dim:
    """Bytes from the first to the last element of a buffer, for all iterations of the loops round it."""
    shape = tuple(upper_expression(d, known=known) for d in type_.shape)
    strides = tuple(upper_expression(s, known=known) for s in type_.strides)
    if all(is_equal(a, b, known) is True for a, b in zip(strides, row_major(shape), strict=True)):
        return product(shape) * type_.dtype.bytes
    last: Dim = 1
    for extent, stride in zip(shape, strides, strict=True):
        last = last + (extent - 1) * stride
    return maximum(0, last, known=known) * type_.dtype.bytes


def pitch(size: Dim, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """Bytes from the start of a buffer to that of the next: an odd number of cache lines, so never one of pages."""
    return align_up(size + ALIGNMENT, 2 * ALIGNMENT, known) - ALIGNMENT

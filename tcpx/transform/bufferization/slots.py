"""State that takes turns in the slots of one array, where an iteration would compute it elsewhere and copy it back.

What an iteration computes is written to a slot that the iteration does not read. State that becomes other state moves
on by a slot: nothing is copied.
"""

from collections.abc import Iterator, Sequence

from tcpx.payload.distances import changes_in
from tcpx.payload.ir import Block, FuncOp, Operation, Value, is_in
from tcpx.payload.ops.gml_st import For, Loop, Materialize, StYield, full_like, runs_at_most_once, trip_count
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Var, product
from tcpx.payload.sizes.arithmetic import floordiv, maximum, mod
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.bufferization.placement import Placement
from tcpx.transform.bufferization.program_order import operations
from tcpx.transform.bufferization.storage import READ_ONLY


@frozen
class Chain:
    """Destinations of a loop, each of which becomes the next one in every iteration; the last becomes what `end`
    yields, which is the first one where `is_ring`."""

    members: tuple[Value, ...]
    end: StYield
    is_ring: bool


def placed_in_slots(rewriter: Rewriter, func: FuncOp) -> Placement:
    """The places of all values, after state that would be copied in each iteration of a loop got slots.

    Slots stay only where they leave fewer copies in the loop.
    """
    placement = Placement(func)
    for loop in [op for op in operations(func.body) if isinstance(op, For) and _repeats(rewriter, op)]:
        tried: set[Value] = set()
        while (chain := _candidate(loop, placement, tried)) is not None:
            tried.add(chain.end.destination)
            slots = _best_number(rewriter, func, (loop, chain), _work(loop, placement))
            if slots is not None:
                _alternate(rewriter, loop, chain, slots)
            placement = Placement(func)  # rolling back has made other operations
    return placement


def _best_number(rewriter: Rewriter, func: FuncOp, state: tuple[For, Chain], before: tuple[int, int]) -> int | None:
    """The number of slots with which a loop copies the least; None if it copies no less than before. With one slot more
    than members, what is computed may read all of them."""
    loop, chain = state
    length = len(chain.members)
    found: list[tuple[tuple[int, int], int]] = []
    for slots in range(max(2, length), length + 1 if chain.is_ring else length + 2):
        mark = rewriter.mark()
        _alternate(rewriter, loop, chain, slots)
        found.append((_work(loop, Placement(func)), slots))
        rewriter.rollback(mark)
    least, slots = min(found, default=(before, 0))
    return slots if least < before else None


def _repeats(rewriter: Rewriter, loop: Loop) -> bool:
    """Whether it is a loop of the payload that may have several iterations; those of a schedule have new names."""
    return loop.name.split("~")[0] in rewriter.first_names and not runs_at_most_once(loop)


def _copies(loop: Loop, placement: Placement) -> list[tuple[Value, Tile]]:
    """The destinations of a loop to which its iterations copy what they computed elsewhere, or of which they copy what
    they read, and what is written, one for each copy."""
    effects, places = placement.effects, placement.places
    carried = {effects.place(d).memory: d for d in loop.destinations if effects.of(d) is not None}
    copied: list[tuple[Value, Tile]] = []
    for write in effects.writes:
        if write.source is None or not is_in(write.op, loop) or not effects.is_active(write):
            continue
        target, source = (places.place(storage).memory for storage in (write.target, write.source))
        if target in carried and source.kind not in READ_ONLY:
            copied.append((carried[target], write.place(places).tile))
        elif isinstance(write.op, Materialize) and source in carried:
            copied.append((carried[source], write.place(places).tile))
    return copied


def _work(loop: Loop, placement: Placement) -> tuple[int, int]:
    """How much an iteration copies: the copies of sizes that are not known, and the elements of the others."""
    counts = [product(tile.sizes) for _, tile in _copies(loop, placement)]
    known = [n for n in counts if isinstance(n, int)]
    return len(counts) - len(known), sum(known)


def _candidate(loop: Loop, placement: Placement, tried: set[Value]) -> Chain | None:
    """A chain to which something is copied, and that was not tried; `tried` has the destinations of their ends."""
    copied = {destination for destination, _ in _copies(loop, placement)}
    for chain in _chains(loop, placement) if copied else ():
        if chain.end.destination not in tried and any(member in copied for member in chain.members):
            return chain
    return None


def _chains(loop: Loop, placement: Placement) -> Iterator[Chain]:
    """All chains of destinations that each have one yield, after everything that reads them. What is not yielded is in
    no slot but that of the same destination: where one becomes another, all of it is yielded."""
    yields = {d: ends[0] for k, d in enumerate(loop.destinations) if len(ends := loop.yields_to(k)) == 1}
    yields = {d: end for d, end in yields.items() if _is_last(loop, d, end, placement)}
    following = {d: other for d, end in yields.items() if (other := _taken(end)) in yields and other is not d}
    taken = list(following.values())
    following = {d: other for d, other in following.items() if taken.count(other) == 1 and d.type == other.type}
    done: set[Value] = set()
    heads = [d for d in yields if d not in following.values()]
    for head in (*heads, *following):
        members: list[Value] = []
        current: Value | None = head
        while current is not None and current not in done:
            members.append(current)
            done.add(current)
            current = following.get(current)
        end = yields[members[-1]] if members else None
        if end is not None and (len(members) == 1 or end.is_of_all):
            yield Chain(tuple(members), end, current is head)


def _taken(end: StYield) -> Value | None:
    """The value of which all is yielded to all of a destination."""
    if not end.is_of_all:
        return None
    made = end.value.defining_op
    if isinstance(made, Materialize) and made.is_of_all:
        return made.source
    return end.value


def _is_last(loop: Loop, destination: Value, end: StYield, placement: Placement) -> bool:
    """Whether nothing reads a destination after its yield, which is in the body of the loop and writes the same
    elements in each iteration."""
    start = loop.operands[loop.destinations.index(destination)].defining_op
    if end.parent is not loop.body or not isinstance(destination.type, TensorType):
        return False
    if start is not None and Memory(start).has_own_memory:
        return False
    tile, order = end.subset, placement.order
    if changes_in(loop, tile):
        return False
    for user, _ in destination.uses:
        at = order.ancestor(user, loop.body)
        if at is None or order.index(at) > order.index(end):
            return False
        if user is not end and any(move.to is destination for move in Memory(user).moves()):
            return False
    return True


def _alternate(rewriter: Rewriter, loop: For, chain: Chain, slots: int) -> None:
    """Carry one array of slots in place of the members of a chain. Member k is in slot k of the first iteration, and
    one further in each later one."""
    length, first = len(chain.members), chain.members[0]
    at = [loop.destinations.index(member) for member in chain.members]
    turn = floordiv(loop.var.size() - loop.var.lower, loop.var.step)
    type_ = TensorType((slots, *shape_of(first.type)), dtype_of(first.type))
    starts = [loop.operands[k] for k in at]
    if length == 1 and not chain.end.is_of_all:
        starts += starts  # what is not yielded stays as it was: in both slots
    start = _in_slots(rewriter, loop, starts, type_)
    for member in chain.members[:-1]:
        rewriter.erase(loop.yields_to(loop.destinations.index(member))[0])
    written, end = Tile.full(shape_of(first.type)) if chain.is_ring else chain.end.subset, chain.end
    _read_slots(
        rewriter,
        InsertPoint.start(loop.body),
        chain.members,
        (first, type_),
        [mod(turn + k, slots) for k in range(length)],
    )
    if chain.is_ring:
        rewriter.erase(end)
    else:
        rewriter.set_operand(end, 1, first)
        rewriter.set_attribute(end, "subset", _slot(mod(turn + length, slots), written))
    turns = maximum(0, trip_count(loop))
    results = [loop.results[k] for k in at]
    _read_slots(
        rewriter, InsertPoint.after(loop), results, (results[0], type_), [mod(turns + k, slots) for k in range(length)]
    )
    rewriter.set_operand(loop, at[0], start)
    for k in sorted(at[1:], reverse=True):
        rewriter.remove_block_arg(loop.body, k)
        rewriter.remove_result(loop, k)
    rewriter.set_operands(loop, [value for k, value in enumerate(loop.operands) if k not in at[1:]])


def _read_slots(
    rewriter: Rewriter,
    point: InsertPoint,
    values: Sequence[Value],
    array: tuple[Value, TensorType],
    slots: Sequence[Dim],
) -> None:
    """Let what reads values read slots of an array instead, which is the first one of them, of another type."""
    value, type_ = array
    shapes = [shape_of(value.type) for value in values]
    rewriter.set_type(value, type_)
    made: list[Operation] = []
    for slot, shape in zip(slots, shapes, strict=True):
        part = Materialize.of(value, _slot(slot, Tile.full(shape)))
        made.append(rewriter.insert(part, point, value.name))
        point = InsertPoint.after(made[-1])
    for old, part in zip(values, made, strict=True):
        rewriter.replace_uses(old, part.result, lambda user: user not in made)


def _slot(slot: Dim, tile: Tile) -> Tile:
    """A part of a value as a part of one slot."""
    dropped = (0, *(dim + 1 for dim in tile.dropped))
    return Tile((slot, *tile.offsets), (1, *tile.sizes), (1, *tile.strides), dropped)


def _in_slots(rewriter: Rewriter, loop: For, starts: Sequence[Value], type_: TensorType) -> Value:
    """An array with values in its first slots."""
    base = loop.results[0].name
    empty = rewriter.insert(new.empty(type_), InsertPoint.before(loop), base).result
    var = Var(rewriter.fresh_name(loop, f"{base}/slots"), 0, 1, 1)
    filled = rewriter.insert(For.over(var, [empty], Block([("", type_)])), InsertPoint.before(loop), base)
    filled.location = loop.location
    for slot, start in enumerate(starts):
        put = StYield.of(start, filled.destinations[0], _slot(slot, full_like(start)))
        rewriter.insert(put, InsertPoint.end(filled.body))
    return filled.result

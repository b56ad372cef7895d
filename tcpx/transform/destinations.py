"""The chain of loops that carries one value: from the outermost loop's result down to the tile computed inside."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, VerifyError
from tcpx.payload.distances import changes_in, distance
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Operation, Value, is_in
from tcpx.payload.ops.gml_st import Loop, Materialize, OnSubset, StYield, trip_count
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, Symbol, Var, to_text, variables
from tcpx.payload.sizes.bounds import is_less_equal
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tcpx.payload.subsets import Tile, compose
from tcpx.payload.types import Type, shape_of, with_shape
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.editing import erase_dead, first_of, is_undefined, loops_stepping, whole_of


@frozen
class Link:
    """One loop of a chain: which destination it is, and the yield that writes it."""

    loop: Loop
    index: int
    store: StYield

    @property
    def subset(self) -> Tile:
        """What one iteration yields, relative to the destination."""
        return self.store.subset

    @property
    def is_reduction(self) -> bool:
        """Whether every iteration yields the same subset: the loop steps a reduction."""
        return not is_stepped_by(self.subset, self.loop)

    @property
    def is_disjoint(self) -> bool:
        """Whether iterations provably yield disjoint subsets."""
        return distance(self.loop, self.subset).is_zero


def is_stepped_by(tile: Tile, loop: Loop) -> bool:
    """Whether iterations of the loop have subsets of their own."""
    return changes_in(loop, tile)


@frozen
class Chain:
    """Links from the outermost loop to the innermost, where `store.operands[0]` is the tile's value."""

    links: tuple[Link, ...]

    @property
    def top(self) -> Loop:
        return self.links[0].loop

    @property
    def value(self) -> Value:
        """The value the innermost loop yields."""
        return self.links[-1].store.operands[0]

    @property
    def reductions(self) -> tuple[Loop, ...]:
        """The loops that step a reduction, outermost first."""
        return tuple(link.loop for link in self.links if link.is_reduction)

    def global_tile(self, depth: int | None = None) -> Tile:
        """The subset of the outermost result that one iteration of link `depth` (the innermost) yields."""
        links = self.links if depth is None else self.links[: depth + 1]
        tile = links[0].subset
        for link in links[1:]:
            tile = compose(tile, link.subset)
        return tile


def chain_of(result: Value, inner: Loop, exclusive: bool = False) -> Chain | None:
    """The chain from `result` (of a loop) down to the yields in the body of `inner`; None if there is none.

    `exclusive`: in `inner` several yields, in branches, may write one subset; the link then names the first.
    """
    links: list[Link] = []
    value = result
    while True:
        loop = value.defining_op
        if not isinstance(loop, Loop):
            return None
        index = loop.results.index(value)
        stores = loop.yields_to(index)
        several = exclusive and loop is inner and bool(stores) and all(s.subset == stores[0].subset for s in stores)
        if len(stores) != 1 and not several:
            return None
        links.append(Link(loop, index, stores[0]))
        if loop is inner:
            return Chain(tuple(links))
        value = stores[0].operands[0]


def chain_into(value: Value, inner: Loop) -> Chain | None:
    """The chain that starts where `value` is the init of a loop and ends in the body of `inner`."""
    for user, index in value.uses:
        if isinstance(user, Loop) and is_in(inner, user):
            found = chain_of(user.results[index], inner, exclusive=True)
            if found is not None:
                return found
    return None


def first(loops: tuple[Loop, ...]) -> Predicate:
    """Every loop is on its first iteration."""
    return Predicate(tuple(Comparison("==", Size.of(loop.var), loop.var.lower) for loop in loops))


def complete(loops: tuple[Loop, ...]) -> Predicate:
    """Every loop is on its last iteration."""
    return Predicate(tuple(Comparison(">=", Size.of(loop.var) + loop.var.step, loop.var.upper) for loop in loops))


def run_at_least_once(rewriter: Rewriter, loops: tuple[Loop, ...]) -> None:
    """Raise the upper bound of each loop, outermost first, so that it has an iteration, where it may have none.

    Raises VerifyError where the body cannot have an iteration with nothing in it: it reads what a loop in it would not
    have filled, or a tile whose size is what is left behind its offset.
    """
    outermost = next((loop for loop in loops if _may_have_none(loop)), None)
    if outermost is None:
        return
    before = outermost.var
    _check_steps(loops)
    sound = [op for op in outermost.walk() if _fault_on_nothing(op) is None]
    for loop in loops:
        if not _may_have_none(loop):  # an inner loop may have none once the iterations of an outer one are raised
            continue
        var = loop.var
        new = Var(var.name, var.lower, context_at(loop).maximum(var.upper, var.lower + 1), var.step)
        sizes: dict[Symbol | Var, Dim] = {var: Size.of(new)}
        rewriter.set_attribute(loop, "var", new)
        rewriter.substitute(loop.body.ops, sizes)
        for op in list(loop.walk()):
            if isinstance(op, Materialize):
                _read_nothing_beyond(rewriter, op, new, loop, var)
        for op in loop.walk():
            if isinstance(op, StYield) and _writes_beyond(op, new):
                raise _needs_iteration(outermost, before, f"{op.subset.text()} would leave %{op.destination.name}")
            if isinstance(op, Structured) and any(loop in loops_stepping(op, name) for name in _fixed_reductions(op)):
                raise _needs_iteration(outermost, before, f"%{op.name} declares how much it reduces")
    for op in sound:
        fault = _fault_on_nothing(op)
        if fault is not None:
            raise _needs_iteration(outermost, before, fault)


def _writes_beyond(op: StYield, var: Var) -> bool:
    """Whether what a loop with a raised range writes is not known to be in its destination, as a slot is not that the
    destination does not have."""
    subset, shape, known = op.subset, shape_of(op.destination.type), context_at(op).names
    return any(
        var in variables(offset) and is_less_equal(offset + size, extent, known) is not True
        for offset, size, extent in zip(subset.offsets, subset.sizes, shape, strict=True)
    )


def _fixed_reductions(op: Structured) -> list[str]:
    """The reduction dims of an operation that it declares the extent of, where that is never 0: no operand that is
    empty makes the dim empty."""
    fixed = [it for it in op.iterators() if it.is_reduction and it.extent is not None]
    known = context_at(op).names
    return [it.name for it in fixed if is_less_equal(1, op.size_of(it.name), known) is True]


def _check_steps(loops: Iterable[Loop]) -> None:
    """Raise VerifyError unless each loop that may have no iteration steps a dim of an operation in it, which is empty
    then."""
    for loop in filter(_may_have_none, loops):
        ops = (op for op in loop.walk() if isinstance(op, Tileable))
        if not any(loop in loops_stepping(op, it.name) for op in ops for it in op.iterators()):
            raise _needs_iteration(loop, loop.var, f"{loop.name} steps no dim of an operation in it")


def _may_have_none(loop: Loop) -> bool:
    """Whether nothing proves that a loop has an iteration."""
    return not loop.is_counted or is_less_equal(loop.var.lower + 1, loop.var.upper, context_at(loop).names) is not True


def _needs_iteration(loop: Loop, var: Var, why: str) -> VerifyError:
    return loop.error(
        f"{loop.name} may have no iteration, and its body has a tile of fixed size",
        required=f"at least one iteration, or operations on tiles that may be empty: {why}",
        found=f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}",
        fix=Direction("state in the payload that the size is at least 1, or fuse before the producers"),
    )


def _fault_on_nothing(op: Operation) -> str | None:
    """What is not known to be right about an operation: that its tile has a size, that its loop fills what it makes."""
    known = context_at(op).names
    if isinstance(op, OnSubset) and any(is_less_equal(0, size, known) is not True for size in op.subset.sizes):
        return f"{op.subset.text()} of %{op.subset_of.name} would have no size"
    if isinstance(op, Loop) and _may_have_none(op):
        for index, dest in enumerate(op.destinations):
            if is_unwritten(op.operands[index]) and not all(_fills(op, dest, s) for s in op.yields_to(index)):
                return f"{op.name} would fill nothing of %{op.operands[index].name}"
    return None


def is_unwritten(value: Value) -> bool:
    """Whether a destination is part of memory that nothing has written yet."""
    value = whole_of(value)
    while (first := first_of(value)) is not None:
        value = whole_of(first)
    return is_undefined(value)


def _fills(loop: Loop, dest: Value, store: StYield) -> bool:
    """Whether a destination is known to be empty where the loop that fills it, along a dim of it, has no iteration."""
    if not loop.is_counted:
        return False
    extents, known = (loop.var.upper - loop.var.lower, trip_count(loop)), context_at(loop).names
    return any(
        loop.var in variables(offset) and is_less_equal(size, extent, known) is True
        for offset, size in zip(store.subset.offsets, shape_of(dest.type), strict=True)
        for extent in extents
    )


def _read_nothing_beyond(rewriter: Rewriter, op: Materialize, var: Var, loop: Loop, before: Var) -> None:
    """Let a tile whose size was the whole step end where its source does: in a loop without iterations it is empty.

    Raises VerifyError where what reads the tile needs all of it, or would pad it (a sum over padding is no empty sum),
    and where the tile is one slot of a dim that its value does not have, which cannot be empty.
    """
    subset = op.subset
    sizes, here = list(subset.sizes), context_at(op)
    dims = zip(subset.offsets, subset.strides, shape_of(op.operands[0].type), strict=True)
    for dim, (offset, stride, extent) in enumerate(dims):
        left = offset + 1 if stride == -1 else extent - offset
        if var in variables(offset) and is_less_equal(sizes[dim], left, here.names) is not True:
            sizes[dim] = here.minimum(sizes[dim], here.not_negative(left))
    if tuple(sizes) == subset.sizes:
        return
    shorter = replace(subset, sizes=tuple(sizes))
    whole = shape_of(op.result.type)
    rewriter.set_attribute(op, "subset", shorter)
    rewriter.set_type(op.result, with_shape(op.result.type, shorter.shape))
    try:
        _check_slots(op)
        for user in op.result.users:
            user.verify()
            if new.padded(user) is not None:
                _check_padding(user, whole)
    except VerifyError as error:
        raise _needs_iteration(loop, before, error.diagnostic.message) from None


def _check_slots(op: Materialize) -> None:
    """Raise VerifyError where a dim that the value of a tile does not have may be empty."""
    for dim in op.subset.dropped:
        if is_less_equal(1, op.subset.sizes[dim], context_at(op).names) is not True:
            raise op.error(
                "a slot would be empty",
                required=f"a tile of 1 in dim {dim}",
                found=to_text(op.subset.sizes[dim]),
            )


def _check_padding(op: Operation, before: tuple[Dim, ...]) -> None:
    """Raise VerifyError where a pad fills up a dim that it took over whole when its operand had the shape `before`."""
    for was, now, result in zip(before, shape_of(op.operands[0].type), shape_of(op.result.type), strict=True):
        if was == result != now:
            raise op.error(
                "an empty tile would be padded",
                required=f"a tile of {to_text(result)}",
                found=f"{to_text(now)} in {op.operands[0].type}",
            )


def add_destination(
    rewriter: Rewriter,
    loops: Sequence[Loop],
    ends: Sequence[Operation],
    type_: Type,
    tiles: Sequence[Tile],
    base: str,
) -> list[Value]:
    """Give loops, each of which stands in the one before, one more destination of this type.

    `tiles[d]` is what loop d yields, relative to its destination; that of loop d + 1 stands behind `ends[d]`. Returns
    the new destinations, outermost first; the innermost has no yield yet.
    """
    dests: list[Value] = []
    start = rewriter.insert(new.empty(type_), InsertPoint.before(loops[0]), f"{base}.out").result
    for depth, loop in enumerate(loops):
        rewriter.set_operands(loop, [*loop.operands, start])
        dest = rewriter.add_block_arg(loop.body, start.type, base)
        result = rewriter.add_result(loop, start.type, base)
        if depth:
            rewriter.insert(StYield.of(result, dests[-1], tiles[depth - 1]), InsertPoint.after(ends[depth - 1]))
        dests.append(dest)
        if depth + 1 < len(loops):
            start = rewriter.insert(
                Materialize.of(dest, tiles[depth]), InsertPoint.before(loops[depth + 1]), f"{base}.t"
            ).result
    return dests


def relative(outer: Tile, inner: Tile) -> Tile:
    """The subset `inner` of the same value, seen from inside `outer`."""
    return Tile(tuple(i - o for o, i in zip(outer.offsets, inner.offsets, strict=True)), inner.sizes)


def sink_destination(rewriter: Rewriter, loop: Loop, index: int) -> None:
    """A destination whose result nothing uses, and that no iteration hands to the next, is made inside the loop."""
    result = loop.results[index]
    stores = loop.yields_to(index)
    if result.uses or not is_undefined(loop.operands[index]) or not _private(loop, index, stores):
        return
    dest = loop.destinations[index]
    inner: list[tuple[Loop, int]] = []
    for user, _ in list(dest.uses):
        if isinstance(user, Materialize):
            made = rewriter.insert(
                new.empty(with_shape(user.result.type, shape_of(user.result.type))), InsertPoint.before(user), "out"
            )
            rewriter.replace_op(user, [made.result])
    for store in stores:
        value = store.operands[0]
        rewriter.erase(store)
        definition = value.defining_op
        if isinstance(definition, Loop):
            inner.append((definition, definition.results.index(value)))
        else:
            erase_dead(rewriter, [value])
    if dest.uses:
        return
    start = loop.operands[index]
    rewriter.remove_result(loop, index)
    rewriter.remove_block_arg(loop.body, index)
    rewriter.set_operands(loop, [v for k, v in enumerate(loop.operands) if k != index])
    erase_dead(rewriter, [start])
    for nested, position in inner:
        sink_destination(rewriter, nested, position)


def _private(loop: Loop, index: int, stores: list[StYield]) -> bool:
    """Whether no iteration reads what an earlier one wrote to the destination."""
    dest = loop.destinations[index]
    others = [user for user, _ in dest.uses if not isinstance(user, StYield)]
    if not others:
        return True
    subsets = [s.subset for s in stores]
    reads: list[Operation] = [u for u in others if isinstance(u, Materialize)]
    return (
        len(reads) == len(others)
        and all(distance(loop, s).is_zero for s in subsets)
        and all(isinstance(u, Materialize) and u.subset == subsets[0] for u in reads)
    )

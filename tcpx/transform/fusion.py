"""Fusion: pull a producer into a loop, or a consumer behind the end of a reduction inside a loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tcpx.payload.bounds import is_equal
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.interfaces import Box, Structured, Tileable
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If, Loop, Materialize, StYield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.types import dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.destinations import (
    Chain,
    add_destination,
    chain_into,
    chain_of,
    complete,
    first,
    is_stepped_by,
    relative,
    run_at_least_once,
    sink_destination,
)
from tcpx.transform.editing import Copies, erase_dead, read_subset, source_name, whole_of
from tcpx.transform.tiling import pad_value_to


def position(op: Operation) -> int:
    """Where an operation stands in its block."""
    return op.parent.index(op) if op.parent is not None else -1


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is or encloses `op`."""
    here: Operation | None = op
    while here is not None and here.parent is not block:
        here = here.parent_op
    return here


# -- consumers -------------------------------------------------------------------------------------------------------


def fuse_consumer(ctx: TransformContext, consumer: Tileable, into: Loop, padded: bool) -> None:
    """Move `consumer`, and all on the paths from `into` to it, behind the value it needs inside `into`.

    Of a tile that is `padded` there it computes the padding too, or only what is kept.
    """
    rewriter = ctx.rewriter
    block = consumer.parent
    top = ancestor_in(into, block) if block is not None else None
    if block is None or not isinstance(top, Loop) or position(top) > position(consumer):
        raise ctx.fail(
            f"%{consumer.name} does not follow the loop {into.name}",
            op=consumer,
            required="a consumer in a block that encloses the loop, behind it",
            found=f"%{consumer.name} before the loop, or in another block",
        )
    moved = _path(ctx, top, consumer)
    sources = [r for r in top.results if any(user in moved for user in r.users)]
    if len(sources) != 1:
        raise ctx.fail(
            f"%{consumer.name} uses no result, or several, of the loops round {into.name}",
            op=consumer,
            required="one result of the outermost loop",
            found=", ".join(f"%{r.name}" for r in sources) or "none",
        )
    chain = chain_of(sources[0], into)
    if chain is None:
        raise ctx.fail(
            f"%{sources[0].name} is not computed tile by tile in {into.name}",
            op=consumer,
            required="one yield per loop from the outermost loop down to the loop fused into",
            found=f"%{sources[0].name} has another structure",
        )
    for link in chain.links:
        before = None if link.is_reduction else _copy_before(link.loop, link.index)
        if before is not None:
            raise _several_copies(ctx, consumer, before, link.loop)
        if not link.is_reduction and not link.is_disjoint:
            raise ctx.fail(
                f"the loop {link.loop.name} does not step its producer in disjoint tiles",
                op=link.loop,
                required="disjoint tiles of a parallel dim, or a reduction",
                found=link.subset.text(),
            )
    fused = _FusedConsumer(ctx, chain, sources[0], moved, consumer, padded)
    fused.run()
    rewriter.visited += len(moved)


def _path(ctx: TransformContext, top: Loop, consumer: Tileable) -> list[Tileable]:
    """The operations on the paths from the results of `top` to `consumer`, in program order."""
    block = consumer.parent
    reached: set[int] = {id(r) for r in top.results}
    behind: list[Operation] = []
    for op in block.ops[position(top) + 1 : position(consumer) + 1] if block is not None else []:
        if any(id(v) in reached for inner in op.walk() for v in inner.operands):
            behind.append(op)
            reached.update(id(r) for r in op.results)
    needed: set[int] = {id(consumer)}
    for op in reversed(behind):
        if any(id(user) in needed for r in op.results for user in r.users):
            needed.add(id(op))
    path: list[Tileable] = []
    for op in behind:
        if id(op) not in needed:
            continue
        if isinstance(op, Loop) and op.copy_path:
            raise _several_copies(ctx, consumer, top, op)
        if not isinstance(op, Tileable):
            raise ctx.fail(f"%{op.name} on the way cannot be tiled", op=op, required="Tiling", found=op.opcode)
        outside = [u for r in op.results for u in r.users if id(u) not in needed]
        if op is not consumer and outside:
            raise ctx.fail(
                f"%{op.name}, on the way to %{consumer.name}, is used elsewhere",
                op=op,
                required=f"a value that only leads to %{consumer.name}",
                found=f"used by %{outside[0].name or outside[0].opcode}",
            )
        path.append(op)
    if consumer not in path:
        raise ctx.fail(
            f"%{consumer.name} does not use what the loop {top.name} computes",
            op=consumer,
            required=f"a path from {top.name} to %{consumer.name}",
            found="none",
        )
    return path


def _several_copies(ctx: TransformContext, consumer: Operation, first: Loop, last: Loop) -> ScheduleError:
    return ctx.fail(
        f"%{consumer.name} needs what several copies of a loop compute: {first.name} and {last.name}",
        op=last,
        required="one loop that computes all of it",
        found=f"{last.name}, on the way to %{consumer.name}",
        fix=f"fuse({consumer.name}, into: ...) before the loop is peeled or split",
    )


def _copy_before(loop: Loop, index: int) -> Loop | None:
    """The copy of a peeled or split loop that computes what this one goes on from; None of a loop that is whole."""
    made = whole_of(loop.operands[index]).defining_op
    return made if isinstance(made, Loop) and not set(made.origins).isdisjoint(loop.origins) else None


class _FusedConsumer:
    """The rewrite of one consumer fusion."""

    def __init__(
        self,
        ctx: TransformContext,
        chain: Chain,
        source: Value,
        moved: Sequence[Tileable],
        last: Tileable,
        padded: bool,
    ) -> None:
        self.ctx, self.rewriter = ctx, ctx.rewriter
        self.chain, self.source, self.moved, self.last, self.padded = chain, source, moved, last, padded
        self.copies: Copies = {}

    def run(self) -> None:
        self._make_operands_dominate()
        tile = self.chain.global_tile()
        result_tile = self._result_tile(tile)
        levels = [self._result_tile(self.chain.global_tile(d)) for d in range(len(self.chain.links))]
        shares = (
            dtype_of(self.source.type) == dtype_of(self.last.result.type)
            and shape_of(self.source.type) == shape_of(self.last.result.type)
            and all(level == self.chain.global_tile(d) for d, level in enumerate(levels))
            and all(any(user is m for m in self.moved) for user in self.source.users)
        )
        reductions = self.chain.reductions
        inner = self.chain.links[-1]
        if shares:
            dest, dest_tile = inner.loop.destinations[inner.index], inner.subset
            self.rewriter.replace_uses(self.last.result, self.source)
        else:
            tiles = [levels[0]] + [relative(a, b) for a, b in pairwise(levels)]
            dests = add_destination(self.rewriter, self.chain, self.last.result, tiles, source_name(self.last))
            dest, dest_tile = dests[-1], tiles[-1]
            self.rewriter.replace_uses(self.last.result, self.chain.top.results[-1])
        if not reductions:
            anchor = inner.store
            value = self._compute(tile, result_tile, anchor)
            self.rewriter.insert(StYield.of(value, dest, dest_tile), InsertPoint.before(anchor))
            if shares:
                self._drop_store(anchor)
        else:
            self._guarded(tile, result_tile, dest, dest_tile, shares)
        self._erase_moved()
        # A loop that steps what a moved operation reduces whole, in one tile, may be parallel.
        joined = tuple(link.loop for link in self.chain.links if not is_stepped_by(result_tile, link.loop))
        run_at_least_once(self.rewriter, joined)
        if not shares and not self.source.uses:
            self._sink()

    def _erase_moved(self) -> None:
        """The operations outside, and what they alone used; the loops stay, even where nothing uses what they make."""
        for op in reversed(self.moved):
            self.rewriter.erase(op)
        operands = [v for op in self.moved for v in op.operands]
        erase_dead(self.rewriter, [v for v in operands if v.defining_op is not self.chain.top], self.copies)

    def _drop_store(self, store: StYield) -> None:
        value = store.operands[0]
        self.rewriter.erase(store)
        erase_dead(self.rewriter, [value])

    def _sink(self) -> None:
        """The accumulator is not needed outside any more: make it inside as many loops as possible."""
        loop, index = self.chain.links[0].loop, self.chain.links[0].index
        sink_destination(self.rewriter, loop, index)

    def _guarded(self, tile: Tile, result_tile: Tile, dest: Value, dest_tile: Tile, shares: bool) -> None:
        inner = self.chain.links[-1]
        store = inner.store
        then, orelse = Block(), Block()
        guard = If([], [], {"predicate": complete(self.chain.reductions)}, [then, orelse])
        guard.schedule_location = self.ctx.location
        self.rewriter.insert(guard, InsertPoint.before(store))
        self.rewriter.insert(Yield([]), InsertPoint.start(then))
        self.rewriter.insert(Yield([]), InsertPoint.start(orelse))
        if shares or not self.source.uses:
            self.rewriter.move(store, InsertPoint.start(orelse))
        value = self._compute(tile, result_tile, then.ops[-1])
        self.rewriter.insert(StYield.of(value, dest, dest_tile), InsertPoint.before(then.ops[-1]))

    def _make_operands_dominate(self) -> None:
        """What the moved operations use besides the path must be computed before the loop."""
        top = self.chain.top
        block = top.parent
        if block is None:
            return
        for op in self.moved:
            for value in op.operands:
                self._hoist_before(value, top, block)

    def _hoist_before(self, value: Value, top: Loop, block: Block) -> None:
        op = value.defining_op
        if op is None or op.parent is not block or op in self.moved or position(op) <= position(top):
            return
        for operand in dict.fromkeys(v for inner in op.walk() for v in inner.operands):
            self._hoist_before(operand, top, block)
        self.rewriter.move(op, InsertPoint.before(top))

    def _boxes(self, tile: Tile) -> dict[Value, Tile]:
        """The subset of each moved operation's result that belongs to a subset of the source."""
        tiles: dict[Value, Tile] = {self.source: tile}
        for op in self.moved:
            tiles[op.result] = op.result_tile(self._box(op, tiles))
        return tiles

    def _box_of(self, op: Tileable, tiles: dict[Value, Tile]) -> Box | None:
        """The iterations of a moved operation that belong to tiles of its operands; None if they are no box."""
        boxes = [
            op.iteration_of_operand(k, tiles[v]) if k < len(op.inputs) else op.iteration_of_result(tiles[v])
            for k, v in enumerate(op.operands)
            if v in tiles
        ]
        return boxes[0] if all(other == boxes[0] for other in boxes) else None

    def _box(self, op: Tileable, tiles: dict[Value, Tile]) -> Box:
        box = self._box_of(op, tiles)
        if box is None:
            raise self.ctx.fail(
                f"%{op.name} does not use the tile as a box of its own iterations",
                op=op,
                required="maps that are projected permutations, the same for each use",
                found=op.opcode,
            )
        for it, offset, size, extent in zip(op.iterators(), box.offsets, box.sizes, op.extents(), strict=True):
            if it.is_reduction and not (is_equal(offset, 0) is True and is_equal(size, extent) is True):
                raise self.ctx.fail(
                    f"%{op.name} reduces `{it.name}`, which the loops step in tiles",
                    op=op,
                    required=f"all of `{it.name}` in one tile",
                    found=f"a tile of it in {self.chain.links[-1].loop.name}",
                )
        return box

    def _result_tile(self, tile: Tile) -> Tile:
        return self._boxes(tile)[self.last.result]

    def _compute(self, tile: Tile, result_tile: Tile, before: Operation) -> Value:
        """The moved operations on one tile, before an operation of the inner loop; returns the result's tile."""
        whole = self.chain.value
        padded, shape = _unsliced(whole)
        tiles = self._boxes(tile)
        if not self.padded or self._reduces_padding(tiles, Tile(tile.offsets, tuple(shape))):
            padded, shape = whole, shape_of(whole.type)
        wide_tiles: dict[Value, Tile] = {self.source: Tile(tile.offsets, tuple(shape))}
        made: dict[Value, Value] = {self.source: padded}
        for op in self.moved:
            box = self._box(op, tiles)
            wide = _padded_box(self._box_of(op, wide_tiles), box)
            wide_tiles[op.result] = op.result_tile(wide)
            operands: list[Value] = []
            for k, v in enumerate(op.operands):
                if v in made:
                    operands.append(made[v])
                    continue
                is_init = k >= len(op.inputs)
                part = op.result_tile(box) if is_init else op.operand_tile(k, box)
                wanted = (op.result_tile(wide) if is_init else op.operand_tile(k, wide)).shape
                operands.append(self._operand(op, k, v, part, wanted, before))
            new = self.rewriter.insert(op.on_box(operands, wide), InsertPoint.before(before), source_name(op))
            new.name = op.name
            self.rewriter.continue_as(op, new)
            made[op.result] = new.result
        value = made[self.last.result]
        if shape_of(value.type) == result_tile.shape:
            return value
        kept = Tile(tuple(0 for _ in result_tile.shape), result_tile.shape)
        return self.rewriter.insert(
            Materialize.of(value, kept), InsertPoint.before(before), f"{source_name(self.last)}.t"
        ).result

    def _reduces_padding(self, tiles: dict[Value, Tile], padded: Tile) -> bool:
        """Whether an operation would reduce, or show elsewhere, what the padded source holds behind its tile, which may
        be anything."""
        wide_tiles: dict[Value, Tile] = {self.source: padded}
        for op in self.moved:
            if not op.pads_operands:
                return True
            box = self._box(op, tiles)
            wide = _padded_box(self._box_of(op, wide_tiles), box)
            if any(it.is_reduction and n != m for it, n, m in zip(op.iterators(), box.sizes, wide.sizes, strict=True)):
                return True
            wide_tiles[op.result] = op.result_tile(wide)
        return False

    def _operand(
        self, op: Tileable, index: int, value: Value, part: Tile, shape: Sequence[Dim], before: Operation
    ) -> Value:
        definition = value.defining_op
        if isinstance(definition, Structured) and definition.is_movement and not _reads_chain(definition, self.chain):
            return pull(self.rewriter, definition, part, shape, before, self.copies)
        read = read_subset(self.rewriter, value, part, before)
        reduced = any(it.is_reduction for it in op.iterators())
        fill = op.pad_value(index, reduced) if index < len(op.inputs) else 0
        return pad_value_to(self.rewriter, read, shape, fill, not reduced, before)


def _reads_chain(op: Operation, chain: Chain) -> bool:
    return any(v.defining_op is chain.top for v in op.operands)


def _unsliced(value: Value) -> tuple[Value, Sequence[Dim]]:
    """The padded value a slice at the origin was taken from."""
    definition = value.defining_op
    if isinstance(definition, Materialize) and all(o == 0 for o in definition.subset.offsets):
        source = definition.operands[0]
        if source.defining_op is not None and not definition.subset.dropped:
            return source, shape_of(source.type)
    return value, shape_of(value.type)


def _padded_box(padded: Box | None, box: Box) -> Box:
    """A box with as many iterations as the padded one; itself where padding changes nothing."""
    return box if padded is None else box.resized(padded.sizes)


# -- producers -------------------------------------------------------------------------------------------------------


def pull(
    rewriter: Rewriter, op: Tileable, part: Tile, shape: Sequence[Dim], before: Operation, copies: Copies
) -> Value:
    """A copy of `op` that computes the subset `part` of its result, padded to `shape`, before an operation.

    Data movement that it reads is copied with it; all are noted in `copies`.
    """
    rising = part.rising()
    if rising != part:
        straight = pull(rewriter, op, rising, rising.shape, before, copies)
        turned = Materialize.of(straight, part.order_in_rising())
        backwards = rewriter.insert(turned, InsertPoint.before(before), f"{source_name(op)}.t").result
        return pad_value_to(rewriter, backwards, shape, 0, True, before)
    box = op.iteration_of_result(part)
    if box is None:
        raise op.error(
            "this subset of the result is no box of iterations",
            required="a subset that a box of iterations computes",
            found=part.text(),
        )
    given = tuple(shape)
    if not op.pads_operands:
        shape = part.shape
    wide = _padded_box(op.iteration_of_result(Tile(part.offsets, tuple(shape))), box)
    operands: list[Value] = []
    for k, value in enumerate(op.inputs):
        definition = value.defining_op
        tile = op.operand_tile(k, box)
        wanted = op.operand_tile(k, wide).shape
        if isinstance(definition, Structured) and definition.is_movement:
            operands.append(pull(rewriter, definition, tile, wanted, before, copies))
            continue
        read = read_subset(rewriter, value, tile, before)
        operands.append(pad_value_to(rewriter, read, wanted, op.pad_value(k, False), True, before))
    if op.init is not None:
        read = read_subset(rewriter, op.init, part, before)
        operands.append(pad_value_to(rewriter, read, shape, op.neutral() or 0, True, before))
    made = rewriter.insert(op.on_box(operands, wide), InsertPoint.before(before), source_name(op))
    made.name = op.name
    made.copy_path = op.copy_path
    copies.setdefault(op, []).append(made)
    return made.result if op.pads_operands else pad_value_to(rewriter, made.result, given, 0, True, before)


def fuse_producer(ctx: TransformContext, producer: Tileable, into: Loop, recompute: bool) -> None:
    """Compute `producer` tile by tile inside `into`, where its result is read, or where it starts a reduction."""
    result = producer.result
    _sink_reads(ctx.rewriter, result, into)
    if (not recompute and _reads(result, into)) or not (_reads(result, into) or chain_into(result, into)):
        _fuse_path(ctx, _between(producer, into), into, recompute)
        if producer.parent is None:  # what it leads to took it along
            return
        _sink_reads(ctx.rewriter, result, into)
    inside, chain = _reads(result, into), chain_into(result, into)
    if inside:
        _fuse_reads(ctx, producer, into, inside, recompute)
    elif chain is not None:
        _fuse_start(ctx, producer, chain, recompute)
    else:
        raise ctx.fail(
            f"the loop {into.name} does not use %{producer.name}",
            op=producer,
            required=f"a path from %{producer.name} into {into.name}",
            found="none",
        )


def _reads(value: Value, into: Loop) -> list[Operation]:
    """The operations inside `into` that read a value."""
    return [user for user in value.users if user is not into and user.is_in(into)]


def _fuse_path(ctx: TransformContext, path: Sequence[Tileable], into: Loop, recompute: bool) -> None:
    """Fuse operations on the paths from a producer to `into`, the last one first; data movement is copied with what it
    leads to."""
    for op in reversed(path):
        _sink_reads(ctx.rewriter, op.result, into)
        if _reads(op.result, into) or not (isinstance(op, Structured) and op.is_movement):
            fuse_producer(ctx, op, into, recompute)


def _sink_reads(rewriter: Rewriter, value: Value, into: Loop) -> None:
    """Move the subsets and paddings of a value that only `into` uses to the start of its body."""
    for user in value.users:
        shows = isinstance(user, Materialize) or new.padded(user) is not None
        if not shows or user.is_in(into) or not into.is_in(user.parent_op or user):
            continue
        _sink_reads(rewriter, user.results[0], into)
        if user.results[0].uses and all(u is not into and u.is_in(into) for u in user.results[0].users):
            rewriter.move(user, InsertPoint.start(into.body))


def _between(producer: Tileable, into: Loop) -> list[Tileable]:
    """The tileable operations on the paths from `producer` to `into`, in program order."""
    block = producer.parent
    end = ancestor_in(into, block) if block is not None else None
    if block is None or end is None:
        return []
    reached = {id(producer.result)}
    found: list[Tileable] = []
    for op in block.ops[position(producer) + 1 : position(end)]:
        if isinstance(op, Tileable) and any(id(v) in reached for v in op.operands):
            reached.add(id(op.result))
            found.append(op)
    needed: list[Tileable] = []
    keep: set[int] = set()
    for op in reversed(found):
        if any(user.is_in(end) or id(user) in keep for user in op.result.users):
            keep.add(id(op))
            needed.append(op)
    return list(reversed(needed))


def _fuse_reads(
    ctx: TransformContext, producer: Tileable, into: Loop, inside: Sequence[Operation], recompute: bool
) -> None:
    rewriter, result = ctx.rewriter, producer.result
    outside = [u for u in result.users if u is into or not u.is_in(into)]
    if outside and not recompute:
        raise ctx.fail(
            f"%{producer.name} is also used outside the loop {into.name}",
            op=producer,
            required="a producer that only the loop uses",
            found=f"used by %{outside[0].name or outside[0].opcode}",
            fix="recompute: true",
        )
    dead: list[Value] = []
    copies: Copies = {}
    pulled: dict[tuple[int, Tile, tuple[Dim, ...]], Value] = {}
    for user in sorted(inside, key=lambda u: _replaced(u).order):
        _pull_at(ctx, producer, user, dead, copies, pulled)
    anchor, *others = copies[producer]
    for made in others:
        rewriter.set_origins(made, producer.origins)
    if not outside:
        rewriter.continue_as(producer, anchor)
    erase_dead(rewriter, [*dead, result], copies)


def _pull_at(
    ctx: TransformContext,
    producer: Tileable,
    user: Operation,
    dead: list[Value],
    copies: Copies,
    pulled: dict[tuple[int, Tile, tuple[Dim, ...]], Value],
) -> None:
    """Replace one use inside the loop by the producer on the subset that is used, one for all uses of a subset in a
    block; notes what is dead then."""
    rewriter, result = ctx.rewriter, producer.result
    if not isinstance(user, Materialize):
        whole = Tile.full(shape_of(result.type))
        made = pull(rewriter, producer, whole, whole.shape, user, copies)
        for index, value in enumerate(list(user.operands)):
            if value is result:
                rewriter.set_operand(user, index, made)
        return
    target = _replaced(user)
    shape = shape_of(target.results[0].type)
    key = id(target.parent), user.subset, tuple(shape)
    if key not in pulled:
        pulled[key] = pull(rewriter, producer, user.subset, shape, target, copies)
    rewriter.replace_uses(target.results[0], pulled[key])
    dead.append(target.results[0])


def _replaced(user: Operation) -> Operation:
    """What a pulled producer takes the place of: a read, or its padding where that may be anything."""
    if not isinstance(user, Materialize):
        return user
    readers = user.result.users
    pad = readers[0] if len(readers) == 1 else None
    return pad if isinstance(pad, Tileable) and pad.is_free and new.padded_behind(pad) is not None else user


def _fuse_start(ctx: TransformContext, producer: Tileable, chain: Chain, recompute: bool) -> None:
    """`producer` makes the first value of a chain of destinations: compute it on the first step of a reduction.

    What reads nothing, as a fill, is made again for its other uses without being asked for.
    """
    rewriter = ctx.rewriter
    link = chain.links[-1]
    dest = link.loop.destinations[link.index]
    reads = [u for u in dest.users if isinstance(u, Materialize)]
    shared = len(producer.result.uses) != 1
    if len(reads) != 1 or (shared and producer.operands and not recompute):
        raise ctx.fail(
            f"%{producer.name} does not only start the destination of {link.loop.name}",
            op=producer,
            required="one read of the destination in the loop, and no other use",
            found=f"{len(reads)} reads, {len(producer.result.uses)} uses",
            fix="recompute: true" if len(reads) == 1 else None,
        )
    read = reads[0]
    readers = read.result.users
    padded = readers[0] if len(readers) == 1 and new.padded_behind(readers[0]) is not None else None
    target: Operation = padded or read
    shape = shape_of(target.results[0].type)
    tile = chain.global_tile()
    reductions = chain.reductions
    name = source_name(producer)
    copies: Copies = {}
    if not reductions:
        made = pull(rewriter, producer, tile, shape, target, copies)
        rewriter.replace_uses(target.results[0], made)
        erase_dead(rewriter, [target.results[0]])
    else:
        then, orelse = Block(), Block()
        guard = If([], [target.results[0].type], {"predicate": first(reductions)}, [then, orelse])
        guard.schedule_location = ctx.location
        rewriter.insert(guard, InsertPoint.after(target), name)
        rewriter.replace_uses(target.results[0], guard.results[0])
        rewriter.insert(Yield([target.results[0]]), InsertPoint.start(orelse))
        if padded is not None:
            rewriter.move(padded, InsertPoint.start(orelse))
        rewriter.move(read, InsertPoint.start(orelse))
        end = rewriter.insert(Yield([target.results[0]]), InsertPoint.start(then))
        made = pull(rewriter, producer, tile, shape, end, copies)
        rewriter.set_operand(end, 0, made)
        run_at_least_once(rewriter, reductions)
    start = rewriter.insert(new.empty(producer.result.type), InsertPoint.before(chain.top), f"{name}.out")
    rewriter.set_operand(chain.top, chain.links[0].index, start.result)
    if not shared:
        rewriter.continue_as(producer, copies[producer][0])
    erase_dead(rewriter, [producer.result], copies)

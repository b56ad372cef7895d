"""Fusion: move a producer into a loop, or a consumer into a loop after a reduction in it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.indexing_maps import grows, map_dim
from tcpx.payload.interfaces import Box, Structured, Tileable, pads_freely
from tcpx.payload.ir import Block, Operation, Value, is_in, parent_op
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If, Loop, Materialize, StYield, runs_at_most_once
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, to_text
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.view import Padding, ViewLike
from tcpx.payload.types import dtype_of, shape_of
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.chain_checks import check_computes_all, check_starts_all, may_be_changed_in_place
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
from tcpx.transform.editing import Copies, erase_dead, first_change, kept_of, read_subset, source_name, whole_of
from tcpx.transform.loop_order import check_counted
from tcpx.transform.payload_names import payload_name
from tcpx.transform.recomputation import Again, check_copies, check_indices, note_recomputed
from tcpx.transform.static_tiles import padded_tile
from tcpx.transform.tiling import accumulator_padding, pad_value_to
from tcpx.transform.visible import keep_visible


def position(op: Operation) -> int:
    """The position of an operation in its block."""
    return op.parent.index(op) if op.parent is not None else -1


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is or encloses `op`."""
    here: Operation | None = op
    while here is not None and here.parent is not block:
        here = parent_op(here)
    return here


# -- consumers -------------------------------------------------------------------------------------------------------


def fuse_consumer(ctx: TransformContext, consumer: Tileable, into: Loop, padded: bool) -> None:
    """Move `consumer`, and all operations on the paths from `into` to it, after the value it reads inside `into`.

    If that value is a tile that is `padded`, the consumer computes the padding too; else only the valid part.
    """
    rewriter = ctx.rewriter
    block = consumer.parent
    top = ancestor_in(into, block) if block is not None else None
    if not isinstance(top, Loop):
        raise ctx.fail(
            f"%{consumer.name} does not follow the loop {into.name}",
            op=consumer,
            required="a loop that every run of the consumer follows",
            found=f"{into.name}, in a {top.opcode if top is not None else 'block'}",
        )
    moved = _path(ctx, top, consumer)
    sources = [r for r in top.results if any(user in moved for user in r.users)]
    chains: dict[Value, Chain] = {}
    for source in sources:
        chain = chain_of(source, into)
        if chain is None:
            raise _not_in_tiles(ctx, consumer, source, into)
        chains[source] = chain
    if len({chain.links[-1].store.parent for chain in chains.values()}) != 1:
        raise ctx.fail(
            f"%{consumer.name} uses results that {into.name} yields in different branches",
            op=consumer,
            required="yields in one block",
            found=", ".join(f"%{payload_name(source)}" for source in sources),
        )
    for link in (link for chain in chains.values() for link in chain.links):
        before = None if link.is_reduction else _copy_before(link.loop, link.index)
        if before is not None:
            raise _several_copies(ctx, consumer, before, link.loop)
        if not link.is_reduction and not link.is_disjoint:
            raise ctx.fail(
                f"the loop {link.loop.name} does not step its producer in disjoint tiles",
                op=link.loop,
                required="disjoint tiles of a parallel dim, or a reduction",
                found=link.subset.text(),
                fix=_without_shift(link.loop),
            )
    check_counted(ctx, *(link.loop for chain in chains.values() for link in chain.links))
    check_computes_all(ctx, consumer, chains.values())
    _check_in_order(
        ctx, consumer, [link.loop for chain in chains.values() for link in chain.links if link.is_reduction]
    )
    _warn_of_last_iteration(ctx, consumer, next(iter(chains.values())))
    _FusedConsumer(ctx, chains, moved, consumer, padded).run()
    rewriter.visited += len(moved)


def _not_in_tiles(ctx: TransformContext, consumer: Tileable, source: Value, into: Loop) -> ScheduleError:
    """The error if a loop does not yield tiles of what the consumer reads: it names the innermost that does."""
    name, value = payload_name(source), source
    inner: Loop | None = None
    while isinstance(loop := value.defining_op, Loop) and len(stores := loop.yields_to(loop.results.index(value))) == 1:
        inner, value = loop, stores[0].value
    return ctx.fail(
        f"%{name} is not computed tile by tile in {into.name}",
        op=consumer,
        required="one yield per loop from the outermost loop down to the loop fused into",
        found=f"tiles of %{name} in {inner.name}" if inner is not None else f"several yields of %{name}",
        fix=Direction(f"fuse into {inner.name}") if inner is not None else None,
    )


def _without_shift(loop: Loop) -> str | None:
    """The `tile` to write for a loop whose last tile is shifted over the one before it."""
    padded = padded_tile(loop)
    return f"`{padded}` at {loop.schedule_location}" if padded is not None else None


def _check_in_order(ctx: TransformContext, op: Tileable, reductions: Iterable[Loop]) -> None:
    """A computation on the first or last iteration needs ordered loops. A parallel loop that scatters by unique indices
    has no order."""
    for loop in reductions:
        if loop.is_parallel:
            raise ctx.fail(
                f"%{op.name} would be computed on one iteration of {loop.name}, and these are in no order",
                op=loop,
                required="a sequential loop, or one whose iterations compute tiles of what is fused",
                found=loop.opcode,
                fix="leave this statement out",
            )


def _warn_of_last_iteration(ctx: TransformContext, consumer: Tileable, chain: Chain) -> None:
    """Warn if the loop fused into steps a reduction: the consumer runs at its end, not in its tiles."""
    link = chain.links[-1]
    if not link.is_reduction or runs_at_most_once(link.loop):
        return
    outer = next((each.loop for each in reversed(chain.links) if not each.is_reduction), None)
    name = ctx.name_of(consumer)
    if outer is None:
        fix = f"leave this statement out; `tile({name}, ...)` makes a loop of its own, behind this one"
    else:
        handle = ctx.handle_name(outer)
        into = f"`fuse({name}, into: {handle})`" if handle is not None else f"a `fuse` into the loop {outer.name}"
        fix = f"{into}, where it stands behind this loop and can be tiled"
    ctx.warn(
        f"%{consumer.name} is computed on the last iteration of the loop {link.loop.name}, all of it at once",
        consumer,
        required="a loop whose iterations compute tiles of what is fused",
        found=f"{link.loop.name}, which steps a reduction: what %{consumer.name} reads is there at its end",
        fix=fix,
    )


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
            raise ctx.fail(
                f"%{op.name} on the way cannot be tiled",
                op=op,
                required="Tiling",
                found=op.opcode,
                fix=Direction(f"tile %{consumer.name}, and fuse into that loop what leads to it"),
            )
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
        fix=Direction(f"fuse({consumer.name}, into: ...) before the loop is peeled or split"),
    )


def _copy_before(loop: Loop, index: int) -> Loop | None:
    """The copy of a peeled or split loop whose result this copy continues from; None for a whole loop."""
    made = whole_of(loop.operands[index]).defining_op
    return made if isinstance(made, Loop) and not set(made.origins).isdisjoint(loop.origins) else None


class _FusedConsumer:
    """The rewrite of one consumer fusion: moves operations into a loop, after the yields of `chains`."""

    def __init__(
        self,
        ctx: TransformContext,
        chains: Mapping[Value, Chain],
        moved: Sequence[Tileable],
        last: Tileable,
        padded: bool,
    ) -> None:
        self.ctx, self.rewriter = ctx, ctx.rewriter
        self.chains, self.moved, self.last, self.padded = chains, moved, last, padded
        self.chain = max(chains.values(), key=lambda chain: chain.links[-1].store.order)
        """The chain with the last yield."""
        self.copies: Copies = {}

    def run(self) -> None:
        self._make_operands_dominate()
        tiles = {source: chain.global_tile() for source, chain in self.chains.items()}
        levels = [
            self._result_tiles({source: chain.global_tile(d) for source, chain in self.chains.items()})
            for d in range(len(self.chain.links))
        ]
        source = self._shared(levels)
        reductions = tuple(dict.fromkeys(loop for chain in self.chains.values() for loop in chain.reductions))
        inner = self.chain.links[-1]
        writes: list[tuple[Value, Tile]] = []
        if source is not None:
            writes.append((inner.loop.destinations[inner.index], inner.subset))
            self.rewriter.replace_uses(self.last.result, source)
        else:
            for k, result in enumerate(self.last.results):
                parts = [levels[0][k]] + [relative(a[k], b[k]) for a, b in pairwise(levels)]
                loops, ends = zip(*((link.loop, link.store) for link in self.chain.links), strict=True)
                dests = add_destination(self.rewriter, loops, ends, result.type, parts, source_name(self.last))
                writes.append((dests[-1], parts[-1]))
                self.rewriter.replace_uses(result, self.chain.top.results[-1])
        if not reductions:
            self._write(tiles, writes, inner.store)
            if source is not None:
                self._drop_store(inner.store)
        else:
            self._guarded(reductions, tiles, writes, source is not None)
        self._erase_moved()
        # A loop that steps a dim which a moved operation reduces as a whole, in one tile, may be parallel.
        joined = tuple(link.loop for link in self.chain.links if not is_stepped_by(levels[-1][0], link.loop))
        run_at_least_once(self.rewriter, joined)
        if source is None:
            self._sink()

    def _shared(self, levels: Sequence[Sequence[Tile]]) -> Value | None:
        """The result of the loops that the only result can replace: it has no other use, in a loop or after."""
        if len(self.chains) != 1 or len(self.last.results) != 1:
            return None
        ((source, chain),) = self.chains.items()
        result = self.last.result
        shares = (
            may_be_changed_in_place(chain)
            and dtype_of(source.type) == dtype_of(result.type)
            and shape_of(source.type) == shape_of(result.type)
            and all(level == (chain.global_tile(d),) for d, level in enumerate(levels))
            and all(any(user is m for m in self.moved) for user in source.users)
            and all(b.loop.results[b.index].users == [a.store] for a, b in pairwise(chain.links))
        )
        return source if shares else None

    def _write(self, tiles: dict[Value, Tile], writes: Sequence[tuple[Value, Tile]], before: Operation) -> None:
        """Compute the results on one tile and yield them, before an operation of the inner loop."""
        for value, (dest, part) in zip(self._compute(tiles, before), writes, strict=True):
            self.rewriter.insert(StYield.of(value, dest, part), InsertPoint.before(before))

    def _erase_moved(self) -> None:
        """Erase the operations outside, and their unused producers. The loops stay, even with unused results."""
        for op in reversed(self.moved):
            self.rewriter.erase(op)
        operands = [v for op in self.moved for v in op.operands]
        erase_dead(self.rewriter, [v for v in operands if v.defining_op is not self.chain.top], self.copies)

    def _drop_store(self, store: StYield) -> None:
        value = store.operands[0]
        self.rewriter.erase(store)
        erase_dead(self.rewriter, [value])

    def _sink(self) -> None:
        """Move an accumulator without other uses into as many loops as possible."""
        for source in self.chains:
            if not source.uses:
                sink_destination(self.rewriter, self.chain.top, self.chain.top.results.index(source))

    def _guarded(
        self,
        reductions: tuple[Loop, ...],
        tiles: dict[Value, Tile],
        writes: Sequence[tuple[Value, Tile]],
        shares: bool,
    ) -> None:
        then, orelse = Block(), Block()
        guard = If([], [], {"predicate": complete(reductions)}, [then, orelse])
        guard.schedule_location = self.ctx.location
        self.rewriter.insert(guard, InsertPoint.before(self.chain.links[-1].store))
        self.rewriter.insert(Yield([]), InsertPoint.start(then))
        self.rewriter.insert(Yield([]), InsertPoint.start(orelse))
        for source, chain in self.chains.items():
            if shares or not source.uses:
                self.rewriter.move(chain.links[-1].store, InsertPoint.before(orelse.ops[-1]))
        self._write(tiles, writes, then.ops[-1])

    def _make_operands_dominate(self) -> None:
        """Move the other operands of the moved operations before the loop."""
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
        changed = first_change(op, InsertPoint.before(top))
        if changed is not None:
            raise self.ctx.fail(
                f"%{changed.name} changes between the loop {top.name} and what is read of it",
                op=op,
                required=f"operands that can be computed before the loop {top.name}",
                found=f"a yield to %{changed.name} before %{op.name}",
            )
        self.rewriter.move(op, InsertPoint.before(top))

    def _boxes(self, sources: Mapping[Value, Tile]) -> dict[Value, Tile]:
        """The subset of each moved operation's results that corresponds to subsets of the sources."""
        tiles = dict(sources)
        for op in self.moved:
            box = self._box(op, tiles)
            tiles |= {result: op.result_tile(box, k) for k, result in enumerate(op.results)}
        return tiles

    def _box_of(self, op: Tileable, tiles: Mapping[Value, Tile]) -> Box | None:
        """The iterations of a moved operation that correspond to tiles of its operands; None if they are no box."""
        inputs = len(op.inputs)
        boxes = [
            op.iteration_of_operand(k, tiles[v]) if k < inputs else op.iteration_of_result(tiles[v], k - inputs)
            for k, v in enumerate(op.operands)
            if v in tiles
        ]
        return boxes[0] if all(other == boxes[0] for other in boxes) else None

    def _box(self, op: Tileable, tiles: Mapping[Value, Tile]) -> Box:
        box = self._box_of(op, tiles)
        if box is None:
            raise self._no_box(op, tiles)
        for it, offset, size, extent in zip(op.iterators(), box.offsets, box.sizes, op.extents(), strict=True):
            if it.is_reduction and not (are_equal_at(op, offset, 0) and are_equal_at(op, size, extent)):
                raise self.ctx.fail(
                    f"%{op.name} reduces `{it.name}`, which the loops step in tiles",
                    op=op,
                    required=f"all of `{it.name}` in one tile",
                    found=f"a tile of it in {self.chain.links[-1].loop.name}",
                )
        return box

    def _no_box(self, op: Tileable, tiles: Mapping[Value, Tile]) -> ScheduleError:
        """The error for a moved operation whose iterations cannot be split like the tiles of its operands."""
        message, required, found = (
            f"%{op.name} does not use the tile as a box of its own iterations",
            "maps that are projected permutations, the same for each use",
            op.opcode,
        )
        for k, value in enumerate(op.inputs if isinstance(op, Structured) else ()):
            for dim, entry in enumerate(op.maps()[k] if value in tiles and isinstance(op, Structured) else ()):
                offset, size = tiles[value].offsets[dim], tiles[value].sizes[dim]
                alone = Box.at_origin(shape_of(value.type)).along(dim, offset, size)
                is_window = map_dim(entry) is None and grows(entry)
                if is_window and op.iteration_of_operand(k, Tile(alone.offsets, alone.sizes)) is None:
                    name = value.name.split(".")[0]
                    message = f"%{op.name} reads `{to_text(entry)}` of %{name} across its tiles"
                    required = "windows without an offset, a stride no less than them, and tiles by a multiple of it"
                    found = f"{counted(to_text(size), 'element')} from {to_text(offset)} on"
        producer, last = self.chain.value.defining_op or self.chain.top, self.ctx.name_of(self.last)
        name = self.ctx.name_of(producer)
        fix = Direction(f"in place of the loop round {name}: `let t = tile({last}, [...])`, `fuse({name}, into: t)`")
        return self.ctx.fail(message, op=op, required=required, found=found, fix=fix)

    def _result_tiles(self, sources: Mapping[Value, Tile]) -> tuple[Tile, ...]:
        tiles = self._boxes(sources)
        return tuple(tiles[result] for result in self.last.results)

    def _compute(self, tiles: dict[Value, Tile], before: Operation) -> list[Value]:
        """Compute the moved operations on one tile of each source, before an operation of the inner loop."""
        made = {source: chain.value for source, chain in self.chains.items()}
        if self.padded:
            padded = {source: _unsliced(value) for source, value in made.items()}
            if not self._reduces_padding(tiles, {s: Tile(tiles[s].offsets, shape_of(padded[s].type)) for s in made}):
                made = padded
        wide_tiles = {source: Tile(tiles[source].offsets, shape_of(value.type)) for source, value in made.items()}
        wanted_tiles = self._result_tiles(tiles)
        tiles = dict(tiles)
        for op in self.moved:
            box = self._box(op, tiles)
            wide = _padded_box(self._box_of(op, wide_tiles), box)
            operands: list[Value] = []
            for k, v in enumerate(op.operands):
                if v in made:
                    operands.append(made[v])
                    continue
                start = k - len(op.inputs)
                part = op.result_tile(box, start) if start >= 0 else op.operand_tile(k, box)
                wanted = (op.result_tile(wide, start) if start >= 0 else op.operand_tile(k, wide)).shape
                operands.append(self._operand(op, k, v, part, wanted, before))
            fused = self.rewriter.insert(op.on_box(operands, wide), InsertPoint.before(before), source_name(op))
            self.rewriter.rename(fused, op.name)
            self.rewriter.continue_as(op, fused)
            for k, result in enumerate(op.results):
                made[result] = fused.results[k]
                tiles[result], wide_tiles[result] = op.result_tile(box, k), op.result_tile(wide, k)
        base, point = f"{source_name(self.last)}.t", InsertPoint.before
        return [
            kept_of(self.rewriter, made[result], tile, point(before), base)
            for result, tile in zip(self.last.results, wanted_tiles, strict=True)
        ]

    def _reduces_padding(self, sources: Mapping[Value, Tile], padded: Mapping[Value, Tile]) -> bool:
        """Whether an operation would reduce, or view elsewhere, the padding of sources, whose contents are
        unspecified."""
        tiles, wide_tiles = dict(sources), dict(padded)
        for op in self.moved:
            if not Padding(op).pads_operands:
                return True
            box = self._box(op, tiles)
            wide = _padded_box(self._box_of(op, wide_tiles), box)
            if any(it.is_reduction and n != m for it, n, m in zip(op.iterators(), box.sizes, wide.sizes, strict=True)):
                return True
            for k, result in enumerate(op.results):
                tiles[result], wide_tiles[result] = op.result_tile(box, k), op.result_tile(wide, k)
        return False

    def _operand(
        self, op: Tileable, index: int, value: Value, part: Tile, shape: Sequence[Dim], before: Operation
    ) -> Value:
        definition = value.defining_op
        if isinstance(definition, Structured) and definition.is_movement and not _reads_chain(definition, self.chain):
            return pull(self.rewriter, definition, part, shape, before, self.copies)
        read = read_subset(self.rewriter, value, part, before)
        is_input = index < len(op.inputs)
        reduced = any(it.is_reduction for it in op.iterators())
        reduced = reduced and (not is_input or Padding(op).pad_value(index, True) is not None)
        fill = Padding(op).pad_value(index, reduced) if is_input else 0
        is_free = not reduced and (not is_input or pads_freely(op, index))
        return pad_value_to(self.rewriter, read, shape, fill, is_free, before)


def _reads_chain(op: Operation, chain: Chain) -> bool:
    return any(v.defining_op is chain.top for v in op.operands)


def _unsliced(value: Value) -> Value:
    """The padded value that a slice at the origin reads; the value itself if it is no such slice."""
    definition = value.defining_op
    if isinstance(definition, Materialize) and all(o == 0 for o in definition.subset.offsets):
        source = definition.operands[0]
        if source.defining_op is not None and not definition.subset.dropped:
            return source
    return value


def _padded_box(padded: Box | None, box: Box) -> Box:
    """A box with as many iterations as the padded one; the box itself if padding does not change it."""
    return box if padded is None else box.resized(padded.sizes)


# -- producers -------------------------------------------------------------------------------------------------------


def pull(
    rewriter: Rewriter,
    op: Tileable,
    part: Tile,
    shape: Sequence[Dim],
    before: Operation,
    copies: Copies,
    result: Value | None = None,
) -> Value:
    """A copy of `op` that computes the subset `part` of a result, or of the only one, padded to `shape`, before an
    operation."""
    wanted = result if result is not None else op.result
    dense = part.dense()
    if dense != part:
        computed = pull(rewriter, op, dense, dense.shape, before, copies, wanted)
        read = Materialize.of(computed, part.order_in_dense())
        value = rewriter.insert(read, InsertPoint.before(before), f"{source_name(op)}.t").result
        return pad_value_to(rewriter, value, shape, 0, True, before)
    boxes = _boxes_to_pull(op, wanted, part, shape if Padding(op).pads_operands else part.shape)
    made = _pull_box(rewriter, op, *boxes, before, copies).results[op.results.index(wanted)]
    return made if Padding(op).pads_operands else pad_value_to(rewriter, made, shape, 0, True, before)


def _boxes_to_pull(op: Tileable, result: Value, part: Tile, shape: Sequence[Dim]) -> tuple[Box, Box]:
    """The iterations that compute a subset of a result, and those that compute it padded to a shape."""
    number = op.results.index(result)
    box = op.iteration_of_result(part, number)
    if box is None:
        raise op.error(
            "this subset of the result is no box of iterations",
            required="a subset that a box of iterations computes, from the first one on where they have an order",
            found=part.text(),
        )
    return box, _padded_box(op.iteration_of_result(Tile(part.offsets, tuple(shape)), number), box)


def _pull_box(rewriter: Rewriter, op: Tileable, box: Box, wide: Box, before: Operation, copies: Copies) -> Operation:
    """A copy of `op` that computes a box of iterations, padded to a wider one, before an operation.

    Data movement that it reads is copied with it; `copies` records all copies.
    """
    operands: list[Value] = []
    for k, value in enumerate(op.inputs):
        definition = value.defining_op
        tile = op.operand_tile(k, box)
        wanted = op.operand_tile(k, wide).shape
        if isinstance(definition, Structured) and definition.is_movement:
            operands.append(pull(rewriter, definition, tile, wanted, before, copies))
            continue
        read = read_subset(rewriter, value, tile, before)
        operands.append(
            pad_value_to(rewriter, read, wanted, Padding(op).pad_value(k, False), pads_freely(op, k), before)
        )
    for k, value in enumerate(op.inits):
        read = read_subset(rewriter, value, op.result_tile(box, k), before)
        shape = op.result_tile(wide, k).shape
        operands.append(pad_value_to(rewriter, read, shape, accumulator_padding(op, k), True, before))
    made = rewriter.insert(op.on_box(operands, wide), InsertPoint.before(before), source_name(op))
    rewriter.rename(made, op.name)
    made.copy_path = op.copy_path
    copies.setdefault(op, []).append(made)
    return made


def _is_read_in_steps(op: Operation) -> bool:
    """Whether a read has strides: it skips elements, which no tile of the padding shows."""
    return any(isinstance(user, Materialize) and user.subset.has_steps for user in op.results[0].users)


def fuse_producer(ctx: TransformContext, producer: Tileable, into: Loop, again: Again, is_kept: bool = False) -> None:
    """Compute `producer` tile by tile inside `into`, where its result is read, or where it starts a reduction.

    If it `is_kept`, the loops also yield its tiles, for its other users.
    """
    for result in producer.results:
        _sink_reads(ctx.rewriter, result, into)
    is_read = _reads(producer, into)
    if (not again.always and is_read) or not (is_read or _starts(producer, into)):
        _fuse_path(ctx, _between(producer, into), into, again)
        if producer.parent is None:  # it was moved with its consumer
            return
        for result in producer.results:
            _sink_reads(ctx.rewriter, result, into)
    inside = _reads(producer, into)
    if inside:
        _fuse_reads(ctx, producer, into, inside, again, is_kept)
    elif is_kept:
        raise ctx.fail(
            f"no operation in the loop {into.name} reads %{producer.name}",
            op=producer,
            required="a producer that is read in the loop, whose tiles are kept",
            found="one that starts its destination" if _starts(producer, into) else "none",
            fix="leave `keep` out",
        )
    elif _starts(producer, into):
        _fuse_start(ctx, producer, into, again)
    else:
        raise ctx.fail(
            f"the loop {into.name} does not use %{producer.name}",
            op=producer,
            required=f"a path from %{producer.name} into {into.name}",
            found="none",
        )


def _starts(producer: Tileable, into: Loop) -> bool:
    """Whether a result is the start of a chain of destinations into a loop."""
    return any(chain_into(result, into) is not None for result in producer.results)


def _reads(producer: Tileable, into: Loop) -> list[Operation]:
    """The operations inside `into` that read a result."""
    users = dict.fromkeys(user for result in producer.results for user in result.users)
    return [user for user in users if user is not into and is_in(user, into)]


def _fuse_path(ctx: TransformContext, path: Sequence[Tileable], into: Loop, again: Again) -> None:
    """Fuse operations on the paths from a producer to `into`, the last one first; data movement is copied with its
    consumer."""
    for op in reversed(path):
        for result in op.results:
            _sink_reads(ctx.rewriter, result, into)
        if _reads(op, into) or not (isinstance(op, Structured) and op.is_movement):
            fuse_producer(ctx, op, into, again)


def _sink_reads(rewriter: Rewriter, value: Value, into: Loop) -> None:
    """Move the reads and paddings of a value that only `into` uses, with their data movement, to the start of its
    body."""
    for user in value.users:
        is_movement = isinstance(user, Structured) and user.is_movement and isinstance(value.defining_op, Materialize)
        is_padding = new.padded(user) is not None and not _is_read_in_steps(user)
        shows = isinstance(user, Materialize) or is_padding or is_movement
        if not shows or is_in(user, into) or not is_in(into, parent_op(user) or user):
            continue
        _sink_reads(rewriter, user.results[0], into)
        start = InsertPoint.start(into.body)
        is_read_there = user.results[0].uses and all(u is not into and is_in(u, into) for u in user.results[0].users)
        if is_read_there and first_change(user, start) is None:
            rewriter.move(user, start)


def _between(producer: Tileable, into: Loop) -> list[Tileable]:
    """The tileable operations on the paths from `producer` to `into`, in program order."""
    block = producer.parent
    end = ancestor_in(into, block) if block is not None else None
    if block is None or end is None:
        return []
    reached = {id(result) for result in producer.results}
    path: list[Tileable] = []
    for op in block.ops[position(producer) + 1 : position(end)]:
        if isinstance(op, Tileable) and any(id(v) in reached for v in op.operands):
            reached.update(id(result) for result in op.results)
            path.append(op)
    needed: list[Tileable] = []
    keep: set[int] = set()
    for op in reversed(path):
        if any(is_in(user, end) or id(user) in keep for result in op.results for user in result.users):
            keep.add(id(op))
            needed.append(op)
    return list(reversed(needed))


def _fuse_reads(
    ctx: TransformContext,
    producer: Tileable,
    into: Loop,
    inside: Sequence[Operation],
    again: Again,
    is_kept: bool,
) -> None:
    rewriter = ctx.rewriter
    outside = [u for result in producer.results for u in result.users if u is into or not is_in(u, into)]
    if outside and not (again.always or is_kept):
        raise ctx.fail(
            f"%{producer.name} is also used outside the loop {into.name}",
            op=producer,
            required="a producer that only the loop uses",
            found=f"used by %{outside[0].name or outside[0].opcode}",
            fix="`recompute: true` computes it twice, `keep: true` lets the loop yield it",
        )
    dead: list[Value] = []
    copies: Copies = {}
    pulled: Pulled = {}
    tiles: dict[Operation, Sequence[Tile]] = {}
    for user in sorted(inside, key=lambda u: _replaced(u).order):
        box = _box_read(producer, user)
        shown = [producer.result_tile(box, k) for k in range(len(producer.results))]
        if not (again.always or is_kept):
            check_indices(ctx, producer, into, user, shown)
        _pull_at(ctx, producer, user, dead, copies, pulled)
        tiles.setdefault(copies[producer][-1], shown)
    if not (again.always or again.at_offsets):
        check_copies(ctx, producer, into, tiles)
    note_recomputed(ctx, producer, tiles, bool(outside) and not is_kept)
    if is_kept:
        outside = []
        anchor = keep_visible(ctx, producer, into, tiles)
        copies[producer].sort(key=lambda made: made is not anchor)
    anchor, *others = copies[producer]
    for made in others:
        rewriter.set_origins(made, producer.origins)
    if not outside:
        rewriter.continue_as(producer, anchor)
    erase_dead(rewriter, [*dead, *producer.results], copies)


def _box_read(producer: Tileable, user: Operation) -> Box:
    """The iterations of a producer that compute the elements that an operation reads."""
    is_part = isinstance(user, Materialize)
    source = user.source if is_part else producer.results[0]
    part = user.subset.dense() if is_part else Tile.full(shape_of(source.type))
    return _boxes_to_pull(producer, source, part, part.shape)[0]


Pulled = dict[tuple[Hashable, ...], Sequence[Value]]
"""By block and iterations, or subset: the results that compute a part of a producer there, shared by all readers."""


def _pull_at(
    ctx: TransformContext,
    producer: Tileable,
    user: Operation,
    dead: list[Value],
    copies: Copies,
    pulled: Pulled,
) -> None:
    """Replace one use inside the loop by the producer on the used subset; uses of one subset in a block share it.
    Records what is dead afterwards."""
    rewriter = ctx.rewriter
    if not isinstance(user, Materialize):
        box = _box_read(producer, user)
        whole: tuple[Hashable, ...] = (user.parent, box, box)
        if whole not in pulled:
            pulled[whole] = _pull_box(rewriter, producer, box, box, user, copies).results
        for index, value in enumerate(list(user.operands)):
            if value in producer.results:
                rewriter.set_operand(user, index, pulled[whole][producer.results.index(value)])
        return
    target, source, part = _replaced(user), user.source, user.subset
    shape = shape_of(target.results[0].type)
    if part.has_steps:
        ctx.warn(
            f"%{producer.name} is computed between the elements that are read, too",
            producer,
            required="a tile in steps of one element",
            found=part.text(),
            fix=Direction(f"slice what %{producer.name} reads, in the payload: of that it computes what is read alone"),
        )
    first = _at_first(part, user)
    if Padding(producer).pads_operands and part.dense() == part:
        padded = _padded_shape(producer, user) if target is user else shape
        at_first = _boxes_to_pull(producer, source, first, padded)
        key: tuple[Hashable, ...] = (target.parent, *at_first)
        if key not in pulled:
            boxes = at_first if first is part else _boxes_to_pull(producer, source, part, padded)
            pulled[key] = _pull_box(rewriter, producer, *boxes, target, copies).results
        made = pulled[key][producer.results.index(source)]
        value = kept_of(rewriter, made, Tile.full(shape), InsertPoint.before(target), f"{source_name(producer)}.t")
    else:
        key = (target.parent, source, first, tuple(shape))
        if key not in pulled:
            pulled[key] = [pull(rewriter, producer, part, shape, target, copies, source)]
        (value,) = pulled[key]
    rewriter.replace_uses(target.results[0], value)
    dead.append(target.results[0])


def _at_first(part: Tile, user: Operation) -> Tile:
    """A subset with the first index of each loop in place of its variable, if the loop runs at most once."""
    loops = [op for op in user.ancestors() if isinstance(op, Loop) and runs_at_most_once(op)]
    return part.substitute({loop.var: loop.var.lower for loop in loops})


def _padded_shape(producer: Tileable, user: Operation) -> Sequence[Dim]:
    """The shape in which to compute the elements that an operation reads. If they are padded at the end with a fixed
    value, and accumulated, it is the padded shape: a full tile is computed before the padding replaces its end. Data
    movement, such as a pack, is computed in its own shape, directly at its destination."""
    shape = shape_of(user.results[0].type)
    pads = user.results[0].users
    is_moved = isinstance(producer, Structured) and (producer.is_movement or Reduction.of(producer) is not None)
    if is_moved or not pads or any(new.padded_behind(pad) is None for pad in pads):
        return shape
    readers = [op for pad in pads for op in pad.results[0].users]
    if not any(isinstance(op, Structured) and (Reduction.of(op) is not None or op.inits) for op in readers):
        return shape
    padded = {tuple(shape_of(pad.results[0].type)) for pad in pads}
    return padded.pop() if len(padded) == 1 else shape


def _replaced(user: Operation) -> Operation:
    """What a pulled producer replaces: a read, or its padding if the contents of that are unspecified."""
    if not isinstance(user, Materialize):
        return user
    readers = user.result.users
    pad = readers[0] if len(readers) == 1 else None
    return pad if isinstance(pad, Tileable) and ViewLike(pad).is_free and new.padded_behind(pad) is not None else user


def _fuse_start(ctx: TransformContext, producer: Tileable, into: Loop, again: Again) -> None:
    """Compute `producer`, the start of chains of destinations, on the first step of a reduction.

    A producer without operands, such as a fill, is copied for its other users without `recompute`.
    """
    rewriter = ctx.rewriter
    starts = [_start(ctx, producer, result, into, again) for result in producer.results if result.uses]
    several = starts if len(starts) > 1 else []
    boxes = {start.boxes(producer) for start in several}
    reductions, block = starts[0].chain.reductions, starts[0].target.parent
    _check_in_order(ctx, producer, reductions)
    if len(boxes) > 1 or any(s.chain.reductions != reductions or s.target.parent is not block for s in starts):
        raise ctx.fail(
            f"the results of %{producer.name} do not start one reduction",
            op=producer,
            required="destinations that are read in one place, as tiles of the same iterations",
            found=", ".join(f"%{payload_name(start.result)}: {start.chain.global_tile().text()}" for start in starts),
        )
    name = source_name(producer)
    copies: Copies = {}

    def made(before: Operation) -> list[Value]:
        if len(starts) == 1:
            (one,) = starts
            return [pull(rewriter, producer, one.chain.global_tile(), one.shape, before, copies, one.result)]
        op = _pull_box(rewriter, producer, *next(iter(boxes)), before, copies)
        return [op.results[producer.results.index(start.result)] for start in starts]

    targets = [start.target.results[0] for start in starts]
    first_target = min((start.target for start in starts), key=lambda op: op.order)
    if not reductions:
        for target, value in zip(targets, made(first_target), strict=True):
            rewriter.replace_uses(target, value)
        erase_dead(rewriter, targets)
    else:
        then, orelse = Block(), Block()
        guard = If([], [t.type for t in targets], {"predicate": first(reductions)}, [then, orelse])
        guard.schedule_location = ctx.location
        rewriter.insert(guard, InsertPoint.after(first_target), name)
        for target, value in zip(targets, guard.results, strict=True):
            rewriter.replace_uses(target, value)
        rewriter.insert(Yield(targets), InsertPoint.start(orelse))
        for start in reversed(starts):
            for op in dict.fromkeys((start.target, start.read)):
                rewriter.move(op, InsertPoint.start(orelse))
        end = rewriter.insert(Yield(targets), InsertPoint.start(then))
        for index, value in enumerate(made(end)):
            rewriter.set_operand(end, index, value)
        run_at_least_once(rewriter, reductions)
    for start in starts:
        before = InsertPoint.before(start.chain.top)
        empty = rewriter.insert(new.empty(start.result.type), before, f"{name}.out").result
        rewriter.set_operand(start.chain.top, start.chain.links[0].index, empty)
    if not any(result.uses for result in producer.results):
        rewriter.continue_as(producer, copies[producer][0])
    erase_dead(rewriter, producer.results, copies)


@frozen
class _Start:
    """A result that starts a chain of destinations, its only read inside, and what the computation replaces: the read,
    or its padding."""

    result: Value
    chain: Chain
    read: Materialize
    target: Operation

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(shape_of(self.target.results[0].type))

    def boxes(self, producer: Tileable) -> tuple[Box, Box]:
        """The iterations of the producer that compute the tile, and those that compute it padded."""
        return _boxes_to_pull(producer, self.result, self.chain.global_tile(), self.shape)


def _start(ctx: TransformContext, producer: Tileable, result: Value, into: Loop, again: Again) -> _Start:
    """How a result starts the destinations of a loop, if that is its only use there."""
    chain = chain_into(result, into)
    inner = chain.links[-1] if chain is not None else None
    dest = inner.loop.destinations[inner.index] if inner is not None else None
    reads = [u for u in dest.users if isinstance(u, Materialize)] if dest is not None else []
    if chain is None or len(reads) != 1 or (len(result.uses) != 1 and producer.operands and not again.always):
        raise ctx.fail(
            f"%{payload_name(result)} does not only start the destination of {into.name}",
            op=producer,
            required="one read of the destination in the loop, and no other use",
            found=f"{counted(len(reads), 'read')}, {counted(len(result.uses), 'use')}",
            fix="recompute: true" if len(reads) == 1 else None,
        )
    readers = reads[0].result.users
    padded = readers[0] if len(readers) == 1 and new.padded_behind(readers[0]) is not None else None
    check_starts_all(ctx, producer, chain)
    return _Start(result, chain, reads[0], padded or reads[0])

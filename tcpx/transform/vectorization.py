"""Vectorization: the whole body of a loop on register tiles instead of tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.indexing_maps import IndexingMap, index_operands, map_dim, map_element
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Block, CloneMap, Operation, Value, is_in
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.generic import generalize
from tcpx.payload.ops.gml_st import Conditional, Loop, Materialize, StYield
from tcpx.payload.ops.memory import Empty, Lead, Prefetch
from tcpx.payload.ops.vector import Gather, Read, ToTensor
from tcpx.payload.ops.views import FREE, Pad, View
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, to_text
from tcpx.payload.sizes.context import Context
from tcpx.payload.subsets import Tile, compose
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.view import Padding, ViewLike
from tcpx.payload.types import ScalarType, TensorType, VectorType, dtype_of, i1, shape_of, with_shape
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import erase_dead, is_undefined, rename_inside, show_views, source_name
from tcpx.transform.known_sizes import write_known_sizes
from tcpx.transform.matching import general, stand_ins
from tcpx.transform.positions import count_from_tile
from tcpx.transform.recipes import Recipes
from tcpx.transform.static_tiles import symbolic_dim, tails_round
from tcpx.transform.tiling import pad
from tcpx.transform.vectors.instruction_count import check_instructions
from tcpx.transform.vectors.lanes_in_memory import give_lanes
from tcpx.transform.vectors.literals import true_elements
from tcpx.transform.vectors.probes import discard


def vectorize(ctx: TransformContext, root: Loop) -> None:
    """Turn every operation in the body of `root` into a vector operation; reads and writes become masked."""
    facts = context_at(root)
    write_known_sizes(ctx.rewriter, root.body.ops, facts)
    show_views(ctx.rewriter, [op for op in root.walk() if op is not root])
    vectorizer = Vectorizer(ctx, root, facts)
    for op in root.walk():
        if not isinstance(op, Structured):
            continue
        is_mixed = Scan.of(op) is None and len(set(op.result_maps())) > 1
        if is_mixed and not vectorizer.stays_in_memory(op):
            _store_by(ctx.rewriter, op, [op.result_maps()[0]] * len(op.results))
        elif (across := vectorizer.lanes_across(op)) is not None:
            _store_by(ctx.rewriter, op, across)
        else:
            count_from_tile(ctx.rewriter, op, facts)
    while (computed := next(filter(vectorizer.pads_what_is_computed, root.walk()), None)) is not None:
        _compute_padding(ctx.rewriter, computed)
    vectorizer.block(root.body)
    for op in root.walk():
        if isinstance(op, Read):
            check_instructions(op, ctx.target)


def _store_by(rewriter: Rewriter, op: Structured, wanted: Sequence[IndexingMap]) -> None:
    """Store the results with their dims in the order of these maps: transposes follow the operation, and transposes of
    the initial accumulators precede it."""
    maps = op.result_maps()

    def transposed(value: Value, order: Sequence[int]) -> Value:
        if order == sorted(order):
            return value
        return rewriter.insert(new.transpose(value, order), InsertPoint.before(op), f"{value.name}.t").result

    body = general(op.on_tiles(stand_ins(op), *(shape_of(result.type) for result in op.results)))
    orders = [[a.index(entry) for entry in b] for a, b in zip(maps, wanted, strict=True)]
    starts = [transposed(init, order) for init, order in zip(op.inits, orders, strict=False)]
    made = type(body)(
        [*op.inputs, *starts],
        [with_shape(r.type, tuple(shape_of(r.type)[k] for k in o)) for r, o in zip(op.results, orders, strict=True)],
        {**body.attributes, "maps": (*body.maps(), *wanted)},
        [region.clone(CloneMap(), lambda name: name) for region in body.regions],
    )
    made.stand_for(op)
    rewriter.insert(made, InsertPoint.before(op), source_name(op))
    rewriter.rename(made, op.name)
    rewriter.continue_as(op, made)
    back = [[b.index(entry) for entry in a] for a, b in zip(maps, wanted, strict=True)]
    rewriter.replace_op(op, [transposed(value, order) for value, order in zip(made.results, back, strict=True)])


def _compute_padding(rewriter: Rewriter, op: Operation) -> None:
    """Compute the source of a padding on as many iterations as the result has elements; that is it where nothing is
    padded."""
    value = op.operands[0]
    made = value.defining_op
    if Tile.full(shape_of(op.results[0].type)).is_full(shape_of(value.type), context_at(op).names):
        rewriter.replace_op(op, [value])
    elif isinstance(made, Structured):
        names = (map_dim(entry) or "" for entry in made.result_maps()[made.results.index(value)])
        pad(rewriter, made, dict(zip(names, shape_of(op.results[0].type), strict=True)))


def _static(shape: Sequence[Dim], facts: Context) -> tuple[int, ...] | None:
    static = tuple(d for d in map(facts.value, shape) if isinstance(d, int))
    return static if len(static) == len(shape) else None


FROM_LANE: Final = "masked_load_from"
"""The instruction for a read that begins at a lane other than 0."""
MOST_JOINED: Final = 16
"""The number of vector reads, for all joined tiles, up to which reading is faster than copying (measured)."""
MOST_STEPS: Final = 32
"""Iterations of a scan that are unrolled; longer scans are a loop in memory."""


@dataclass(frozen=True, slots=True)
class ReadTile:
    """A tile in memory, which begins at the lanes `first` of a vector."""

    source: Value
    subset: Tile
    first: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class ReadTiles:
    """Consecutive tiles in a vector along one dim; other lanes contain `rest`."""

    tiles: Sequence[ReadTile]
    rest: float | int
    is_behind: bool
    """Whether it is one tile that begins at lane 0."""


def read_tiles(op: Operation) -> ReadTiles | None:
    """The tiles in memory that a padding or joining view consists of, in order and shape; None for other operations."""
    pieces = new.pieces_of_all(op) if isinstance(op, View) else None
    if not isinstance(op, View) or pieces is None:
        return None
    inner = op.operands[0].defining_op
    if isinstance(inner, View):
        shown = read_tiles(inner) if new.padded_behind(op) is not None else None
        is_same = shown is not None and (
            ViewLike(op).is_free
            or ViewLike(inner).is_free
            or ViewLike(inner).rest is None
            or str(ViewLike(inner).rest) == str(ViewLike(op).rest)
        )
        return (
            None
            if shown is None or not is_same
            else replace(shown, rest=shown.rest if ViewLike(op).is_free else ViewLike(op).rest or 0)
        )
    tiles: list[ReadTile] = []
    for piece in pieces:
        value, subset = op.operands[piece.operand], piece.tile
        if piece.permutes or piece.reshapes or any(spacing != 1 for spacing in piece.spacing):
            return None
        match value.defining_op:
            case Materialize() as part:
                value, subset = part.source, compose(part.subset, subset)
            case None:
                pass
            case _:
                return None
        tiles.append(ReadTile(value, subset, piece.first))
    is_behind = len(tiles) == 1 and pieces[0].place.is_at_origin
    return ReadTiles(tiles, ViewLike(op).rest or 0, is_behind)


class Vectorizer:
    """One run. `vectors` maps a tensor value of the old body to the vector that replaces it; `kept` maps it to the
    tensor that stores the vector for loops that read parts of it. `written_in_parts` has the results of loops that no
    iteration writes as a whole: they stay in memory, and a yield of a slice copies them."""

    def __init__(self, ctx: TransformContext, root: Loop, facts: Context) -> None:
        self.ctx, self.rewriter, self.root, self.facts = ctx, ctx.rewriter, root, facts
        self.vectors: dict[Value, Value] = {}
        self.kept: dict[Value, Value] = {}
        self.written_in_parts = set[Value]()

    def block(self, block: Block) -> None:
        """Vectorize the operations of a block in order, then erase the replaced ones."""
        before = list(block.ops)
        for op in before:
            self.operation(op)
        for op in reversed(before):
            if op.parent is block and not op.is_terminator and not Memory(op).has_side_effects:
                erase_dead(self.rewriter, op.results[:1])

    def operation(self, op: Operation) -> None:
        """Vectorize one operation."""
        if not VECTORIZED.apply(self, op) and not op.is_terminator:
            raise self.refuse(op, "a structured operation, a subset, a loop or a branch", op.opcode)

    # -- views ---------------------------------------------------------------------------------------------------

    def pads_what_is_computed(self, op: Operation) -> bool:
        """Whether an operation only pads, at the end, the result of a computation in a loop with no more iterations."""
        value = new.padded_behind(op)
        made = value.defining_op if value is not None else None
        return (
            isinstance(made, Structured)
            and is_in(made, self.root)
            and Padding(made).pads_operands
            and not self.stays_in_memory(op)
            and not self.stays_in_memory(made)
        )

    def stays_in_memory(self, op: Operation) -> bool:
        """Whether an operation stays in memory: a view that reshapes, pads between elements, or pads or joins computed
        values, and what only such views read; a scatter; a scan without lanes. A view that pads only at the end is a
        vector."""
        if isinstance(op, Structured) and (is_irregular(op) or (Scan.of(op) is not None and not self._has_lanes(op))):
            return True
        if not isinstance(op, Tileable | Materialize):
            return False
        if isinstance(op, Tileable) and new.pieces_of_all(op) is None:
            return False
        is_vector = isinstance(op, Structured | Materialize) or new.padded_behind(op) is not None
        if not is_vector and (self._is_seen_through(op) or self._read_of(op) is not None):
            return False
        shown = bool(op.result.users) and not any(isinstance(user, Structured) for user in op.result.users)
        return not is_vector or (shown and all(map(self.stays_in_memory, op.result.users)))

    def _has_lanes(self, op: Structured, maps: Sequence[IndexingMap] | None = None) -> bool:
        """Whether a scan has lanes along a parallel dim that is the last of each result, for a few steps. `maps` are
        those of its results, if they are to change."""
        if Lanes(op).scans_in_lanes:
            return True
        ends = {map_dim(result_map[-1]) if result_map else None for result_map in maps or op.result_maps()}
        its, extents = op.iterators(), _static(op.extents(), self.facts)
        reduced = {it.name for it in its if it.is_reduction}
        is_along = len(ends) == 1 and ends.isdisjoint({None, *reduced})
        if extents is None or not is_along or any(it.is_reduction != it.is_sequential for it in its):
            return False
        return prod(n for it, n in zip(its, extents, strict=True) if it.is_sequential) <= MOST_STEPS

    def lanes_across(self, op: Structured) -> Sequence[IndexingMap] | None:
        """For a scan along the last dim of a result, the maps of its results with a parallel dim last, for lanes across
        rows: each row is summed in its order. None if it needs no change, or has no such dim."""
        if Scan.of(op) is None or is_irregular(op) or self._has_lanes(op):
            return None
        maps, extents = op.result_maps(), dict(zip(op.iterators(), op.extents(), strict=True))
        shared = [it for it in extents if not it.is_reduction and all(it.dim.size() in m for m in maps)]
        several = [it.dim.size() for it in shared if self.facts.value(extents[it]) != 1]
        across = [(*(e for e in m if e != several[-1]), several[-1]) for m in maps if several]
        return across if across and self._has_lanes(op, across) else None

    def _reads_alone(self, op: Operation) -> bool:
        """Whether an operation reads its operands directly in memory."""
        return new.padded_behind(op) is not None or self._is_seen_through(op) or self._read_of(op) is not None

    def _is_seen_through(self, op: Operation) -> bool:
        """Whether all readers of a view are paddings of it, which read its source instead."""
        users = op.results[0].users if op.results else ()
        return bool(users) and all(
            new.padded_behind(user) is not None and self._read_of(user) is not None and not self.stays_in_memory(user)
            for user in users
        )

    def _read_of(self, op: Operation) -> ReadTiles | None:
        """The tiles to read for a vector of a padding or joining view; None if the view is computed in memory. Tiles at
        a lane known only at run time need an instruction for that; many, mostly empty tiles are copied faster."""
        tiles = read_tiles(op)
        shape = shape_of(op.results[0].type) if tiles is not None else ()
        static = [d for d in shape if isinstance(d, int)]
        if tiles is None or len(static) < len(shape):
            return None
        firsts = [place.first for place in tiles.tiles]
        name, target = dtype_of(op.results[0].type).name, self.ctx.target
        if all(isinstance(first[-1], int) for first in firsts if first):
            return tiles
        if not any(row.kind == FROM_LANE and row.result and row.result.dtype == name for row in target.rows):
            return None
        vectors = prod(static[:-1]) * -(-static[-1] // max(1, target.lanes(name)))
        return tiles if len(firsts) == 1 or len(firsts) * vectors <= MOST_JOINED else None

    def refuse(self, op: Operation, required: str, found: str, fix: str | None = None) -> Exception:
        """The error for an operation that cannot be vectorized."""
        return self.ctx.fail(
            f"%{op.name or op.opcode} in the loop {self.root.name} cannot be vectorized",
            op=op,
            required=required,
            found=found,
            fix=fix,
        )

    def _need_static(self, op: Operation, value: Value) -> tuple[int, ...]:
        static = _static(shape_of(value.type), self.facts)
        if static is None:
            raise self._not_static(op, value)
        return static

    def _not_static(self, op: Operation, value: Value) -> Exception:
        """The error for a tile without a static size: its dim, the loop that makes the tile, and the fix."""
        required, found = "full static tiles", f"%{value.name}: {value.type}"
        symbolic = symbolic_dim(value, self.facts)
        starts_loop = not op.operands and any(isinstance(user, Loop) for user in op.results[0].users)
        statement = symbolic.statement(self.ctx) if symbolic is not None else None
        tails = tails_round(op)
        if any(tail in self.root.ancestors() or tail is self.root for tail in tails):
            fix = self._whole_alone()
        elif tails and is_in(tails[0], self.root):
            whole = tails[0].name.split("~")[0]
            fix = Direction(
                f'vectorize {whole}, the loop of whole tiles inside: `x.copy("main").loop(..)` of the innermost dim'
            )
        elif (inside := self._static_inside()) is not None:
            fix = inside
        elif symbolic is not None and statement is not None and not (starts_loop and symbolic.loop is None):
            found, fix = f"{found}; {symbolic.found}", statement
        elif starts_loop:
            name = self.ctx.name_of(op)
            fix = f"fuse({name}, into: ...), a loop of full tiles, or pad what it starts before tiling its reduction"
        else:
            fix = "tile that dim, with tail: pad, or peel the loop"
        return self.refuse(op, required, found, fix)

    def _whole_alone(self) -> str:
        """What to write where the loop has copies for whole tiles and for the rest."""
        handle = self.ctx.handle_name(self.root)
        if handle is None:
            return Direction('vectorize the loop of whole tiles alone: `x.copy("main")`')
        return f'vectorize the loop of whole tiles alone: `vectorize({handle}.copy("main"))`'

    def _static_inside(self) -> str | None:
        """What to write where a loop inside has static tiles alone: the outermost one."""
        loops = [op for op in self.root.walk() if isinstance(op, Loop) and op is not self.root]
        found = next((loop for loop in loops if self._has_static_tiles(loop)), None)
        if found is None:
            return None
        handle = self.ctx.handle_name(found)
        return f"`vectorize({handle})`" if handle is not None else Direction(f"vectorize {found.name}, the loop inside")

    def _has_static_tiles(self, loop: Loop) -> bool:
        """Whether all that is computed in a loop has static sizes."""
        computed = (op for op in loop.walk() if isinstance(op, Structured))
        return all(_static(op.extents(), context_at(op)) is not None for op in computed)

    def vector_of(self, value: Value, user: Operation) -> Value:
        """The vector (or scalar) that replaces a value where `user` uses it."""
        known = self.vectors.get(value)
        if known is not None:
            return known
        if not isinstance(value.type, TensorType):
            return value
        shape = self._need_static(user, value)
        read = Read.of(value, Tile.full(shape), VectorType(shape, value.type.dtype))
        return self.rewriter.insert(read, InsertPoint.before(user), f"{value.name.split('.')[0]}.v").result

    # -- reads and writes ----------------------------------------------------------------------------------------

    def materialize(self, op: Materialize) -> None:
        source, users = op.operands[0], op.result.users
        shown = source.defining_op
        is_copied = source in self.vectors or source in self.written_in_parts
        is_copied = is_copied or (shown is not None and self.stays_in_memory(shown))
        if not users or (is_copied and all(isinstance(user, StYield) and not gives_scalars(user) for user in users)):
            return
        in_memory = [u for u in users if isinstance(u, Loop) or self.stays_in_memory(u) or gives_scalars(u)]
        if in_memory:
            self.rewriter.set_operand(op, 0, self.stored(source))
        if len(in_memory) == len(users) or any(isinstance(user, Loop) for user in users):
            return
        if all(is_table(op.result, user) or self._reads_alone(user) for user in users):
            return
        self._read(op, self.stored(source), op.subset, 0)

    def stored(self, value: Value) -> Value:
        """A tensor with the contents of a computed vector, which can be read in parts."""
        vector = self.vectors.get(value)
        if vector is None or isinstance(value.defining_op, Loop) or vector.defining_op is None:
            return value
        if value not in self.kept:
            kept = ToTensor.of(vector)
            self.kept[value] = self.rewriter.insert(
                kept, InsertPoint.after(vector.defining_op), source_name(vector.defining_op)
            ).result
        return self.kept[value]

    def pad(self, op: Pad) -> None:
        source = op.operands[0].defining_op
        shown = self._read_of(op)
        is_read = shown is not None and (not shown.is_behind or isinstance(source, View))
        if self.stays_in_memory(op) or self._is_seen_through(op) or is_read:
            self.view(op)
            return
        if op.result.users and all(is_table(op.result, user) for user in op.result.users):
            return
        if isinstance(source, Materialize):
            computed = self.vectors.get(source.source)
            is_wide = computed is not None and shape_of(computed.type) == shape_of(op.result.type)
            if computed is not None and is_wide and source.subset.is_at_origin and not source.subset.dropped:
                self.vectors[op.result] = (
                    computed if ViewLike(op).is_free else self._beside(op, computed, source.subset)
                )
                return
            self._read(op, self.stored(source.operands[0]), source.subset, op.value, ViewLike(op).is_free)
            return
        if is_undefined(op.operands[0]):
            filled = new.fill(op.value, VectorType(self._need_static(op, op.result), dtype_of(op.result.type)))
            made = self.rewriter.insert(filled, InsertPoint.before(op), f"{op.result.name.split('.')[0]}.v")
            self.rewriter.continue_as(op, made)
            self.vectors[op.result] = made.result
            return
        value = op.operands[0]
        is_stored = source is None or not is_in(source, self.root) or self.stays_in_memory(source)
        if value not in self.vectors and is_stored:
            self._read(op, value, Tile.full(shape_of(value.type)), op.value, ViewLike(op).is_free)
            return
        raise self.refuse(op, "padding of a subset that is read from memory", f"padding of %{op.operands[0].name}")

    def _beside(self, op: Pad, computed: Value, part: Tile) -> Value:
        """A vector with the computed value in a part of it and the padding elsewhere."""
        base, shape = f"{op.result.name.split('.')[0]}.v", self._need_static(op, op.result)

        def build(made: Operation) -> Value:
            return self.rewriter.insert(made, InsertPoint.before(op), base).result

        mask = build(Read.of(true_elements(self.rewriter, op, shape), part, VectorType(shape, i1)))
        made = new.select(mask, computed, build(new.fill(op.value, computed.type)))
        self.rewriter.continue_as(op, self.rewriter.insert(made, InsertPoint.before(op), base))
        return made.result

    def _read(self, op: Operation, source: Value, subset: Tile, fill: float | int, is_free: bool = False) -> None:
        result = op.results[0]
        if not result.uses:
            return
        shape = self._need_static(op, result)
        read = Read.of(source, subset, VectorType(shape, dtype_of(result.type)), fill)
        if is_free:
            read.attributes[FREE] = True
        made = self.rewriter.insert(read, InsertPoint.before(op), f"{result.name.split('.')[0]}.v")
        self.rewriter.continue_as(op, made)
        self.vectors[result] = made.result

    def store(self, op: StYield) -> None:
        if gives_scalars(op):
            return
        value = op.operands[0]
        definition = value.defining_op
        source = definition.source if isinstance(definition, Materialize) else value
        if isinstance(source.defining_op, Structured) and self.stays_in_memory(source.defining_op):
            return
        if source not in self.vectors and source.defining_op is not None and self.stays_in_memory(source.defining_op):
            self.vectors[source] = self._read_once_made(source.defining_op, source)
        if value in self.vectors:
            self.rewriter.set_operand(op, 0, self.vectors[value])
        elif isinstance(definition, Materialize) and definition.operands[0] in self.vectors:
            if any(o != 0 for o in definition.subset.offsets) or definition.subset.dropped:
                raise self.refuse(definition, "a slice at the origin", definition.subset.text())
            self.rewriter.set_operand(op, 0, self.vectors[definition.operands[0]])
            erase_dead(self.rewriter, [value])
        elif isinstance(definition, Materialize) and definition.source in self.written_in_parts:
            pass
        elif isinstance(value.type, TensorType) and not isinstance(definition, Loop):
            self.rewriter.set_operand(op, 0, self.vector_of(value, op))

    def _read_once_made(self, op: Operation, value: Value) -> Value:
        """The vector read from the result of an operation in memory."""
        shape = self._need_static(op, value)
        read = Read.of(value, Tile.full(shape), VectorType(shape, dtype_of(value.type)))
        return self.rewriter.insert(read, InsertPoint.after(op), f"{value.name.split('.')[0]}.v").result

    # -- computation ---------------------------------------------------------------------------------------------

    def read(self, op: Read) -> None:
        self.rewriter.set_operand(op, 0, self.stored(op.source))

    def stays(self, op: Operation) -> None:
        """Leave it unchanged next to vectors."""

    def view(self, op: Operation) -> None:
        """Compute it in memory and read the vector from there; or read the source of the view."""
        shown = self._read_of(op)
        if self.stays_in_memory(op) or (shown is None and not self._is_seen_through(op)):
            for index, value in enumerate(list(op.operands)):
                self.rewriter.set_operand(op, index, self.stored(value))
        elif shown is not None and not self._is_seen_through(op):
            self.vectors[op.results[0]] = self._join(op, shown)

    def _join(self, op: Operation, shown: ReadTiles) -> Value:
        """Read each tile into its lanes; the lanes before it come from the earlier tiles."""
        shape, dtype = self._need_static(op, op.results[0]), dtype_of(op.results[0].type)
        base, joined = f"{op.results[0].name.split('.')[0]}.v", list[Value]()

        def build(made: Operation) -> Value:
            return self.rewriter.insert(made, InsertPoint.before(op), base).result

        for tile in shown.tiles:
            source = self.stored(tile.source)
            made = Read.of(source, tile.subset, VectorType(shape, dtype), shown.rest, tile.first)
            if joined:
                before = tuple(at if at != 0 else n for at, n in zip(tile.first, shape, strict=True))
                truths = true_elements(self.rewriter, op, shape)
                mask = build(Read.of(truths, Tile((0,) * len(shape), before), VectorType(shape, i1)))
                made = new.select(mask, joined[-1], build(made))
            joined.append(build(made))
            self.rewriter.continue_as(op, made)
        return joined[-1]

    def structured(self, op: Structured) -> None:
        if isinstance(op.results[0].type, VectorType) or gives_scalars(op):
            return
        if self.stays_in_memory(op):
            self.view(op)
            give_lanes(self.rewriter, op, self.ctx.target)
            return
        shapes = [self._need_static(op, result) for result in op.results]
        if _static(op.extents(), self.facts) is None:  # a dim that no operand has by itself
            raise self._not_static(op, op.results[0])
        tables = {k for k, indexing_map in enumerate(op.maps()) if index_operands([indexing_map])}
        operands = [v if k in tables else self.vector_of(v, op) for k, v in enumerate(op.operands)]
        made = (self._gathering(op, operands) if tables else op).on_tiles(operands, *shapes)
        for old, vector, shape in zip(op.results, made.results, shapes, strict=True):
            vector.type = VectorType(shape, dtype_of(old.type))
        if tables:  # it has a body that was made for it
            rename_inside(self.rewriter, made, op)
        self.rewriter.insert(made, InsertPoint.before(op), f"{source_name(op)}.v")
        self.rewriter.rename(made, op.name)
        check_instructions(made, self.ctx.target)
        self.rewriter.continue_as(op, made)
        self.vectors.update(zip(op.results, made.results, strict=True))

    def _gathering(self, op: Structured, operands: list[Value]) -> Structured:
        """The detached operation on vectors, with gathered elements of its tables. Each `vector.gather` replaces its
        table in `operands`."""
        made = generalize(op)
        discard(made)
        for k, indexing_map in enumerate(op.maps()):
            index_inputs = {dim: at for dim, e in enumerate(indexing_map) if (at := map_element(e)) is not None}
            if not index_inputs:
                continue
            first, *others = [op.maps()[at] for at in index_inputs.values()]
            if any(other != first for other in others):
                shown = ", ".join(f"[{', '.join(map(to_text, m))}]" for m in (first, *others))
                raise self.refuse(op, "indices that are read by the same dims", shown)
            operands[k] = self._table(op, k, index_inputs)
            left = [e for e in indexing_map if map_element(e) is None]
            made.attributes.update(made.reading_by(k, (*first, *left)))
        body = made.regions[0]
        for k in sorted(Indices(op).operands, reverse=True):
            if not body.args[k].uses:  # lanes are as wide as the dtypes of the computation
                del operands[k], body.args[k]
                maps = [*made.maps(), *made.result_maps()]
                made.attributes["maps"] = (*maps[:k], *maps[k + 1 :])
        return made

    def _table(self, op: Structured, k: int, index_inputs: Mapping[int, int]) -> Value:
        """The gather of input `k`, whose indices are elements of other inputs: dim -> which input."""
        value, fill, outside = op.inputs[k], 0, Indices(op).outside
        shape, padding = shape_of(value.type), value.defining_op
        inner = new.padded_behind(padding) if value not in self.vectors else None
        if inner is not None and isinstance(padding, Tileable):
            value, fill = inner, ViewLike(padding).rest or 0
            if outside is not None and not ViewLike(padding).is_free and outside != fill:
                raise self.refuse(op, f"a table padded with {outside}, what an index outside reads", str(fill))
        part, subset = value.defining_op, Tile.full(shape_of(value.type))
        if value not in self.vectors and isinstance(part, Materialize) and not part.subset.dropped:
            value, subset = part.operands[0], part.subset
        inner = [shape[dim] for dim in range(len(shape)) if dim not in index_inputs]
        left = _static(inner, self.facts)
        if left is None:
            raise self._not_static(op, op.inputs[k])
        indices = {dim: self._index(op, at, shape[dim]) for dim, at in index_inputs.items()}
        outer = _static(shape_of(next(iter(indices.values())).type), self.facts) or ()
        type_ = VectorType((*outer, *left), dtype_of(value.type))
        read = Gather.of(indices, self.stored(value), subset, type_, fill if outside is None else outside)
        if outside is not None:
            read.attributes["bounded"] = True
        return self.rewriter.insert(read, InsertPoint.before(op), f"{value.name.split('.')[0]}.v").result

    def _index(self, op: Structured, k: int, extent: Dim) -> Value:
        """The vector of input `k`, whose elements are indices of a dim of this extent."""
        vector = self.vector_of(op.inputs[k], op)
        if not Indices(op).clamps_indices and Indices(op).outside is None:
            return vector

        def build(made: Operation) -> Value:
            return self.rewriter.insert(made, InsertPoint.before(op), "at").result

        return new.clamped(build, op, vector, extent)

    # -- control -------------------------------------------------------------------------------------------------

    def loop(self, op: Loop) -> None:
        for index, init in enumerate(list(op.operands)):
            if init in self.vectors:
                stored = self.rewriter.insert(ToTensor.of(self.vectors[init]), InsertPoint.before(op), op.name)
                self.rewriter.set_operand(op, index, stored.result)
        self.block(op.body)
        for index, result in enumerate(op.results):
            readers = [u for u in result.users if not (isinstance(u, StYield) and u.operands[0] is result)]
            static = _static(shape_of(result.type), self.facts)
            if not readers or static is None or not isinstance(result.type, TensorType):
                continue
            is_written_whole = all(_covers(y.subset, static, self.facts) for y in op.yields_to(index))
            if not is_written_whole and all(isinstance(reader, Materialize | Loop) for reader in readers):
                self.written_in_parts.add(result)
            else:
                read = Read.of(result, Tile.full(static), VectorType(static, result.type.dtype))
                made = self.rewriter.insert(read, InsertPoint.after(op), f"{result.name.split('.')[0]}.v")
                self.vectors[result] = made.result

    def branch(self, op: Conditional) -> None:
        for block in op.regions:
            self.block(block)
            end = block.terminator
            if end is not None:
                for index, value in enumerate(list(end.operands)):
                    if isinstance(value.type, TensorType):
                        self.rewriter.set_operand(end, index, self.vector_of(value, end))
            for inner in reversed(list(block.ops)):
                if not inner.is_terminator and inner.results:  # what is around may have uses that come later
                    erase_dead(self.rewriter, inner.results[:1], within=op)
        for result in op.results:
            if isinstance(result.type, TensorType):
                static = self._need_static(op, result)
                self.rewriter.set_type(result, VectorType(static, result.type.dtype))
                self.vectors[result] = result


VECTORIZED: Final = Recipes[Vectorizer]()
"""The vectorization of operations, by class."""
VECTORIZED.add(Vectorizer.loop, Loop)
VECTORIZED.add(Vectorizer.branch, Conditional)
VECTORIZED.add(Vectorizer.materialize, Materialize)
VECTORIZED.add(Vectorizer.pad, Pad)
VECTORIZED.add(Vectorizer.view, View)
VECTORIZED.add(Vectorizer.store, StYield)
VECTORIZED.add(Vectorizer.structured, Structured)
VECTORIZED.add(Vectorizer.read, Read)
VECTORIZED.add(Vectorizer.stays, Const, Empty, Lead, Prefetch, ToTensor)


def gives_scalars(op: Operation) -> bool:
    """Whether an operation computes or yields scalars alone: these stay scalars next to vectors."""
    given = op.operands[1:] if isinstance(op, StYield) else op.operands if op.is_terminator else op.results
    return bool(given) and all(isinstance(value.type, ScalarType) for value in given)


def is_table(value: Value, user: Operation) -> bool:
    """Whether an operation reads a value only at indices that are elements of other inputs."""
    return isinstance(user, Structured) and all(
        index < len(user.inputs) and bool(index_operands([user.maps()[index]]))
        for op, index in value.uses
        if op is user
    )


def _is_vector(value: Value, shape: Sequence[Dim]) -> bool:
    return isinstance(value.type, VectorType) and tuple(value.type.shape) == tuple(shape)


def _vectorized_first(ctx: TransformContext, loop: Loop) -> str:
    outer = loop.parent.parent if loop.parent is not None else None
    handle = ctx.handle_name(outer) if isinstance(outer, Loop) else None
    return f"`vectorize({handle})` before it" if handle is not None else Direction("vectorize the loop around it first")


def hoist_accumulator(ctx: TransformContext, loop: Loop, index: int, cause: Callable[[], ScheduleError | None]) -> None:
    """Carry destination `index` of `loop` in registers: every iteration reads and writes it as one vector. Raises
    ScheduleError where one does not, with the `cause` if that is known."""
    rewriter = ctx.rewriter
    dest, init, result = loop.destinations[index], loop.operands[index], loop.results[index]
    facts = context_at(loop)
    shape = shape_of(dest.type)
    static = _static(shape, facts)
    stores = loop.yields_to(index)
    reads = [u for u in dest.users if isinstance(u, Read)]
    whole = static is not None and all(_covers(u.subset, static, facts) for u in (*reads, *stores))
    if (
        static is None
        or len(stores) != 1
        or len(reads) + len(stores) != len(dest.users)
        or not whole
        or stores[0].parent is not loop.body
        or not all(_is_vector(v, static) for v in (*(r.result for r in reads), stores[0].operands[0]))
    ):
        raise cause() or ctx.fail(
            f"the destination %{dest.name} of {loop.name} cannot be carried in registers",
            op=loop,
            required="a loop whose every iteration reads and writes all of a static tile as one vector",
            found=f"%{dest.name}: {dest.type}",
            fix=_vectorized_first(ctx, loop),
        )
    vector = VectorType(static, dtype_of(dest.type))
    made = init.defining_op
    if isinstance(made, ToTensor):
        start = made.operands[0]
    else:
        part = isinstance(made, Materialize) and not made.subset.dropped and made.subset.has_unit_strides
        source, subset = (
            (made.operands[0], made.subset) if part and isinstance(made, Materialize) else (init, Tile.full(static))
        )
        start = rewriter.insert(Read.of(source, subset, vector), InsertPoint.before(loop), "acc").result
    rewriter.set_operand(loop, index, start)
    erase_dead(rewriter, [init])
    rewriter.set_type(dest, vector)
    for read in reads:
        rewriter.replace_op(read, [dest])
    outside = list(result.users)
    rewriter.set_type(result, vector)
    for user in outside:
        if isinstance(user, Read) and _covers(user.subset, static, facts):
            rewriter.replace_op(user, [result])
    others = [u for u in result.users if u in outside]
    if any(not isinstance(u, StYield) for u in others):
        stored = rewriter.insert(ToTensor.of(result, shape), InsertPoint.after(loop), "acc").result
        rewriter.replace_uses(result, stored, lambda u: u in others and not isinstance(u, StYield))


def _covers(subset: Tile, shape: tuple[int, ...], facts: Context) -> bool:
    sizes = tuple(map(facts.value, subset.sizes))
    return subset.offsets == (0,) * len(shape) and sizes == shape and not subset.dropped

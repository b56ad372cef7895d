"""Operations on tensors as loop nests that read, compute and write one element at a time."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from tcpx.payload.contexts import context_at
from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, index_operands, map_dim, map_element
from tcpx.payload.interfaces import Iterator, Position, Structured
from tcpx.payload.ir import Operation, Range, Value
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.memory import At
from tcpx.payload.ops.vector import Gather, Read, Write
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Size, Symbol, floordiv, is_equal, maximum, mod, product, substitute
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType, TensorType, VectorType, dtype_of, row_major, shape_of
from tcpx.payload.value_ranges import value_range
from tcpx.transform import new
from tcpx.transform.bufferization.buffers import Buffers
from tcpx.transform.bufferization.effects import Effects
from tcpx.transform.bufferization.lane_sums import begin_lanes, end_lanes, rounds, where_counted
from tcpx.transform.bufferization.lanes_in_turn import Elements, Turns
from tcpx.transform.bufferization.loop_nests import Nest
from tcpx.transform.bufferization.storage import Place
from tcpx.transform.bufferization.strips import Index, Strip, element, kind_of
from tcpx.transform.vectors.lane_dims import lane_step
from tcpx.transform.vectors.lanes_in_memory import lane_dim_in_memory, takes_turns


class ElementLoops:
    """Makes loop nests; `effects` and `buffers` say where values are."""

    def __init__(self, rewriter: Rewriter, effects: Effects, buffers: Buffers) -> None:
        self.rewriter, self.effects, self.buffers = rewriter, effects, buffers

    def _nest(self, op: Operation, suffix: str = "") -> Nest:
        name = op.name or op.opcode.rpartition(".")[2]
        return Nest(self.rewriter, op, f"{name}{suffix}")

    def read(self, nest: Nest, place: Place, index: Index) -> Value:
        """Read one element of the value at a place, or lanes of it."""
        return nest.build(Read.of(*self._element(nest, place, index), kind_of(index, place.memory.type.dtype)))

    def write(self, nest: Nest, value: Value, place: Place, index: Index) -> Write:
        """Write one element of the value at a place, or lanes of it."""
        buffer, subset = self._element(nest, place, index)
        return nest.insert(Write([value, buffer], [], {"subset": subset}))

    def _element(self, nest: Nest, place: Place, index: Index) -> tuple[Value, Tile]:
        """The buffer of a place, or the part of it where values say, and an element or lanes as a subset of that."""
        buffer, known = self.buffers.of(place), [0 if isinstance(at, Value) else at for at in index]
        given = {dim: at for dim, at in enumerate(index) if isinstance(at, Value)}
        if not given:
            return buffer, self.buffers.subset(place, element(known))
        whole = self.buffers.subset(place, Tile.full(place.tile.shape))
        kept = whole.kept
        part = At.at(buffer, whole, {kept[dim]: at for dim, at in given.items()})
        return nest.build(part), element(known)

    # -- computation ---------------------------------------------------------------------------------------------

    def compute(self, op: Structured) -> dict[Value, Value]:
        """Compute a structured operation: loops over its parallel dims round loops over its reductions.

        A result of which each iteration has an element of its own, or one that values say, is read and written in the
        innermost loop. If all are, the loops are in the order of the iterators. Where the operation has lanes, an
        iteration of the loop over their dim is one of each.

        `op` continues as the operation that does its arithmetic. Returns what its scalar results are.
        """
        turns = Turns.of(op)
        carried = [k for k in range(len(op.results)) if turns is None and self._is_carried(op, k)]
        self._begin_updating(
            op, [k for k in range(len(op.results)) if k not in carried and Reduction(op).has_accumulator(k)]
        )
        strips = self._strips(op, turns) if turns is not None else ()
        nest, iterators = self._nest(op), op.iterators()
        extents = dict(zip((it.name for it in iterators), Masked(op).counted(), strict=True))
        index: dict[Symbol, Dim] = {}
        reductions = [it for it in iterators if it.is_reduction] if carried else []
        for it in _result_order(op, iterators) if carried else iterators:
            if turns is None or it.name != turns.dim or not turns.kept:
                index[it.dim] = self._entered(op, nest, it.name, extents[it.name], index)
        if turns is not None and turns.kept:
            bounds = self._ragged(op, nest, turns.dim, extents[turns.dim], index) or (0, extents[turns.dim])
            return self._finish(op, nest, index, (), (), self._combine_in_turn(op, nest, index, bounds, turns, strips))
        accumulators = self._start(op, nest, index, bool(reductions), carried)
        summed = _summed_lanes(op)
        for it in sorted(reductions, key=lambda it: it.name == summed):
            if not accumulators:
                raise op.error("a reduction starts from a neutral element", required="a combiner that has one")
            bounds = self._ragged(op, nest, it.name, extents[it.name], index) or (0, extents[it.name])
            if it.name == summed:
                left, anchor = self._sum_in_lanes(op, nest, index, bounds, accumulators)
                return self._finish(op, nest, index, carried, left, anchor)
            index[it.dim], accumulators = nest.enter_carrying(it.name, bounds, accumulators)
        args, held = self._arguments(op, nest, index), dict(zip(carried, accumulators, strict=False))
        updated = [k for k in range(len(op.results)) if k not in carried]
        made, anchor = self._iteration(op, nest, index, args, held, updated, op.elements)
        return self._finish(op, nest, index, carried, [made[k] for k in carried], anchor)

    def _iteration(
        self,
        op: Structured,
        nest: Nest,
        index: Mapping[Symbol, Dim],
        args: Sequence[Value],
        carried: Mapping[int, Value],
        updated: Sequence[int],
        elements: Elements,
    ) -> tuple[Sequence[Value], Operation | None]:
        """What an iteration makes, and the operation that does its arithmetic. There are the accumulators that are
        `carried`; those of the results that are `updated` are read, and what is made of them is written."""
        before = dict(carried)
        places: dict[int, tuple[Predicate | None, Callable[[], tuple[Value, Tile]]]] = {}
        for k in updated:
            result, result_map = op.results[k], op.result_maps()[k]
            at, inside = self._index(op, nest, result_map, shape_of(result.type), index, dict(enumerate(args)))
            find = partial(self._element, nest, self.effects.place(result), at)
            if inside is None:
                find = partial(tuple[Value, Tile], find())
            places[k] = inside, find
            kind = kind_of(at, dtype_of(result.type))
            rest = splat(nest.build, 0, kind) if inside is not None else None
            before[k] = nest.only_if(inside, lambda at=find, t=kind: nest.build(Read.of(*at(), t)), rest)
        args = [nest.on_lanes(value) for value in args]
        first = len(nest.made)
        made = elements(nest.build, args, [before[k] for k in range(len(op.results))] if before else [])
        arithmetic = [o for o in nest.made[first:] if made[0] in o.results and o.operands]
        anchor: Operation | None = arithmetic[0] if arithmetic else None
        for k, (inside, find) in places.items():
            stored = nest.only_if(inside, lambda k=k, find=find: nest.insert(Write.of(made[k], *find())))
            anchor = anchor or (stored if isinstance(stored, Operation) else None)
        return made, anchor

    def _strips(self, op: Structured, turns: Turns) -> Sequence[Place]:
        """Memory for the lanes of what is computed at once, before all loops."""
        types = [TensorType((turns.width,), dtype_of(value.type)) for value in turns.kept]
        return [self.buffers.strip(f"{op.name}/{turns.dim}", type_, op) for type_ in types]

    def _combine_in_turn(
        self, op: Structured, nest: Nest, index: dict[Symbol, Dim], bounds: Range, turns: Turns, strips: Sequence[Place]
    ) -> Operation | None:
        """Compute vectors of what no accumulator has to do with, whole ones, then a masked one, into `strips`; each
        lane is then combined with what is where its indices say, in the order of the iterations. Returns the operation
        that combines."""
        begin, end, whole = rounds(bounds, turns.width)
        outer, anchor = nest.block, None
        for first, last in ((begin, whole), (whole, end)):
            at = nest.enter_range(turns.dim, (first, last), turns.width)
            count = turns.width if last is whole else context_at(op).minimum(turns.width, end - at)
            index[dim_symbol(turns.dim)] = at
            nest.lanes = turns.dim, Strip(at, count, 1, turns.width)
            vectors = turns.on_lanes(nest.build, self._arguments(op, nest, index, turns.inputs))
            for vector, place in zip(vectors, strips, strict=True):
                self.write(nest, nest.on_lanes(vector), place, [Strip(0, turns.width, 1, turns.width)])
            nest.lanes = None
            lane = nest.enter(f"{turns.dim}.lane", count)
            index[dim_symbol(turns.dim)] = at + lane
            args = self._arguments(op, nest, index, turns.inputs_in_turn)
            elements = turns.combined([self.read(nest, place, [lane]) for place in strips])
            anchor = self._iteration(op, nest, index, args, {}, range(len(op.results)), elements)[1] or anchor
            nest.block = outer
        return anchor

    def _finish(
        self,
        op: Structured,
        nest: Nest,
        index: Mapping[Symbol, Dim],
        carried: Sequence[int],
        made: Sequence[Value],
        anchor: Operation | None,
    ) -> dict[Value, Value]:
        """Close the loops and write what they carry; what scalar results are."""
        scalars: dict[Value, Value] = {}
        left = nest.leave_carrying(made)
        for k, value in zip(carried, left, strict=True):
            result, at = op.results[k], [nest.at(e, index) for e in op.result_maps()[k]]
            if isinstance(result.type, TensorType):
                stored = self.write(nest, value, self.effects.place(result), at)
                anchor = anchor or stored
            else:
                scalars[result] = value
        self._continue(op, nest.moved(anchor))
        return scalars

    def _sum_in_lanes(
        self, op: Structured, nest: Nest, index: dict[Symbol, Dim], bounds: Range, before: Sequence[Value]
    ) -> tuple[Sequence[Value], Operation | None]:
        """What a reduction makes of accumulators in lanes along its innermost dim: whole vectors, then a masked one;
        and the operation that does its arithmetic."""
        dim, width = Lanes(op).lanes or ("", 1)
        begin, end, whole = rounds(bounds, width)
        lanes: Sequence[Value] = begin_lanes(op, nest, width)
        anchor: Operation | None = None
        for first, last in ((begin, whole), (whole, end)):
            at, held = nest.enter_carrying(dim, (first, last), lanes, width)
            index[dim_symbol(dim)] = at
            nest.lanes = dim, Strip(at, width if last is whole else context_at(op).minimum(width, end - at), 1, width)
            args = [nest.on_lanes(value) for value in self._arguments(op, nest, index)]
            count = len(nest.made)
            made = op.elements(nest.build, args, held)
            anchor = anchor or next((o for o in nest.made[count:] if made[0] in o.results and o.operands), None)
            lanes = nest.leave_carrying(where_counted(nest, made, held), 1)
            nest.lanes = None
        return end_lanes(op, nest, lanes, before), anchor

    @staticmethod
    def _is_carried(op: Structured, number: int) -> bool:
        """Whether an element of a result is known once the loops over the reductions are done. Where what these are
        depends on elements, or rows go on from rows, the loops are in the order of the iterators, the innermost over
        rows; but lanes of a row are carried."""
        maps, reductions = op.result_maps(), [it.name for it in op.iterators() if it.is_reduction]
        by_rows = any(
            m and not Reduction(op).has_accumulator(k) and map_dim(m[-1]) not in reductions for k, m in enumerate(maps)
        )
        is_scattered = bool(index_operands([maps[number]]))
        in_order = _lanes(op) is None and (bool(ragged_dims(op)) or by_rows)
        return Reduction(op).has_accumulator(number) and not is_scattered and not in_order

    def _entered(self, op: Structured, nest: Nest, dim: str, extent: Dim, index: Mapping[Symbol, Dim]) -> Dim:
        """The variable of a loop over a dim, which may lie between elements of inputs, or steps over lanes."""
        bounds, lanes = self._ragged(op, nest, dim, extent, index), _lanes(op)
        if bounds is not None:
            return nest.enter_range(dim, bounds)
        if lanes is None or lanes[0] != dim:
            return nest.enter(dim, extent)
        if lane_dim_in_memory(op) != dim:
            raise op.error(
                f"vectors do not run along `{dim}`",
                required="a parallel dim, the last of each result, with which no index of a result has to do",
                found=f"lanes along `{dim}`",
            )
        first = nest.enter(dim, extent, lanes[1])
        nest.lanes = dim, Strip(first, context_at(op).minimum(lanes[1], extent - first), 1, lanes[1])
        return first

    def _ragged(self, op: Structured, nest: Nest, dim: str, extent: Dim, index: Mapping[Symbol, Dim]) -> Range | None:
        """The range of a ragged dim, between elements of inputs; None of any other."""
        bounds = ragged_dims(op).get(dim)
        if bounds is None:
            return None
        ends: list[Dim] = []
        for k in (bounds.first, bounds.end):
            element = self._operand(nest, op.inputs[k], tuple(substitute(e, index) for e in op.maps()[k]))
            ends.append(nest.bind(dim, element, value_range(op.inputs[k]) or (0, extent + 1)) - bounds.origin)
        here = context_at(op)
        return here.maximum(0, ends[0]), here.minimum(extent, ends[1])

    def _begin_updating(self, op: Structured, numbers: Sequence[int]) -> None:
        """Let results of which iterations change elements in memory be what they are before."""
        neutrals = Reduction(op).neutrals()
        for k in numbers:
            place, shape = self.effects.place(op.results[k]), shape_of(op.results[k].type)
            if op.inits and self.effects.is_undefined(op.inits[k]):
                continue
            if op.inits and not self.effects.place(op.inits[k]).is_same(place):
                self.copy(op, f"{op.name}/init", self.effects.place(op.inits[k]), place, shape)
            elif not op.inits and neutrals is not None:
                self.fill(op, neutrals[k], place, shape, "/init")

    def _arguments(
        self, op: Structured, nest: Nest, index: Mapping[Symbol, Dim], needed: Collection[int] | None = None
    ) -> list[Value]:
        """What the body gets in an iteration: elements of the inputs, those that are indices first, then positions. Of
        inputs that are not `needed`, if that is given, it gets the tensor."""
        known: dict[tuple[Value, tuple[Dim | Strip | Value, ...]], Value] = {}
        args: dict[int, Value] = dict(enumerate(op.inputs))
        places = Indices(op).operands
        for k in sorted(range(len(op.inputs)) if needed is None else needed, key=lambda k: k not in places):
            value = op.inputs[k]
            at, inside = self._index(op, nest, op.maps()[k], shape_of(value.type), index, args)
            if (value, at) not in known:
                kind = kind_of(at, dtype_of(value.type))
                rest = splat(nest.build, Indices(op).outside or 0, kind) if inside is not None else None
                known[value, at] = nest.only_if(
                    inside, partial(self._operand, nest, value, at, Indices(op).outside), rest
                )
            args[k] = known[value, at]
        positions = [self._position(nest, position, index) for position in positions_read(op)]
        return [*(args[k] for k in range(len(op.inputs))), *positions]

    @staticmethod
    def _position(nest: Nest, position: Position, index: Mapping[Symbol, Dim]) -> Value:
        """The value of a position, or of each lane."""
        first, step = position.at(index), lane_step(position.expression, nest.lanes[0]) if nest.lanes is not None else 0
        if nest.lanes is None or not step:
            return nest.build(new.index_value(first, position.dtype))
        return new.counting(nest.build, first, step, VectorType((nest.lanes[1].width,), position.dtype))

    def _index(
        self,
        op: Structured,
        nest: Nest,
        indexing_map: IndexingMap,
        shape: Sequence[Dim],
        index: Mapping[Symbol, Dim],
        args: Mapping[int, Value],
    ) -> tuple[tuple[Dim | Strip | Value, ...], Predicate | None]:
        """Where an iteration reads or writes, and what holds if that is inside, where it may not be; `args` has the
        elements that are indices. Where each lane has an index, it is asked where it is read."""
        found: list[Dim | Strip | Value] = []
        inside: Predicate | None = None
        for expression, extent in zip(indexing_map, shape, strict=True):
            operand = map_element(expression)
            if operand is None:
                found.append(nest.at(expression, index))
                continue
            place = args[operand]
            if Indices(op).clamps_indices or Indices(op).outside is not None:
                place = new.clamped(nest.build, op, place, extent)
            if Indices(op).outside is not None and isinstance(place.type, ScalarType):
                var = nest.bind("at", place, (-1, extent + 1))
                bounds = Predicate.of(">=", var, 0) & Predicate.of("<", var, extent)
                inside = bounds if inside is None else inside & bounds
            found.append(place)
        return tuple(found), inside

    def _start(
        self, op: Structured, nest: Nest, index: Mapping[Symbol, Dim], reduces: bool, numbers: Sequence[int]
    ) -> Sequence[Value]:
        """What the accumulators of some results start with."""
        if op.inits:
            maps = [tuple(nest.at(e, index) for e in op.result_maps()[k]) for k in numbers]
            starts = [self._operand(nest, op.inits[k], at) for k, at in zip(numbers, maps, strict=True)]
        else:
            neutrals = Reduction(op).neutrals() if reduces else None
            numbers = numbers if neutrals is not None else ()
            starts = [nest.build(new.literal(neutrals[k], op.acc_types[k])) for k in numbers if neutrals is not None]
        return [nest.on_lanes(start) for start in starts]

    def _operand(self, nest: Nest, value: Value, index: Index, outside: float | int | None = None) -> Value:
        through = self.effects.seen_through(value)
        if through is not None:
            at = dict(zip(map(map_dim, through.result_map()), index, strict=True))
            args = [
                self._operand(nest, v, [at[map_dim(e)] for e in indexing_map], outside)
                for v, indexing_map in zip(through.inputs, through.maps(), strict=True)
            ]
            sizes = [
                nest.build(new.index_value(position.at({}), position.dtype)) for position in positions_read(through)
            ]
            return through.scalar_body(nest.build, [*args, *sizes], None)
        if self.effects.of(value) is None:
            return value
        indices = {dim: at for dim, at in enumerate(index) if isinstance(at, Value) and isinstance(at.type, VectorType)}
        if indices:
            return self._gathered(nest, self.effects.place(value), index, outside)
        return self.read(nest, self.effects.place(value), index)

    def _gathered(self, nest: Nest, place: Place, index: Index, outside: float | int | None) -> Value:
        """The elements of the value at a place that indices of lanes say; where one is outside, `outside`."""
        shape = place.tile.shape
        indices = {dim: nest.on_lanes(at) for dim, at in enumerate(index) if isinstance(at, Value)}
        others = tuple(dim for dim in range(len(shape)) if dim not in indices)
        offsets = tuple(at if isinstance(at, int | Size) else 0 for at in index)
        tile = Tile(offsets, tuple(1 if dim in others else n for dim, n in enumerate(shape)), dropped=others)
        kept = self.buffers.subset(place, Tile.full(shape)).kept
        found, type_ = {kept[dim]: at for dim, at in indices.items()}, kind_of(index, place.memory.type.dtype)
        read = Gather.of(found, self.buffers.of(place), self.buffers.subset(place, tile), type_, outside or 0)
        if outside is not None:
            read.attributes["bounded"] = True
        return nest.build(read)

    def _continue(self, op: Operation, anchor: Operation | None) -> None:
        """Let `anchor`, which was made here, be `op` from now on, under its name."""
        if anchor is None:
            self.rewriter.end(op, "bufferize found nothing to compute")
            return
        if len(anchor.results) == len(op.results):
            for old, new in zip(op.results, anchor.results, strict=True):
                new.name = old.name
        if anchor.results or not anchor.name:
            self.rewriter.rename(anchor, op.name)
        self.rewriter.continue_as(op, anchor)

    # -- data movement -------------------------------------------------------------------------------------------

    def fill(self, op: Operation, number: float, place: Place, shape: Sequence[Dim], suffix: str = "") -> Write:
        """Write a literal to every element of the value at a place."""
        nest = self._nest(op, suffix)
        index = [nest.enter(f"d{k}", extent) for k, extent in enumerate(shape)]
        return self.write(nest, nest.build(new.literal(number, place.memory.type.dtype)), place, index)

    def fill_padding(self, op: Operation, place: Place, inside: Tile, spacing: Sequence[int], rest: float) -> None:
        """Write `rest` where a padding does not show its operand, which is `inside`: for each dim the strips beside and
        between its elements along it, where it is along the dims before."""
        outer, known = shape_of(op.result.type), context_at(op).names
        whole = Tile.full(outer)
        for dim, (size, extent) in enumerate(zip(inside.sizes, outer, strict=True)):
            if is_equal(size, extent, known) is True:
                continue
            for offset, count, stride in _strips(inside.offsets[dim], size, spacing[dim], extent, known):
                offsets = (*inside.offsets[:dim], offset, *whole.offsets[dim + 1 :])
                sizes = (*inside.sizes[:dim], count, *outer[dim + 1 :])
                strides = (*inside.strides[:dim], stride, *whole.strides[dim + 1 :])
                self.fill(op, rest, place.part(Tile(offsets, sizes, strides)), sizes, "/pad")

    def copy(self, op: Operation, name: str, source: Place, target: Place, shape: Sequence[Dim]) -> Operation:
        """Copy a value of this shape from one place to another, before `op`."""
        nest = Nest(self.rewriter, op, name)
        index = [nest.enter(f"d{k}", extent) for k, extent in enumerate(shape)]
        return nest.moved(self.write(nest, self.read(nest, source, index), target, index))

    def copy_reshaped(self, op: Operation, name: str, value: Value, target: Place) -> Operation:
        """Copy a value to a place of another shape, element by element in row-major order."""
        source, before, after = self.effects.place(value), shape_of(value.type), target.tile.shape
        nest = Nest(self.rewriter, op, name)
        index = [nest.enter(f"d{k}", extent) for k, extent in enumerate(after)]
        linear: Dim = 0
        for position, stride in zip(index, row_major(after), strict=True):
            linear = linear + position * stride
        return nest.moved(self.write(nest, self.read(nest, source, _unravel(linear, before)), target, index))

    def continue_as_write(self, op: Operation, write: Operation) -> None:
        """Let a write, or a copy, be what an operation that moves data continues as."""
        self._continue(op, write)


def _strips(first: Dim, size: Dim, spacing: int, extent: Dim, known: KnownSymbols) -> Iterable[tuple[Dim, Dim, Dim]]:
    """The ranges of a dim, each by offset, size and stride, where `size` elements from `first` on, `spacing` apart, are
    not."""
    if first != 0:
        yield 0, first, 1
    for gap in range(1, spacing):
        yield first + gap, maximum(0, size - 1, known=known), spacing
    end = first + (size if spacing == 1 else maximum(0, size * spacing - (spacing - 1), known=known))
    if is_equal(end, extent, known) is not True:
        yield end, extent - end, 1


def _result_order(op: Structured, iterators: Sequence[Iterator]) -> list[Iterator]:
    """The parallel iterators in the order of the dims of the result."""
    order = [map_dim(e) for e in op.result_maps()[0]]
    return sorted((it for it in iterators if not it.is_reduction), key=lambda it: order.index(it.name))


def _unravel(linear: Dim, shape: Sequence[Dim]) -> list[Dim]:
    """The index, in an array of this shape, of the element at a row-major position."""
    index: list[Dim] = []
    for dim, extent in enumerate(shape):
        quotient = floordiv(linear, _at_least_one(product(shape[dim + 1 :])))
        index.append(quotient if dim == 0 else mod(quotient, _at_least_one(extent)))
    return index


def _at_least_one(size: Dim) -> Dim:
    """A divisor: where it is 0 there is no element, and nothing is evaluated."""
    return 1 if size == 0 else size


def _summed_lanes(op: Structured) -> str | None:
    """The reduction dim along which there are lanes."""
    along = Lanes(op)
    return along.lanes[0] if along.sums_in_lanes and along.lanes is not None else None


def _lanes(op: Structured) -> tuple[str, int] | None:
    """The lanes of what is computed by vectors in memory; a scan in lanes is not, but element by element, and so are
    lanes that take turns."""
    lanes = Lanes(op).lanes
    return None if lanes is None or Lanes(op).scans_in_lanes or takes_turns(op, lanes[0]) else lanes

"""Pieces of vector values: 1-D vectors and scalars, made where they are first asked for.

A computed value has a grid of pieces, keyed by its outer indices and the chunk along its last dim (by all its
indices if it is kept as scalars). A value that is read, a literal or given by elements has no grid: any piece of it
can be made. Whatever else is asked for is taken apart (`vector.extract`) and put together (`vector.from_elements`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import ROW, Block, Operation, Value
from tcpx.payload.ops.dot_product import Repeat
from tcpx.payload.ops.finite import is_finite
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import At, View
from tcpx.payload.ops.vector import Extract, FromElements, Gather, Mask, Read, Shuffle, first_lanes
from tcpx.payload.ops.views import FREE
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Var, is_equal, maximum
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import BufferType, ScalarType, TensorType, Type, VectorType, dtype_of, like, row_major, shape_of
from tcpx.target import LaneType, Target
from tcpx.transform import new
from tcpx.transform.algebra import known_result, number_of
from tcpx.transform.known_states import as_number, is_neutral
from tcpx.transform.recomputation import ADDED
from tcpx.transform.vectors.accesses import Lanes, TilesOfPieces, is_empty
from tcpx.transform.vectors.literals import invariant_block, is_splat, known_element, lane_numbers, literal_of
from tcpx.transform.vectors.probes import discard
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.short_rows import ShortRows, short_rows
from tcpx.transform.vectors.transposition import network
from tcpx.transform.vectors.widths import Widths, has_gather_row, is_source, place_dtype

Index = tuple[int, ...]
Grid = dict[Index, Value]


def shape_of_vector(type_: Type) -> Index:
    """The shape of a vector; () of a scalar."""
    return type_.shape if isinstance(type_, VectorType) else ()


def transposed(op: Operation | None) -> tuple[Value, Index] | None:
    """What an operation shows with its dims in another order, and which of them each dim of the result is."""
    if not isinstance(op, Structured) or not op.is_movement or len(op.operands) != 1:
        return None
    (read,), result = op.maps(), op.result_map()
    if len(read) != len(result) or {*read} != {*result}:
        return None
    return op.operands[0], tuple(read.index(entry) for entry in result)


def are_contiguous(subset: Tile, type_: Type, length: int, known: KnownSymbols) -> bool:
    """Whether the rows of a subset, as long as said, are rows of contiguous memory, one behind the other."""
    if not isinstance(type_, BufferType) or subset.kept[-2:] != (subset.rank - 2, subset.rank - 1):
        return False
    wanted = zip(type_.strides, row_major(type_.shape), strict=True)
    sizes = (type_.shape[-1], subset.sizes[-1], length), (*subset.strides[-2:], 1)
    return all(is_equal(a, b, known) is True for a, b in (*wanted, *(pair for row in sizes for pair in pairwise(row))))


def flattened(subset: Tile) -> Tile:
    """A subset of rows that lie one behind the other, in a buffer with the last two dims as one."""
    length = subset.sizes[-1]
    offset = subset.offsets[-2] * length + subset.offsets[-1]
    sizes = (*subset.sizes[:-2], subset.sizes[-2] * length)
    return Tile((*subset.offsets[:-2], offset), sizes, subset.strides[:-1], subset.dropped)


class Pieces:
    """The pieces of one run. New operations go before `anchor`, and are listed in `created`."""

    def __init__(self, rewriter: Rewriter, target: Target, root: Operation) -> None:
        self.rewriter = rewriter
        self.target = target
        self.widths = Widths(root, target)
        self.tiles = TilesOfPieces()
        self.grids: dict[Value, Grid] = {}
        self.carried: dict[Operation, list[Grid]] = {}
        """Reduction along lanes -> the destinations that carry its partial results."""
        self.partials: dict[Operation, list[Grid]] = {}
        """Reduction along lanes -> its partial results, where a loop carries them. Of both, a grid for each result."""
        self.created: list[Operation] = []
        self.anchor = root
        self._made: dict[Hashable, Value] = {}
        self._known: dict[Hashable, bool] = {}

    # -- grids ---------------------------------------------------------------------------------------------------

    def keys(self, type_: Type, width: int) -> list[Index]:
        """Keys of the pieces of a value of this type, in row-major order."""
        shape = shape_of_vector(type_)
        counts = shape if width == 1 else (*shape[:-1], -(-shape[-1] // width))
        return list(product(*map(range, counts)))

    @staticmethod
    def start(key: Index, width: int) -> Index:
        """Where in the value a piece starts."""
        return key if width == 1 else (*key[:-1], key[-1] * width)

    def piece_type(self, type_: Type, width: int) -> Type:
        """The type of one piece."""
        dtype = dtype_of(type_)
        return dtype if width == 1 else VectorType((width,), dtype)

    def piece(self, value: Value, key: Index, width: int) -> Value:
        """The piece of any value that a grid of `width` lanes has at `key`."""
        if width == 1:
            return self.scalar(value, key)
        return self.lanes(value, self.start(key, width), Lanes(len(key) - 1, 1, width))

    def define(self, value: Value, grid: Grid) -> None:
        """Say what a computed value consists of; uses of a scalar are replaced."""
        if isinstance(value.type, ScalarType):
            self.rewriter.replace_uses(value, grid[()])
        else:
            self.grids[value] = grid

    def _grid(self, value: Value) -> Grid:
        known = self.grids.get(value)
        if known is None and self.widths.is_piece(value):
            known = self.grids[value] = {(0,): value}
        if known is None:
            raise refusal(
                value.defining_op or self.anchor,
                f"makes the vector %{value.name}, which is taken apart outside of where it is made",
                required="a function or loop that holds the vector and all its uses",
                found=f"%{value.name}: {value.type}",
                fix=Direction("apply lower_vectors to an enclosing loop, or to the function"),
            )
        return known

    # -- what consumers ask for ----------------------------------------------------------------------------------

    def scalar(self, value: Value, index: Index) -> Value:
        """One element."""
        if isinstance(value.type, ScalarType):
            return value
        op = value.defining_op
        number = literal_of(op)
        if number is not None:
            return self.constant(number, dtype_of(value.type))
        if isinstance(op, Read) and value not in self.grids:
            return self._read(op, index)
        if isinstance(op, Mask) and value not in self.grids:
            return self._mask(op, index[0], 1)
        if isinstance(op, Gather) and value not in self.grids:
            return self._gathered(op, index)
        if isinstance(op, FromElements) and value not in self.grids:
            return op.operands[index[0]]
        grid = self._grid(value)
        width = self.widths.of(value)
        if width == 1:
            return grid[index]
        return self.extract(grid[*index[:-1], index[-1] // width], index[-1] % width)

    def lanes(self, value: Value, index: Index, lanes: Lanes) -> Value:
        """A 1-D vector: elements from `index` on along a dim; lanes beyond the value's extent are arbitrary, but of
        a read that reaches there they hold what the read pads with."""
        if isinstance(value.type, ScalarType):
            return self.splat(value, lanes.width)
        shape = shape_of_vector(value.type)
        op = value.defining_op
        number = literal_of(op)
        if number is not None:
            return self.splat(self.constant(number, dtype_of(value.type)), lanes.width)
        across = self._across(value, index, lanes)
        if across is not None:
            return across
        is_whole = shape == (lanes.width,) and index == (0,) and lanes.step == 1
        if is_source(value) and not isinstance(op, Gather) and is_whole:
            return value
        if isinstance(op, Read) and value not in self.grids:
            return self._read(op, index, lanes)
        if isinstance(op, Mask) and value not in self.grids and lanes.step == 1:
            return self._mask(op, index[0], lanes.width)
        if isinstance(op, Gather) and lanes.dim >= self._index_rank(op):
            return self._gathered(op, index, lanes)
        if isinstance(op, Gather) and has_gather_row(self.target, op, lanes.width):
            return self._gathered_lanes(op, index, lanes)
        if not is_source(value) and lanes.step == 1 and lanes.dim == len(shape) - 1:
            grid, width = self._grid(value), self.widths.of(value)
            if width == lanes.width and index[-1] % width == 0:
                return grid[*index[:-1], index[-1] // width]
        elements: list[Value] = []
        for lane in range(lanes.width):
            position = index[lanes.dim] + lane * lanes.step
            inside = 0 <= position < shape[lanes.dim]
            at = (*index[: lanes.dim], position, *index[lanes.dim + 1 :])
            elements.append(self.scalar(value, at) if inside or not elements else elements[-1])
        return self.from_elements(elements)

    def _across(self, value: Value, index: Index, lanes: Lanes) -> Value | None:
        """Lanes of a value whose dims stand in another order where it is made, or lanes across its last dim."""
        source, places = transposed(value.defining_op) or (value, ())
        last = len(shape_of_vector(value.type)) - 1
        if places and places[lanes.dim] == last and self.widths.of(source) == lanes.width:
            there = [index[places.index(dim)] for dim in range(len(places))]
            return self.lanes(source, tuple(there), replace(lanes, dim=places[lanes.dim]))
        return self._column(value, index, lanes) if lanes.step == 1 and lanes.dim != last else None

    def _column(self, value: Value, index: Index, lanes: Lanes) -> Value | None:
        """Lanes across the last dim, out of a block that is transposed in registers; None where that does not pay."""
        width, extents = lanes.width, shape_of_vector(value.type)
        rows = self._side_by_side(value, lanes)
        if rows is not None:
            return self._column_of_rows(rows, value, index, lanes)
        found = network(self.target, LaneType(dtype_of(value.type).name, width))
        first = index[-1] // width * width
        if found is None or 2 * min(width, extents[-1] - first) <= len(found.stages) + 1:
            return None
        corner = (*index[:-1], first)
        keys = [("column", value, corner, lanes, column) for column in range(width)]
        known = self._made.get(keys[index[-1] - first])
        if known is not None and self.visible(known):
            return known
        block: list[Value] = []
        for row in range(index[lanes.dim], index[lanes.dim] + width):
            at = (*corner[: lanes.dim], row, *corner[lanes.dim + 1 :])
            along = Lanes(len(extents) - 1, 1, width)
            block.append(self.lanes(value, at, along) if row < extents[lanes.dim] else self._beyond(value, width))
        made = found.apply(block, self._shuffled(value))
        self._made.update(zip(keys, made, strict=True))
        return made[index[-1] - first]

    def _side_by_side(self, value: Value, lanes: Lanes) -> ShortRows | None:
        """How columns of a value are made whose rows lie one behind the other in memory; None if they do not."""
        op, extents = value.defining_op, shape_of_vector(value.type)
        if not isinstance(op, Read) or value in self.grids or op.first or lanes.dim != len(extents) - 2:
            return None
        if not are_contiguous(op.subset, op.source.type, extents[-1], context_at(op).names):
            return None
        return short_rows(self.target, LaneType(dtype_of(value.type).name, lanes.width), extents[-1])

    def _column_of_rows(self, found: ShortRows, value: Value, index: Index, lanes: Lanes) -> Value:
        """Lanes across rows that lie one behind the other."""
        length, dim = shape_of_vector(value.type)[-1], lanes.dim
        outer, first = index[:dim], index[dim]
        keys = [("column of rows", value, outer, first, lanes, column) for column in range(length)]
        known = self._made.get(keys[index[-1]])
        if known is not None and self.visible(known):
            return known
        flat, width = self._flat_read(value), lanes.width
        vectors = [self.lanes(flat, (*outer, first * length + width * k), lanes) for k in range(length)]
        made = found.columns(vectors, self._shuffled(value))
        self._made.update(zip(keys, made, strict=True))
        return made[index[-1]]

    def _flat_read(self, value: Value) -> Value:
        """What is read, with its last two dims as one."""
        op, shape = value.defining_op, shape_of_vector(value.type)
        if not isinstance(op, Read):
            raise refusal(
                self.anchor, "takes rows side by side", "an operand that is read from memory", f"%{value.name}"
            )
        key = ("flat", op)
        known = self._made.get(key)
        if known is None:
            type_ = like(value.type, (*shape[:-2], shape[-2] * shape[-1]), dtype_of(value.type))
            made = Read([self.flat(op.source)], [type_], {**op.attributes, "subset": flattened(op.subset)})
            known = self._made[key] = self.insert(made, value.name, op, op)
        return known

    def flat(self, buffer: Value) -> Value:
        """A contiguous buffer with its last two dims as one."""
        key = ("flat", buffer)
        known = self._made.get(key)
        if known is None:
            *outer, rows, length = shape_of(buffer.type)
            owner = buffer.owner
            point = InsertPoint.start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
            view = self.rewriter.insert(View.of(buffer, (*outer, rows * length)), point, f"{buffer.name}.rows")
            self.created.append(view)
            known = self._made[key] = view.result
        return known

    def _shuffled(self, value: Value) -> Callable[[Value, Value, Sequence[int]], Value]:
        """Lanes of two vectors; those of one scalar in every lane are that."""
        return lambda a, b, chosen: (
            a if a is b and is_splat(a.defining_op) else self.insert(Shuffle.of(a, b, chosen), f"{value.name}.t")
        )

    def rows_of_columns(self, value: Value, to: Operation, subset: Tile) -> Mapping[Index, Value] | None:
        """Vectors of rows of a value one behind the other, by where they begin, where its columns are vectors and what
        is written lies so; None of any other."""
        source, places = transposed(value.defining_op) or (value, ())
        shape, width = shape_of_vector(value.type), self.widths.of(source)
        if len(shape) < 2 or not places or places[-2] != len(shape) - 1:
            return None
        found = short_rows(self.target, LaneType(dtype_of(value.type).name, width), shape[-1])
        if found is None or not are_contiguous(subset, to.operands[-1].type, shape[-1], context_at(to).names):
            return None
        made: dict[Index, Value] = {}
        for first in product(*map(range, shape[:-2]), range(0, shape[-2], width)):
            across = Lanes(len(shape) - 2, 1, width)
            columns = [self.lanes(value, (*first, k), across) for k in range(shape[-1])]
            for k, vector in enumerate(found.rows(columns, self._shuffled(value))):
                made[*first[:-1], first[-1] * shape[-1] + k * width] = vector
        return made

    def _beyond(self, value: Value, width: int) -> Value:
        """Lanes beyond the extent of a value: what a read pads with."""
        op = value.defining_op
        return self.splat(self.constant(op.value if isinstance(op, Read) else 0, dtype_of(value.type)), width)

    # -- making --------------------------------------------------------------------------------------------------

    def insert(self, op: Operation, base: str, origin: Operation | None = None, at: Operation | None = None) -> Value:
        """Insert a detached operation before the anchor; it stands for `origin` in messages."""
        source = origin or self.anchor
        op.stand_for(source)
        self.created.append(self.rewriter.insert(op, InsertPoint.before(at or self.anchor), base))
        return op.result

    def put(self, op: Operation, origin: Operation) -> None:
        """Insert a detached operation without a result in place of a part of `origin`, whose handles it continues."""
        op.stand_for(origin)
        self.rewriter.insert(op, InsertPoint.before(self.anchor))
        self.continue_as(origin, op)

    def constant(self, number: float | int, dtype: ScalarType) -> Value:
        """A scalar literal."""
        return self._once(("constant", repr(number), dtype), lambda: new.literal(number, dtype), "c")

    def splat(self, scalar: Value, width: int) -> Value:
        """A scalar in every lane."""
        if width == 1:
            return scalar
        type_ = VectorType((width,), dtype_of(scalar.type))
        return self._once(("splat", scalar, width), lambda: new.broadcast(scalar, (), type_), f"{scalar.name}.s")

    def extract(self, vector: Value, lane: int) -> Value:
        """One lane of a 1-D vector."""
        op = vector.defining_op
        if is_splat(op) and op is not None:
            return op.operands[0]
        if isinstance(op, FromElements):
            return op.operands[lane]
        return self._once(("extract", vector, lane), lambda: Extract.of(vector, lane), f"{vector.name}.e{lane}")

    def from_elements(self, elements: Sequence[Value]) -> Value:
        """A 1-D vector of scalars."""
        if all(e is elements[0] for e in elements):
            return self.splat(elements[0], len(elements))
        return self._once(("elements", *elements), lambda: FromElements.of(elements), f"{elements[0].name}.v")

    def takes_any_lanes(self, value: Value, width: int) -> bool:
        """Whether the target has a row that puts any lanes of vectors of these elements together."""
        type_ = LaneType(dtype_of(value.type).name, width)
        return self.target.find("permute", None, type_, [type_, type_]) is not None

    def permuted(self, vector: Value, lanes: Sequence[int]) -> Value:
        """A 1-D vector of lanes of one, each any number of times."""
        if is_splat(vector.defining_op):
            return vector
        numbers = tuple(lanes)
        return self._once(
            ("permuted", vector, numbers), lambda: Shuffle.of(vector, vector, numbers), f"{vector.name}.p"
        )

    def groups(self, value: Value, index: Index, lanes: tuple[Lanes, Lanes]) -> Value:
        """A 1-D vector of what a value that is read from memory holds along two dims, row by row."""
        op = value.defining_op
        if not isinstance(op, Read):
            raise refusal(self.anchor, "takes groups of lanes", "an operand that is read from memory", f"%{value.name}")
        return self._read(op, index, *lanes)

    def repeat(self, vector: Value, width: int) -> Value:
        """The lanes of a 1-D vector over and over."""
        return self._once(("repeat", vector, width), lambda: Repeat.of(vector, width), f"{vector.name}.s")

    def mask(self, count: Dim, width: int) -> Value:
        """A mask of which the first `count` lanes are true; of a number of them, it stands outside of the loops."""
        if not isinstance(count, int):
            return self._once(("mask", count, width), lambda: Mask.of(count, width), "mask")
        block = invariant_block(self.anchor)
        if block is None:
            raise refusal(self.anchor, "needs a mask of lanes", "an operation of a function", "an operation of none")
        key = ("mask", count, width, id(block))
        known = self._made.get(key)
        if known is None:
            made = self.rewriter.insert(Mask.of(count, width), InsertPoint.start(block), f"mask.{count}")
            self.created.append(made)
            known = self._made[key] = made.result
        return known

    def index(self, value: Dim, dtype: ScalarType) -> Value:
        """An index expression as a scalar."""
        if isinstance(value, int):
            return self.constant(value, dtype)
        return self._once(("index", value, dtype), lambda: new.index_value(value, dtype), "at")

    def counting(self, start: Value, step: int, width: int) -> Value:
        """A 1-D vector of integers that goes up by `step` from a scalar on."""
        dtype = dtype_of(start.type)
        numbers = lane_numbers(self.rewriter, self.anchor, step, dtype)
        key = ("counting", start, step, width)
        known = self._made.get(key)
        if known is not None and self.visible(known):
            return known
        type_ = VectorType((width,), dtype)
        read = ("steps", dtype, step, width)
        steps = self._once(read, lambda: Read.of(numbers, Tile((0,), (width,)), type_), f"{start.name}.n")
        counted = new.add(self.splat(start, width), steps)
        made = self._made[key] = self.insert(counted, f"{start.name}.v")
        self.rewriter.set_note(counted, ADDED, self.anchor.name)
        return made

    def apply(self, op: Structured, args: Sequence[Value], accumulators: Sequence[Value], base: str) -> Sequence[Value]:
        """The body of a structured operation on lanes; what makes its first result continues `op`."""
        pending: list[Operation] = []
        has_numbers = (
            Reduction.of(op) is not None and Scan.of(op) is None and any(number_of(value) is not None for value in args)
        )

        def build(new: Operation) -> Value:
            number = literal_of(new)
            if number is not None:
                dtype, shape = dtype_of(new.result.type), shape_of_vector(new.result.type)
                return self.splat(self.constant(number, dtype), shape[0] if shape else 1)
            if is_splat(new) and new.operands[0].defining_op not in pending:
                scalar, width = new.operands[0], shape_of_vector(new.result.type)[0]
                discard(new)
                return self.splat(scalar, width)
            known = known_result(new) if has_numbers else None
            if known is not None:
                width = prod(shape_of_vector(new.result.type))
                dtype = dtype_of(new.result.type)
                discard(new)
                return known if isinstance(known, Value) else self.splat(self.constant(known, dtype), width)
            pending.append(new)
            return new.result

        results = op.elements(build, args, accumulators)
        for made in pending:
            self.insert(made, base if made.result in results else f"{base}.p", op)
        last = results[0].defining_op
        if last is not None and last in pending:
            self.continue_as(op, last)
        return results

    def leaves_accumulator(self, op: Structured, args: Sequence[Value]) -> bool:
        """Whether an iteration that reads these lanes computes the neutral element: of padding and finite numbers."""
        numbers = tuple(map(as_number, args[: len(op.inputs)]))
        key = ("neutral", op, numbers)
        if key not in self._known:
            others = (value for number, value in zip(numbers, op.inputs, strict=True) if number is None)
            self._known[key] = is_neutral(op, numbers) and all(map(is_finite, others))
        return self._known[key]

    def continue_as(self, op: Operation, piece: Operation) -> None:
        """Handles to `op` denote all pieces of its arithmetic."""
        self.rewriter.set_origins(piece, op.origins, op.copy_path)

    def visible(self, value: Value) -> bool:
        """Whether the value, made earlier, may be used at the anchor."""
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        block = self.anchor.parent
        while block is not None:
            if block is home:
                return True
            block = block.parent.parent if block.parent is not None else None
        return False

    def _once(self, key: Hashable, make: Callable[[], Operation], base: str) -> Value:
        known = self._made.get(key)
        if known is not None and self.visible(known):
            return known
        made = self._made[key] = self.insert(make(), base)
        return made

    def _read(self, op: Read, index: Index, *lanes: Lanes) -> Value:
        """A part of what `op` reads: made right before it, or where it is first asked for if nothing is written in
        between, which keeps the number of live values down."""
        key = ("read", op, index, lanes)
        known = self._made.get(key)
        if known is not None and self.visible(known):
            return known
        attributes = {key: held for key, held in op.attributes.items() if key not in (FREE, ROW, "first")}
        if op.first:
            tile, begins = self.tiles.at(op).placed(op.subset, op.first, index, *lanes)
            attributes |= first_lanes(begins)
        else:
            tile = self.tiles.at(op).piece(op.subset, index, *lanes, is_free=FREE in op.attributes)
        if is_empty(tile):
            return self.splat(self.constant(op.value, dtype_of(op.result.type)), prod(entry.width for entry in lanes))
        number = None if lanes else known_element(op.source, tile)
        if number is not None:
            return self.constant(number, dtype_of(op.result.type))
        kind = op.result.type if lanes else dtype_of(op.result.type)
        type_ = like(kind, (prod(entry.width for entry in lanes),) if lanes else (), dtype_of(op.result.type))
        made = type(op)([op.operands[0]], [type_], {**attributes, "subset": tile})
        name = ".".join([op.results[0].name, *map(str, index)])
        place = self.anchor if self._may_move(op) else op
        value = self._made[key] = self.insert(made, name, op, place)
        self.continue_as(op, made)
        return value

    def _mask(self, op: Mask, at: int, width: int) -> Value:
        """Lanes of a mask from one on."""
        first = maximum(0, op.first - at)
        count = op.first + op.count - at - first
        return self._once(("lanes of a mask", op, at, width), lambda: Mask.of(count, width, first), op.result.name)

    @staticmethod
    def _index_rank(op: Gather) -> int:
        """How many dims of what is gathered are those of the indices."""
        return len(shape_of_vector(op.operands[0].type))

    def _gathered(self, op: Gather, index: Index, *lanes: Lanes) -> Value:
        """A part of what `op` reads where elements of its indices say."""
        rank = self._index_rank(op)
        key = ("gathered", op, index, lanes)
        known = self._made.get(key)
        if known is not None and self.visible(known):
            return known
        outer, self.anchor = self.anchor, self.anchor if self._may_move(op) else op
        given = {dim: self.scalar(value, index[:rank]) for dim, value in op.indices.items()}
        if not isinstance(op.source.type, BufferType):
            raise refusal(op, "reads where values say", "a buffer", f"%{op.source.name}", "apply bufferize before")
        name = ".".join([op.results[0].name, *map(str, index)])
        type_ = like(op.result.type, (lanes[0].width,), dtype_of(op.result.type)) if lanes else dtype_of(op.result.type)
        guard = self._guard(op, given, type_) if op.bounded else None
        if guard is not None and guard.then.terminator is not None:
            self.anchor = guard.then.terminator
        source, subset = op.source, op.subset
        part = self._once(("part", op, *given.values()), lambda: At.at(source, subset, given), f"{name}.row")
        kept = op.subset.kept
        sizes = [1 if dim in given else op.subset.sizes[dim] for dim in kept]
        inner = [k for k, dim in enumerate(kept) if dim not in given]
        tile = Tile((0,) * len(kept), tuple(sizes), dropped=tuple(k for k in range(len(kept)) if k not in inner))
        moved = [replace(entry, dim=entry.dim - rank) for entry in lanes]
        tile = self.tiles.at(op).piece(tile, index[rank:], *moved, is_free=FREE in op.attributes)
        made = Read.of(part, tile, type_, op.value)
        value = self.insert(made, name, op)
        if guard is not None:
            self.rewriter.set_operand(self.anchor, 0, value)
            value = guard.result
        self._made[key] = value
        self.anchor = outer
        self.continue_as(op, made)
        return value

    def _gathered_lanes(self, op: Gather, index: Index, lanes: Lanes) -> Value:
        """Lanes that are read where those of the indices say."""
        rank = self._index_rank(op)
        key = ("gathered", op, index, lanes)
        known = self._made.get(key)
        if known is not None and self.visible(known):
            return known
        ((dim, given),) = op.indices.items()
        outer, self.anchor = self.anchor, self.anchor if self._may_move(op) else op
        at = self.lanes(given, index[:rank], lanes)
        dtype = place_dtype(given)
        if dtype_of(at.type) != dtype:
            at = self.insert(new.cast(at, dtype), f"{given.name}.at")
        left = iter(index[rank:])
        tile = self.tiles.at(op).piece(op.subset, [0 if d == dim else next(left) for d in op.subset.kept])
        whole = op.subset

        def along(some: tuple[Dim, ...], every: tuple[Dim, ...]) -> tuple[Dim, ...]:
            return (*some[:dim], every[dim], *some[dim + 1 :])

        tile = Tile(
            along(tile.offsets, whole.offsets),
            along(tile.sizes, whole.sizes),
            along(tile.strides, whole.strides),
            tuple(d for d in tile.dropped if d != dim),
        )
        type_ = like(op.result.type, (lanes.width,), dtype_of(op.result.type))
        made = Gather.of({dim: at}, op.source, tile, type_, op.value)
        made.attributes["bounded"] = True
        value = self._made[key] = self.insert(made, ".".join([op.results[0].name, *map(str, index)]), op)
        self.anchor = outer
        self.continue_as(op, made)
        return value

    def _guard(self, op: Gather, given: Mapping[int, Value], type_: Type) -> If:
        """A branch that hands out what `op` has where indices are outside; what it has elsewhere goes into `then`."""
        rest = self.constant(op.value, dtype_of(type_))
        if isinstance(type_, VectorType):
            rest = self.splat(rest, type_.shape[0])
        inside = Predicate(())
        for dim, value in given.items():
            extent = op.subset.sizes[dim]
            var = Var(self.rewriter.fresh_name(op, f"{op.results[0].name}/at"), -1, extent + 1)
            self.rewriter.insert(Bind.of(value, var), InsertPoint.before(self.anchor))
            inside &= Predicate.of(">=", var.size(), 0) & Predicate.of("<", var.size(), extent)
        guard = If([], [type_], {"predicate": inside}, [Block(), Block()])
        self.insert(guard, op.results[0].name, op)
        for block in guard.regions:
            self.rewriter.insert(Yield([rest]), InsertPoint.start(block))
        return guard

    def _may_move(self, op: Operation) -> bool:
        """Whether a read may move down to the anchor: it is in the same block, and nothing in between writes."""
        key = ("movable", op, self.anchor)
        known = self._known.get(key)
        if known is None:
            block = op.parent
            known = block is not None and block is self.anchor.parent
            if block is not None and known:
                between = block.ops[block.index(op) + 1 : block.index(self.anchor)]
                known = not any(_writes(inner) for found in between for inner in found.walk())
            self._known[key] = known
        return known


def _writes(op: Operation) -> bool:
    """Whether an operation may change memory: passing on a carried value and prefetching do not."""
    if isinstance(op, StYield):
        return isinstance(op.operands[1].type, TensorType)
    return Memory(op).has_side_effects and not Memory(op).is_hint

"""What transforms may ask of an operation. They talk to these interfaces, never to operation classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache
from typing import ClassVar

from tcpx.limits import INT64_MAX
from tcpx.payload.broadcasting import broadcasts_to_write, have_equal_extents
from tcpx.payload.contexts import are_equal_at, context_at, context_if, is_less_equal_at, is_unreachable
from tcpx.payload.diagnostics import Direction, VerifyError, statements_to_write
from tcpx.payload.indexing_maps import (
    DimDigit,
    IndexingMap,
    dim_symbol,
    dims,
    from_first,
    grows,
    index_operands,
    index_range,
    is_linear_in,
    map_block,
    map_digit,
    map_dim,
    map_element,
    map_falling,
    map_symbols,
    map_text,
)
from tcpx.payload.ir import DIM_NAMES, LANES, ROW, VALID, Attribute, Operation, Range, Value
from tcpx.payload.pieces import Piece
from tcpx.payload.sizes import (
    Dim,
    Min,
    Symbol,
    Var,
    at_least_one,
    ceildiv,
    floordiv,
    is_equal,
    is_less_equal,
    maximum,
    minimum,
    mod,
    not_negative,
    substitute,
    to_text,
)
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate, Relation
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.dims import fixed_dims, has_numbered_dims
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import Positions, positions_read
from tcpx.payload.traits.ragged import RaggedDims, ragged_dims
from tcpx.payload.traits.rebuilding import Rebuilding
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.scatter import can_take_turns
from tcpx.payload.traits.signature import result_roles
from tcpx.payload.traits.to_write import wrong_attribute
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import ScalarType, TensorType, VectorType, dtype_of, like, shape_of
from tcpx.payload.value_ranges import beside, dtype_range, union, value_range
from tcpx.plurals import counted
from tcpx.records import frozen, frozen_for_checkers

Build = Callable[[Operation], Value]
"""Inserts a detached one-result operation and returns its result."""


class IteratorKind(Enum):
    """What iterations over a dim have to do with one another: they write disjoint results, or combine into one; in
    their order, with results of their own beside what each hands on to the next; or they are not to be told apart."""

    PARALLEL = "parallel"
    REDUCTION = "reduction"
    SEQUENTIAL = "sequential"
    WHOLE = "whole"


@frozen_for_checkers
class Iterator:
    """One dim of an iteration domain. Without a declared `extent` it has that of what is indexed by the dim alone."""

    name: str
    kind: IteratorKind
    extent: Dim | None = None

    @property
    def is_reduction(self) -> bool:
        """Whether an iteration goes on from what others have made of a result."""
        return self.kind in (IteratorKind.REDUCTION, IteratorKind.SEQUENTIAL)

    @property
    def is_sequential(self) -> bool:
        return self.kind is IteratorKind.SEQUENTIAL

    @property
    def is_parallel(self) -> bool:
        return self.kind is IteratorKind.PARALLEL

    @property
    def is_whole(self) -> bool:
        """Whether no tile has a part of it."""
        return self.kind is IteratorKind.WHOLE

    @property
    def dim(self) -> Symbol:
        return dim_symbol(self.name)

    @property
    def entry(self) -> tuple[Attribute, ...]:
        """The iterator in an attribute: `["k", "reduction"]`, or `["k", "reduction", 3]`."""
        return (self.name, self.kind.value, *(() if self.extent is None else (self.extent,)))


@frozen_for_checkers
class Box:
    """Iterations of an operation: where they start along each of its dims, and how many there are."""

    offsets: tuple[Dim, ...]
    sizes: tuple[Dim, ...]

    @staticmethod
    def at_origin(sizes: Sequence[Dim]) -> Box:
        """The first iterations of each dim."""
        return Box((0,) * len(sizes), tuple(sizes))

    def resized(self, sizes: Sequence[Dim]) -> Box:
        """As many iterations as these, from the same place on."""
        return Box(self.offsets, tuple(sizes))

    def along(self, position: int, offset: Dim, size: Dim) -> Box:
        """The box with another range of one dim."""
        offsets, sizes = list(self.offsets), list(self.sizes)
        offsets[position], sizes[position] = offset, size
        return Box(tuple(offsets), tuple(sizes))


def _blocks_in(part: tuple[Dim, Dim], factor: int, count: Dim, whole: Dim, here: Context) -> tuple[Dim, Dim] | None:
    """The blocks of `factor` elements that a part of a dim holds, of `count` there are: the first, and how many. None
    where the part may cut a block: it begins at one, and ends at one or where the dim does."""
    offset, size = part
    first, counts = here.floordiv(offset, factor), list[Dim]()
    for end in _ends(size):
        if here.is_equal(here.mod(end, factor), 0) is True:
            counts.append(here.floordiv(end, factor))
        elif here.is_equal(offset + end, whole) is not True:
            return None
    if not counts or here.is_less_equal(offset + size, whole) is True:  # else it is padded behind the dim
        counts.append(here.not_negative(count - first))
    return (first, here.minimum(*counts)) if here.is_equal(here.mod(offset, factor), 0) is True else None


def _ends(size: Dim) -> tuple[Dim, ...]:
    """The sizes that a size is the least of."""
    for factors, coefficient in () if isinstance(size, int) else size.terms:
        match factors:
            case (Min() as least,) if coefficient == 1:
                rest = size - least.size()
                return tuple(end for arg in least.args for end in _ends(arg + rest))
            case _:
                pass
    return (size,)


@cache
def parallel(*names: str) -> tuple[Iterator, ...]:
    """Parallel iterators of these names."""
    return tuple(Iterator(n, IteratorKind.PARALLEL) for n in names)


@cache
def numbered(
    rank: int, others: tuple[int, ...] = (), kind: IteratorKind = IteratorKind.REDUCTION
) -> tuple[Iterator, ...]:
    """Iterators of the dims of an operand or a result, by their numbers: parallel, but for `others` of that kind."""
    return tuple(Iterator(f"d{k}", kind if k in others else IteratorKind.PARALLEL) for k in range(rank))


@cache
def _numbered_map(rank: int) -> IndexingMap:
    return dims(*(it.name for it in numbered(rank)))


def check_dim(op: Operation, dim: int, rank: int, of: str = "operand") -> None:
    """Raise VerifyError where the attribute `dim` is no position of a dim."""
    if not 0 <= dim < rank:
        raise op.error(
            f"`dim` is a dim of the {of}",
            required=f"0 or more, and below {rank}",
            found=str(dim),
            fix=f"{{dim = {dim + rank}}}" if -rank <= dim < 0 else None,
        )


def sequential(*names: str) -> tuple[Iterator, ...]:
    """Sequential iterators of these names."""
    return tuple(Iterator(n, IteratorKind.SEQUENTIAL) for n in names)


def whole(*names: str) -> tuple[Iterator, ...]:
    """Iterators of these names of which no tile has a part."""
    return tuple(Iterator(n, IteratorKind.WHOLE) for n in names)


@cache
def reduction(*names: str) -> tuple[Iterator, ...]:
    """Reduction iterators of these names."""
    return tuple(Iterator(n, IteratorKind.REDUCTION) for n in names)


@frozen
class Position:
    """An index expression over dims that a body reads, as a number of type `dtype`; `origin` is what to add to it
    where the operation is a tile of another, in whose iterations it counts."""

    expression: Dim
    dtype: ScalarType
    origin: Dim = 0

    def at(self, index: Mapping[Symbol, Dim]) -> Dim:
        """Its value in the iteration where dims have these values."""
        return self.origin + substitute(self.expression, {**index})


@frozen
class Ragged:
    """The iterations of a dim that there are: from the element of input `first` on to before that of input `end`, where
    iteration 0 counts as `origin`."""

    first: int
    end: int
    origin: Dim = 0


class Tileable(Operation):
    """Interface `Tiling`: an iteration domain, and which subset of each operand and result a part of it touches."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        common: tuple[str, ...] = getattr(cls, "common_attributes", (ROW,))
        if has_numbered_dims(cls) and DIM_NAMES not in common:
            cls.common_attributes = (*common, DIM_NAMES)
        super().__init_subclass__()

    def _numbered(
        self, rank: int, others: tuple[int, ...] = (), kind: IteratorKind = IteratorKind.REDUCTION
    ) -> tuple[Iterator, ...]:
        """Iterators of `rank` dims: parallel, but for `others` of that kind. They are called d0, d1, .., or as the
        payload names them. Vectors of a part of the dims have the numbers."""
        names = self.attributes.get(DIM_NAMES)
        made = numbered(rank, others, kind) if others else numbered(rank)
        if not isinstance(names, tuple) or len(names) != rank:
            return made
        return tuple(Iterator(str(name), it.kind) for name, it in zip(names, made, strict=True))

    def _numbered_map(self, rank: int) -> IndexingMap:
        """The indexing map that selects these dims in their order."""
        if DIM_NAMES in self.attributes:
            return dims(*(it.name for it in self._numbered(rank)))
        return _numbered_map(rank)

    def check_attributes(self) -> None:
        """As of any operation; names of dims are one for each, and each names one."""
        super().check_attributes()
        names = self.attributes.get(DIM_NAMES, ())
        texts = [n for n in names if isinstance(n, str) and n.isidentifier()] if isinstance(names, tuple) else []
        if not isinstance(names, tuple) or len(texts) != len(names) or len({*texts}) != len(texts):
            raise wrong_attribute(self, DIM_NAMES, 'a list of different names of dims, quoted: ["row", "column"]')
        is_whole = all(isinstance(result.type, TensorType) for result in self.results)
        own = self.iterators() if DIM_NAMES in self.attributes else ()
        if is_whole and len(names) != len(own):
            raise self.error(
                "each dim has a name",
                required=f"{counted(len(own), 'name')}, one for each of {', '.join(it.name for it in own)}",
                found=f"[{', '.join(texts)}]",
            )

    def iterators(self) -> tuple[Iterator, ...]:
        """The dims of the iteration domain with their kinds."""
        raise self.error("the operation declares no iterators", required="an operation with this interface")

    def domain(self) -> tuple[Dim, ...]:
        """The extent of each iterator, as the types say it."""
        raise self.error("the operation declares no iteration domain", required="an operation with this interface")

    def extents(self) -> tuple[Dim, ...]:
        """The extent of each iterator."""
        return self.domain()

    def operand_tile(self, index: int, box: Box) -> Tile:
        """The part of input `index` that a box of iterations reads."""
        raise self.error("the operation declares no operand subsets", required="an operation with this interface")

    def result_tile(self, box: Box, number: int = 0) -> Tile:
        """The part of a result that a box of iterations writes."""
        raise self.error("the operation declares no result subset", required="an operation with this interface")

    def iteration_of_result(self, tile: Tile, number: int = 0) -> Box | None:
        """The iteration box that computes this part of a result; None if it is not a box."""
        raise self.error(
            "the operation declares no iteration for a result subset", required="an operation with this interface"
        )

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        """The iteration box that reads just this part of input `index`; None if it is not a box."""
        raise self.error(
            "the operation declares no iteration for an operand subset", required="an operation with this interface"
        )

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        """A detached operation of the same class on tiles: inputs, then `init` if given; `shapes` are the results'."""
        raise self.error("the operation cannot be rebuilt on tiles", required="an operation with the Tiling interface")

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        """A detached operation that computes a box of iterations of this one, of what `operand_tile` says that they
        read of each input, then of `init` if given."""
        return self.on_tiles(operands, *(self.result_tile(box, k).shape for k in range(len(self.results))))

    def iterator(self, name: str) -> Iterator:
        """The iterator of this name; an error lists those there are."""
        for it in self.iterators():
            if it.name == name:
                return it
        raise self.error(
            f"there is no dim `{name}`",
            required="a dim of the operation",
            found=", ".join(it.name for it in self.iterators()) or "no dims",
        )

    def size_of(self, name: str) -> Dim:
        """The extent of the dim `name`."""
        self.iterator(name)
        return dict(zip((it.name for it in self.iterators()), self.extents(), strict=True))[name]

    def _holds(self, relation: Relation, a: Dim, b: Dim) -> bool | None:
        """Whether a relation of sizes holds, by what the branches round the operation say of them if need be. Of an
        operation that never runs, anything does."""
        decided = is_equal(a, b) if relation == "==" else is_less_equal(a, b)
        if decided is None:
            decided = context_at(self).decide(Predicate.of(relation, a, b))
        return True if decided is not True and is_unreachable(self) else decided


def dim_called(op: Tileable, name: str) -> str:
    """The dim of this name, or of this number where the payload names the dims: `d0` is the first of them."""
    names = [it.name for it in op.iterators()] if DIM_NAMES in op.attributes else []
    is_number = name not in names and name[:1] == "d" and name[1:].isdecimal() and int(name[1:]) < len(names)
    return names[int(name[1:])] if is_number else name


def pads_freely(op: Tileable, index: int) -> bool:
    """Whether the padding of input `index` may hold anything, where no reduction dim is padded; not that of what says
    where something is: padding stands for an index, too."""
    if not isinstance(op, Structured):
        return True
    bounds = ragged_dims(op).values()
    return index not in Indices(op).operands and all(index not in (r.first, r.end) for r in bounds)


def padded(op: Operation | None) -> Value | None:
    """What a padding pads; None of what is none."""
    is_padding = isinstance(op, Tileable) and ViewLike(op).rest is not None and len(op.operands) == 1
    return op.operands[0] if is_padding and op is not None else None


def padded_behind(op: Operation | None) -> Value | None:
    """What a padding pads that stands behind the last elements alone; None of anything else."""
    piece = whole_piece(op) if padded(op) is not None else None
    return padded(op) if piece is not None and piece.place.is_at_origin else None


def pieces_of_all(op: Operation | None) -> Sequence[Piece] | None:
    """What all of a view shows; None of an operation that is none."""
    if not isinstance(op, Tileable) or len(op.results) != 1:
        return None
    types = [value.type for value in op.operands]
    declaration = len(types), *types, op.result.type, len(op.attributes), *op.attributes.values()
    return op.once("pieces", declaration, lambda: ViewLike(op).pieces(Tile.full(shape_of(op.result.type))))


def whole_piece(op: Operation | None) -> Piece | None:
    """The piece that a view shows of all of its only operand, in the shape it has; None of anything else."""
    pieces = pieces_of_all(op)
    if op is None or pieces is None or len(pieces) != 1 or pieces[0].reshapes:
        return None
    return (
        pieces[0]
        if pieces[0].tile.is_full(shape_of(op.operands[pieces[0].operand].type), context_at(op).names)
        else None
    )


@lru_cache(maxsize=4096)
def _places_of_dims(maps: tuple[IndexingMap, ...]) -> Mapping[str, tuple[int, int, int | None]]:
    """Where the extent of each dim stands: the first map and position that is the dim alone; else that is its quotient,
    with the divisor."""
    known: dict[str, tuple[int, int, int | None]] = {}
    by_digits: dict[str, tuple[int, int, int | None]] = {}
    for operand, indexing_map in enumerate(maps):
        for position, expression in enumerate(indexing_map):
            name, digit = map_dim(expression), map_digit(expression)
            if name is not None:
                known.setdefault(name, (operand, position, None))
            elif digit is not None and not digit.is_remainder:
                by_digits.setdefault(digit.dim, (operand, position, digit.radix))
    return by_digits | known


class Structured(Tileable):
    """Interface `Structured`: iterators, indexing maps and a scalar body; tiling follows from them.

    Root of the operation tree. A class of one result declares `result_map`, `scalar_body` and, if it reduces, `combine`
    and `neutral`; one of several `result_maps`, `elements`, `joined` and `neutrals`.
    """

    __slots__ = ()
    class_name = "generic"
    common_attributes = (ROW, VALID, LANES)
    computes_result = True

    def maps(self) -> tuple[IndexingMap, ...]:
        """The indexing map of each input (without `init`)."""
        raise self.error("the operation declares no indexing maps", required="an operation with this interface")

    def result_map(self) -> IndexingMap:
        """The indexing map of the result and of `init`: a permutation of the parallel dims."""
        raise self.error("the operation declares no result map", required="an operation with this interface")

    def result_maps(self) -> tuple[IndexingMap, ...]:
        """The indexing map of each result, and of what its accumulator starts with."""
        return (self.result_map(),)

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        """Build the body on scalars, or lane-wise on equal vectors; `acc` is the accumulator of a reduction."""
        raise self.error("the operation declares no scalar body", required="an operation with this interface")

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        """Build the body as `scalar_body` does: an element of each result. `args` are elements of the inputs, then the
        positions; there is one accumulator per result, or none."""
        return (self.scalar_body(build, args, accumulators[0] if accumulators else None),)

    @property
    def is_movement(self) -> bool:
        """Whether the body computes nothing: result elements are operand elements or a literal."""
        return False

    @property
    def acc_type(self) -> ScalarType:
        """The dtype of the accumulator (of the result)."""
        return dtype_of(self.result.type)

    @property
    def acc_types(self) -> tuple[ScalarType, ...]:
        """The dtype of each accumulator."""
        return tuple(dtype_of(result.type) for result in self.results)

    def domain(self) -> tuple[Dim, ...]:
        shapes = [shape_of(v.type) for v in (*self.results, *self.inputs)]
        maps, its = (*self.result_maps(), *self.maps()), self.iterators()
        if list(map(len, maps)) != list(map(len, shapes)):
            raise ValueError(f"{self!r}: maps and shapes differ in rank")
        known = {
            name: shapes[operand][position] if radix is None else shapes[operand][position] * radix
            for name, (operand, position, radix) in _places_of_dims(maps).items()
        }
        known |= {it.name: it.extent for it in its if it.extent is not None}
        for it in its:
            if it.name not in known:
                raise self.error(
                    f"the extent of dim `{it.name}` follows from no operand",
                    required="an operand or result indexed by the dim alone, or a declared extent",
                    found=f'["{it.name}", "{it.kind.value}"]',
                    fix=Direction(f'["{it.name}", "{it.kind.value}", 3], where 3 is the extent'),
                )
        return tuple(known[it.name] for it in its)

    def _map_tile(self, indexing_map: IndexingMap, shape: Sequence[Dim], box: Box) -> Tile:
        its = self.iterators()
        start: dict[Symbol | Var, Dim] = {it.dim: o for it, o in zip(its, box.offsets, strict=True)}
        extent = {it.name: s for it, s in zip(its, box.sizes, strict=True)}
        out_offsets: list[Dim] = []
        out_sizes: list[Dim] = []
        strides: list[Dim] = [1] * len(indexing_map)
        for position, (expression, whole) in enumerate(zip(indexing_map, shape, strict=True)):
            name = map_dim(expression)
            if name is not None:
                out_offsets.append(start[dim_symbol(name)])
                out_sizes.append(extent[name])
                continue
            falling = map_falling(expression)
            if falling is not None:
                out_offsets.append(substitute(expression, start))
                out_sizes.append(extent[falling.dim])
                strides[position] = falling.factor
                continue
            digit = map_digit(expression)
            if digit is not None:
                first, size = start[dim_symbol(digit.dim)], extent[digit.dim]
                self._check_digit(digit, first)
                out_offsets.append(0 if digit.is_remainder else floordiv(first, digit.radix))
                is_short = isinstance(whole, int) and whole < digit.radix  # of a dim shorter than the radix
                remainder = whole if is_short else digit.radix
                out_sizes.append(remainder if digit.is_remainder else ceildiv(size, digit.radix))
                continue
            if not grows(expression):
                self._check_untiled(expression, box)
                out_offsets.append(0)
                out_sizes.append(whole)
                continue
            low = substitute(expression, start)
            last: dict[Symbol | Var, Dim] = {dim_symbol(n): start[dim_symbol(n)] + extent[n] - 1 for n in extent}
            out_offsets.append(low)
            out_sizes.append(not_negative(substitute(expression, last) - low + 1))  # of no iterations, nothing
        return Tile(tuple(out_offsets), tuple(out_sizes), tuple(strides))

    def _check_untiled(self, expression: Dim, box: Box) -> None:
        """An operand that is not read in the order of a dim is read whole, by all of that dim."""
        names = map_symbols(expression)
        for it, offset, size, extent in zip(self.iterators(), box.offsets, box.sizes, self.domain(), strict=True):
            is_whole = are_equal_at(self, offset, 0) and are_equal_at(self, size, extent)
            if it.name in names and not is_whole and not are_equal_at(self, extent, 0):  # nothing reads nothing
                raise self.error(
                    f"`{to_text(expression)}` does not grow with `{it.name}`: what a tile of `{it.name}` reads does not"
                    " start where its first iteration reads",
                    required=f"maps that are sums of dims times positive numbers, or fall with one dim, to tile"
                    f" `{it.name}`",
                    found=to_text(expression),
                    fix=Direction(f"tile other dims than `{it.name}`") if len(self.iterators()) > 1 else None,
                )

    def _check_digit(self, digit: DimDigit, offset: Dim) -> None:
        """A tile of a dim that an operand holds by digits is a tile of that operand if it starts at a quotient."""
        if not are_equal_at(self, mod(offset, digit.radix), 0):
            raise self.error(
                f"`{digit.dim}` is stored by its digits {digit.dim}/{digit.radix} and {digit.dim}%{digit.radix}:"
                f" a tile of it starts at a multiple of {digit.radix}",
                required=f"tiles of `{digit.dim}` by a multiple of {digit.radix}",
                found=f"one at {to_text(offset)}",
                fix=f"`[{digit.dim}: {digit.radix}]`",
            )

    def operand_tile(self, index: int, box: Box) -> Tile:
        indexing_map, shape = self.maps()[index], shape_of(self.inputs[index].type)
        return self._none_of_no_iterations(indexing_map, shape, box, self._map_tile(indexing_map, shape, box))

    def _none_of_no_iterations(self, indexing_map: IndexingMap, shape: Sequence[Dim], box: Box, tile: Tile) -> Tile:
        """The subset of an operand that a box reads, where the box may have no iteration because a dim that it holds
        all of is empty: then nothing is read, and the operand may be too short for the other dims."""
        partial = self._partial_dims()
        places = [k for k, e in enumerate(indexing_map) if (map_dim(e) or "") in partial or map_dim(e) is None]
        if not places:
            return tile
        extents = {it.name: d for it, d in zip(self.iterators(), self.domain(), strict=True)}
        parts = {
            name: extent
            for (name, extent), offset, size in zip(extents.items(), box.offsets, box.sizes, strict=True)
            if not are_equal_at(self, offset, 0) or not are_equal_at(self, size, extent)
        }
        offsets, sizes = list(tile.offsets), list(tile.sizes)
        never = any(is_less_equal_at(self, extent, 0) for extent in extents.values())
        for k in places:
            first, end = index_range(indexing_map[k], extents)
            if self._holds_if_read(end, shape[k], parts) and self._holds_if_read(0, first, parts):
                continue
            sizes[k] = 0 if never else minimum(sizes[k], not_negative(shape[k] - offsets[k]))
            offsets[k] = 0 if never else offsets[k]
        return Tile(tuple(offsets), tuple(sizes), tile.strides, tile.dropped)

    def result_tile(self, box: Box, number: int = 0) -> Tile:
        return self._map_tile(self.result_maps()[number], shape_of(self.results[number].type), box)

    def _partial_dims(self) -> set[str]:
        """The dims by which a part of an operand may be read: it may be longer."""
        declared = {it.name for it in self.iterators() if it.extent is not None}
        if Rebuilding(self).reads_all_of_operands:
            return declared
        return {*declared, *filter(None, (map_dim(e) for result_map in self.result_maps() for e in result_map))}

    def _iteration(self, indexing_map: IndexingMap, shape: Sequence[Dim], tile: Tile) -> Box | None:
        if tile.dropped or any(s != 1 for s in tile.strides):
            return None
        found: dict[str, tuple[Dim, Dim]] = {}
        read_whole = set[str]()
        partial, extents = (
            self._partial_dims(),
            dict(zip((it.name for it in self.iterators()), self.domain(), strict=True)),
        )
        for expression, whole, offset, size in zip(indexing_map, shape, tile.offsets, tile.sizes, strict=True):
            name, part = map_dim(expression), (offset, size)
            if name is not None and name in partial and not are_equal_at(self, extents[name], whole):
                return None
            if name is None:
                if from_first((expression,)) != (expression,):
                    return None
                if offset == 0 and are_equal_at(self, size, whole):
                    read_whole.update(map_symbols(expression))
                    continue
                block = map_block(expression, extents)
                if block is None:
                    return None
                name, factor = block
                part = _blocks_in(part, factor, extents[name], whole, context_at(self))
            if part is None or name in found:
                return None
            found[name] = part
        return None if read_whole & found.keys() else self._box(found)

    def _box(self, parts: Mapping[str, tuple[Dim, Dim]]) -> Box | None:
        """The iterations of these parts of dims; None for a part that goes on from elements before it."""
        box = Box.at_origin(self.extents())
        for position, it in enumerate(self.iterators()):
            if it.name in parts:
                if it.is_sequential and parts[it.name][0] != 0:
                    return None
                box = box.along(position, *parts[it.name])
        return box

    def iteration_of_result(self, tile: Tile, number: int = 0) -> Box | None:
        return self._iteration(self.result_maps()[number], shape_of(self.results[number].type), tile)

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        return self._iteration(self.maps()[index], shape_of(self.inputs[index].type), tile)

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        if len(operands) > len(self.operands) and not self.signature.optional_operand:
            raise self.error(
                "a tile of a reduction goes on from what the tiles before it gave, and the class declares no `init`",
                required="`init = OptionalOperand()` in the class",
                found=f"the operand(s) {', '.join(self.operand_roles)} alone",
                fix=Direction(f"`generalize` %{self.name} before, which makes a tcp.generic of it"),
            )
        kind = next((v.type for v in operands if isinstance(v.type, VectorType)), self.results[0].type)
        made = type(self)(
            operands,
            [like(kind, tuple(shape), dtype) for shape, dtype in zip(shapes, self.acc_types, strict=True)],
            self.attributes,
            location=self.location,
        )
        made.stand_for(self)
        return made

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        made = super().on_box(operands, box)
        if not isinstance(made, Structured):
            return made
        for index, indexing_map in enumerate(self.maps()):
            local = from_first(indexing_map)
            if local != indexing_map:
                attributes = Rebuilding(made).reading_by(index, local)
                if attributes is None:
                    raise self.error(
                        f"a tile of operand {index} starts at 0, and the class fixes how it is read",
                        required="an operation that says how it reads a tile (`reading_by`), or maps without an offset",
                        found=f"[{', '.join(map(to_text, indexing_map))}]",
                    )
                made.attributes.update(attributes)
        dims = [it.dim for it in self.iterators()]
        first, start = dict.fromkeys(dims, 0), dict(zip(dims, box.offsets, strict=True))
        origins = [p.at(start) - substitute(p.expression, first) for p in positions_read(self)]
        for position in positions_read(self):
            begun = [d.name for d in dims if d.name in map_symbols(position.expression) and start[d] != 0]
            if begun and not is_linear_in(position.expression, [d.name for d in dims]):
                raise self.error(
                    f"a tile of dim `{begun[0]}` begins behind its first iteration, and a position is not linear in it",
                    required="positions that are sums of dims with factors, so that a tile adds where it begins",
                    found=to_text(position.expression),
                    fix=Direction("compute it in the body, of the position of the dim"),
                )
        if origins:
            made.attributes.update(Positions(self).counting_from(origins))
        extents = dict(zip((it.name for it in self.iterators()), box.sizes, strict=True))
        made.attributes.update(Rebuilding(self).declaring(extents))
        for it in made.iterators():
            if it.extent is not None and it.extent != extents[it.name]:
                raise self.error(
                    f"the class declares the extent of `{it.name}`, and not how a tile declares another",
                    required="an operation that does (`declaring`)",
                    found=f"{to_text(it.extent)} for a tile of {to_text(extents[it.name])}",
                )
        begins = dict(zip((it.name for it in self.iterators()), box.offsets, strict=True))
        moved = {name: bounds.origin + begins[name] for name, bounds in ragged_dims(self).items() if begins[name] != 0}
        if moved:
            made.attributes.update(RaggedDims(self).ragged_from(moved))
        Masked(made).mask(
            {n: minimum(extents[n], not_negative(count - begins[n])) for n, count in Masked(self).valid.items()}
        )
        return made

    def overwritten_by(self, index: int) -> int | None:
        """Of several results, each takes its own accumulator and the first an input: no two take one memory."""
        return max(0, index - len(self.inputs))

    def in_step(self, index: int, number: int = 0) -> Tile | None:
        maps, written = (*self.maps(), *self.result_maps()), self.result_maps()[number]
        if maps[index] != written or (index < len(self.inputs) and index_operands([written])):
            return None
        return Tile.full(shape_of(self.results[number].type))

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return union(self._element_ranges(of)) if self.is_movement and self.inputs else None

    def _element_ranges(self, of: Callable[[Value], Range | None]) -> Sequence[Range | None]:
        """Between what the elements lie that the body has of each input."""
        read = zip(map(of, self.inputs), self.maps(), strict=True)
        return [
            beside(held, Indices(self).outside, has_elements=False) if index_operands([m]) else held for held, m in read
        ]

    def _check_names(self, maps: Sequence[tuple[IndexingMap, str]]) -> None:
        """Maps name dims of the operation."""
        names = [it.name for it in self.iterators()]
        for indexing_map, role in maps:
            unknown = [n for e in indexing_map for n in map_symbols(e) if n not in names]
            if unknown:
                raise self.error(
                    f"`{role}` is indexed by `{unknown[0]}`, which is no dim of the operation",
                    required=f"dims among {', '.join(names)}" if names else "no dims",
                    found=map_text(indexing_map),
                    fix=Direction(f"list `{unknown[0]}` in `iterators` of its declaration, or correct the map"),
                )

    def verify(self) -> None:
        maps, result_maps, inputs, iterators = self.maps(), self.result_maps(), self.inputs, self.iterators()
        if len(maps) != len(inputs):
            raise self.error("there is one map per input", required=counted(len(maps), "input"), found=f"{len(inputs)}")
        roles = (
            *self.signature.operand_names,
            *(f"operand {k}" for k in range(len(self.signature.operand_names), len(inputs))),
        )
        checked = [
            *zip(maps, inputs, roles, strict=False),
            *zip(result_maps, self.results, result_roles(self), strict=True),
            *((m, value, self.signature.optional_operand) for m, value in zip(result_maps, self.inits, strict=False)),
        ]
        partial = self._partial_dims()
        for indexing_map, value, role in checked:
            if len(shape_of(value.type)) != len(indexing_map):
                raise self._wrong_result() or self.error(
                    f"`{role}` has the wrong rank",
                    required=f"rank {len(indexing_map)}",
                    found=f"%{value.name}: {value.type}",
                    fix=self._correction(),
                )
        self._check_names([(indexing_map, role) for indexing_map, _, role in checked])
        extents = {it.name: d for it, d in zip(iterators, self.domain(), strict=True)}
        for index, (indexing_map, value, role) in enumerate(checked):
            for position, (expression, extent) in enumerate(zip(indexing_map, shape_of(value.type), strict=True)):
                name = map_dim(expression)
                first, end = index_range(expression, extents)
                is_exact = name is not None and (name not in partial or index >= len(inputs))
                holds = self._holds("==" if is_exact else "<=", end, extent)
                if holds is not True and (is_exact or not self._holds_if_read(end, extent, extents)):
                    raise (self._wrong_result() if Rebuilding(self).reads_all_of_operands else None) or self.error(
                        f"dim {position} of `{role}` does not agree with `{name or to_text(expression)}`",
                        required=f"{to_text(end)}, the extent of `{name}`"
                        if is_exact
                        else f"at least {to_text(end)}, for `{to_text(expression)}`",
                        found=f"{to_text(extent)} in %{value.name}: {value.type}",
                        fix=self._correction()
                        or (None if holds is False else Direction("make the sizes the same expression")),
                        unproven=holds is None,
                    )
                begins = name is not None or self._holds("<=", 0, first)
                if begins is not True and not self._holds_if_read(0, first, extents):
                    raise self.error(
                        f"`{to_text(expression)}` reads before the first element of dim {position} of `{role}`",
                        required="indices of 0 and more in every iteration",
                        found=f"{to_text(first)}, where {self._extents_text(expression, extents)}",
                        unproven=begins is None,
                    )
        reduced = {it.name for it in iterators if it.is_reduction}
        for name, count in Masked(self).valid.items():
            if name not in reduced or self._holds("<=", count, extents[name]) is not True:
                raise self.error(
                    f"not all of `{name}` can be computed under a mask",
                    required=f"at most {to_text(extents[name])} of `{name}`" if name in reduced else "a reduction dim",
                    found=f"{to_text(count)} of `{name}`",
                )
        lanes = Lanes(self).lanes
        if lanes is not None:
            self._verify_lanes(lanes[0])
        self._verify_indices(checked, extents)

    def _verify_lanes(self, dim: str) -> None:
        """Lanes lie along a dim whose iterations may be computed side by side."""
        is_along = self.iterator(dim).kind is IteratorKind.PARALLEL
        can_sum = (
            Lanes(self).sums_in_lanes and Reduction(self).is_commutative and Reduction(self).neutrals() is not None
        )
        can_scan = Lanes(self).scans_in_lanes and Scan(self).is_associative
        if not (is_along or can_sum or can_scan or can_take_turns(self, dim)):
            raise self.error(
                "lanes lie along a parallel dim, one of a commutative reduction, or the innermost one that scatters",
                required="such a dim",
                found=dim,
            )

    def _verify_indices(self, checked: Sequence[tuple[IndexingMap, Value, str]], extents: Mapping[str, Dim]) -> None:
        """What is an index is an integer, and is known to be one of the dim that it is an index of."""
        for index in Indices(self).operands:
            if not 0 <= index < len(self.inputs) or index_operands([self.maps()[index]]):
                raise self.error(
                    f"a map uses the element `in{index}`",
                    required=f"an input below {len(self.inputs)} whose own map is over dims",
                    found=f"in{index}",
                )
            dtype = dtype_of(self.inputs[index].type)
            if not dtype.is_integer or dtype.maximum > INT64_MAX:
                raise self.error(
                    f"`{self.operand_roles[index]}` is an index",
                    required="integers that fit into si64",
                    found=f"%{self.inputs[index].name}: {self.inputs[index].type}",
                    fix=self._with_index_at(index),
                )
        self._verify_ragged()
        for indexing_map, value, role in checked:
            for dim, (expression, extent) in enumerate(zip(indexing_map, shape_of(value.type), strict=True)):
                index = map_element(expression)
                if index is not None and isinstance(value.type, TensorType):
                    self._verify_index(index, dim, extent, role, extents)

    def _with_index_at(self, index: int) -> str | None:
        """The operation with the only other operand of integers as operand `index`; None if that is not known."""
        places = [k for k, v in enumerate(self.inputs) if k != index and dtype_of(v.type).is_integer]
        written = self.location.span if self.location is not None else ""
        if len(places) != 1 or places[0] in Indices(self).operands or self.opcode not in written:
            return None
        order = {index: places[0], places[0]: index}
        names = [f"%{self.inputs[order.get(k, k)].name}" for k in range(len(self.inputs))]
        names += [f"{self.signature.optional_operand} = %{v.name}" for v in self.inits]
        attributes = re.search(r"\)\s*(\{[^{}]*\})", written)
        text = f"{self.opcode}({', '.join(names)}){f' {attributes[1]}' if attributes is not None else ''}"
        place = ("first", "second", "third")[index : index + 1] or (f"{index + 1}th",)
        return statements_to_write([text], f"`{self.operand_roles[index]}` is the {place[0]} operand")

    def _verify_ragged(self) -> None:
        """What bounds a ragged dim is known to be a size, and known before the loop over it."""
        names = [it.name for it in self.iterators()]
        for name, bounds in ragged_dims(self).items():
            for index in (bounds.first, bounds.end):
                if name not in names or not 0 <= index < len(self.inputs) or not self.iterator(name).is_reduction:
                    raise self.error(
                        "a ragged dim lies between elements of inputs",
                        required="a reduction dim and two inputs",
                        found=f"`{name}`, in{bounds.first} and in{bounds.end}",
                    )
                late = {s for e in self.maps()[index] for s in map_symbols(e)} - {*names[: names.index(name)]}
                if late or index_operands([self.maps()[index]]):
                    raise self.error(
                        f"`in{index}` bounds `{name}`, and is read by dims that come behind it",
                        required=f"dims before `{name}` in `iterators`",
                        found=", ".join(sorted(late)) or "the elements of others",
                    )
                value = self.inputs[index]
                known = value_range(value)
                if known is None or known == dtype_range(value):
                    raise self.error(
                        f"`in{index}` bounds `{name}`, and nothing says between what it lies",
                        required="integers whose range an argument declares",
                        found=f"%{value.name}: {value.type}",
                        fix=Direction(f"declare the argument: `in 0 to {to_text(self.size_of(name) + 1)}`"),
                    )

    def _verify_index(self, index: int, dim: int, extent: Dim, role: str, extents: Mapping[str, Dim]) -> None:
        if Indices(self).outside is not None:
            return
        if Indices(self).clamps_indices:
            if not self._holds_if_read(1, extent, extents):
                raise self.error(
                    f"dim {dim} of `{role}` may be empty, and has an element for each index",
                    required="an extent of at least 1",
                    found=to_text(extent),
                    fix=at_least_one(extent),
                    unproven=True,
                )
            return
        given, known = self.inputs[index], value_range(self.inputs[index])
        inside = known is not None and self._holds_if_read(0, known[0], extents)
        if known is None or not inside or not self._holds_if_read(known[1], extent, extents):
            is_empty = known is not None and inside and self._holds("<=", known[1], maximum(1, extent)) is True
            raise self.error(
                f"`in{index}` is an index into dim {dim} of `{role}`, and nothing says that it is inside",
                required=f"elements of %{given.name} in 0 to {to_text(extent)}",
                found=f"elements in {to_text(known[0])} to {to_text(known[1])}" if known is not None else "no integers",
                fix=Direction(f"declare the argument: `%{given.name}: {given.type} in 0 to {to_text(extent)}`")
                if given.defining_op is None
                else at_least_one(extent)
                if is_empty
                else Direction('clamp them: {out_of_range = "clamp"}'),
                unproven=True,
            )

    def _holds_if_read(self, a: Dim, b: Dim, extents: Mapping[str, Dim]) -> bool:
        """Whether a <= b is proved where no dim of these extents is empty: where one is, nothing is read."""
        if self._holds("<=", a, b) is True:
            return True
        running, facts = [Predicate.of(">=", extent, 1) for extent in extents.values()], context_at(self)
        if any(facts.decide(predicate) is False for predicate in running):
            return True
        return context_if(self, running).decide(Predicate.of("<=", a, b)) is True

    def _extents_text(self, expression: Dim, extents: Mapping[str, Dim]) -> str:
        names = map_symbols(expression)
        return (
            ", ".join(f"`{name}` has {counted(to_text(extents[name]), 'value')}" for name in names) or "no dim is in it"
        )

    def _shape_from_inputs(self) -> Sequence[Dim] | None:
        """The shape that the inputs give the result; None where they do not agree, or leave a dim of it open."""
        known: dict[str, Dim] = {}
        for indexing_map, value in zip(self.maps(), self.inputs, strict=True):
            if len(indexing_map) != len(shape_of(value.type)):
                return None
            for expression, extent in zip(indexing_map, shape_of(value.type), strict=True):
                name = map_dim(expression)
                if name is not None and not are_equal_at(self, known.setdefault(name, extent), extent):
                    return None
        named = [map_dim(expression) or "" for expression in self.result_map()]
        return [known[name] for name in named] if all(name in known for name in named) else None

    def _wrong_result(self) -> VerifyError | None:
        """The error where the inputs agree and the type of the result is none that they give."""
        if len(self.results) != 1:
            return None
        shape, type_ = self._shape_from_inputs(), self.result.type
        if shape is None or not isinstance(type_, TensorType):
            return None
        here = context_at(self)
        same = [here.is_equal(a, b) for a, b in zip(shape, type_.shape, strict=False)]
        if len(shape) == len(type_.shape) and all(held is True for held in same):
            return None
        wanted = TensorType(tuple(shape), type_.dtype)
        exists = not any(isinstance(dim, int) and dim < 0 for dim in shape)
        return self.error(
            "the operands give the result another shape than its type",
            required=str(wanted),
            found=str(type_),
            fix=f"write `: {wanted}`{self._part_to_read(type_.shape)}" if exists else None,
            unproven=len(shape) == len(type_.shape) and False not in same,
        )

    def _part_to_read(self, shape: Sequence[Dim]) -> str:
        """What reads the part of an operand that a result of this shape needs, where the payload names the dims."""
        if fixed_dims(self) or has_numbered_dims(self) or len(shape) != len(self.result_map()):
            return ""
        wanted = {map_dim(e): extent for e, extent in zip(self.result_map(), shape, strict=True)}
        for indexing_map, value in zip(self.maps(), self.inputs, strict=True):
            have = shape_of(value.type)
            sizes = [wanted.get(map_dim(e), extent) for e, extent in zip(indexing_map, have, strict=True)]
            if tuple(sizes) != tuple(have) and all(
                is_less_equal_at(self, a, b) for a, b in zip(sizes, have, strict=True)
            ):
                part = Tile(tuple(0 for _ in sizes), tuple(sizes))
                return f", or read a part of %{value.name}: `gml_st.materialize(%{value.name}) {part.text()}`"
        return ""

    def _correction(self) -> str | None:
        """What to write in place of the operation, whose operands do not fit it; None if that is not known."""
        return None


class Elementwise(Structured):
    """Interface `Elementwise`: every result element depends on the elements at the same place."""

    __slots__ = ()
    class_name = "elementwise"
    has_numbered_dims = True
    semantics: ClassVar[str] = ""
    """The operation on one lane, as an expression over a, b, c: the key of instruction rows."""

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.result.type)))

    def result_map(self) -> IndexingMap:
        return self._numbered_map(len(shape_of(self.result.type)))

    def domain(self) -> tuple[Dim, ...]:
        return shape_of(self.result.type)

    def maps(self) -> tuple[IndexingMap, ...]:
        return (self.result_map(),) * len(self.operands)

    def verify(self) -> None:
        shape = shape_of(self.result.type)
        if Masked(self).valid or any(shape_of(value.type) != shape for value in self.operands):
            super().verify()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        del acc
        kind, held = args[0].type, {key: value for key, value in self.attributes.items() if key != DIM_NAMES}
        return build(type(self)(args, [like(kind, shape_of(kind), self.acc_type)], held))

    def _check_kind(self, value: Value) -> None:
        """Raise VerifyError if an operand is not a scalar, tensor or vector as the result is."""
        if type(value.type) is not type(self.result.type):
            raise self.error(
                "operands and result are of one kind (scalar, tensor or vector)",
                required=str(self.result.type),
                found=f"%{value.name}: {value.type}",
                fix=self._kind_to_write(value),
            )

    def _kind_to_write(self, value: Value) -> str:
        """What gives operand and result one kind."""
        if isinstance(self.result.type, ScalarType):
            return f"write `: {value.type}`"
        return self._correction() or Direction("insert a tcp.broadcast")

    def _shape_from_inputs(self) -> Sequence[Dim] | None:
        """That of the operands, if they have one."""
        shapes = [shape_of(value.type) for value in self.operands]
        agree = bool(shapes) and all(have_equal_extents(shapes[0], shape) for shape in shapes)
        return shapes[0] if agree else None

    def _correction(self) -> str | None:
        """The broadcasts that give every operand the shape of the result, as NumPy would."""
        result = self.result.type
        return broadcasts_to_write(self.operands, result.shape) if isinstance(result, TensorType) else None

"""Views: padding, reversal, joining, other shapes. Elements of the result are elements of operands, or a number."""

from collections.abc import Callable, Sequence

import numpy as np

from tcpx.payload.contexts import are_equal_at, context_at, is_less_equal_at, is_unreachable
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, ElementsAttribute, FlagAttribute, IntAttribute, NumberAttribute, Operand
from tcpx.payload.interfaces import Box, Iterator, Tileable
from tcpx.payload.ir import Attribute, Operation, Range, Value, register
from tcpx.payload.memory_effects import Move, MoveKind
from tcpx.payload.ops.constant import check_literal
from tcpx.payload.pieces import Piece, cut
from tcpx.payload.sizes import (
    Dim,
    arguments_of_minimum,
    ceildiv,
    is_less_equal,
    maximum,
    minimum,
    product,
    to_text,
)
from tcpx.payload.sizes.context import Context
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.payload.value_ranges import beside, union
from tcpx.plurals import counted

FREE = "free"
"""The attribute of a padding that may hold anything."""


class View(Tileable):
    """Interface `View`: what a tile of the result shows follows from `pieces` and `rest`, and all else from these.

    A class whose result on a tile is one of its own kind also says so (`on_box`): then it can be tiled itself.
    """

    __slots__ = ()
    is_made_of_others = True
    has_numbered_dims = True
    pads_operands = False

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.result.type)))

    def domain(self) -> tuple[Dim, ...]:
        return shape_of(self.result.type)

    def result_tile(self, box: Box, number: int = 0) -> Tile:
        return Tile(box.offsets, box.sizes)

    def iteration_of_result(self, tile: Tile, number: int = 0) -> Box | None:
        return Box(tile.offsets, tile.sizes) if tile.has_unit_strides and not tile.dropped else None

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        return None

    def operand_tile(self, index: int, box: Box) -> Tile:
        found = [piece.tile for piece in self._shown(box) if piece.operand == index]
        if len(found) != 1:
            raise self.error(
                f"a tile of it shows {len(found)} tiles of operand {index}",
                required="one, to tile the operation itself",
                fix=Direction("tile what reads it"),
            )
        return found[0]

    def _shown(self, box: Box) -> Sequence[Piece]:
        """What a box of the result shows."""
        found = ViewLike(self).pieces(self.result_tile(box))
        if found is None:
            raise self.error(
                "this tile of it shows no tile of its operand",
                required="a tile whose elements are a tile of the operand",
                found=self.result_tile(box).text(),
                fix=Direction("tile by a multiple of the dims behind, or tile what reads it"),
            )
        return found

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        type_ = like(operands[0].type, tuple(shapes[0]), dtype_of(self.result.type))
        made = type(self)(operands, [type_], self.attributes, location=self.location)
        made.stand_for(self)
        return made

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        raise self.error(
            "a tile of it is no operation of its kind",
            required="an operation that says what a tile of it is (`on_box`)",
            fix=Direction("tile what reads it"),
        )

    def moves(self) -> Sequence[Move]:
        """The pieces of all of the result, where they are as they lie in an operand."""
        found = ViewLike(self).pieces(Tile.full(shape_of(self.result.type)))
        return [
            Move(MoveKind.PIECE, piece.operand, self.result, piece.place, self._part(piece))
            for piece in found or ()
            if not piece.permutes and not piece.reshapes
        ]

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        """That of the operands, and of `rest`; which adds nothing to those that begin at it if there are any."""
        has_elements = all(is_less_equal_at(self, 1, n) for value in self.operands for n in shape_of(value.type))
        return beside(union(map(of, self.operands)), ViewLike(self).rest, has_elements)

    def _part(self, piece: Piece) -> Tile | None:
        """The tile of the operand that a piece is; None of all of it."""
        shape = shape_of(self.operands[piece.operand].type)
        return None if piece.tile.is_full(shape, context_at(self).names) else piece.tile

    def verify(self) -> None:
        for value in self.operands:
            if dtype_of(value.type) != dtype_of(self.result.type):
                raise self.error(
                    "operand and result have one dtype",
                    required=dtype_of(self.result.type).name,
                    found=dtype_of(value.type).name,
                    fix=Direction("insert a tcp.cast"),
                )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        shape = evaluation.shape(self.result.type)
        made = np.full(shape, 0 if ViewLike(self).rest is None else ViewLike(self).rest).astype(args[0].dtype)
        for piece in self._shown(Box.at_origin(shape_of(self.result.type))):
            part = evaluation.select(args[piece.operand], piece.tile).transpose(piece.permutation)
            sizes = [evaluation.extent(d) for d in piece.shape]
            if all(sizes):
                made[evaluation.slices(shape, piece.place)] = part.reshape(sizes)
        return (made,)

    def _ints(self, given: Sequence[int], key: str, rank: int) -> None:
        """Raise VerifyError unless an attribute names dims below `rank`, each once, in rising order."""
        if list(given) != sorted(set(given)) or any(not 0 <= d < rank for d in given):
            right = sorted({d + rank if -rank <= d < 0 else d for d in given})
            fits = all(0 <= d < rank for d in right)
            raise self.error(
                f"`{key}` lists dims of the operand",
                required=f"rising dims below {rank}",
                found=str(list(given)),
                fix=f"{{{key} = {right}}}" if fits else None,
            )

    def _check_shape(self, wanted: Sequence[Dim], what: str) -> None:
        """Raise VerifyError unless the result provably has a shape."""
        have, here = shape_of(self.result.type), context_at(self)
        same = [here.is_equal(a, b) for a, b in zip(have, wanted, strict=False)]
        if len(have) != len(wanted) or not all(held is True for held in same):
            right = like(self.result.type, tuple(wanted), dtype_of(self.result.type))
            raise self.error(
                what,
                required=str(right),
                found=str(self.result.type),
                fix=f"write `: {right}`",
                unproven=len(have) == len(wanted) and False not in same,
            )


@register
class Pad(View):
    """The operand in a larger result: `low` elements before it along each dim, `interior` ones between its elements,
    and the rest of the result after it. These are `value`."""

    __slots__ = ()
    opcode = "tcp.pad"
    is_made_of_others = False
    by_dims = ("low", "interior")
    operand = Operand()
    value = NumberAttribute(example="0.0")
    """The number the padding has."""
    low = DimsAttribute()
    """How many elements there are before the operand, along each dim; left out, none."""
    interior = ElementsAttribute(int, "a list of ints", default=())
    """How many elements there are between two of the operand, along each dim; left out, none."""
    free = FlagAttribute(FREE)
    """Whether what the padding holds does not matter."""
    computes_result = True

    @classmethod
    def of(
        cls,
        operand: Value,
        shape: Sequence[Dim],
        value: float | int,
        low: Sequence[Dim] = (),
        interior: Sequence[int] = (),
    ) -> Operation:
        """A detached pad to `shape`."""
        dtype = dtype_of(operand.type)
        held: dict[str, Attribute] = {"value": float(value) if dtype.is_float else int(value)}
        held |= _unless_none(low, interior)
        return cls([operand], [like(operand.type, tuple(shape), dtype)], held)

    @property
    def rest(self) -> float | int:
        return self.value

    @property
    def is_free(self) -> bool:
        return self.free

    @property
    def spacing(self) -> tuple[int, ...]:
        """The distance of two elements of the operand in the result, along each dim."""
        return tuple(n + 1 for n in self.interior) or (1,) * len(shape_of(self.result.type))

    @property
    def before(self) -> tuple[Dim, ...]:
        """How many elements there are before the operand, along each dim."""
        return self.low or (0,) * len(shape_of(self.result.type))

    @property
    def inside(self) -> Tile:
        """The part of the result that the operand is."""
        return Tile(self.before, shape_of(self.operand.type), self.spacing)

    def in_step(self, index: int, number: int = 0) -> Tile | None:
        return self.inside

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        if tile.dropped:
            return None
        offsets: list[Dim] = []
        sizes: list[Dim] = []
        first: list[Dim] = []
        dims = zip(shape_of(self.operand.type), shape_of(self.result.type), self.before, self.spacing, strict=True)
        for dim, (have, wide, low, spacing) in enumerate(dims):
            offset, size, stride = tile.offsets[dim], tile.sizes[dim], tile.strides[dim]
            if are_equal_at(self, have, wide):
                shown = offset, size, 0
            elif stride != 1:
                return None
            elif are_equal_at(self, offset, 0) and are_equal_at(self, size, wide):
                shown = 0, have, low
            elif low == 0 and spacing == 1:
                shown = offset, maximum(0, minimum(size, have - offset)), 0
            elif spacing == 1:
                begin, end = cut(low, offset, size), cut(low + have, offset, size)
                shown = maximum(0, offset - low), end - begin, begin
            else:
                shown = _spaced(offset, size, have, low, spacing)
            for found, entry in zip((offsets, sizes, first), shown, strict=True):
                found.append(entry)
        return [Piece.of(0, Tile(tuple(offsets), tuple(sizes), tile.strides), first, self.spacing)]

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        (piece,) = self._shown(box)
        made = self.on_tiles(operands, box.sizes)
        made.attributes.pop("low", None)
        made.attributes |= _unless_none(piece.first, ())
        return made

    def verify(self) -> None:
        check_literal(self, self.value, dtype_of(self.result.type))
        before, after = shape_of(self.operands[0].type), shape_of(self.result.type)
        if len(before) != len(after):
            raise self.error(
                "padding keeps the rank",
                required=str(self.operands[0].type),
                found=str(self.result.type),
            )
        super().verify()
        for key, given in (("low", self.low), ("interior", self.interior)):
            if given and (len(given) != len(after) or not all(is_less_equal_at(self, 0, n) for n in given)):
                raise self.error(
                    f"`{key}` has a number for each dim",
                    required=f"{len(after)} of them, each 0 or more",
                    found=f"[{', '.join(map(to_text, given))}]",
                    unproven=len(given) == len(after) and not any(is_less_equal(0, n) is False for n in given),
                )
        for have, wide, low, spacing in zip(before, after, self.before, self.spacing, strict=True):
            needed = low + (have if spacing == 1 else maximum(0, have * spacing - (spacing - 1)))
            if not is_less_equal_at(self, needed, wide) and not self._has_room(have, wide, low, spacing):
                raise self.error(
                    "padding makes no dim smaller",
                    required=f"at least {to_text(needed)}",
                    found=f"{to_text(wide)} in {self.result.type}",
                    unproven=is_less_equal(needed, wide) is None,
                )

    def _has_room(self, have: Dim, wide: Dim, low: Dim, spacing: int) -> bool:
        """Whether the result has a place for each of `have` elements, by any of the limits that `have` is the least of.

        A tile has as many elements as fit behind the first, or fewer: then the limit `ceildiv(wide - low, spacing)` is
        enough.
        """
        ends = [low + (limit * spacing - (spacing - 1)) for limit in (have, *arguments_of_minimum(have))]
        return is_less_equal_at(self, low, wide) and any(is_less_equal_at(self, end, wide) for end in ends)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = np.full(evaluation.shape(self.result.type), self.value).astype(args[0].dtype)
        low = [evaluation.size(n) for n in self.before]
        made[tuple(slice(f, f + n * s, s) for f, n, s in zip(low, args[0].shape, self.spacing, strict=True))] = args[0]
        return (made,)


def _unless_none(low: Sequence[Dim], interior: Sequence[int]) -> dict[str, Attribute]:
    """The attributes of a padding that has elements before or between those of its operand."""
    held: dict[str, Attribute] = {}
    if any(n != 0 for n in low):
        held["low"] = tuple(low)
    if any(interior):
        held["interior"] = tuple(interior)
    return held


def _spaced(offset: Dim, size: Dim, have: Dim, low: Dim, spacing: int) -> tuple[Dim, Dim, Dim]:
    """Which of `have` elements, the first at `low`, the next `spacing` further each, lie in a range: the first of them,
    how many, and where in the range the first is."""
    begin = minimum(have, ceildiv(maximum(0, offset - low), spacing))
    first = cut(low + begin * spacing, offset, size)
    return begin, minimum(have - begin, ceildiv(size - first, spacing)), first


@register
class Reverse(View):
    """The operand with the order of its elements along `dims` reversed."""

    __slots__ = ()
    opcode = "tcp.reverse"
    of_dims = ("dims",)
    operand = Operand()
    dims = ElementsAttribute(int, "a list of ints")
    """The dims that are reversed."""

    def usual_attribute(self, key: str) -> str:
        """The last dim."""
        return str([max(0, len(shape_of(self.result.type)) - 1)])

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        if tile.dropped:
            return None
        offsets, strides = list(tile.offsets), list(tile.strides)
        for dim in self.dims:
            offsets[dim] = shape_of(self.operand.type)[dim] - 1 - offsets[dim]
            strides[dim] = -strides[dim]
        return [Piece.of(0, Tile(tuple(offsets), tile.sizes, tuple(strides)))]

    def operand_tile(self, index: int, box: Box) -> Tile:
        offsets = list(box.offsets)
        for dim in self.dims:
            offsets[dim] = shape_of(self.operand.type)[dim] - offsets[dim] - box.sizes[dim]
        return Tile(tuple(offsets), box.sizes)

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        box = self.iteration_of_result(tile)
        return None if box is None else Box(self.operand_tile(index, box).offsets, box.sizes)

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        return self.on_tiles(operands, box.sizes)

    def verify(self) -> None:
        super().verify()
        self._check_shape(shape_of(self.operand.type), "what is reversed keeps its shape")
        self._ints(self.dims, "dims", len(shape_of(self.result.type)))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.flip(args[0], self.dims).copy(),)


@register
class Slice(View):
    """Elements of the operand, starting at `offsets`, with `strides`; as many as the result has."""

    __slots__ = ()
    opcode = "tcp.slice"
    by_dims = ("offsets", "strides")
    operand = Operand()
    offsets = DimsAttribute()
    """The index of the first element along each dim; left out, 0."""
    strides = ElementsAttribute(int, "a list of ints", default=())
    """The distance of two elements along each dim, 1 or more; left out, 1."""

    @classmethod
    def of(cls, operand: Value, offsets: Sequence[Dim], shape: Sequence[Dim], strides: Sequence[int] = ()) -> Operation:
        """A detached slice of this shape, of neighbours unless `strides` are given."""
        attributes: dict[str, Attribute] = {
            "offsets": tuple(offsets),
            **({"strides": tuple(strides)} if strides else {}),
        }
        return cls([operand], [like(operand.type, tuple(shape), dtype_of(operand.type))], attributes)

    @property
    def shown(self) -> Tile:
        """The part of the operand that the result is."""
        shape = shape_of(self.result.type)
        return Tile(self.offsets or (0,) * len(shape), shape, self.strides)

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        if tile.dropped:
            return None
        own = self.shown
        offsets = tuple(o + t * s for o, t, s in zip(own.offsets, tile.offsets, own.strides, strict=True))
        strides = tuple(s * t for s, t in zip(own.strides, tile.strides, strict=True))
        return [Piece.of(0, Tile(offsets, tile.sizes, strides))]

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        made = self.on_tiles(operands, box.sizes)
        made.attributes.clear()  # the tile of the operand is what it shows
        return made

    def verify(self) -> None:
        super().verify()
        have, shape = shape_of(self.operand.type), shape_of(self.result.type)
        if len(have) != len(shape):
            raise self.error("a slice keeps the rank", f"rank {len(have)}", str(self.result.type))
        for key, given in (("offsets", self.offsets), ("strides", self.strides)):
            least = 0 if key == "offsets" else 1
            if given and (len(given) != len(have) or not all(is_less_equal_at(self, least, n) for n in given)):
                raise self.error(
                    f"`{key}` has a number for each dim",
                    required=f"{len(have)} of them, each {least} or more",
                    found=f"[{', '.join(map(to_text, given))}]",
                    unproven=len(given) == len(have) and not any(is_less_equal(least, n) is False for n in given),
                )
        for dim, (extent, offset, size, stride) in enumerate(
            zip(have, self.shown.offsets, shape, self.shown.strides, strict=True)
        ):
            end = offset + (size - 1) * stride + 1
            if not is_less_equal_at(self, end, extent):
                raise self.error(
                    f"the slice ends behind dim {dim} of its operand",
                    required=f"at most {counted(to_text(extent), 'element')} to its end",
                    found=to_text(end),
                    unproven=is_less_equal(end, extent) is None,
                )


@register
class Concat(View):
    """The operands concatenated along `dim`."""

    __slots__ = ()
    opcode = "tcp.concat"
    is_made_of_others = False
    of_dims = ("dim",)
    variadic = True
    dim = IntAttribute(example="0")
    """The dim along which they follow one another."""

    @classmethod
    def of(cls, operands: Sequence[Value], dim: int, shape: Sequence[Dim]) -> Operation:
        """A detached concat of this shape."""
        return cls(operands, [like(operands[0].type, tuple(shape), dtype_of(operands[0].type))], {"dim": dim})

    @property
    def operand_roles(self) -> tuple[str, ...]:
        return tuple(f"in{k}" for k in range(len(self.operands)))

    def _parts(self, tile: Tile) -> list[Piece] | None:
        """The piece of each operand, also where it is empty; None of a tile that may end behind the result.

        What follows from the last cut is so where the loops round the tile have no iteration, too.
        """
        if tile.dropped or tile.strides[self.dim] != 1:
            return None
        offset, size, starts = tile.offsets[self.dim], tile.sizes[self.dim], _starts(self.operands, self.dim)
        cuts = [0, *(cut(start, offset, size) for start in starts[1:])]
        if not are_equal_at(self, cuts[-1], size):
            return None
        found: list[Piece] = []
        for index, start in enumerate(starts[:-1]):
            offsets, sizes = list(tile.offsets), list(tile.sizes)
            first: list[Dim] = [0] * tile.rank
            offsets[self.dim] = maximum(0, offset - start)
            sizes[self.dim] = cuts[index + 1] - cuts[index]
            first[self.dim] = cuts[index]
            found.append(Piece.of(index, Tile(tuple(offsets), tuple(sizes), tile.strides), first))
        return found

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        found = self._parts(tile)
        if found is None:
            return None
        return [piece for piece in found if not are_equal_at(self, piece.shape[self.dim], 0)] or found[:1]

    def operand_tile(self, index: int, box: Box) -> Tile:
        tile = self.result_tile(box)
        found = self._parts(tile)
        if found is None:
            raise self.error(
                "a tile of it may end behind it",
                required=f"a tile that provably ends at {to_text(self.domain()[self.dim])} at the latest",
                found=tile.text(),
            )
        return found[index].tile

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        return self.on_tiles(operands, box.sizes)

    def usual_attribute(self, key: str) -> str:
        """The dim along which the result is longer."""
        first, shape = (shape_of(v.type) for v in (self.operands[0], self.result)) if self.operands else ((), ())
        longer = [k for k, (a, b) in enumerate(zip(first, shape, strict=False)) if not are_equal_at(self, a, b)]
        return str(longer[0]) if longer else ""

    def verify(self) -> None:
        if not self.operands:
            raise self.error("something is joined", required="at least one operand", found="no operands")
        super().verify()
        rank = len(shape_of(self.operands[0].type))
        self._ints((self.dim,), "dim", rank)
        first, here = shape_of(self.operands[0].type), context_at(self)
        for value in self.operands[1:]:
            shape = shape_of(value.type)
            beside = [here.is_equal(a, b) for k, (a, b) in enumerate(zip(first, shape, strict=False)) if k != self.dim]
            if len(shape) != rank or not all(held is True for held in beside):
                raise self.error(
                    f"what is joined along dim {self.dim} has the same extent along the others",
                    required=f"the other dims of %{self.operands[0].name}: {self.operands[0].type}",
                    found=f"%{value.name}: {value.type}",
                    unproven=len(shape) == rank and False not in beside,
                )
        joined = list(first)
        joined[self.dim] = _starts(self.operands, self.dim)[-1]
        self._check_shape(joined, "the result is as long as what is joined")

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.concatenate(args, self.dim),)


def _starts(operands: Sequence[Value], dim: int) -> list[Dim]:
    """Where each of several operands begins along a dim in which they follow one another, and where the last ends."""
    found: list[Dim] = [0]
    for value in operands:
        found.append(found[-1] + shape_of(value.type)[dim])
    return found


@register
class Reshape(View):
    """The same elements in row-major order under another shape of equal size."""

    __slots__ = ()
    opcode = "tcp.reshape"
    is_made_of_others = False
    attribute_names = ()
    operand = Operand()

    @classmethod
    def of(cls, operand: Value, shape: Sequence[Dim]) -> Operation:
        """A detached reshape."""
        return cls([operand], [like(operand.type, tuple(shape), dtype_of(operand.type))])

    def moves(self) -> Sequence[Move]:
        return [Move(MoveKind.RESHAPE, 0, self.result)]

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        inner = _in_shape(tile, shape_of(self.result.type), shape_of(self.operand.type), context_at(self))
        return None if inner is None else [Piece.of(0, inner, shape=tile.sizes)]

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        outer = _in_shape(tile, shape_of(self.operand.type), shape_of(self.result.type), context_at(self))
        return None if outer is None else Box(outer.offsets, outer.sizes)

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        made = self.on_tiles(operands, box.sizes)
        _check_count(made, self)  # a tile of which this is not known is none
        return made

    def verify(self) -> None:
        super().verify()
        _check_count(self, self)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.ascontiguousarray(args[0]).reshape(evaluation.shape(self.result.type)),)


def _check_count(op: Operation, at: Operation) -> None:
    """Raise VerifyError unless a reshape, which stands where `at` does, provably keeps the number of elements."""
    before, after = (product(shape_of(value.type)) for value in (op.operands[0], op.results[0]))
    if not are_equal_at(at, before, after) and not is_unreachable(at):
        raise op.error(
            "a reshape keeps the number of elements",
            required=f"{counted(to_text(before), 'element')}",
            found=f"{counted(to_text(after), 'element')} in {op.results[0].type}",
        )


def _in_shape(tile: Tile, shape: Sequence[Dim], other: Sequence[Dim], here: Context) -> Tile | None:
    """The elements of a tile of a tensor of one shape, as a tile of it under another; None if they are none."""
    if tile.dropped or not tile.has_unit_strides:
        return None
    offsets: list[Dim] = []
    sizes: list[Dim] = []
    first = second = 0
    while first < len(shape) or second < len(other):
        group = _group(shape[first:], other[second:], here)
        if group is None:
            return None
        taken, given = group
        found = _range_in(
            tile.offsets[first : first + taken],
            tile.sizes[first : first + taken],
            shape[first : first + taken],
            other[second : second + given],
            here,
        )
        if found is None:
            return None
        offsets += found[0]
        sizes += found[1]
        first, second = first + taken, second + given
    return Tile(tuple(offsets), tuple(sizes))


def _group(shape: Sequence[Dim], other: Sequence[Dim], here: Context) -> tuple[int, int] | None:
    """How many of the first dims of two shapes have as many elements as one another, the fewest; None without."""
    pairs = [(a, b) for a in range(len(shape) + 1) for b in range(len(other) + 1) if a + b > 0]
    for a, b in sorted(pairs, key=sum):
        if here.is_equal(product(shape[:a]), product(other[:b])) is True:
            return a, b
    return None


def _range_in(
    offsets: Sequence[Dim], sizes: Sequence[Dim], shape: Sequence[Dim], other: Sequence[Dim], here: Context
) -> tuple[Sequence[Dim], Sequence[Dim]] | None:
    """Offsets and sizes, in dims of the shape `other`, of elements that lie side by side in some of `shape`."""
    if len(shape) == len(other) == 1:
        return offsets, sizes
    dims = zip(offsets, sizes, shape, strict=True)
    whole = [here.is_equal(size, extent) is True and here.is_equal(offset, 0) is True for offset, size, extent in dims]
    if all(whole):
        return (0,) * len(other), other
    outer = next((k for k, size in enumerate(sizes) if here.is_equal(size, 1) is not True), len(shape) - 1)
    if not all(whole[outer + 1 :]):
        return None
    begin: Dim = 0
    for offset, extent in zip(offsets, shape, strict=True):
        begin = begin * extent + offset
    count = product(sizes)
    for dim in range(len(other)):
        inner = product(other[dim + 1 :])
        if here.is_equal(inner, 0) is not False or here.is_equal(here.mod(count, inner), 0) is not True:
            continue
        rows, place = here.floordiv(count, inner), here.floordiv(begin, inner)
        starts_row = here.is_equal(here.mod(begin, inner), 0) is True
        stays = dim == 0 or here.is_equal(rows, 1) is True or _divides(rows, other[dim], place, here)
        if starts_row and stays:
            found: list[Dim] = []
            for k, extent in enumerate(other[: dim + 1]):
                place = here.floordiv(begin, product(other[k + 1 :]))
                found.append(place if k == 0 else here.mod(place, extent))
            rest = len(other) - dim - 1
            return (*found, *(0,) * rest), (*(1,) * dim, rows, *other[dim + 1 :])
    return None


def _divides(rows: Dim, extent: Dim, place: Dim, here: Context) -> bool:
    """Whether `rows` from a place on end before a dim of this extent does: they divide both."""
    return here.is_equal(rows, 0) is False and all(here.is_equal(here.mod(d, rows), 0) is True for d in (extent, place))

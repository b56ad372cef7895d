"""Composite operations: outside the operation tree, they always decompose into it."""

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import IntAttribute, Operand
from tcpx.payload.interfaces import Box, Build, Iterator, Tileable, check_dim
from tcpx.payload.ir import Operation, Value, register
from tcpx.payload.ops.elementwise import Div, Sub
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.reduce import ReduceMax, ReduceSum
from tcpx.payload.sizes import Dim, is_equal
from tcpx.payload.subsets import Tile
from tcpx.payload.types import dtype_of, like, shape_of


class Composite(Tileable):
    """Interface `Composite`: the operation says what it is made of."""

    __slots__ = ()
    class_name = "composite"

    def decompose(self, build: Build) -> Value:
        """Build the operations it stands for; returns the value that replaces the result."""
        raise self.error("the operation declares no decomposition", required="an operation with this interface")


@register
class Softmax(Composite):
    """exp(x - max x) / sum exp(x - max x) along `dim`."""

    __slots__ = ()
    opcode = "tcp.softmax"
    class_name = "softmax"
    has_numbered_dims = True
    operand = Operand()
    dim = IntAttribute()
    """The position of the normalized dim."""

    def usual_attribute(self, key: str) -> str:
        return str(max(0, len(shape_of(self.result.type)) - 1))

    def verify(self) -> None:
        shape, result = shape_of(self.operand.type), shape_of(self.result.type)
        same = dtype_of(self.operand.type) == dtype_of(self.result.type) and len(shape) == len(result)
        same = same and all(is_equal(a, b) is True for a, b in zip(shape, result, strict=True))
        if not same or not dtype_of(self.result.type).is_float:
            raise self.error(
                "operand and result have one float type",
                required="a type of floats, the same twice",
                found=f"{self.operand.type} and {self.result.type}",
            )
        check_dim(self, self.dim, len(shape))

    def iterators(self) -> tuple[Iterator, ...]:
        return self.numbered(len(shape_of(self.result.type)), (self.dim,))

    def domain(self) -> tuple[Dim, ...]:
        return shape_of(self.result.type)

    def operand_tile(self, index: int, box: Box) -> Tile:
        return Tile(box.offsets, box.sizes)

    def result_tile(self, box: Box, number: int = 0) -> Tile:
        return Tile(box.offsets, box.sizes)

    def iteration_of_result(self, tile: Tile, number: int = 0) -> Box | None:
        whole = tile.offsets[self.dim] == 0 and tile.sizes[self.dim] == self.domain()[self.dim]
        return Box(tile.offsets, tile.sizes) if whole and not tile.dropped else None

    def iteration_of_operand(self, index: int, tile: Tile) -> Box | None:
        return self.iteration_of_result(tile)

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        made = type(self)(
            operands,
            [like(self.result.type, tuple(shapes[0]), dtype_of(self.result.type))],
            self.attributes,
            location=self.location,
        )
        made.stand_for(self)
        return made

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del index
        return None if reduced else 0

    def decompose(self, build: Build) -> Value:
        x = self.operand
        shape, dtype = shape_of(x.type), dtype_of(x.type)
        rest = [k for k in range(len(shape)) if k != self.dim]
        small = like(x.type, tuple(shape[k] for k in rest), dtype)
        over = {"dims": (self.dim,)}
        largest = build(ReduceMax([x], [small], over))
        shifted = build(Sub.of(x, build(Broadcast.of(largest, rest, x.type))))
        powers = build(Exp.of(shifted))
        total = build(ReduceSum([powers], [small], over))
        return build(Div.of(powers, build(Broadcast.of(total, rest, x.type))))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        if x.shape[self.dim] == 0:
            return (args[0].copy(),)
        powers = np.exp(x - np.max(x, axis=self.dim, keepdims=True))
        made = powers / np.sum(powers, axis=self.dim, keepdims=True)
        return (np.asarray(made).astype(args[0].dtype),)

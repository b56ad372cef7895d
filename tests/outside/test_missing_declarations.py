"""Operations whose class leaves a method out that a stage asks: the error says which, and of which operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tcpx
from tcpx.payload import ir
from tcpx.payload.fields import FlagAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Box, Build, Iterator, IteratorKind, Position, Structured, Tileable, parallel, whole
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.arithmetic import InSinglePrecision
from tcpx.payload.ops.composite import AlongDims, Composite
from tcpx.payload.ops.inverse_trigonometric import OfUnitCircle
from tcpx.payload.ops.logarithm import Logarithm
from tcpx.payload.ops.ordering import Ordering
from tcpx.payload.ops.real_function import RealFunction
from tcpx.payload.ops.shorthand import Shorthand
from tcpx.payload.ops.statistics import Statistic
from tcpx.payload.ops.trigonometric import Trigonometric
from tcpx.payload.ops.views import Piece, View
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.ragged import RaggedDims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType, f32, si64
from tests.outside.test_wrong_declarations import Plain

Ask = Callable[[Any], object]
TYPE = TensorType((4,), f32)
BOX, TILE = Box((0,), (4,)), Tile((0,), (4,))
NO_PART_OF_OPERAND = "the operation declares no iteration for an operand subset"
LEFT_OUT: tuple[tuple[type[Operation], Ask, str], ...] = (
    (Operation, lambda op: op.evaluate([], None), "this operation has no reference semantics"),
    (Tileable, lambda op: op.iterators(), "the operation declares no iterators"),
    (Tileable, lambda op: op.domain(), "the operation declares no iteration domain"),
    (Tileable, lambda op: op.operand_tile(0, BOX), "the operation declares no operand subsets"),
    (Tileable, lambda op: op.result_tile(BOX), "the operation declares no result subset"),
    (Tileable, lambda op: op.iteration_of_result(TILE), "the operation declares no iteration for a result subset"),
    (
        Tileable,
        lambda op: op.iteration_of_operand(0, TILE),
        "the operation declares no iteration for an operand subset",
    ),
    (Tileable, lambda op: op.on_tiles(op.operands, (4,)), "the operation cannot be rebuilt on tiles"),
    (Structured, lambda op: op.maps(), "the operation declares no indexing maps"),
    (Structured, lambda op: op.result_map(), "the operation declares no result map"),
    (Structured, lambda op: Reduction(op).combine(*[op] * 3), "the operation does not reduce"),
    (
        Structured,
        lambda op: RaggedDims(op).ragged_from({"k": 3}),
        "a tile of `k` begins elsewhere, and the class does not say how it counts there",
    ),
    (View, lambda op: op.on_box(op.operands, BOX), "a tile of it is no operation of its kind"),
    (View, lambda op: op.iterator("k"), "there is no dim `k`"),
    (Composite, lambda op: op.maps(), "the operation declares no dims of its operands"),
    (Composite, lambda op: op.decomposed(None), "the operation declares no decomposition"),
    (AlongDims, lambda op: op.iterators(), "the operation declares no dims to reduce along"),
    (Ordering, lambda op: op.key, "the operation declares no order"),
    (Ordering, lambda op: op.rows(None), "the operation declares no decomposition"),
    (Statistic, lambda op: op.made(None, None), "the operation declares no decomposition"),
    (Statistic, lambda op: op.reference(None), "the operation declares no values"),
    (InSinglePrecision, lambda op: op.function(), "the operation declares no values"),
    (RealFunction, lambda op: op.reference(), "the function declares no values"),
    (RealFunction, lambda op: op.expanded(None), "the function declares no expansion"),
    (Trigonometric, lambda op: op.turned(None, None), "the function declares no values"),
    (OfUnitCircle, lambda op: op.of_parts(None, None, None), "the function declares no values"),
    (Logarithm, lambda op: op.of_parts(None, None), "the function declares no values"),
    (Shorthand, lambda op: op.expanded(), "it says nothing that it is written for"),
)


@pytest.mark.parametrize(("base", "ask", "message"), LEFT_OUT, ids=lambda k: getattr(k, "__name__", ""))
def test_a_method_that_a_class_leaves_out_is_said(base: type[Operation], ask: Ask, message: str) -> None:
    fields = {} if hasattr(base, "operand") or hasattr(base, "a") else {"operand": Operand()}
    declared = type("Declared", (base,), {"__slots__": (), "opcode": "own.op", **fields})
    op = declared(Block([("x", TYPE)]).args, [TYPE], {}, name="y")
    with pytest.raises(tcpx.VerifyError) as caught:
        ask(op)
    assert caught.value.diagnostic.message == f"%y (own.op): {message}"


class NoStart(Plain):
    """A sum that says nothing to start from."""

    __slots__ = ()
    opcode = "own.sum"

    def neutral(self) -> float | int | None:
        return None


STEPS = {
    "split_reduction(v, j, parts: 2)": "the reduction of %v has no neutral element to start the parts with",
    "split_reduction(v, j, factor: 2)": "the reduction of %v has no neutral element to start the parts with",
    "vectorize(v)": "%v does not become vectors on its own: its reduction has no neutral element",
    "bufferize(root)": "%v (own.sum): a reduction starts from a neutral element",
}


def refusal(step: str, rows: int = 4) -> str:
    """The message of a step on `own.sum`."""
    text = f"func @f(%x: tensor<{rows}x6xf32>) -> tensor<4xf32> {{ %v = own.sum(%x) : tensor<4xf32> tcp.return(%v) }}"
    schedule = f'language 1\nschedule s(root: func) {{\nlet v = match one "v" in root\n{step}\n}}\n'
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(schedule), target="generic")
    return caught.value.diagnostic.message


@pytest.mark.parametrize("step", STEPS)
def test_a_reduction_that_starts_from_nothing(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ir._REGISTRY, NoStart.opcode, NoStart)
    assert refusal(step) == STEPS[step]


class Blank(Operation):
    """An operation that no stage knows."""

    __slots__ = ()
    opcode = "own.blank"
    x, y = Operand(), Operand()


class BlankTiles(Plain):
    """A sum whose tiles are no sums."""

    __slots__ = ()
    opcode = "own.sum"

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        return Blank(operands, [TensorType(tuple(shapes[0]), f32)], {})


class NoInit(Plain):
    """A sum that starts from zero."""

    __slots__ = ()
    opcode = "own.sum"


class FixedExtent(Plain):
    """A sum of six elements, in a tile as well."""

    __slots__ = ()
    opcode = "own.sum"
    init = OptionalOperand()

    def iterators(self) -> tuple[Iterator, ...]:
        return (*parallel("i"), Iterator("j", IteratorKind.REDUCTION, 6))


class FixedOffset(Plain):
    """A sum of the rows behind the first one."""

    __slots__ = ()
    opcode = "own.sum"

    def maps(self) -> tuple[IndexingMap, ...]:
        (i, j) = dims("i", "j")
        return ((i + 1, j),)


class Unnumbered(Plain):
    """A sum with a column that says nothing of where a tile lies."""

    __slots__ = ()
    opcode = "own.sum"
    init, exact = OptionalOperand(), FlagAttribute("exact")

    def positions(self) -> tuple[Position, ...]:
        return (Position(dims("j")[0], si64),)


class Undone(Composite):
    """A composite that stands for its operand."""

    __slots__ = ()
    opcode = "own.sum"
    operand = Operand()

    def iterators(self) -> tuple[Iterator, ...]:
        return (*parallel("i"), *whole("j"))

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims("i", "j"),)

    def result_map(self) -> IndexingMap:
        return dims("i")

    def check_dtypes(self) -> None:
        pass

    def decompose(self, build: Build) -> Value:
        return self.operand


class Hidden(View):
    """A view that shows nothing."""

    __slots__ = ()
    opcode = "own.sum"
    operand = Operand()

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        return None


HALF = {
    (BlankTiles, "tile(v, [i: 2])"): "%v (own.blank): an operation on tiles can be tiled again",
    (BlankTiles, "pad(v, [j: 8])"): "%v (own.blank): an operation on tiles can be tiled again",
    (NoInit, "tile(v, [j: 2])"): (
        "%v (own.sum): a tile of a reduction goes on from what the tiles before it gave, and the class declares no "
        "`init`"
    ),
    (FixedExtent, "tile(v, [j: 2])"): (
        "%v (own.sum): the class declares the extent of `j`, and not how a tile declares another"
    ),
    (FixedOffset, "tile(v, [i: 2])"): (
        "%v (own.sum): a tile of operand 0 starts at 0, and the class fixes how it is read"
    ),
    (Unnumbered, "tile(v, [j: 2])"): (
        "%v (own.sum): the body reads where it is, and the class has no attribute for where a tile lies"
    ),
    (Undone, "bufferize(root)"): "%v (own.sum): a composite decomposes into operations",
    (Hidden, "bufferize(root)"): "%v (own.sum): all of it shows no tiles of operands",
}


@pytest.mark.parametrize(("declared", "step"), HALF)
def test_a_class_that_says_half_of_it(declared: type[Operation], step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ir._REGISTRY, declared.opcode, declared)
    assert refusal(step, 5 if declared is FixedOffset else 4) == HALF[declared, step]

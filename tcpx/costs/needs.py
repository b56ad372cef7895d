"""Which elements of the values of a function its results need: a slice or a gather reads a part, and what no other
operation reads is computed in vain."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Final, NamedTuple

from tcpx.payload.indexing_maps import IndexingMap, map_dim, map_element, map_symbols
from tcpx.payload.interfaces import IteratorKind, Structured, Tileable
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.sizes import Dim, evaluate
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import shape_of

MOST_BOXES: Final = 8
"""Boxes of a value that are distinguished; where it has more, all of it counts as needed."""


class Along(NamedTuple):
    """Elements along a dim: so many, from `first` on, each `step`-th; or at places that only a call knows,
    which `chosen` distinguishes from others."""

    first: int
    number: int
    step: int = 1
    chosen: object = None


Box = tuple[Along, ...]


def needed_parts(func: FuncOp, sizes: Mapping[str, int]) -> Mapping[Operation, Fraction]:
    """The part of the iterations of each operation of a function that its results need, in a call with these sizes:
    those of which less than all is needed. No operation is known by name: what reads an element follows from indexing
    maps, and from the pieces that views show. An upper bound."""
    needs = _Needs(sizes, {*func.args, *(value for op in func.body.ops for value in op.results)})
    for value in func.returned:
        needs.add(value, [needs.whole(value)])
    for op in reversed(func.body.ops):
        needs.visit(op)
    return needs.parts


class _Needs:
    def __init__(self, sizes: Mapping[str, int], known: Container[Value]) -> None:
        self.sizes, self.known = sizes, known
        self.parts: dict[Operation, Fraction] = {}
        self._boxes: dict[Value, dict[Box, None]] = {}

    def whole(self, value: Value) -> Box:
        """All elements of a value."""
        return tuple(Along(0, self._size(dim)) for dim in shape_of(value.type))

    def _size(self, dim: Dim) -> int:
        return max(0, evaluate(dim, self.sizes))

    def add(self, value: Value, boxes: Iterable[Box]) -> None:
        """Let these boxes of a value be needed."""
        known = self._boxes.setdefault(value, {})
        known.update((box, None) for box in boxes if all(along.number > 0 for along in box))
        whole = self.whole(value)
        if len(known) > MOST_BOXES or whole in known:
            self._boxes[value] = {whole: None}

    def visit(self, op: Operation) -> None:
        """What an operation reads for what is needed of its results."""
        boxes = [list(self._boxes.get(value, ())) for value in op.results]
        if not isinstance(op, Tileable) or Calling(op).callee is not None:
            self._all(value for inner in op.walk() for value in inner.operands if value in self.known)
        elif (shown := self._shown(op, boxes)) is not None:
            for operand, box in shown:
                self.add(operand, [box])
        elif isinstance(op, Structured | Composite):
            self._mapped(op, boxes)
        else:
            self._all(op.operands)

    def _all(self, values: Iterable[Value]) -> None:
        for value in values:
            self.add(value, [self.whole(value)])

    def _shown(self, op: Tileable, boxes: Sequence[Sequence[Box]]) -> list[tuple[Value, Box]] | None:
        """The parts of operands that a view shows in these boxes; None of what is no view."""
        found: list[tuple[Value, Box]] = []
        for box in boxes[0] if len(boxes) == 1 else ():
            if any(along.chosen is not None for along in box):
                return None
            firsts, numbers = tuple(along.first for along in box), tuple(along.number for along in box)
            pieces = ViewLike(op).pieces(Tile(firsts, numbers, tuple(along.step for along in box)))
            if pieces is None:
                return None
            for piece in pieces:
                tile = piece.tile
                parts = zip(tile.offsets, tile.sizes, tile.strides, strict=True)
                along = (Along(self._size(first), self._size(size), self._size(step)) for first, size, step in parts)
                found.append((op.operands[piece.operand], tuple(along)))
        return found if len(boxes) == 1 else None

    def _mapped(self, op: Structured | Composite, boxes: Sequence[Sequence[Box]]) -> None:
        """What its iterations read that write these boxes."""
        whole = {it.name: Along(0, self._size(n)) for it, n in zip(op.iterators(), op.domain(), strict=True)}
        parallel = {it.name for it in op.iterators() if it.kind is IteratorKind.PARALLEL}
        runs: dict[Box, dict[str, Along]] = {}
        for result_map, those in zip(op.result_maps(), boxes, strict=True):
            for box in those:
                named = zip(map(map_dim, result_map), box, strict=True)
                run = {**whole, **{name: along for name, along in named if name is not None and name in parallel}}
                runs[tuple(run.values())] = run
        if not runs:
            return
        total = prod(along.number for along in whole.values())
        needed = sum(prod(along.number for along in run) for run in runs)
        if needed < total:
            self.parts[op] = Fraction(needed, total)
        maps = op.maps()
        for k, value in enumerate(op.operands):
            if k < len(maps):
                self.add(value, [self._read(op, maps, k, run) for run in runs.values()])
            else:
                self.add(value, [self.whole(value)])

    def _read(self, op: Operation, maps: Sequence[IndexingMap], number: int, run: Mapping[str, Along]) -> Box:
        """What an operand gives to these iterations: along each dim, no more elements than iterations differ in what
        the index depends on."""
        found: list[Along] = []
        for dim, expression in zip(shape_of(op.operands[number].type), maps[number], strict=True):
            size, name, index = self._size(dim), map_dim(expression), map_element(expression)
            names = {n for each in (maps[index] if index is not None else (expression,)) for n in map_symbols(each)}
            depends = {n: run[n] for n in sorted(names) if n in run}
            count = prod(along.number for along in depends.values())
            if name is not None and name in run and run[name].number <= size:
                found.append(run[name])
            elif count >= size:
                found.append(Along(0, size))
            else:
                found.append(Along(0, count, 1, (op, number, len(found), tuple(depends.items()))))
        return tuple(found)

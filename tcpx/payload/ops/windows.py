"""Operations that combine the elements of windows of their first operand: convolutions and poolings."""

from __future__ import annotations

from collections.abc import Iterator as Iterated
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from tcpx.payload.contexts import are_equal_at, is_less_equal_at
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.fields import DimsAttribute, ElementsAttribute
from tcpx.payload.indexing_maps import dim_symbol, map_dim
from tcpx.payload.interfaces import Build, Structured
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.bits import And
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.movement import Fill
from tcpx.payload.ops.select import GreaterEqual, Less
from tcpx.payload.sizes import Dim, floordiv, is_equal, to_text
from tcpx.payload.types import Type, dtype_of, like, shape_of, si64
from tcpx.plurals import counted
from tcpx.records import frozen

PADDING: Final = ("low", "high")
SHORT: Final = (*PADDING, "groups", "kind", "power")
"""The attributes of an operation that is short for others."""


@frozen
class Window:
    """The windows along one dim of the operand: tap `t` of window `o` is element `stride*o + dilation*t - low`. A tap
    before the first element or after the last is none."""

    place: int
    dim: str
    tap: str
    stride: int
    dilation: int
    low: Dim
    high: Dim

    def steps(self) -> Mapping[str, tuple[int]]:
        """The attributes of an operation that has these distances along its only such dim."""
        return {k: (n,) for k, n in (("strides", self.stride), ("dilations", self.dilation)) if n != 1}

    def entry(self) -> Dim:
        """The entry of the indexing map."""
        return self.stride * dim_symbol(self.dim).size() + self.dilation * dim_symbol(self.tap).size() - self.low

    def count(self, extent: Dim, taps: Dim) -> Dim:
        """How many windows a dim of this extent has."""
        return floordiv(self.low + extent + self.high - self.dilation * (taps - 1) - 1, self.stride) + 1

    def clipped(self, extent: Dim, taps: Dim, count: Dim) -> tuple[Window, int] | None:
        """These windows without the first and last taps that are in the padding in each window, and how many taps are
        left; None where there are none such, and where sizes are not known."""
        sizes = [size for size in (extent, taps, count, self.low) if isinstance(size, int)]
        if len(sizes) < 4:
            return None
        size, number, windows, before = sizes
        last = self.stride * (windows - 1)
        first = max(0, -((last - before) // self.dilation))
        left = min(number, -(-(size + before) // self.dilation)) - first
        low = before - self.dilation * first
        high = max(0, last + self.dilation * (left - 1) + 1 - low - size)
        made = replace(self, low=low, high=high)
        is_same = left >= number or left < 1 or low < 0 or made.count(size, left) != windows
        return None if is_same else (made, left)

    def inside(self, tap: int, extent: int, count: int, low: int) -> tuple[slice, slice]:
        """The windows that have a tap, of `count`, and the elements of the operand that it is in them."""
        offset = self.dilation * tap - low
        first = max(0, -(offset // self.stride))
        size = max(0, min(count, (extent - 1 - offset) // self.stride + 1) - first)
        begin = self.stride * first + offset
        return slice(first, first + size), slice(begin, begin + self.stride * size, self.stride) if size else slice(0)


class Windowed(Structured):
    """An operation that reads its first operand by windows. Their taps in the padding, `low` and `high`, are none: the
    operation then stands for one without, before any step of a schedule."""

    __slots__ = ()
    strides = ElementsAttribute(int, "a list of ints", default=())
    """The distances of windows; 1 if left out."""
    dilations = ElementsAttribute(int, "a list of ints", default=())
    """The distances of taps; 1 if left out."""
    low = DimsAttribute(example="[1, 1]")
    """How far windows reach beyond the first elements; 0 if left out."""
    high = DimsAttribute(example="[1, 1]")
    """How far they reach beyond the last."""

    @property
    def window_dims(self) -> Sequence[tuple[int, str, str]]:
        """The dims of the first operand that are read by windows: the place, the dim of windows and that of taps."""
        raise self.error("the operation declares no windows", required="an operation with this property")

    def windows(self) -> Sequence[Window]:
        """The windows along each such dim. Numbers that are missing are the usual ones; `verify` refuses them."""
        dims = self.window_dims
        strides, dilations = ((*held, *(1,) * len(dims)) for held in (self.strides, self.dilations))
        low, high = ((*held, *(0,) * len(dims)) for held in (self.low, self.high))
        return [Window(*own, strides[k], dilations[k], low[k], high[k]) for k, own in enumerate(dims)]

    def _numbers(self) -> Mapping[str, tuple[tuple[Dim, ...], int]]:
        """The numbers for each dim that are given, and the usual one, by attribute."""
        return {
            "strides": (self.strides, 1),
            "dilations": (self.dilations, 1),
            "low": (self.low, 0),
            "high": (self.high, 0),
        }

    @property
    def is_padded(self) -> bool:
        """Whether windows have taps that are none."""
        return any(n != 0 for n in (*self.low, *self.high))

    @property
    def expands_first(self) -> bool:
        return self.is_padded

    def padded_shape(self) -> tuple[Dim, ...]:
        """The shape of the first operand with the padding."""
        shape = list(shape_of(self.operands[0].type))
        for window in self.windows():
            shape[window.place] = window.low + shape[window.place] + window.high
        return tuple(shape)

    def shape_read(self) -> tuple[Dim, ...]:
        """The shape of a first operand of which as much is read without any of the attributes that make it short."""
        return self.padded_shape()

    def plain(self, operands: Sequence[Value], without: Sequence[str] = PADDING) -> Windowed:
        """A detached operation on these, without some attributes."""
        held = {key: attribute for key, attribute in self.attributes.items() if key not in without}
        made = type(self)(operands, [r.type for r in self.results], held, location=self.location)
        made.name = self.name
        return made

    def long_form(self, operands: Sequence[Value]) -> Windowed:
        """A detached operation over windows of this padded operand and the others, without what makes it short."""
        return self.plain(operands, SHORT)

    def is_inside(self, build: Build, window: Window) -> Value:
        """For each index along a dim of the padded operand, whether it is one of the operand."""
        extents = [shape[window.place] for shape in (shape_of(self.operands[0].type), self.padded_shape())]
        place = build(Iota([], [like(self.operands[0].type, (extents[1],), si64)], {"dim": 0}))
        first, end = (build(Fill.of(n, place.type)) for n in (window.low, window.low + extents[0]))
        return build(And.of(build(GreaterEqual.of(place, first)), build(Less.of(place, end))))

    def taps(
        self, evaluation: Evaluation
    ) -> Iterated[tuple[Mapping[str, int], tuple[slice, ...], Mapping[str, slice]]]:
        """Each tap: its index along the dims of taps, the elements of the operand that it is, and the windows that have
        it, by their dims."""
        names, shape = [it.name for it in self.iterators()], evaluation.shape(self.operands[0].type)
        extents = {name: evaluation.extent(d) for name, d in zip(names, self.domain(), strict=True)}
        windows = self.windows()
        for taps in product(*(range(extents[w.tap]) for w in windows)):
            read, written = [slice(None)] * len(shape), dict[str, slice]()
            for window, tap in zip(windows, taps, strict=True):
                sizes = shape[window.place], extents[window.dim], evaluation.size(window.low)
                written[window.dim], read[window.place] = window.inside(tap, *sizes)
            yield {w.tap: tap for w, tap in zip(windows, taps, strict=True)}, tuple(read), written

    # -- shapes ------------------------------------------------------------------------------------------------------

    def _shape_from_inputs(self) -> Sequence[Dim] | None:
        known: dict[str, Dim] = {it.name: it.extent for it in self.iterators() if it.extent is not None}
        for indexing_map, value in zip(self.maps(), self.inputs, strict=True):
            if len(indexing_map) != len(shape_of(value.type)):
                return None
            for expression, extent in zip(indexing_map, shape_of(value.type), strict=True):
                name = map_dim(expression)
                if name is not None and not are_equal_at(self, known.setdefault(name, extent), extent):
                    return None
        shape = shape_of(self.operands[0].type)
        for window in self.windows():
            if window.tap in known:
                known[window.dim] = window.count(shape[window.place], known[window.tap])
        named = [map_dim(expression) or "" for expression in self.result_map()]
        return [known[name] for name in named] if all(name in known for name in named) else None

    def usual_types(self) -> list[Type] | None:
        shape, first = self._shape_from_inputs(), self.operands[0].type
        return None if shape is None else [like(first, tuple(shape), dtype_of(first))]

    def verify(self) -> None:
        count = len(self.window_dims)
        for key, (held, usual) in self._numbers().items():
            if (held and len(held) != count) or not all(is_less_equal_at(self, usual, d) for d in held):
                raise self.error(
                    f"`{key}` has a number for each dim that is read by windows",
                    required=f"{counted(count, 'number')}, {usual} or more",
                    found=f"[{', '.join(map(to_text, held))}]",
                    fix=f"{{{key} = [{', '.join([str(usual)] * count)}]}}" if len(held) != count else None,
                )
        wanted, have, error = self._shape_from_inputs(), shape_of(self.results[0].type), self._wrong_result()
        pairs = zip(wanted or have, have, strict=False)
        if error is not None and (len(wanted or have) != len(have) or any(is_equal(a, b) is False for a, b in pairs)):
            raise error
        if not self.expands_first:
            super().verify()
            return
        values = Block([(value.name, value.type) for value in self.operands]).args
        values[0].type = like(values[0].type, self.shape_read(), dtype_of(values[0].type))
        made = self.long_form(values)
        made.parent = self.parent
        made.verify()

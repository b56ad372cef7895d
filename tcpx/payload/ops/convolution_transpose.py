"""Transposed convolutions: the products of each element with a filter, added up where they overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import gcd

import numpy as np

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, ElementsAttribute, IntAttribute, Operand
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind
from tcpx.payload.ir import Attribute, Block, Value, register
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.contract import summed_products
from tcpx.payload.ops.convolution import NAMES, AllNames, Convolution, usual_names, with_a_dim_of_groups
from tcpx.payload.ops.elementwise import converted
from tcpx.payload.ops.movement import Fill
from tcpx.payload.ops.views import Concat, Reshape, Reverse, Slice
from tcpx.payload.ops.windows import Window
from tcpx.payload.sizes import Dim, ceildiv, is_equal, maximum, to_text
from tcpx.payload.types import Type, accumulator_of, dtype_of, like, shape_of
from tcpx.records import frozen


@register
class ConvolutionTranspose(Composite):
    """The transpose of the convolution that has the same attributes, and reads this one's result: what that sums into
    an element of its result is what an element of `input` is added to, times `filter`.

    The operands are [b, c, ..] and [c, f, ..], the result is [b, f, ..], unless `input`, `filter` and `out` name the
    dims: `"h+p"` in `out` are windows along `h` of the input, with the taps `p`. Tap p of window h is element
    `stride*h + dilation*p - low` of the result, of which `low` elements before the first and `high` after the last are
    left out. The result may be longer by less than a stride; no tap reaches these elements, which are 0.
    """

    __slots__ = ()
    opcode = "tcp.convolution_transpose"
    class_name = "convolution_transpose"
    has_numbered_dims = False
    expands_first = True
    input, filter = Operand(), Operand()
    input_names = ElementsAttribute(str, "a list of the names of dims, quoted", "input", '["b", "c", "h"]', ())
    filter_names = ElementsAttribute(str, "a list of the names of dims, quoted", "filter", '["c", "f", "p"]', ())
    out_names = ElementsAttribute(str, "a list of the names of dims, quoted", "out", '["b", "f", "h+p"]', ())
    groups = IntAttribute(default=1)
    """How many groups of channels there are."""
    strides = ElementsAttribute(int, "a list of ints", default=())
    """The distances of windows; 1 if left out."""
    dilations = ElementsAttribute(int, "a list of ints", default=())
    """The distances of taps; 1 if left out."""
    low = ElementsAttribute(int, "a list of ints", default=())
    """How many elements before the first are left out; 0 if left out."""
    high = DimsAttribute(example="[1, 1]")
    """How many after the last."""

    @property
    def names(self) -> AllNames:
        """The names of the dims of input, filter and result."""
        given = self.input_names, self.filter_names, self.out_names
        out, own, read = usual_names(len(shape_of(self.input.type)))
        return given if any(given) else (read, own, out)

    @property
    def forward(self) -> Convolution:
        """The convolution that this is the transpose of: a detached one, of a value of the type of the result."""
        values = Block([("result", self.result.type), (self.filter.name, self.filter.type)]).args
        held = {**self.attributes, **dict(zip(NAMES, self.names[::-1], strict=True))}
        made = _Forward(values, [self.input.type], held, location=self.location)
        made.name, made.parent = self.name, self.parent
        return made

    def iterators(self) -> tuple[Iterator, ...]:
        names = dict.fromkeys(name for own in self.names for name in own)
        return tuple(Iterator(name, IteratorKind.WHOLE) for name in names)

    def maps(self) -> tuple[IndexingMap, ...]:
        return dims(*self.names[0]), dims(*self.names[1])

    def result_map(self) -> IndexingMap:
        return dims(*self.names[2])

    def usual_types(self) -> list[Type] | None:
        (read, own, out), extents = self.names, dict[str, Dim]()
        for names, value in zip((own, read), (self.filter, self.input), strict=True):
            extents |= dict(zip(names, shape_of(value.type), strict=False))
        channels = self.forward.channels
        if channels is not None and channels[1] in extents:
            extents[channels[1]] = extents[channels[1]] * self.groups
        for window in self.forward.windows():
            if {window.dim, window.tap} <= extents.keys():
                extents[out[window.place]] = _reached(window, extents)
        shape = tuple(extents[name] for name in out if name in extents)
        return [like(self.input.type, shape, dtype_of(self.input.type))] if len(shape) == len(out) else None

    def verify(self) -> None:
        forward, (read, own, _) = self.forward, self.names
        forward.check_attributes()
        extents = dict(zip((*own, *read), (*shape_of(self.filter.type), *shape_of(self.input.type)), strict=False))
        for window in forward.windows():
            if window.place >= len(shape_of(self.result.type)) or not {window.dim, window.tap} <= extents.keys():
                continue  # which the convolution refuses
            have, least = shape_of(self.result.type)[window.place], _reached(window, extents)
            same = is_equal(window.count(have, extents[window.tap]), extents[window.dim])
            if same is not True:
                raise self.error(
                    f"dim {window.place} of the result is not as long as taps reach, or longer by less than a stride",
                    required=f"{to_text(least)} to {to_text(least + window.stride - 1)}",
                    found=to_text(have),
                    unproven=same is None,
                )
        taps = [extents.get(window.tap, 0) for window in forward.windows()]
        if not all(isinstance(count, int) for count in taps):
            raise self.error("the numbers of taps are known", required="numbers", found=", ".join(map(to_text, taps)))
        forward.verify()

    # -- by phases ---------------------------------------------------------------------------------------------------

    def decompose(self, build: Build) -> Value:
        """For each remainder of the index of an element by the strides, a convolution: these elements read the same
        taps."""
        forward = self.forward
        if self.groups != 1:
            return with_a_dim_of_groups(self, forward.channels or ("", ""), self.groups, self.names, build)
        windows, shape = forward.windows(), shape_of(self.result.type)
        parts = [self._phase(build, windows, phase) for phase in product(*(range(w.stride) for w in windows))]
        whole = list(shape)
        for window in reversed(windows):  # the phases along a dim lie inside of its windows
            at, step = window.place + 1, window.stride
            whole[window.place] = ceildiv(shape[window.place], step) * step
            if step > 1:
                opened = [shape_of(part.type) for part in parts]
                parts = [build(Reshape.of(p, (*s[:at], 1, *s[at:]))) for p, s in zip(parts, opened, strict=True)]
                joined = (*opened[0][:at], step, *opened[0][at:])
                groups = [parts[k : k + step] for k in range(0, len(parts), step)]
                parts = [build(Concat.of(group, at, joined)) for group in groups]
        made = parts[0] if max(w.stride for w in windows) == 1 else build(Reshape.of(parts[0], whole))
        fits = all(are_equal_at(self, a, b) for a, b in zip(whole, shape, strict=True))
        return made if fits else build(Slice.of(made, (0,) * len(shape), shape))

    def _phase(self, build: Build, windows: Sequence[Window], phase: Sequence[int]) -> Value:
        """The elements with one remainder along each dim: a convolution by the taps that reach them, in reverse."""
        (read, own, out), shape = self.names, list(shape_of(self.result.type))
        extents = dict(zip((*own, *read), (*shape_of(self.filter.type), *shape_of(self.input.type)), strict=True))
        parts = {w.dim: _Phase.of(w, r, extents[w.tap]) for w, r in zip(windows, phase, strict=True)}
        for window in windows:
            shape[window.place] = ceildiv(shape[window.place], window.stride)
        type_ = like(self.result.type, tuple(shape), dtype_of(self.result.type))
        if any(part.taps < 1 for part in parts.values()):
            return build(Fill.of(0, type_))
        by_tap = {w.tap: parts[w.dim] for w in windows}
        counts = {w.dim: shape[w.place] for w in windows}
        weights = _strided(build, self.filter, [by_tap.get(name) for name in own])
        places = [own.index(tap) for tap, part in by_tap.items() if part.taps > 1]
        weights = build(Reverse([weights], [weights.type], {"dims": tuple(sorted(places))})) if places else weights
        extents = dict(zip(read, shape_of(self.input.type), strict=True))
        low = {name: part.before for name, part in parts.items()}
        high = {
            name: counts[name] + part.dilation * (part.taps - 1) - part.before - extents[name]
            for name, part in parts.items()
        }
        x = _cropped(build, self.input, [low.get(name, 0) for name in read], [high.get(name, 0) for name in read])
        names, by_place = {w.dim: f"{w.dim}+{w.tap}" for w in windows}, {w.place: w.dim for w in windows}
        order = [name for name in read if name in parts]
        held: dict[str, Attribute] = {
            "input": tuple(names.get(name, name) for name in read),
            "filter": own,
            "out": tuple(by_place.get(k, name) for k, name in enumerate(out)),
            "dilations": tuple(parts[name].dilation for name in order),
            "low": tuple(maximum(0, low[name]) for name in order),
            "high": tuple(maximum(0, high[name]) for name in order),
        }
        return build(Convolution([x, weights], [type_], held))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        forward, (read, own, out) = self.forward, self.names
        wide = accumulator_of(dtype_of(self.result.type)).numpy
        pairs = zip(args, self.operands, strict=True)
        x, w = (converted(a, dtype_of(v.type), dtype_of(self.result.type)).astype(wide) for a, v in pairs)
        result = np.zeros(evaluation.shape(self.result.type), wide)
        parts = [[x], [w], [result]]
        if self.groups != 1 and forward.channels is not None:
            f, c = forward.channels
            places = read.index(f), own.index(f), out.index(c)
            parts = [np.split(a, self.groups, place) for a, place in zip((x, w, result), places, strict=True)]
        by_place = {window.place: window.dim for window in forward.windows()}
        named = [by_place.get(k, name) for k, name in enumerate(out)]
        for tap, elements, windows in forward.taps(evaluation):
            at = tuple(windows.get(name, slice(None)) for name in read)
            weights = tuple(tap.get(name, slice(None)) for name in own)
            for part, weight, total in zip(*parts, strict=True):
                lhs, rhs = (part[at], list(read)), (weight[weights], [name for name in own if name not in tap])
                extents = {name: n for array, names in (lhs, rhs) for name, n in zip(names, array.shape, strict=True)}
                total[elements] += summed_products(lhs, rhs, named, extents)
        return (result.astype(dtype_of(self.result.type).numpy),)


class _Forward(Convolution):
    """A convolution whose errors are those of its transpose."""

    __slots__ = ()
    opcode = ConvolutionTranspose.opcode


@frozen
class _Phase:
    """The taps that reach the elements with one remainder: `taps` of them from `first` on, `step` apart; as windows of
    the input they are `dilation` apart, and the first one begins `before` elements before it."""

    first: int
    taps: int
    step: int
    dilation: int
    before: int

    @classmethod
    def of(cls, window: Window, remainder: int, taps: Dim) -> _Phase:
        stride, apart = window.stride, window.dilation
        low, most = (n if isinstance(n, int) else 0 for n in (window.low, taps))
        shared, index = gcd(stride, apart), remainder + low
        step = stride // shared
        first = next((p for p in range(step) if (index - apart * p) % stride == 0), most)
        count = max(0, -((first - most) // step))
        before = apart // shared * (count - 1) - (index - apart * first) // stride
        return cls(first, count, step, apart // shared, before)


def _reached(window: Window, extents: Mapping[str, Dim]) -> Dim:
    """How long the dim of the result is that taps reach."""
    last = window.stride * (extents[window.dim] - 1) + window.dilation * (extents[window.tap] - 1)
    return last + 1 - window.low - window.high


def _strided(build: Build, value: Value, parts: Sequence[_Phase | None]) -> Value:
    """The taps of a filter that a phase has along each of its dims, if it is one of taps."""
    shape = [n if part is None else part.taps for n, part in zip(shape_of(value.type), parts, strict=True)]
    if shape == [*shape_of(value.type)]:
        return value
    first, steps = ([0 if part is None else part.first for part in parts], [1 if p is None else p.step for p in parts])
    return build(Slice.of(value, first, shape, steps))


def _cropped(build: Build, value: Value, low: Sequence[Dim], high: Sequence[Dim]) -> Value:
    """A value without the elements that a padding of less than 0 leaves out."""
    cuts = [[maximum(0, 0 - n) for n in side] for side in (low, high)]
    shape = [n - a - b for n, a, b in zip(shape_of(value.type), *cuts, strict=True)]
    if all(is_equal(n, 0) is True for side in cuts for n in side):
        return value
    return build(Slice.of(value, cuts[0], shape))

"""Convolutions: sums of products of windows of an operand with a filter, over any dims in any order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, IntAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, dims, map_coefficients, map_dim, map_dims
from tcpx.payload.interfaces import Build, Iterator, Structured, parallel, reduction
from tcpx.payload.ir import Attribute, Block, Operation, Value, register
from tcpx.payload.ops.bits import And
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.contract import SumOfProducts, summed_products
from tcpx.payload.ops.elementwise import Add
from tcpx.payload.ops.finite import is_finite
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.select import Select
from tcpx.payload.ops.views import Pad, Reshape
from tcpx.payload.ops.windows import PADDING, Windowed
from tcpx.payload.sizes import Dim, Size, floordiv, mod, to_text
from tcpx.payload.types import dtype_of, like, shape_of

Names = tuple[str, ...]
AllNames = tuple[Names, Names, Names]
"""Those of the dims of input, filter and result."""
NAMES: Final = ("input", "filter", "out")
_DECLARING: Final = (*NAMES, "strides", "dilations", "low", "high", "groups")
"""The attributes that iterators and maps follow from."""
_WINDOW: Final = re.compile(r"\s*([^\W\d]\w*)\s*\+\s*([^\W\d]\w*)\s*")


@register
class Convolution(Windowed, SumOfProducts):
    """The sums of the products of windows of `input` with `filter`, in the dtype of the result.

    The operands are [b, c, ..] and [f, c, ..], the result is [b, f, ..], unless `input`, `filter` and `out` name the
    dims: `"h+p"` are windows along `h` with the taps `p`. A dim that all three have, as the channels of a depthwise
    convolution, has sums of its own; dims that are not in `out` are summed. With `groups`, each of as many groups of
    `f` reads its own part of the channels of `input`. The filter is not turned.

    Along each dim that is read by windows, tap p of window h is element `stride*h + dilation*p - low`. Taps outside
    of `input`, by `low` and `high` elements at most, are left out, so that infinite weights give no NaN there.
    """

    __slots__ = ()
    opcode = "tcp.convolution"
    class_name = "convolution"
    input, filter, init = Operand(), Operand(), OptionalOperand()
    input_names = ElementsAttribute(str, "a list of the names of dims, quoted", "input", '["b", "c", "h+p"]', ())
    filter_names = ElementsAttribute(str, "a list of the names of dims, quoted", "filter", '["f", "c", "p"]', ())
    out_names = ElementsAttribute(str, "a list of the names of dims, quoted", "out", '["b", "f", "h"]', ())
    groups = IntAttribute(default=1)
    """How many groups of channels there are."""

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        out, maps = map_dims(op.result_map()), op.maps()
        own = map_dims(maps[1]) if len(maps) == 2 else None
        if out is None or own is None:
            return None
        read: list[str] = []
        factors: list[tuple[int, int]] = []
        for entry in maps[0]:
            name, found = map_dim(entry), map_coefficients(entry) or {}
            if name is None:
                pair = sorted(found, key=lambda n: n not in out)
                if len(pair) != 2 or pair[1] in out or not isinstance(entry, Size) or entry.constant:
                    return None
                factors.append((found[pair[0]], found[pair[1]]))
                name = "+".join(pair)
            read.append(name)
        if not factors or min(map(min, factors)) < 1:
            return None
        strides, dilations = zip(*factors, strict=True)
        held: dict[str, Attribute] = dict(zip(NAMES, (tuple(read), own, out), strict=True))
        if _numbered(tuple(read), own, out) == _numbered(*usual_names(len(read))):
            held = {}
        usual = (1,) * len(factors)
        return held | {k: v for k, v in (("strides", strides), ("dilations", dilations)) if v != usual}

    @property
    def names(self) -> AllNames:
        """The names of the dims of input, filter and result: those of the attributes, or the usual ones."""
        return self.once("names", self._declaration, self._names)

    @property
    def _declaration(self) -> Sequence[object]:
        """What names, iterators and maps follow from."""
        return [value.type for value in self.operands[:2]] + [self.attributes.get(key) for key in _DECLARING]

    def _names(self) -> AllNames:
        given = self.input_names, self.filter_names, self.out_names
        return given if any(given) else usual_names(len(shape_of(self.input.type)))

    @property
    def window_dims(self) -> Sequence[tuple[int, str, str]]:
        found = [(k, _WINDOW.fullmatch(name)) for k, name in enumerate(self.names[0])]
        return [(k, pair[1], pair[2]) for k, pair in found if pair is not None]

    @property
    def channels(self) -> tuple[str, str] | None:
        """The dim of which each group has its own part, and the one that it sums: of the filter and the result, and of
        the filter and the input. None if there are none or several."""
        read, own, out = self.names
        taps = {tap for _, _, tap in self.window_dims}
        kept = [name for name in own if name in out and name not in read]
        summed = [name for name in own if name in read and name not in out and name not in taps]
        return (kept[0], summed[0]) if len(kept) == len(summed) == 1 else None

    @property
    def expands_first(self) -> bool:
        return self.is_padded or self.groups != 1

    @property
    def reason_to_expand(self) -> str:
        is_masked = self.is_padded and not is_finite(self.filter)
        found = (
            "its filter may be infinite, so masks leave out its padding; write a tcp.pad before it for `low` and `high`"
        )
        return found if is_masked else ""

    def iterators(self) -> tuple[Iterator, ...]:
        return self.once("iterators", self._declaration, self._iterators)

    def _iterators(self) -> tuple[Iterator, ...]:
        read, own, out = self.names
        taps = {place: tap for place, _, tap in self.window_dims}
        inputs = dict.fromkeys((*(taps.get(k, name) for k, name in enumerate(read)), *own))
        return parallel(*out) + reduction(*(name for name in inputs if name not in out))

    def maps(self) -> tuple[IndexingMap, ...]:
        return self.once("maps", self._declaration, self._maps)

    def _maps(self) -> tuple[IndexingMap, ...]:
        read, own, _ = self.names
        entries: list[Dim] = [dim_symbol(name).size() for name in read]
        for window in self.windows():
            entries[window.place] = window.entry()
        if self.groups != 1 and self.channels is not None:
            f, c = self.channels
            extents = dict(zip(own, shape_of(self.filter.type), strict=False))
            group = floordiv(dim_symbol(f).size(), floordiv(extents[f], self.groups))
            entries[read.index(c)] = group * extents[c] + dim_symbol(c).size()
        return tuple(entries), dims(*own)

    def result_map(self) -> IndexingMap:
        return dims(*self.names[2])

    def reading_by(self, index: int, indexing_map: IndexingMap) -> Mapping[str, Attribute] | None:
        held = dict(zip(NAMES, self.names, strict=True))
        entries = dict(zip(self.maps()[index], self.names[index], strict=True))
        names = [entries.get(entry) for entry in indexing_map]
        windows = [name for name in names if name is not None and "+" in name]
        in_order = windows == [name for name in self.names[index] if "+" in name]
        known = tuple(name for name in names if name is not None)
        return held | {NAMES[index]: known} if len(known) == len(names) and in_order else None

    # -- what it is short for ----------------------------------------------------------------------------------------

    def decompose(self, build: Build) -> Sequence[Value]:
        is_masked = self.is_padded and not is_finite(self.filter)
        if self.is_padded and not is_masked:
            return [build(self.plain([self.padded_input(build), *self.operands[1:]]))]
        if self.groups != 1:
            return [with_a_dim_of_groups(self, self.channels or ("", ""), self.groups, self.names, build)]
        return [self._masked(build)] if is_masked else ()

    def padded_input(self, build: Build) -> Value:
        """The input with zeros as padding."""
        low: list[Dim] = [0] * len(self.names[0])
        for window in self.windows():
            low[window.place] = window.low
        return build(Pad.of(self.input, self.padded_shape(), 0, low))

    def _masked(self, build: Build) -> Value:
        """The sums over windows of the padded input, where the weight of a tap in the padding is 0."""
        values = [self.padded_input(build), self.filter]
        plain = self.plain(Block([(v.name, v.type) for v in (*values, *self.inits)]).args)
        values += [self.is_inside(build, window) for window in self.windows()]
        block = Block([(f"e{k}", dtype_of(value.type)) for k, value in enumerate(values)])
        block.args.append(Value("acc", self.acc_type, block))

        def inner(op: Operation) -> Value:
            op.name = op.results[0].name = f"v{len(block.ops)}"
            return block.append(op).results[0]

        element, weight, is_tap, *others, acc = block.args
        for mask in others:
            is_tap = inner(And.of(is_tap, mask))
        weight = inner(Select.of(is_tap, weight, inner(Const.literal(0, dtype_of(weight.type)))))
        block.append(Yield([self.scalar_body(inner, (element, weight), acc)]))
        maps = (*plain.maps(), *((window.entry(),) for window in plain.windows()), plain.result_map())
        held = {"iterators": tuple(it.entry for it in plain.iterators()), "maps": maps, "combiner": Add.opcode}
        return build(Generic([*values, *self.inits], [self.result.type], held, [block]))

    # -- rules and values --------------------------------------------------------------------------------------------

    def check_attributes(self) -> None:
        """As of any operation; each name is that of a dim, or of windows along one in the input."""
        super().check_attributes()
        for key, names in zip(NAMES, self.names, strict=True):
            fits = [name.isidentifier() or (key == "input" and _WINDOW.fullmatch(name)) for name in names]
            if not names or not all(fits):
                raise self.error(
                    f"`{key}` names the dims of an operand, or of the result",
                    required='names of dims, such as "c"' + (', or windows, "h+p"' if key == "input" else ""),
                    found=json.dumps(names),
                )

    def verify(self) -> None:
        read, own, out = self.names
        windows = self.window_dims
        listed = [*(name for name in read if name.isidentifier()), *(name for _, *pair in windows for name in pair)]
        is_read = all(dim in out and tap in own and tap not in out for _, dim, tap in windows)
        if not windows or not is_read or any(len({*names}) < len(names) for names in (listed, own, out)):
            raise self.error(
                "`input` is read by windows, each along a dim of the result, with taps of the filter",
                required='`input` with "h+p", where `h` is in `out`, and `p` in `filter` alone; each name once',
                found=", ".join(f"{key} = {json.dumps(names)}" for key, names in zip(NAMES, self.names, strict=True)),
                fix=None if windows else Direction("write it as a tcp.contract"),
            )
        if self.groups != 1:
            self._verify_groups()
        super().verify()

    def _verify_groups(self) -> None:
        """Each group has as many channels of the input, and as many features."""
        channels, (read, own, _) = self.channels, self.names
        if channels is None or self.groups < 1:
            raise self.error(
                "groups divide one dim that input and filter have alone, and one that filter and result have alone",
                required="1 or more groups, and one dim of each kind",
                found=f"groups = {self.groups}",
            )
        f, c = channels
        extents = dict(zip(own, shape_of(self.filter.type), strict=False))
        count = dict(zip(read, shape_of(self.input.type), strict=False)).get(c, 0)
        inner, features = extents.get(c, 0), extents.get(f, 0)
        if not are_equal_at(self, inner * self.groups, count) or not are_equal_at(self, mod(features, self.groups), 0):
            raise self.error(
                "each group has as many channels of the input, and as many of the result",
                required=f"{to_text(inner * self.groups)} of `{c}` in %{self.input.name}, and of `{f}` a multiple of"
                f" {self.groups}",
                found=f"{to_text(count)} and {to_text(features)}",
            )

    def shape_read(self) -> tuple[Dim, ...]:
        """That of the padded input, with the channels of one group."""
        shape, (read, own, _) = list(self.padded_shape()), self.names
        if self.groups != 1 and self.channels is not None:
            c = self.channels[1]
            shape[read.index(c)] = shape_of(self.filter.type)[own.index(c)]
        return tuple(shape)

    def plain(self, operands: Sequence[Value], without: Sequence[str] = PADDING) -> Convolution:
        made = super().plain(operands, without)
        return made if isinstance(made, Convolution) else self

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        read, own, out = self.names
        x, w = self.factors(args)
        result = np.zeros(evaluation.shape(self.result.type), x.dtype)
        parts = [[x], [w], [result]]
        if self.groups != 1 and self.channels is not None:
            f, c = self.channels
            places = read.index(c), own.index(f), out.index(f)
            parts = [np.split(a, self.groups, place) for a, place in zip((x, w, result), places, strict=True)]
        dims_read = [_WINDOW.sub(r"\1", name) for name in read]
        for tap, elements, windows in self.taps(evaluation):
            weights = tuple(tap.get(name, slice(None)) for name in own)
            written = tuple(windows.get(name, slice(None)) for name in out)
            for part, weight, total in zip(*parts, strict=True):
                lhs, rhs = (part[elements], dims_read), (weight[weights], [name for name in own if name not in tap])
                extents = {name: n for array, names in (lhs, rhs) for name, n in zip(names, array.shape, strict=True)}
                total[written] += summed_products(lhs, rhs, out, extents)
        if len(args) > 2:
            result = np.add(result, args[2].astype(result.dtype))
        return (result.astype(self.acc_type.numpy),)


def with_a_dim_of_groups(op: Operation, channels: tuple[str, str], groups: int, names: AllNames, build: Build) -> Value:
    """The result of a convolution, or a transposed one, which has a dim of its own for the groups of two dims, between
    reshapes."""
    (f, c), taken = channels, {name for own in names for name in own}
    g = next(name for name in ("g", *(f"g{k}" for k in range(len(taken)))) if name not in taken)
    places = [own.index(f if f in own else c) for own in names]

    def split(value: Value, at: int) -> tuple[Dim, ...]:
        shape = shape_of(value.type)
        return (*shape[:at], groups, floordiv(shape[at], groups), *shape[at + 1 :])

    values = [build(Reshape.of(v, split(v, at))) for v, at in zip(op.operands, places, strict=False)]
    held = dict(zip(NAMES, ((*own[:at], g, *own[at:]) for own, at in zip(names, places, strict=True)), strict=True))
    type_ = like(op.result.type, split(op.result, places[2]), dtype_of(op.result.type))
    rest = {key: attribute for key, attribute in op.attributes.items() if key != "groups"}
    made = build(type(op)(values, [type_], {**rest, **held}))
    return build(Reshape.of(made, shape_of(op.result.type)))


def usual_names(rank: int) -> AllNames:
    """The names of the dims of input, filter and result where none are given."""
    places = range(max(0, rank - 2))
    taps = [f"k{k}" for k in places]
    return ("b", "c", *(f"o{k}+k{k}" for k in places)), ("f", "c", *taps), ("b", "f", *(f"o{k}" for k in places))


def _numbered(*names: Names) -> list[int]:
    """The dims of a convolution by the numbers in which they come."""
    known: dict[str, int] = {}
    return [known.setdefault(name, len(known)) for own in names for entry in own for name in entry.split("+")]

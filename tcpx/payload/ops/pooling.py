"""Poolings: the elements of windows of an operand, combined."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import (
    ChoiceAttribute,
    DimsAttribute,
    ElementsAttribute,
    IntAttribute,
    Operand,
    OptionalOperand,
)
from tcpx.payload.indexing_maps import IndexingMap, dims, map_coefficients, map_dim, map_dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, Structured, parallel
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.arithmetic import Abs, Sqrt
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, Arithmetic, Div, Max, Min, Mul, cast_to, converted
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.power import Pow
from tcpx.payload.ops.views import Pad
from tcpx.payload.ops.windows import Windowed
from tcpx.payload.sizes import Dim, Size, to_text
from tcpx.payload.types import ScalarType, Type, accumulator_of, dtype_of, like, shape_of
from tcpx.plurals import counted

COMBINERS: Final[Mapping[str, type[Arithmetic]]] = {"max": Max, "min": Min, "sum": Add}
OF_SUMS: Final = ("average", "lp")
"""The kinds that are sums, and elementwise operations before or after."""


class OneWindowed(Windowed):
    """An operation that reads windows of its only operand, with `window[k]` taps along dim `dims[k]`."""

    __slots__ = ()
    operand = Operand()
    window = DimsAttribute(example="[2, 2]")
    """How many taps a window has along each of its dims."""
    places = ElementsAttribute(int, "a list of ints", "dims", "", ())
    """The dims of windows."""

    @property
    def window_dims(self) -> Sequence[tuple[int, str, str]]:
        rank, count = len(shape_of(self.operand.type)), len(self.window)
        places = self.places or range(max(0, rank - count), rank)
        return [(place, f"d{place}", f"k{k}") for k, place in enumerate(places)]

    def iterators(self) -> tuple[Iterator, ...]:
        kept = parallel(*(f"d{k}" for k in range(len(shape_of(self.operand.type)))))
        taps = zip(self.window_dims, self.window, strict=False)
        return (*kept, *(Iterator(tap, IteratorKind.REDUCTION, extent) for (_, _, tap), extent in taps))

    def maps(self) -> tuple[IndexingMap, ...]:
        entries: list[Dim] = list(self.result_map())
        for window in self.windows():
            entries[window.place] = window.entry()
        return (tuple(entries),)

    def result_map(self) -> IndexingMap:
        return dims(*(f"d{k}" for k in range(len(shape_of(self.operand.type)))))

    def declaring(self, extents: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        return {"window": tuple(extents[tap] for _, _, tap in self.window_dims)}

    def verify(self) -> None:
        rank, places = len(shape_of(self.operand.type)), self.places
        is_right = all(0 <= k < rank for k in places) and len({*places}) == len(places) and len(self.window) <= rank
        if not is_right or not self.window or (places and len(places) != len(self.window)):
            raise self.error(
                "`window` has the taps along each of `dims`, dims of the operand",
                required=f"numbers of taps, and as many different dims, 0 or more, and below {rank}",
                found=f"window = [{', '.join(map(to_text, self.window))}], dims = {list(places)}",
            )
        super().verify()


@register
class Pooling(OneWindowed):
    """The elements of each window of the operand, combined by `kind`: `"max"`, `"min"`, `"sum"`, `"average"`, which is
    the sum divided by the number of elements, or `"lp"`, the root of the sum of the elements' absolute values to
    `power`.

    Windows have `window[k]` taps along dim `dims[k]`, the last dims if it is left out; the result has the dims of the
    operand. Along each, tap p of window h is element `stride*h + dilation*p - low`. Taps outside of the operand, by
    `low` and `high` elements at most, are left out, and not counted by an average; one that counts them has a tcp.pad
    before it. A window without any element gives the neutral element, and as an average NaN.
    """

    __slots__ = ()
    opcode = "tcp.pooling"
    class_name = "pooling"
    init = OptionalOperand()
    kind = ChoiceAttribute(*COMBINERS, *OF_SUMS)
    """What combines the elements."""
    power = IntAttribute(default=2)
    """The power of `"lp"`."""

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        out, maps = map_dims(op.result_map()), op.maps()
        if out is None or len(maps) != 1 or len(maps[0]) != len(out):
            return None
        extents, held = dict(zip((it.name for it in op.iterators()), op.domain(), strict=True)), dict[str, list[Dim]]()
        for k, (entry, name) in enumerate(zip(maps[0], out, strict=True)):
            if map_dim(entry) == name:
                continue
            factors = dict(map_coefficients(entry) or {})
            stride = factors.pop(name, 0)
            if stride < 1 or len(factors) != 1 or not isinstance(entry, Size) or entry.constant:
                return None
            ((tap, dilation),) = factors.items()
            if dilation < 1:
                return None
            for key, number in (("dims", k), ("window", extents[tap]), ("strides", stride), ("dilations", dilation)):
                held.setdefault(key, []).append(number)
        combiner = op.attributes.get("combiner")
        kind = next((word for word, cls in COMBINERS.items() if cls.opcode == combiner), None)
        count = len(held.get("dims", ()))
        if not count or kind is None:
            return None
        usual: Mapping[str, Sequence[Dim]] = {
            "dims": range(len(out) - count, len(out)), "strides": (1,) * count, "dilations": (1,) * count
        }  # fmt: skip
        made: dict[str, Attribute] = {k: tuple(v) for k, v in held.items() if list(v) != list(usual.get(k, ()))}
        return made | ({"kind": kind} if kind != "max" else {})

    @property
    def combiner(self) -> type[Arithmetic]:
        """The operation that combines elements."""
        return COMBINERS.get(self.kind, Add)

    @property
    def expands_first(self) -> bool:
        return self.is_padded or self.kind in OF_SUMS

    @property
    def accumulators(self) -> tuple[ScalarType, ...]:
        """Sums of 16 bits are made in f32."""
        return (accumulator_of(self.acc_type) if self.combiner is Add else self.acc_type,)

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(self.combiner.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        element = cast_to(build, args[0], self.acc_type)
        return element if acc is None else self.combine(build, acc, element)

    def neutral(self) -> float | int | None:
        return self.combiner.neutral_of(self.acc_type)

    def decompose(self, build: Build) -> Sequence[Value]:
        clipped = self._clipped()
        if clipped is not None:
            return [build(clipped)]
        if self.kind in OF_SUMS:
            return [self._of_sums(build)]
        if not self.is_padded:
            return ()
        low: list[Dim] = [0] * len(shape_of(self.operand.type))
        for window in self.windows():
            low[window.place] = window.low
        operand = cast_to(build, self.operand, self.acc_type)  # which may have no neutral element of its own
        padded = build(Pad.of(operand, self.padded_shape(), self.neutral() or 0, low))
        return [build(self.plain([padded, *self.inits]))]

    def _clipped(self) -> Windowed | None:
        """A detached pooling without the taps that lie in the padding in every window, such as most taps of a window
        that is larger than the operand; None if it has no such taps."""
        shapes, windows, is_clipped = shape_of(self.operand.type), list(self.windows()), False
        taps = list(self.window)
        for k, window in enumerate(windows):
            count = shape_of(self.result.type)[window.place]
            found = window.clipped(shapes[window.place], taps[k], count)
            if found is not None:
                (windows[k], taps[k]), is_clipped = found, True
        if not is_clipped:
            return None
        made = self.plain(self.operands)
        made.attributes["window"] = tuple(taps)
        for key, padding in (("low", [w.low for w in windows]), ("high", [w.high for w in windows])):
            if any(n != 0 for n in padding):
                made.attributes[key] = tuple(padding)
        return made

    def _of_sums(self, build: Build) -> Value:
        """The result of a short kind, of sums in the dtype in which they are accumulated."""
        x = cast_to(build, self.operand, self.accumulators[0])
        if self.kind == "lp":
            size = build(Abs.of(x))
            total = self._sums(build, self._power(build, size, self.power))
            root = build(Sqrt.of(total)) if self.power == 2 else self._power(build, total, 1 / self.power)
            return cast_to(build, root, self.acc_type)
        total = self._sums(build, x)
        return cast_to(build, build(Div.of(total, self._counts(build, total.type))), self.acc_type)

    def _sums(self, build: Build, x: Value) -> Value:
        """The sums of the elements of a value in each window."""
        made = self.plain([x], ("kind", "power"))
        made.results[0].type = like(self.result.type, shape_of(self.result.type), dtype_of(x.type))
        made.attributes["kind"] = "sum"
        return build(made)

    def _power(self, build: Build, x: Value, power: float) -> Value:
        if power == 1:
            return x
        return build(Mul.of(x, x) if power == 2 else Pow.of(x, splat(build, power, x.type)))

    def _counts(self, build: Build, type_: Type) -> Value:
        """How many elements each window has: the product of how many it has along each dim."""
        number: Dim = 1
        made: list[Value] = []
        for window, taps in zip(self.windows(), self.window, strict=True):
            if window.low == window.high == 0:
                number = number * taps
                continue
            inside = cast_to(build, self.is_inside(build, window), dtype_of(type_))
            held = {"window": (taps,), "kind": "sum", **window.steps()}
            along = Pooling([inside], [like(type_, (shape_of(type_)[window.place],), dtype_of(type_))], held)
            made.append(build(Broadcast.of(build(along), (window.place,), type_)))
        if not made or number != 1:
            made.append(build(Fill.of(number, type_)))
        return reduce(lambda lhs, rhs: build(Mul.of(lhs, rhs)), made)

    def verify(self) -> None:
        if self.kind in OF_SUMS:
            self._verify_short()
        for value in self.inits:
            if dtype_of(value.type) != self.acc_type:
                raise self.error(
                    "`init` has the dtype of the result", required=self.acc_type.name, found=str(value.type)
                )
        super().verify()

    def _verify_short(self) -> None:
        """What is no combination of elements has floats, and nothing to begin with."""
        if not self.acc_type.is_float or self.inits:
            raise self.error(
                f'`kind = "{self.kind}"` gives floats, and takes no `init`',
                required="a result of floats, and one operand",
                found=f"{counted(len(self.operands), 'operand')}, {self.result.type}",
            )
        if self.power < 1:
            raise self.error("`power` is that of a norm", required="1 or more", found=str(self.power))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        """f16 and bf16 are added in f32, and rounded once."""
        dtype, (wide,) = self.acc_type, self.accumulators
        x = converted(args[0], dtype_of(self.operand.type), dtype).astype(wide.numpy)
        if self.kind == "lp":
            x = np.power(np.abs(x), self.power)
        made = np.full(evaluation.shape(self.result.type), self.neutral()).astype(wide.numpy)
        count = np.zeros_like(made)
        for _, elements, windows in self.taps(evaluation):
            written = tuple(windows.get(f"d{k}", slice(None)) for k in range(made.ndim))
            made[written] = self.combiner.ufunc(made[written], x[elements])
            count[written] = np.add(count[written], 1)
        if len(args) > 1:
            made = self.combiner.ufunc(made, args[1].astype(wide.numpy))
        if self.kind == "average":
            with np.errstate(invalid="ignore"):
                made = np.divide(made, count)
        if self.kind == "lp":
            made = np.sqrt(made) if self.power == 2 else np.power(made, wide.numpy.type(1 / self.power))
        return (np.asarray(made).astype(dtype.numpy),)

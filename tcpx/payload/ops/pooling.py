"""Poolings: the elements of windows of an operand, combined."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ChoiceAttribute, DimsAttribute, ElementsAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dims, map_coefficients, map_dim, map_dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, Structured, parallel
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.elementwise import Add, Arithmetic, Max, Min, cast_to, converted
from tcpx.payload.ops.views import Pad
from tcpx.payload.ops.windows import Windowed
from tcpx.payload.sizes import Dim, Size, to_text
from tcpx.payload.types import ScalarType, accumulator_of, dtype_of, shape_of

COMBINERS: Final[Mapping[str, type[Arithmetic]]] = {"max": Max, "min": Min, "sum": Add}


@register
class Pooling(Windowed):
    """The elements of each window of the operand, combined by `kind`: `"max"`, `"min"` or `"sum"`.

    Windows have `window[k]` taps along dim `dims[k]`, the last dims if it is left out; the result has the dims of the
    operand. Along each, tap p of window h is element `stride*h + dilation*p - low`. Taps outside of the operand, by
    `low` and `high` elements at most, are left out; a window without any gives the neutral element.
    """

    __slots__ = ()
    opcode = "tcp.pooling"
    class_name = "pooling"
    operand, init = Operand(), OptionalOperand()
    window = DimsAttribute(example="[2, 2]")
    """How many taps a window has along each of its dims."""
    places = ElementsAttribute(int, "a list of ints", "dims", "[2, 3]", ())
    """The dims of windows."""
    kind = ChoiceAttribute(*COMBINERS)
    """What combines the elements."""

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
    def window_dims(self) -> Sequence[tuple[int, str, str]]:
        rank, count = len(shape_of(self.operand.type)), len(self.window)
        places = self.places or range(max(0, rank - count), rank)
        return [(place, f"d{place}", f"k{k}") for k, place in enumerate(places)]

    @property
    def combiner(self) -> type[Arithmetic]:
        """The operation that combines elements."""
        return COMBINERS[self.kind]

    @property
    def accumulators(self) -> tuple[ScalarType, ...]:
        """Sums of 16 bits are made in f32."""
        return (accumulator_of(self.acc_type) if self.combiner is Add else self.acc_type,)

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

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(self.combiner.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        element = cast_to(build, args[0], self.acc_type)
        return element if acc is None else self.combine(build, acc, element)

    def neutral(self) -> float | int | None:
        return self.combiner.neutral_of(self.acc_type)

    def decompose(self, build: Build) -> Sequence[Value]:
        if not self.is_padded:
            return ()
        low: list[Dim] = [0] * len(shape_of(self.operand.type))
        for window in self.windows():
            low[window.place] = window.low
        operand = cast_to(build, self.operand, self.acc_type)  # which may have no neutral element of its own
        padded = build(Pad.of(operand, self.padded_shape(), self.neutral() or 0, low))
        return [build(self.plain([padded, *self.inits]))]

    def verify(self) -> None:
        rank, places = len(shape_of(self.operand.type)), self.places
        is_right = all(0 <= k < rank for k in places) and len({*places}) == len(places) and len(self.window) <= rank
        if not is_right or not self.window or (places and len(places) != len(self.window)):
            raise self.error(
                "`window` has the taps along each of `dims`, dims of the operand",
                required=f"numbers of taps, and as many different dims, 0 or more, and below {rank}",
                found=f"window = [{', '.join(map(to_text, self.window))}], dims = {list(places)}",
            )
        for value in self.inits:
            if dtype_of(value.type) != self.acc_type:
                raise self.error(
                    "`init` has the dtype of the result", required=self.acc_type.name, found=str(value.type)
                )
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        """f16 and bf16 are added in f32, and rounded once."""
        dtype, (wide,) = self.acc_type, self.accumulators
        x = converted(args[0], dtype_of(self.operand.type), dtype).astype(wide.numpy)
        made = np.full(evaluation.shape(self.result.type), self.neutral()).astype(wide.numpy)
        for _, elements, windows in self.taps(evaluation):
            written = tuple(windows.get(f"d{k}", slice(None)) for k in range(made.ndim))
            made[written] = self.combiner.ufunc(made[written], x[elements])
        if len(args) > 1:
            made = self.combiner.ufunc(made, args[1].astype(wide.numpy))
        return (np.asarray(made).astype(dtype.numpy),)

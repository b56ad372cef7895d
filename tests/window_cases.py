"""Random convolutions and poolings as payloads, with what NumPy computes for them tap by tap."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
NUMPY = {
    "ui8": np.uint8,
    "si64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "si32": np.int32,
    "si8": np.int8,
}


EPILOGUES = {
    "": "",
    "neg": "  %r = tcp.neg(%y) : {y}\n",
    "residual": "  %r = tcp.add(%y, %e) : {y}\n",
    "bias": "  %v = tcp.broadcast(%e) {{dims = [{at}]}} : {y}\n  %s = tcp.add(%y, %v) : {y}\n"
    "  %r = tcp.max(%s, %v) : {y}\n",
}
"""What follows a result %y."""


@dataclass(frozen=True, slots=True)
class WindowCase:
    """Windows over the `kernel`'s dims: `kind` is conv, or that of a pooling. `order` is that of the dims [b, c, ..] of
    the input in memory, `weights` that of [f, c, ..], `results` that of the result. With `is_ceil`, a last window may
    lie in part beyond the padding; `epilogue` is one of EPILOGUES."""

    kind: str
    dtypes: tuple[str, str]
    extents: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    channels: tuple[int, int, int]
    """Groups, channels of the input and features of each."""
    order: tuple[int, ...]
    weights: tuple[int, ...]
    results: tuple[int, ...]
    is_depthwise: bool = False
    is_symbolic: bool = False
    has_init: bool = False
    epilogue: str = ""
    is_ceil: bool = False
    is_stored: bool = False
    has_indices: bool = False
    seed: int = 0
    names: str = field(default="")

    @property
    def out(self) -> tuple[int, ...]:
        """How many windows there are along each dim."""
        numbers = zip(self.extents, self.kernel, self.strides, self.dilations, self.low, self.ends, strict=True)
        return tuple((n + lo + hi - (k - 1) * d - 1) // s + 1 for n, k, s, d, lo, hi in numbers)

    @property
    def ends(self) -> tuple[int, ...]:
        """How far windows reach beyond each dim."""
        return tuple(self._end(k, n) for k, n in enumerate(self.extents))

    def _end(self, dim: int, extent: int) -> int:
        reach, stride = (self.kernel[dim] - 1) * self.dilations[dim] + 1, self.strides[dim]
        given, high = extent + self.low[dim], self.high[dim]
        last = min(-((reach - given - high) // stride), -(-given // stride) - 1)
        return max(0, last * stride + reach - given) if self.is_ceil else high

    def _end_text(self, dim: int) -> int | str:
        """The same of a symbol."""
        if not self.is_ceil or not self.is_symbolic:
            return self.ends[dim]
        reach, stride = (self.kernel[dim] - 1) * self.dilations[dim] + 1, self.strides[dim]
        given, high = f"S{dim} + {self.low[dim]}", self.high[dim]
        last = f"min(ceildiv({given} + {high - reach}, {stride}), ceildiv({given}, {stride}) - 1)"
        return f"max(0, {stride}*{last} + {reach - self.low[dim]} - S{dim})"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of input, filter and result, as [b, c, ..], [f, c, ..] and [b, f, ..]."""
        groups, inner, features = self.channels
        own = (groups, *self.kernel) if self.is_depthwise else (groups * features, inner, *self.kernel)
        kept = groups * (inner if self.kind != "conv" else features)
        return (2, groups * inner, *self.extents), own, (2, kept, *self.out)

    @property
    def text(self) -> str:
        """The payload. The symbols are B and those of the dims of the input, S0, S1, .."""
        x, w, y = (
            _type(shape, order, dtype)
            for shape, order, dtype in zip(
                self._symbolic(),
                (self.order, self.weights, self.results),
                (*self.dtypes[:1] * 2, self.dtypes[1]),
                strict=True,
            )
        )
        given, before, operands = [f"%x: {x}"], "", ["%x"]
        if self.kind == "conv":
            operands.append("%w")
            given += [] if self.is_stored else [f"%w: {w}"]
            before = f'  %w = tcp.const {{constant = "w"}} : {w}\n' if self.is_stored else ""
        if self.has_init:
            given.append(f"%z: {y}")
            operands.append("init = %z")
        given += {"bias": [f"%e: tensor<{self.shapes[2][1]}x{self.dtypes[1]}>"], "residual": [f"%e: {y}"]}.get(
            self.epilogue, []
        )
        held = {key: json.dumps(value) for key, value in self._attributes().items() if value}
        if "high" in held:
            held["high"] = held["high"].replace('"', "")  # sizes have no quotes
        attributes = ", ".join(f"{key} = {value}" for key, value in held.items())
        opcode = "tcp.convolution" if self.kind == "conv" else "tcp.pooling"
        index = f", {_type(tuple(self._symbolic())[2], self.results, 'si64')}" if self.has_indices else ""
        opcode, made, more = (f"{opcode}_argmax", "%y, %i", ", %i") if index else (opcode, "%y", "")
        end = EPILOGUES[self.epilogue].format(y=y, at=self.results.index(1))
        end = f"{end}  tcp.return({'%r' if self.epilogue else '%y'}{more})"
        symbols = (
            f" symbols [B, {', '.join(f'S{k}: {n}..' for k, n in enumerate(self.extents))}]" if self.is_symbolic else ""
        )
        return (
            f"func @f({', '.join(given)}) -> {f'({y}{index})' if index else y}{symbols} {{\n{before}  {made} = "
            f"{opcode}({', '.join(operands)}){f' {{{attributes}}}' if attributes else ''} : {y}{index}\n{end}\n}}\n"
        )

    def _symbolic(self) -> Iterator[tuple[object, ...]]:
        """The shapes, with symbols where it has any."""
        x, w, y = self.shapes
        if not self.is_symbolic:
            yield from (x, w, y)
            return
        sizes = [f"[S{k}]" for k in range(len(self.extents))]
        numbers = zip(sizes, self.kernel, self.strides, self.dilations, self.low, strict=True)
        counts = [
            f"[floordiv({n[1:-1]} + {self._end_text(at)} + {lo - (k - 1) * d - 1}, {s}) + 1]"
            for at, (n, k, s, d, lo) in enumerate(numbers)
        ]
        yield from (("[B]", x[1], *sizes), w, ("[B]", y[1], *counts))

    def _attributes(self) -> dict[str, object]:
        held: dict[str, object] = {}
        rank = len(self.kernel)
        if self.kind != "conv":
            held["kind"] = self.kind if self.kind != "max" else ""
            held["window"] = list(self.kernel)
            places = [self.order.index(2 + k) for k in range(rank)]
            held["dims"] = places if places != list(range(2, 2 + rank)) else []
        elif self.is_depthwise or any(o != tuple(sorted(o)) for o in (self.order, self.weights, self.results)):
            read = ["b", "c", *(f"o{k}+k{k}" for k in range(rank))]
            own = [
                "c" if self.is_depthwise else "f",
                *([] if self.is_depthwise else ["c"]),
                *(f"k{k}" for k in range(rank)),
            ]
            out = ["b", own[0], *(f"o{k}" for k in range(rank))]
            pairs = (("input", read, self.order), ("filter", own, self.weights), ("out", out, self.results))
            held |= {key: [names[k] for k in order] for key, names, order in pairs}
        if self.kind == "conv" and self.channels[0] != 1 and not self.is_depthwise:
            held["groups"] = self.channels[0]
        by_place = [k - 2 for k in self.order if k > 1]
        for key, numbers, number in (
            ("strides", self.strides, 1),
            ("dilations", self.dilations, 1),
            ("low", self.low, 0),
            ("high", tuple(map(self._end_text, range(rank))), 0),
        ):
            chosen = [numbers[k] for k in by_place] if self.kind == "conv" else list(numbers)
            held[key] = chosen if chosen != [number] * rank else []
        return held

    def calls(self) -> Iterator[WindowCase]:
        """The case, and, of symbolic sizes, that of larger ones."""
        yield self
        if self.is_symbolic:
            yield replace(self, extents=tuple(n + 1 + k for k, n in enumerate(self.extents)))

    @property
    def sizes(self) -> dict[str, int]:
        """Values of the symbols."""
        return {"B": 2, **{f"S{k}": n for k, n in enumerate(self.extents)}} if self.is_symbolic else {}

    def arguments(self) -> list[Array]:
        """Input, filter, init and what the epilogue reads, in their order in memory: whole numbers, of which all sums
        are exact. The filter is the same at all sizes."""
        x, w, y = self.shapes
        made = [(x, self.order, self.dtypes[0])]
        made += [(w, self.weights, self.dtypes[0])] if self.kind == "conv" else []
        made += [(y, self.results, self.dtypes[1])] if self.has_init else []
        made += [(y, self.results, self.dtypes[1])] if self.epilogue == "residual" else []
        made += [((y[1],), (0,), self.dtypes[1])] if self.epilogue == "bias" else []
        return [
            np.ascontiguousarray(
                np.random.default_rng((self.seed, at)).integers(-3, 4, shape).astype(NUMPY[dtype]).transpose(order)
            )
            for at, (shape, order, dtype) in enumerate(made)
        ]

    def expected(self, arguments: Sequence[Array]) -> Array:
        """What is computed of these, tap by tap."""
        dtype = NUMPY[self.dtypes[1]]
        x = np.transpose(arguments[0], np.argsort(self.order)).astype(dtype)
        y = self.shapes[2]
        start = {"max": -np.inf, "min": np.inf}.get(self.kind, 0)
        if not np.issubdtype(dtype, np.floating) and self.kind in ("max", "min"):
            limits = np.iinfo(dtype)
            start = limits.min if self.kind == "max" else limits.max
        total = np.full(y, start).astype(dtype)
        count = np.zeros_like(total)
        w = np.transpose(arguments[1], np.argsort(self.weights)).astype(dtype) if self.kind == "conv" else None
        x = x * x if self.kind == "lp" else x
        for tap in product(*map(range, self.kernel)):
            written, read = self._tap(tap)
            part = x[(slice(None), slice(None), *read)]
            at = (slice(None), slice(None), *written)
            if self.kind == "conv":
                total[at] += self._products(part, w[(..., *tap)] if w is not None else part)
            else:
                total[at] = {"max": np.maximum, "min": np.minimum}.get(self.kind, np.add)(total[at], part)
            count[at] += 1
        if self.kind == "average":
            with np.errstate(invalid="ignore"):  # a window without elements has no average
                total = total / count
        elif self.kind == "lp":
            total = np.sqrt(total)
        total = np.transpose(total, self.results)
        if self.has_init:
            join = {"conv": np.add, "sum": np.add, "max": np.maximum, "min": np.minimum}[self.kind]
            total = join(total, arguments[2 if self.kind == "conv" else 1])
        return self._followed(total, arguments[-1])

    def _followed(self, total: Array, last: Array) -> Array:
        """What the epilogue makes of the result."""
        if self.epilogue == "bias":
            channels = last.reshape([-1 if k == 1 else 1 for k in self.results])
            return np.maximum(total + channels, channels)
        return {"": total, "neg": -total}[self.epilogue] if self.epilogue != "residual" else total + last

    def indices(self, arguments: Sequence[Array]) -> Array:
        """The index of the first greatest element of each window, along the dims of windows."""
        x = np.transpose(arguments[0], np.argsort(self.order))
        places = np.broadcast_to(np.arange(np.prod(self.extents)).reshape(self.extents), x.shape)
        most, first = np.zeros(self.shapes[2], x.dtype), np.full(self.shapes[2], -1)
        for tap in product(*map(range, self.kernel)):
            written, read = self._tap(tap)
            at, part = (slice(None), slice(None), *written), (slice(None), slice(None), *read)
            goes_first = (first[at] < 0) | (x[part] > most[at])
            most[at], first[at] = np.where(goes_first, (x[part], places[part]), (most[at], first[at]))
        return np.transpose(np.where(first < 0, np.iinfo(np.int64).max, first), self.results)

    def _tap(self, tap: Sequence[int]) -> tuple[list[slice], list[slice]]:
        """The windows that have a tap, and the elements that it is."""
        written, read = [], []
        numbers = zip(tap, self.extents, self.strides, self.dilations, self.low, self.out, strict=True)
        for t, extent, stride, dilation, low, count in numbers:
            inside = [o for o in range(count) if 0 <= o * stride + t * dilation - low < extent]
            first, size = (inside[0], len(inside)) if inside else (0, 0)
            begin = first * stride + t * dilation - low if inside else 0
            written.append(slice(first, first + size))
            read.append(slice(begin, begin + size * stride, stride))
        return written, read

    def _products(self, part: Array, w: Array) -> Array:
        groups, inner, features = self.channels
        if self.is_depthwise:
            return np.einsum("bc...,c->bc...", part, w)
        split = part.reshape(part.shape[0], groups, inner, *part.shape[2:])
        made = np.einsum("bgc...,gfc->bgf...", split, w.reshape(groups, features, inner))
        return made.reshape(part.shape[0], groups * features, *part.shape[2:])


def _type(shape: Sequence[object], order: Sequence[int], dtype: str) -> str:
    return f"tensor<{'x'.join([*(str(shape[k]) for k in order), dtype])}>"


def drawn(seed: int, simple: bool = False) -> WindowCase:
    """A case; of a `simple` one, no dims are in another order than the usual one."""
    draw = random.Random(seed)
    kind = draw.choice(("conv",) * 5 + ("max", "sum", "min", "average", "lp"))
    rank = draw.choice((1, 2, 2, 2, 3))

    def numbers(*among: int) -> tuple[int, ...]:
        return tuple(draw.choice(among) for _ in range(rank))

    kernel, dilations = numbers(1, 2, 3, 3, 5) if rank < 3 else numbers(1, 2, 3), numbers(1, 1, 1, 2)
    low, high = (numbers(0, 0, 1, 2) if draw.random() < 0.7 else (0,) * rank for _ in range(2))
    low, high = ([min(p, (k - 1) * d) for p, k, d in zip(side, kernel, dilations, strict=True)] for side in (low, high))
    least = [max(1, (k - 1) * d + 1 - lo - hi) for k, d, lo, hi in zip(kernel, dilations, low, high, strict=True)]
    is_last = draw.random() < 0.5 and not simple
    depthwise = kind == "conv" and draw.random() < 0.25
    groups = draw.choice((3, 8, 17)) if depthwise else draw.choice((1, 1, 1, 2, 3))
    inner = 1 if depthwise else draw.choice((1, 2, 4, 7))
    count, spatial = 2 + rank, range(2, 2 + rank)
    order = (0, *spatial, 1) if is_last else tuple(range(count))
    weights = tuple(range(count - depthwise))
    if is_last and kind == "conv":
        weights = (*range(1, 1 + rank), 0) if depthwise else (*spatial, 1, 0)
    results = order
    if kind == "conv" and draw.random() < 0.2 and not simple:
        results = tuple(draw.sample(range(count), count))
    dtypes = draw.choice((("f32", "f32"),) * 4 + (("f64", "f64"), ("si32", "si32"), ("si8", "si32"), ("f16", "f32")))
    if kind in ("average", "lp") and dtypes[1] == "si32":
        dtypes = ("f32", "f32")
    case = WindowCase(
        kind,
        dtypes if dtypes[0] == dtypes[1] or kind not in ("max", "min") else (dtypes[1], dtypes[1]),
        tuple(n + draw.choice((0, 1, 4, 7) if rank < 3 else (0, 2, 4)) for n in least),
        kernel,
        numbers(1, 1, 2, 3),
        dilations,
        tuple(low),
        tuple(high),
        (groups, inner, 1 if depthwise else draw.choice((1, 3, 5, 16))),
        order,
        weights,
        results,
        depthwise,
        draw.random() < 0.25,
        draw.random() < 0.2 and kind not in ("average", "lp"),
        "neg" if draw.random() < 0.4 else "",
        is_stored=kind == "conv" and draw.random() < 0.5,
        seed=seed,
    )
    case = replace(case, has_indices=kind == "max" and not case.has_init and draw.random() < 0.7)
    epilogue = draw.choice(("neg", "bias", "residual")) if case.epilogue else ""
    return replace(case, epilogue=epilogue, is_ceil=draw.random() < 0.5)

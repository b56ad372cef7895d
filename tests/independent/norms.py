"""Drawers of norms: of equal parts of dims, or of a tensor that is reshaped for them and reshaped back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.independent import numbers
from tests.independent.builder import Builder
from tests.independent.dims import Dim, Env
from tests.independent.numbers import WIDE, Num
from tests.independent.program import Compute, Value


def layer_norm(b: Builder, source: Value | None = None) -> Value:
    """Along some dims, which mostly have parts where their extents have divisors."""
    v = source if source is not None and source.shape and numbers.is_float(source.dtype) else None
    v = v or b.pick(lambda v: bool(v.shape) and numbers.is_float(v.dtype))
    axes = sorted(b.rng.sample(range(len(v.shape)), b.rng.randint(1, len(v.shape))))
    parts = [1] * len(v.shape)
    for k in axes:
        if v.shape[k].is_static and b.rng.random() < 0.7:
            parts[k] = b.rng.choice([n for n in range(1, 9) if v.shape[k].value({}) % n == 0])
    attributes = f"dims = {axes}" + (f", parts = {parts}" if max(parts) > 1 else "")
    return b.op("layer_norm", [v], v.shape, v.dtype, lambda env, nums: [normalized(nums[0], axes, parts)],
                attributes=attributes, roles=["operand"], family="norm")  # fmt: skip


def groups(b: Builder) -> Value:
    """A norm of groups of channels as exporters write it: channels of a group and places are one dim meanwhile."""
    count, each, places = b.rng.choice([1, 2, 3, 4, 8]), b.rng.choice([1, 2, 3, 4, 5]), b.rng.choice([1, 6, 7, 12, 16])
    batch = next((d for d in b.pool if not d.is_static), Dim.static(b.rng.choice([1, 2, 3])))
    x = b.argument((batch, Dim.static(count * each), Dim.static(places)), b.float_dtype())
    rows = _reshaped(b, x, (batch, Dim.static(count), Dim.static(each * places)))
    normed = b.op("layer_norm", [rows], rows.shape, x.dtype, lambda env, nums: [normalized(nums[0], [2], [1, 1, 1])],
                  attributes="dims = [2]", roles=["operand"], family="norm")  # fmt: skip
    return _reshaped(b, normed, x.shape)


def _reshaped(b: Builder, v: Value, shape: tuple[Dim, ...]) -> Value:
    def compute(env: Env, nums: list[Num]) -> list[Num]:
        extents = [d.value(env) for d in shape]
        return [Num(v.dtype, nums[0].value.reshape(extents), nums[0].error.reshape(extents))]

    made: Compute = compute
    return b.op("reshape", [v], shape, v.dtype, made, roles=["operand"])


def normalized(a: Num, axes: Sequence[int], parts: Sequence[int]) -> Num:
    """`tcp.layer_norm`: each part less its mean, over the root of its variance and 1e-5; f16 and bf16 in f32."""
    if not a.value.size:
        return a
    split, along = list[int](), list[int]()
    for k, (extent, count) in enumerate(zip(a.shape, parts, strict=True)):
        split += [count, extent // count]
        along += [len(split) - 1] if k in axes else []
    whole = numbers.cast(a, "f32") if a.dtype in {"f16", "bf16"} else a
    x = Num(whole.dtype, whole.value.reshape(split), whole.error.reshape(split))
    centred = numbers.sub(x, _mean(x, tuple(along)))
    squares = _mean(numbers.mul(centred, centred), tuple(along))
    wide = numbers.add(squares, _inexact(x.dtype, 1e-5))
    root = numbers.interval(wide, lambda v: 1 / np.sqrt(np.maximum(v, 0)), x.dtype)
    root = numbers.rounded(x.dtype, root.value, root.error, root.error < 0, 4)  # a root and a quotient, or an estimate
    made = numbers.mul(centred, root)
    return numbers.cast(Num(x.dtype, made.value.reshape(a.shape), made.error.reshape(a.shape)), a.dtype)


def _mean(x: Num, along: tuple[int, ...]) -> Num:
    """The mean along dims, which are kept with one index: their sum times the number of elements inverted."""
    total = numbers.reduce(x, along, "add")
    count = int(np.prod([x.shape[k] for k in along], dtype=np.int64))
    made = numbers.mul(total, _inexact(x.dtype, 1 / count))
    return Num(x.dtype, np.expand_dims(made.value, along), np.expand_dims(made.error, along))


def _inexact(dtype: str, number: float) -> Num:
    """A constant that is rounded to the dtype."""
    return Num(dtype, np.asarray(number, WIDE), np.asarray(2 * numbers.UNIT[dtype] * number))

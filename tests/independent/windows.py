"""The drawer of convolutions, and how far their sums may be off if they are computed by fewer multiplications."""

from __future__ import annotations

import json

import numpy as np

from tests.independent import movement, numbers
from tests.independent.builder import MOST_ITERATIONS, Builder
from tests.independent.dims import Dim, Env
from tests.independent.numbers import Num
from tests.independent.program import Index, Value, contraction, gathered, grids

MOST_ERROR = {2: 8, 4: 96, 6: 192}
"""The errors that the page of `winograd` states by `m`, of up to 3 taps, in roundings of the largest sum of |x||w|."""


def convolution(b: Builder) -> Value:
    """Sums over windows of one or two dims and over channels, with the dims of all tensors in any order."""
    pairs = b.rng.choice([{"h": "p"}, {"h": "p", "w": "q"}, {"h": "p", "w": "q"}])
    extents = {place: b.dim() for place in pairs} | {"f": Dim.static(b.rng.choice([1, 2, 3, 4, 5, 8, 17]))}
    extents |= {tap: Dim.static(b.rng.choice([3, 3, 3, 2, 1])) for tap in pairs.values()}
    extents["c"] = Dim.static(b.rng.choice([1, 2, 3, 4, 5, 8, 17]))
    while b.size(list(extents.values())) > MOST_ITERATIONS // 2:
        widest = max([*pairs, "f", "c"], key=lambda n: b.size([extents[n]]))
        extents[widest] = Dim.static(b.rng.choice([1, 2, 3, 5]))
    dtype = b.float_dtype()
    result = "f32" if dtype in {"f16", "bf16"} and b.rng.random() < 0.7 else dtype
    read, own, out = (b.rng.sample(n, len(n)) for n in ([*pairs, "c"], [*pairs.values(), "c", "f"], [*pairs, "f"]))
    shape = tuple(_windows(extents[n], extents[pairs[n]]) if n in pairs else extents[n] for n in read)
    x = b.argument(shape, dtype)
    if b.rng.random() < 0.25:
        x = movement.elementwise(b, "add", [x, b.argument(shape, dtype)], dtype)
    w = b.argument(tuple(extents[n] for n in own), dtype)
    dims = [(n, d, "parallel" if n in out else "reduction") for n, d in extents.items()]

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        known = {n: d.value(env) for n, d in extents.items()}
        inner = [n for n in known if n != "f"]
        grid = grids({n: known[n] for n in inner})
        indices: list[Index] = [(lambda g, n=n: g[n] + g[pairs[n]] if n in pairs else g[n]) for n in read]
        elements = gathered(nums[0], indices, grid, tuple(known[n] for n in inner))
        maps = [inner, own, out]
        found = contraction(env, elements, nums[1], None, dims, maps, result)
        assert value.producer is not None
        if not value.producer.fewer or not found.value.size:
            return [found]
        sizes = [Num.exact("f64", num.size_of()) for num in (elements, nums[1])]
        most = contraction(env, sizes[0], sizes[1], None, dims, maps, "f64").value.max()
        return [filtered(found, value.producer.fewer, float(most))]

    lists = {"input": [f"{n}+{pairs[n]}" if n in pairs else n for n in read], "filter": own, "out": out}
    attributes = ", ".join(f"{key} = {json.dumps(names)}" for key, names in lists.items())
    value = b.op("convolution", [x, w], tuple(extents[n] for n in out), result, compute, attributes=attributes,
                 roles=["input", "filter"], dims=dims, family="windows")  # fmt: skip
    return value


def _windows(place: Dim, tap: Dim) -> Dim:
    """The extent that windows of so many taps read."""
    more = tap.value({}) - 1
    if place.is_static:
        return Dim.static(place.value({}) + more)
    return Dim(f"{place.text} + {more}", lambda env: place.value(env) + more) if more else place


def filtered(found: Num, m: int, most: float) -> Num:
    """Sums that `winograd` rounds otherwise: by its stated bound for finite elements, of the largest sum of |x||w|."""
    unit = numbers.UNIT["f64" if found.dtype == "f64" else "f32"]
    extra = MOST_ERROR[m] * unit * most + numbers.TINY["f32"]
    size = np.abs(found.value) + found.error + extra
    error = found.error + 2 * extra + numbers.UNIT[found.dtype] * size  # narrow results are rounded at the end
    is_known = np.isfinite(most) & (100 * most < numbers.largest("f32")) & (size < numbers.largest(found.dtype))
    return Num(found.dtype, found.value, np.asarray(np.where(is_known, error, np.inf), np.float64))

"""Random transposed convolutions beside NumPy tap by tap: as evaluated, compiled, and refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import VerifyError
from tests.window_cases import NUMPY, Array


def scattered(x: Array, w: Array, out: list[int], numbers: list[tuple[int, int, int]], groups: int) -> Array:
    """Of [b, c, ..] and [c, f, ..]: each tap adds products where it reaches; `numbers` are stride, dilation, low."""
    made, wide = np.zeros((x.shape[0], groups, w.shape[1], *out), x.dtype), (groups, w.shape[0] // groups)
    x, w = x.reshape(x.shape[0], *wide, *x.shape[2:]), w.reshape(*wide, *w.shape[1:])
    for tap in product(*map(range, w.shape[3:])):
        products = np.einsum("bgc...,gcf->bgf...", x, w[(..., *tap)])
        for at in np.ndindex(*x.shape[3:]):
            place = [s * o + d * p - low for o, p, (s, d, low) in zip(at, tap, numbers, strict=True)]
            if all(0 <= n < extent for n, extent in zip(place, out, strict=True)):
                made[(slice(None),) * 3 + tuple(place)] += products[(..., *at)]
    return made.reshape(x.shape[0], -1, *out)


def drawn(seed: int) -> tuple[tcpx.Module, list[Array], Array]:
    """A payload, its arguments and its result: whole numbers, of which all sums are exact."""
    draw, arrays = random.Random(seed), np.random.default_rng(seed)
    rank = draw.choice((1, 2, 2, 3))
    extents, taps, strides, dilations, low, high = (
        [draw.choice(among) for _ in range(rank)]
        for among in ((1, 2, 5, 6), (1, 2, 3, 4), (1, 2, 2, 3), (1, 1, 2, 3), (0, 0, 1, 2), (0, 0, 1))
    )
    more = [draw.randrange(s) for s in strides]
    rows = zip(extents, taps, strides, dilations, low, high, strict=True)
    least = [(n - 1) * s + (k - 1) * d + 1 - a - b for n, k, s, d, a, b in rows]
    low, high = ([0 if n < 1 else p for n, p in zip(least, side, strict=True)] for side in (low, high))
    rows = zip(extents, taps, strides, dilations, low, high, strict=True)
    out = [(n - 1) * s + (k - 1) * d + 1 - a - b + m for (n, k, s, d, a, b), m in zip(rows, more, strict=True)]
    groups, c, f = draw.choice((1, 1, 2, 3)), draw.choice((1, 2, 5)), draw.choice((1, 2, 4))
    dtype = draw.choice(("f32", "f32", "f64", "si32", "f16"))
    x, w = (
        arrays.integers(-3, 4, shape).astype(NUMPY[dtype])
        for shape in ((2, groups * c, *extents), (groups * c, f, *taps))
    )
    y = scattered(x, w, out, list(zip(strides, dilations, low, strict=True)), groups)
    attributes: dict[str, object] = {"strides": strides, "dilations": dilations, "low": low, "high": high}
    attributes |= {"groups": groups} if groups > 1 else {}
    is_symbolic, is_stored = draw.random() < 0.3, draw.random() < 0.5
    sizes = [f"[S{k}]" if is_symbolic else str(n) for k, n in enumerate(extents)]
    reached = [f"[{s}*S{k} + {n - s * m}]" for k, (s, n, m) in enumerate(zip(strides, out, extents, strict=True))]
    results = reached if is_symbolic else [*map(str, out)]
    shapes = ["2", str(x.shape[1]), *sizes], [*map(str, w.shape)], ["2", str(y.shape[1]), *results]
    if draw.random() < 0.4:
        places, names = [f"o{k}" for k in range(rank)], [f"k{k}" for k in range(rank)]
        windows = [f"{o}+{k}" for o, k in zip(places, names, strict=True)]
        attributes |= {"input": ["b", *places, "c"], "filter": [*names, "f", "c"], "out": ["b", *windows, "f"]}
        orders = (0, *range(2, 2 + rank), 1), (*range(2, 2 + rank), 1, 0), (0, *range(2, 2 + rank), 1)
        x, w, y = (np.ascontiguousarray(a.transpose(order)) for a, order in zip((x, w, y), orders, strict=True))
        shapes = tuple([shape[k] for k in order] for shape, order in zip(shapes, orders, strict=True))
    types = [f"tensor<{'x'.join(shape)}x{dtype}>" for shape in shapes]
    symbols = f" symbols [{', '.join(f'S{k}: {n}..' for k, n in enumerate(extents))}]" if is_symbolic else ""
    held = ", ".join(f"{key} = {json.dumps(value)}" for key, value in attributes.items())
    source = (
        f"func @f(%x: {types[0]}{'' if is_stored else f', %w: {types[1]}'}) -> {types[2]}{symbols} {{\n"
        + (f'  %w = tcp.const {{constant = "w"}} : {types[1]}\n' if is_stored else "")
        + f"  %y = tcp.convolution_transpose(%x, %w) {{{held}}} : {types[2]}\n  tcp.return(%y)\n}}\n"
    )
    stored = Constants({"w": w} if is_stored else {})
    module = tcpx.parse(source, constants=stored)
    assert tcpx.parse(module.text(), constants=stored).text() == module.text()
    return module, [x] if is_stored else [x, w], y


def check(seeds: Iterable[int], target: str) -> None:
    cases = [drawn(seed) for seed in seeds]
    kernels = tcpx.compile_many([tcpx.CompileRequest(module) for module, _, _ in cases], target=target)
    for (module, given, wanted), kernel in zip(cases, kernels, strict=True):
        np.testing.assert_array_equal(kernel(*given), wanted, err_msg=module.text())


def test_values() -> None:
    """Of any rank, order of dims, stride, dilation, padding, groups and dtype; printed and parsed again."""
    for seed in range(60):
        module, given, wanted = drawn(seed)
        np.testing.assert_array_equal(tcpx.evaluate(module, *given), wanted, err_msg=module.text())


def test_compiled() -> None:
    check(range(100, 110), "x86_avx2")


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("target", ["x86_avx2", "native"])
def test_more_compiled(target: str) -> None:
    for first in range(200, 700, 10):
        check(range(first, first + 10), target)


SOURCE = """\
func @f(%x: tensor<1x4x5xf32>, %w: tensor<4x2x3xf32>) -> tensor<1xFEATURESxEXTENTxf32> {
  %y = tcp.convolution_transpose(%x, %w) {ATTRIBUTES} : tensor<1xFEATURESxEXTENTxf32>
  tcp.return(%y)
}
"""
REFUSED = {
    "too long": ("strides = [2]", "2", "13", "dim 2 of the result is not as long as taps reach", "11 to 12", "13"),
    "too short": ("low = [1]", "2", "5", "dim 2 of the result is not as long as taps reach", "6 to 6", "5"),
    "groups": ("groups = 2", "2", "7", "each group has as many channels of the input", "", "2 and 4"),
    "strides": ("strides = [1, 1]", "2", "7", "`strides` has a number for each dim", "1 number, 1 or more", "[1, 1]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    attributes, features, extent, message, required, found = REFUSED[name]
    source = SOURCE.replace("ATTRIBUTES", attributes).replace("FEATURES", features).replace("EXTENT", extent)
    with pytest.raises(VerifyError) as caught:
        tcpx.parse(source)
    diagnostic = caught.value.diagnostic
    assert diagnostic.message.startswith("%y (tcp.convolution_transpose): " + message)
    assert required in (diagnostic.required, "")
    assert diagnostic.found == found

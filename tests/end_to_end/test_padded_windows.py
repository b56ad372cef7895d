"""Padded convolutions with constant weights, without a schedule: taps in the padding are left out."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tcpx
from tcpx.target import Target

PER_CHUNK = 4


def convolution(draw: random.Random) -> tuple[tcpx.Module, tuple[int, ...]]:
    """A payload of one to three dims with windows, channels innermost, and the shape of its argument."""
    rank = draw.choice((1, 2, 2, 2, 3))
    kernel = [draw.choice((1, 2, 3, 3, 5, 7)) for _ in range(rank)]
    strides, dilations = ([draw.choice((1, 1, 2, 3)) for _ in range(rank)] for _ in range(2))
    low, high = ([draw.randint(0, 1 + (k - 1) * d) for k, d in zip(kernel, dilations, strict=True)] for _ in range(2))
    reached = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    most = 40 if rank < 3 else 9
    extents = [max(1, n - a - b) + draw.randint(0, most) for n, a, b in zip(reached, low, high, strict=True)]
    c, f = draw.choice((1, 3, 4, 9, 16, 20)), draw.choice((1, 7, 16, 24, 33, 40))
    depthwise = draw.random() < 0.3
    out = [(n + a + b - r) // s + 1 for n, a, b, r, s in zip(extents, low, high, reached, strides, strict=True)]
    places, taps = [f"o{k}" for k in range(rank)], [f"k{k}" for k in range(rank)]
    read = [f'"{o}+{k}"' for o, k in zip(places, taps, strict=True)]

    def listed(*names: str) -> str:
        return "[" + ", ".join(name if name.startswith('"') else f'"{name}"' for name in names) + "]"

    last = "c" if depthwise else "f"
    shape = [c, *kernel] if depthwise else [f, c, *kernel]
    weights = np.random.default_rng(draw.randint(0, 99)).uniform(-1, 1, shape).astype(np.float32)
    images = "[N]" if draw.random() < 0.3 else "2"
    symbols = " symbols [N]" if images == "[N]" else ""
    x, w, y = ("x".join(map(str, dims)) for dims in ([*extents, c], shape, [*out, c if depthwise else f]))
    text = (
        f"func @f(%x: tensor<{images}x{x}xf32>) -> tensor<{images}x{y}xf32>{symbols} {{\n"
        f'  %w = tcp.const {{constant = "w"}} : tensor<{w}xf32>\n'
        f"  %y = tcp.convolution(%x, %w) {{input = {listed('n', *read, 'c')}, "
        f"filter = {listed(*(('c',) if depthwise else ('f', 'c')), *taps)}, out = {listed('n', *places, last)}, "
        f"strides = {strides}, dilations = {dilations}, low = {low}, high = {high}}} : tensor<{images}x{y}xf32>\n"
        f"  %r = tcp.relu(%y) : tensor<{images}x{y}xf32>\n  tcp.return(%r)\n}}\n"
    )
    return tcpx.parse(text, constants={"w": weights}), (2, *extents, c)


@pytest.mark.parametrize("chunk", range(4))
def test_as_evaluated(target: Target, chunk: int) -> None:
    draw = random.Random(chunk)
    cases = [convolution(draw) for _ in range(PER_CHUNK)]
    kernels = tcpx.compile_many([tcpx.CompileRequest(module) for module, _ in cases], target=target, threads=2)
    for (module, shape), kernel in zip(cases, kernels, strict=True):
        x = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
        found, wanted = kernel(x), tcpx.evaluate(module, x)
        assert isinstance(found, np.ndarray)
        assert isinstance(wanted, np.ndarray)
        np.testing.assert_allclose(
            found.astype(np.float32), wanted.astype(np.float32), rtol=1e-4, atol=1e-4, err_msg=module.text()
        )

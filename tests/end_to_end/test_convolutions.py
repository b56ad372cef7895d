"""Convolutions whose channels lie innermost, without a schedule: padded, with constant filters and an epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """`groups` is 0 where each channel has a filter of its own."""

    height: str
    width: int
    channels: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1

    def payload(self, filter_shape: str) -> str:
        s, k, p = self.stride, self.kernel, self.kernel // 2
        rows, columns = f"floordiv({self.height} + {2 * p - k}, {s}) + 1", (self.width + 2 * p - k) // s + 1
        symbols = " symbols [H: 1..100]" if "H" in self.height else ""
        high = f"[{self.height} + {2 * p}]x{self.width + 2 * p}"
        place = f"{s}*y + i, {s}*x + j"
        grouped = "g, " if self.groups > 1 else ""
        shapes = {0: f"x{self.channels}", 1: f"x{self.channels}"}
        read = shapes.get(self.groups, f"x{self.groups}x{self.channels // max(1, self.groups)}")
        out = f"x{self.filters}" if self.groups < 2 else f"x{self.groups}x{self.filters // self.groups}"
        maps = f"[[{place}, {grouped}c], [{grouped}f, c, i, j], [y, x, {grouped}f]]"
        if self.groups == 0:
            maps = f"[[{place}, c], [c, i, j], [y, x, c]]"
        names = ("yxc", "ij") if self.groups == 0 else ("yxgf" if self.groups > 1 else "yxf", "cij")
        kinds = zip(names, ("parallel", "reduction"), strict=True)
        iterators = ", ".join(f'["{name}", "{kind}"]' for listed, kind in kinds for name in listed)
        result = f"tensor<[{rows}]x{columns}{out}xf32>"
        rank = 4 if self.groups > 1 else 3
        low = ", ".join([str(p), str(p), *["0"] * (rank - 2)])
        return (
            f"func @f(%v: tensor<[{self.height}]x{self.width}{read}xf32>) -> {result}{symbols} {{\n"
            f'  %w = tcp.const {{constant = "w"}} : tensor<{filter_shape}xf32>\n'
            f"  %p = tcp.pad(%v) {{value = 0.0, low = [{low}]}} : tensor<{high}{read}xf32>\n"
            f"  %r = tcp.generic(%p, %w) {{iterators = [{iterators}], maps = {maps},\n"
            f'      combiner = "tcp.add"}} ({{ (%e: f32, %u: f32, %acc: f32):\n'
            f"    %s = tcp.multiply_add(%e, %u, %acc) : f32\n    tcp.yield(%s)\n  }}) : {result}\n"
            f"  %o = tcp.relu(%r) : {result}\n  tcp.return(%o)\n}}\n"
        )


LAYERS = [
    Layer("9", 14, 20, 40, 3),
    Layer("5", 33, 3, 24, 7, 2),
    Layer("H", 7, 16, 72, 3),
    Layer("8", 9, 12, 8, 3, 2, groups=4),
    Layer("11", 14, 24, 24, 3, groups=0),
    Layer("H", 13, 37, 37, 5, 2, groups=0),
    Layer("4", 1, 5, 6, 3),
]


@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: f"{layer.width}x{layer.channels}x{layer.filters}")
def test_numbers(layer: Layer, target: str) -> None:
    """Elements are small integers, so that sums are exact in any order."""
    require_cpu_of(load_target(target))
    random = np.random.default_rng(3)
    groups = [layer.groups] if layer.groups > 1 else []
    channels = [layer.filters // max(1, layer.groups), layer.channels // max(1, layer.groups)]
    shape = [*groups, *(channels if layer.groups else [layer.channels]), layer.kernel, layer.kernel]
    w = random.integers(-3, 4, shape).astype(np.float32)
    module = tcpx.parse(layer.payload("x".join(map(str, shape))), constants={"w": w})
    kernel = tcpx.compile(module, target=target, threads=2)
    assert not [remark for remark in kernel.remarks if not remark.factor], kernel.remarks
    for height in (1, 2, 17) if layer.height == "H" else (int(layer.height),):
        read = (height, layer.width, *groups, layer.channels // max(1, layer.groups))
        x = random.integers(-3, 4, read).astype(np.float32)
        np.testing.assert_array_equal(kernel(x), tcpx.evaluate(module, x))


@pytest.mark.parametrize(("groups", "most"), [(1, 14), (0, 14)])
def test_rows_of_padding_are_not_copied(groups: int, most: int) -> None:
    """Neither the padded operand nor the filter in its order of reading exists when the kernel runs."""
    layer = Layer("14", most, 32, 32, 3, groups=groups)
    shape = (32, 3, 3) if groups == 0 else (32, 32, 3, 3)
    module = tcpx.parse(layer.payload("x".join(map(str, shape))), constants={"w": np.ones(shape, np.float32)})
    source = tcpx.emit(module, target="x86_avx512").c_source
    assert "return (size_t)(0);" in source
    assert "_mm512_fmadd_ps" in source

"""Convolutions that a pooling alone reads: what it gives is stored, the sums stay in registers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

import tcpx
from tcpx.installed import LIBRARY
from tcpx.payload.constants import Constants
from tcpx.target import Target, load_target


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of 2 images, its activation, a pooling of `window` and `strides`, and, with `last`, a negation."""

    extents: tuple[int, ...]
    channels: tuple[int, int]
    kernel: int = 3
    padding: int = 1
    window: int = 2
    stride: int = 2
    pool_padding: int = 0
    kind: str = "max"
    dtype: str = "f32"
    last: bool = False
    is_read_twice: bool = False
    is_symbolic: bool = False

    @property
    def text(self) -> str:
        """The payload. The filter is stored. The extents may be symbols S0, S1, .."""
        rank, (c, f) = len(self.extents), self.channels
        names = [f"S{k}" if self.is_symbolic else str(n) for k, n in enumerate(self.extents)]
        grown = 2 * self.padding - self.kernel + 1
        sums = [f"{name} + {grown}" if self.is_symbolic else str(int(name) + grown) for name in names]
        reach = 2 * self.pool_padding - self.window
        pooled = [
            f"floordiv({n} + {reach}, {self.stride}) + 1"
            if self.is_symbolic
            else str((int(n) + reach) // self.stride + 1)
            for n in sums
        ]
        x, y, r = self._type(names, c), self._type(sums, f), self._type(pooled, f)
        places = [f'"o{k}"' for k in range(rank)]
        taps = [f'"k{k}"' for k in range(rank)]
        read = [f'"o{k}+k{k}"' for k in range(rank)]
        w = f"tensor<{f'{self.kernel}x' * rank}{c}x{f}x{self.dtype}>"
        padding = "".join(f", {side} = {[self.padding] * rank}" for side in ("low", "high") if self.padding)
        beyond = "".join(f", {side} = {[self.pool_padding] * rank}" for side in ("low", "high") if self.pool_padding)
        symbols = f" symbols [{', '.join(f'{name}: 4..' for name in names)}]" if self.is_symbolic else ""
        end, made = (f"  %e = tcp.neg(%q) : {r}\n", "%e") if self.last else ("", "%q")
        result, given = (f"({r}, {y})", f"{made}, %a") if self.is_read_twice else (r, made)
        return (
            f"func @f(%x: {x}) -> {result}{symbols} {{\n"
            f'  %w = tcp.const {{constant = "w"}} : {w}\n'
            f'  %y = tcp.convolution(%x, %w) {{input = ["n", {", ".join(read)}, "c"],\n'
            f'      filter = [{", ".join(taps)}, "c", "f"], out = ["n", {", ".join(places)}, "f"]{padding}}} : {y}\n'
            f"  %a = tcp.relu(%y) : {y}\n"
            f'  %q = tcp.pooling(%a) {{kind = "{self.kind}", window = {[self.window] * rank}, '
            f"strides = {[self.stride] * rank}, dims = {[*range(1, rank + 1)]}{beyond}}} : {r}\n"
            f"{end}  tcp.return({given})\n}}\n"
        )

    def _type(self, places: list[str], channels: int) -> str:
        sizes = "x".join(f"[{n}]" if self.is_symbolic else n for n in places)
        return f"tensor<2x{sizes}x{channels}x{self.dtype}>"

    @property
    def module(self) -> tcpx.Module:
        """The payload with its filter, whose elements are whole numbers: all sums are exact."""
        shape = (*[self.kernel] * len(self.extents), *self.channels)
        numbers = np.random.default_rng(5).integers(-3, 4, shape)
        kind = np.float64 if self.dtype == "f64" else np.float32
        return tcpx.parse(self.text, constants=Constants({"w": numbers.astype(kind)}))

    @property
    def inputs(self) -> np.ndarray:
        """An input of whole numbers, and of one NaN and two infinities."""
        sizes = {f"S{k}": n for k, n in enumerate(self.extents)} if self.is_symbolic else {}
        (x,) = tcpx.random_inputs(self.module, sizes=sizes)
        x = np.rint(np.multiply(x, 3)).astype(x.dtype)
        x.reshape(-1)[[5, x.size // 2, -7]] = np.nan, np.inf, -np.inf
        return x


SCHEDULE = """\
language 2
import "lib/convolutions.tcps" as convolutions

schedule s(root: func) {
  optional normalize(root)
  optional canonicalize(root, merge: false)
  for x in match some generic in root where it.is_a(convolutions.dense) {
    convolutions.in_windows(x, outermost(users(epilogue(x))))
  }
}
"""
LAYERS = [
    Layer((9, 13), (3, 16)),
    Layer((7, 33), (1, 37), last=True),
    Layer((11, 10), (4, 5), padding=0),
    Layer((10, 17), (2, 24), window=3, stride=3, kind="sum"),
    Layer((15, 4), (5, 33), kind="average", dtype="f64"),
    Layer((29,), (3, 16), kind="min", last=True),
    Layer((4, 5, 9), (2, 16)),
    Layer((12, 15), (3, 16), stride=3),
    Layer((9, 13), (3, 16), is_symbolic=True),
]


def test_numbers(target: Target) -> None:
    schedule = tcpx.parse_schedule(SCHEDULE)
    requests = [tcpx.CompileRequest(layer.module, schedule, name=f"f{k}") for k, layer in enumerate(LAYERS)]
    for layer, kernel in zip(LAYERS, tcpx.compile_many(requests, target=target, threads=2), strict=True):
        wanted = tcpx.evaluate(layer.module, layer.inputs)
        np.testing.assert_array_equal(kernel(layer.inputs), wanted, err_msg=layer.text)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Layer((9, 13), (3, 16), window=3), "windows share elements"),
        (Layer((9, 13), (3, 16), pool_padding=1), "windows share elements"),
        (Layer((16, 16), (3, 16), window=8, stride=8), "registers do not hold a window"),
    ],
    ids=str,
)
def test_what_cannot_be_computed_in_windows(layer: Layer, message: str) -> None:
    with pytest.raises(tcpx.ScheduleError, match=f"^error: {message}\n"):
        tcpx.apply_schedule(layer.module, tcpx.parse_schedule(SCHEDULE), target=load_target("x86_avx512"))


def recipe(layer: Layer, target: str, threads: int) -> str:
    """The sequence of the default schedule that computes the convolution."""
    schedule = tcpx.load_schedule(LIBRARY / "default.tcps")
    run = tcpx.apply_schedule(layer.module, schedule, target=load_target(target), threads=threads)
    return next(part for use in run.knobs for part in re.split("[/.]", use.path) if part in RECIPES)


RECIPES = ("pooled", "sums_of_channels")
LARGE = Layer((200, 200), (3, 32))


@pytest.mark.parametrize(
    ("layer", "target", "threads", "wanted"),
    [
        (LARGE, "x86_avx512", 1, "pooled"),
        (LARGE, "x86_avx512", 2, "pooled"),
        (replace(LARGE, window=3, stride=3, kind="average", last=True), "x86_avx512", 1, "pooled"),
        (LARGE, "x86_avx2", 1, "sums_of_channels"),  # too few registers
        (LARGE, "x86_avx512", 16, "sums_of_channels"),  # their second level caches hold the sums
        (replace(LARGE, channels=(64, 32)), "x86_avx512", 1, "sums_of_channels"),  # the filter leaves no room in L1
        (replace(LARGE, channels=(3, 8)), "x86_avx512", 1, "sums_of_channels"),  # half a vector
        (replace(LARGE, kernel=15, padding=7), "x86_avx512", 1, "sums_of_channels"),  # most of a row is near its ends
        (replace(LARGE, window=3), "x86_avx512", 1, "sums_of_channels"),
        (replace(LARGE, pool_padding=1, stride=4), "x86_avx512", 1, "sums_of_channels"),
        (replace(LARGE, is_read_twice=True), "x86_avx512", 1, "sums_of_channels"),
        (replace(LARGE, is_symbolic=True), "x86_avx512", 1, "sums_of_channels"),
    ],
    ids=str,
)
def test_the_default_takes_it_where_it_pays(layer: Layer, target: str, threads: int, wanted: str) -> None:
    assert recipe(layer, target, threads) == wanted

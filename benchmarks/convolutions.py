"""Layers of convolutional networks beside the oneDNN of PyTorch, interleaved: channels innermost, and oneDNN in its own
layout; or channels outermost, and oneDNN with the time that it takes to reorder them.

    python -m benchmarks.convolutions                              # the usual layers, default schedule
    python -m benchmarks.convolutions --all                        # and those of five networks
    python -m benchmarks.convolutions 3x3 depthwise --threads 2    # those with one of these words in their name
    python -m benchmarks.convolutions --target x86_avx2            # oneDNN is limited to AVX2, too
    python -m benchmarks.convolutions --nchw                       # channels outermost
    python -m benchmarks.convolutions 64@56 -s my.tcps             # with a schedule
    python -m benchmarks.convolutions "3x3 64" --winograd          # with the default schedule and numerics="winograd"

Each layer has padding, constant weights, a bias and a ReLU. oneDNN has its weights reordered once, before. What a call
of the smallest layer takes is subtracted from both sides. Times are the medians of the fastest fifth of all rounds, in
microseconds. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import exp, log
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tcpx

Array = npt.NDArray[np.float32]
ROUNDS: Final = 50
WINOGRAD: Final = "winograd"
"""In place of a schedule: the default one with these numerics."""
SAMPLE: Final = 2e-3
"""Seconds of calls in one sample, at least."""


@dataclass(frozen=True, slots=True)
class Layer:
    """`size` is the extent of both dims of the result, `groups` that of the channels: as many as there are if
    depthwise. With `is_nchw`, channels of x and of the result lie outermost."""

    kernel: int
    stride: int
    channels: int
    filters: int
    size: int
    groups: int = 1
    is_nchw: bool = False

    @property
    def name(self) -> str:
        kind = "depthwise " if self.groups == self.channels else "grouped " if self.groups > 1 else ""
        across = f"{self.channels}" if self.channels == self.filters else f"{self.channels}-{self.filters}"
        stride = f" s{self.stride}" if self.stride > 1 else ""
        return f"{kind}{self.kernel}x{self.kernel}{stride} {across}@{self.size}"

    @property
    def read(self) -> int:
        """The extent of both dims of x."""
        return self.size * self.stride

    @property
    def padding(self) -> int:
        return (self.kernel - 1) // 2

    @property
    def operations(self) -> int:
        return 2 * self.size**2 * self.filters * self.channels // self.groups * self.kernel**2

    @property
    def text(self) -> str:
        """The payload: x [1, h, w, c] and weights [f, c, k, k], as ONNX stores them."""
        s, k, c, f, o, g = self.stride, self.kernel, self.channels, self.filters, self.size, self.groups
        places = f"{s}*y + i", f"{s}*x + j"
        result, padded = self.tensor(o, f), self.tensor(self.padded, c)
        x, sums, before, after, end = self.order(places, "c"), self.order("yx", "f"), "", result, ""
        weights, shape, taps = "[f, c, i, j]", f"{f}x{c // g}x{k}x{k}", "cij"
        convert = "%p", "%r"
        if g == c == f:
            weights, sums, shape, taps = "[c, i, j]", self.order("yx", "c"), f"{c}x{k}x{k}", "ij"
        elif g > 1:
            x, weights, sums = self.order(places, "g", "c"), "[g, f, c, i, j]", self.order("yx", "g", "f")
            shape, convert, after = f"{g}x{f // g}x{c // g}x{k}x{k}", ("%q", "%t"), self.tensor(o, g, f // g)
            before = f"  %q = tcp.reshape(%p) : {self.tensor(self.padded, g, c // g)}\n"
            end = f"  %t = tcp.reshape(%r) : {result}\n"
        iterators = [[name, "parallel"] for name in sums.strip("[]").split(", ")] + [[d, "reduction"] for d in taps]
        listed = json.dumps(iterators)
        low = self.order((self.padding,) * 2, 0, first=0)
        return (
            f"func @convolution(%v: {self.tensor(self.read, c)}) -> {result} {{\n"
            f'  %w = tcp.const {{constant = "w"}} : tensor<{shape}xf32>\n'
            f'  %b = tcp.const {{constant = "b"}} : tensor<{f}xf32>\n'
            f"  %p = tcp.pad(%v) {{value = 0.0, low = {low}}} : {padded}\n"
            f"{before}"
            f"  %r = tcp.generic({convert[0]}, %w) {{iterators = {listed}, maps = [{x}, {weights}, {sums}],\n"
            f'      combiner = "tcp.add"}} ({{ (%e: f32, %u: f32, %acc: f32):\n'
            f"    %s = tcp.multiply_add(%e, %u, %acc) : f32\n    tcp.yield(%s)\n  }}) : {after}\n"
            f"{end}"
            f"  %z = tcp.add({convert[1]}, broadcast(%b, [{1 if self.is_nchw else 3}])) : {result}\n"
            f"  %o = tcp.relu(%z) : {result}\n  tcp.return(%o)\n}}\n"
        )

    def order(self, places: Sequence[object], *channels: object, first: object = "n") -> str:
        """What is said of each dim of an image, as a list."""
        return f"[{', '.join(map(str, (first, *(self.inner(places, channels)))))}]"

    def tensor(self, size: int, *channels: int) -> str:
        return f"tensor<1x{'x'.join(map(str, self.inner((size, size), channels)))}xf32>"

    def inner(self, places: Sequence[object], channels: Sequence[object]) -> Sequence[object]:
        return (*channels, *places) if self.is_nchw else (*places, *channels)

    @property
    def padded(self) -> int:
        return self.read + 2 * self.padding

    def weights(self) -> tuple[Array, Array]:
        draw = np.random.default_rng(1)
        shape = self.filters, self.channels // self.groups, self.kernel, self.kernel
        return draw.uniform(-1, 1, shape).astype(np.float32), draw.uniform(-1, 1, self.filters).astype(np.float32)

    def compiled(self, schedule: str | None, target: str, threads: int) -> tcpx.Kernel:
        w, b = self.weights()
        if self.groups == self.channels == self.filters:
            w = w[:, 0]
        elif self.groups > 1:
            w = w.reshape(self.groups, self.filters // self.groups, *w.shape[1:])
        module = tcpx.parse(self.text, constants={"w": np.ascontiguousarray(w), "b": b})
        numerics = WINOGRAD if schedule == WINOGRAD else "exact"
        program = tcpx.load_schedule(schedule) if schedule and schedule != WINOGRAD else None
        return tcpx.compile(module, program, target=target, threads=threads, numerics=numerics)


LAYERS: Final = [
    Layer(7, 2, 3, 64, 112),
    Layer(3, 1, 64, 64, 56),
    Layer(3, 1, 128, 128, 28),
    Layer(3, 1, 256, 256, 14),
    Layer(3, 1, 512, 512, 7),
    Layer(3, 2, 128, 128, 28),
    Layer(3, 2, 3, 32, 112),
    Layer(1, 1, 64, 256, 56),
    Layer(1, 2, 256, 512, 28),
    Layer(3, 1, 48, 48, 33),
    Layer(3, 1, 24, 40, 30),
    Layer(3, 1, 128, 128, 14, 32),
    Layer(3, 1, 144, 144, 56, 144),
    Layer(3, 1, 384, 384, 14, 384),
    Layer(3, 2, 96, 96, 56, 96),
    Layer(5, 2, 240, 240, 28, 240),
    Layer(5, 1, 672, 672, 14, 672),
    Layer(7, 1, 96, 96, 56, 96),
    Layer(7, 1, 768, 768, 7, 768),
]

OTHERS: Final = [
    *(Layer(1, 1, c, f, size) for c, f, size in ((64, 64, 56), (256, 64, 56), (512, 128, 28), (1024, 256, 14))),
    *(Layer(1, 1, c, f, size) for c, f, size in ((256, 1024, 14), (512, 2048, 7), (16, 96, 112), (24, 144, 56))),
    *(Layer(1, 1, c, f, size) for c, f, size in ((144, 24, 56), (192, 32, 28), (960, 160, 7), (1152, 192, 7))),
    *(Layer(1, 2, c, f, size) for c, f, size in ((512, 1024, 14), (1024, 2048, 7))),
    *(Layer(3, 1, c, f, size) for c, f, size in ((32, 32, 192), (96, 32, 192), (64, 128, 48), (128, 256, 24))),
    *(Layer(3, 2, c, f, size) for c, f, size in ((256, 256, 14), (512, 512, 7), (32, 64, 96))),
    Layer(4, 4, 3, 96, 56),
    *(Layer(3, stride, c, c, size, c) for c, stride, size in ((192, 1, 28), (576, 1, 14), (576, 2, 7), (960, 1, 7))),
    *(Layer(5, stride, c, c, size, c) for c, stride, size in ((144, 2, 28), (480, 1, 14), (1152, 1, 7))),
    *(Layer(7, 1, c, c, size, c) for c, size in ((192, 28), (384, 14))),
]
"""Other layers of ResNet, MobileNet, EfficientNet, U-Net and ConvNeXt."""


def one_dnn(layer: Layer, x: Array) -> list[Callable[[], Any]]:
    """Calls of oneDNN that give a tensor in the order of x. Its weights are in its own order; it then gives channels
    innermost, which are reordered, or takes weights as they are stored."""
    torch: Any = sys.modules["torch"]
    w, b = (torch.from_numpy(a) for a in layer.weights())
    v = torch.from_numpy(x)
    v = v if layer.is_nchw else v.permute(0, 3, 1, 2)
    where = [layer.padding] * 2, [layer.stride] * 2, [1, 1], layer.groups
    packed = torch._C._nn.mkldnn_reorder_conv2d_weight(w.to_mkldnn(), *where, v.shape)
    function = torch.ops.mkldnn._convolution_pointwise.default
    order = torch.contiguous_format if layer.is_nchw else torch.channels_last

    return [
        lambda weights=weights: function(v, weights, b, *where, "relu", [], "").contiguous(memory_format=order)
        for weights in ([packed, w] if layer.is_nchw else [packed])
    ]


def seconds(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def fast(samples: Sequence[float]) -> float:
    """The median of the fastest fifth: other programs disturb the rest."""
    return sorted(samples)[len(samples) // 10]


def interleaved(groups: Sequence[Sequence[Callable[[], Any]]], rounds: int = ROUNDS) -> list[list[float]]:
    """Seconds of a call of each. A round has a sample of every call of every group, one after another: what disturbs
    the machine for some seconds is in few samples of each."""
    calls = [call for group in groups for call in group]
    counts = [max(1, int(SAMPLE / min(seconds(call, 1) for _ in range(3)))) for call in calls]
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, count, samples in zip(calls, counts, found, strict=True):
            seconds(call, count)  # brings what it reads into the caches
            samples.append(seconds(call, count))
    times = iter(fast(samples) for samples in found)
    return [[next(times) for _ in group] for group in groups]


def calls_of(layer: Layer, options: argparse.Namespace, schedules: Sequence[str | None]) -> list[Callable[[], Any]]:
    """One for each schedule, then those of oneDNN. Raises ValueError if their results differ."""
    shape = [1, *layer.inner((layer.read, layer.read), (layer.channels,))]
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    peers, calls = one_dnn(layer, x), list[Callable[[], Any]]()
    wanted = peers[0]()
    wanted = np.ascontiguousarray((wanted if layer.is_nchw else wanted.permute(0, 2, 3, 1)).numpy())
    for schedule in schedules:
        kernel, out = layer.compiled(schedule, options.target, options.threads), np.empty_like(wanted)
        kernel(x, out=out)
        distance = np.max(np.abs(out - wanted)) / (layer.channels // layer.groups * layer.kernel**2)
        if not distance < 1e-5:
            raise ValueError(f"{layer.name}: the results differ by {distance}")
        calls.append(lambda kernel=kernel, x=x, out=out: kernel(x, out=out))
    return [*calls, *peers]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each layer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=str(__doc__).split("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of names of layers")
    parser.add_argument("--all", action="store_true", help="other layers of networks, too")
    parser.add_argument("--target", default="native")
    parser.add_argument("--nchw", action="store_true", help="channels of images lie outermost")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-s", "--schedule", action="append", help="beside the default schedule")
    parser.add_argument("--winograd", action="store_true", help='beside it, with numerics="winograd"')
    options = parser.parse_args(arguments)
    if "avx2" in options.target:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    torch: Any = import_module("torch")  # not a dependency
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    schedules = [None, *([WINOGRAD] if options.winograd else []), *(options.schedule or [])]
    layers = [
        replace(layer, is_nchw=options.nchw)
        for layer in [*LAYERS, *(OTHERS if options.all else [])]
        if not options.words or any(word in layer.name for word in options.words)
    ]
    groups = [calls_of(layer, options, schedules) for layer in layers]
    smallest = calls_of(Layer(3, 1, 16, 16, 1, is_nchw=options.nchw), options, [None])
    (called, *peers_called), *times = interleaved([smallest, *groups])
    print(
        f"{'layer':26}" + "".join(f"{s or 'default':>16.16}" for s in schedules) + "      oneDNN  oneDNN/tcpx  GFLOP/s"
    )
    ratios: list[float] = []
    for layer, taken in zip(layers, times, strict=True):
        ours = [time - called for time in taken[: len(schedules)]]
        peer = min(time - c for time, c in zip(taken[len(schedules) :], peers_called, strict=True))
        ratios.append(peer / min(ours))
        listed = "".join(f"{t * 1e6:16.1f}" for t in ours)
        rate = layer.operations / min(ours) * 1e-9
        print(f"{layer.name:26}{listed}{peer * 1e6:12.1f}{ratios[-1]:13.2f}{rate:9.1f}", flush=True)
    kinds = {"all": ratios}
    for layer, ratio in zip(layers, ratios, strict=True):
        kinds.setdefault("depthwise" if layer.groups == layer.channels else "others", []).append(ratio)
    for kind, of_kind in kinds.items():
        print(f"{kind}: geometric mean {exp(sum(map(log, of_kind)) / len(of_kind)):.3f}, least {min(of_kind):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

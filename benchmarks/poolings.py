"""Poolings, resizes and gates of channels beside PyTorch, its oneDNN and ONNX Runtime, interleaved.

    python -m benchmarks.poolings                              # all of them, default schedule, NHWC and NCHW
    python -m benchmarks.poolings max resize --threads 2       # those with one of these words in their name
    python -m benchmarks.poolings nhwc -s my.tcps              # with a schedule, too

All of them are ONNX models. Those in NHWC have a transpose at either end, as converters write them, but for resizes,
which name their axes. PyTorch computes them on tensors whose channels lie innermost, oneDNN poolings in its own layout.
What a call of the smallest model takes is subtracted from each time. Times are the medians of the fastest fifth of all
rounds, in microseconds. The bar is the fastest peer. Needs PyTorch, onnx and ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import exp, log
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tcpx
from benchmarks.convolutions import interleaved

Array = npt.NDArray[np.float32]
PEERS: Final = ("PyTorch", "oneDNN", "ORT")


@dataclass(frozen=True, slots=True)
class Layer:
    """`kind` names an entry of `NODES`. `window`, `stride` and `filters` mean something to some kinds only."""

    kind: str
    channels: int
    size: int
    """The extent of both dims of x that are not channels."""
    window: int = 0
    stride: int = 1
    filters: int = 0

    @property
    def name(self) -> str:
        window = f" {self.window}x{self.window}" if self.window else ""
        stride = f" s{self.stride}" if self.stride > 1 else ""
        filters = f"-{self.filters}" if self.filters else ""
        return f"{self.kind}{window}{stride} {self.channels}{filters}@{self.size}"

    @property
    def padding(self) -> int:
        return self.window // 2 if self.window % 2 else 0

    def weights(self) -> Mapping[str, Array]:
        """Of products over channels: w [filters, channels, 1, 1], and v back. For ONNX, scales of a resize."""
        draw, c, f = np.random.default_rng(1), self.channels, self.filters
        return {
            "w": draw.uniform(-1, 1, (f, c, 1, 1)).astype(np.float32),
            "v": draw.uniform(-1, 1, (c, f, 1, 1)).astype(np.float32),
            "scale": draw.uniform(0.5, 1, c).astype(np.float32),
            "bias": draw.uniform(-1, 1, c).astype(np.float32),
            "twice": np.array([1, 1, 2, 2], np.float32),
            "two": np.array([2, 2], np.float32),
        }

    def model(self, order: str) -> bytes:
        """The ONNX model as a file: x [1, h, w, c] or [1, c, h, w] to y in the same order."""
        onnx: Any = import_module("onnx")
        make = onnx.helper.make_node
        shape = [1, self.channels, self.size, self.size]
        nodes, (first, last) = [], ("x", "y") if order == "nchw" else ("a", "z")
        for operation, reads, writes, attributes in NODES[self.kind](self):
            renamed = {"x": first, "y": last}
            names = [renamed.get(name, name) for name in reads.split(" ")], [renamed.get(writes, writes)]
            nodes.append(make(operation, *names, **attributes))
        if order == "nhwc":
            shape = [1, self.size, self.size, self.channels]
        if order == "nhwc" and self.kind.startswith("resize"):
            nodes = [make("Resize", ["x", "", "two"], ["y"], axes=[1, 2], **NODES[self.kind](self)[0][3])]
        elif order == "nhwc":
            nodes.insert(0, make("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]))
            nodes.append(make("Transpose", ["z"], ["y"], perm=[0, 2, 3, 1]))
        value = partial(onnx.helper.make_tensor_value_info, elem_type=onnx.TensorProto.FLOAT)
        used = {name for node in nodes for name in node.input}
        stored = [onnx.numpy_helper.from_array(a, n) for n, a in self.weights().items() if n in used]
        results = [value("y", shape=[None] * 4)]
        graph = onnx.helper.make_graph(nodes, self.kind, [value("x", shape=shape)], results, stored)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model).SerializeToString()


Node = tuple[str, str, str, Mapping[str, object]]
"""The operation, its operands, its result, its attributes."""


def pooled(operation: str, **more: object) -> Callable[[Layer], list[Node]]:
    def nodes(layer: Layer) -> list[Node]:
        where = {"kernel_shape": [layer.window] * 2, "strides": [layer.stride] * 2, "pads": [layer.padding] * 4}
        return [(operation, "x", "y", where | more)]

    return nodes


def resized(**attributes: object) -> Callable[[Layer], list[Node]]:
    return lambda layer: [("Resize", "x  twice", "y", attributes)]


GATE: Final[list[Node]] = [
    ("GlobalAveragePool", "x", "mean", {}),
    ("Conv", "mean w", "narrow", {}),
    ("Relu", "narrow", "positive", {}),
    ("Conv", "positive v", "wide", {}),
    ("Sigmoid", "wide", "gate", {}),
    ("Mul", "x gate", "y", {}),
]
NODES: Final[Mapping[str, Callable[[Layer], list[Node]]]] = {
    "max": pooled("MaxPool"),
    "average": pooled("AveragePool", count_include_pad=1),
    "average inside": pooled("AveragePool"),
    "global average": lambda layer: [("GlobalAveragePool", "x", "y", {})],
    "global average, 1x1": lambda layer: [("GlobalAveragePool", "x", "mean", {}), ("Conv", "mean w", "y", {})],
    "resize nearest": resized(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize linear": resized(mode="linear", coordinate_transformation_mode="half_pixel"),
    "gate": lambda layer: GATE,
    "instance norm": lambda layer: [
        ("InstanceNormalization", "x scale bias", "n", {"epsilon": 1e-5}),
        ("Relu", "n", "y", {}),
    ],
}
LAYERS: Final = [
    Layer("max", 64, 112, 3, 2),
    Layer("max", 64, 112, 2, 2),
    Layer("max", 192, 28, 3, 1),
    Layer("max", 64, 56, 5, 1),
    Layer("max", 64, 28, 9, 1),
    Layer("average", 192, 28, 3, 1),
    Layer("average inside", 192, 28, 3, 1),
    Layer("average", 128, 56, 2, 2),
    Layer("global average", 512, 14),
    Layer("global average", 2048, 7),
    Layer("global average, 1x1", 2048, 7, filters=1000),
    Layer("resize nearest", 64, 48),
    Layer("resize nearest", 256, 24),
    Layer("resize linear", 64, 48),
    Layer("resize linear", 256, 24),
    Layer("gate", 96, 56, filters=4),
    Layer("gate", 480, 14, filters=20),
    Layer("gate", 1152, 7, filters=48),
    Layer("instance norm", 64, 56),
]


def computed(layer: Layer, tensor: object) -> Callable[[], Any]:
    """A call of PyTorch: of a tensor of oneDNN, by oneDNN."""
    x: Any = tensor
    functional: Any = import_module("torch.nn.functional")
    torch: Any = sys.modules["torch"]
    w, v, scale, bias = (torch.from_numpy(layer.weights()[name]) for name in ("w", "v", "scale", "bias"))
    where = layer.window, layer.stride, layer.padding
    match layer.kind:
        case "max":
            return lambda: functional.max_pool2d(x, *where)
        case "average" | "average inside":
            inside = layer.kind == "average inside"
            return lambda: functional.avg_pool2d(x, *where, count_include_pad=not inside)
        case "global average":
            return lambda: functional.adaptive_avg_pool2d(x, 1)
        case "global average, 1x1":
            return lambda: functional.conv2d(functional.adaptive_avg_pool2d(x, 1), w)
        case "resize nearest":
            return lambda: functional.interpolate(x, scale_factor=2, mode="nearest")
        case "resize linear":
            return lambda: functional.interpolate(x, scale_factor=2, mode="bilinear")
        case "gate":

            def gated() -> object:
                narrow = functional.conv2d(functional.adaptive_avg_pool2d(x, 1), w).relu_()
                return x * functional.conv2d(narrow, v).sigmoid_()

            return gated
        case _:
            return lambda: functional.instance_norm(x, weight=scale, bias=bias).relu_()


def peer_calls(layer: Layer, order: str, x: Array, file: Path, threads: int) -> dict[str, Callable[[], Array]]:
    """A call of each peer that has the layer, which returns an array or what has `numpy`, in NCHW for PyTorch."""
    torch: Any = sys.modules["torch"]
    runtime: Any = import_module("onnxruntime")
    tensor = torch.from_numpy(x)
    if order == "nhwc":
        tensor = tensor.permute(0, 3, 1, 2)  # channels innermost in memory
    calls = {"PyTorch": computed(layer, tensor)}
    if layer.window:
        calls["oneDNN"] = computed(layer, tensor.to_mkldnn())
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    bound, given = session.io_binding(), runtime.OrtValue.ortvalue_from_numpy(x)
    bound.bind_ortvalue_input("x", given)
    bound.bind_output("y")
    calls["ORT"] = lambda: (session.run_with_iobinding(bound), bound)[1]
    return calls


def array_of(found: object, peer: str, order: str) -> Array:
    result: Any = found
    if peer == "ORT":
        return result.copy_outputs_to_cpu()[0]
    dense = result.to_dense() if result.is_mkldnn else result
    return (dense.permute(0, 2, 3, 1) if order == "nhwc" else dense).numpy()


def times(layer: Layer, order: str, options: argparse.Namespace, schedules: Sequence[str | None]) -> list[float]:
    """Seconds of each schedule, then of each of `PEERS`, infinite where it has no such layer. Raises ValueError if
    their results differ."""
    shape = (1, layer.channels, layer.size, layer.size) if order == "nchw" else (1, *[layer.size] * 2, layer.channels)
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder:
        file = Path(folder, "layer.onnx")
        file.write_bytes(layer.model(order))
        peers = peer_calls(layer, order, x, file, options.threads)
        results = {peer: array_of(call(), peer, order) for peer, call in peers.items()}
        wanted, calls = results["PyTorch"], list[Callable[[], Any]]()
        for schedule in schedules:
            program = tcpx.load_schedule(schedule) if schedule else None
            kernel = tcpx.compile(file, program, target=options.target, threads=options.threads)
            out = np.empty_like(wanted, order="C")
            kernel(x, out=out)
            results[schedule or "default"] = out
            calls.append(partial(kernel, x, out=out))
    for name, result in results.items():
        distance = np.max(np.abs(result - wanted)) / max(1.0, float(np.max(np.abs(wanted))))
        if result.shape != wanted.shape or not distance < 1e-5:
            raise ValueError(f"{layer.name} {order}: the result of {name} differs by {distance}")
    spent = dict(zip([*calls, *peers], interleaved([[*calls, *peers.values()]])[0], strict=True))
    return [spent.get(key, float("inf")) for key in [*calls, *PEERS]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each layer and order."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.poolings", description=str(__doc__).split("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of names of layers")
    parser.add_argument("--target", default="native")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-s", "--schedule", action="append", help="beside the default schedule")
    options = parser.parse_args(arguments)
    torch: Any = import_module("torch")  # not a dependency
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    schedules = [None, *(options.schedule or [])]
    smallest = times(Layer("max", 1, 1, 1), "nchw", options, schedules)
    titles = "".join(f"{name:>12.12}" for name in [*(s or "default" for s in schedules), *PEERS])
    print(f"{'layer':36}{titles}   peer/tcpx")
    ratios: list[float] = []
    for layer in LAYERS:
        for order in ("nhwc", "nchw"):
            name = f"{layer.name} {order}"
            if options.words and not any(word in name for word in options.words):
                continue
            spent = [a - b for a, b in zip(times(layer, order, options, schedules), smallest, strict=True)]
            ours, peers = spent[: len(schedules)], spent[len(schedules) :]
            ratios.append(min(peers) / min(ours))
            listed = "".join(f"{t * 1e6:12.1f}" if t < 1e9 else f"{'-':>12}" for t in spent)
            print(f"{name:36}{listed}{ratios[-1]:12.2f}", flush=True)
    print(f"geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.3f}, least {min(ratios):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

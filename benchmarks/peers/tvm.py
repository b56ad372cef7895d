"""TVM with a hand schedule in TensorIR.

A register tile whose accumulators start from the bias, ReLU where it is stored. The right operand goes through panels
of its width, packed by the thread that uses them, or in advance if it is constant; for few rows it is read as it is.
The last tile of rows and of columns begins earlier, so that any size fits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.script import tirx

from benchmarks.peers.static_sizes import with_sizes
from benchmarks.tasks import Layer, Network, model_inputs, network_of
from tcpx.measure.protocol import Array, Prepared, Task, UnsupportedError

Call = tuple[Callable[..., None], tuple[tvm.runtime.Tensor, ...]]
LANES = 16
REGISTERS = 32
ROWS = 8
"""Rows of a tile at most: as many as L1 has ways, since rows are often a multiple of its period apart."""
LATENCY = 4
"""Of an FMA, in cycles: fewer accumulators wait for each other."""
LOAD_SHARE = 1 / 8
"""What a load costs beside an FMA."""
PACKED_ROWS = 32
"""From so many rows on the right operand is packed."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows and vectors of so many lanes, of a product of these sizes."""

    m: int
    n: int
    depth: int
    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """In elements."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of columns; the last may overlap the one before."""
        return -(-self.n // self.width)

    @property
    def blocks(self) -> int:
        """Tiles in a panel; the last may overlap the one before."""
        return -(-self.m // self.rows)

    @property
    def fits(self) -> bool:
        """Whether accumulators, a row of the panel and one factor are in registers, and the result is not smaller."""
        registers = self.rows * self.vectors + self.vectors + 1
        return registers < REGISTERS and self.rows <= self.m and self.width <= self.n

    def cost(self, threads: int) -> float:
        """Of one step of the sums, in FMAs, of the thread that has most panels."""
        work = max(self.rows * self.vectors, LATENCY) + LOAD_SHARE * (self.rows + self.vectors)
        return -(-self.panels // threads) * self.blocks * work


def describe(threads: int) -> Mapping[str, str]:
    """The version; TVM reads the number of threads from the environment when it first needs it."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    return {"version": tvm.__version__, "target": str(_target(threads)), "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """One function per layer; a model by Relax, untuned."""
    if task.kind == "model":
        return _prepared_model(task)
    net = network_of(task)
    if net.x.ndim > 2 or any(layer.activation in ("gelu", "softmax") for layer in net.layers):
        raise UnsupportedError("no batches, gelu or softmax: not written here")
    if net.lhs_transposed:
        raise UnsupportedError("no transposed left operand: not written here")
    calls: list[Call] = []
    held = tvm.runtime.tensor(net.x)
    for layer in net.layers:
        call = _call(net, layer, held, task.threads)
        calls.append(call)
        held = call[1][-1]

    def run() -> tvm.runtime.Tensor:
        for function, arguments in calls:
            function(*arguments)
        return held

    return Prepared(run, lambda y: y.numpy())


def _prepared_model(task: Task) -> Prepared:
    """The model of a file for the sizes of its inputs, weights constant, by Relax's default pipeline."""
    module = from_onnx(with_sizes(task))
    machine = relax.VirtualMachine(tvm.compile(module, target=_target(task.threads)), tvm.cpu())
    arrays = [tvm.runtime.tensor(array) for array in model_inputs(task).values()]
    return Prepared(
        lambda: machine["main"](*arrays), lambda y: (y if isinstance(y, tvm.runtime.Tensor) else y[0]).numpy()
    )


def _call(net: Network, layer: Layer, x: tvm.runtime.Tensor, threads: int) -> Call:
    """The function of one layer and its arguments, the last of which it fills."""
    m, depth = x.shape
    n = layer.weight.shape[0 if net.rhs_transposed else 1]
    tile = _chosen(m, n, depth, threads)
    weight = layer.weight
    if net.constant_weights:
        weight = _panels(weight.T if net.rhs_transposed else weight, tile)
    bias = np.zeros(n, np.float32) if layer.bias is None else layer.bias
    product = _product(tile, weight.shape, net.rhs_transposed, layer.activation == "relu")
    function = tvm.compile(product, target=_target(threads))["main"]
    return function, (x, tvm.runtime.tensor(weight), tvm.runtime.tensor(bias), tvm.runtime.empty((m, n)))


def _chosen(m: int, n: int, depth: int, threads: int) -> Tile:
    """The tile that fits and costs least."""
    lanes = min(LANES, n)
    tiles = (Tile(m, n, depth, rows, vectors, lanes) for rows in range(1, ROWS + 1) for vectors in range(1, REGISTERS))
    return min((tile for tile in tiles if tile.fits), key=lambda tile: tile.cost(threads))


def _panels(weight: Array, tile: Tile) -> Array:
    """(panels, depth, width)."""
    starts = [min(panel * tile.width, tile.n - tile.width) for panel in range(tile.panels)]
    return np.stack([weight[:, start : start + tile.width] for start in starts])


def _product(tile: Tile, shape: tuple[int, ...], is_transposed: bool, is_relu: bool) -> tvm.tirx.PrimFunc:  # noqa: C901
    """out = act(x @ w + b), one nest of loops; w is of this shape, with three dims if it is in panels."""
    m, n, depth = tile.m, tile.n, tile.depth
    rows, vectors, lanes = tile.rows, tile.vectors, tile.lanes
    width, panels, blocks = tile.width, tile.panels, tile.blocks
    in_panels = len(shape) == 3
    packs = not in_panels and (is_transposed or m >= PACKED_ROWS)

    @tirx.prim_func(s_tir=True)
    def main(  # noqa: C901
        x: tirx.Buffer((m, depth), "float32"),
        w: tirx.Buffer(shape, "float32"),
        b: tirx.Buffer((n,), "float32"),
        out: tirx.Buffer((m, n), "float32"),
    ) -> None:
        tirx.func_attr({"tirx.noalias": True})
        for jo in tirx.parallel(panels):
            j0 = tirx.meta_var(tirx.min(jo * width, n - width))
            panel = tirx.alloc_buffer((depth, width), scope="global")
            if packs:
                for k in range(depth):
                    for jv in tirx.unroll(vectors):
                        for lane in tirx.vectorized(lanes):
                            j = tirx.meta_var(jv * lanes + lane)
                            panel[k, j] = w[j0 + j, k] if is_transposed else w[k, j0 + j]
            for io in range(blocks):
                i0 = tirx.meta_var(tirx.min(io * rows, m - rows))
                sums = tirx.alloc_buffer((rows, width), scope="local")
                for i in tirx.unroll(rows):
                    for jv in tirx.unroll(vectors):
                        for lane in tirx.vectorized(lanes):
                            j = tirx.meta_var(jv * lanes + lane)
                            sums[i, j] = b[j0 + j]
                for k in range(depth):
                    for i in tirx.unroll(rows):
                        for jv in tirx.unroll(vectors):
                            for lane in tirx.vectorized(lanes):
                                j = tirx.meta_var(jv * lanes + lane)
                                factor = tirx.meta_var(
                                    w[jo, k, j] if in_panels else panel[k, j] if packs else w[k, j0 + j]
                                )
                                sums[i, j] = sums[i, j] + x[i0 + i, k] * factor
                for i in tirx.unroll(rows):
                    for jv in tirx.unroll(vectors):
                        for lane in tirx.vectorized(lanes):
                            j = tirx.meta_var(jv * lanes + lane)
                            out[i0 + i, j0 + j] = tirx.max(sums[i, j], tirx.float32(0)) if is_relu else sums[i, j]

    return main


def _target(threads: int) -> tvm.target.Target:
    name = tvm.target.codegen.llvm_get_system_cpu()
    return tvm.target.Target({"kind": "llvm", "mcpu": name, "num-cores": threads})

"""TVM with a hand schedule: the right operand packed into panels by a function of its own (once, if it is constant), a
register tile that divides the sizes, the reduction blocked, bias and ReLU where the tile is stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import tvm
from tvm import te
from tvm.s_tir import Schedule

from benchmarks.tasks import Layer, Network, network_of
from tcpx.measure.protocol import Prepared, Task, UnsupportedError

Call = tuple[Callable[..., None], tuple[tvm.runtime.Tensor, ...]]
LANES = 16
WIDTHS = (64, 48, 32, 16)
ROWS = (6, 7, 5, 8, 4, 3, 2, 1)
DEPTHS = (512, 256, 384, 128, 64, 32, 16, 8, 4, 2, 1)


def describe(threads: int) -> Mapping[str, str]:
    """The version; TVM reads the number of threads from the environment when it first needs it."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    return {"version": tvm.__version__, "target": str(_target(threads)), "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """Two functions per layer: packing and product."""
    net = network_of(task)
    if net.x.ndim > 2 or any(layer.activation in ("gelu", "softmax") for layer in net.layers):
        raise UnsupportedError("no batches, gelu or softmax: not written here")
    if net.lhs_transposed:
        raise UnsupportedError("no transposed left operand: not written here")
    calls: list[Call] = []
    held = tvm.runtime.tensor(net.x)
    for layer in net.layers:
        held = _add_layer(net, layer, held, task.threads, calls)

    def run() -> tvm.runtime.Tensor:
        for function, arguments in calls:
            function(*arguments)
        return held

    return Prepared(run, lambda y: y.numpy())


def _add_layer(
    net: Network, layer: Layer, x: tvm.runtime.Tensor, threads: int, calls: list[Call]
) -> tvm.runtime.Tensor:
    """Append the calls of one layer; the tensor that it fills."""
    m, depth = x.shape
    n = layer.weight.shape[0 if net.rhs_transposed else 1]
    width = next((size for size in WIDTHS if n % size == 0), None)
    if width is None:
        raise UnsupportedError(f"n = {n} is not a multiple of {LANES}: not written here")
    rows = next(size for size in ROWS if m % size == 0)
    block = next(size for size in DEPTHS if depth % size == 0)
    weight, panels = tvm.runtime.tensor(layer.weight), tvm.runtime.empty((n // width, depth, width))
    pack = _built(_packing(layer.weight.shape, width, net.rhs_transposed), threads)
    if net.constant_weights:
        pack(weight, panels)
    else:
        calls.append((pack, (weight, panels)))
    out = tvm.runtime.empty((m, n))
    bias = () if layer.bias is None else (tvm.runtime.tensor(layer.bias),)
    product = _product((m, n, depth), (rows, width, block), layer)
    calls.append((_built(product, threads), (x, panels, *bias, out)))
    return out


def _packing(shape: tuple[int, ...], width: int, is_transposed: bool) -> Schedule:
    w = te.placeholder(shape, name="w")
    depth, n = shape[::-1] if is_transposed else shape
    panels = te.compute(
        (n // width, depth, width),
        lambda p, k, j: w[p * width + j, k] if is_transposed else w[k, p * width + j],
        name="panels",
    )
    schedule = Schedule(te.create_prim_func([w, panels]))
    p, _, j = schedule.get_loops(schedule.get_sblock("panels"))
    schedule.parallel(p)
    schedule.vectorize(schedule.split(j, [None, LANES])[1])
    return schedule


def _product(sizes: tuple[int, int, int], tile: tuple[int, int, int], layer: Layer) -> Schedule:
    (m, n, depth), (rows, width, block) = sizes, tile
    x, panels = te.placeholder((m, depth), name="x"), te.placeholder((n // width, depth, width), name="p")
    k = te.reduce_axis((0, depth), "k")
    made = te.compute((m, n), lambda i, j: te.sum(x[i, k] * panels[j // width, k, j % width], axis=k), name="product")
    arguments = [x, panels]
    bias = te.placeholder((n,), name="b") if layer.bias is not None else None
    out = made
    if bias is not None:
        arguments.append(bias)
        out = te.compute((m, n), lambda i, j: made[i, j] + bias[j], name="sum")
    if layer.activation == "relu":
        before = out
        out = te.compute((m, n), lambda i, j: te.max(before[i, j], tvm.tirx.const(0, "float32")), name="relu")
    schedule = Schedule(te.create_prim_func([*arguments, out]))
    if bias is not None and layer.activation == "relu":
        schedule.compute_inline(schedule.get_sblock("sum"))
    product = schedule.get_sblock("product")
    last = schedule.get_consumers(product)
    store = last[0] if last else schedule.cache_write(product, 0, "global")
    i, j, kk = schedule.get_loops(product)
    io, ii = schedule.split(i, [None, rows])
    jo, ji, lane = schedule.split(j, [None, width // LANES, LANES])
    ko, ki = schedule.split(kk, [None, block])
    schedule.reorder(jo, io, ko, ki, ii, ji, lane)
    schedule.parallel(jo)
    schedule.vectorize(lane)
    schedule.unroll(ii)
    schedule.unroll(ji)
    schedule.reverse_compute_at(store, io)
    schedule.vectorize(schedule.split(schedule.get_loops(store)[-1], [None, LANES])[1])
    schedule.set_scope(product, 0, "local")
    init = schedule.decompose_reduction(product, ko)
    for loop in schedule.get_loops(init)[2:-1]:
        schedule.unroll(loop)
    return schedule


def _target(threads: int) -> tvm.target.Target:
    name = tvm.target.codegen.llvm_get_system_cpu()
    return tvm.target.Target({"kind": "llvm", "mcpu": name, "num-cores": threads})


def _built(schedule: Schedule, threads: int) -> Callable[..., None]:
    return tvm.compile(schedule.mod, target=_target(threads))["main"]

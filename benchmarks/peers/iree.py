"""IREE: a `linalg` module compiled for this CPU with data tiling; constant weights are constants of the module, which
it packs when it compiles or when the module is loaded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import iree.compiler
import iree.runtime
import numpy as np
import onnx
from iree.compiler import compile_file, compile_str
from iree.compiler import version as compiler_version
from iree.compiler.tools.import_onnx.__main__ import main as import_onnx
from iree.compiler.tools.import_onnx.__main__ import parse_arguments

from benchmarks.peers.static_sizes import with_sizes
from benchmarks.tasks import Layer, Network, model_inputs, network_of
from tcpx.measure.protocol import Array, Prepared, Task, UnsupportedError

FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-opt-data-tiling", "--iree-opt-const-eval", "--iree-opt-level=O3")
LARGEST_CONSTANTS = 1 << 26
"""Bytes of weights in the text of a module."""


def describe(threads: int) -> Mapping[str, str]:
    """The version and the flags."""
    return {"version": compiler_version.VERSION, "flags": " ".join(FLAGS), "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """The function of a module on device arrays. `local-task` has a thread per CPU, `local-sync` none of its own."""
    if task.kind == "model":
        return _prepared_model(task)
    net = network_of(task)
    if net.x.ndim > 2 or any(layer.activation in ("gelu", "softmax") for layer in net.layers):
        raise UnsupportedError("no batches, gelu or softmax: not written here")
    flatbuffer = compile_str(_module(net), input_type="auto", target_backends=["llvm-cpu"], extra_args=list(FLAGS))
    given = [net.x] if net.constant_weights else [net.x, net.layers[0].weight]
    return Prepared(_loaded(flatbuffer, "main", given, task.threads), lambda result: result.to_host())


def _prepared_model(task: Task) -> Prepared:
    """The model of a file for the sizes of its inputs, by IREE's importer."""
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as place:
        model = with_sizes(task)
        model.graph.name = "workload"
        onnx.save(model, str(Path(place, "model.onnx")), save_as_external_data=True)
        text = Path(place, "model.mlir")
        import_onnx(parse_arguments([str(Path(place, "model.onnx")), "-o", str(text)]))
        flatbuffer = compile_file(str(text), input_type="onnx", target_backends=["llvm-cpu"], extra_args=list(FLAGS))
    call = _loaded(flatbuffer, "workload", [*model_inputs(task).values()], task.threads)
    return Prepared(call, lambda result: (result[0] if isinstance(result, tuple) else result).to_host())


def _loaded(flatbuffer: bytes, name: str, given: list[Array], threads: int) -> Callable[[], object]:
    iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = iree.runtime.Config("local-sync" if threads == 1 else "local-task")
    context = iree.runtime.SystemContext(config=config)
    module = iree.runtime.VmModule.copy_buffer(context.instance, flatbuffer)
    context.add_vm_module(module)
    function = context.modules[module.name][name]
    arrays = [iree.runtime.asdevicearray(config.device, array) for array in given]
    return lambda: function(*arrays)


def _module(net: Network) -> str:
    """MLIR text."""
    m, n = net.operands()[0].shape[0], net.operands()[1].shape[1]
    arguments = [f"%x: {_type(net.x)}"]
    lines: list[str] = ["  %zero = arith.constant 0.0 : f32"]
    value, held = "%x", net.x.shape
    if not net.constant_weights:
        arguments.append(f"%w0: {_type(net.layers[0].weight)}")
    for k, layer in enumerate(net.layers):
        if net.constant_weights:
            lines.append(f"  %w{k} = arith.constant {_dense(layer.weight)} : {_type(layer.weight)}")
        n = layer.weight.shape[0 if net.rhs_transposed else 1]
        kind = f"tensor<{m}x{n}xf32>"
        lines.append(f"  %e{k} = tensor.empty() : {kind}")
        lines.append(f"  %f{k} = linalg.fill ins(%zero : f32) outs(%e{k} : {kind}) -> {kind}")
        source = f"tensor<{'x'.join(map(str, held))}xf32>"
        maps = _maps(net.lhs_transposed and k == 0, net.rhs_transposed)
        lines.append(
            f"  %p{k} = linalg.matmul{maps} ins({value}, %w{k} : {source}, {_type(layer.weight)})"
            f" outs(%f{k} : {kind}) -> {kind}"
        )
        value, held = f"%p{k}", (m, n)
        if layer.bias is not None or layer.activation == "relu":
            lines += _epilogue(k, layer, kind, n)
            value = f"%y{k}"
    result = f"tensor<{m}x{n}xf32>"
    body = "\n".join([*lines, f"  return {value} : {result}"])
    return f"module @workload {{\nfunc.func @main({', '.join(arguments)}) -> {result} {{\n{body}\n}}\n}}\n"


def _epilogue(k: int, layer: Layer, kind: str, n: int) -> list[str]:
    bias = layer.bias if layer.bias is not None else np.zeros(n, np.float32)
    last = f"%r{k}" if layer.activation == "relu" else f"%s{k}"
    return [
        f"  %b{k} = arith.constant {_dense(bias)} : tensor<{n}xf32>",
        f"  %y{k} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,"
        f' affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}'
        f" ins(%p{k}, %b{k} : {kind}, tensor<{n}xf32>) outs(%e{k} : {kind}) {{",
        "  ^bb0(%a: f32, %c: f32, %o: f32):",
        f"    %s{k} = arith.addf %a, %c : f32",
        f"    %r{k} = arith.maximumf %s{k}, %zero : f32",
        f"    linalg.yield {last} : f32",
        f"  }} -> {kind}",
    ]


def _maps(lhs_transposed: bool, rhs_transposed: bool) -> str:
    if not (lhs_transposed or rhs_transposed):
        return ""
    left = "k, m" if lhs_transposed else "m, k"
    right = "n, k" if rhs_transposed else "k, n"
    maps = ", ".join(f"affine_map<(m, n, k) -> ({dims})>" for dims in (left, right, "m, n"))
    return f" indexing_maps = [{maps}]"


def _type(array: np.ndarray) -> str:
    return f"tensor<{'x'.join(map(str, array.shape))}xf32>"


def _dense(array: np.ndarray) -> str:
    """The literal of a constant: its bytes in hexadecimal."""
    if array.nbytes > LARGEST_CONSTANTS:
        raise UnsupportedError(f"{array.nbytes} bytes of weights are too many for the text of a module")
    return f'dense<"0x{array.astype("<f4").tobytes().hex().upper()}">'

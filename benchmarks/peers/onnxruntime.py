"""ONNX Runtime, CPU provider, all graph optimizations; constant weights are initializers, which it packs in advance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.tasks import Network, model_inputs, network_of
from tcpx.measure.protocol import Array, Prepared, Task

OPSET = 20
ELEMENTS = {
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "ui8": TensorProto.UINT8,
    "si8": TensorProto.INT8,
}
NODES = {"relu": "Relu", "gelu": "Gelu", "softmax": "Softmax"}


def describe(threads: int) -> Mapping[str, str]:
    """The version."""
    return {"version": onnxruntime.__version__, "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """A session on the model, its inputs and its output bound to arrays."""
    if task.kind == "model":
        return _bound(task, task.attributes["onnx"], model_inputs(task))
    net = network_of(task, tuple(ELEMENTS))
    given = {"x": net.x} if net.constant_weights else {"x": net.x, "w0": net.layers[0].weight}
    return _bound(task, _model(net).SerializeToString(), given)


def _bound(task: Task, model: str | bytes, given: Mapping[str, Array]) -> Prepared:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_cpu_input(name, array)
    results = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in session.run(None, {**given})]
    for output, value in zip(session.get_outputs(), results, strict=True):
        binding.bind_ortvalue_output(output.name, value)
    return Prepared(lambda: session.run_with_iobinding(binding), lambda _: results[0].numpy())


def _model(net: Network) -> onnx.ModelProto:
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    is_integer = net.dtypes[0] == "ui8"
    value = _transposed(nodes, "x", net.x.ndim, net.lhs_transposed)
    for k, layer in enumerate(net.layers):
        if net.constant_weights:
            constants.append(numpy_helper.from_array(layer.weight, f"w{k}"))
        weight = _transposed(nodes, f"w{k}", layer.weight.ndim, net.rhs_transposed)
        steps: list[tuple[str, list[str]]] = []
        if layer.bias is not None and net.x.ndim == 2:
            steps.append(("Gemm", [value, weight, f"b{k}"]))
            constants.append(numpy_helper.from_array(layer.bias, f"b{k}"))
        else:
            steps.append(("MatMulInteger" if is_integer else "MatMul", [value, weight]))
        if layer.activation != "none":
            steps.append((NODES[layer.activation], [f"v{k}_0"]))
        for step, (operator, operands) in enumerate(steps):
            nodes.append(helper.make_node(operator, operands, [f"v{k}_{step}"]))
        value = f"v{k}_{len(steps) - 1}"
    nodes.append(helper.make_node("Identity", [value], ["y"]))
    inputs = [helper.make_tensor_value_info("x", ELEMENTS[net.dtypes[0]], net.x.shape)]
    if not net.constant_weights:
        inputs.append(helper.make_tensor_value_info("w0", ELEMENTS[net.dtypes[1]], net.layers[0].weight.shape))
    result = TensorProto.INT32 if is_integer else ELEMENTS[net.dtypes[0]]
    output = helper.make_tensor_value_info("y", result, None)
    graph = helper.make_graph(nodes, "workload", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _transposed(nodes: list[onnx.NodeProto], name: str, rank: int, is_transposed: bool) -> str:
    """The name of the value to read: a Transpose, which the optimizer folds into the product, where one is needed."""
    if not is_transposed:
        return name
    order = [*range(rank - 2), rank - 1, rank - 2]
    nodes.append(helper.make_node("Transpose", [name], [f"{name}_t"], perm=list(np.asarray(order))))
    return f"{name}_t"

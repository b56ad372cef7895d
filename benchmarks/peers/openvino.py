"""OpenVINO on the CPU, forced to f32: left alone it would compute in bf16 where the CPU has it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import openvino
from openvino import opset13 as ops

from benchmarks.tasks import Network, model_inputs, network_of
from tcpx.measure.protocol import Array, Prepared, Task


def describe(threads: int) -> Mapping[str, str]:
    """The version."""
    return {"version": openvino.get_version(), "inference_precision": "f32", "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """One infer request whose inputs are the arrays themselves."""
    if task.kind == "model":
        return _request(task, openvino.Core().read_model(task.attributes["onnx"]), [*model_inputs(task).values()])
    net = network_of(task)
    return _request(task, _model(net), [net.x] if net.constant_weights else [net.x, net.layers[0].weight])


def _request(task: Task, model: openvino.Model, given: list[Array]) -> Prepared:
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": task.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for k, array in enumerate(given):
        request.set_input_tensor(k, openvino.Tensor(array, shared_memory=True))

    def read(_: object, held: list[Array] = given) -> Array:  # a tensor does not keep its array alive
        return np.array(request.get_output_tensor(0).data)

    return Prepared(request.infer, read)


def _model(net: Network) -> openvino.Model:
    x = ops.parameter(net.x.shape, np.float32, name="x")
    parameters, value = [x], x
    for k, layer in enumerate(net.layers):
        if net.constant_weights:
            weight = ops.constant(layer.weight)
        else:
            weight = ops.parameter(layer.weight.shape, np.float32, name="w")
            parameters.append(weight)
        value = ops.matmul(value, weight, net.lhs_transposed and k == 0, net.rhs_transposed)
        if layer.bias is not None:
            value = ops.add(value, ops.constant(layer.bias))
        if layer.activation == "relu":
            value = ops.relu(value)
        elif layer.activation == "gelu":
            value = ops.gelu(value, "ERF")
        elif layer.activation == "softmax":
            value = ops.softmax(value, -1)
    return openvino.Model([value], parameters, "workload")

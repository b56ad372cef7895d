"""Models of ONNX for the sizes of one task, for peers that compile for given sizes."""

from __future__ import annotations

import onnx

from benchmarks.tasks import model_inputs
from tcpx.measure.protocol import Task


def with_sizes(task: Task) -> onnx.ModelProto:
    """The model of a task, each dim of its inputs the number that the task's arrays have."""
    model = onnx.load(task.attributes["onnx"])
    arrays = model_inputs(task)
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, arrays[value.name].shape, strict=True):
            dim.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model, data_prop=True)

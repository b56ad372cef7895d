"""oneDNN through its C API: matmul primitives with bias and activation as post-ops; constant weights are reordered once
into the layout that the primitive asks for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import cffi
import numpy as np

from benchmarks.tasks import Layer, Network, network_of
from tcpx.measure.protocol import Array, Prepared, Task, UnsupportedError

Handle = object
"""What oneDNN gives: a pointer of cffi."""
FFI: Final = cffi.FFI()
FFI.cdef("""
typedef void *handle;
typedef struct { int arg; handle memory; } dnnl_exec_arg_t;
const int *dnnl_version(void);
int dnnl_engine_create(handle *engine, int kind, size_t index);
int dnnl_stream_create(handle *stream, handle engine, unsigned flags);
int dnnl_stream_wait(handle stream);
int dnnl_memory_desc_create_with_strides(handle *desc, int rank, const int64_t *dims, int type, const int64_t *strides);
int dnnl_memory_desc_create_with_tag(handle *desc, int rank, const int64_t *dims, int type, int tag);
int dnnl_memory_create(handle *memory, handle desc, handle engine, void *data);
int dnnl_post_ops_create(handle *after);
int dnnl_post_ops_append_eltwise(handle after, int kind, float alpha, float beta);
int dnnl_primitive_attr_create(handle *attributes);
int dnnl_primitive_attr_set_post_ops(handle attributes, handle after);
int dnnl_matmul_primitive_desc_create(handle *desc, handle engine, handle x, handle w, handle bias, handle y,
                                      handle attributes);
int dnnl_reorder_primitive_desc_create(handle *desc, handle from, handle engine, handle to, handle to_engine,
                                       handle attributes);
handle dnnl_primitive_desc_query_md(handle desc, int what, int index);
int dnnl_primitive_create(handle *primitive, handle desc);
int dnnl_primitive_execute(handle primitive, handle stream, int count, const dnnl_exec_arg_t *arguments);
""")
DNN: Final = FFI.dlopen(str(Path(sys.prefix, "lib", "libdnnl.so.3")))

# Values of the enumerations of dnnl_types.h.
CPU, IN_ORDER, ANY_LAYOUT = 1, 1, 1
SOURCE, RESULT, WEIGHTS, BIAS = 1, 17, 33, 41
WEIGHTS_LAYOUT: Final = 131
ALLOCATE: Final = FFI.cast("void *", -1)
TYPES: Final = {"f16": 1, "f32": 3, "bf16": 2, "si32": 4, "si8": 5, "ui8": 6}
ACTIVATIONS: Final = {"relu": 0x20, "gelu": 0x31}


def describe(threads: int) -> Mapping[str, str]:
    """The version that the library says."""
    version = DNN.dnnl_version()
    return {"version": ".".join(str(version[k]) for k in range(3)), "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """One primitive per layer, each writing to an array of its own."""
    net = network_of(task, ("f32", "f16", "bf16", "ui8", "si8"))
    engine = _made("dnnl_engine_create", CPU, 0)
    stream = _made("dnnl_stream_create", engine, IN_ORDER)
    arrays, steps = [net.x], []
    for k, layer in enumerate(net.layers):
        if layer.activation not in ("none", *ACTIVATIONS):
            raise UnsupportedError(f"no {layer.activation}: not written here")
        primitive, arguments, out = _layer(net, layer, net.lhs_transposed and k == 0, arrays[-1], engine, stream)
        steps.append((primitive, len(arguments), FFI.new("dnnl_exec_arg_t[]", arguments)))
        arrays.append(out)

    def run() -> Array:
        for primitive, count, arguments in steps:
            DNN.dnnl_primitive_execute(primitive, stream, count, arguments)
        DNN.dnnl_stream_wait(stream)
        return arrays[-1]

    held = (net, arrays)  # oneDNN keeps their addresses
    return Prepared(run, lambda y, _=held: np.asarray(y))


def _layer(
    net: Network, layer: Layer, lhs_transposed: bool, x: Array, engine: Handle, stream: Handle
) -> tuple[Handle, list[tuple[int, Handle]], Array]:
    """The primitive of one layer, what it is called on, and the array that it writes to."""
    is_integer = net.dtypes[0] == "ui8"
    left = np.swapaxes(x, -1, -2) if lhs_transposed else x
    weight = np.swapaxes(layer.weight, -1, -2) if net.rhs_transposed else layer.weight
    out = np.zeros((*left.shape[:-1], weight.shape[-1]), np.int32 if is_integer else np.float32)
    x_type = net.dtypes[0] if x is net.x else "f32"
    source, result = _described(left, x_type), _described(out, "si32" if is_integer else "f32")
    plain = _described(weight, net.dtypes[1])
    dims = FFI.new("int64_t[]", weight.shape)
    wanted = plain
    if net.constant_weights:
        wanted = _made("dnnl_memory_desc_create_with_tag", weight.ndim, dims, TYPES[net.dtypes[1]], ANY_LAYOUT)
    bias = None if layer.bias is None else layer.bias.reshape((1,) * (out.ndim - 1) + (-1,))
    bias_described = FFI.NULL if bias is None else _described(bias, "f32")
    attributes = _attributes(layer.activation)
    described = _made("dnnl_matmul_primitive_desc_create", engine, source, wanted, bias_described, result, attributes)
    memory = _memory(plain, engine, weight)
    if net.constant_weights:
        layout = DNN.dnnl_primitive_desc_query_md(described, WEIGHTS_LAYOUT, 0)
        memory = _reordered(memory, plain, layout, engine, stream)
    arguments = [(SOURCE, _memory(source, engine, x)), (WEIGHTS, memory), (RESULT, _memory(result, engine, out))]
    if bias is not None:
        arguments.append((BIAS, _memory(bias_described, engine, bias)))
    return _made("dnnl_primitive_create", described), arguments, out


def _attributes(activation: str) -> Handle:
    attributes, after = _made("dnnl_primitive_attr_create"), _made("dnnl_post_ops_create")
    if activation != "none":
        _checked(DNN.dnnl_post_ops_append_eltwise(after, ACTIVATIONS[activation], 0.0, 0.0), "post-ops")
    _checked(DNN.dnnl_primitive_attr_set_post_ops(attributes, after), "post-ops")
    return attributes


def _reordered(memory: Handle, plain: Handle, layout: Handle, engine: Handle, stream: Handle) -> Handle:
    """The weights in the layout of the primitive."""
    packed = _made("dnnl_memory_create", layout, engine, ALLOCATE)
    described = _made("dnnl_reorder_primitive_desc_create", plain, engine, layout, engine, FFI.NULL)
    reorder = _made("dnnl_primitive_create", described)
    arguments = FFI.new("dnnl_exec_arg_t[]", [(SOURCE, memory), (RESULT, packed)])
    _checked(DNN.dnnl_primitive_execute(reorder, stream, 2, arguments), "the reordering of weights")
    DNN.dnnl_stream_wait(stream)
    return packed


def _described(array: Array, dtype: str) -> Handle:
    """The memory descriptor of an array as it lies in memory."""
    dims = FFI.new("int64_t[]", array.shape)
    strides = FFI.new("int64_t[]", [stride // array.itemsize for stride in array.strides])
    return _made("dnnl_memory_desc_create_with_strides", array.ndim, dims, TYPES[dtype], strides)


def _memory(described: Handle, engine: Handle, array: Array) -> Handle:
    return _made("dnnl_memory_create", described, engine, FFI.cast("void *", array.ctypes.data))


def _made(function: str, *arguments: object) -> Handle:
    """What a function of the C API makes. Raises UnsupportedError where it refuses."""
    made = FFI.new("handle *")
    _checked(getattr(DNN, function)(made, *arguments), function)
    return made[0]


def _checked(status: int, what: str) -> None:
    if status:
        raise UnsupportedError(f"oneDNN refuses {what}: status {status}")

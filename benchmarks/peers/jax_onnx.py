"""Models of ONNX as functions of JAX: the operators that the models of the benchmarks have.

What is computed of shapes and constants stays in NumPy while JAX traces, so that XLA sees known sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tcpx.measure.protocol import UnsupportedError

Value = Any
"""An array of NumPy or of JAX."""
Values = Sequence[Value]
Attributes = Mapping[str, Any]


def function_of(model: onnx.ModelProto) -> Callable[..., jax.Array]:
    """A function of the model's inputs, in order, that returns its first output. Raises UnsupportedError."""
    graph = model.graph
    unknown = sorted({node.op_type for node in graph.node} - {*OPERATORS, "Constant"})
    if unknown:
        raise UnsupportedError(f"{', '.join(unknown)}: not written here")
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]

    def run(*arguments: jax.Array) -> jax.Array:
        held: dict[str, Value] = {**weights, **dict(zip(names, arguments, strict=True))}
        for node in graph.node:
            attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
            if node.op_type == "Constant":
                held[node.output[0]] = numpy_helper.to_array(attributes["value"])
                continue
            results = OPERATORS[node.op_type]([held[name] if name else None for name in node.input], attributes)
            held.update(zip(node.output, results if isinstance(results, list) else [results], strict=False))
        return jnp.asarray(held[graph.output[0].name])

    return run


def _numbers(*values: Value) -> ModuleType:
    """NumPy where all are known, else JAX."""
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


def _elementwise(name: str) -> Callable[[Values, Attributes], Value]:
    return lambda v, _: getattr(_numbers(*v), name)(*v)


def _layer_norm(v: Values, a: Attributes) -> Value:
    x = v[0]
    axes = tuple(range(a.get("axis", -1) % x.ndim, x.ndim))
    mean = jnp.mean(x, axes, keepdims=True)
    scaled = (x - mean) * jax.lax.rsqrt(jnp.var(x, axes, keepdims=True) + a.get("epsilon", 1e-5)) * v[1]
    return scaled if len(v) < 3 else scaled + v[2]


def _gemm(v: Values, a: Attributes) -> Value:
    left = v[0].T if a.get("transA") else v[0]
    right = v[1].T if a.get("transB") else v[1]
    product = a.get("alpha", 1.0) * jnp.matmul(left, right)
    return product if len(v) < 3 else product + a.get("beta", 1.0) * v[2]


def _reshape(v: Values, a: Attributes) -> Value:
    del a
    return v[0].reshape([v[0].shape[k] if size == 0 else int(size) for k, size in enumerate(v[1])])


def _slice(v: Values, a: Attributes) -> Value:
    del a
    x, starts, ends = v[:3]
    axes = v[3] if len(v) > 3 else range(len(starts))
    steps = v[4] if len(v) > 4 else [1] * len(starts)
    cut = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cut[int(axis)] = slice(int(start), int(end), int(step))
    return x[tuple(cut)]


def _split(v: Values, a: Attributes) -> list[Value]:
    axis = a.get("axis", 0)
    count = a.get("num_outputs", len(v[1]) if len(v) > 1 else 1)
    at = np.cumsum(v[1])[:-1] if len(v) > 1 else count
    return list(_numbers(v[0]).split(v[0], at, axis))


def _unsqueeze(v: Values, a: Attributes) -> Value:
    del a
    return _numbers(v[0]).expand_dims(v[0], tuple(int(axis) for axis in v[1]))


def _expand(v: Values, a: Attributes) -> Value:
    del a
    return _numbers(v[0]).broadcast_to(v[0], np.broadcast_shapes(v[0].shape, tuple(int(size) for size in v[1])))


def _cast(v: Values, a: Attributes) -> Value:
    return v[0].astype(helper.tensor_dtype_to_np_dtype(a["to"]))


def _divide(v: Values, a: Attributes) -> Value:
    del a
    return v[0] // v[1] if np.issubdtype(v[0].dtype, np.integer) else v[0] / v[1]


def _trilu(v: Values, a: Attributes) -> Value:
    keep = _numbers(v[0]).triu if a.get("upper", 1) else _numbers(v[0]).tril
    return keep(v[0], int(v[1]) if len(v) > 1 else 0)


def _filled(v: Values, a: Attributes) -> Value:
    value = numpy_helper.to_array(a["value"]) if "value" in a else np.zeros(1, np.float32)
    return np.full([int(size) for size in v[0]], value[0])


OPERATORS: Final[Mapping[str, Callable[[Values, Attributes], Value | list[Value]]]] = {
    **{name.capitalize(): _elementwise(name) for name in ("equal", "sqrt", "tanh", "where")},
    "Add": _elementwise("add"),
    "Sub": _elementwise("subtract"),
    "Mul": _elementwise("multiply"),
    "Pow": _elementwise("power"),
    "MatMul": lambda v, _: jnp.matmul(v[0], v[1]),
    "Div": _divide,
    "Erf": lambda v, _: jax.scipy.special.erf(v[0]),
    "Softmax": lambda v, a: jax.nn.softmax(v[0], a.get("axis", -1)),
    "LayerNormalization": _layer_norm,
    "Gemm": _gemm,
    "Identity": lambda v, _: v[0],
    "Cast": _cast,
    "Shape": lambda v, a: np.asarray(v[0].shape[a.get("start", 0) : a.get("end")], np.int64),
    "Gather": lambda v, a: _numbers(*v).take(v[0], v[1], a.get("axis", 0)),
    "Concat": lambda v, a: _numbers(*v).concatenate(v, a["axis"]),
    "Range": lambda v, _: np.arange(*v),
    "ConstantOfShape": _filled,
    "Reshape": _reshape,
    "Transpose": lambda v, a: _numbers(v[0]).transpose(v[0], a.get("perm")),
    "Slice": _slice,
    "Split": _split,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Trilu": _trilu,
}

"""JAX: XLA on the CPU. Constant weights are closed over by the jitted function."""

from __future__ import annotations

import os
from collections.abc import Mapping

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
# XLA takes the number of threads from the CPUs that the process may run on, which are pinned already.

import jax
import jax.numpy as jnp

from benchmarks.peers.jax_onnx import function_of
from benchmarks.peers.static_sizes import with_sizes
from benchmarks.tasks import expression_of, model_inputs, network_of
from tcpx.measure.protocol import Prepared, Task

# Else a thread of its own runs every call while the caller waits for it, and on one CPU each takes it from the other.
jax.config.update("jax_cpu_enable_async_dispatch", False)

ACTIVATIONS = {
    "none": lambda y: y,
    "relu": jax.nn.relu,
    "gelu": lambda y: jax.nn.gelu(y, approximate=False),
    "softmax": lambda y: jax.nn.softmax(y, -1),
}


def describe(threads: int) -> Mapping[str, str]:
    """The version."""
    return {"version": jax.__version__, "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """The compiled function, waited for in every call."""
    if task.kind == "model":
        arrays = [jnp.asarray(array) for array in model_inputs(task).values()]
        network = jax.jit(function_of(with_sizes(task))).lower(*arrays).compile()
        return Prepared(lambda: network(*arrays).block_until_ready())
    if task.kind == "expression":
        wanted = expression_of(task, "jax", np=jnp, erf=jax.scipy.special.erf)
        given = [jnp.asarray(array) for array in task.arrays().values()]
        program = jax.jit(wanted).lower(*given).compile()
        return Prepared(lambda: program(*given).block_until_ready())
    net = network_of(task, ("f32", "f64"))
    weights = [jnp.asarray(layer.weight) for layer in net.layers]
    biases = [None if layer.bias is None else jnp.asarray(layer.bias) for layer in net.layers]

    def model(x: jax.Array, *given: jax.Array) -> jax.Array:
        y = jnp.swapaxes(x, -1, -2) if net.lhs_transposed else x
        for weight, bias, layer in zip(given or weights, biases, net.layers, strict=True):
            y = jnp.matmul(y, jnp.swapaxes(weight, -1, -2) if net.rhs_transposed else weight)
            y = ACTIVATIONS[layer.activation](y if bias is None else y + bias)
        return y

    arguments = [jnp.asarray(net.x), *([] if net.constant_weights else weights)]
    compiled = jax.jit(model).lower(*arguments).compile()
    return Prepared(lambda: compiled(*arguments).block_until_ready())

"""PyTorch, operation by operation, under `inference_mode`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from benchmarks.tasks import Network, expression_of, model_inputs, network_of
from tcpx.measure.protocol import Array, Prepared, Task

ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda y: y,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "softmax": lambda y: torch.softmax(y, -1),
}


def describe(threads: int) -> Mapping[str, str]:
    """The version; the number of threads is set here, before anything runs."""
    torch.set_num_threads(threads)
    return {"version": torch.__version__, "mkl": str(torch.backends.mkl.is_available()), "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """The model on its input."""
    if task.kind == "model":
        program, given = program_of(task)
        return Prepared(lambda: inference(program, *given), first)
    if task.kind == "expression":
        wanted = expression_of(task, "torch", torch=torch, F=functional)
        given = [torch.from_numpy(array) for array in task.arrays().values()]
        return Prepared(lambda: inference(wanted, *given), lambda y: y.contiguous().numpy())
    net = network_of(task, ("f32", "f64", "f16", "bf16"))
    model, x = model_of(net), tensor(net.x, net.dtypes[0])
    return Prepared(lambda: inference(model, x), *reading(net))


def program_of(task: Task) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    """The program that was exported for a model, and its inputs."""
    program = torch.export.load(task.attributes["program"]).module()
    return program, [torch.from_numpy(array) for array in model_inputs(task).values()]


def first(results: torch.Tensor | tuple[torch.Tensor, ...]) -> Array:
    """The array of the only result, or of the first."""
    return (results[0] if isinstance(results, tuple) else results).contiguous().numpy()


def tensor(array: Array, dtype: str) -> torch.Tensor:
    """The array without a copy; bf16 from its bits."""
    return torch.from_numpy(array.view("int16")).view(torch.bfloat16) if dtype == "bf16" else torch.from_numpy(array)


def reading(net: Network) -> tuple[Callable[[torch.Tensor], Array], str | None]:
    """How a result becomes an array, and its dtype where NumPy does not have it."""
    if net.dtypes[0] == "bf16":
        return lambda y: y.contiguous().view(torch.int16).numpy().view("uint16"), "bf16"
    return lambda y: y.numpy(), None


def model_of(net: Network) -> Callable[[torch.Tensor], torch.Tensor]:
    """Layers as `torch.nn.functional.linear` has them, weights [n, k]; transposed and batched products by `matmul`."""
    if net.x.ndim > 2 or net.lhs_transposed or net.rhs_transposed or net.is_plain:
        weight = tensor(net.layers[0].weight, net.dtypes[1])
        right = weight.mT if net.rhs_transposed else weight
        if net.lhs_transposed:
            return lambda x: torch.matmul(x.mT, right)
        return lambda x: torch.matmul(x, right)
    held = [
        (
            tensor(layer.weight, net.dtypes[1]).mT.contiguous(),
            None if layer.bias is None else tensor(layer.bias, net.dtypes[1]),
            ACTIVATIONS[layer.activation],
        )
        for layer in net.layers
    ]

    def model(x: torch.Tensor) -> torch.Tensor:
        for weight, bias, activation in held:
            x = activation(functional.linear(x, weight, bias))
        return x

    return model


def inference(model: Callable[..., torch.Tensor], *given: torch.Tensor) -> torch.Tensor:
    """One call without gradients."""
    with torch.inference_mode():
        return model(*given)

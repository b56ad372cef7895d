"""PyTorch through `torch.compile`, with weights frozen, so that they are packed in advance, and tuning on."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch._inductor.config as inductor
from torch.nn import functional

from benchmarks.peers.torch_eager import ACTIVATIONS, describe, first, program_of, reading, tensor
from benchmarks.tasks import Network, expression_of, network_of
from tcpx.measure.protocol import Array, Prepared, Task

__all__ = ["describe", "prepare"]

inductor.freezing = True
inductor.compile_threads = 1


class Model(torch.nn.Module):
    """The network with constant weights as buffers; others are the second argument."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.lhs_transposed, self.rhs_transposed = net.lhs_transposed, net.rhs_transposed
        self.activations = [layer.activation for layer in net.layers]
        self.with_bias = [layer.bias is not None for layer in net.layers]
        for k, layer in enumerate(net.layers):
            self.register_buffer(f"w{k}", tensor(layer.weight, net.dtypes[1]))
            if layer.bias is not None:
                self.register_buffer(f"b{k}", tensor(layer.bias, net.dtypes[1]))

    def forward(self, x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
        y = x.mT if self.lhs_transposed else x
        for k, name in enumerate(self.activations):
            weight = getattr(self, f"w{k}") if w is None else w
            y = y @ (weight.mT if self.rhs_transposed else weight)
            if self.with_bias[k]:
                y = y + getattr(self, f"b{k}")
            y = ACTIVATIONS[name](y)
        return y


def prepare(task: Task) -> Prepared:
    """The compiled model on its input; its first call compiles."""
    torch.compiler.reset()
    model: Callable[..., torch.Tensor]
    as_array: tuple[Callable[[torch.Tensor], Array], str | None] = (first, None)
    if task.kind == "model":
        model, given = program_of(task)
    elif task.kind == "expression":
        model = expression_of(task, "torch", torch=torch, F=functional)
        given = [torch.from_numpy(array) for array in task.arrays().values()]
    else:
        net = network_of(task, ("f32", "f64", "f16", "bf16"))
        model, as_array = Model(net).eval(), reading(net)
        given = [tensor(net.x, net.dtypes[0])]
        given += [] if net.constant_weights else [tensor(net.layers[0].weight, net.dtypes[1])]
    compiled = torch.compile(model, fullgraph=True, dynamic=False)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return compiled(*given)

    return Prepared(run, *as_array)

"""Random graphs of several nodes over symbolic dims compute what ONNX's own evaluator does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tcpx

GRAPHS: Final = 25
"""Of a group."""
LARGEST: Final = 3000
SYMBOLS: Final = {"N": (1, 2, 3, 5), "M": (1, 4, 7)}
SHAPES: Final[tuple[tuple[str | int, ...], ...]] = (("N", 4), (2, "M", "N"), ("M",), ("N", 3, "M"))
UNARY: Final = (
    "Relu Neg Abs Exp Tanh Sigmoid Erf Sqrt Floor Ceil Softplus Softsign Elu LeakyRelu HardSigmoid Sign Reciprocal "
    "Gelu Mish HardSwish Celu Selu ThresholdedRelu Identity Round Sin Cos".split()
)
BINARY: Final = "Add Sub Mul Div Min Max".split()
REDUCTIONS: Final = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceLogSumExp ReduceProd ReduceSumSquare".split()
)
FLOAT: Final = TensorProto.FLOAT


@dataclass
class Graph:
    """A graph that grows: its inputs, and the value of each of its tensors of f32."""

    draw: Random
    numbers: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])
    inputs: dict[str, tuple[str | int, ...]] = field(default_factory=dict[str, "tuple[str | int, ...]"])
    arrays: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    values: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def constant(self, array: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def floats(self, *shape: int) -> str:
        return self.constant(self.numbers.standard_normal(shape, dtype=np.float32))

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0]

    def axis(self, rank: int) -> int:
        return self.draw.randrange(-rank, rank)

    def is_static(self, name: str, axis: int) -> bool:
        """Whether a dim of an input has no symbol; of what is computed, that is not known."""
        return name in self.inputs and isinstance(self.inputs[name][axis], int)

    def model(self, output: str) -> ModelProto:
        inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(output, FLOAT, None)]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _reduced(g: Graph, x: str, rank: int) -> str:
    axes = [k - rank * g.draw.randint(0, 1) for k in g.draw.sample(range(rank), g.draw.randint(1, rank))]
    return g.node(g.draw.choice(REDUCTIONS), x, g.ints(*axes), keepdims=g.draw.randint(0, 1))


def _with_another(g: Graph, x: str, rank: int) -> str:
    """What broadcasts, whatever the symbols are: an element, or the value itself."""
    del rank
    other = g.draw.choice([x, g.floats(1), g.floats()])
    return g.node(g.draw.choice(BINARY), *g.draw.sample([x, other], 2))


def _sliced(g: Graph, x: str, rank: int) -> str:
    start, end = g.draw.choice([0, 1, -1, -3, 100, -100]), g.draw.choice([0, 1, 2, -1, 100, -100, 2**62, -(2**62)])
    step = g.draw.choice([1, 1, 2, 3, -1])
    start = -1 if step < 0 else start
    end = -(2**62) if step < 0 else end
    return g.node("Slice", x, g.ints(start), g.ints(end), g.ints(g.axis(rank)), g.ints(step))


def _times(g: Graph, x: str, rank: int) -> str:
    if not g.is_static(x, -1):
        return g.node("MatMul", g.node("Unsqueeze", x, g.ints(rank)), g.floats(1, g.draw.choice([1, 3, 5])))
    return g.node("MatMul", x, g.floats(int(g.inputs[x][-1]), g.draw.choice([1, 3, 5])))


def _joined(g: Graph, x: str, rank: int) -> str:
    return g.node("Concat", *[x] * g.draw.randint(2, 3), axis=g.axis(rank))


def _padded(g: Graph, x: str, rank: int) -> str:
    return g.node("Pad", x, g.ints(*(g.draw.randint(0, 2) for _ in range(2 * rank))))


def _gathered(g: Graph, x: str, rank: int) -> str:
    indices = np.array(g.draw.choices([0, -1], k=3), np.int64).reshape(g.draw.choice([(3,), (1, 3)]))
    return g.node("Gather", x, g.constant(indices), axis=g.axis(rank))


def _placed(g: Graph, x: str, rank: int) -> str:
    found = g.node(g.draw.choice(["ArgMax", "ArgMin"]), x, axis=g.axis(rank), keepdims=g.draw.randint(0, 1))
    return g.node("Cast", found, to=FLOAT)


def _chosen(g: Graph, x: str, rank: int) -> str:
    del rank
    return g.node("Where", g.node("Greater", x, g.floats()), x, g.floats())


def _cast(g: Graph, x: str, rank: int) -> str:
    del rank
    other = g.draw.choice([TensorProto.INT32, TensorProto.DOUBLE, TensorProto.FLOAT16])
    return g.node("Cast", g.node("Cast", x, to=other), to=FLOAT)


def _turned(g: Graph, x: str, rank: int) -> str:
    return g.node("Transpose", x, perm=g.draw.sample(range(rank), rank))


def _scanned(g: Graph, x: str, rank: int) -> str:
    flags = {"exclusive": g.draw.randint(0, 1), "reverse": g.draw.randint(0, 1)}
    return g.node("CumSum", x, g.constant(np.array(g.axis(rank), np.int64)), **flags)


MAKERS: Final[Sequence[Callable[[Graph, str, int], str]]] = (
    lambda g, x, rank: g.node(g.draw.choice(UNARY), x),
    _with_another,
    _reduced,
    _turned,
    lambda g, x, rank: g.node("Reshape", x, g.ints(*g.draw.choice([(-1,), (0, -1)]))),
    _joined,
    _sliced,
    _times,
    lambda g, x, rank: g.node(g.draw.choice(["Softmax", "LogSoftmax", "Hardmax"]), x, axis=g.axis(rank)),
    lambda g, x, rank: g.node("Expand", x, g.ints(2, *[1] * rank)),
    _gathered,
    _padded,
    _chosen,
    lambda g, x, rank: g.node("LayerNormalization", x, g.floats(1), axis=-1),
    lambda g, x, rank: g.node("Flatten", x, axis=g.draw.randint(0, rank)),
    lambda g, x, rank: g.node("Unsqueeze", x, g.ints(g.draw.randint(0, rank))),
    _scanned,
    _placed,
    lambda g, x, rank: g.node("Tile", x, g.ints(*(g.draw.randint(1, 2) for _ in range(rank)))),
    _cast,
    lambda g, x, rank: g.node("Cast", g.node("Shape", x), to=FLOAT),
)


def drawn(seed: int) -> tuple[Graph, str]:
    """A graph, and the tensor that it computes last."""
    g = Graph(Random(seed), np.random.default_rng(seed))
    sizes = {symbol: g.draw.choice(choices) for symbol, choices in SYMBOLS.items()}
    for name in ("x0", "x1"):
        g.inputs[name] = g.draw.choice(SHAPES)
        shape = [sizes.get(str(dim), dim) for dim in g.inputs[name]]
        g.arrays[name] = g.values[name] = g.numbers.standard_normal([int(n) for n in shape], dtype=np.float32)
    last = "x0"
    for _ in range(g.draw.randint(3, 10)):
        x = g.draw.choice(list(g.values))
        maker, rank, count = g.draw.choice(MAKERS), g.values[x].ndim, len(g.nodes)
        if rank == 0 and maker is not MAKERS[0]:
            continue
        made = maker(g, x, rank)
        try:
            value = np.asarray(next(iter(ReferenceEvaluator(g.model(made)).run(None, g.arrays))))
        except (ValueError, IndexError):  # such as the largest of no elements
            value = np.empty(LARGEST + 1)
        if value.size > LARGEST or value.dtype != np.float32:
            del g.nodes[count:]
        else:
            g.values[made], last = value, made
    return g, last


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy: divisions by 0 are drawn
@pytest.mark.parametrize("group", range(4))
def test_random_graphs(group: int) -> None:
    """One of each group is compiled, too."""
    checked = operators = 0
    for seed in range(GRAPHS * group, GRAPHS * (group + 1)):
        g, output = drawn(seed)
        if not g.nodes:
            continue
        model = tcpx.onnx.load(g.model(output))
        given = [g.arrays[port.name] for port in model.inputs]
        results = [tcpx.evaluate(model.module, *given)]
        if seed % GRAPHS == 0:
            results.append(tcpx.compile(model.module)(*given))
        for found in (np.asarray(result, np.float32) for result in results):
            # Some go through halves, where the last digit of a float may be that of a half.
            np.testing.assert_allclose(found, g.values[output], rtol=2e-3, atol=2e-3, err_msg=f"seed {seed}")
        checked, operators = checked + 1, operators + len(g.nodes)
    assert checked >= GRAPHS - 3
    assert operators >= 4 * GRAPHS

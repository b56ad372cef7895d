"""An operation defined outside the package: it takes part in every transform and lowers, with no change to tcpx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import tcpx
from tcpx.payload.evaluator import Array, Evaluation, evaluate_func
from tcpx.payload.fields import Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Build, Iterator, Structured, parallel, reduction
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.elementwise import Add, Mul
from tcpx.payload.ops.generic import Generic
from tcpx.payload.sizes import Symbol
from tcpx.payload.text.parser import parse
from tests.transform.payloads import Sizes, arguments, check, run, same_numbers


@register
class Stencil3(Structured):
    """out[i] = init[i] + sum over w < 3 of c[w] * x[2*i + w]."""

    __slots__ = ()
    opcode = "test.stencil3"
    class_name = "stencil3"
    input, weights, init = Operand(), Operand(), OptionalOperand()

    def iterators(self) -> tuple[Iterator, ...]:
        return parallel("i") + reduction("w")

    def maps(self) -> tuple[IndexingMap, ...]:
        return (Symbol("i").size() * 2 + Symbol("w").size(),), dims("w")

    def result_map(self) -> IndexingMap:
        return dims("i")

    def neutral(self) -> float | int | None:
        return 0

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del index, reduced
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        product = build(Mul.of(args[1], args[0]))
        return product if acc is None else build(Add.of(acc, product))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        (n,) = evaluation.shape(self.result.type)
        x, c = args[0].astype(np.float64), args[1].astype(np.float64)
        made = args[2].astype(np.float64) if len(args) > 2 else np.zeros(n)
        for w in range(c.shape[0]):
            made = made + c[w] * x[w : w + 2 * n : 2][:n]
        return (made.astype(np.float32),)


PAYLOAD = """\
func @smooth(%a: tensor<[2*N + 1]xf32>, %c: tensor<3xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %x = tcp.mul(%a, %a) : tensor<[2*N + 1]xf32>
  %s = test.stencil3(%x, %c) : tensor<[N]xf32>
  %r = tcp.max(%s, %y) : tensor<[N]xf32>
  tcp.return(%r)
}
"""
SIZES: tuple[Sizes, ...] = tuple({"N": n} for n in (0, 1, 3, 4, 5, 16, 33))
S = 'let s = match one stencil3 in root\nlet x = match one "x" in root\nlet r = match one "r" in root\n'
SCHEDULES: Mapping[str, str] = {
    "tiled": "let i = tile(s, [i: 4])",
    "reduction tiled": "let w = tile(s, [w: 2])\nlet i = tile(s, [i: 4])",
    "padded": "let i = tile(s, [i: 4], tail: pad)",
    "peeled": "let i = tile(s, [i: 4], tail: peel)",
    "producer fused": "let i = tile(s, [i: 4])\nfuse(x, into: i)",
    "consumer fused": "let i = tile(s, [i: 4])\nfuse(r, into: i)",
    "both fused": "let i = tile(s, [i: 4])\nfuse(x, into: i)\nfuse(r, into: i)",
    "fused as a producer": "let i = tile(r, [d0: 4])\nfuse(s, into: i)\nfuse(x, into: i)",
    "consumer fused behind the reduction": (
        "let w = tile(s, [w: 1])\nlet i = tile(s, [i: 4])\nfuse(s.start, into: i)\nfuse(r, into: i)"
    ),
    "packed": "let i = tile(s, [i: 4], tail: pad)\nlet b = pack(s.weights, [w], at: i)",
    "parallel": "let i = tile(s, [i: 4], parallel: true)",
    "generalized": "let g = generalize(s)\nlet i = tile(g, [i: 4])",
    "unrolled": "let i = tile(s, [i: 4])\nlet w = tile(s, [w: 1])\nlet u = unroll(w)",
    "vectorized": "let i = tile(s, [i: 4], tail: pad)\nfuse(r, into: i)\nvectorize(i)",
    "accumulated in registers": (
        "let i = tile(s, [i: 4], tail: pad)\nfuse(r, into: i)\nlet w = tile(s, [w: 1])\n"
        "vectorize(i)\nhoist_accumulator(s, out_of: w)"
    ),
}
LOWERED = ("vectorized", "accumulated in registers")


@pytest.mark.parametrize("name", SCHEDULES)
def test_transforms(name: str) -> None:
    done = check(PAYLOAD, S + SCHEDULES[name], SIZES)
    assert name == "generalized" or any(isinstance(op, Stencil3) for op in done.module.walk())


@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("lowering", ["lower_vectors(i)", "lower_vectors(i)\nbufferize(root)"])
def test_lowers(name: str, lowering: str) -> None:
    original = parse(PAYLOAD)
    module = run(PAYLOAD, f"{S}{SCHEDULES[name]}\n{lowering}").module
    assert not any(isinstance(op, Stencil3) for op in module.walk())
    for sizes in SIZES:
        given = arguments(original, sizes)
        wanted = evaluate_func(original, original.main, given)
        assert same_numbers(evaluate_func(module, module.main, given), wanted), sizes


def test_generalize_and_back() -> None:
    done = check(PAYLOAD, S + "let g = generalize(s)\nlet t = specialize(g, to: stencil3)", SIZES)
    assert any(isinstance(op, Stencil3) for op in done.module.walk())
    assert not any(isinstance(op, Generic) for op in done.module.walk())


def test_compiles() -> None:
    original = parse(PAYLOAD)
    header = "language 1\nschedule main(root: func) {\n"
    requests = [
        tcpx.CompileRequest(original, tcpx.parse_schedule(f"{header}{S}{body}\n}}"), name=f"smooth_{k}")
        for k, body in enumerate(SCHEDULES.values())
        if "parallel" not in body
    ]
    assert len(requests) >= 12
    for kernel in tcpx.compile_many(requests, target="generic"):
        for sizes in SIZES:
            given = arguments(original, sizes)
            wanted = evaluate_func(original, original.main, given)
            assert same_numbers((np.asarray(kernel(*given)),), wanted), (kernel, sizes)

"""Operators that ONNX Runtime's optimizer writes: beside NumPy, beside ONNX Runtime, and under the default schedule."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tcpx
from tcpx.payload.types import TensorType
from tests.frontends.onnx import fused, fused_attention
from tests.frontends.onnx.fused import DOMAIN, Case, draw
from tests.frontends.onnx.transformer import HEADS, HIDDEN, VOCABULARY, encoder
from tests.optional_tools import ONNXRUNTIME

Array = np.ndarray
CASES = [*fused.CASES, *fused_attention.CASES]


def named(case: Case) -> str:
    return f"{case.operator}: {case.name}"


def of(operator: str, name: str) -> Case:
    return next(case for case in CASES if (case.operator, case.name) == (operator, name))


def agrees(found: Any, case: Case) -> None:
    wanted = [y for y in case.wanted if y is not None]
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_what_they_mean(case: Case) -> None:
    for symbolic in (False, True)[: 1 + bool(case.symbols)]:
        model = tcpx.onnx.load(case.model(symbolic))
        agrees(tcpx.evaluate(model.module, *(case.arguments[port.name] for port in model.inputs)), case)


@ONNXRUNTIME.needed
@pytest.mark.parametrize("case", [case for case in CASES if case.runtime], ids=named)
def test_beside_onnx_runtime(case: Case) -> None:
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(case.model().SerializeToString(), providers=["CPUExecutionProvider"])
    agrees(tuple(session.run(None, case.arguments)), case)


COMPILED = [
    ("MultiHeadAttention", "causal with a mask", "numbers"),
    ("MultiHeadAttention", "causal with a mask", "symbols"),
    ("Attention", "weights", "symbols"),
    ("GroupQueryAttention", "a token of sequences of other lengths", "numbers"),
    ("EmbedLayerNormalization", "with segments and a mask", "numbers"),
]


@pytest.mark.parametrize(("operator", "name", "sizes"), COMPILED)
def test_compiled(operator: str, name: str, sizes: str) -> None:
    case = of(operator, name)
    model = tcpx.onnx.load(case.model(symbolic=sizes == "symbols"))
    agrees(tcpx.compile(model.module)(*(case.arguments[port.name] for port in model.inputs)), case)


LENGTH = 71
WHOLE = [
    ("MultiHeadAttention", [12, 12, 12], {"num_heads": 2}),
    ("MultiHeadAttention", [12, 12, 12], {"num_heads": 2, "unidirectional": 1}),
    ("GroupQueryAttention", [24, 8, 8], {"num_heads": 6, "kv_num_heads": 2}),
]


@pytest.mark.parametrize(("operator", "columns", "attributes"), WHOLE)
def test_no_array_of_all_queries_and_keys(operator: str, columns: list[int], attributes: dict[str, int]) -> None:
    """The default schedule finds the attention in it: scores are there block by block."""
    operands: list[Array | None] = [draw(1, LENGTH, n) for n in columns]
    if operator == "GroupQueryAttention":
        operands += [None, None, np.array([LENGTH - 1], np.int32), np.array([LENGTH], np.int32)]
    case = Case("", operator, operands, [draw(1)], attributes, stored=(6,))
    module = tcpx.onnx.load(case.model()).module
    assert _quadratic(module)
    assert not _quadratic(tcpx.apply_schedule(module, None).module)


def _quadratic(module: tcpx.Module) -> list[str]:
    """The operations whose result has as many rows as columns as the sequence."""
    ops = [op for func in module.funcs.values() for op in func.walk()]
    types = [(op, value.type) for op in ops for value in op.results]
    return [str(op) for op, t in types if isinstance(t, TensorType) and list(t.shape).count(LENGTH) > 1]


# ------------------------------------------------------------ what is not supported


def test_what_is_not_supported_is_listed() -> None:
    x, seen = draw(1, 2, 8), np.array([1], np.int32)
    text = ["strings"]
    nodes = [
        ("MultiHeadAttention", ["x", "x", "x", "", "", "", "", "", "n"], {"num_heads": 2}, ["a"]),
        ("MultiHeadAttention", ["x", "x", "x"], {"num_heads": 2}, ["b", "", "", "scores"]),
        ("Attention", ["x", "w"], {"num_heads": 2, "do_rotary": 1}, ["c"]),
        ("GroupQueryAttention", ["x", "x", "x", "", "", "n", "n"], {"num_heads": 2, "kv_num_heads": 2}, ["d"]),
        ("Tokenizer", ["x"], {}, text),
    ]
    protos = [helper.make_node(o, i, y, y[0], domain=DOMAIN, **a) for o, i, a, y in nodes]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in (("x", x), ("n", seen), ("w", draw(8, 24)))
    ]
    graph = helper.make_graph(protos[:3] + protos[4:], "g", infos, [])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    with pytest.raises(tcpx.TcpxError) as raised:
        _ = tcpx.onnx.load(helper.make_model(graph, opset_imports=opsets)).module
    assert raised.value.diagnostic.notes == (
        "MultiHeadAttention `a`: the operand `past_sequence_length`",
        "MultiHeadAttention `b`: result 3, `scores`",
        "Attention `c`: the attribute `do_rotary`",
        "Tokenizer `strings`: no operator com.microsoft.Tokenizer that is known here",
    )
    del graph.node[:]
    graph.node.append(protos[3])
    model = tcpx.onnx.load(helper.make_model(graph, opset_imports=opsets))
    assert model.needs == ("n",)


# ------------------------------------------------------------ what its optimizer writes


@ONNXRUNTIME.needed
def test_an_optimized_model(tmp_path: Path) -> None:
    optimizer: Any = import_module("onnxruntime.transformers.optimizer")
    path = tmp_path / "model.onnx"
    onnx.save(encoder(2), path)
    optimized = optimizer.optimize_model(str(path), model_type="bert", num_heads=HEADS, hidden_size=HIDDEN, opt_level=0)
    fused = tmp_path / "fused.onnx"
    optimized.save_model_to_file(str(fused))
    counts = optimized.get_fused_operator_statistics()
    assert (counts["Attention"], counts["SkipLayerNormalization"], counts["BiasGelu"]) == (2, 4, 2)
    rng, mask = np.random.default_rng(0), np.ones((3, 9), np.int64)
    mask[0, 5:] = 0
    ids = rng.integers(0, VOCABULARY, mask.shape)
    plain, other = (tcpx.onnx.load(p).module for p in (path, fused))
    for theirs, ours in zip(tcpx.evaluate(plain, ids, mask), tcpx.evaluate(other, ids, mask), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)

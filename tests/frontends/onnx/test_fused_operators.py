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
from tests.frontends.onnx.fused_attention import attention, causal, heads
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


def test_caches_of_attention_are_changed_in_place() -> None:
    """Some tokens at once, then one by one: each call writes behind what is used."""
    sizes = {"x": ["batch", "length", 12], "key": ["batch", 2, "past", 6], "value": ["batch", 2, "past", 6]}
    operands = ["x", "x", "x", "", "", "", "key", "value"]
    node = helper.make_node(
        "MultiHeadAttention",
        operands,
        ["y", "new_key", "new_value"],
        "node",
        domain=DOMAIN,
        num_heads=2,
        unidirectional=1,
    )
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in node.output]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    proto = helper.make_model(helper.make_graph([node], "step", inputs, outputs), opset_imports=opsets)
    model = tcpx.onnx.load(proto, state=True)
    assert [port.name for port in model.inputs] == ["past", "x", "key", "value"]
    kernel, x = tcpx.compile(model.module), draw(1, 7, 12)
    caches = [np.full((1, 2, 9, 6), np.nan, np.float32) for _ in range(2)]
    own = heads(x, 2)
    wanted = attention(own, own, own, keep=causal(7, 7))
    for start, end in ((0, 3), (3, 4), (4, 7)):
        found: Any = kernel(start, x[:, start:end], *caches)
        assert all(a is b for a, b in zip(found[1:], caches, strict=True))
        np.testing.assert_allclose(found[0], wanted[:, start:end], rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(caches[0][:, :, :7], own.astype(np.float32))
    assert all(np.isnan(cache[:, :, 7:]).all() for cache in caches), "nothing is written behind"
    with pytest.raises(tcpx.ArgumentError, match="the cache is full"):
        kernel(8, x[:, :2], *caches)


def grouped_step() -> onnx.ModelProto:
    """A step of a decoder, whose number of keys is the length of its mask."""
    shapes: dict[str, list[int | str]] = {
        "x": ["batch", "length", 32], "y": ["batch", "length", 16],
        "key": ["batch", 1, "past", 16], "value": ["batch", 1, "past", 16], "last": ["batch"],
        "mask": ["batch", "past + length"],
    }  # fmt: skip
    kinds = {"last": onnx.TensorProto.INT32, "mask": onnx.TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(k, kinds.get(k, onnx.TensorProto.FLOAT), v) for k, v in shapes.items()]
    names = ["z", "new_key", "new_value"]
    nodes = [
        helper.make_node("Shape", ["mask"], ["both"], start=1, end=2),
        helper.make_node("Cast", ["both"], ["total"], to=onnx.TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention", ["x", "y", "y", "key", "value", "last", "total"], names, "node",
            domain=DOMAIN, num_heads=2, kv_num_heads=1,
        ),
    ]  # fmt: skip
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(helper.make_graph(nodes, "step", inputs, outputs), opset_imports=opsets)


def test_caches_of_grouped_heads() -> None:
    """Sequences of several lengths have each their own end, so that none is where an argument ends."""
    model = tcpx.onnx.load(grouped_step(), state=True, sizes={"batch": 1})
    assert model.inputs[0].name == "past"
    assert "gather" not in model.module.text()
    with pytest.raises(tcpx.onnx.UnsupportedError, match=r"of several sequences: .* --size batch=1"):
        _ = tcpx.onnx.load(grouped_step(), state=True).module
    module = tcpx.onnx.load(grouped_step()).module
    x, y, old, last = draw(2, 1, 32), draw(2, 1, 16), draw(2, 1, 4, 16), np.array([4, 2], np.int32)
    found: Any = tcpx.evaluate(module, x, y, old, old, last, np.ones((2, 5), np.int64))
    whole = np.concatenate([old, np.zeros((2, 1, 1, 16))], 2)
    for b, at in enumerate(last):
        whole[b, 0, at:] = 0
        whole[b, 0, at] = y[b, 0]
    np.testing.assert_array_equal(found[1], whole.astype(np.float32))
    keep = np.arange(5) <= last[:, None, None, None]
    np.testing.assert_allclose(found[0], attention(heads(x, 2), whole, whole, keep=keep), rtol=2e-5, atol=2e-6)


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

"""A small decoder with a causal mask and caches, as exporters write it; also with its caches changed in place."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx.reference
import pytest

import tcpx
from tests.frontends.onnx.decoder import SIZE, decoder
from tests.frontends.onnx.models import loaded, model_of
from tests.frontends.onnx.transformer import HEADS, LONGEST, VOCABULARY

RNG = np.random.default_rng(2)


def tokens(batch: int, length: int) -> np.ndarray:
    return RNG.integers(0, VOCABULARY, (batch, length))


def reference(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Any:
    return onnx.reference.ReferenceEvaluator(model).run(None, arrays)


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 5), (1, LONGEST)])
def test_prefill(batch: int, length: int) -> None:
    model = decoder(cached=False)
    ids = tokens(batch, length)
    (wanted,) = reference(model, {"ids": ids})
    found: Any = tcpx.evaluate(tcpx.onnx.load(model).module, ids)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("batch", "past", "length"), [(1, 1, 1), (2, 5, 3), (1, LONGEST - 1, 1)])
def test_with_caches(batch: int, past: int, length: int) -> None:
    model = decoder(cached=True)
    held = tcpx.onnx.load(model)
    arrays = {"ids": tokens(batch, length)}
    for port in held.inputs[1:]:
        arrays[port.name] = RNG.standard_normal((batch, HEADS, past, SIZE), np.float32)
    wanted = reference(model, arrays)
    found: Any = tcpx.evaluate(held.module, *arrays.values())
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def decoded(kernel: Any, length: int, room: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The tokens of a decoder of two layers, some at once, then one by one; what it gives is compared."""
    ids = tokens(1, length)
    (wanted,) = reference(decoder(cached=False), {"ids": ids})
    caches = [np.full((1, HEADS, room, SIZE), np.nan, np.float32) for _ in range(4)]
    for start, end in ((0, 5), *((k, k + 1) for k in range(5, length))):
        logits, *after = kernel(start, ids[:, start:end], *caches)
        assert all(a is b for a, b in zip(after, caches, strict=True))
        np.testing.assert_allclose(np.asarray(logits, np.float32), wanted[:, start:end], rtol=1e-4, atol=1e-5)
    return ids, caches


def test_caches_are_changed_in_place() -> None:
    """Compiled: some tokens at once, then one by one, on caches that stay where they are, and are not copied."""
    held = tcpx.onnx.load(decoder(cached=True), state=True)
    assert [port.name for port in held.inputs[:2]] == ["past", "ids"]
    kernel = tcpx.compile(held.module)
    assert kernel.signature.functions == 1, "both layers are one function, which changes its caches"
    assert not [remark for remark in kernel.remarks if not remark.factor]
    source = "".join(kernel.sources.values())
    _, _, body = source[: source.index("\n}", source.index("size_t decoder_workspace("))].rpartition("SIZE_MAX;")
    assert body
    assert not re.search(r"\bcapacity\b", body), "the workspace has nothing of the size of a cache"
    ids, caches = decoded(kernel, LONGEST, LONGEST + 3)
    assert all(np.isnan(cache[:, :, LONGEST:]).all() for cache in caches), "nothing is written behind"
    with pytest.raises(tcpx.ArgumentError, match=r"the model has a table of 32 for past \+ sequence"):
        kernel(LONGEST - 1, ids[:, :2], *caches)
    with pytest.raises(tcpx.ArgumentError, match="the cache is full"):
        kernel(4, ids[:, :1], *(cache[:, :, :4].copy() for cache in caches))


def test_a_cache_of_one_capacity() -> None:
    held = tcpx.onnx.load(decoder(cached=True, layers=1), state={"past.0.key": "present.0.key"}, capacity=24)
    text = held.module.text()
    assert "%past.0.key: inout tensor<[batch]x2x24x8xf32>" in text
    assert "%past.0.value: tensor<[batch]x2x[past]x8xf32>" in text
    assert "any = [past + sequence <= 24]" in text
    ids, cache = tokens(2, 3), np.zeros((2, HEADS, 24, SIZE), np.float32)
    old = np.zeros((2, HEADS, 7, SIZE), np.float32)
    found: Any = tcpx.evaluate(held.module, np.array(7), ids, cache, old)
    wanted = reference(decoder(cached=True, layers=1), {"ids": ids, "past.0.key": old, "past.0.value": old})
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1][:, :, 7:10], wanted[1][:, :, 7:], rtol=1e-4, atol=1e-5)
    assert held.outputs == ("logits", "present.0.key", "present.0.value")


def test_a_capacity_below_the_table_of_positions() -> None:
    """The cache has room for half of what the table of positions has rows for: the tighter assertion is known."""
    held = tcpx.onnx.load(decoder(cached=True), state=True, capacity=LONGEST // 2)
    kernel = tcpx.compile(held.module)
    assert kernel.signature.functions == 1
    ids, caches = decoded(kernel, LONGEST // 2, LONGEST // 2)
    with pytest.raises(tcpx.ArgumentError, match="the cache is full"):
        kernel(LONGEST // 2, ids[:, :1], *caches)


STEP = """step (float[N, 4] x, float[N, 4] h, float[4, 4] w) => (float[N, 4] y, float[N, 4] hn) {
  a = MatMul(x, w)
  s = Add(a, h)
  hn = Tanh(s)
  y = Neg(hn)
}"""


def test_state_of_one_size() -> None:
    session = tcpx.onnx.Session(loaded(STEP, state={"h": "hn"}))
    x, h, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (3, 4), (4, 4)))
    wanted = np.tanh(x @ w + h)
    found: Any = session({"x": x, "h": h, "w": w})
    assert found["hn"] is h
    np.testing.assert_allclose(h, wanted, rtol=1e-5)
    np.testing.assert_allclose(found["y"], -wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"g": "hn"}, "there is no input `g`"),
        ({"h": "hm"}, "there is no output `hm`"),
        ({"w": "y"}, r"`y` does not fit where `w` lies"),
        ({"h": "hn", "w": "hn"}, "`hn` cannot lie in two places"),
        (True, "no output is an input with more behind it"),
    ],
)
def test_state_that_is_none(state: Any, message: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match=message):
        _ = loaded(STEP, state=state).module


def test_a_cache_of_one_length() -> None:
    text = "f (float[2, 3] c, float[N, 3] x) => (float y) { y = Concat <axis = 0> (c, x) }"
    with pytest.raises(tcpx.onnx.OnnxError, match="the cache `c` has one length"):
        _ = loaded(text, state=True).module


def test_dims_that_are_sums() -> None:
    """As exporters call the length of a mask: a call that has another one is refused."""
    model = model_of("""f (float[N, past] c, float[N, S] x, float[N, M] m) => (float y) {
      j = Concat <axis = 1> (c, x)
      y = Mul(j, m)
    }""")
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "past + S"
    module = tcpx.onnx.load(model).module
    assert str(module.main.args[2].type) == "tensor<[N]x[S + past]xf32>"
    c, x, m = (np.ones((2, n), np.float32) for n in (3, 4, 7))
    np.testing.assert_array_equal(tcpx.evaluate(module, c, x, m), np.ones((2, 7)))
    with pytest.raises(tcpx.ArgumentError, match="found: 6"):
        tcpx.evaluate(module, c, x, m[:, :6])
    assert str(tcpx.onnx.load(model, sizes={"past": 3}).module.main.args[2].type) == "tensor<[N]x[S + 3]xf32>"

"""A small encoder as exporters write it, with symbolic batch and length."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx.reference
import pytest

import tcpx
from tests.frontends.onnx.transformer import VOCABULARY, encoder

SIZES = [(1, 1), (2, 5), (3, 17)]


def check(layers: int, is_compiled: bool) -> None:
    model = encoder(layers)
    reference = onnx.reference.ReferenceEvaluator(model)
    module = tcpx.onnx.load(model).module
    run: Any = tcpx.compile(module) if is_compiled else partial(tcpx.evaluate, module)
    rng = np.random.default_rng(1)
    for batch, length in SIZES:
        mask = np.ones((batch, length), np.int64)
        mask[0, length // 2 + 1 :] = 0
        arrays = {"ids": rng.integers(0, VOCABULARY, (batch, length)), "mask": mask}
        wanted: Any = reference.run(None, arrays)
        for found, expected in zip(run(*arrays.values()), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


def test_two_layers() -> None:
    check(2, is_compiled=False)


def test_one_layer_compiled() -> None:
    check(1, is_compiled=True)


@pytest.mark.slow
def test_four_layers_compiled() -> None:
    check(4, is_compiled=True)


def test_a_person_reads_it() -> None:
    module = tcpx.onnx.load(encoder(1)).module
    text = module.text()
    assert "symbols [batch: 1.., sequence: 1..32]" in text, "as many positions as the table has"
    assert "tcp.mul(%Sub_19_output_0, -10000.0)" in text
    assert 'name "layer.0/attention/Softmax"' in text
    assert "min(" not in text
    heads = [op for op in module.main.body.ops if op.opcode == "tcp.reshape"]
    assert "tensor<[batch]x[sequence]x2x8xf32>" in {str(op.results[0].type) for op in heads}
    unread = [op for op in module.main.body.ops if op.results and not any(result.uses for result in op.results)]
    assert unread == []


def test_a_length_beyond_the_table_is_refused() -> None:
    module = tcpx.onnx.load(encoder(1)).module
    with pytest.raises(tcpx.ArgumentError, match=r"1\.\.32"):
        tcpx.evaluate(module, np.zeros((1, 33), np.int64), np.ones((1, 33), np.int64))

"""The schedules of `schedules/models/` on small models of their families, beside ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.reference
import pytest

import tcpx
from tcpx.installed import LIBRARY
from tests.frontends.onnx import decoder, transformer

MODELS = {"bert": transformer.encoder, "minilm": transformer.encoder, "gpt2": lambda: decoder.decoder(cached=False)}


def schedule(name: str) -> Any:
    return tcpx.load_schedule(LIBRARY / "models" / f"{name}.tcps")


@pytest.mark.parametrize("name", MODELS)
def test_every_statement_fits(name: str) -> None:
    """Nothing is refused, and nothing stays scalar beside vectors; the layers are one function."""
    module = tcpx.onnx.load(MODELS[name]()).module
    found = tcpx.check(schedule(name), module, target="x86_avx512")
    assert [d.message for d in found if d.kind.name in ("DEFINITE", "SILENCEABLE") or "one element" in d.message] == []
    made = tcpx.apply_schedule(module, schedule(name), target="x86_avx512").module
    assert len({callee.name for _, callee in made.main.calls()}) == 1


@pytest.mark.parametrize("name", MODELS)
def test_numbers(name: str) -> None:
    model = MODELS[name]()
    reference = onnx.reference.ReferenceEvaluator(model)
    kernel: Any = tcpx.compile(tcpx.onnx.load(model).module, schedule(name))
    draw = np.random.default_rng(1)
    for batch, length in ((1, 1), (2, 5), (3, 17)):
        arrays = {"ids": draw.integers(0, transformer.VOCABULARY, (batch, length))}
        if name != "gpt2":
            arrays["mask"] = np.ones((batch, length), np.int64)
            arrays["mask"][0, length // 2 + 1 :] = 0
        given = {port.name: array for port, array in zip(model.graph.input, arrays.values(), strict=True)}
        results = kernel(*given.values())
        ours = results if isinstance(results, tuple) else (results,)
        theirs: Any = reference.run(None, given)
        for found, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

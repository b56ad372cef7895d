"""Twelve models in full size, each exported by PyTorch in four ways: their schedules apply to all, by the same files of
the library."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.installed import LIBRARY
from tests.frontends.onnx.test_model_schedules_again import OF_BATCHES
from tests.optional_tools import ONNXSCRIPT, TORCH, TRANSFORMERS

pytestmark = [
    pytest.mark.slow,
    TORCH.needed,
    ONNXSCRIPT.needed,
    TRANSFORMERS.needed,
    pytest.mark.filterwarnings("ignore"),  # of the exporters
]

NAMES = (
    *("resnet50", "mobilenetv2", "efficientnet", "convnext", "unet", "vit"),
    *("wav2vec2", "bert", "minilm", "distilbert", "gpt2", "llama"),
)
SMALL = {*OF_BATCHES, "windows.tcps", "gathered.tcps"}
"""Files whose recipes depend on whether the batch is known, or on how an exporter writes masks and copies."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_every_export_has_the_same_recipes(name: str, tmp_path: Path) -> None:
    full: Any = import_module("tests.frontends.onnx.full_models")
    model = full.built(name)
    schedule = tcpx.load_schedule(LIBRARY / "models" / f"{full.MODELS[name].schedule}.tcps")
    found: list[set[str]] = []
    for way in full.WAYS:
        module = tcpx.onnx.load(full.export(model, name, way, tmp_path)).module
        source = tcpx.emit(module, schedule).c_source
        assert source is not None
        found.append(set(re.findall(r"/\* [^*]*? \((\w+\.tcps):\d+\) \*/", source)) - SMALL)
    assert found[0]
    assert all(other == found[0] for other in found)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_numbers(name: str, tmp_path: Path) -> None:
    torch, full = import_module("torch"), import_module("tests.frontends.onnx.full_models")
    model = full.built(name)
    schedule = tcpx.load_schedule(LIBRARY / "models" / f"{full.MODELS[name].schedule}.tcps")
    kernel: Any = tcpx.compile(tcpx.onnx.load(full.export(model, name, full.WAYS[3], tmp_path)).module, schedule)
    for batch in (1, 3):
        x = full.operand(full.MODELS[name], batch)
        with torch.no_grad():
            wanted = model(x).numpy()
        np.testing.assert_allclose(kernel(x.numpy()), wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
